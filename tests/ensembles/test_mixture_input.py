"""Mixtures of experts: tables of all kinds, faulty parameters, model files."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import hybridtrees as ht

KINDS = [
    ("Regressor", "linear"),
    ("Regressor", "tree"),
    ("Classifier", "logistic"),
    ("Classifier", "tree"),
]


def make(kind, expert, **more):
    given = {"random_state": 0, "n_restarts": 2, "max_iter": 500, "tol": 1e-4, **more}
    return getattr(ht, f"MixtureOfExperts{kind}")(expert=expert, **given)


def frame(n=400, seed=0):
    """Numbers with gaps and a category that turns the slope round."""
    rng = np.random.default_rng(seed)
    colour = rng.choice(["blue", "green", "red"], n)
    size = rng.standard_normal(n)
    y = np.where(colour == "red", 3.0, -2.0) * size + 0.1 * rng.standard_normal(n)
    size = np.where(rng.random(n) < 0.05, np.nan, size)
    table = {"size": size, "colour": colour.astype(object), "age": rng.integers(0, 5, n) * 1.0}
    return table, y


@pytest.mark.parametrize(("kind", "expert"), KINDS)
def test_data_frames_and_files(kind, expert, tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table, y = frame()
    target = y if kind == "Regressor" else np.array(["low", "mid", "top"])[np.digitize(y, [-1, 1])]
    model = make(kind, expert).fit(pd.DataFrame(table), target)
    assert model.score(pd.DataFrame(table), target) > 0.8
    assert list(model.feature_names_in_) == ["size", "colour", "age"]
    assert list(model.term_names_) == ["size", "age", *(f"colour={c}" for c in
                                                       ("blue", "green", "red"))]  # fmt: skip
    expected = model.predict(pd.DataFrame(table))
    others = (pl.DataFrame(table), table)
    for other in others:
        again = make(kind, expert).fit(other, target)
        np.testing.assert_array_equal(again.predict(other), expected)
    model.save(tmp_path / "model")
    loaded = ht.load(tmp_path / "model")
    for method in ("predict", "predict_experts", "responsibilities"):
        found = getattr(loaded, method)(pd.DataFrame(table))
        np.testing.assert_array_equal(found, getattr(model, method)(pd.DataFrame(table)))
    assert loaded.summary() == model.summary()
    assert loaded.get_params().keys() == model.get_params().keys()
    # A category that fit has not seen is a missing one.
    new = {**table, "colour": np.full(400, "pink", dtype=object)}
    assert np.isfinite(loaded.predict_experts(new)).all()


def test_sparse_tables_and_single_precision():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((500, 4)) < 0.5, 0.0, rng.standard_normal((500, 4)))
    y = np.where(X[:, 0] > 0, 2.0, -3.0) * X[:, 1]
    model = make("Regressor", "linear")
    expected = model.fit(X, y).predict(X)
    found = model.fit(sparse.csc_array(X), y).predict(sparse.csr_array(X))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    found = model.fit(np.asfortranarray(X), y).predict(X)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    single = X.astype(np.float32)
    found = model.fit(single, y).predict(single)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)


def test_an_indicator_column_for_missing_values():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 2))
    gap = rng.random(600) < 0.4
    y = np.where(gap, 4.0, -1.0) * X[:, 1] + 0.1 * rng.standard_normal(600)
    X[gap, 0] = np.nan
    model = make("Regressor", "linear", missing_indicator=True).fit(X, y)
    assert list(model.term_names_) == ["x0", "x1", "x0 is missing"]
    assert model.score(X, y) > 0.98


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"n_experts": 0}, ValueError, r"n_experts must be an integer in \[1, 1000\], got 0"),
        ({"n_experts": 2.0}, TypeError, "n_experts must be an integer"),
        ({"n_restarts": 0}, ValueError, "n_restarts must be an integer of at least 1"),
        ({"alpha": 0.0}, ValueError, "alpha must be a real number greater than 0"),
        ({"gate_alpha": -1}, ValueError, "gate_alpha must be a real number greater than 0"),
        ({"min_variance": 0}, ValueError, "min_variance must be"),
        ({"max_depth": 0}, ValueError, "max_depth must be an integer"),
        ({"max_iter": 0}, ValueError, "max_iter must be"),
        ({"tol": -1e-3}, ValueError, "tol must be"),
        ({"verbose": -1}, ValueError, "verbose must be"),
        ({"missing_indicator": 1}, TypeError, "missing_indicator must be True or False"),
        ({"random_state": -1}, ValueError, "random_state must be"),
        ({"expert": "logistic"}, ValueError, "expert must be 'linear' or 'tree' or an estimator"),
        ({"expert": None}, ValueError, "expert must be 'linear' or 'tree' or an estimator"),
        ({"expert": ht.CARTClassifier()}, TypeError, "expert of .* must be a regressor"),
        ({"expert": ht.CARTRegressor}, TypeError, "expert must be an estimator with fit"),
    ],
)
def test_faulty_parameters_are_named(given, error, message):
    with pytest.raises(error, match=message):
        ht.MixtureOfExpertsRegressor(**given).fit(np.eye(4), np.arange(4.0))


def test_too_wide_a_table_is_refused():
    X = np.zeros((3, 4000))
    with pytest.raises(ValueError, match="X has 4000 columns, .* n_experts=2: 2 x 4001 coef"):
        ht.MixtureOfExpertsRegressor().fit(X, np.arange(3.0))


def test_experts_need_weights():
    class Unweighted(ht.CARTRegressor):
        def fit(self, X, y):
            return super().fit(X, y)

    with pytest.raises(ValueError, match="expert is a Unweighted, whose fit takes no sample_w"):
        ht.MixtureOfExpertsRegressor(expert=Unweighted()).fit(np.eye(4), np.arange(4.0))


def test_experts_for_classes_need_probabilities():
    svm = pytest.importorskip("sklearn.svm")
    model = ht.MixtureOfExpertsClassifier(expert=svm.LinearSVC())
    with pytest.raises(ValueError, match="LinearSVC, which has no predict_proba"):
        model.fit(np.eye(4), [0, 1, 0, 1])


def test_faulty_targets():
    X = np.eye(6)
    with pytest.raises(ValueError, match="needs at least two classes"):
        ht.MixtureOfExpertsClassifier().fit(X, np.zeros(6))
    model = make("Classifier", "logistic").fit(X, [0, 1, 0, 1, 0, 1])
    with pytest.raises(ValueError, match="y"):
        model.responsibilities(X, [0, 1, 0, 1, 0, 2])
    with pytest.raises(ValueError, match="y"):
        model.responsibilities(X, [0, 1])
    with pytest.raises(ht.base.NotFittedError):
        ht.MixtureOfExpertsClassifier().responsibilities(X)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, [1, 0, 1, 0, 1, 0], [-1.0] * 6)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_huge_new_values_have_proper_responsibilities():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 2))
    model = make("Classifier", "logistic").fit(X, X[:, 0] * X[:, 1] > 0)
    far = np.array([[1e308, -1e308], [-1e308, 1e308]])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(model.responsibilities(far).sum(axis=1), 1.0)
        np.testing.assert_allclose(model.predict_proba(far).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "damage",
    [
        {"expert_variances_": np.ones(3)},
        {"expert_variances_": -np.ones(2)},
        {"expert_shares_": np.ones(3) / 3},
        {"_linear": False},
        {"_members": [ht.CARTClassifier()]},
        {"_line": (np.ones((2, 4)), np.ones(2), np.ones(2), np.ones(3))},
        {"n_iter_": "many"},
    ],
)
def test_a_damaged_state_is_refused(damage):
    model = make("Regressor", "linear").fit(np.eye(2), [0.0, 1.0])
    state = {**model.__getstate__(), **damage}
    with pytest.raises(ValueError):
        ht.MixtureOfExpertsRegressor().__setstate__(state)
