"""Members of a model file, read so that a small file cannot use up the memory.

The sizes in the directory of the archive are checked against a limit before anything is unpacked,
and no more of a member is unpacked than the directory declares.
"""

from __future__ import annotations

import json
import math
import zipfile
from io import BytesIO
from typing import IO, Any

import numpy as np

HEADER = "hybridtrees.json"

# The default limit. Compression shrinks the arrays of fitted models by factors of 2 to 20, so 100
# times the size of the file leaves room for unusual ones; the minimum is for small models of zeros.
_MIN_LIMIT = 2**29
_MAX_GROWTH = 100

# Python objects take up to this many times the memory of their JSON text.
_TEXT_GROWTH = 32

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1

_LAST_CHARACTER = 0x10FFFF


class ModelFileError(ValueError):
    """Raised if a file is not a model file, is damaged, or has a newer format."""


def member_name(number: int) -> str:
    """Return the name of the member that holds an array."""
    return f"arrays/{number}.npy"


class Archive:
    """The header and the arrays of a model file."""

    def __init__(self, file: IO[bytes], max_bytes: int | None) -> None:
        self._zip = zipfile.ZipFile(file)
        self._arrays: dict[int, np.ndarray] = {}
        members = self._zip.infolist()
        if len({member.filename for member in members}) < len(members):
            raise ModelFileError("two members of the file have the same name")
        needed = 0
        for member in members:
            _check_member(member)
            needed += member.file_size * (_TEXT_GROWTH if member.filename == HEADER else 1)
        if max_bytes is None:
            max_bytes = max(_MIN_LIMIT, _MAX_GROWTH * file.seek(0, 2))
        if needed > max_bytes:
            raise ModelFileError(
                f"the model needs up to {needed} bytes of memory, and max_bytes allows {max_bytes}"
                ": if you trust the file, load it with a larger max_bytes"
            )

    def header(self) -> Any:
        """Return the JSON of the header."""
        return json.loads(self._read(HEADER))

    def array(self, number: Any) -> np.ndarray:
        """Return an array; the same object for the same number."""
        if type(number) is not int:  # text could name a member in several ways: "0", "00", ...
            raise ModelFileError(f"an array is named by {number!r}, which is not its number")
        if number not in self._arrays:
            self._arrays[number] = read_array(self._read(member_name(number)))
        return self._arrays[number]

    def _read(self, name: str) -> bytes:
        member = self._zip.getinfo(name)
        with self._zip.open(member) as stream:
            # Without a size zipfile would unpack everything before truncating it.
            data = stream.read(member.file_size)
        if len(data) != member.file_size:
            raise ModelFileError(f"{name} is shorter than the directory of the file states")
        return data


def _check_member(member: zipfile.ZipInfo) -> None:
    if member.compress_type not in _METHODS:
        raise ModelFileError(
            f"{member.filename} is compressed by method {member.compress_type}: members of a model "
            "file are stored or deflated"
        )
    if member.flag_bits & _ENCRYPTED:
        raise ModelFileError(f"{member.filename} is encrypted")


def read_array(data: bytes) -> np.ndarray:
    """Read a ``.npy`` member; its header must match its size before memory is allocated."""
    stream = BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ModelFileError(f"an array has the unknown format {version}")
    check_dtype(dtype)
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes != len(data) - stream.tell():
        raise ModelFileError("an array is damaged: its size is not the one it states")
    flat = np.frombuffer(data, dtype=np.uint8, offset=stream.tell()).copy().view(dtype)
    _check_values(flat)
    return flat.reshape(shape, order="F" if fortran else "C")


def check_dtype(dtype: np.dtype) -> None:
    """Refuse Python objects, items of no bytes, and records of anything but numbers."""
    fields = [dtype] if dtype.names is None else [dtype[name] for name in dtype.names]
    kinds = "biufcmMSU" if dtype.names is None else "biuf"
    if dtype.itemsize == 0 or any(field.kind not in kinds for field in fields):
        raise ModelFileError(f"an array has items of the type {dtype.str}, which no model has")


def _check_values(flat: np.ndarray) -> None:
    """Refuse bytes that are not valid for their type, which NumPy does not check."""
    if flat.dtype.kind == "b" and np.any(flat.view(np.uint8) > 1):
        raise ModelFileError("an array of booleans holds something else")
    if flat.dtype.kind == "U":
        codes = flat.view(flat.dtype.str[0] + "u4")
        if np.any(codes > _LAST_CHARACTER):
            raise ModelFileError("an array of text holds a code that is no character")
