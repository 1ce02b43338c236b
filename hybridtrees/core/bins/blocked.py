"""BlockedBins: a binned table that is read block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.bins.mapper import BinMapper

BLOCK_ROWS = 65_536


class Blocks(Protocol):
    """Where blocks of 65,536 rows come from."""

    def read_block(self, i: int, columns: Sequence[int], out: Sequence[NDArray[np.uint8]]) -> None:
        """OUT the codes of some features of a block, an array for each."""

    def read_ahead(self, i: int) -> None:
        """Have a block read soon."""


class BlockedBins:
    """A table as bin codes that stay on disk.

    What `BinnedMatrix` has by the same name means the same. What needs all codes at once is a
    MemoryError with the text `why_not`. Codes of a sample may take `memory_limit` bytes.
    """

    def __init__(
        self,
        blocks: Blocks,
        n_rows: int,
        mapper: BinMapper,
        has_missing: NDArray[np.uint8],
        why_not: str,
        memory_limit: int = 0,
    ) -> None:
        self.blocks = blocks
        self.n_rows, self.n_features = n_rows, mapper.n_features_in_
        self.n_blocks = -(-n_rows // BLOCK_ROWS)
        self.n_bins = mapper.n_bins_.copy()
        self.has_missing = has_missing
        self.is_categorical = mapper.is_categorical_.copy()
        self.bin_edges = list(mapper.bin_edges_)
        self.why_not = why_not
        self.memory_limit = memory_limit

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_features)."""
        return self.n_rows, self.n_features

    def __len__(self) -> int:
        return self.n_rows

    def refuse(self) -> NoReturn:
        """Raise the error of what needs all codes at once."""
        raise MemoryError(self.why_not)

    @property
    def columns(self) -> NoReturn:
        """All codes, which are not in memory."""
        self.refuse()

    def dense(self, n_threads: int = 1) -> NoReturn:
        """Refuse to make a `BinnedMatrix`."""
        self.refuse()

    def take(self, rows: object) -> NoReturn:
        """Refuse to take rows."""
        self.refuse()

    def codes_at(self, rows: object, features: object) -> NoReturn:
        """Refuse to look up codes."""
        self.refuse()
