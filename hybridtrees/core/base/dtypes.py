"""NumPy mirrors of the structs in _types.pxd, and arrays aligned for the kernels."""

import math
from typing import Any

import numpy as np

NODE_DTYPE = np.dtype(
    [
        ("threshold", np.float64),
        ("gain", np.float64),
        ("weight", np.float64),
        ("n_samples", np.int64),
        ("left", np.int32),
        ("right", np.int32),
        ("parent", np.int32),
        ("feature", np.int32),
        ("category_start", np.int32),
        ("category_words", np.int32),
        ("depth", np.int16),
        ("bin", np.uint8),
        ("missing_left", np.uint8),
        ("category_limit", np.int32),
    ]
)

SORTED_ENTRY_DTYPE = np.dtype([("key", np.uint32), ("row", np.uint32)])

CACHE_LINE = 64


def aligned_empty(shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
    """`numpy.empty` that starts at a cache line."""
    dtype = np.dtype(dtype)
    n_bytes = (shape if isinstance(shape, int) else math.prod(shape)) * dtype.itemsize
    buffer = np.empty(n_bytes + CACHE_LINE, dtype=np.uint8)
    start = -buffer.ctypes.data % CACHE_LINE
    return buffer[start : start + n_bytes].view(dtype).reshape(shape)
