"""Model files of other libraries with faults: bytes, numbers, lists, keys, lines."""

from __future__ import annotations

import copy
import json
import struct

import numpy as np
from file_mutations import HOSTILE, pick, places

# Texts that take the place of a number in a text file.
TOKENS = ("-1", "0", "1", "2", "31", "255", "65536", "2147483647", "-2147483648", "4294967296",
          "1e308", "-1e308", "nan", "inf", "-inf", "1e-320", "0.5", "9" * 400, "x", "", "1 1",
          "4294967295", "1_0", "[]", "\x00")  # fmt: skip


def ubjson(value) -> bytes:
    """Return a value of JSON as UBJSON, lists of numbers as typed arrays."""
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return b"L" + struct.pack(">q", value)
        return b"D" + struct.pack(">d", float(value))
    if isinstance(value, float):
        return b"D" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"S" + _text(value)
    if isinstance(value, dict):
        return b"{" + b"".join(_text(k) + ubjson(v) for k, v in value.items()) + b"}"
    for kinds, code, mark in (((int,), ">i8", b"L"), ((int, float), ">f8", b"D")):
        if value and all(type(v) in kinds for v in value):
            try:
                data = np.array(value).astype(code).tobytes()
            except (OverflowError, ValueError, TypeError):
                break
            return b"[$" + mark + b"#L" + struct.pack(">q", len(value)) + data
    return b"[" + b"".join(map(ubjson, value)) + b"]"


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return b"L" + struct.pack(">q", len(data)) + data


def change_bytes(rng, content: bytes) -> bytes:
    """Flip, remove, repeat or insert bytes."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(data)))
        kind = rng.integers(5)
        if kind == 0:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[at] = int(rng.integers(256))
        elif kind == 2:
            del data[at : at + int(rng.integers(1, 40))]
        elif kind == 3:
            data[at:at] = data[at : at + int(rng.integers(1, 200))]
        else:
            data[at : at + 8] = struct.pack(">q", int(pick(rng, (-1, 2**31, 2**40, 2**62, 0))))
        data = data or bytearray(b"{")
    return bytes(data[: int(rng.integers(len(data)) + 1)]) if rng.random() < 0.1 else bytes(data)


def change_json(rng, document):
    """Put hostile values, other lengths or the values of other places into a document."""
    document = copy.deepcopy(document)
    for _ in range(int(rng.integers(1, 3))):
        found = places(document)
        # Most places are numbers in long lists: half of the changes are elsewhere.
        if rng.random() < 0.5:
            found = [(box, key) for box, key in found if isinstance(box, dict)] or found
        if not found:
            return document
        box, key = pick(rng, found)
        kind = rng.integers(6)
        value = box[key]
        if kind == 0:
            del box[key]
        elif kind == 1 and isinstance(value, list) and value:
            box[key] = value * 2 if rng.random() < 0.5 else value[: int(rng.integers(len(value)))]
        elif kind == 2 and isinstance(value, list) and value:
            value[int(rng.integers(len(value)))] = copy.deepcopy(pick(rng, HOSTILE))
        elif kind == 3:
            other, name = pick(rng, found)
            box[key] = copy.deepcopy(other[name]) if name in _keys(other) else 0
        elif kind == 4 and isinstance(value, int | float):
            box[key] = value + int(pick(rng, (-1, 1, -100, 100)))
        elif kind == 4 and isinstance(value, str):
            box[key] = pick(rng, TOKENS)
        else:
            box[key] = copy.deepcopy(pick(rng, HOSTILE))
    return document


def _keys(box):
    return box if isinstance(box, dict) else range(len(box))


def change_text(rng, content: bytes) -> bytes:
    """Change numbers and lines of a text file."""
    lines = content.decode().split("\n")
    for _ in range(int(rng.integers(1, 3))):
        # Most lines are parameters, which nothing reads.
        stop = next((i for i, one in enumerate(lines) if one.startswith("end of")), len(lines))
        at = int(rng.integers(max(1, stop)))
        kind = rng.integers(6)
        key, equal, value = lines[at].partition("=")
        tokens = value.split(" ")
        spot = int(rng.integers(len(tokens)))
        if kind <= 2:
            tokens[spot] = pick(rng, TOKENS) if kind else str(int(rng.integers(-8, 300)))
            lines[at] = key + equal + " ".join(tokens)
        elif kind == 3:
            lines[at] = key + equal + " ".join(tokens[:spot] + tokens[spot + 1 :])
        elif kind == 4:
            lines[at] = key + equal + " ".join(tokens * 2)
        elif rng.random() < 0.5:
            del lines[at]
        else:
            lines.insert(int(rng.integers(len(lines))), lines[at])
        lines = lines or ["tree"]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def mutate(name: str, content: bytes, document, seed: int) -> bytes:
    """Return a changed file; `document` is the JSON of files that hold JSON or UBJSON."""
    rng = np.random.default_rng(seed)
    if rng.random() < 0.3:
        return change_bytes(rng, content)
    if name.endswith(".txt"):
        return change_text(rng, content)
    changed = change_json(rng, document)
    return ubjson(changed) if name.endswith(".ubj") else json.dumps(changed).encode()
