"""Tables at the edge of what can be fitted, and inputs of every kind."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from cart_data import integer_table, noisy_classes, smooth_table, whole_weights

from hybridtrees import (
    CARTClassifier,
    CARTRegressor,
    GradientBoostingRegressor,
    RandomForestRegressor,
)

SPLITTERS = pytest.mark.parametrize("splitter", ["exact", "hist"])
REGRESSION = ("squared_error", "friedman_mse", "absolute_error", "poisson")
CLASSES = ("gini", "entropy", "log_loss", "misclassification")
EVERY_MODEL = pytest.mark.parametrize(
    "model",
    [CARTRegressor(criterion=name) for name in REGRESSION]
    + [CARTClassifier(criterion=name) for name in CLASSES]
    + [CARTRegressor(splitter="hist"), CARTClassifier(splitter="hist")]
    + [CARTRegressor(max_leaf_nodes=10), CARTClassifier(max_leaf_nodes=10)]
    + [CARTRegressor(missing="stop"), CARTClassifier(ccp_alpha=0.01)],
    ids=str,
)


@EVERY_MODEL
def test_one_row(model):
    model.fit([[1.0, 2.0]], [3])
    assert model.get_n_leaves() == 1 and model.get_depth() == 0
    assert model.predict([[9.0, np.nan]]).tolist() == [3]
    assert model.leaf_weights([[0.0, 0.0]]).toarray().tolist() == [[1.0]]


@EVERY_MODEL
def test_constant_target(model):
    X, _ = smooth_table(50)
    model.fit(X, np.full(50, 7))
    assert model.get_n_leaves() == 1
    assert set(model.predict(X).tolist()) == {7}
    assert not model.feature_importances_.any()
    path = model.cost_complexity_pruning_path(X, np.full(50, 7))
    assert path.ccp_alphas.tolist() == [0.0]
    np.testing.assert_allclose(path.impurities, [0.0], atol=1e-12)


@EVERY_MODEL
def test_constant_features(model):
    y = np.arange(30) % 3
    for X in (np.ones((30, 2)), scipy.sparse.csr_array(np.ones((30, 2))), np.full((30, 1), np.nan)):
        model.fit(X, y)
        assert model.get_n_leaves() == 1
        assert len(model.predict(X)) == 30


@pytest.mark.parametrize(
    "model",
    [
        CARTRegressor(),
        CARTRegressor(criterion="absolute_error", missing="stop"),
        CARTClassifier(),
        RandomForestRegressor(3, splitter="exact", min_samples_leaf=1, bootstrap=False),
        GradientBoostingRegressor(n_estimators=3),
    ],
    ids=str,
)
def test_features_of_hardly_any_range_are_constant(model):
    y = np.arange(40) % 2
    small = np.where(y, 9e-8, 0.0)

    def is_split(*columns, make=np.asarray):
        model.fit(make(np.column_stack(columns)), y)
        trees = getattr(model, "trees_", None) or [model.tree_]
        return sorted({int(f) for tree in trees for f in tree.nodes["feature"] if f >= 0})

    assert is_split(small) == is_split(small - 0.3) == []
    assert is_split(2 * small) == is_split(2 * small - 0.3) == [0]
    assert is_split(small, 2 * small) == [1]
    assert is_split(small, 2 * small, make=scipy.sparse.csr_array) == [1]
    if getattr(model, "missing", "learn") == "learn":
        # A missing value is no value.
        assert is_split(np.where(y, np.nan, small)) == [0]


@EVERY_MODEL
def test_rows_of_weight_zero_do_not_count(model):
    X, y = noisy_classes(120)
    y += 1
    weight = whole_weights(120)
    weight[::3] = 0.0
    used = weight > 0
    whole = type(model)(**model.get_params()).fit(X, y, weight).tree_
    part = type(model)(**model.get_params()).fit(X[used], y[used], weight[used]).tree_
    for name in ("left", "feature", "n_samples", "weight"):
        np.testing.assert_array_equal(whole.nodes[name], part.nodes[name])
    np.testing.assert_allclose(whole.values, part.values, rtol=1e-12)
    if model.splitter == "exact":
        np.testing.assert_array_equal(whole.nodes["threshold"], part.nodes["threshold"])


@EVERY_MODEL
def test_one_row_with_a_weight(model):
    X, y = noisy_classes(20)
    weight = np.zeros(20)
    weight[7] = 2.5
    model.fit(X, y + 1, weight)
    assert model.get_n_leaves() == 1
    assert model.tree_.nodes["n_samples"].tolist() == [1]
    assert model.tree_.nodes["weight"].tolist() == [2.5]
    assert model.predict(X).tolist() == [y[7] + 1] * 20


def test_one_class():
    X, _ = smooth_table(30)
    model = CARTClassifier().fit(X, ["only"] * 30)
    assert model.predict(X[:2]).tolist() == ["only", "only"]
    assert model.predict_proba(X[:2]).tolist() == [[1.0], [1.0]]
    assert model.n_classes_ == 1


@SPLITTERS
@pytest.mark.parametrize("cls", [CARTRegressor, CARTClassifier])
def test_a_chain_of_two_hundred_leaves(cls, splitter):
    # Every feature marks one row, so that no split can take off more.
    n = 200
    X = np.eye(n)
    y = np.random.default_rng(0).permutation(n)
    model = cls(splitter=splitter).fit(X, y)
    assert model.get_n_leaves() == n
    assert model.get_depth() == n - 1
    np.testing.assert_array_equal(model.predict(X), y)
    steps = np.asarray(model.decision_path(X).sum(axis=1)).ravel()
    assert np.sort(steps).tolist() == [*range(2, n + 1), n]
    assert model.cost_complexity_pruning_path(X, y).impurities[0] == pytest.approx(0.0, abs=1e-9)
    assert cls(splitter=splitter, max_depth=50).fit(X, y).get_depth() == 50


@SPLITTERS
def test_many_classes(splitter):
    X = np.arange(300, dtype=float)[:, None] // 2
    y = np.arange(300) // 2
    model = CARTClassifier(splitter=splitter).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)
    assert model.predict_proba(X).shape == (300, 150)


@SPLITTERS
def test_large_and_small_numbers(splitter):
    X, y = smooth_table(100)
    base = CARTRegressor(splitter=splitter).fit(X, y)
    for factor in (2.0**-200, 2.0**200):
        model = CARTRegressor(splitter=splitter).fit(X, factor * y)
        np.testing.assert_array_equal(model.tree_.nodes["feature"], base.tree_.nodes["feature"])
        np.testing.assert_allclose(model.predict(X), factor * base.predict(X), rtol=1e-12)
    # Exact splits take features of hardly any range for constant, as scikit-learn does.
    for factor in (2.0**-16 if splitter == "exact" else 2.0**-100, 2.0**100):
        wide = X.astype(np.float64) * factor
        model = CARTRegressor(splitter=splitter).fit(wide, y)
        np.testing.assert_array_equal(model.predict(wide), base.predict(X))


def test_a_target_far_from_zero():
    # Sums of squares would lose the digits in which the rows differ.
    X, y = smooth_table(200)
    base = CARTRegressor(min_samples_leaf=5).fit(X, y)
    far = CARTRegressor(min_samples_leaf=5).fit(X, np.round(y * 2**20) / 2**20 + 2.0**28)
    np.testing.assert_array_equal(far.tree_.nodes["feature"], base.tree_.nodes["feature"])
    np.testing.assert_allclose(far.tree_.impurity, base.tree_.impurity, rtol=1e-4)


@pytest.mark.parametrize("cls", [CARTRegressor, CARTClassifier])
def test_tables_of_every_kind(cls):
    X, y = integer_table(200)
    X[X < 20] = 0.0
    y = y if cls is CARTRegressor else np.digitize(y, [4.0, 8.0])
    expected = cls(min_samples_leaf=3).fit(X, y).predict(X)
    tables = [
        X.astype(np.float32), np.asfortranarray(X), X.astype(int), X.tolist(),
        scipy.sparse.csr_array(X), scipy.sparse.csc_matrix(X), X[::-1][::-1],
    ]  # fmt: skip
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    tables += [pandas.DataFrame(X, columns=list("abcd")), polars.DataFrame(X, list("abcd"))]
    for table in tables:
        model = cls(min_samples_leaf=3).fit(table, y)
        np.testing.assert_array_equal(model.predict(table), expected)


def test_targets_of_every_kind():
    pandas = pytest.importorskip("pandas")
    X, y = smooth_table(80)
    expected = CARTRegressor().fit(X, y).predict(X)
    for target in (y.tolist(), pandas.Series(y), y[:, None]):
        prediction = CARTRegressor().fit(X, target).predict(X)
        assert prediction.shape == (80,)
        np.testing.assert_array_equal(prediction, expected)
    Y = np.c_[y, y]
    for target in (Y, Y.tolist(), pandas.DataFrame(Y)):
        np.testing.assert_array_equal(CARTRegressor().fit(X, target).predict(X)[:, 1], expected)


def test_an_empty_table_is_refused():
    for cls in (CARTRegressor, CARTClassifier):
        with pytest.raises(ValueError, match="0 sample|0 feature"):
            cls().fit(np.zeros((0, 3)), [])
        with pytest.raises(ValueError, match="0 feature"):
            cls().fit(np.zeros((3, 0)), [0, 1, 0])
