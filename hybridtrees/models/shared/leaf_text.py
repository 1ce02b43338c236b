"""Text for leaves with linear models: the path to a leaf, and its equation."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees.core.tree.tree import Tree


def node_path(tree: Tree, names: list[str], categories: Any, node: int) -> list[str]:
    """Return the conditions on the path to a node as text, from the root down."""
    nodes, words = tree.nodes, []
    while nodes["parent"][node] >= 0:
        up = int(nodes["parent"][node])
        left = nodes["left"][up] == node
        f = int(nodes["feature"][up])
        if nodes["category_start"][up] >= 0:
            labels = categories[f]
            inside = np.isin(np.arange(len(labels)), tree.category_set(up))
            shown = ", ".join(str(label) for label in labels[inside if left else ~inside])
            words.append(f"{names[f]} in {{{shown}}}")
        else:
            words.append(f"{names[f]} {'<=' if left else '>'} {nodes['threshold'][up]:.6g}")
        node = up
    return words[::-1]


def equation(columns: list[str], coef: np.ndarray, intercept: float, digits: int = 4) -> str:
    """Return a linear function as text, without terms that are 0."""
    text = f"{intercept:.{digits}g}"
    for name, b in zip(columns, coef, strict=True):
        if b != 0:
            text += f" {'-' if b < 0 else '+'} {abs(b):.{digits}g} {name}"
    return text
