"""BinnedStore: reads the blocks of a store."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.base.workers import run_threads
from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.store.codecs import decode
from hybridtrees.store.errors import StoreError
from hybridtrees.store.fitting import fit_arguments
from hybridtrees.store.layout import BLOCK_ROWS, BLOCKS, Layout, read_layout
from hybridtrees.store.memory import check_memory_limit
from hybridtrees.store.schema import Schema

_GAP = 1 << 16  # bytes that are read and dropped rather than skipped


class BinnedStore:
    """A binned table on disk, made by `StoreWriter`.

    Estimators with histograms take it in place of a table: ``est.fit(store)``. Every chunk that is
    read is checked, and a damaged one is a `StoreError` that names it.

    Parameters
    ----------
    paths : path or list of paths
        Folder of the store. If it has parts on other disks and these were moved, the folders of
        all parts.
    memory_limit : int or None
        Bytes that a fit may use for decoded codes; None for 60 % of what is free when it starts, on
        the machine and in its control group.

    Attributes
    ----------
    schema : Schema
        Features and target.
    n_rows, n_features, n_blocks : int
        Size of the table; a block has 65,536 rows, the last one the rest.
    bytes_read : int
        Bytes of chunks read so far.
    """

    def __init__(self, paths: Any, *, memory_limit: int | None = None) -> None:
        if memory_limit is not None:
            check_memory_limit(memory_limit)
        self.memory_limit = memory_limit
        self._layout: Layout = read_layout(paths)
        self.schema: Schema = self._layout.schema
        self.n_rows = self._layout.n_rows
        self.n_features = self.schema.n_features
        self.n_blocks = len(self._layout.blocks)
        self.bytes_read = 0
        self._lock = threading.Lock()
        self._dtypes = self.schema.chunk_dtypes()
        lengths = self._layout.chunks["length"].astype(np.int64)
        self._starts = np.cumsum(lengths, axis=1) - lengths
        self._stack = ExitStack()
        self._files = [
            self._stack.enter_context((part / BLOCKS).open("rb", buffering=0))
            for part in self._layout.parts
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._stack.close()

    def __reduce__(self) -> tuple[Any, ...]:
        paths = [str(path) for path in self._layout.parts]
        return partial(type(self), paths, memory_limit=self.memory_limit), ()

    def open_for(
        self, estimator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of ``estimator.fit`` for a fit to this store; see `atomic_fit`."""
        return fit_arguments(self, estimator, args, kwargs)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        megabytes = self.nbytes / 1e6
        return f"BinnedStore({self.n_rows} x {self.n_features}, {megabytes:.1f} MB)"

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_features)."""
        return self.n_rows, self.n_features

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks on disk."""
        return self._layout.nbytes

    @property
    def mapper(self) -> BinMapper:
        """The mapper that has made the codes."""
        return self.schema.mapper

    @property
    def has_missing(self) -> NDArray[np.uint8]:
        """Whether any row of a feature has the code of missing values."""
        return self._layout.has_missing

    @property
    def bin_ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Minimum and maximum of each bin, (n_features, 256); None if no values were given."""
        known = np.isfinite(self._layout.least).any()
        return (self._layout.least, self._layout.largest) if known else None

    @cached_property
    def y(self) -> np.ndarray | None:
        """Targets: numbers, codes of classes, or None."""
        first = self.n_features
        made = self._gather(range(first, first + self.schema.n_targets))
        if not made:
            return None
        if self.schema.target == "classes":
            codes = made[0]
            assert self.schema.classes is not None
            if codes.min() < 0 or codes.max() >= len(self.schema.classes):
                raise StoreError(f"{self._layout.parts[0]} is damaged: it holds unknown classes")
        return made[0] if len(made) == 1 else np.column_stack(made)

    @cached_property
    def weight(self) -> NDArray[np.float64] | None:
        """Weights of the rows, or None."""
        if not self.schema.weighted:
            return None
        at = self.n_features + self.schema.n_targets
        return self._gather([at])[0]

    def values_of(self, features: Sequence[int]) -> NDArray[np.float32]:
        """Return the values of features that are stored beside the codes, (n_rows, n)."""
        stored = list(self.schema.raw_features)
        at = len(self._dtypes) - len(stored)
        missing = [f for f in features if f not in stored]
        if missing:
            raise StoreError(
                f"the store has no values of feature {missing[0]}, but linear leaves need them: "
                "build it with raw_features"
            )
        return np.column_stack(self._gather([at + stored.index(f) for f in features]))

    def block(self, i: int, columns: Sequence[int] | None = None) -> NDArray[np.uint8]:
        """Return the codes of a block, (n_columns, rows); of all features by default."""
        columns = range(self.n_features) if columns is None else columns
        out = np.empty((len(columns), int(self._layout.blocks["rows"][i])), dtype=np.uint8)
        self.read_block(i, columns, out)
        return out

    def blocks(self, columns: Sequence[int] | None = None) -> Iterator[NDArray[np.uint8]]:
        """Yield the codes of all blocks in their order."""
        for i in range(self.n_blocks):
            yield self.block(i, columns)

    def read(self, columns: Sequence[int] | None = None, n_jobs: int | None = None) -> np.ndarray:
        """Return the codes of all rows, (n_columns, n_rows)."""
        columns = range(self.n_features) if columns is None else columns
        out = np.empty((len(columns), self.n_rows), dtype=np.uint8)
        self.read_into(out, columns, n_jobs)
        return out

    def read_into(
        self, out: NDArray[np.uint8], columns: Sequence[int], n_jobs: int | None = None
    ) -> None:
        """OUT the codes of all rows, (n_columns, n_rows)."""

        def read(i: int) -> None:
            first = i * BLOCK_ROWS
            self.read_block(i, columns, out[:, first : first + BLOCK_ROWS])

        run_threads(read, range(self.n_blocks), effective_threads(n_jobs))

    def read_block(
        self, i: int, columns: Sequence[int], out: Sequence[NDArray[np.uint8]] | NDArray[np.uint8]
    ) -> None:
        """OUT the codes of some features of a block, a contiguous array for each."""
        for at, feature, data in self._chunks(i, columns):
            self._decode(i, feature, data, out[at])
            if out[at].max() > self.mapper.missing_bin_[feature]:
                raise self._damaged(i, feature, "it holds codes beyond the bins")

    def block_columns(self, i: int) -> list[np.ndarray]:
        """Return all columns of a block: codes, targets, weights, values."""
        n = int(self._layout.blocks["rows"][i])
        columns = [np.empty(n, dtype=dtype) for dtype in self._dtypes]
        for at, chunk, data in self._chunks(i, range(len(columns))):
            self._decode(i, chunk, data, columns[at])
        return columns

    def verify(self, n_jobs: int | None = None) -> None:
        """Read every chunk; a damaged one is a `StoreError`."""
        run_threads(self._verify_block, range(self.n_blocks), effective_threads(n_jobs))

    def _verify_block(self, i: int) -> None:
        codes = self.block_columns(i)[: self.n_features]
        for feature, column in enumerate(codes):
            if column.max() > self.mapper.missing_bin_[feature]:
                raise self._damaged(i, feature, "it holds codes beyond the bins")

    def read_ahead(self, i: int) -> None:
        """Ask the system to read a block soon, where it can be asked."""
        if hasattr(os, "posix_fadvise") and i < self.n_blocks:
            block = self._layout.blocks[i]
            n = int(self._layout.chunks["length"][i].sum(dtype=np.int64))
            file = self._files[block["part"]]
            os.posix_fadvise(file.fileno(), int(block["offset"]), n, os.POSIX_FADV_WILLNEED)

    # -- chunks ---------------------------------------------------------------------------------

    def _gather(self, chunks: Sequence[int]) -> list[np.ndarray]:
        """Return columns that are not codes."""
        if not len(chunks):
            return []
        out = [np.empty(self.n_rows, dtype=self._dtypes[chunk]) for chunk in chunks]
        for i in range(self.n_blocks):
            first = i * BLOCK_ROWS
            for at, chunk, data in self._chunks(i, chunks):
                self._decode(i, chunk, data, out[at][first : first + BLOCK_ROWS])
        return out

    def _chunks(self, i: int, chunks: Sequence[int]) -> Iterator[tuple[int, int, memoryview]]:
        """Yield (place, chunk, bytes); neighbours are read together."""
        lengths, starts = self._layout.chunks["length"][i], self._starts[i]
        order = sorted(range(len(chunks)), key=lambda at: chunks[at])
        while order:
            first = int(starts[chunks[order[0]]])
            stop, m = first, 0
            while m < len(order) and int(starts[chunks[order[m]]]) <= stop + _GAP:
                stop = int(starts[chunks[order[m]]] + lengths[chunks[order[m]]])
                m += 1
            data = self._pread(i, first, stop - first)
            for at in order[:m]:
                begin = int(starts[chunks[at]]) - first
                yield at, chunks[at], data[begin : begin + int(lengths[chunks[at]])]
            order = order[m:]

    def _pread(self, i: int, start: int, n: int) -> memoryview:
        """Read bytes of a block."""
        block = self._layout.blocks[i]
        file, offset = self._files[block["part"]], int(block["offset"]) + start
        path = self._layout.parts[block["part"]] / BLOCKS
        data = bytearray(n)
        rest = memoryview(data)
        try:
            while len(rest):
                got = self._read_at(file, rest, offset + n - len(rest))
                if got == 0:
                    raise StoreError(f"{path} is truncated within block {i}")
                rest = rest[got:]
        except OSError as error:
            raise StoreError(f"{path} cannot be read in block {i}: {error}") from error
        with self._lock:
            self.bytes_read += n
        return memoryview(data)

    def _read_at(self, file: Any, into: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(file.fileno(), [into], offset)
        with self._lock:
            file.seek(offset)
            return file.readinto(into) or 0

    def _decode(self, i: int, chunk: int, data: memoryview, out: np.ndarray) -> None:
        entry = self._layout.chunks[i, chunk]
        if zlib.crc32(data) != entry["crc"]:
            raise self._damaged(i, chunk, "its checksum differs")
        try:
            decode(int(entry["codec"]), int(entry["bits"]), data, out)
        except StoreError as error:
            raise self._damaged(i, chunk, str(error)) from error

    def _damaged(self, i: int, chunk: int, why: str) -> StoreError:
        path = self._layout.parts[self._layout.blocks["part"][i]] / BLOCKS
        return StoreError(f"{path} is damaged in column {chunk} of block {i}: {why}")
