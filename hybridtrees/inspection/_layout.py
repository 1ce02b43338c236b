"""Where the nodes of a drawn tree stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass
class _Outline:
    """Left and right edge of a subtree on each of its levels, the deepest first.

    The root's level stands last, so that a parent is appended; all entries are to be shifted.
    """

    left: list[float]
    right: list[float]
    shift: float = 0.0


def tidy_positions(
    left: Sequence[int], right: Sequence[int], widths: Sequence[float], gap: float
) -> np.ndarray:
    """Horizontal centres of the nodes of a binary tree.

    Subtrees are drawn alike wherever they stand, side by side as close as their outlines allow,
    and a parent above the middle of its children (Reingold and Tilford 1981). The work is
    proportional to the number of nodes.
    """
    n_nodes = len(left)
    offset = np.zeros(n_nodes)  # of a node from its parent
    outlines: list[_Outline | None] = [None] * n_nodes
    for node in range(n_nodes - 1, -1, -1):
        half = widths[node] / 2
        if left[node] < 0:
            outlines[node] = _Outline([-half], [half])
            continue
        first, second = outlines[left[node]], outlines[right[node]]
        assert first is not None and second is not None
        outlines[left[node]] = outlines[right[node]] = None
        distance = _distance(first, second) + gap
        offset[left[node]], offset[right[node]] = -distance / 2, distance / 2
        first.shift -= distance / 2
        second.shift += distance / 2
        merged = _merge(first, second)
        merged.left.append(-half - merged.shift)
        merged.right.append(half - merged.shift)
        outlines[node] = merged
    x = offset
    for node in range(n_nodes):
        if left[node] >= 0:
            x[left[node]] += x[node]
            x[right[node]] += x[node]
    return x - np.min(x - np.asarray(widths) / 2)


def _distance(first: _Outline, second: _Outline) -> float:
    """How far apart two subtrees must stand if their outlines are to touch."""
    levels = min(len(first.right), len(second.left))
    shift = first.shift - second.shift
    return max(first.right[-k] - second.left[-k] for k in range(1, levels + 1)) + shift


def _merge(first: _Outline, second: _Outline) -> _Outline:
    """Outline of two subtrees side by side; the deeper one's lists are reused."""
    levels = min(len(first.left), len(second.left))
    if len(first.left) >= len(second.left):
        change = second.shift - first.shift
        first.right[-levels:] = [edge + change for edge in second.right[-levels:]]
        return first
    change = first.shift - second.shift
    second.left[-levels:] = [edge + change for edge in first.left[-levels:]]
    return second
