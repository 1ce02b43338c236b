"""Saving and loading of estimators, without pickle.

A model file is a zip archive with a JSON header, ``hybridtrees.json``, and one ``.npy`` member
for each array. Reading it executes nothing: classes are looked up by name among those registered
with `register`, and arrays are read with pickling off.

The state of an object is what `to_state` returns (and `from_state` takes), or else its
``__dict__``. It may hold numbers, strings, None, lists, tuples, dicts, NumPy arrays and scalars,
and registered objects.
"""

from __future__ import annotations

import json
import math
import os
import warnings
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hybridtrees._archive import HEADER, Archive, ModelFileError, check_dtype, member_name
from hybridtrees._parameters import check_integer
from hybridtrees._replacing import find_target, replacing
from hybridtrees._version import __version__
from hybridtrees.input.arrays import shorten

__all__ = ["ModelFileError", "load", "register", "save"]

FORMAT_VERSION = 1
_TAG = "$"

_registry: dict[str, type] = {}

# Attributes that scikit-learn adds, without effect on predictions.
_NOT_STORED = frozenset(("_metadata_request", "_sklearn_output_config", "_skl_callbacks"))

Class = TypeVar("Class", bound=type)


def register(cls: Class) -> Class:
    """Class decorator: let objects of a class be saved and loaded, under the class's name.

    A second class of the same name is an error, since a file refers to classes by name.
    """
    known = _registry.setdefault(cls.__name__, cls)
    if known is not cls and (known.__module__, known.__qualname__) != (
        cls.__module__,
        cls.__qualname__,
    ):
        raise ValueError(
            f"the name {cls.__name__!r} is registered for {known.__module__}.{known.__qualname__}"
        )
    _registry[cls.__name__] = cls  # defined again when a module is reloaded
    return cls


def register_former_name(name: str, cls: type) -> None:
    """Let files be loaded that refer to a class by an earlier name."""
    _registry[name] = cls


def save(estimator: Any, path: str | PathLike[str], *, compress: bool = True) -> None:
    """Write an estimator to one file, which is not changed if anything goes wrong.

    An existing file keeps its mode, and a symbolic link stays a link. Random generators are not
    stored: such a parameter becomes None, with a warning.
    """
    target = find_target(Path(_path_text(path)))
    encoder = _Encoder()
    header = {
        "format": "hybridtrees",
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "model": encoder.encode(estimator, type(estimator).__name__),
    }
    # Level 1 compresses the arrays nearly as well as higher levels, in a fraction of the time.
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with (
        replacing(target) as file,
        zipfile.ZipFile(file, "w", compression=method, compresslevel=1) as archive,
    ):
        archive.writestr(HEADER, json.dumps(header, allow_nan=False, indent=1))
        for number, array in enumerate(encoder.arrays):
            with archive.open(member_name(number), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def load(path: str | PathLike[str], *, max_bytes: int | None = None) -> Any:
    """Read an estimator from a file that `save` wrote.

    A file holds only data. All fitted state is checked before the estimator is returned;
    parameters are checked by the next `fit`.

    Parameters
    ----------
    path : str or path-like
        The file; a file descriptor or an open file is refused.
    max_bytes : int, optional
        Maximum memory of the model in bytes: that of its arrays, and 32 times the text of its
        header. The default is 512 MiB, or 100 times the size of the file if that is more: few
        models compress that well, while a file made to exhaust the memory may grow a thousandfold.
        Use a larger value for models that hold mostly zeros, a smaller one to load untrusted files.

    Returns
    -------
    estimator : Estimator

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, needs more memory than `max_bytes`, or was
        written by a newer version.
    """
    path = _path_text(path)
    check_integer("max_bytes", max_bytes, 1, allow_none=True)
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise ModelFileError(f"{path!r} is not a hybridtrees model file")
        try:
            return _read(Archive(file, max_bytes), path)
        except (ModelFileError, MemoryError):
            raise
        except Exception as error:  # any of many, from zlib to from_state
            raise ModelFileError(
                f"{path!r} is truncated, damaged or made by another version of "
                f"hybridtrees: {type(error).__name__}: {error}"
            ) from error


def _path_text(path: Any) -> str:
    """Return a path as text; an integer, a file descriptor to `open`, is refused."""
    try:
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(
            f"path must be a string or a path-like object, got {shorten(path)}"
        ) from None


def _read(archive: Archive, path: str) -> Any:
    try:
        header = archive.header()
    except (KeyError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path!r} is not a hybridtrees model file") from error
    if not isinstance(header, dict) or header.get("format") != "hybridtrees":
        raise ModelFileError(f"{path!r} is not a hybridtrees model file")
    version = header.get("format_version")
    if version != FORMAT_VERSION:
        raise ModelFileError(
            f"{path!r} has the format version {shorten(version)}, made by hybridtrees "
            f"{shorten(header.get('library_version'))}; this is hybridtrees {__version__}, which "
            f"reads format {FORMAT_VERSION}"
        )
    model = header["model"]
    if not isinstance(model, dict) or model.get(_TAG) != "object":
        raise ModelFileError(f"{path!r} holds no estimator")
    return _Decoder(archive).decode(model)


class _Encoder:
    """Turns nested values into JSON, and collects the arrays."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._numbers: dict[int, int] = {}  # id of an array -> its number: each is stored once
        self._open: set[int] = set()  # ids of the containers being encoded

    def encode(self, value: Any, where: str) -> Any:
        """Encode one value; errors mention `where` it is."""
        if value is None or isinstance(value, bool | str) or type(value) is int:
            return str(value) if isinstance(value, str) else value
        if type(value) is float:
            return value if math.isfinite(value) else {_TAG: "float", "value": repr(value)}
        if isinstance(value, np.generic):
            return self._encode_scalar(value, where)
        if isinstance(value, np.ndarray):
            return self._encode_array(value, where)
        if isinstance(value, np.dtype):
            return {_TAG: "dtype", "value": np.lib.format.dtype_to_descr(value)}
        if id(value) in self._open:
            raise TypeError(f"{where} refers to itself and cannot be saved")
        self._open.add(id(value))
        try:
            return self._encode_container(value, where)
        finally:
            self._open.discard(id(value))

    def _encode_container(self, value: Any, where: str) -> Any:
        if type(value) is list:
            return [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
        if type(value) is tuple:
            items = [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
            return {_TAG: "tuple", "items": items}
        if isinstance(value, dict):
            if all(type(key) is str for key in value) and _TAG not in value:
                return {key: self.encode(v, f"{where}[{key!r}]") for key, v in value.items()}
            items = [
                [self.encode(key, f"{where} (key)"), self.encode(v, f"{where}[{key!r}]")]
                for key, v in value.items()
            ]
            return {_TAG: "dict", "items": items}
        return self._encode_object(value, where)

    def _encode_scalar(self, value: np.generic, where: str) -> dict[str, Any]:
        if not _is_scalar_type(value.dtype):
            raise TypeError(f"{where} is a NumPy {value.dtype} scalar, which cannot be saved")
        inner = self.encode(value.item(), where)
        return {_TAG: "scalar", "dtype": value.dtype.str, "value": inner}

    def _encode_array(self, array: np.ndarray, where: str) -> dict[str, Any]:
        if array.dtype.hasobject:
            items = array.ravel().tolist()
            if array.dtype != object or not all(isinstance(item, str) for item in items):
                raise TypeError(f"{where} is an array of Python objects that are not all strings")
            return {_TAG: "strings", "shape": list(array.shape), "items": items}
        try:
            check_dtype(array.dtype)
        except ModelFileError as error:
            raise TypeError(f"{where} cannot be saved: {error}") from None
        number = self._numbers.get(id(array))
        if number is None:
            number = self._numbers[id(array)] = len(self.arrays)
            self.arrays.append(array)
        return {_TAG: "array", "number": number}

    def _encode_object(self, value: Any, where: str) -> Any:
        name = type(value).__name__
        if isinstance(value, np.random.Generator | np.random.RandomState | np.random.SeedSequence):
            warnings.warn(
                f"{where} is a {name}, which is not stored: it will be None after loading",
                UserWarning,
                stacklevel=3,
            )
            return None
        if _registry.get(name) is not type(value):
            raise TypeError(
                f"{where} is {shorten(value)} of the type {name}, which cannot be saved in a model "
                "file; use pickle instead"
            )
        encoded: dict[str, Any] = {_TAG: "object", "class": name}
        if hasattr(value, "to_state"):
            encoded["state"] = self.encode(value.to_state(), where)
            return encoded
        state = {k: v for k, v in vars(value).items() if k not in _NOT_STORED}
        if hasattr(value, "get_params"):
            params = value.get_params(deep=False)
            encoded["params"] = {k: self.encode(v, f"{where}.{k}") for k, v in params.items()}
            state = {k: v for k, v in state.items() if k not in params}
        encoded["state"] = {k: self.encode(v, f"{where}.{k}") for k, v in state.items()}
        return encoded


class _Decoder:
    """Turns the JSON of an `_Encoder` back into values."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def decode(self, value: Any) -> Any:
        """Decode one value."""
        # In place: a copy of a large header would double its memory.
        if isinstance(value, list):
            for i, item in enumerate(value):
                value[i] = self.decode(item)
            return value
        if not isinstance(value, dict):
            return value
        if _TAG not in value:
            for key, item in value.items():
                value[key] = self.decode(item)
            return value
        return self._decode_tagged(value[_TAG], value)

    def _decode_tagged(self, tag: str, value: dict[str, Any]) -> Any:
        if tag == "float":
            return float(value["value"])
        if tag == "scalar":
            return _scalar(_plain_dtype(value["dtype"]), self.decode(value["value"]))
        if tag == "dtype":
            return _plain_dtype(_tuples(value["value"]))
        if tag == "tuple":
            return tuple(self.decode(item) for item in value["items"])
        if tag == "dict":
            return {self.decode(key): self.decode(item) for key, item in value["items"]}
        if tag == "strings":
            return _strings(value["shape"], value["items"])
        if tag == "array":
            return self._archive.array(value["number"])
        if tag == "object":
            return self._decode_object(value)
        raise ModelFileError(f"the header holds an unknown kind of value, {shorten(tag)}")

    def _decode_object(self, value: dict[str, Any]) -> Any:
        cls: Any = _registry.get(value["class"])
        if cls is None:
            _load_families()
            cls = _registry.get(value["class"])
        if cls is None:
            raise ModelFileError(
                f"the file holds a {shorten(value['class'])}, which is not known here"
            )
        state = self.decode(value["state"])
        if hasattr(cls, "from_state"):
            return cls.from_state(state)
        made = cls(**self.decode(value["params"])) if "params" in value else cls.__new__(cls)
        vars(made).update(state)
        if hasattr(made, "_check_state"):
            made._check_state()
        return made


def _load_families() -> None:
    """Import everything that the package imports on first use, so that all classes are known."""
    import hybridtrees

    for name in hybridtrees.__all__:
        getattr(hybridtrees, name)


def _scalar(dtype: np.dtype, value: Any) -> np.generic:
    if not _is_scalar_type(dtype) or not isinstance(value, bool | int | float):
        raise ModelFileError(f"{shorten(value)} of the type {dtype} is no number of a model")
    number: np.generic = dtype.type(value)
    return number


def _is_scalar_type(dtype: np.dtype) -> bool:
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def _strings(shape: Any, items: Any) -> np.ndarray:
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ModelFileError("an array of strings holds something else")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ModelFileError(f"an array of strings has the shape {shorten(shape)}")
    return np.array(items, dtype=object).reshape(shape)


def _plain_dtype(descr: Any) -> np.dtype:
    dtype = np.lib.format.descr_to_dtype(descr)
    if dtype.hasobject:
        raise ModelFileError("the header names a dtype of Python objects")
    return dtype


def _tuples(descr: Any) -> Any:
    """Return a dtype description with tuples, which JSON has turned into lists."""
    if not isinstance(descr, list):
        return descr
    return [tuple(_tuples(part) if i == 1 else part for i, part in enumerate(f)) for f in descr]
