"""Model files with faults: bytes, numbers, types, shapes, links, names and packing."""

from __future__ import annotations

import copy
import io
import json
import math
import warnings
import zipfile

import numpy as np

HEADER = "hybridtrees.json"

INTEGERS = (-1, 0, 1, 2, 3, 255, 256, 2**31 - 1, -(2**31), 2**32, 2**40, -(2**62), 2**62, 2**80)
HOSTILE = (*INTEGERS, 0.5, -1e308, 1e308, True, None, "", "text", [], {}, [[]], ["a"], {"$": "x"})
NUMBERS = (*INTEGERS, math.nan, math.inf, -math.inf, 0.5, -0.0, 5e-324)
DTYPES = ("f8", "f4", "i8", "i4", "u4", "u1", "bool", "U1", "S3", ">f8", ">i4", "M8[s]", "c16")
LINKS = ("left", "right", "parent", "feature", "depth")


class ModelFile:
    """The parts of a model file, to be changed and written again."""

    def __init__(self, content: bytes) -> None:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        self.header = json.loads(members.pop(HEADER))
        self.arrays = [np.load(io.BytesIO(members[f"arrays/{k}.npy"])) for k in range(len(members))]
        self.method = zipfile.ZIP_STORED
        self.more: list[tuple[str, bytes]] = []

    def copy(self) -> ModelFile:
        """Return a file that may be changed without changing this one."""
        other = copy.copy(self)
        other.header = copy.deepcopy(self.header)
        other.arrays = [array.copy(order="K") for array in self.arrays]
        other.more = []
        return other

    def write(self) -> bytes:
        """Return the bytes of the file, whose checksums are right."""
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", self.method) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names that occur twice
            archive.writestr(HEADER, json.dumps(self.header), zipfile.ZIP_DEFLATED)
            for k, array in enumerate(self.arrays):
                with archive.open(f"arrays/{k}.npy", "w") as member:
                    np.lib.format.write_array(member, array)
            for name, data in self.more:
                archive.writestr(name, data)
        return stream.getvalue()


def places(value, found=None):
    """All (container, key) of a tree of JSON."""
    found = [] if found is None else found
    if isinstance(value, list | dict):
        for key in value if isinstance(value, dict) else range(len(value)):
            found.append((value, key))
            places(value[key], found)
    return found


def pick(rng, items):
    """One of some items."""
    return items[rng.integers(len(items))]


def tagged(file, tag):
    """Places of the header that hold values with a tag."""
    return [
        (box, key)
        for box, key in places(file.header["model"])
        if isinstance(box[key], dict) and box[key].get("$") == tag
    ]


def change_header(rng, file):
    """Put something else at a place of the header, or nothing."""
    box, key = pick(rng, places(file.header["model"]))
    if rng.random() < 0.15:
        del box[key]
    elif rng.random() < 0.15:
        other, at = pick(rng, places(file.header["model"]))
        box[key] = copy.deepcopy(other[at])
    else:
        box[key] = copy.deepcopy(pick(rng, HOSTILE))


def change_number(rng, file):
    """Put a hostile number at a place of the header that holds a number."""
    numeric = [(b, k) for b, k in places(file.header["model"]) if type(b[k]) in (int, float)]
    box, key = pick(rng, numeric)
    value = pick(rng, INTEGERS)
    box[key] = value if rng.random() < 0.7 else box[key] + int(rng.integers(-2, 3))


def swap_values(rng, file):
    """Exchange two arrays, or two objects."""
    found = tagged(file, pick(rng, ("array", "array", "object")))
    if len(found) > 1:
        (first, a), (second, b) = pick(rng, found), pick(rng, found)
        first[a], second[b] = copy.deepcopy(second[b]), copy.deepcopy(first[a])


def some_array(rng, file):
    """Number of an array; those with fields, the nodes of trees, more often than others."""
    nodes = [k for k, array in enumerate(file.arrays) if array.dtype.names]
    if nodes and rng.random() < 0.5:
        return pick(rng, nodes)
    return int(rng.integers(len(file.arrays)))


def flip_bytes(rng, file):
    """Change a few bytes of an array."""
    k = some_array(rng, file)
    raw = np.frombuffer(file.arrays[k].tobytes(), dtype=np.uint8).copy()
    if len(raw):
        at = rng.integers(len(raw), size=rng.integers(1, 4))
        raw[at] = rng.integers(256, size=len(at))
        file.arrays[k] = raw.view(file.arrays[k].dtype).reshape(file.arrays[k].shape)


def change_entries(rng, file):
    """Put hostile or neighbouring numbers into an array, or into a field of one."""
    array = file.arrays[some_array(rng, file)]
    if array.dtype.names:
        array = array[pick(rng, array.dtype.names)]
    if not array.size or array.dtype.kind not in "biuf":
        return
    at = rng.integers(array.size, size=rng.integers(1, 3))
    if rng.random() < 0.1:
        at = np.arange(array.size)
    value = pick(rng, NUMBERS)
    if array.dtype.kind != "f":
        value = int(value) if math.isfinite(value) else 0
        value = (value - 2**63) % 2**64 - 2**63
    if rng.random() < 0.4:
        value = array.flat[at[0]] + array.dtype.type(pick(rng, (-1, 1)) % 2**8 or 1)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array.reshape(-1)[at] = np.asarray(value).astype(array.dtype)


def change_links(rng, file):
    """Let nodes of trees point at others, which may close a circle."""
    for array in file.arrays:
        fields = [name for name in array.dtype.names or () if name in LINKS]
        if fields and len(array):
            for _ in range(rng.integers(1, 4)):
                array[pick(rng, fields)][rng.integers(len(array))] = rng.integers(-1, len(array))


def change_shape(rng, file):
    """Cut, extend, turn or empty an array."""
    k = some_array(rng, file)
    array = file.arrays[k]
    flat = array.reshape(-1)
    made = [
        array[:0],
        array[None],
        array.T,
        np.asfortranarray(array),
        flat,
        flat[:-1],
        np.concatenate([flat, flat[-1:]]),
        array[..., None],
        array[::-1],
    ]
    file.arrays[k] = np.array(pick(rng, made), order="K")


def change_dtype(rng, file):
    """Give an array items of another type or byte order."""
    k = some_array(rng, file)
    array = file.arrays[k]
    if array.dtype.names:
        file.arrays[k] = array.astype(array.dtype.newbyteorder())
        return
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file.arrays[k] = array.astype(pick(rng, DTYPES))


def change_packing(rng, file):
    """Pack members in another way, or have some twice."""
    kind = rng.integers(4)
    if kind == 0:
        file.method = pick(rng, (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    elif kind == 1:
        file.more.append((pick(rng, (HEADER, "arrays/0.npy", "other")), b"{}"))
    elif kind == 2 and tagged(file, "array"):
        box, key = pick(rng, tagged(file, "array"))
        box[key]["number"] = pick(rng, ("0", "00", 0.0, True, -1, None))
    else:
        box, key = pick(rng, places(file.header["model"]))
        box[key] = {"$": "scalar", "dtype": pick(rng, ("|V8", "<U9", "<f8")), "value": 2**31 - 1}


MUTATIONS = (
    change_header,
    change_number,
    change_number,
    swap_values,
    flip_bytes,
    flip_bytes,
    change_entries,
    change_entries,
    change_links,
    change_shape,
    change_dtype,
    change_packing,
)


def mutate(file: ModelFile, seed: int) -> tuple[bytes, str]:
    """Return a changed file, and what was done to it.

    Parameters
    ----------
    file : ModelFile
    seed : int
    """
    rng = np.random.default_rng(seed)
    made, done = file.copy(), []
    for _ in range(1 + (rng.random() < 0.3)):
        change = pick(rng, MUTATIONS)
        # An earlier change may have taken away what this one is about.
        try:
            change(rng, made)
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError, RuntimeError):
            continue
        done.append(change.__name__)
    content = bytearray(made.write())
    if rng.random() < 0.05:
        content[rng.integers(4, len(content))] ^= int(rng.integers(1, 256))
        done.append("a byte of the file")
    return bytes(content), ", ".join(done)
