"""Stacking: equal to scikit-learn's on equal folds, no leaks, every kind of table."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from ensembles.named_members import classifiers, labels_of, regressors

import hybridtrees as ht
from hybridtrees._parameters import clone
from hybridtrees.core.bins import shared


def some_folds(n, k=4):
    fold = np.random.default_rng(5).permutation(n) % k
    return [(np.flatnonzero(fold != j), np.flatnonzero(fold == j)) for j in range(k)]


# ---- Peers ------------------------------------------------------------------------------------


@pytest.mark.peer
@pytest.mark.parametrize("passthrough", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_regressor_equals_scikit_learn(rows, passthrough, weighted):
    ensemble = pytest.importorskip("sklearn.ensemble")
    from sklearn.linear_model import Ridge
    from sklearn.tree import DecisionTreeRegressor

    X, y = rows
    w = np.random.default_rng(0).random(len(y)) + 0.1 if weighted else None
    members = [("r", Ridge()), ("t", DecisionTreeRegressor(max_depth=4, random_state=0))]
    given = {"final_estimator": Ridge(), "cv": some_folds(240), "passthrough": passthrough}
    ours = ht.StackingRegressor(members, **given).fit(X, y, sample_weight=w)
    theirs = ensemble.StackingRegressor(members, **given).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-8)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-12)
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())
    assert ours.stack_method_ == theirs.stack_method_


@pytest.mark.peer
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("method", ["auto", "predict", "predict_proba"])
def test_classifier_equals_scikit_learn(rows, n_classes, method):
    ensemble = pytest.importorskip("sklearn.ensemble")
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC
    from sklearn.tree import DecisionTreeClassifier

    X, y = rows
    labels = labels_of(y, n_classes)
    members = [("r", LogisticRegression()), ("t", DecisionTreeClassifier(max_depth=3))]
    members[1][1].random_state = 0
    if method == "auto":  # takes the scores of what has no probabilities
        members.append(("s", LinearSVC(random_state=0)))
    final = LogisticRegression()
    given = {"final_estimator": final, "cv": some_folds(240), "stack_method": method}
    ours = ht.StackingClassifier(members, **given).fit(X, labels)
    theirs = ensemble.StackingClassifier(members, **given).fit(X, labels)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), rtol=1e-7, atol=1e-8
    )
    assert (ours.predict(X) == theirs.predict(X)).all()
    assert ours.transform(X).shape == theirs.transform(X).shape
    assert ours.stack_method_ == theirs.stack_method_
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())


@pytest.mark.peer
def test_ours_within_scikit_learn(rows):
    """Our stacks are clones, members and steps of scikit-learn's tools."""
    pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = rows
    stack = ht.StackingRegressor(regressors()[:2], cv=3)
    found = GridSearchCV(stack, {"tree__max_depth": [1, 4], "line": ["drop"]}, cv=2).fit(X, y)
    assert found.best_params_["tree__max_depth"] == 4
    assert make_pipeline(StandardScaler(), stack).fit(X, y).score(X, y) > 0.7
    outer = ht.StackingRegressor([("inner", stack), ("line", ht.LinearRegressor())], cv=2)
    assert outer.fit(X, y).get_params()["inner__tree__max_depth"] == 4


# ---- Out-of-fold predictions ------------------------------------------------------------------


def test_the_final_model_learns_from_rows_that_members_have_not_seen(rows):
    X, y = rows
    folds = some_folds(len(y))
    model = ht.StackingRegressor(regressors(), ht.LinearRegressor(), cv=folds).fit(X, y)
    told = np.empty((len(y), 3))
    for k, (_, member) in enumerate(regressors()):
        for train, test in folds:
            told[test, k] = clone(member).fit(X[train], y[train]).predict(X[test])
    final = ht.LinearRegressor().fit(told, y)
    np.testing.assert_allclose(model.final_estimator_.coef_, final.coef_, rtol=1e-9)
    assert model.final_estimator_.n_features_in_ == 3 and model.n_features_in_ == 4


def test_a_planted_leak_does_not_help(rng):
    """A member that remembers its rows is worth nothing; fitted to its own answers, it is all."""
    n = 300
    X = np.column_stack([rng.normal(size=(n, 2)), np.arange(n)])  # the last column names the row
    y = X[:, 0] + 0.5 * rng.normal(size=n)
    memory = ht.CARTRegressor(max_features=None, random_state=0)
    members = [("line", ht.LinearRegressor()), ("memory", memory)]
    final = ht.LinearRegressor()
    honest = ht.StackingRegressor(members, final).fit(X, y)
    line, remembered = honest.final_estimator_.coef_
    assert line > 0.7 and abs(remembered) < 0.3
    assert honest.estimators_[1].score(X, y) == pytest.approx(1)
    fitted = [(name, clone(member).fit(X, y)) for name, member in members]
    leaking = ht.StackingRegressor(fitted, final, cv="prefit").fit(X, y)
    assert leaking.final_estimator_.coef_[1] > 0.99
    fresh = np.column_stack([rng.normal(size=(n, 2)), rng.permutation(n)])
    truth = fresh[:, 0]
    assert honest.score(fresh, truth) > leaking.score(fresh, truth) + 0.1


def test_groups_are_not_divided(rng):
    """The same row several times in a group: remembered if the folds divide the group."""
    group = np.repeat(np.arange(40), 6)
    X = rng.normal(size=(40, 2))[group]
    y = rng.normal(size=40)[group]  # nothing to learn but the groups
    members = [("memory", ht.CARTRegressor(random_state=0))]
    loose = ht.StackingRegressor(members, ht.LinearRegressor()).fit(X, y)
    whole = ht.StackingRegressor(members, ht.LinearRegressor()).fit(X, y, groups=group)
    assert loose.final_estimator_.coef_[0] > 0.9
    assert abs(whole.final_estimator_.coef_[0]) < 0.5


def test_time_order(rng):
    n = 240
    when = rng.permutation(n).astype(float)
    X, y = np.column_stack([when, rng.normal(size=n)]), rng.normal(size=n)
    seen = []

    class Watching(ht.LinearRegressor):
        def fit(self, X, y, sample_weight=None):
            seen.append(X[:, 0].max())
            return super().fit(X, y, sample_weight)

        def predict(self, X):
            seen.append(-X[:, 0].min())
            return super().predict(X)

    rows = []

    class Final(ht.LinearRegressor):
        def fit(self, X, y, sample_weight=None):
            rows.append(len(y))
            return super().fit(X, y, sample_weight)

    ht.StackingRegressor([("w", Watching())], Final(), cv=3, n_jobs=1).fit(X, y, time=when)
    latest, earliest = seen[1::2], [-value for value in seen[2::2]]
    assert len(latest) == 3 and all(a < b for a, b in zip(latest, earliest, strict=True))
    # The first of four stretches has no prediction, and does not train the final model.
    assert rows == [180]


def test_rows_predicted_twice_count_by_their_mean(rows):
    X, y = rows
    twice = [*some_folds(240, 3), *some_folds(240, 4)]
    model = ht.StackingRegressor(regressors()[:1], ht.LinearRegressor(), cv=twice).fit(X, y)
    told = np.mean(
        [
            np.concatenate([ht.LinearRegressor().fit(X[a], y[a]).predict(X[b]) for a, b in folds])[
                np.argsort(np.concatenate([b for _, b in folds]))
            ]
            for folds in (twice[:3], twice[3:])
        ],
        axis=0,
    )
    final = ht.LinearRegressor().fit(told[:, None], y)
    np.testing.assert_allclose(model.final_estimator_.coef_, final.coef_, rtol=1e-9)
    labels = ht.StackingClassifier(classifiers()[:2], cv=twice, stack_method="predict")
    with pytest.raises(ValueError, match="labels have no mean"):
        labels.fit(X, y > 0)


def test_members_of_a_fold_share_bins(rows, monkeypatch):
    made = []
    monkeypatch.setattr(
        shared.BinStore,
        "fetch",
        lambda self, *given, old=shared.BinStore.fetch: (
            made.append(self) if self not in made else None,
            old(self, *given),
        )[1],
    )
    members = [("a", ht.XGBRegressor(n_estimators=2)), ("b", ht.XGBRegressor(n_estimators=3))]
    ht.StackingRegressor(members, cv=3, n_jobs=1).fit(*rows)
    assert [(store.n_made, store.n_found) for store in made] == [(1, 1)] * 4


def test_a_class_that_a_fold_has_not_trained(rows):
    X, y = rows
    labels = labels_of(y, 2).astype(object)
    labels[:2] = "rare"
    folds = [(np.arange(2, 240), np.arange(2)), (np.arange(0, 120), np.arange(120, 240))]
    model = ht.StackingClassifier(classifiers()[1:2], ht.CARTClassifier(), cv=folds).fit(X, labels)
    assert model.transform(X).shape == (240, 3)
    assert set(model.classes_) == {"low", "mid", "rare"}
    assert model.predict_proba(X).shape == (240, 3)


# ---- Tables -----------------------------------------------------------------------------------


def mixed_table(rng, n=200):
    x, colour = rng.normal(size=n), rng.choice(["red", "green", "blue"], n)
    y = x + 2 * (colour == "red")
    x = np.where(rng.random(n) < 0.1, np.nan, x)
    return {"x": x, "colour": colour.astype(object)}, y


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "dict"])
@pytest.mark.parametrize("passthrough", [False, True])
def test_text_columns(rng, kind, passthrough, tmp_path):
    table, y = mixed_table(rng)
    if kind == "pandas":
        pd = pytest.importorskip("pandas")
        table = pd.DataFrame(table, index=np.arange(200) + 7)
    elif kind == "polars":
        table = pytest.importorskip("polars").DataFrame(table)
    elif kind == "pyarrow":
        table = pytest.importorskip("pyarrow").table(table)
    model = ht.StackingRegressor(regressors(), cv=3, passthrough=passthrough).fit(table, y)
    assert model.score(table, y) > 0.6
    columns = model.transform(table)
    if passthrough:
        assert type(columns) is type(table)
        names = list(getattr(columns, "column_names", getattr(columns, "columns", columns)))
        assert names == ["line", "tree", "forest", "x", "colour"]
        assert list(model.final_estimator_.feature_names_in_) == names
    else:
        assert columns.shape == (200, 3)
    model.save(tmp_path / "model")
    again = ht.load(tmp_path / "model")
    assert (again.predict(table) == model.predict(table)).all()


@pytest.mark.parametrize("passthrough", [False, True])
def test_sparse_tables(rng, passthrough):
    from scipy import sparse

    X = sparse.random(200, 6, 0.3, "csr", random_state=0)
    y = X.toarray()[:, 0] + X.toarray()[:, 1]
    given = {"cv": 3, "passthrough": passthrough}
    model = ht.StackingRegressor(regressors()[:2], ht.LinearRegressor(), **given).fit(X, y)
    dense = ht.StackingRegressor(regressors()[:2], ht.LinearRegressor(), **given)
    dense.fit(X.toarray(), y)
    np.testing.assert_allclose(model.predict(X), dense.predict(X.toarray()), atol=1e-8)
    assert sparse.issparse(model.transform(X)) == passthrough


def test_a_member_called_as_a_column(rng):
    pd = pytest.importorskip("pandas")
    table, y = mixed_table(rng)
    model = ht.StackingRegressor([("x", ht.LinearRegressor())], passthrough=True)
    with pytest.raises(ValueError, match="other names than the columns of X, got 'x' twice"):
        model.fit(pd.DataFrame(table), y)
    assert not hasattr(model, "estimators_")


def test_set_output(rows):
    pd = pytest.importorskip("pandas")
    X, y = rows
    model = ht.StackingRegressor(regressors()[:2], cv=2).set_output(transform="pandas").fit(X, y)
    frame = model.transform(X)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["stackingregressor_line", "stackingregressor_tree"]


# ---- Parameters, files, threads ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"final_estimator": ht.LogisticClassifier()}, TypeError, "final_estimator of Stacking"),
        ({"final_estimator": "ridge"}, TypeError, "final_estimator must be an estimator"),
        ({"cv": 1}, ValueError, "cv must be an integer of at least 2"),
        ({"cv": "fit"}, TypeError, "cv must be"),
        ({"cv": 500}, ValueError, "cv=500 folds need at least as many rows"),
        ({"passthrough": 1}, TypeError, "passthrough must be True or False"),
    ],
)
def test_wrong_parameters(rows, given, error, message):
    model = ht.StackingRegressor(regressors(), **given)
    with pytest.raises(error, match=message):
        model.fit(*rows)
    assert not hasattr(model, "estimators_")


def test_wrong_arguments(rows):
    X, y = rows
    model = ht.StackingRegressor(regressors()[:1])
    for given, message in (
        ({"groups": [1]}, "groups must have one entry"),
        ({"time": np.full(240, np.nan)}, "time must not have missing"),
        ({"time": np.arange(240), "groups": np.arange(240)}, "groups or time, not both"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, **given)
    with pytest.raises(ValueError, match="time needs a number of folds"):
        clone(model).set_params(cv=some_folds(240)).fit(X, y, time=np.arange(240))
    silent = ht.StackingClassifier(classifiers()[:2], stack_method="decision_function")
    with pytest.raises(ValueError, match="the member 'tree', CARTClassifier, has no decision_"):
        silent.fit(X, y > 0)
    with pytest.raises(ht.base.NotFittedError, match="'line' is not"):
        ht.StackingRegressor(regressors()[:1], cv="prefit").fit(X, y)


def test_parameters_by_name(rows):
    X, y = rows
    model = ht.StackingClassifier(classifiers()[:2], ht.CARTClassifier(max_depth=2))
    params = model.get_params()
    assert params["tree__max_depth"] == 4 and params["final_estimator__max_depth"] == 2
    model.set_params(final_estimator__max_depth=1, line="drop", tree__max_depth=3).fit(X, y > 0)
    assert list(model.named_estimators_) == ["tree"]
    assert model.final_estimator_.tree_.depth == 1
    assert not hasattr(model, "decision_function") and hasattr(model, "predict_proba")
    assert clone(model).get_params()["final_estimator__max_depth"] == 1


def test_prefit_members_are_used_as_they_are(rows):
    X, y = rows
    fitted = [(name, member.fit(X, y)) for name, member in regressors()]
    model = ht.StackingRegressor(fitted, cv="prefit").fit(X, y)
    assert all(a is b for a, (_, b) in zip(model.estimators_, fitted, strict=True))


def test_prefit_members_of_other_classes_are_refused(rows):
    X, y = rows
    fitted = [("line", ht.LogisticClassifier().fit(X, np.where(y > 0, "q", "r")))]
    with pytest.raises(ValueError, match="'line' was fitted with the class 'q', which y does not"):
        ht.StackingClassifier(fitted, cv="prefit").fit(X, np.where(y > 0, "no", "yes"))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_any_number_of_threads_and_files(rows, n_classes, tmp_path):
    X, y = rows
    labels = labels_of(y, n_classes)
    members = [*classifiers()[:2], ("free", ht.RandomForestClassifier(n_estimators=5))]
    models = [
        ht.StackingClassifier(members, cv=3, random_state=1, n_jobs=n_jobs).fit(X, labels)
        for n_jobs in (1, 2)
    ]
    one, two = (model.predict_proba(X) for model in models)
    assert (one == two).all() and one.shape == (240, n_classes)
    models[0].save(tmp_path / "model")
    for again in (ht.load(tmp_path / "model"), pickle.loads(pickle.dumps(models[0]))):
        assert (again.predict_proba(X) == one).all()
    assert all(member.n_jobs is None for member in models[0].estimators_)


def test_a_damaged_model_is_refused(rows):
    X, y = rows
    model = ht.StackingRegressor(regressors(), cv=2).fit(X, y)
    other = ht.LinearRegressor().fit(X, y)
    for damage in ({"_widths": [1, 1]}, {"_widths": [1, 1, 2]}, {"final_estimator_": other},
                   {"final_estimator_": None}, {"stack_method_": ["predict"] * 2}):  # fmt: skip
        with pytest.raises(ValueError):  # noqa: PT011 - which error does not matter
            ht.StackingRegressor().__setstate__({**model.__getstate__(), **damage})
