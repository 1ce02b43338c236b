"""Voting: equal to scikit-learn's where both do the same, and what is our own."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from ensembles.named_members import classifiers, labels_of, regressors

import hybridtrees as ht
from hybridtrees._parameters import clone
from hybridtrees.ensembles.voting import weighted_median

# ---- Peers ------------------------------------------------------------------------------------


@pytest.mark.peer
@pytest.mark.parametrize("weights", [None, [2, 1, 0.5]])
def test_regressor_equals_scikit_learn(rows, weights):
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = rows
    w = np.random.default_rng(0).integers(1, 4, len(y))
    ours = ht.VotingRegressor(regressors(), weights=weights).fit(X, y, w)
    theirs = ensemble.VotingRegressor(regressors(), weights=weights).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-8)
    np.testing.assert_array_equal(ours.transform(X), theirs.transform(X))
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())


@pytest.mark.peer
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("voting", ["hard", "soft"])
@pytest.mark.parametrize("weights", [None, [2, 1, 2]])
def test_classifier_equals_scikit_learn(rows, n_classes, voting, weights):
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = rows
    labels = labels_of(y, n_classes)
    given = {"voting": voting, "weights": weights}
    ours = ht.VotingClassifier(classifiers(), **given).fit(X, labels)
    theirs = ensemble.VotingClassifier(classifiers(), **given).fit(X, labels)
    assert (ours.predict(X) == theirs.predict(X)).all()
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-12)
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())
    if voting == "soft":
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
        ours.flatten_transform = theirs.flatten_transform = False
        np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-12)
    else:
        assert not hasattr(ours, "predict_proba") and not hasattr(ours, "predict_log_proba")


# ---- Averages ---------------------------------------------------------------------------------


def slow_weighted_median(values, weights):
    """The value at which half the weight is reached, by a walk along the sorted values."""
    pairs = sorted((v, w) for v, w in zip(values, weights, strict=True) if w > 0)
    half, reached = sum(w for _, w in pairs) / 2, 0.0
    for k, (value, weight) in enumerate(pairs):
        reached += weight
        if abs(reached - half) < 1e-9:
            return (value + pairs[k + 1][0]) / 2
        if reached > half:
            return value
    raise AssertionError


def test_weighted_median(rng):
    values = rng.normal(size=(50, 6)).round(1)
    for weights in (np.ones(6), rng.integers(0, 4, 6) + (np.arange(6) == 2), rng.random(6)):
        expected = [slow_weighted_median(row, weights) for row in values]
        np.testing.assert_allclose(weighted_median(values, weights / weights.sum()), expected)
    equal = np.full(6, 1 / 6)
    np.testing.assert_allclose(weighted_median(values, equal), np.median(values, axis=1))


def test_the_median_is_not_moved_by_one_member(rows):
    X, y = rows
    mad = ht.LinearRegressor().fit(X, 1000 * y)
    good = [("a", ht.LinearRegressor()), ("b", ht.CARTRegressor(max_depth=4, random_state=0))]
    model = ht.VotingRegressor([*good, ("c", mad)], average="median").fit(X, y)
    model.estimators_[2] = mad
    assert np.abs(model.predict(X) - y).max() < 5


# ---- Weights by validation --------------------------------------------------------------------


def halves(n):
    return [(np.arange(n // 2), np.arange(n // 2, n)), (np.arange(n // 2, n), np.arange(n // 2))]


def test_weights_of_regressors_are_inverse_squared_errors(rows):
    X, y = rows
    w = np.random.default_rng(0).random(len(y)) + 0.1
    model = ht.VotingRegressor(regressors(), weights="validation", cv=halves(len(y)))
    model.fit(X, y, w)
    errors = []
    for _, member in regressors():
        said = np.empty(len(y))
        for train, test in halves(len(y)):
            said[test] = clone(member).fit(X[train], y[train], w[train]).predict(X[test])
        errors.append(np.average((said - y) ** 2, weights=w))
    expected = 1 / np.array(errors)
    np.testing.assert_allclose(model.weights_, expected / expected.sum(), rtol=1e-9)


def test_weights_of_classifiers_are_log_odds(rows):
    X, y = rows
    labels = labels_of(y, 3)
    model = ht.VotingClassifier(classifiers(), weights="validation", cv=halves(len(y)))
    model.fit(X, labels)
    wrong = []
    for _, member in classifiers():
        said = labels.copy()
        for train, test in halves(len(y)):
            said[test] = clone(member).fit(X[train], labels[train]).predict(X[test])
        wrong.append(np.mean(said != labels))
    wrong = np.array(wrong)
    expected = np.log((1 - wrong) / wrong * 2)
    np.testing.assert_allclose(model.weights_, expected / expected.sum(), rtol=1e-9)


def test_members_no_better_than_a_guess_do_not_vote(rng):
    X = rng.normal(size=(300, 3))
    labels = X[:, 0] > 0
    blind = ht.CARTClassifier(max_depth=1, min_samples_leaf=140)
    members = [("line", ht.LogisticClassifier()), ("blind", blind)]
    model = ht.VotingClassifier(members, weights="validation").fit(X, labels)
    assert model.weights_[0] > 0.5
    # A perfect member does not take all the weight: half a row may be wrong.
    assert np.isfinite(model.weights_).all()


def test_weights_of_rows_that_are_shares_count_all_rows(rng):
    X = rng.normal(size=(200, 3))
    labels = X[:, 0] + 0.3 * rng.normal(size=200) > 0
    members = [("line", ht.LogisticClassifier()), ("stump", ht.CARTClassifier(max_depth=1))]
    model = ht.VotingClassifier(members, weights="validation", random_state=0)
    plain = model.fit(X, labels).weights_
    assert plain[0] != plain[1]
    shares = model.fit(X, labels, sample_weight=np.full(200, 1 / 200)).weights_
    np.testing.assert_allclose(shares, plain, rtol=1e-6)


def test_a_member_that_remembers_gets_no_weight_for_it(rng):
    """Rows are predicted by members that have not seen them."""
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + rng.normal(size=200)
    members = [("line", ht.LinearRegressor()), ("memory", ht.CARTRegressor())]
    model = ht.VotingRegressor(members, weights="validation").fit(X, y)
    assert model.named_estimators_["memory"].score(X, y) == pytest.approx(1)
    assert model.weights_[0] > 0.6


# ---- Parameters -------------------------------------------------------------------------------


def test_members_by_name(rows):
    X, y = rows
    model = ht.VotingRegressor(regressors(), weights=[1, 2, 3])
    assert model.get_params()["tree__max_depth"] == 4
    assert "tree" not in model.get_params(deep=False)
    model.set_params(tree__max_depth=2, forest="drop")
    model.fit(X, y)
    assert list(model.named_estimators_) == ["line", "tree"]
    np.testing.assert_allclose(model.weights_, [1 / 3, 2 / 3])
    assert model.named_estimators_["tree"].tree_.depth == 2
    copy = clone(model)
    assert copy.get_params()["forest"] == "drop" and not hasattr(copy, "estimators_")
    model.set_params(forest=ht.CARTRegressor(), line__penalty="ridge").fit(X, y)
    assert type(model.named_estimators_["forest"]) is ht.CARTRegressor
    assert model.named_estimators_["line"].penalty == "ridge"
    with pytest.raises(ValueError, match="Invalid parameter 'nobody'"):
        model.set_params(nobody__depth=1)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"estimators": []}, ValueError, "at least one"),
        ({"estimators": [("a", ht.LinearRegressor)]}, TypeError, "must be an estimator with"),
        ({"estimators": [("a", ht.LogisticClassifier())]}, TypeError, "must be a regressor"),
        ({"estimators": [("a", "drop")]}, ValueError, "all estimators are dropped"),
        ({"estimators": [("weights", ht.LinearRegressor())]}, ValueError, "that of a parameter"),
        ({"weights": [1, 2]}, ValueError, "one number for each of the 3 estimators, got 2"),
        ({"weights": [1, -1, 0]}, ValueError, "weights must be a real number of at least 0"),
        ({"weights": [0, 0, 0]}, ValueError, "a positive number"),
        ({"weights": "best"}, ValueError, "a number for each estimator or None, got 'best'"),
        ({"average": "mode"}, ValueError, "one of 'mean', 'median'"),
        ({"n_jobs": "two"}, TypeError, "n_jobs"),
        ({"verbose": -1}, ValueError, "verbose"),
        ({"weights": "validation", "cv": 1}, ValueError, "cv must be"),
    ],
)
def test_wrong_parameters(rows, given, error, message):
    model = ht.VotingRegressor(**{"estimators": regressors(), **given})
    with pytest.raises(error, match=message):
        model.fit(*rows)
    assert not hasattr(model, "estimators_")


def test_soft_votes_need_probabilities(rows):
    class Silent:
        _estimator_type = "classifier"

        def fit(self, X, y): ...
        def predict(self, X): ...
        def get_params(self, deep=True): return {}  # fmt: skip

    X, y = rows
    model = ht.VotingClassifier([("silent", Silent())], voting="soft")
    with pytest.raises(ValueError, match="'silent' is a Silent, which has no predict_proba"):
        model.fit(X, y > 0)


def test_weights_of_rows_need_members_that_take_them(rows):
    class Unweighted(ht.LinearRegressor):
        def fit(self, X, y):
            return super().fit(X, y)

    with pytest.raises(ValueError, match="the member 'u' is a Unweighted, whose fit takes no"):
        ht.VotingRegressor([("u", Unweighted())]).fit(*rows, np.arange(240) + 1.0)


# ---- Tables, files, threads -------------------------------------------------------------------


def test_text_columns_and_missing_values(rng, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": rng.normal(size=200), "c": rng.choice(["u", "v", "w"], 200)})
    y = frame["x"] + (frame["c"] == "u")
    frame.loc[::9, "x"] = np.nan
    for weights in (None, "validation"):
        model = ht.VotingRegressor(regressors(), weights=weights).fit(frame, y)
        assert model.score(frame, y) > 0.5
        assert list(model.feature_names_in_) == ["x", "c"]
        model.save(tmp_path / "model")
        again = ht.load(tmp_path / "model")
        assert (again.predict(frame) == model.predict(frame)).all()
        assert (pickle.loads(pickle.dumps(model)).predict(frame) == model.predict(frame)).all()


def test_any_number_of_threads(rows):
    X, y = rows
    members = [*regressors(), ("seedless", ht.RandomForestRegressor(n_estimators=5))]
    one, two, other = (
        ht.VotingRegressor(members, weights="validation", random_state=seed, n_jobs=n_jobs)
        .fit(X, y)
        .predict(X)
        for n_jobs, seed in ((1, 3), (2, 3), (1, 4))
    )
    assert (one == two).all() and (one != other).any()


def test_progress(rows, capsys):
    ht.VotingRegressor(regressors()[:2], weights="validation", cv=2, verbose=1).fit(*rows)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and any("[tree]  fold 2 of 2" in line for line in lines)


def test_fitted_models_are_joined(rows):
    X, y = rows
    fitted = [(name, member.fit(X, y)) for name, member in regressors()]
    joined = ht.VotingRegressor.of_fitted(fitted, [1, 1, 2])
    again = ht.VotingRegressor(regressors(), weights=[1, 1, 2]).fit(X, y)
    np.testing.assert_allclose(joined.predict(X), again.predict(X))
    assert joined.estimators_[0] is fitted[0][1]


def test_a_damaged_model_is_refused(rows):
    X, y = rows
    model = ht.VotingRegressor(regressors()).fit(X, y)
    for damage in ({"weights_": np.ones(2)}, {"_names": ["a"]}, {"estimators_": [1, 2, 3]},
                   {"n_features_in_": 7}, {"weights_": np.array([0.5, -1, 1.5])}):  # fmt: skip
        state = {**model.__getstate__(), **damage}
        with pytest.raises(ValueError):  # noqa: PT011 - which error does not matter
            ht.VotingRegressor().__setstate__(state)
