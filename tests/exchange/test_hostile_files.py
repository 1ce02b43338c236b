"""Files that are made to harm are refused before they take memory or time."""

from __future__ import annotations

import copy
import json
import struct
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from foreign_mutations import ubjson

import hybridtrees
from hybridtrees import from_catboost, from_lightgbm, from_xgboost
from hybridtrees._persistence import ModelFileError
from hybridtrees.exchange.files import parse_ubjson

FOLDER = Path(__file__).parents[1] / "data" / "foreign"
XGBOOST = json.loads((FOLDER / "xgboost_3_2_dart_json.json").read_bytes())
LIGHTGBM = (FOLDER / "lightgbm_linear.txt").read_text()
CATBOOST = json.loads((FOLDER / "catboost_oblivious.json").read_bytes())


def with_tree(**changes):
    """A file of xgboost whose first tree has other values."""
    document = copy.deepcopy(XGBOOST)
    model = document["learner"]["gradient_booster"]["gbtree"]["model"]
    model["trees"][0].update(changes)
    return json.dumps(document).encode()


def chain(depth):
    """A tree of xgboost that is a chain of so many splits, with its links."""
    n = 2 * depth + 1
    left, right = np.full(n, -1), np.full(n, -1)
    left[0 : n - 1 : 2] = np.arange(1, n, 2)
    right[0 : n - 1 : 2] = np.arange(2, n + 1, 2)
    zeros = [0] * n
    return with_tree(
        left_children=left.tolist(), right_children=right.tolist(), split_indices=zeros,
        split_conditions=[float(v) for v in range(n)], default_left=zeros, sum_hessian=[1.0] * n,
        loss_changes=zeros, split_type=zeros, categories=[], categories_nodes=[],
        categories_segments=[], categories_sizes=[],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (with_tree(left_children=[0] * 15), "child that does not exist"),
        (with_tree(right_children=[1] + [-1] * 14), "child"),
        (with_tree(split_indices=[99] * 15), "feature that does not exist|items in place"),
        (with_tree(left_children=[1e5] * 15), "whole numbers"),
        (with_tree(sum_hessian=["1"] * 15), "list of numbers"),
        (with_tree(categories_segments=[2**62]), "items in place of"),
        (chain(40_000), "deeper than"),
        (b"[" * 100_000, "not a JSON"),
        (b'{"learner":' * 100_000, "nested"),
        (b"{}", "has no 'learner'"),
        (b"", "not a JSON"),
        (b"binf" + bytes(100), "save_model"),
        (json.dumps({"learner": {"gradient_booster": {"name": "gblinear"}}}).encode(), "gblinear"),
    ],
)
def test_faults_of_xgboost_files(content, message):
    with pytest.raises(ModelFileError, match=message) as caught:
        from_xgboost(content)
    assert "the model" in str(caught.value)


def test_a_deep_tree_needs_no_recursion():
    model = from_xgboost(chain(20_000))
    rows = np.zeros((3, 4))
    assert model.predict(rows).shape == (3,)
    assert model.trees_.nodes["depth"].max() == 20_000


@pytest.mark.parametrize(
    "content",
    [
        b"{L" + struct.pack(">q", 2**62) + b"a",
        b"[$D#L" + struct.pack(">q", 2**60),
        b"[$D#L" + struct.pack(">q", 2**31) + bytes(1000),
        b"[$Z#L" + struct.pack(">q", 100),
        b"[#L" + struct.pack(">q", 2**40) + b"i\x01",
        b"[$i#L" + struct.pack(">q", -1),
        b"[" * 1000,
        b"[$i",
        b"{",
        b"SL",
    ],
)
def test_faults_of_ubjson(content):
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="byte"):
        parse_ubjson(content, "a file")
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def test_ubjson_values():
    value = {"a": [1, -2, 3], "b": [0.5, 1.5], "c": ["x", None, True, {}], "d": "é", "e": []}
    read = parse_ubjson(ubjson(value), "a file")
    read = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in read.items()}
    assert read == value
    small = b"[i\xffU\xffI\xff\xfel\x00\x00\x00\x01d\x3f\x80\x00\x00NCxF]"
    assert parse_ubjson(small, "a file") == [-1, 255, -2, 1, 1.0, "x", False]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_feature_idx=3", "max_feature_idx=4000000000", "features"),
        ("num_leaves=6", "num_leaves=2000000000", "numbers of leaves"),
        ("left_child=", "left_child=9 ", "numbers of|child"),
        ("num_features=", "num_features=999999999 ", "numbers of"),
        ("cat_boundaries=0", "cat_boundaries=-1", "category set"),
        ("is_linear=1", "is_linear=x", "damaged"),
        ("num_tree_per_iteration=1", "num_tree_per_iteration=0", "scores"),
    ],
)
def test_faults_of_lightgbm_files(old, new, message):
    assert old in LIGHTGBM
    with pytest.raises(ModelFileError, match=message):
        from_lightgbm(LIGHTGBM.replace(old, new).encode())


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("oblivious_trees", 0, "leaf_values"), [1.0], "leaf values"),
        (("oblivious_trees", 0, "splits", 0, "split_type"), "OnlineCtr", "CTR"),
        (("oblivious_trees", 0, "splits"), [], "leaf values"),
        (("features_info", "float_features", 0, "flat_feature_index"), 10**12, "positions"),
        (("features_info", "cat_features_hash"), [], "pool"),
        (("features_info", "text_features"), [{}], "text features"),
        (("scale_and_bias",), [1, [float("nan")]], "finite"),
    ],
)
def test_faults_of_catboost_files(path, value, message):
    document = copy.deepcopy(CATBOOST)
    box = document
    for key in path[:-1]:
        box = box[key]
    box[path[-1]] = value
    with pytest.raises(ModelFileError, match=message):
        from_catboost(json.dumps(document).encode())


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_limit_of_memory_and_kinds_of_input(name, tmp_path):
    read = getattr(hybridtrees, f"from_{name}")
    path = next(FOLDER.glob(f"{name}*.[jt][sx]*"))
    with pytest.raises(ModelFileError, match="max_bytes allows 1000"):
        read(path, max_bytes=1000)
    with pytest.raises(TypeError, match=f"from_{name} takes a file"):
        read(3)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.json")
    (tmp_path / "a.json").write_bytes(path.read_bytes()[:-200])
    start = time.monotonic()
    if name != "lightgbm":  # the end of its file is a list of parameters
        with pytest.raises(ModelFileError, match=r"a\.json"):
            read(tmp_path / "a.json")
    assert time.monotonic() - start < 20
