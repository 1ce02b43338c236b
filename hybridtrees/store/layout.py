"""Files of a store: header, index of the chunks, and blocks.

The folder of a store holds

- ``header.json``: version, shape, schema, and the name and checksum of the index;
- ``index-<n>.npz``: bins, and place, codec, length and checksum of each chunk;
- ``blocks.bin``: magic bytes and id of the store, then the chunks, block after block.

A store on several disks has a folder with a ``blocks.bin`` on each; header and index are in the
first. The header is written last, under another name, and then renamed. A folder with blocks and
no header is half-written. Rows are appended behind the bytes that the old header knows, so that a
store is whole at any time.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._replacing import replacing
from hybridtrees.store.errors import StoreError
from hybridtrees.store.schema import Schema

FORMAT = "hybridtrees-store"
VERSION = 1
BLOCK_ROWS = 65_536
HEADER, BLOCKS = "header.json", "blocks.bin"
MAGIC = b"HTBLOCKS"
START = len(MAGIC) + 16  # bytes before the first chunk: magic bytes and id

BLOCK_DTYPE = np.dtype([("part", "<u4"), ("rows", "<u4"), ("offset", "<u8")])
CHUNK_DTYPE = np.dtype([("codec", "u1"), ("bits", "u1"), ("length", "<u4"), ("crc", "<u4")])


@dataclass
class Layout:
    """What the header and the index of a store say."""

    id: str
    schema: Schema
    parts: list[Path]
    blocks: np.ndarray  # BLOCK_DTYPE
    chunks: np.ndarray  # CHUNK_DTYPE, (n_blocks, n_chunks)
    has_missing: NDArray[np.uint8]
    least: NDArray[np.float64]  # minimum of each bin, (n_features, 256); infinite without values
    largest: NDArray[np.float64]
    generation: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.blocks["rows"].sum(dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks."""
        return int(self.chunks["length"].sum(dtype=np.int64))


def part_paths(paths: Any) -> list[Path]:
    """Return the folders of a store, given as one path or a list."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given or not all(isinstance(path, str | os.PathLike) for path in given):
        raise TypeError(f"paths must be a path or a list of paths, got {paths!r}")
    folders = [Path(path).resolve() for path in given]
    if len(set(folders)) < len(folders):
        raise ValueError(f"paths must differ, got {paths!r}")
    return folders


def state_of(folder: Path) -> str:
    """Return what is in a folder: "whole", "half-written", "none" or "other"."""
    if (folder / HEADER).is_file():
        return "whole"
    if (folder / BLOCKS).is_file():
        return "half-written"
    return "other" if folder.exists() and any(folder.iterdir()) else "none"


def write_layout(layout: Layout) -> None:
    """Write index and header; what they replace is valid until the header is in its place."""
    folder = layout.parts[0]
    buffer = io.BytesIO()
    own = {name: getattr(layout, name) for name in ("blocks", "chunks", "has_missing")}
    ends = {"least": layout.least, "largest": layout.largest}
    np.savez(buffer, **own, **ends, **layout.schema.to_arrays())  # type: ignore[arg-type]
    index = buffer.getvalue()
    name = f"index-{layout.generation}.npz"
    with replacing(folder / name) as file:
        file.write(index)
    state = {
        "format": FORMAT,
        "version": VERSION,
        "id": layout.id,
        "n_rows": layout.n_rows,
        "n_features": layout.schema.n_features,
        "block_rows": BLOCK_ROWS,
        "parts": [str(path) for path in layout.parts],
        "schema": layout.schema.to_json(),
        "generation": layout.generation,
        "index": {"file": name, "bytes": len(index), "crc32": zlib.crc32(index)},
    }
    state["crc32"] = _checksum(state)
    with replacing(folder / HEADER) as file:
        file.write(json.dumps(state, indent=1).encode())
    _sync_folder(folder)
    for old in folder.glob("index-*.npz"):
        if old.name != name:
            old.unlink(missing_ok=True)


def read_layout(paths: Any) -> Layout:
    """Read header and index, and check that they belong together."""
    folders = part_paths(paths)
    folder = folders[0]
    found = state_of(folder)
    if found == "half-written":
        raise StoreError(f"{folder} is half-written: building it did not end, build it again")
    if found != "whole":
        raise FileNotFoundError(f"{folder} is not a store: it has no {HEADER}")
    try:
        try:
            return _read(folder, folders)
        except FileNotFoundError:  # rows may just have been appended, with a new index
            return _read(folder, folders)
    except StoreError as error:
        raise StoreError(f"the store {folder} cannot be used: {error}") from error
    except OSError as error:
        raise StoreError(f"the store {folder} cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError, OverflowError, zipfile.BadZipFile) as error:
        raise StoreError(f"the store {folder} is damaged: {error!r}") from error


def _read(folder: Path, folders: Sequence[Path]) -> Layout:
    try:
        state = json.loads((folder / HEADER).read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise StoreError(f"{HEADER} is damaged") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise StoreError(f"{HEADER} is that of something else")
    if state["version"] != VERSION:
        raise StoreError(
            f"it has the version {state['version']!r}, this hybridtrees reads version {VERSION}"
        )
    if state.pop("crc32", None) != _checksum(state):
        raise StoreError(f"{HEADER} is damaged: its checksum differs")
    wanted = state["index"]
    name = Path(str(wanted["file"])).name
    index = (folder / name).read_bytes()
    if len(index) != wanted["bytes"] or zlib.crc32(index) != wanted["crc32"]:
        raise StoreError(f"{name} is damaged: its checksum differs")
    with np.load(io.BytesIO(index), allow_pickle=False) as arrays:
        parts = {key: arrays[key] for key in arrays.files}
    schema = Schema.from_parts(state["schema"], parts)
    # A store that was moved is given by its new paths.
    known = [folder, *(Path(path) for path in state["parts"][1:])]
    if len(folders) > 1:
        known = list(folders)
    if len(known) != len(state["parts"]):
        raise StoreError(f"it has {len(state['parts'])} parts, but {len(known)} paths were given")
    layout = Layout(
        state["id"], schema, known, parts["blocks"], parts["chunks"], parts["has_missing"],
        parts["least"], parts["largest"], state["generation"],
    )  # fmt: skip
    _check(layout, state)
    return layout


def _check(layout: Layout, state: dict[str, Any]) -> None:
    """Refuse an index that does not fit the header, or that would lead out of the files."""
    blocks, chunks, p = layout.blocks, layout.chunks, layout.schema.n_features
    dtypes = layout.schema.chunk_dtypes()
    if (
        blocks.dtype != BLOCK_DTYPE
        or chunks.dtype != CHUNK_DTYPE
        or chunks.shape != (len(blocks), len(dtypes))
        or layout.has_missing.shape != (p,)
        or layout.has_missing.dtype != np.uint8
        or any(
            ends.shape != (p, 256) or ends.dtype != np.float64
            for ends in (layout.least, layout.largest)
        )
        or state["n_features"] != p
        or state["n_rows"] != layout.n_rows
        or state["block_rows"] != BLOCK_ROWS
        or np.any(blocks["part"] >= len(layout.parts))
        or np.any(blocks["rows"][:-1] != BLOCK_ROWS)
        or np.any(blocks["rows"] > BLOCK_ROWS)
        or np.any(blocks["rows"] == 0)
    ):
        raise StoreError("header and index do not fit together")
    ends = blocks["offset"].astype(object) + chunks["length"].sum(axis=1, dtype=np.uint64)
    for k, part in enumerate(layout.parts):
        stop = max([START, *ends[blocks["part"] == k]])
        check_part(part / BLOCKS, layout.id, int(stop))


def check_part(path: Path, id_: str, n_bytes: int) -> None:
    """Refuse a file of blocks of another store, or one that is too short."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if file.read(START) != MAGIC + bytes.fromhex(id_):
            raise StoreError(f"{path} belongs to another store")
    if size < n_bytes:
        raise StoreError(f"{path} is truncated: it has {size} bytes, {n_bytes} are needed")


def _checksum(state: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(state, sort_keys=True).encode())


def _sync_folder(folder: Path) -> None:
    """Write the names in a folder to disk, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
