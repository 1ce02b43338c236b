"""What the penalties and prices are counted in, as the docstrings have it."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

from hybridtrees import (
    CARTClassifier,
    CARTRegressor,
    GradientBoostingRegressor,
    LinearTreeRegressor,
    PLGBRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    XGBRegressor,
)

# Two groups of targets -1 and 1: the squares are 1 per row and 4 in all, and a split takes all.
X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
Y = np.array([-1.0, -1.0, 1.0, 1.0])
WHOLE = {"n_estimators": 1, "bootstrap": False, "min_samples_leaf": 1, "max_features": None}


@pytest.mark.parametrize("method", ["hist", "approx", "exact"])
def test_gamma_is_twice_that_of_the_formulas(method):
    """The gain in the literature is (4 / 2 + 4 / 2 - 0) / 2 = 2."""
    shape = {"n_estimators": 1, "reg_lambda": 0, "base_score": 0, "tree_method": method}
    for gamma, n_leaves in ((2 * 1.99, 2), (2 * 2.01, 1)):
        assert XGBRegressor(**shape, gamma=gamma).fit(X, Y).trees_[0].n_leaves == n_leaves
    lines = PLGBRegressor(
        n_estimators=1, reg_lambda=0, base_score=0, gamma=3.98, min_samples_leaf=1
    )  # fmt: skip
    assert lines.fit(X, Y).trees_[0].n_leaves == 2
    assert lines.set_params(gamma=4.02).fit(X, Y).trees_[0].n_leaves == 1
    for model in (XGBRegressor, PLGBRegressor):
        assert "twice" in _about(model, "gamma")
    assert '"exact" prunes afterwards' in _about(XGBRegressor, "gamma")


def test_exact_keeps_a_poor_split_above_a_good_one():
    # Neither feature tells anything alone; both together tell all.
    table = np.array([[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0)] * 4)
    y = np.where(table[:, 0] == table[:, 1], 1.0, -1.0)
    y[0] += 0.1  # so that one of the two has some gain
    shape = {"n_estimators": 1, "max_depth": 2, "reg_lambda": 0, "base_score": 0, "gamma": 1.0}
    leaves = {
        method: XGBRegressor(**shape, tree_method=method).fit(table, y).trees_[0].n_leaves
        for method in ("hist", "exact")
    }
    assert leaves == {"hist": 1, "exact": 4}


@pytest.mark.parametrize(
    "model",
    [
        CARTRegressor(),
        RandomForestRegressor(**WHOLE),
        GradientBoostingRegressor(n_estimators=1, init="zero", learning_rate=1.0),
        LinearTreeRegressor(min_samples_leaf=1, min_samples_split=2, linear_features=[1]),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("weight", [None, 3.0])
def test_ccp_alpha_is_per_row(model, weight):
    assert "per row" in _about(type(model), "ccp_alpha")
    weights = None if weight is None else np.full(4, weight)
    if "pruning" in model.get_params():
        model.set_params(pruning=None)
    for alpha, said in ((0.99, [-1.0, 1.0]), (1.01, [0.0])):
        model.set_params(ccp_alpha=alpha).fit(X, Y, sample_weight=weights)
        np.testing.assert_allclose(np.unique(model.predict(X)), said, atol=1e-6)


@pytest.mark.parametrize(
    "model", [CARTClassifier(), RandomForestClassifier(**WHOLE)], ids=lambda m: type(m).__name__
)
def test_entropy_is_in_bits(model):
    assert "in bits" in _about(type(model), "criterion")
    # Shares of 1/4 and 3/4, which a split takes apart: the entropy is what it gains per row.
    y = np.array([0, 1, 1, 1])
    table = np.array([[0.0], [1.0], [1.0], [1.0]])
    bits = -(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75))
    for factor, n_classes in ((0.99, 2), (1.01, 1)):
        model.set_params(criterion="entropy", ccp_alpha=factor * bits).fit(table, y)
        assert len(np.unique(model.predict_proba(table), axis=0)) == n_classes


def _about(model, parameter):
    """The text about a parameter in the docstring of a class."""
    text = inspect.getdoc(model).split(f"\n{parameter} : ", 1)[1]
    lines = text.split("\n")[1:]
    end = next(i for i, line in enumerate(lines) if not line.startswith("    "))
    return " ".join(line.strip() for line in lines[:end])
