"""Codecs of the chunks of a store: raw bytes, packed bits, zstd and lz4.

A chunk is one column of one block. Quantile bins of a continuous column hardly get smaller, columns
of few values do, so that each chunk has the codec that suits it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.bins._bins import pack_codes, unpack_codes
from hybridtrees.store.errors import StoreError

COMPRESSIONS = ("auto", None, "bits", "zstd", "lz4")

# A compressor must save so much beyond raw bytes or packed bits: its decoding takes about as long
# as adding the codes to histograms.
_WORTH = 0.75
_PROBE = 8192  # codes that are tried before a chunk is compressed


class Codec(IntEnum):
    """How the bytes of a chunk are stored."""

    RAW = 0
    BITS = 1  # uint8 codes of fewer than 8 bits
    ZSTD = 2
    LZ4 = 3


class Chunk(NamedTuple):
    """An encoded chunk."""

    codec: int
    bits: int  # of a code, with packed bits
    data: bytes


class Compressor(NamedTuple):
    """A general-purpose codec."""

    compress: Callable[[bytes], bytes]
    decompress: Callable[
        [bytes | memoryview, int], bytes
    ]  # with the number of bytes that it must give


def _imported(name: str) -> Any:
    """Return a module, None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


@cache
def _zstd() -> Compressor | None:
    """Zstandard of Python (from 3.14 on), of backports.zstd or of zstandard."""
    module = _imported("compression.zstd") or _imported("backports.zstd")
    if module is not None:
        return Compressor(
            lambda data: bytes(module.compress(data, level=1)),
            # One byte too many tells a frame that is too long.
            lambda data, n: bytes(module.ZstdDecompressor().decompress(data, max_length=n + 1)),
        )
    module = _imported("zstandard")
    if module is None:
        return None
    return Compressor(
        lambda data: bytes(module.ZstdCompressor(level=1).compress(data)),
        lambda data, n: bytes(module.ZstdDecompressor().decompress(data, max_output_size=n)),
    )


@cache
def _lz4() -> Compressor | None:
    block = _imported("lz4.block")
    if block is None:
        return None
    return Compressor(
        lambda data: bytes(block.compress(data, store_size=False)),
        lambda data, n: bytes(block.decompress(data, uncompressed_size=n)),
    )


_COMPRESSORS = {Codec.ZSTD: _zstd, Codec.LZ4: _lz4}
_NEEDS = {
    Codec.ZSTD: "Python 3.14, or the package backports.zstd or zstandard",
    Codec.LZ4: "the package lz4",
}


def compressor(codec: int) -> Compressor:
    """Return a general-purpose codec; an ImportError if it is not installed."""
    codec = Codec(codec)
    found = _COMPRESSORS[codec]()
    if found is None:
        name = codec.name.lower()
        raise ImportError(f"chunks compressed with {name} need {_NEEDS[codec]}")
    return found


def check_compression(compression: str | None) -> str | None:
    """Check the parameter `compression`, and that what it names is installed."""
    if compression not in COMPRESSIONS:
        allowed = ", ".join(repr(name) for name in COMPRESSIONS)
        raise ValueError(f"compression must be one of {allowed}, got {compression!r}")
    if compression in ("zstd", "lz4"):
        compressor(Codec[compression.upper()])
    return compression


def encode_codes(codes: NDArray[np.uint8], compression: str | None) -> Chunk:
    """Encode a chunk of contiguous codes."""
    data = codes.tobytes()
    plain = Chunk(Codec.RAW, 0, data)
    bits = int(codes.max(initial=0)).bit_length() or 1
    if compression in ("auto", "bits") and bits < 8:
        plain = Chunk(Codec.BITS, bits, pack_codes(codes, bits))
    if compression == "auto":
        return _smaller(data, plain, "zstd") if _zstd() is not None else plain
    return _smaller(data, plain, compression)


def encode_numbers(values: np.ndarray, compression: str | None) -> Chunk:
    """Encode a chunk of contiguous numbers: targets, weights, values."""
    data = values.tobytes()
    plain = Chunk(Codec.RAW, 0, data)
    if compression == "auto" and _zstd() is not None:
        compression = "zstd"
    return _smaller(data, plain, compression)


def _smaller(data: bytes, plain: Chunk, compression: str | None) -> Chunk:
    """Return data as zstd or lz4 compresses it, or `plain` if that is not much larger."""
    if compression not in ("zstd", "lz4"):
        return plain
    codec = Codec[compression.upper()]
    compress = compressor(codec).compress
    part = data[len(data) // 2 :][:_PROBE]
    if len(data) > 4 * _PROBE and len(compress(part)) * len(data) > (
        _WORTH * len(plain.data) * len(part)
    ):
        return plain
    packed = compress(data)
    return Chunk(codec, 0, packed) if len(packed) <= _WORTH * len(plain.data) else plain


def decode(codec: int, bits: int, data: memoryview, out: np.ndarray) -> None:
    """Decode a chunk; OUT a contiguous array of the right size."""
    target = out.view(np.uint8).reshape(-1)
    try:
        if codec == Codec.BITS:
            unpack_codes(data, bits, target)
            return
        plain: bytes | memoryview = data
        if codec != Codec.RAW:
            plain = compressor(codec).decompress(data, len(target))
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # compressors have errors of their own
        raise StoreError(f"a chunk cannot be decoded: {error}") from error
    if len(plain) != len(target):
        raise StoreError(f"a chunk holds {len(plain)} bytes in place of {len(target)}")
    target[:] = np.frombuffer(plain, dtype=np.uint8)
