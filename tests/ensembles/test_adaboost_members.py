"""AdaBoost of other estimators, tables of any kind, files and parameters."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees._parameters import clone
from hybridtrees.base import NotFittedError


def problem(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    mean = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.standard_normal(n)
    return X, mean, np.array(["a", "b", "c"])[np.digitize(mean, [-0.5, 0.5])]


# -- estimator= -----------------------------------------------------------------------------------


@pytest.mark.parametrize("resample", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_trees_as_members_equal_own_trees(n_classes, resample):
    X, mean, labels = problem()
    labels = np.where(labels == "c", "c", "a") if n_classes == 2 else labels
    given = {"n_estimators": 8, "resample": resample, "random_state": 0}
    own = ht.AdaBoostClassifier(**given, max_depth=2, min_samples_leaf=10, splitter="exact")
    # A leaf of drawn rows has so many distinct rows in one, rows with copies in the other.
    own.set_params(min_samples_leaf=1, min_weight_fraction_leaf=0.05)
    tree = ht.CARTClassifier(max_depth=2, min_weight_fraction_leaf=0.05)
    copies = ht.AdaBoostClassifier(tree, **given).fit(X, labels)
    own.fit(X, labels)
    assert len(copies.estimators_) == copies.n_iter_ == own.n_iter_
    assert not hasattr(copies, "trees_")
    np.testing.assert_allclose(copies.estimator_weights_, own.estimator_weights_, rtol=1e-8)
    np.testing.assert_allclose(copies.predict_proba(X), own.predict_proba(X), rtol=1e-7)
    np.testing.assert_allclose(copies.decision_function(X), own.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(
        copies.feature_importances_, own.feature_importances_, rtol=1e-6, atol=1e-9
    )
    for one, other in zip(copies.staged_predict(X), own.staged_predict(X), strict=True):
        np.testing.assert_array_equal(one, other)
    tree = ht.CARTRegressor(max_depth=2, min_weight_fraction_leaf=0.05)
    copies = ht.AdaBoostRegressor(tree, **given).fit(X, mean)
    own = ht.AdaBoostRegressor(
        **given, max_depth=2, min_weight_fraction_leaf=0.05, splitter="exact"
    ).fit(X, mean)
    np.testing.assert_allclose(copies.predict(X), own.predict(X), rtol=1e-8)
    np.testing.assert_allclose(list(copies.staged_predict(X)), list(own.staged_predict(X)))


def test_linear_members_and_foreign_ones():
    naive_bayes = pytest.importorskip("sklearn.naive_bayes")
    neighbors = pytest.importorskip("sklearn.neighbors")
    X, mean, labels = problem()
    for member in (
        ht.LogisticClassifier(), naive_bayes.GaussianNB(), ht.XGBClassifier(n_estimators=2)
    ):  # fmt: skip
        model = ht.AdaBoostClassifier(member, n_estimators=4, random_state=0).fit(X, labels)
        assert model.score(X, labels) > 0.6
        assert isinstance(model.estimators_[0], type(member))
    knn = neighbors.KNeighborsClassifier()
    with pytest.raises(ValueError, match="takes no sample_weight: set resample=True"):
        ht.AdaBoostClassifier(knn).fit(X, labels)
    drawn = ht.AdaBoostClassifier(knn, n_estimators=3, resample=True, random_state=0)
    assert drawn.fit(X, labels).score(X, labels) > 0.7
    line = ht.AdaBoostRegressor(ht.LinearRegressor(), n_estimators=5, random_state=0)
    assert line.fit(X, mean).score(X, mean) > 0.2
    with pytest.raises(AttributeError, match="feature_importances_"):
        _ = (
            ht.AdaBoostRegressor(neighbors.KNeighborsRegressor(), n_estimators=2)
            .fit(X, mean)
            .feature_importances_
        )
    with pytest.raises(AttributeError, match="apply is for trees"):
        line.apply(X)


def test_members_get_the_table_of_the_user():
    pandas = pytest.importorskip("pandas")
    X, _, labels = problem()
    frame = pandas.DataFrame(X, columns=list("abcd"))
    frame["kind"] = np.where(labels == "a", "x", np.where(X[:, 3] > 0, "y", "z"))
    model = ht.AdaBoostClassifier(ht.CARTClassifier(max_depth=2), n_estimators=5)
    for resample in (False, True):
        model.set_params(resample=resample, random_state=0).fit(frame, labels)
        assert model.score(frame, labels) > 0.8
        assert list(model.feature_names_in_) == [*"abcd", "kind"]
        assert list(model.estimators_[0].feature_names_in_) == [*"abcd", "kind"]


def test_wrong_parameters():
    X, mean, labels = problem()
    cases = [
        ({"n_estimators": 0}, ValueError, "n_estimators must be an integer of at least 1"),
        ({"learning_rate": 0.0}, ValueError, "learning_rate must be a real number greater than 0"),
        ({"learning_rate": "1"}, TypeError, "learning_rate"),
        ({"resample": 1}, TypeError, "resample must be True or False"),
        ({"ccp_alpha": "cv"}, TypeError, "ccp_alpha"),
        ({"splitter": "sorted"}, ValueError, "splitter must be one of 'exact', 'hist'"),
        ({"criterion": "brier"}, ValueError, "criterion must be one of"),
        ({"max_depth": 0}, ValueError, "max_depth"),
        ({"estimator": ht.CARTRegressor()}, TypeError, "must be a classifier"),
        ({"estimator": 3}, TypeError, "estimator must be an estimator with fit"),
        ({"estimator": ht.CARTClassifier}, TypeError, "estimator must be an estimator"),
        (
            {"estimator": ht.CARTClassifier(), "max_depth": 2}, ValueError,
            "max_depth is a parameter of the trees of estimator=None",
        ),
        ({"random_state": -1}, ValueError, "random_state"),
        ({"n_jobs": 0}, ValueError, "n_jobs"),
    ]  # fmt: skip
    for given, error, message in cases:
        with pytest.raises(error, match=message):
            ht.AdaBoostClassifier(**given).fit(X, labels)
    with pytest.raises(ValueError, match="loss must be one of 'linear', 'square', 'exponential'"):
        ht.AdaBoostRegressor(loss="huber").fit(X, mean)
    with pytest.raises(ValueError, match="y"):
        ht.AdaBoostRegressor().fit(X, np.column_stack([mean, mean]))


def test_a_failed_fit_changes_nothing():
    X, _, labels = problem()
    model = ht.AdaBoostClassifier(n_estimators=3).fit(X, labels)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="guessing"):
        model.fit(np.ones((6, 2)), [0, 1] * 3)
    np.testing.assert_array_equal(model.predict_proba(X), before)
    # Another kind of members leaves nothing of the last fit.
    model.set_params(estimator=ht.LogisticClassifier()).fit(X, labels)
    assert not hasattr(model, "trees_")
    model.set_params(estimator=None).fit(X, labels)
    assert not hasattr(model, "estimators_")
    np.testing.assert_array_equal(model.predict_proba(X), before)


# -- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["learn", "stop"])
@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("resample", [False, True])
def test_missing_values_and_categories(splitter, resample, missing):
    rng = np.random.default_rng(0)
    n = 600
    colour = rng.choice(["red", "green", "blue", "white", None], n)
    size = np.where(rng.random(n) < 0.3, np.nan, rng.standard_normal(n))
    mean = np.isin(colour, ["red", "white"]) + 1.5 * np.isnan(size) + 0.3 * rng.standard_normal(n)
    table = {"colour": colour, "size": size, "noise": rng.standard_normal(n)}
    given = {"n_estimators": 30, "splitter": splitter, "resample": resample, "missing": missing}
    given |= {"max_depth": 2, "random_state": 0}
    # Rows that stop cannot use that their size is missing.
    least = (0.85, 0.7, 0.6) if missing == "learn" else (0.7, 0.6, 0.2)
    two = ht.AdaBoostClassifier(**given).fit(table, mean > 0.8)
    assert two.score(table, mean > 0.8) > least[0]
    codes = np.digitize(mean, [0.5, 1.5])
    many = ht.AdaBoostClassifier(**given).fit(table, codes)
    assert many.score(table, codes) > least[1]
    assert ht.AdaBoostRegressor(**given).fit(table, mean).score(table, mean) > least[2]
    # The errors of the training are those of the stored trees: rows end where they were grown.
    first = next(iter(two.staged_predict(table)))
    np.testing.assert_allclose(two.estimator_errors_[0], np.mean(first != (mean > 0.8)))
    new = {"colour": np.array(["pink", None, "red"], dtype=object), "size": np.full(3, np.nan)}
    new["noise"] = np.zeros(3)
    assert two.predict_proba(new).shape == (3, 2)
    assert np.isfinite(many.predict_proba(new)).all()


def test_sparse_tables():
    sparse = pytest.importorskip("scipy.sparse")
    X, mean, labels = problem()
    X = np.where(np.abs(X) < 0.5, 0, X)
    for how in ({}, {"resample": True, "random_state": 0}, {"splitter": "exact"}):
        dense = ht.AdaBoostClassifier(n_estimators=6, max_depth=2, **how).fit(X, labels)
        thin = ht.AdaBoostClassifier(n_estimators=6, max_depth=2, **how).fit(
            sparse.csr_matrix(X), labels
        )
        np.testing.assert_array_equal(dense.predict_proba(X), thin.predict_proba(X))
        np.testing.assert_array_equal(
            dense.predict_proba(X), thin.predict_proba(sparse.csc_matrix(X))
        )
    model = ht.AdaBoostRegressor(n_estimators=6, random_state=0).fit(X, mean)
    np.testing.assert_array_equal(model.predict(X), model.predict(sparse.csr_matrix(X)))


def test_pruning_limits_and_features():
    X, mean, labels = problem()
    given = {"n_estimators": 10, "max_depth": 4, "random_state": 0}
    full = ht.AdaBoostClassifier(**given).fit(X, labels)
    pruned = ht.AdaBoostClassifier(ccp_alpha=0.02, **given).fit(X, labels)
    assert len(pruned.trees_.nodes) < len(full.trees_.nodes)
    assert pruned.score(X, labels) > 0.6
    few = ht.AdaBoostClassifier(max_leaf_nodes=3, **given).fit(X, labels)
    assert few.apply(X).max() <= 4
    drawn = ht.AdaBoostClassifier(max_features=1, **given).fit(X, labels)
    assert np.any(drawn.predict_proba(X) != full.predict_proba(X))
    least = ht.AdaBoostRegressor(min_impurity_decrease=10.0, resample=False).fit(X, mean)
    assert np.ptp(least.predict(X)) == 0


# -- files, clones, texts -------------------------------------------------------------------------


def models():
    X, mean, labels = problem()
    few = {"n_estimators": 4, "random_state": 0}
    yield ht.AdaBoostClassifier(**few).fit(X, labels)
    yield ht.AdaBoostClassifier(**few, max_depth=2).fit(X, labels == "a")
    yield ht.AdaBoostRegressor(**few).fit(X, mean)
    yield ht.AdaBoostRegressor(**few, missing="stop").fit(X, mean)
    yield ht.AdaBoostClassifier(ht.LogisticClassifier(), **few).fit(X, labels)
    yield ht.AdaBoostRegressor(ht.CARTRegressor(max_depth=3), **few).fit(X, mean)


def test_save_and_pickle(tmp_path):
    X = problem()[0]
    for model in models():
        model.save(tmp_path / "model")
        for again in (ht.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
            assert repr(again) == repr(model)
            np.testing.assert_array_equal(again.predict(X), model.predict(X))
            np.testing.assert_array_equal(again.estimator_weights_, model.estimator_weights_)
            assert again.summary() == model.summary()
            staged = zip(again.staged_predict(X), model.staged_predict(X), strict=True)
            assert all(np.array_equal(one, other) for one, other in staged)


def refuses(model, **changed):
    state = {**model.__getstate__(), **changed}
    with pytest.raises(ValueError, match=r"\w"):
        type(model).__new__(type(model)).__setstate__(state)


def test_inconsistent_states_are_refused():
    for model in models():
        n = model.n_iter_
        for weights in (np.ones(n + 1), np.full(n, np.nan), np.zeros(n), -np.ones(n)):
            refuses(model, estimator_weights_=weights)
        refuses(model, estimator_weights_=np.append(np.ones(n - 1), np.inf))
        refuses(model, estimator_errors_=np.ones(n, dtype=np.float32))
        refuses(model, n_iter_=n + 1)
        refuses(model, n_iter_=float(n))
        if "trees_" in vars(model):
            refuses(model, trees_=None)
            refuses(model, n_features_in_=3)
        else:
            refuses(model, estimators_=model.estimators_[:-1])
            refuses(model, estimators_="none")
    for model in models():
        if "trees_" in vars(model) and hasattr(model, "classes_"):
            refuses(model, classes_=np.arange(5), n_classes_=5)
            refuses(model, classes_=np.arange(5))


def test_parameters_and_clones():
    model = ht.AdaBoostClassifier(ht.LogisticClassifier(alpha=0.5), n_estimators=7)
    assert model.get_params()["estimator__alpha"] == 0.5
    model.set_params(estimator__alpha=2.0, learning_rate=0.5)
    copy = clone(model)
    assert copy.get_params()["estimator__alpha"] == 2.0
    assert copy.estimator is not model.estimator
    assert repr(ht.AdaBoostRegressor(loss="square")) == "AdaBoostRegressor(loss='square')"
    for cls in (ht.AdaBoostClassifier, ht.AdaBoostRegressor):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            cls().predict([[1.0]])


def test_progress(capsys):
    X, mean, labels = problem()
    ht.AdaBoostClassifier(n_estimators=5, verbose=2).fit(X, labels)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["[2]", "[4]", "[5]"]
    assert all("error:" in line and " s" in line for line in lines)
    ht.AdaBoostClassifier(verbose=1, splitter="exact").fit(X, X[:, 0] > 0)
    assert "the member is perfect" in capsys.readouterr().out
    ht.AdaBoostClassifier().fit(X, labels)
    assert capsys.readouterr().out == ""


def test_exports_and_grid_search():
    selection = pytest.importorskip("sklearn.model_selection")
    X, _, labels = problem()
    for model in models():
        if hasattr(model, "trees_"):
            assert "<=" in ht.inspection.export_text(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = selection.GridSearchCV(
            ht.AdaBoostClassifier(n_jobs=1), {"n_estimators": [2, 10], "max_depth": [1, 3]}, cv=2
        ).fit(X, labels)
    assert search.best_score_ > 0.6
