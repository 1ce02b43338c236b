"""The structs of the engine and the NumPy types that mirror them."""

from __future__ import annotations

import ast
import ctypes
import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from strategies import grow_tree, make_binned, random_tree

import hybridtrees.core.base.dtypes as dtypes
from hybridtrees.core.base.dtypes import NODE_DTYPE, SORTED_ENTRY_DTYPE, aligned_empty
from hybridtrees.core.tree._layout import EnsembleLayout
from hybridtrees.core.tree.tree import TreeEnsemble

C_TYPES = {
    "float32_t": ctypes.c_float,
    "float64_t": ctypes.c_double,
    "int16_t": ctypes.c_int16,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint8_t": ctypes.c_uint8,
    "uint32_t": ctypes.c_uint32,
}


def declared_fields(struct: str) -> list[tuple[str, str]]:
    """(name, type) of the fields of a struct, read from its declaration."""
    text = Path(dtypes.__file__).with_name("_types.pxd").read_text()
    body = re.search(rf"cdef packed struct {struct}:\n((?:    .*\n)+)", text).group(1)
    return [(name, kind) for kind, name in re.findall(r"^    (\w+) (\w+)", body, re.MULTILINE)]


def test_node_has_the_same_fields_on_both_sides():
    declared = declared_fields("Node")
    assert [name for name, _ in declared] == list(NODE_DTYPE.names)

    class Node(ctypes.Structure):
        _pack_ = 1
        _fields_ = [(name, C_TYPES[kind]) for name, kind in declared]

    for name, kind in declared:
        field, offset = NODE_DTYPE.fields[name][:2]
        assert offset == getattr(Node, name).offset, name
        assert field == np.dtype(C_TYPES[kind]), name
    assert NODE_DTYPE.itemsize == ctypes.sizeof(Node) == dtypes.CACHE_LINE


def test_an_entry_of_a_sorted_list_has_the_same_fields_on_both_sides():
    header = Path(dtypes.__file__).with_name("simd") / "entry.h"
    declared = re.findall(r"^    (\w+) (\w+);", header.read_text(), re.MULTILINE)
    fields = [(name, np.dtype(C_TYPES[kind])) for kind, name in declared]
    assert np.dtype(fields) == SORTED_ENTRY_DTYPE


def test_the_grower_writes_that_type():
    tree = grow_tree(make_binned([[0], [1]], 2), [1, -1], 1.0)
    assert tree.nodes.dtype == NODE_DTYPE
    assert tree.n_nodes == 3


@pytest.mark.parametrize("change", ["order", "width", "name", "one more"])
def test_the_kernels_accept_no_other_type(rng, change):
    fields = [(name, NODE_DTYPE[name]) for name in NODE_DTYPE.names]
    if change == "order":
        fields[4], fields[0] = fields[0], fields[4]
    elif change == "width":
        fields[4] = ("left", np.int64)
    elif change == "name":
        fields[4] = ("links", np.int32)
    else:
        fields.append(("more", np.float64))
    ensemble = TreeEnsemble([random_tree(rng, 3, 2)], 2)
    EnsembleLayout(ensemble)
    other = np.zeros(len(ensemble.nodes), dtype=fields)
    for name in set(other.dtype.names) & set(NODE_DTYPE.names):
        other[name] = ensemble.nodes[name]
    ensemble.nodes = other
    if change == "name":
        # Names are not part of a buffer's type; the checks in Python see them.
        with pytest.raises((ValueError, KeyError)):
            EnsembleLayout(ensemble)
        return
    with pytest.raises(ValueError):
        EnsembleLayout(ensemble)


@pytest.mark.parametrize("shape", [0, 1, 7, (3, 5), (0, 4), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float64])
def test_aligned_arrays_start_with_a_cache_line(shape, dtype):
    for _ in range(5):
        array = aligned_empty(shape, dtype)
        assert array.shape == (shape if isinstance(shape, tuple) else (shape,))
        assert array.dtype == dtype
        assert array.ctypes.data % dtypes.CACHE_LINE == 0 or array.size == 0
        assert array.flags.c_contiguous and array.flags.writeable
        array[...] = 1


# ---- stubs --------------------------------------------------------------------------------------

PACKAGE = Path(dtypes.__file__).parents[2]
STUBS = sorted(path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.pyi"))


def only_for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and any(
        isinstance(base, ast.Name) and base.id in ("TypedDict", "Protocol") for base in node.bases
    )


@pytest.mark.parametrize("stub", STUBS, ids=str)
def test_stubs_tell_the_truth(stub):
    module = importlib.import_module(".".join(stub.with_suffix("").parts))
    for node in ast.parse((PACKAGE.parent / stub).read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found = getattr(module, node.name)
            # embedsignature puts the signature into the first line, unless types are fused.
            given = re.findall(r"(\w+)(?:=[^,)]*)?[,)]", found.__doc__.partition("\n")[0])
            stubbed = [a.arg for a in (*node.args.args, *node.args.kwonlyargs)]
            assert given == stubbed or "signatures" in given, node.name
        elif isinstance(node, ast.ClassDef) and not only_for_type_checkers(node):
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    assert hasattr(getattr(module, node.name), member.name), member.name
        elif isinstance(node, ast.AnnAssign):
            assert hasattr(module, node.target.id)
