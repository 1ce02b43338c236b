"""EBLR with a depth for each round."""

from __future__ import annotations

import numpy as np
import pytest
from eblr_oracle import enrich, linear_residual, plain_linear

import hybridtrees
from hybridtrees import EBLRClassifier, EBLRRegressor


def planted(rng, n=500):
    X = rng.standard_normal((n, 4))
    y = 2 * X[:, 0] + 3.0 * ((X[:, 1] > 0.3) & (X[:, 2] <= 0)) - 2.0 * (X[:, 3] > 1)
    return X, y + 0.2 * rng.standard_normal(n)


@pytest.mark.parametrize("depths", [[1, 2], (3, 1, 2), [2, 1], [1, None]])
@pytest.mark.parametrize("weights", [None, "whole", "with zeros"])
def test_rounds_have_their_depths_and_the_last_one_stays(rng, depths, weights):
    X, y = planted(rng)
    if depths[-1] is None:
        X, y = X[:40], y[:40]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    weight = None
    if weights is not None:
        weight = rng.integers(int(weights == "whole"), 4, len(y)).astype(float)
    model = EBLRRegressor(
        n_rules=5,
        max_depth=depths,
        min_samples_leaf=5,
        standardize=False,
        early_stopping=None,
        n_jobs=1,
    ).fit(X, y, weight)
    each = [{"max_depth": depths[min(k, len(depths) - 1)], "min_samples_leaf": 5} for k in range(5)]
    columns, line, table = enrich(X, y, 5, each, plain_linear(), linear_residual, weight)
    np.testing.assert_array_equal(model.transform(X)[:, 4:], columns)
    np.testing.assert_allclose(model.predict(X), line.predict(table), atol=1e-7)
    reached = [tree.tree.nodes["depth"].max() for tree in model._trees]
    for depth, limit in zip(reached, each, strict=True):
        assert limit["max_depth"] is None or depth == limit["max_depth"]


def test_a_list_of_one_depth_is_that_depth(rng):
    X, y = planted(rng)
    plain = EBLRRegressor(n_rules=4, max_depth=2).fit(X, y)
    for depths in ([2], [2, 2, 2, 2, 2], np.array([2, 2])):
        other = EBLRRegressor(n_rules=4, max_depth=depths).fit(X, y)
        np.testing.assert_array_equal(other.predict(X), plain.predict(X))


def test_classifiers_stopping_and_files(rng, tmp_path):
    X, y = planted(rng)
    model = EBLRClassifier(
        n_rules=6, max_depth=[1, 2], early_stopping="validation", random_state=0
    ).fit(X, y > 0.5)
    assert [tree.tree.nodes["depth"].max() for tree in model._trees[:3]] == [1, 2, 2]
    model.save(tmp_path / "model.htree")
    loaded = hybridtrees.load(tmp_path / "model.htree")
    assert loaded.max_depth == [1, 2]
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("depths", "error", "message"),
    [
        ([], ValueError, r"max_depth must be .* non-empty list of these, got \[\]"),
        (
            [[1, 2]],
            ValueError,
            "max_depth must be an integer of at least 1, None or a non-empty list",
        ),
        ([1, 0], ValueError, r"max_depth\[1\] must be an integer of at least 1 or None, got 0"),
        ([1.5], TypeError, r"max_depth\[0\] must be an integer of at least 1 or None, got 1.5"),
        ([2, "deep"], TypeError, r"max_depth\[1\] must be an integer .* got 'deep'"),
        (0, ValueError, "max_depth must be an integer of at least 1 or None, got 0"),
    ],
)
def test_each_depth_is_checked_before_any_work(depths, error, message):
    with pytest.raises(error, match=message):
        EBLRRegressor(max_depth=depths).fit("no table", None)
