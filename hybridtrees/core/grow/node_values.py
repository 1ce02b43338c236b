"""Values and impurities of the nodes of a fitted tree, from the sums of its training rows.

All functions return `value` of shape (n_nodes, n_outputs) and `impurity` of shape (n_nodes,).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base.exact_sum import group_sums
from hybridtrees.core.grow._leaf_passes import leaf_means
from hybridtrees.core.search._criteria import weighted_medians

Floats = NDArray[np.float64]


def class_values(
    sums: Floats, bounds: tuple[Floats, Floats], n_classes: int, criterion: str
) -> tuple[Floats, Floats]:
    """Class probabilities, and the impurity of the class weights.

    With two classes the one sum is the weight of the second, and its share keeps to `bounds`.
    """
    weight = sums[:, -1:]
    share = sums[:, :-1] / weight
    if share.shape[1] == 1:
        share = np.hstack([1.0 - share, share])[:, :n_classes]
    if criterion == "gini":
        impurity = 1.0 - np.sum(share * share, axis=1)
    elif criterion == "misclassification":
        impurity = 1.0 - share.max(axis=1)
    else:
        logs = np.log2(share, out=np.zeros_like(share), where=share > 0)
        impurity = -np.sum(share * logs, axis=1)
    if n_classes == 2:
        second = np.clip(share[:, 1], *bounds)
        share = np.column_stack([1.0 - second, second])
    return share, np.maximum(impurity, 0.0)


def _sum_up(nodes: NDArray, own: Floats) -> Floats:
    """Add to every node what its descendants have, level by level from below."""
    total = own.copy()
    order = np.argsort(nodes["depth"], kind="stable")[::-1]
    depth = nodes["depth"][order]
    for level in np.split(order, np.flatnonzero(np.diff(depth)) + 1):
        level = level[nodes["parent"][level] >= 0]
        np.add.at(total, nodes["parent"][level], total[level])
    return total


def _own_sums(leaf: NDArray, per_row: Floats, n_nodes: int) -> Floats:
    """Sum over the rows that end at each node."""
    ended = leaf >= 0
    return group_sums(leaf[ended], n_nodes, per_row[ended])


def mean_values(
    nodes: NDArray,
    y: Floats,
    w: Floats | None,
    segments: tuple[NDArray, NDArray, NDArray],
    inner: Floats,
) -> Floats:
    """Means of the targets as they are, so that a leaf of equal targets has just their value.

    `segments` has the row ids node by node, and start and stop of each node among them. `inner`
    are the means of all nodes from centred sums, which do for the nodes above.
    """
    value = np.array(inner, order="C")
    leaf_means(nodes, y, None if w is None else np.ascontiguousarray(w), *segments, value)
    return value


def square_values(
    nodes: NDArray, sums: Floats, y: Floats, w: Floats | None, leaf: NDArray
) -> tuple[Floats, Floats]:
    """Means, and mean squared deviations from them (averaged over the outputs)."""
    n_nodes = len(nodes)
    value = sums[:, :-1] / sums[:, -1:]
    weight = np.ones(len(y)) if w is None else w
    impurity = np.zeros(n_nodes)
    own_weight = _own_sums(leaf, weight, n_nodes)
    for k in range(y.shape[1]):
        own_sum = _own_sums(leaf, weight * y[:, k], n_nodes)
        own_mean = np.divide(own_sum, own_weight, out=np.zeros(n_nodes), where=own_weight > 0)
        own = _own_sums(leaf, weight * (y[:, k] - own_mean[leaf]) ** 2, n_nodes)
        # Within the groups of rows that end together, then between the parts of each node: never
        # a small difference of large sums.
        parent = nodes["parent"]
        gap = np.zeros(n_nodes)
        child = parent >= 0
        shift = value[child, k] - value[parent[child], k]
        np.add.at(gap, parent[child], sums[child, -1] * shift**2)
        gap += own_weight * (own_mean - value[:, k]) ** 2
        impurity += _sum_up(nodes, own + gap) / sums[:, -1]
    return value, impurity / y.shape[1]


def poisson_values(
    nodes: NDArray, sums: Floats, y: Floats, w: Floats | None, leaf: NDArray
) -> tuple[Floats, Floats]:
    """Means, and half the mean Poisson deviance (averaged over the outputs)."""
    value = sums[:, :-1] / sums[:, -1:]
    weight = np.ones(len(y)) if w is None else w
    impurity = np.zeros(len(nodes))
    for k in range(y.shape[1]):
        logs = np.log(y[:, k], out=np.zeros(len(y)), where=y[:, k] > 0)
        own = _own_sums(leaf, weight * y[:, k] * logs, len(nodes))
        mean_logs = np.log(value[:, k], out=np.zeros(len(nodes)), where=value[:, k] > 0)
        impurity += (_sum_up(nodes, own) - sums[:, k] * mean_logs) / sums[:, -1]
    return value, np.maximum(impurity, 0.0) / y.shape[1]


def median_values(
    y: Floats, w: Floats | None, segments: tuple[NDArray, NDArray, NDArray]
) -> tuple[Floats, Floats]:
    """Medians, and mean absolute deviations from them (averaged over the outputs).

    `segments` has the row ids node by node, and start and stop of each node among them.
    """
    rows, start, stop = segments
    weight = np.ones(len(y)) if w is None else np.ascontiguousarray(w)
    value = np.empty((len(start), y.shape[1]))
    impurity = np.zeros(len(start))
    for k in range(y.shape[1]):
        column = np.ascontiguousarray(y[:, k])
        value[:, k], deviation = weighted_medians(column, weight, rows, start, stop)
        impurity += deviation
    return value, impurity / y.shape[1]
