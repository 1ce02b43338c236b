"""Trees under the Poisson deviance: no node may predict 0, whose deviance is infinite."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees import CARTRegressor, RandomForestRegressor

SPLITTERS = pytest.mark.parametrize("splitter", ["exact", "hist"])


def counts_with_zeros(n_rows=1000):
    """Amounts that no binary fraction is equal to, more than a third of them 0, and weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 6))
    y = np.maximum(0.0, 40 * X[:, 0] + 15 * rng.normal(size=n_rows))
    return X, y, rng.exponential(size=n_rows)


@SPLITTERS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("params", [{}, {"missing": "stop"}, {"max_leaf_nodes": 300}])
def test_predictions_are_positive(splitter, weighted, params):
    X, y, weight = counts_with_zeros()
    if "missing" in params:
        X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    model = CARTRegressor(criterion="poisson", splitter=splitter, **params)
    model.fit(X, y, weight if weighted else None)
    assert model.tree_.values.min() > 0
    assert model.get_n_leaves() > 100


@SPLITTERS
def test_predictions_of_forests_and_of_several_outputs_are_positive(splitter):
    X, y, _ = counts_with_zeros(400)
    both = np.c_[y, np.roll(y, 1) / 3]
    model = CARTRegressor(criterion="poisson", splitter=splitter).fit(X, both)
    assert model.tree_.values.min() > 0
    forest = RandomForestRegressor(
        5, criterion="poisson", splitter=splitter, min_samples_leaf=1, random_state=0
    )
    assert min(tree.values.min() for tree in forest.fit(X, y).trees_) > 0


@SPLITTERS
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_side_with_little_is_not_an_empty_side(splitter, scale):
    # A millionth of the node's total is far above the rounding error of 100 rows.
    X = np.arange(100.0).reshape(-1, 1)
    y = np.r_[np.full(50, 1e-6), np.ones(50)] * scale
    for target in (y, y[::-1]):
        model = CARTRegressor(criterion="poisson", splitter=splitter).fit(X, target)
        np.testing.assert_allclose(model.predict(X), target, rtol=1e-12)


@pytest.mark.peer
def test_the_deviance_is_finite():
    datasets = pytest.importorskip("sklearn.datasets")
    from sklearn.metrics import mean_poisson_deviance

    X, y = datasets.make_regression(
        effective_rank=6,
        tail_strength=0.6,
        n_samples=1000,
        n_features=10,
        n_informative=6,
        random_state=0,
    )
    y[(y > -1) & (y < 0)] = 0
    y = np.abs(y)
    said = CARTRegressor(criterion="poisson").fit(X, y).predict(X)
    assert mean_poisson_deviance(y, said) < mean_poisson_deviance(y, np.full(1000, y.mean()))
