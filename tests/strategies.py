"""Data for the kernel tests: builders of small tables and trees, and hypothesis strategies.

Gradients and hessians are mostly multiples of 1/8: the engine's fixed-point scale then holds them
exactly, sums are exact in any order, and trees must agree with the oracle to the last tie.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from growers import newton_grower, tree_of
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hybridtrees.core.base.dtypes import NODE_DTYPE, aligned_empty
from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.tree.tree import Tree

# ---- tables of codes ----------------------------------------------------------------------------


def make_binned(codes, n_bins, categorical=None, edges=None) -> BinnedMatrix:
    """BinnedMatrix of given codes (n_rows, n_features); code ``n_bins[f]`` is missing."""
    codes = np.asarray(codes, dtype=np.uint8)
    n_rows, n_features = codes.shape
    n_bins = np.array(np.broadcast_to(n_bins, n_features), dtype=np.int32)
    assert (codes <= n_bins).all()
    flags = np.zeros(n_features, dtype=np.uint8)
    if categorical is not None:
        flags[:] = categorical
    tail = (n_features + 3) // 4 * 4
    records = aligned_empty((n_rows, tail + 4), np.uint8)
    records[:] = 0
    records[:, :n_features] = codes
    columns = aligned_empty((n_features, n_rows), np.uint8)
    columns[:] = codes.T
    if edges is None:
        # Bin b holds the value b.
        edges = [
            None if flag else np.arange(size - 1) + 0.5
            for size, flag in zip(n_bins, flags, strict=True)
        ]
    has_missing = (columns == n_bins[:, None]).any(axis=1).astype(np.uint8)
    return BinnedMatrix(records, columns, n_bins, has_missing, flags, edges)


def values_of(binned: BinnedMatrix, dtype=np.float64) -> np.ndarray:
    """Raw table that has the codes of a matrix from `make_binned`."""
    values = binned.columns.T.astype(dtype)
    values[binned.n_bins == binned.columns.T] = np.nan
    return values


def random_codes(rng, n_rows: int, n_bins, missing: float = 0.1) -> np.ndarray:
    """Codes of all bins, some skewed columns, a share of missing ones."""
    columns = []
    for k, size in enumerate(n_bins):
        column = rng.integers(0, size, n_rows)
        if k % 3 == 1:
            column[rng.random(n_rows) < 0.8] = size // 2
        column[rng.random(n_rows) < missing] = size
        columns.append(column)
    return np.array(columns, dtype=np.uint8).T


def eighths(rng, n: int, low: int = -32, high: int = 32) -> np.ndarray:
    """Random float32 multiples of 1/8."""
    return (rng.integers(low, high + 1, n) / 8).astype(np.float32)


def grow_tree(binned, grad, hess, params=None, *, n_threads=1, **more) -> Tree:
    """One tree, from a Grower of its own."""
    with newton_grower(binned, params or GrowerParams(), n_threads) as grower:
        return tree_of(grower, np.asarray(grad, dtype=np.float32), hess, **more)


@st.composite
def tables(draw, max_rows=40, max_features=4, max_bins=6, categorical=True, missing=True):
    """A small BinnedMatrix: ties galore, constant columns, all missing, one row."""
    n_rows = draw(st.integers(1, max_rows))
    n_features = draw(st.integers(1, max_features))
    columns, n_bins, flags = [], [], []
    for _ in range(n_features):
        size = draw(st.integers(1, max_bins))
        top = size if missing and draw(st.booleans()) else size - 1
        columns.append(draw(hnp.arrays(np.uint8, n_rows, elements=st.integers(0, top))))
        n_bins.append(size)
        flags.append(categorical and draw(st.booleans()))
    return make_binned(np.array(columns).T, n_bins, flags)


@st.composite
def problems(draw, **kinds):
    """(binned, grad, hess): hess is a number or an array, all multiples of 1/8."""
    binned = draw(tables(**kinds))
    n = binned.n_rows
    steps = hnp.arrays(np.int32, n, elements=st.integers(-40, 40))
    grad = (draw(steps) / 8).astype(np.float32)
    if draw(st.booleans()):
        hess = draw(st.sampled_from([1.0, 0.5, 2.0]))
    else:
        steps = hnp.arrays(np.int32, n, elements=st.integers(1, 24))
        hess = (draw(steps) / 8).astype(np.float32)
    return binned, grad, hess


@st.composite
def rule_sets(draw, **fixed):
    """GrowerParams of all kinds; the named ones as given."""
    drawn = {
        "max_depth": draw(st.integers(1, 4)),
        "min_child_weight": draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])),
        "min_samples_leaf": draw(st.sampled_from([1, 1, 2, 5])),
        "min_samples_split": draw(st.sampled_from([2, 2, 6])),
        # Bounds that no gain meets exactly: it would be rounding that decides.
        "min_gain": draw(st.sampled_from([0.0, 0.0, 0.31415926, 2.71828182])),
        "reg_lambda": draw(st.sampled_from([0.0, 1.0, 1.0, 8.0])),
        "reg_alpha": draw(st.sampled_from([0.0, 0.0, 0.5, 3.0])),
        "max_delta_step": draw(st.sampled_from([0.0, 0.0, 0.25, 2.0])),
        "max_cat_to_onehot": draw(st.sampled_from([0, 4, 6])),
        "cat_smooth": draw(st.sampled_from([0.0, 0.0, 3.0])),
        "cat_l2": draw(st.sampled_from([0.0, 0.0, 2.0])),
        "min_data_per_group": draw(st.sampled_from([1.0, 1.0, 4.0])),
    }
    return GrowerParams(**(drawn | fixed))


# ---- trees --------------------------------------------------------------------------------------


def random_tree(
    rng, n_leaves, n_features, *, thresholds=None, categorical=(), n_values=1, linear=0, chain=False
) -> Tree:
    """A tree of random shape with `n_leaves` leaves.

    `thresholds` draws n numbers; features listed in `categorical` are split on sets of categories
    below 96, bits or lists; `linear` is the share of leaves with coefficients; a chain is as deep
    as can be.
    """
    thresholds = thresholds or (lambda n: rng.normal(size=n))
    n_nodes = 2 * n_leaves - 1
    nodes = np.zeros(n_nodes, dtype=NODE_DTYPE)
    nodes["left"] = nodes["right"] = nodes["feature"] = nodes["parent"] = -1
    nodes["category_start"] = -1
    open_leaves, sets, n_words = [0], [], 0
    for made in range(1, n_nodes, 2):
        node = open_leaves.pop(-1 if chain else rng.integers(len(open_leaves)))
        children = [made, made + 1]
        if rng.random() < 0.5:
            children.reverse()
        feature = int(rng.integers(n_features))
        nodes["left"][node], nodes["right"][node] = children
        nodes["feature"][node] = feature
        nodes["missing_left"][node] = rng.integers(2)
        nodes["parent"][children] = node
        nodes["depth"][children] = nodes["depth"][node] + 1
        if feature in categorical:
            words = rng.integers(0, 2**32, rng.integers(1, 4), dtype=np.uint32)
            if rng.random() < 0.4:
                limit = int(rng.integers(1, 90))
                words = np.flatnonzero(rng.random(limit) < rng.random()).astype(np.uint32)
                nodes["category_limit"][node] = limit if rng.random() < 0.5 else -limit
            nodes["category_start"][node], nodes["category_words"][node] = n_words, len(words)
            n_words += len(words)
            sets.append(words)
        else:
            nodes["threshold"][node] = thresholds(1)[0]
        open_leaves += children
    tree = Tree(nodes, rng.normal(size=(n_nodes, n_values)))
    if sets:
        tree.categories = np.concatenate(sets)
    if linear:
        counts = np.where((nodes["left"] < 0) & (rng.random(n_nodes) < linear), 2, 0)
        total = int(counts.sum())
        tree = replace(
            tree,
            coef_ptr=np.concatenate([[0], np.cumsum(counts)]),
            coef_feature=rng.integers(0, n_features, total),
            coef=rng.normal(size=(total, n_values)),
            coef_center=rng.normal(size=total),
        )
    return tree
