"""Codecs of chunks: decoding gives what was encoded."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.core.bins._bins import pack_codes, packed_bytes, unpack_codes
from hybridtrees.store import codecs
from hybridtrees.store.codecs import COMPRESSIONS, Codec, decode, encode_codes, encode_numbers
from hybridtrees.store.errors import StoreError

HAS = {"zstd": codecs._zstd() is not None, "lz4": codecs._lz4() is not None}
SIZES = [0, 1, 7, 8, 9, 63, 64, 65, 1000, 65_536]


def need(compression: str | None) -> None:
    if not HAS.get(compression, True):
        pytest.skip(f"{compression} is not installed")


def pack_slowly(codes: np.ndarray, bits: int) -> bytes:
    """Write the bits of the codes one after the other, the lowest first."""
    stream = ((codes[:, None] >> np.arange(bits)) & 1).astype(np.uint8).reshape(-1)
    padded = np.zeros((len(codes) + 7) // 8 * 8 * bits, dtype=np.uint8)
    padded[: len(stream)] = stream
    return np.packbits(padded, bitorder="little").tobytes()


@pytest.mark.parametrize("bits", range(1, 8))
@pytest.mark.parametrize("n", SIZES)
def test_packed_bits_are_those_of_numpy(n, bits):
    codes = np.random.default_rng(n).integers(0, 2**bits, n).astype(np.uint8)
    packed = pack_codes(codes, bits)
    assert packed == pack_slowly(codes, bits)
    assert len(packed) == packed_bytes(n, bits)
    out = np.full(n, 255, dtype=np.uint8)
    unpack_codes(np.frombuffer(packed, dtype=np.uint8), bits, out)
    np.testing.assert_array_equal(out, codes)


def test_packed_bits_refuse_wrong_sizes():
    out = np.empty(16, dtype=np.uint8)
    with pytest.raises(ValueError, match="16 codes of 3 bits take 6 bytes, got 5"):
        unpack_codes(np.zeros(5, dtype=np.uint8), 3, out)
    for bits in (0, 8):
        with pytest.raises(ValueError, match="from 1 to 7"):
            unpack_codes(np.zeros(5, dtype=np.uint8), bits, out)
        with pytest.raises(ValueError, match="from 1 to 7"):
            pack_codes(out, bits)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@given(data=st.data())
def test_codes_come_back(compression, data):
    need(compression)
    n = data.draw(st.sampled_from(SIZES[1:]))
    top = data.draw(st.integers(0, 255))
    order = data.draw(st.sampled_from(["random", "sorted", "constant"]))
    codes = np.random.default_rng(n + top).integers(0, top + 1, n).astype(np.uint8)
    codes = {"random": codes, "sorted": np.sort(codes), "constant": np.full_like(codes, top)}[order]
    chunk = encode_codes(codes, compression)
    out = np.empty_like(codes)
    decode(chunk.codec, chunk.bits, memoryview(chunk.data), out)
    np.testing.assert_array_equal(out, codes)
    assert len(chunk.data) <= max(n, packed_bytes(n, chunk.bits or 8))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<i4"])
def test_numbers_come_back(compression, dtype):
    need(compression)
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=50_000), np.zeros(50_000), np.full(3, np.nan)):
        values = np.nan_to_num(values).astype(dtype) if dtype == "<i4" else values.astype(dtype)
        chunk = encode_numbers(values, compression)
        out = np.empty_like(values)
        decode(chunk.codec, chunk.bits, memoryview(chunk.data), out)
        assert out.tobytes() == values.tobytes()


def test_each_chunk_has_the_codec_that_suits_it():
    rng = np.random.default_rng(0)
    wide, narrow = (rng.integers(0, top, 65_536).astype(np.uint8) for top in (256, 16))
    assert encode_codes(wide, "auto").codec == Codec.RAW
    assert encode_codes(narrow, None).codec == Codec.RAW
    chunk = encode_codes(narrow, "bits")
    assert (chunk.codec, chunk.bits, len(chunk.data)) == (Codec.BITS, 4, 32_768)
    if HAS["zstd"]:
        assert encode_codes(np.sort(narrow), "auto").codec == Codec.ZSTD
        assert encode_codes(narrow, "auto").codec == Codec.BITS


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_damaged_compressed_chunks_are_refused(compression):
    need(compression)
    codes = np.sort(np.random.default_rng(0).integers(0, 200, 65_536).astype(np.uint8))
    chunk = encode_codes(codes, compression)
    assert chunk.codec == Codec[compression.upper()]
    for n in (codes.size - 1, codes.size + 1):  # not the size of the chunk
        with pytest.raises(StoreError):
            decode(chunk.codec, 0, memoryview(chunk.data), np.empty(n, dtype=np.uint8))
    with pytest.raises(StoreError):
        decode(chunk.codec, 0, memoryview(chunk.data)[:100], np.empty_like(codes))


def test_a_raw_chunk_of_another_size_is_refused():
    with pytest.raises(StoreError, match="3 bytes in place of 4"):
        decode(Codec.RAW, 0, memoryview(b"abc"), np.empty(4, dtype=np.uint8))
    with pytest.raises(StoreError, match="cannot be decoded"):
        decode(9, 0, memoryview(b"abc"), np.empty(3, dtype=np.uint8))


def test_compressors_that_are_missing_are_named(monkeypatch):
    monkeypatch.setitem(codecs._COMPRESSORS, Codec.LZ4, lambda: None)
    with pytest.raises(ImportError, match="compressed with lz4 need the package lz4"):
        codecs.check_compression("lz4")
    with pytest.raises(ImportError, match="lz4"):
        decode(Codec.LZ4, 0, memoryview(b"abc"), np.empty(3, dtype=np.uint8))
    with pytest.raises(ValueError, match="compression must be one of 'auto', None"):
        codecs.check_compression("gzip")


@pytest.mark.parametrize("package", ["backports.zstd", "zstandard"])
def test_either_package_of_zstd_reads_the_other(package, monkeypatch):
    spec = importlib.util.find_spec(package.partition(".")[0])
    if spec is None or not HAS["zstd"]:
        pytest.skip(f"{package} is not installed")
    codes = np.sort(np.random.default_rng(0).integers(0, 200, 65_536).astype(np.uint8))
    chunk = encode_codes(codes, "zstd")
    real = importlib.import_module

    def only(name):
        if name != package:
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(codecs.importlib, "import_module", only)
    other = codecs._zstd.__wrapped__()
    assert other is not None
    assert other.decompress(bytes(chunk.data), codes.size) == codes.tobytes()
    out = np.empty_like(codes)
    decode(Codec.ZSTD, 0, memoryview(other.compress(codes.tobytes())), out)
    np.testing.assert_array_equal(out, codes)
