from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]
Rows = NDArray[np.int64]

def distinct_values(
    X: Values, weights: Floats | None, limit: int, n_threads: int
) -> list[Floats | None] | None: ...
def sample_rows(n_rows: int, n_drawn: int, seed: int) -> Rows: ...
def gather(X: Values, rows: Rows, columns: Rows, out: Values, n_threads: int) -> None: ...
def count_categories(column: Values, weights: Floats | None) -> Floats | None: ...

EDGE_ROOM: int

class BinCodec:
    def __init__(
        self, edges: Values, n_bins: NDArray[np.int32], is_categorical: Codes, category_bins: Codes,
        category_start: Rows
    ) -> None: ...
    n_features: int
    is_narrow: bool

def encode_table(
    X: Values, codec: BinCodec, records: Codes, columns: Codes, has_missing: Codes, n_threads: int
) -> bool: ...
def encode_csc(
    data: Values, indptr: NDArray[np.integer[Any]], n_rows: int, codec: BinCodec, codes: Codes,
    zero_codes: Codes, has_missing: Codes, n_threads: int
) -> bool: ...
def cells_of_rows(
    column_start: Rows, rows: NDArray[np.uint32], codes: Codes, cell_start: NDArray[np.uint32],
    row_start: Rows, cells: NDArray[np.unsignedinteger[Any]]
) -> None: ...
def records_from_columns(columns: Codes, records: Codes, n_threads: int) -> None: ...
def packed_bytes(n: int, bits: int) -> int: ...
def pack_codes(codes: NDArray[np.uint8], bits: int) -> bytes: ...
def unpack_codes(
    packed: NDArray[np.uint8] | bytes | memoryview, bits: int, out: NDArray[np.uint8]
) -> None: ...
