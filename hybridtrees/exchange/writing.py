"""Files that exports write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hybridtrees._replacing import find_target, replacing


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
