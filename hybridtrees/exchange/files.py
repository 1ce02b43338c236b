"""Bytes, JSON and UBJSON of foreign model files, read with limits.

A file may be made to harm: what it declares is compared with its size before memory is taken for
it, and nothing in it is executed. All errors are a `ModelFileError`, a ValueError that names the
file and the place.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from hybridtrees._archive import ModelFileError
from hybridtrees._parameters import check_integer
from hybridtrees.input.arrays import shorten

# As for our own files: the smallest default limit, how many times its size a file may take by
# default, and how many times the size of their text Python objects may take.
_MIN_LIMIT = 2**29
_MAX_GROWTH = 100
_TEXT_GROWTH = 32
_DEEPEST = 200  # containers within each other

Reader = TypeVar("Reader", bound=Callable[..., Any])


def guarded(read: Reader) -> Reader:
    """Decorate a reader (content, where, ...) so that a faulty file raises only ModelFileError."""

    @wraps(read)
    def safe(content: Any, where: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return read(content, where, *args, **kwargs)
        except (ModelFileError, MemoryError, NotImplementedError):
            raise
        except RecursionError:
            raise ModelFileError(f"{where}: containers are nested too deeply") from None
        except Exception as error:  # of any kind, from a missing key to a number out of range
            raise ModelFileError(
                f"{where}: damaged, or of an unknown version: {type(error).__name__}: {error}"
            ) from error

    return cast(Reader, safe)


def is_file(model: Any) -> bool:
    """Whether a model is given as a path or the bytes of a file, and not in memory."""
    return isinstance(model, str | bytes | bytearray) or hasattr(model, "__fspath__")


def read_content(
    model: str | PathLike[str] | bytes | bytearray, max_bytes: int | None
) -> tuple[bytes, str]:
    """Return the bytes of a file, and what to call it in messages; refuse one that is too large."""
    check_integer("max_bytes", max_bytes, 1, allow_none=True)
    if isinstance(model, bytes | bytearray):
        where, size, content = "the model", len(model), bytes(model)
    else:
        path = Path(os.fsdecode(model))
        where, size = repr(str(path)), path.stat().st_size
        if not path.is_file():
            raise ModelFileError(f"{where} is not a file")
        content = None
    limit = max(_MIN_LIMIT, _MAX_GROWTH * size) if max_bytes is None else max_bytes
    if _TEXT_GROWTH * size > limit:
        raise ModelFileError(
            f"{where} needs up to {_TEXT_GROWTH * size} bytes of memory, and max_bytes allows "
            f"{limit}: if you trust the file, use a larger max_bytes"
        )
    if content is None:
        with open(path, "rb") as file:
            content = file.read(size)
    return content, where


@guarded
def parse_json(content: bytes, where: str) -> Any:
    """Return the value of a JSON text."""
    return json.loads(content)


def get(box: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """Return a member of a JSON object, which must be of a type."""
    if not isinstance(box, dict) or key not in box:
        raise ModelFileError(f"{where} has no {key!r}")
    value = box[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise ModelFileError(f"{key!r} of {where} is {shorten(value)}, of an unexpected type")
    return value


def integers(values: Any, where: str, n: int | None = None) -> np.ndarray:
    """Return a list or array of whole numbers as int64, with `n` items."""
    array = np.asarray(values if len(values) else np.zeros(0, np.int64))
    if array.ndim != 1 or array.dtype.kind not in "biu" or array.dtype == np.uint64:
        raise ModelFileError(f"{where} must be a list of whole numbers")
    return _of_length(array.astype(np.int64), where, n)


def numbers(values: Any, where: str, n: int | None = None) -> np.ndarray:
    """Return a list or array of numbers as float64, with `n` items."""
    array = np.asarray(values if len(values) else np.zeros(0))
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ModelFileError(f"{where} must be a list of numbers")
    return _of_length(array.astype(np.float64), where, n)


def strings(values: Any, where: str) -> list[str]:
    """Return a list of strings."""
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise ModelFileError(f"{where} must be a list of strings")
    return values


def _of_length(array: np.ndarray, where: str, n: int | None) -> np.ndarray:
    if n is not None and len(array) != n:
        raise ModelFileError(f"{where} has {len(array)} items in place of {n}")
    return array


# -- UBJSON -----------------------------------------------------------------------------------

_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4",
            b"D": ">f8"}  # fmt: skip
_INTEGERS = b"iUIlL"


@guarded
def parse_ubjson(content: bytes, where: str) -> Any:
    """Return the value of a UBJSON text (draft 12); arrays of one type of numbers are ndarrays."""
    return _Ubjson(content, where).value(0)


class _Ubjson:
    """A cursor over the bytes of a UBJSON text."""

    def __init__(self, content: bytes, where: str) -> None:
        self._content, self._at, self._where = content, 0, where

    def _fail(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self._where}: {what} at byte {self._at}")

    def _take(self, n: int) -> bytes:
        if n > len(self._content) - self._at:
            raise self._fail(f"{n} bytes are expected, but the file ends")
        self._at += n
        return self._content[self._at - n : self._at]

    def _peek(self) -> bytes:
        return self._content[self._at : self._at + 1]

    def _length(self) -> int:
        """Return a length, which is not larger than the rest of the file."""
        marker = self._take(1)
        if marker not in _NUMBERS or marker not in _INTEGERS:
            raise self._fail(f"a length of the type {marker!r}")
        dtype = np.dtype(_NUMBERS[marker])
        length = int.from_bytes(self._take(dtype.itemsize), "big", signed=dtype.kind == "i")
        if not 0 <= length <= len(self._content) - self._at:
            raise self._fail(f"a length of {length} where the file has fewer bytes")
        return length

    def _text(self) -> str:
        return self._take(self._length()).decode("utf-8")

    def value(self, depth: int, marker: bytes | None = None) -> Any:
        """Return the next value."""
        if depth > _DEEPEST:
            raise self._fail("containers nested too deeply")
        marker = self._take(1) if marker is None else marker
        while marker == b"N":
            marker = self._take(1)
        if marker in _NUMBERS:
            dtype = np.dtype(_NUMBERS[marker])
            if dtype.kind == "f":
                return struct.unpack(">f" if marker == b"d" else ">d", self._take(dtype.itemsize))[
                    0
                ]
            return int.from_bytes(self._take(dtype.itemsize), "big", signed=dtype.kind == "i")
        if marker == b"S":
            return self._text()
        if marker == b"[":
            return self._array(depth)
        if marker == b"{":
            return self._object(depth)
        if marker in (b"Z", b"T", b"F"):
            return {b"Z": None, b"T": True, b"F": False}[marker]
        if marker == b"C":
            return self._take(1).decode("ascii")
        raise self._fail(f"an unknown type {marker!r}")

    def _head(self) -> tuple[bytes | None, int | None]:
        """Return the type and number of the items of a container, where it declares them."""
        kind = None
        if self._peek() == b"$":
            self._take(1)
            kind = self._take(1)
            if self._peek() != b"#":
                raise self._fail("a container with a type and without a length")
        if self._peek() != b"#":
            return kind, None
        self._take(1)
        return kind, self._length()

    def _array(self, depth: int) -> Any:
        kind, n = self._head()
        if kind is not None and n is not None and kind in _NUMBERS:
            dtype = np.dtype(_NUMBERS[kind])
            array = np.frombuffer(self._take(n * dtype.itemsize), dtype=dtype)
            return array.astype(dtype.newbyteorder("="))
        if kind in (b"Z", b"T", b"F", b"N"):
            raise self._fail("an array of items without bytes")
        items: list[Any] = []
        while n is None or len(items) < n:
            if n is None and self._peek() == b"]":
                self._take(1)
                break
            items.append(self.value(depth + 1, kind))
        return items

    def _object(self, depth: int) -> dict[str, Any]:
        kind, n = self._head()
        if kind in (b"Z", b"T", b"F", b"N"):
            raise self._fail("an object of items without bytes")
        items: dict[str, Any] = {}
        while n is None or len(items) < n:
            if n is None and self._peek() == b"}":
                self._take(1)
                break
            key = self._text()
            if key in items:
                raise self._fail(f"the key {shorten(key)} twice")
            items[key] = self.value(depth + 1, kind)
        return items
