"""Positions and colours of the nodes of a drawn tree."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hybridtrees.inspection._named_tree import NamedTree

# The first hue is orange; the others follow at equal distances.
_FIRST_HUE = 25.0 / 360.0
CUT_COLOR = "#c0c0c0"  # of a placeholder for a branch that is not drawn
_SATURATION, _BRIGHTNESS = 0.75, 0.9


@dataclass
class _Outline:
    """Left and right edge of a subtree on each level, the deepest first; `shift` is to be added.

    The level of the root comes last, so that a parent can be appended.
    """

    left: list[float]
    right: list[float]
    shift: float = 0.0


def tidy_positions(
    left: Sequence[int], right: Sequence[int], widths: Sequence[float], gap: float
) -> np.ndarray:
    """Return the horizontal centres of the nodes of a binary tree (Reingold and Tilford 1981).

    Equal subtrees are drawn alike, siblings are as close as their outlines allow, and a parent is
    centred above its children. The cost is proportional to the number of nodes.
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
    """Return the distance between two subtrees at which their outlines touch."""
    levels = min(len(first.right), len(second.left))
    shift = first.shift - second.shift
    return max(first.right[-k] - second.left[-k] for k in range(1, levels + 1)) + shift


def _merge(first: _Outline, second: _Outline) -> _Outline:
    """Return the outline of two subtrees side by side, in the lists of the deeper one."""
    levels = min(len(first.left), len(second.left))
    if len(first.left) >= len(second.left):
        change = second.shift - first.shift
        first.right[-levels:] = [edge + change for edge in second.right[-levels:]]
        return first
    change = first.shift - second.shift
    second.left[-levels:] = [edge + change for edge in first.left[-levels:]]
    return second


def class_colors(n_classes: int) -> np.ndarray:
    """Return colours of maximum distance, (n_classes, 3) from 0 to 1."""
    hues = (_FIRST_HUE + np.arange(n_classes) / max(1, n_classes)) % 1.0
    return np.array([colorsys.hsv_to_rgb(hue, _SATURATION, _BRIGHTNESS) for hue in hues])


def node_colors(named: NamedTree) -> list[str]:
    """Return the colour of every node as "#rrggbb".

    In classification the hue is that of the most frequent class, and its strength the lead over the
    second. In regression the strength grows with the value; with several outputs it grows with the
    purity of the node, or with the mean of the outputs if the tree has no impurities.
    """
    values = named.tree.values
    if named.class_names is not None:
        ordered = np.sort(np.column_stack([np.zeros(len(values)), values]), axis=1)
        first, second = ordered[:, -1], ordered[:, -2]
        lead = np.divide(first - second, 1 - second, out=np.zeros(len(values)), where=second < 1)
        base = class_colors(values.shape[1])[np.argmax(values, axis=1)]
        return _blend(base, lead)
    if values.shape[1] == 1:
        level = values[:, 0]
    elif named.impurity is not None:
        level = -np.asarray(named.impurity, dtype=np.float64)
    else:
        level = values.mean(axis=1)
    low, high = level.min(), level.max()
    strength = (level - low) / (high - low) if high > low else np.zeros(len(level))
    return _blend(np.tile(class_colors(1), (len(level), 1)), strength)


def text_color(fill: str) -> str:
    """Return black or white, whichever has more contrast with a colour."""
    red, green, blue = (int(fill[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.45 else "white"


def _blend(base: np.ndarray, strength: np.ndarray) -> list[str]:
    """Mix colours with white."""
    strength = np.clip(np.nan_to_num(strength), 0.0, 1.0)[:, None]
    mixed = np.rint(255 * (strength * base + (1 - strength))).astype(int)
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in mixed]
