"""The parameter `class_weight` of classifiers."""

from __future__ import annotations

import numpy as np
import pytest

import hybridtrees as ht

CLASSIFIERS = {
    "adaboost": lambda **own: ht.AdaBoostClassifier(n_estimators=5, max_depth=2, **own),
    "cart": lambda **own: ht.CARTClassifier(max_depth=4, **own),
    # With a bootstrap, a forest draws rows by sample_weight, but not by class_weight.
    "forest": lambda **own: ht.RandomForestClassifier(
        5, bootstrap=False, max_depth=4, random_state=0, **own
    ),
    "extra_trees": lambda **own: ht.ExtraTreesClassifier(5, max_depth=4, random_state=0, **own),
    "gb": lambda **own: ht.GradientBoostingClassifier(
        n_estimators=60, learning_rate=0.5, n_iter_no_change=2, random_state=0, **own
    ),
    "xgb": lambda **own: ht.XGBClassifier(n_estimators=5, **own),
    "xgb_forest": lambda **own: ht.XGBRFClassifier(n_estimators=5, random_state=0, **own),
    "plgb": lambda **own: ht.PLGBClassifier(n_estimators=5, **own),
    "logistic": lambda **own: ht.LogisticClassifier(alpha=0.1, alpha_scaling="sum", **own),
    "linear_tree": lambda **own: ht.LinearTreeClassifier(max_depth=2, **own),
    "linear_forest": lambda **own: ht.LinearForestClassifier(3, max_depth=2, random_state=0, **own),
    "rerf": lambda **own: ht.RERFClassifier(5, random_state=0, **own),
    "eblr": lambda **own: ht.EBLRClassifier(
        n_rules=4, early_stopping="validation", random_state=0, **own
    ),
    "auto": lambda **own: ht.AutoClassifier(quality=1, random_state=0, **own),
    "mixture": lambda **own: ht.MixtureOfExpertsClassifier(
        n_restarts=1, max_iter=1000, random_state=0, **own
    ),
    "bagged_trees": lambda **own: ht.BaggingClassifier(n_estimators=5, random_state=0, **own),
    "bagging": lambda **own: ht.BaggingClassifier(
        ht.LogisticClassifier(), 3, random_state=0, bootstrap=False, max_samples=0.8, **own
    ),
    "pasted_trees": lambda **own: ht.PastingClassifier(
        n_estimators=5, precinct_size=80, voting="soft", random_state=0, **own
    ),
    "pasting": lambda **own: ht.PastingClassifier(
        ht.LogisticClassifier(), 3, precinct_size=80, voting="soft", random_state=0, **own
    ),
    "voting": lambda **own: ht.VotingClassifier(
        members(), voting="soft", weights="validation", random_state=0, **own
    ),
    "stacking": lambda **own: ht.StackingClassifier(members(), random_state=0, **own),
    "average": lambda **own: ht.ModelAverageClassifier(members(), random_state=0, **own),
}


def members():
    return [("line", ht.LogisticClassifier()), ("tree", ht.CARTClassifier(max_depth=3))]


FITS = []


class Counted(ht.LogisticClassifier):
    """A model that tells of its fits."""

    def fit(self, X, y, sample_weight=None):
        FITS.append(self)
        return super().fit(X, y, sample_weight)


class Unweighted(Counted):
    """One whose fit takes no weights."""

    def fit(self, X, y):
        return super().fit(X, y)


@pytest.fixture(scope="module", params=[2, 3])
def table(request):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((240, 4))
    score = X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(240)
    codes = np.digitize(score, [0.8] if request.param == 2 else [-0.8, 1.5])
    return X, np.array(["a", "b", "c"])[codes], rng.exponential(size=240)


def test_every_classifier_has_it():
    public = {getattr(ht, name) for name in ht.__all__ if name.endswith("Classifier")}
    assert public == {type(make()) for make in CLASSIFIERS.values()}
    for cls in public:
        assert cls().class_weight is None
        assert "class_weight" in cls().get_params()


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("kind", ["balanced", "dict"])
def test_equals_sample_weight(name, kind, table):
    X, y, weight = table
    labels, counts = np.unique(y, return_counts=True)
    if kind == "dict":
        given = {"b": 3.0}
        factor = np.where(y == "b", 3.0, 1.0)
    else:
        given = "balanced"
        factor = (len(y) / (len(labels) * counts))[np.searchsorted(labels, y)]
    make = CLASSIFIERS[name]
    for own in (None, weight):
        model = make(class_weight=given, n_jobs=1).fit(X, y, own)
        other = make(n_jobs=1).fit(X, y, factor if own is None else own * factor)
        np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))
        plain = make(n_jobs=1).fit(X, y, own)
        assert not np.array_equal(plain.predict_proba(X), other.predict_proba(X))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_wrong_values_are_refused(name, table):
    X, y, _ = table
    for given, words in (
        ("even", "class_weight must be None, 'balanced'"),
        ({"a": -1.0}, "class_weight must hold finite numbers of at least 0"),
        ({"z": 2.0}, "class_weight names 'z'"),
        (dict.fromkeys("abc", 0.0), "class_weight leaves no row with a positive weight"),
    ):
        with pytest.raises(ValueError, match=words):
            CLASSIFIERS[name](class_weight=given).fit(X, y)


def test_beside_scale_pos_weight(table):
    X, y, _ = table
    y = y == "b"
    both = ht.XGBClassifier(n_estimators=5, scale_pos_weight=2, class_weight={False: 0.5})
    alone = ht.XGBClassifier(n_estimators=5, scale_pos_weight=2)
    expected = alone.fit(X, y, np.where(y, 1.0, 0.5)).predict_proba(X)
    np.testing.assert_array_equal(both.fit(X, y).predict_proba(X), expected)


@pytest.mark.parametrize("kind", ["dict", "balanced"])
def test_batches_weigh_as_the_table(table, kind):
    X, y, weight = table
    given = {"b": 3.0} if kind == "dict" else kind
    order = np.argsort(y, kind="stable")  # a batch shows one class, or two
    X, y, weight = X[order], y[order], weight[order]
    parts = np.array_split(np.arange(len(y)), 3)
    batches = [(X[rows], y[rows], weight[rows]) for rows in parts]
    make = lambda: CLASSIFIERS["pasted_trees"](class_weight=given)  # noqa: E731
    expected = make().fit(X, y, weight).predict_proba(X)
    np.testing.assert_array_equal(make().fit_batches(batches).predict_proba(X), expected)
    plain = CLASSIFIERS["pasted_trees"]().fit_batches(batches).predict_proba(X)
    assert not np.array_equal(plain, expected)


def test_members_without_weights_are_refused_before_any_fit(table):
    X, y, _ = table
    mixed = [("line", Counted()), ("plain", Unweighted())]
    last = Unweighted()
    FITS.clear()
    for model, words in (
        (ht.VotingClassifier(mixed), "the member 'plain' is a Unweighted"),
        (ht.StackingClassifier(mixed), "the member 'plain' is a Unweighted"),
        (ht.StackingClassifier(mixed[:1], last), "final_estimator is a Unweighted"),
        (ht.ModelAverageClassifier(mixed), "the member 'plain' is a Unweighted"),
        (ht.BaggingClassifier(last, bootstrap=False), "estimator is a Unweighted"),
    ):
        words += f".*which class_weight of {type(model).__name__} needs"
        with pytest.raises(ValueError, match=words):
            model.set_params(class_weight="balanced").fit(X, y)
        assert not hasattr(model, "classes_")  # a failed fit leaves nothing
    assert not FITS


def test_members_without_weights_of_drawn_rows(table):
    X, y, _ = table
    factor = np.where(y == "b", 5.0, 1.0)
    for make in (ht.BaggingClassifier, ht.PastingClassifier):
        own = {"random_state": 0, "n_estimators": 4}
        found = make(Unweighted(), class_weight={"b": 5.0}, **own).fit(X, y).predict_proba(X)
        expected = make(Unweighted(), **own).fit(X, y, factor).predict_proba(X)
        np.testing.assert_array_equal(found, expected)


def test_fitted_members_need_no_weights(table):
    X, y, _ = table
    members = [("plain", Unweighted().fit(X, y))]
    model = ht.StackingClassifier(members, cv="prefit", class_weight="balanced").fit(X, y)
    assert model.score(X, y) > 0.5


def test_beside_the_weights_of_members(table):
    X, y, _ = table
    line = ht.LogisticClassifier(class_weight={"b": 2.0})
    both = ht.VotingClassifier([("line", line)], voting="soft", class_weight={"b": 3.0})
    alone = ht.LogisticClassifier(class_weight={"b": 6.0})
    np.testing.assert_allclose(
        both.fit(X, y).predict_proba(X), alone.fit(X, y).predict_proba(X), rtol=1e-6
    )
