"""What several exports need: files, and an order of nodes."""

from __future__ import annotations

import struct
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


def to_ubjson(value: Any) -> bytes:
    """Return strings, whole numbers, float32 numbers, lists and dicts in UBJSON (draft 12)."""
    parts: list[bytes] = []
    _add_ubjson(value, parts)
    return b"".join(parts)


def _add_ubjson(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, dict):
        parts.append(b"{")
        for key, one in value.items():
            name = key.encode("utf-8")
            parts.append(struct.pack(">cq", b"L", len(name)) + name)
            _add_ubjson(one, parts)
        parts.append(b"}")
    elif isinstance(value, list):
        parts.append(b"[")
        for one in value:
            _add_ubjson(one, parts)
        parts.append(b"]")
    elif isinstance(value, str):
        text = value.encode("utf-8")
        parts.append(struct.pack(">ccq", b"S", b"L", len(text)) + text)
    elif isinstance(value, int):
        parts.append(struct.pack(">cq", b"L", value))
    else:
        parts.append(struct.pack(">cf", b"d", value))


def breadth_first(tree: Tree) -> NDArray[np.intp]:
    """Return the nodes of a tree level by level, the right child after the left one."""
    found, level = [], np.zeros(1, dtype=np.intp)
    while len(level):
        found.append(level)
        inner = level[tree.nodes["left"][level] >= 0]
        level = np.column_stack([tree.nodes["left"][inner], tree.nodes["right"][inner]]).ravel()
    return np.concatenate(found).astype(np.intp)
