"""Trees of hybridtrees and of xgboost as partitions of training rows, to be compared.

xgboost sends x < cut left and hybridtrees x <= edge, and a category set goes right in one and
left in the other: so two trees are taken to be equal when they part the rows into the same sets
with the same features, whatever their thresholds and sides are.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np


class Part(NamedTuple):
    """A node, without the rows that reach it."""

    feature: int
    gain: float
    cover: float
    value: float
    missing_left: bool


Partition = dict[bytes, Part]


def our_partition(model, X, tree: int = 0) -> Partition:
    """From the set of rows (a mask as bytes) to the node that holds them."""
    fitted = model.trees_[tree]
    X = model._reader.read(X)
    parts: Partition = {}

    def walk(k: int, rows: np.ndarray) -> None:
        node = fitted.nodes[k]
        parts[rows.tobytes()] = Part(
            int(node["feature"]),
            float(node["gain"]),
            float(node["weight"]),
            float(fitted.values[k, 0]),
            bool(node["missing_left"]),
        )
        if node["left"] < 0:
            return
        x = X[:, node["feature"]]
        if node["category_start"] >= 0:
            left = np.isin(x, fitted.category_set(k))
        else:
            left = x <= node["threshold"]
        left = np.where(np.isnan(x), bool(node["missing_left"]), left)
        walk(node["left"], rows & left)
        walk(node["right"], rows & ~left)

    walk(0, np.ones(len(X), dtype=bool))
    return parts


def their_partition(booster, X, tree: int = 0) -> Partition:
    """Do the same for a tree of an xgboost booster; `X` holds numbers, categories as codes."""
    document = json.loads(booster.save_raw("json"))
    fields = document["learner"]["gradient_booster"]["model"]["trees"][tree]
    sets = {
        node: fields["categories"][start : start + size]
        for node, start, size in zip(
            fields["categories_nodes"],
            fields["categories_segments"],
            fields["categories_sizes"],
            strict=True,
        )
    }
    X = np.asarray(X, dtype=np.float32)
    parts: Partition = {}

    def walk(k: int, rows: np.ndarray) -> None:
        is_leaf = fields["left_children"][k] < 0
        threshold = np.float32(fields["split_conditions"][k])
        parts[rows.tobytes()] = Part(
            -1 if is_leaf else fields["split_indices"][k],
            0.0 if is_leaf else fields["loss_changes"][k],
            fields["sum_hessian"][k],
            float(threshold) if is_leaf else fields["base_weights"][k],
            bool(fields["default_left"][k]),
        )
        if is_leaf:
            return
        x = X[:, fields["split_indices"][k]]
        left = ~np.isin(x, sets[k]) if k in sets else x < threshold
        left = np.where(np.isnan(x), bool(fields["default_left"][k]), left)
        walk(fields["left_children"][k], rows & left)
        walk(fields["right_children"][k], rows & ~left)

    walk(0, np.ones(len(X), dtype=bool))
    return parts


def assert_same_tree(ours: Partition, theirs: Partition, rtol: float = 1e-4) -> None:
    """Same sets of rows, features, gains, covers and leaf values.

    xgboost takes gains as differences of float32 scores, hence the absolute tolerance.
    """
    assert set(ours) == set(theirs), f"{len(set(ours) & set(theirs))} nodes of {len(ours)} agree"
    keys = list(ours)
    columns = zip([ours[key] for key in keys], [theirs[key] for key in keys], strict=True)
    a, b = (np.array([part[:4] for part in side]) for side in zip(*columns, strict=True))
    np.testing.assert_array_equal(a[:, 0], b[:, 0], err_msg="features")
    np.testing.assert_allclose(a[:, 1], b[:, 1], rtol=rtol, atol=1e-6 * b[:, 1].max())
    np.testing.assert_allclose(a[:, 2], b[:, 2], rtol=rtol, err_msg="covers")
    leaves = a[:, 0] < 0
    spread = np.abs(b[leaves, 3]).max()
    np.testing.assert_allclose(a[leaves, 3], b[leaves, 3], rtol=rtol, atol=1e-5 * spread)


def assert_missing_go_alike(ours, theirs, X):
    """Rows without a value go to the same side in both first trees."""
    parts, others = our_partition(ours, X), their_partition(theirs.get_booster(), X)
    seen = 0
    for key, part in parts.items():
        rows = np.frombuffer(key, dtype=bool)
        if part.feature >= 0 and np.isnan(X[rows, part.feature]).any():
            assert part.missing_left == others[key].missing_left
            seen += 1
    assert seen > 5
