"""StoreWriter: cuts rows of codes into blocks, encodes their chunks by threads, and writes them."""

from __future__ import annotations

import os
import secrets
import zlib
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.base.workers import start_workers
from hybridtrees.core.search._sorted import bin_ends
from hybridtrees.store.codecs import Chunk, check_compression, encode_codes, encode_numbers
from hybridtrees.store.errors import StoreError
from hybridtrees.store.layout import (
    BLOCK_DTYPE,
    BLOCK_ROWS,
    BLOCKS,
    CHUNK_DTYPE,
    HEADER,
    MAGIC,
    START,
    Layout,
    part_paths,
    read_layout,
    state_of,
    write_layout,
)
from hybridtrees.store.schema import Schema


class StoreWriter:
    """Writes a store block by block; to be used as a context manager.

    Until the block of ``with`` ends without an error, the folder is half-written, and no reader
    takes it.

    Parameters
    ----------
    paths : path or list of paths
        Folders, one for each disk; blocks are dealt out to them in turn.
    schema : Schema
        What the columns are.
    compression : {"auto", "bits", "zstd", "lz4"} or None
        How chunks are stored if that saves at least a quarter. "auto": packed bits, or zstd where
        it saves a quarter of these and is installed.
    n_jobs : int or None
        Threads that encode; None means all.
    overwrite : bool
        Whether a store that is there already is replaced. A half-written one always is.
    """

    def __init__(
        self,
        paths: Any,
        schema: Schema,
        *,
        compression: str | None = "auto",
        n_jobs: int | None = None,
        overwrite: bool = False,
    ) -> None:
        parts = part_paths(paths)
        self._compression = check_compression(compression)
        check_free(parts, overwrite)
        p = schema.n_features
        self._layout = Layout(
            secrets.token_hex(16), schema, parts, np.empty(0, BLOCK_DTYPE),
            np.empty((0, len(schema.chunk_dtypes())), CHUNK_DTYPE), np.zeros(p, np.uint8),
            np.full((p, 256), np.inf), np.full((p, 256), -np.inf),
        )  # fmt: skip
        self._ends = [START] * len(parts)
        self._extends = False
        self._open_buffers(n_jobs)

    @classmethod
    def extending(
        cls, paths: Any, *, compression: str | None = "auto", n_jobs: int | None = None
    ) -> StoreWriter:
        """Return a writer that appends rows to a store.

        Until it ends without an error, readers see the old rows.
        """
        from hybridtrees.store.reader import BinnedStore  # reads the rows of the last block

        self = cls.__new__(cls)
        self._compression = check_compression(compression)
        self._layout = layout = read_layout(paths)
        self._extends = True
        bytes_of = layout.chunks["length"].sum(axis=1, dtype=np.int64)
        stops = layout.blocks["offset"].astype(np.int64) + bytes_of
        own = layout.blocks["part"]
        self._ends = [int(max([START, *stops[own == k]])) for k in range(len(layout.parts))]
        self._open_buffers(n_jobs)
        if len(layout.blocks) and layout.blocks["rows"][-1] < BLOCK_ROWS:
            # The last block is written again, with more rows, behind the bytes in use.
            with BinnedStore(paths) as store:
                last = store.block_columns(store.n_blocks - 1)
            self._n_buffered = len(last[0])
            for own_buffer, column in zip(self._buffer, last, strict=True):
                own_buffer[: len(column)] = column
            layout.blocks, layout.chunks = layout.blocks[:-1], layout.chunks[:-1]
        layout.generation += 1
        return self

    def _open_buffers(self, n_jobs: int | None) -> None:
        self._n_jobs = n_jobs
        self._dtypes = self._layout.schema.chunk_dtypes()
        self._buffer = self._new_buffer()
        self._n_buffered = 0
        self._waiting: deque[tuple[int, Any]] = deque()  # rows, and a promise of chunks
        self._stack = ExitStack()
        self._new_blocks: list[tuple[int, int, int]] = []
        self._new_chunks: list[list[tuple[int, int, int, int]]] = []

    def _new_buffer(self) -> list[np.ndarray]:
        return [np.empty(BLOCK_ROWS, dtype=dtype) for dtype in self._dtypes]

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        waiting = sum(rows for rows, _ in self._waiting) + self._n_buffered
        return self._layout.n_rows + sum(rows for _, rows, _ in self._new_blocks) + waiting

    def __enter__(self) -> Self:
        layout = self._layout
        self._pool, self._n_threads = start_workers(effective_threads(self._n_jobs))
        if self._pool is not None:
            self._stack.callback(self._pool.shutdown, wait=True, cancel_futures=True)
        if not self._extends:
            (layout.parts[0] / HEADER).unlink(missing_ok=True)  # from here on it is half-written
        self._files = []
        for part, end in zip(layout.parts, self._ends, strict=True):
            part.mkdir(parents=True, exist_ok=True)
            file = open(part / BLOCKS, "r+b" if self._extends else "w+b", buffering=0)  # noqa: SIM115
            self._files.append(self._stack.enter_context(file))
            if self._extends:
                file.truncate(end)  # what a writer that was stopped has left
                file.seek(end)
            else:
                _write_all(file, MAGIC + bytes.fromhex(layout.id))
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        with self._stack:
            try:
                if error is None:
                    self._finish()
            except Exception as failed:
                self._explain(failed)
                raise
            if error is not None:
                self._explain(error)

    def _explain(self, error: BaseException) -> None:
        stays = "keeps its old rows" if self._extends else "is half-written"
        error.add_note(f"the store {self._layout.parts[0]} {stays}: writing it did not end")

    def append(
        self,
        codes: NDArray[np.uint8],
        y: Any = None,
        weight: Any = None,
        values: np.ndarray | None = None,
    ) -> None:
        """Append rows.

        Parameters
        ----------
        codes : uint8 ndarray of shape (n, n_features)
            What the mapper of the schema has made of the rows; in any memory order.
        y : array-like of shape (n,) or (n, n_targets)
            Targets; integer codes of classes.
        weight : array-like of shape (n,)
            Weights, if the schema has them.
        values : float ndarray of shape (n, n_features)
            The rows before they were binned, NaN for missing ones: needed for `raw_features`, and
            by models whose thresholds are midpoints between values.
        """
        columns = self._columns(codes, y, weight, values)
        n = len(codes)
        if n == 0:
            return
        self._note(np.asarray(codes), weight, values)
        for start in range(0, n, BLOCK_ROWS):
            self._buffer_rows([column[start : start + BLOCK_ROWS] for column in columns])

    def _columns(self, codes: Any, y: Any, weight: Any, values: Any) -> list[np.ndarray]:
        """Check the rows, and return them by chunk."""
        schema = self._layout.schema
        codes = np.asarray(codes)
        if codes.dtype != np.uint8 or codes.ndim != 2 or codes.shape[1] != schema.n_features:
            raise ValueError(
                f"codes must be uint8 of shape (n, {schema.n_features}), got {codes.dtype} of "
                f"shape {codes.shape}"
            )
        columns = list(codes.T)
        if (y is not None) != (schema.target != "none"):
            raise ValueError("y must be given if the schema has a target, and only then")
        if y is not None:
            target = np.asarray(y)
            target = target[:, None] if target.ndim == 1 else target
            if target.shape != (len(codes), schema.n_targets):
                raise ValueError(
                    f"y must have {schema.n_targets} numbers for each of the {len(codes)} rows, "
                    f"got the shape {np.shape(y)}"
                )
            if schema.target == "classes" and not (
                target.dtype.kind in "iu" and _within(target, len(schema.classes))
            ):
                raise ValueError("y must hold codes of the classes in the schema")
            if schema.target == "numbers" and not np.all(np.isfinite(target)):
                raise ValueError("y must be finite")
            columns += list(target.T)
        if (weight is not None) != bool(schema.weighted):
            raise ValueError("weight must be given if the schema is weighted, and only then")
        if weight is not None:
            columns.append(_checked(weight, "weight", (len(codes),)))
        if values is None and schema.raw_features:
            raise ValueError("values must be given if the schema has raw_features")
        if values is not None:
            values = _checked(values, "values", codes.shape)
            columns += [values[:, f] for f in schema.raw_features]
        return columns

    def _note(self, codes: np.ndarray, weight: Any, values: Any) -> None:
        """Note missing values, and the ends of the bins."""
        layout = self._layout
        missing = layout.schema.mapper.missing_bin_
        most = codes.max(axis=0)
        if np.any(most > missing):
            f = int(np.argmax(most > missing))
            raise ValueError(f"codes of feature {f} must be at most {missing[f]}, got {most[f]}")
        layout.has_missing |= most == missing
        if values is None:
            return
        used = slice(None) if weight is None else np.asarray(weight) > 0
        table = np.asarray(values)[used]
        if len(table):
            table = table if table.dtype == np.float32 else table.astype(np.float64, copy=False)
            columns = np.ascontiguousarray(codes[used].T)
            bin_ends(table, columns, layout.least, layout.largest, 1)

    def _buffer_rows(self, columns: list[np.ndarray]) -> None:
        start, n = 0, len(columns[0])
        while start < n:
            m = min(n - start, BLOCK_ROWS - self._n_buffered)
            at = slice(self._n_buffered, self._n_buffered + m)
            for own, column in zip(self._buffer, columns, strict=True):
                own[at] = column[start : start + m]
            self._n_buffered += m
            start += m
            if self._n_buffered == BLOCK_ROWS:
                self._close_block()

    def _close_block(self) -> None:
        """Have the rows in the buffer encoded, and write blocks that are ready."""
        n = self._n_buffered
        columns, self._n_buffered = [own[:n] for own in self._buffer], 0
        if self._pool is None:
            self._write(n, self._encode(columns))
            return
        self._buffer = self._new_buffer()
        self._waiting.append((n, self._pool.submit(self._encode, columns)))
        self._write_waiting(self._n_threads)

    def _write_waiting(self, most: int) -> None:
        while len(self._waiting) > most:
            n, promise = self._waiting[0]
            self._write(n, promise.result())
            self._waiting.popleft()

    def _encode(self, columns: list[np.ndarray]) -> list[tuple[Chunk, int]]:
        """Return the chunks of a block, with checksums."""
        p = self._layout.schema.n_features
        chunks = [encode_codes(codes, self._compression) for codes in columns[:p]]
        chunks += [encode_numbers(numbers, self._compression) for numbers in columns[p:]]
        return [(chunk, zlib.crc32(chunk.data)) for chunk in chunks]

    def _write(self, n: int, chunks: Iterable[tuple[Chunk, int]]) -> None:
        chunks = list(chunks)
        number = len(self._layout.blocks) + len(self._new_blocks)
        part = number % len(self._files)
        _write_all(self._files[part], b"".join(chunk.data for chunk, _ in chunks))
        lengths = [len(chunk.data) for chunk, _ in chunks]
        self._new_blocks.append((part, n, self._ends[part]))
        self._new_chunks.append(
            [(c.codec, c.bits, m, crc) for (c, crc), m in zip(chunks, lengths, strict=True)]
        )
        self._ends[part] += list(accumulate(lengths))[-1]

    def _finish(self) -> None:
        if self._n_buffered:
            self._close_block()
        self._write_waiting(0)
        layout = self._layout
        if not self._new_blocks and not len(layout.blocks):
            raise StoreError("a store needs at least one row, got none")
        for file in self._files:
            os.fsync(file.fileno())
        blocks = np.array(self._new_blocks, dtype=BLOCK_DTYPE)
        chunks = np.array(self._new_chunks, dtype=CHUNK_DTYPE)
        layout.blocks = np.concatenate([layout.blocks, blocks])
        layout.chunks = np.concatenate([layout.chunks, chunks.reshape(-1, len(self._dtypes))])
        write_layout(layout)


def check_free(parts: Iterable[Path], overwrite: bool) -> None:
    """Refuse folders that hold something else, or a store that is not to be replaced."""
    for part in parts:
        found = state_of(part)
        if found == "other" or (found == "whole" and not overwrite):
            what = "a store" if found == "whole" else "files that are no store"
            raise FileExistsError(f"{part} holds {what}: give another path or remove them")


def _within(codes: np.ndarray, n: int) -> bool:
    return codes.size == 0 or (int(codes.min()) >= 0 and int(codes.max()) < n)


def _checked(values: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    checked = np.asarray(values)
    if checked.shape != shape or checked.dtype.kind not in "buif":
        raise ValueError(
            f"{name} must be numbers of shape {shape}, got {checked.dtype} of shape {checked.shape}"
        )
    if name == "weight" and not np.all(np.isfinite(checked) & (checked >= 0)):
        raise ValueError("weight must be finite and not negative")
    return checked


def _write_all(file: Any, data: bytes) -> None:
    """Write all bytes: one call may write fewer."""
    rest = memoryview(data)
    while len(rest):
        rest = rest[file.write(rest) :]
