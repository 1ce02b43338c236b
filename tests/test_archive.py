"""Model files made to exhaust the memory, and values that no model has."""

from __future__ import annotations

import json
import tracemalloc
import warnings
import zipfile
import zlib

import numpy as np
import pytest
from toy_estimators import Holder

from hybridtrees import _archive
from hybridtrees._persistence import ModelFileError, load, save

# What refusing a file may take.
FEW_BYTES = 8 * 2**20


def write_file(path, value, arrays=(), method=zipfile.ZIP_DEFLATED):
    """Write a model file with a value as it is in the header, and members as they are."""
    header = {
        "format": "hybridtrees",
        "format_version": 1,
        "model": {"$": "object", "class": "Holder", "params": {"value": value}, "state": {}},
    }
    with zipfile.ZipFile(path, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names that occur twice
        archive.writestr("hybridtrees.json", json.dumps(header), zipfile.ZIP_DEFLATED)
        for name, data in arrays:
            archive.writestr(name, data)


def npy(array):
    """Bytes of a ``.npy`` file."""
    start = np.lib.format.magic(1, 0)
    text = repr({"descr": array.dtype.str, "fortran_order": False, "shape": array.shape})
    text += " " * (-(len(start) + 2 + len(text) + 1) % 64) + "\n"
    return start + len(text).to_bytes(2, "little") + text.encode() + array.tobytes()


def assert_refused(path, message, **options):
    """A file must be refused without taking much memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=message):
            load(path, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < FEW_BYTES


ARRAY = {"$": "array", "number": 0}


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_stored_and_deflated_members(method, tmp_path):
    data = npy(np.zeros(2**21))
    write_file(tmp_path / "file", ARRAY, [("arrays/0.npy", data)], method)
    assert_refused(tmp_path / "file", "stored or deflated")


def test_the_default_limit_is_held_against_declared_sizes(tmp_path, monkeypatch):
    assert _archive._MIN_LIMIT == 2**29
    monkeypatch.setattr(_archive, "_MIN_LIMIT", 2**24)
    data = npy(np.zeros(2**21))
    write_file(tmp_path / "file", [ARRAY], [("arrays/0.npy", data)])
    del data
    assert_refused(tmp_path / "file", "max_bytes allows 16777216")
    assert len(load(tmp_path / "file", max_bytes=2**25).value[0]) == 2**21


def test_the_limit_may_be_lower(tmp_path):
    save(Holder(np.zeros(100_000)), tmp_path / "file")
    assert_refused(tmp_path / "file", "max_bytes allows 799999", max_bytes=799_999)
    assert len(load(tmp_path / "file", max_bytes=900_000).value) == 100_000
    with pytest.raises(TypeError, match="max_bytes must be .* at least 1 or None, got 1.5"):
        load(tmp_path / "file", max_bytes=1.5)
    with pytest.raises(ValueError, match="max_bytes must be .* at least 1 or None, got 0"):
        load(tmp_path / "file", max_bytes=0)


def test_a_large_file_may_be_loaded_without_a_word(tmp_path, monkeypatch):
    monkeypatch.setattr(_archive, "_MIN_LIMIT", 1)
    save(Holder(np.arange(1000.0)), tmp_path / "file", compress=False)
    assert load(tmp_path / "file").value[-1] == 999.0
    save(Holder(np.zeros(1_000_000)), tmp_path / "file")
    assert_refused(tmp_path / "file", "if you trust the file, load it with a larger max_bytes")


def test_the_text_of_the_header_counts_more(tmp_path):
    write_file(tmp_path / "file", [[]] * 5_000_000)
    assert_refused(tmp_path / "file", "max_bytes allows")


def test_no_more_is_unpacked_than_the_directory_declares(tmp_path):
    data = npy(np.zeros(2**22))
    write_file(tmp_path / "file", ARRAY, [("arrays/0.npy", data)])
    content = bytearray((tmp_path / "file").read_bytes())
    # The size in the directory, its last field before the length of the name.
    place = content.rindex(b"arrays/0.npy") - 46 + 24
    assert int.from_bytes(content[place : place + 4], "little") == len(data)
    content[place : place + 4] = (1000).to_bytes(4, "little")
    content[place - 8 : place - 4] = zlib.crc32(data[:1000]).to_bytes(4, "little")
    (tmp_path / "file").write_bytes(content)
    assert_refused(tmp_path / "file", "its size is not the one it states")


@pytest.mark.parametrize("number", ["0", "00", 0.0, True, [0], None])
def test_an_array_has_one_name(number, tmp_path):
    arrays = [(f"arrays/{name}.npy", npy(np.zeros(3))) for name in ("0", "00", "0.0", "1")]
    write_file(tmp_path / "file", {"$": "array", "number": number}, arrays)
    assert_refused(tmp_path / "file", "which is not its number")


def test_two_members_of_one_name(tmp_path):
    write_file(tmp_path / "file", ARRAY, [("arrays/0.npy", npy(np.zeros(3)))] * 2)
    assert_refused(tmp_path / "file", "the same name")


@pytest.mark.parametrize("dtype", ["|V8", "|V2147483647", "|S9", "<U4", "<c16", "<f16", "<M8[s]"])
@pytest.mark.parametrize("value", [2147483647, 1.5, "text", [1]])
def test_scalars_are_numbers(dtype, value, tmp_path):
    write_file(tmp_path / "file", {"$": "scalar", "dtype": dtype, "value": value})
    assert_refused(tmp_path / "file", "is no number of a model")


@pytest.mark.parametrize("value", ["text", [1], None, {"$": "tuple", "items": []}])
def test_scalars_come_from_numbers(value, tmp_path):
    write_file(tmp_path / "file", {"$": "scalar", "dtype": "<f8", "value": value})
    assert_refused(tmp_path / "file", "is no number of a model")


@pytest.mark.parametrize("shape", [[-1], [1.0], [3], [2**40, 2**40], [1] * 70, "1"])
def test_shapes_of_strings(shape, tmp_path):
    write_file(tmp_path / "file", {"$": "strings", "shape": shape, "items": ["a"]})
    assert_refused(tmp_path / "file", None)


def test_text_that_is_no_text(tmp_path):
    codes = np.array([0x41, 0x110000], dtype=np.uint32)
    for array in (codes.view("<U1"), codes.view("<U2"), codes.astype(">u4").view(">U1")):
        write_file(tmp_path / "file", ARRAY, [("arrays/0.npy", npy(array))])
        assert_refused(tmp_path / "file", "no character")


def test_booleans_that_are_neither(tmp_path):
    array = np.array([0, 1, 2], dtype=np.uint8).view(bool)
    write_file(tmp_path / "file", ARRAY, [("arrays/0.npy", npy(array))])
    assert_refused(tmp_path / "file", "array of booleans")


@pytest.mark.parametrize("array", [np.zeros(3, dtype="V8"), np.zeros(0, dtype="V8")])
def test_items_that_no_model_has(array, tmp_path):
    write_file(tmp_path / "file", ARRAY, [("arrays/0.npy", npy(array))])
    assert_refused(tmp_path / "file", "which no model has")
    with pytest.raises(TypeError, match=r"Holder\.value cannot be saved: an array has items"):
        save(Holder(array), tmp_path / "other")


def test_deep_nesting(tmp_path):
    write_file(tmp_path / "file", "here")
    with zipfile.ZipFile(tmp_path / "file") as archive:
        header = archive.read("hybridtrees.json")
    deep = b"[" * 100_000 + b"]" * 100_000
    with zipfile.ZipFile(tmp_path / "file", "w") as archive:
        archive.writestr("hybridtrees.json", header.replace(b'"here"', deep))
    with pytest.raises(ModelFileError, match="RecursionError"):
        load(tmp_path / "file")


@pytest.mark.parametrize("model", [1, [], {"a": 1}, {"$": "tuple", "items": []}])
def test_what_is_loaded_is_an_estimator(model, tmp_path):
    header = {"format": "hybridtrees", "format_version": 1, "model": model}
    with zipfile.ZipFile(tmp_path / "file", "w") as archive:
        archive.writestr("hybridtrees.json", json.dumps(header))
    assert_refused(tmp_path / "file", "holds no estimator")


def test_a_large_header_takes_no_more_than_was_reckoned(tmp_path):
    write_file(tmp_path / "file", [[0]] * 100_000)
    size = zipfile.ZipFile(tmp_path / "file").getinfo("hybridtrees.json").file_size
    tracemalloc.start()
    try:
        load(tmp_path / "file")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < _archive._TEXT_GROWTH * size
