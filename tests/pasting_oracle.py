"""Pasting small votes as the paper says it, one candidate after the other: slow and obvious."""

from __future__ import annotations

import numpy as np


def walk(tree, row):
    """Return the leaf of one row in a tree of numeric splits without missing values."""
    node = 0
    while tree.nodes["left"][node] >= 0:
        left = row[tree.nodes["feature"][node]] <= tree.nodes["threshold"][node]
        node = tree.nodes["left" if left else "right"][node]
    return node


def simulate(
    X, target, draws, *, n_members, size, importance, grow, n_classes, smoothing=0.75, hard=True
):
    """Return the precincts and e(k); `grow` makes a tree from distinct rows, counts and a seed.

    `draws` gives the i-th candidate of each precinct and the number that decides about it.
    """
    trees, precincts, curve = [], [], []
    precinct = [draws.rows(0, i, i + 1)[0] for i in range(size)]
    error = None
    for member in range(n_members):
        precincts.append(precinct)
        rows = sorted(set(precinct))
        counts = [precinct.count(row) for row in rows]
        trees.append(grow(np.array(rows), np.array(counts), draws.seed(member)))
        precinct, losses, i = [], [], 0
        while len(precinct) < size:
            row = draws.rows(member + 1, i, i + 1)[0]
            loss = out_of_bag_loss(X[row], target[row], row, trees, precincts, n_classes, hard)
            if not importance or error is None or i >= 64 * size:
                chance = 1.0
            elif n_classes:
                chance = 1.0 if loss == 1.0 else min(1.0, error / (1.0 - error))
            else:
                chance = min(1.0, 0.25 + (0.0 if loss is None else loss) / (4.0 * error))
            if draws.chances(member + 1, i, i + 1)[0] < chance:
                precinct.append(row)
            if loss is not None:
                losses.append(loss)
            i += 1
        if losses:
            mean = sum(losses) / len(losses)
            error = mean if error is None else smoothing * error + (1 - smoothing) * mean
        curve.append(np.nan if error is None else error)
    return precincts, curve


def out_of_bag_loss(x, y, row, trees, precincts, n_classes, hard):
    """Return 0 or 1, or the absolute residual, by the trees that have not seen a row; or None."""
    values = [
        tree.values[walk(tree, x)]
        for tree, held in zip(trees, precincts, strict=True)
        if row not in held
    ]
    if not values:
        return None
    if not n_classes:
        return abs(y - np.mean(values))
    votes = np.zeros(n_classes)
    for value in values:
        votes += np.eye(n_classes)[np.argmax(value)] if hard else value
    return float(np.argmax(votes) != y)
