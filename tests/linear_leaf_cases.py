"""Trees with linear leaves, tables for them, and predictions beside those of a slow sum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracle
from strategies import random_tree

from hybridtrees.core.tree.tree import TreeEnsemble

N_FEATURES = 6


def linear_tree(
    rng, n_leaves, *, n_terms=4, n_values=1, clip=False, bound=False, inner=False,
    n_features=N_FEATURES, floats=False,
):  # fmt: skip
    """A tree whose leaves have up to `n_terms` terms; `inner`: the other nodes, too.

    `floats`: terms are clipped at numbers that float32 holds.
    """
    tree = random_tree(rng, n_leaves, n_features, categorical=(5,), n_values=n_values)
    counts = rng.integers(0, n_terms + 1, tree.n_nodes)
    if not inner:
        counts[tree.nodes["left"] >= 0] = 0
    total = int(counts.sum())
    low = rng.normal(size=total) - 0.5
    high = low + rng.exponential(size=total)
    if floats:
        low, high = low.astype(np.float32), high.astype(np.float32)
    ends = np.sort(3 * rng.normal(size=(tree.n_nodes, 2, n_values)), axis=1)
    return replace(
        tree,
        coef_ptr=np.concatenate([[0], np.cumsum(counts)]),
        coef_feature=rng.integers(0, 5 if n_features == N_FEATURES else n_features, total),
        coef=rng.normal(size=(total, n_values)),
        coef_center=rng.normal(size=total),
        coef_low=low if clip else [],
        coef_high=high if clip else [],
        value_range=ends if bound else None,
    )


def table(rng, n_rows, dtype=np.float64, missing=0.1, n_features=N_FEATURES):
    X = rng.normal(size=(n_rows, n_features))
    X[:, 5] = rng.integers(0, 90, n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X.astype(dtype)


def predictions(ensemble, X, n_threads=1):
    raw = np.zeros((X.shape[0], ensemble.n_outputs))
    ensemble.add_raw(X, raw, n_threads)
    return raw


def check(trees, X, n_outputs=1, tree_output=None):
    """Predictions, which must be the oracle's up to rounding, whatever rows stand beside."""
    ensemble = TreeEnsemble(trees, X.shape[1], n_outputs, tree_output)
    raw = predictions(ensemble, X)
    expected = oracle.predict(trees, X, n_outputs, tree_output)
    np.testing.assert_allclose(raw, expected, rtol=1e-12, atol=1e-12)
    for part in (slice(0, 1), slice(3, 7), slice(5, 75)):
        np.testing.assert_array_equal(predictions(ensemble, X[part]), raw[part])
    return raw
