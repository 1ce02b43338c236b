"""Terms of the lines of leaves against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.grow._leaf_passes import column_units, line_reach, line_terms, short_bounds
from hybridtrees.core.tree.tree import Tree

WIDTH, P = 3, 5


def leaves(rng):
    """Slopes, means and ranges of four leaves in a tree of nine nodes."""
    shape = 4, WIDTH
    coef, center = rng.normal(size=shape), rng.normal(size=shape)
    coef[0, 1], coef[2, 0] = 0.0, np.nan
    low, high = center - rng.random(shape), center + rng.random(shape)
    low[3, 1], high[3, 1] = np.inf, -np.inf  # no value is known
    feature = rng.integers(0, P, shape).astype(np.int32)
    n_columns = np.array([3, 2, 3, 2], dtype=np.int32)
    return {
        "leaves": np.array([1, 4, 5, 8]), "n_columns": n_columns, "feature": feature,
        "coef": coef, "center": center, "low": low, "high": high,
        "column_scale": rng.uniform(0.5, 2, P), "deviation": rng.uniform(0.5, 2, P),
    }  # fmt: skip


@pytest.mark.parametrize("margin", [1.5, 0.0, np.nan])
def test_terms(rng, margin):
    given = leaves(rng)
    terms = line_terms(9, *given.values(), margin, 0.1)
    used = np.arange(WIDTH) < given["n_columns"][:, None]
    used &= np.isfinite(given["coef"]) & (given["coef"] != 0) & (given["low"] <= given["high"])
    feature, count = given["feature"][used], np.zeros(9, dtype=int)
    count[given["leaves"]] = used.sum(axis=1)
    assert used.sum() == 7
    np.testing.assert_array_equal(terms["coef_ptr"], np.append(0, np.cumsum(count)))
    np.testing.assert_array_equal(terms["coef_feature"], feature)
    slope = given["coef"][used] / given["column_scale"][feature] * 0.1
    np.testing.assert_array_equal(terms["coef"], slope)
    np.testing.assert_array_equal(terms["coef_center"], given["center"][used])
    assert ("coef_low" in terms) == (margin == margin)
    if margin == margin:
        room = margin * given["deviation"][feature]
        np.testing.assert_array_equal(
            terms["coef_low"], -short_bounds(room - given["low"][used], room)
        )
        np.testing.assert_array_equal(
            terms["coef_high"], short_bounds(room + given["high"][used], room)
        )


def test_reach_is_the_largest_output(rng):
    terms = line_terms(9, *leaves(rng).values(), 1.0, 1.0)
    tree = Tree(np.zeros(9, dtype=NODE_DTYPE), rng.normal(size=9),
                **terms)  # fmt: skip
    parts = tree.coef_center, tree.coef_low, tree.coef_high
    reach = line_reach(tree.values, tree.coef_ptr, tree.coef, *parts)
    away = np.maximum(abs(tree.coef_low - tree.coef_center), abs(tree.coef_high - tree.coef_center))
    node = np.repeat(np.arange(9), np.diff(tree.coef_ptr))
    expected = np.abs(tree.values[:, 0]) + np.bincount(node, abs(tree.coef[:, 0]) * away, 9)
    np.testing.assert_allclose(reach, expected)


def test_units_of_columns(rng):
    feature = np.array([[2, -1], [0, 4]], dtype=np.int32)
    mean, scale = rng.normal(size=P), rng.uniform(1, 2, P)
    means, factors = column_units(feature, mean, scale)
    np.testing.assert_array_equal(means, mean[np.maximum(feature, 0)])
    np.testing.assert_array_equal(factors, 1 / scale[np.maximum(feature, 0)])
    with pytest.raises(ValueError, match="out of range"):
        column_units(feature + 1, mean, scale)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("leaves", np.array([4, 1, 5, 8]), "out of order"),
        ("leaves", np.array([1, 4, 5, 9]), "out of order"),
        ("n_columns", np.full(4, WIDTH + 1, dtype=np.int32), "more columns"),
        ("feature", np.full((4, WIDTH), P, dtype=np.int32), "out of range"),
        ("low", np.zeros((4, WIDTH + 1)), "differ in shape"),
    ],
)
def test_faulty_arrays_are_refused(rng, name, value, message):
    with pytest.raises(ValueError, match=message):
        line_terms(9, *(leaves(rng) | {name: value}).values(), 1.0, 1.0)
