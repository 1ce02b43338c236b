"""Fill colours of nodes: the hue shows the class, the strength its lead over the others."""

from __future__ import annotations

import colorsys

import numpy as np

from hybridtrees.inspection._named_tree import NamedTree

# The first hue is an orange; others follow at equal distances.
_FIRST_HUE = 25.0 / 360.0
CUT_COLOR = "#c0c0c0"  # of what stands for a branch that is not drawn
_SATURATION, _BRIGHTNESS = 0.75, 0.9


def class_colors(n_classes: int) -> np.ndarray:
    """Colours as far apart as so many can be, (n_classes, 3) from 0 to 1."""
    hues = (_FIRST_HUE + np.arange(n_classes) / max(1, n_classes)) % 1.0
    return np.array([colorsys.hsv_to_rgb(hue, _SATURATION, _BRIGHTNESS) for hue in hues])


def node_colors(named: NamedTree) -> list[str]:
    """Colour of every node as "#rrggbb".

    Where the nodes hold shares of classes, the colour is that of the largest, the stronger the
    farther it is ahead of the second. Otherwise it grows with the value from the lowest of the
    tree to the highest; for several outputs, with the purity of the node, or with their mean.
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
    """Black or white, whichever is read more easily on a colour."""
    red, green, blue = (int(fill[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.45 else "white"


def _blend(base: np.ndarray, strength: np.ndarray) -> list[str]:
    """Mix colours with white."""
    strength = np.clip(np.nan_to_num(strength), 0.0, 1.0)[:, None]
    mixed = np.rint(255 * (strength * base + (1 - strength))).astype(int)
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in mixed]
