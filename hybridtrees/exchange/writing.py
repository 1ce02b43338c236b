"""What several exports need: files, and an order of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._replacing import find_target, replacing
from hybridtrees.core.tree.tree import Tree


def write_text(path: Any, text: str) -> None:
    """Write a file as a whole, or not at all; nothing if `path` is None."""
    if path is not None:
        write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Any, content: bytes) -> None:
    """Write a file as a whole, or not at all; nothing if `path` is None."""
    if path is None:
        return
    with replacing(find_target(Path(path))) as stream:
        stream.write(content)


def breadth_first(tree: Tree) -> NDArray[np.intp]:
    """Return the nodes of a tree level by level, the right child after the left one."""
    found, level = [], np.zeros(1, dtype=np.intp)
    while len(level):
        found.append(level)
        inner = level[tree.nodes["left"][level] >= 0]
        level = np.column_stack([tree.nodes["left"][inner], tree.nodes["right"][inner]]).ravel()
    return np.concatenate(found).astype(np.intp)
