"""Enums and constants of the engine: one home, seen alike by C, Cython and Python."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import hybridtrees
from hybridtrees.core.base import _types
from hybridtrees.core.base.criteria import CLASSIFICATION_CRITERIA, CRITERIA, REGRESSION_CRITERIA
from hybridtrees.core.base.threads import effective_threads, predict_threads, table_threads
from hybridtrees.core.search import _search
from hybridtrees.models.shared.tree_parameters import ClassificationCriterion, RegressionCriterion

ROOT = Path(hybridtrees.__file__).parent
HEADER = (ROOT / "core/base/simd/constants.h").read_text()
ENUMS = [_types.Criterion, _types.Frontier, _types.Limit, _types.PackedFlag, _types.StatsLayout,
         _types.Stream, _types.TargetLayout]  # fmt: skip


# The numbers themselves: a change of one changes models, so it is made here too.
NUMBERS = {
    "StatsLayout": {"GRAD_ONLY": 0, "PAIR16": 1, "PAIR32": 2},
    "Limit": {
        "N_CODES": 256, "MAX_BINS": 255, "UNIFORM_CELLS": 272, "MAX_REGRESSORS": 16,
        "MISSING_STAYS": 2, "SHORT_SET": 8,
    },
    "Stream": {
        "STREAM_BINS": 0, "STREAM_TREE": 1, "STREAM_LEVEL": 2, "STREAM_NODE": 3,
        "STREAM_CHILD": 4, "STREAM_TIE": 5, "STREAM_CUT": 6, "STREAM_REST": 7,
        "STREAM_SAMPLE": 8, "STREAM_ROWS": 9, "STREAM_BOOTSTRAP": 10,
        "STREAM_GRADIENTS": 11,
    },
    "Frontier": {"DEPTH_WISE": 0, "BEST_FIRST": 1, "DEPTH_FIRST": 2},
    "PackedFlag": {
        "FEATURE_MASK": 0x0FFFFFFF, "MISSING_LEFT": 1 << 28, "MISSING_STOPS": 1 << 29,
        "HAS_SET": 1 << 30,
    },
    "Criterion": {
        "NEWTON": 0, "SQUARES": 1, "ENTROPY": 2, "MISCLASSIFIED": 3, "POISSON": 4, "ABSOLUTE": 5,
    },
    "TargetLayout": {
        "TARGET_UNWEIGHTED": 0, "TARGET_PAIR": 1, "TARGET_VECTOR": 2, "TARGET_CLASS": 3,
        "TARGET_CLASS_WEIGHTED": 4,
    },
}  # fmt: skip
CONSTANTS = {
    "MISSING_KEY": 0xFFFFFFFF,
    "ALL_KEYS": 0xFFFFFFFE,
    "TIE_BINNED": 1e-7,
    "TIE_SORTED": 1e-11,
    "TIE_DRAWN": 1e-10,
    "TIE_CUTS": 1e-13,
    "TIE_FEATURES": 1e-14,
    "TIE_SQUARES": 1e-22,
    "ROUNDING": 1e-12,
    "EQUAL_RATIO": 8e-16,
    "WHOLE": 1e-9,
    "DEPENDENT": 1e-7,
    "CONSTANT": 1e-10,
    "CONSTANT_SCALED": 1e-13,
    "ZERO_GAIN": 1e-9,
    "TINY": 1e-300,
    "MIN_HESSIAN": 1e-16,
    "DECREASE": 1e-4,
    "SMALLEST_STEP": 1e-10,
}


def test_python_sees_the_constants_of_the_header():
    in_header = re.findall(r"^#define HT_(\w+) (0x\w+|[\d.e-]+)", HEADER, re.M)
    seen = {
        name: int(text.rstrip("u"), 16) if text.startswith("0x") else float(text)
        for name, text in in_header
    }
    assert seen == CONSTANTS
    exported = {name: number for name, number in vars(_types).items() if name in CONSTANTS}
    assert exported == CONSTANTS
    assert np.iinfo(np.uint32).max == _types.MISSING_KEY == _types.ALL_KEYS + 1


def test_python_sees_the_enums_of_the_header():
    in_header = re.findall(r"\bHT_(\w+) = (\d+)", HEADER)
    seen = {name: int(text) for name, text in in_header}
    assert seen.pop("PACKED16") not in list(_types.StatsLayout)  # a format of C alone
    seen["N_CODES"] = seen.pop("CODES")
    assert seen == NUMBERS["StatsLayout"] | NUMBERS["Limit"]
    assert np.iinfo(np.uint8).max + 1 == _types.Limit.N_CODES == _types.Limit.MAX_BINS + 1


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.__name__)
def test_members_have_their_numbers(enum):
    assert {name: int(member) for name, member in enum.__members__.items()} == (
        NUMBERS[enum.__name__]
    )


def test_every_enum_is_listed():
    declared = re.findall(r"cpdef enum (\w+):", (ROOT / "core/base/_types.pxd").read_text())
    assert sorted(declared) == sorted(NUMBERS) == sorted(enum.__name__ for enum in ENUMS)


def test_the_stub_declares_what_the_module_has():
    stub = (ROOT / "core/base/_types.pyi").read_text()
    classes = {
        name: re.findall(r"^    (\w+) = ", body, re.M)
        for name, body in re.findall(r"^class (\w+)\(IntEnum\):\n((?:    .*\n)+)", stub, re.M)
    }
    assert classes == {name: list(members) for name, members in NUMBERS.items()}
    assert re.findall(r"^(\w+): (?:int|float)$", stub, re.M) == list(CONSTANTS)


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.__name__)
def test_no_number_means_two_things(enum):
    text = (ROOT / "core/base/_types.pxd").read_text()
    body = text[text.index(f"enum {enum.__name__}:") :].split("\n\n")[0]
    listed = re.findall(r"^ +([A-Z]\w+)(?: =| \")", body, re.M)
    assert listed == list(enum.__members__)
    assert len({int(member) for member in enum}) == len(listed)


def test_names_of_parameters_are_those_of_the_enums():
    assert {kind.name.lower(): kind for kind in _types.Criterion} == _search.CRITERIA
    frontiers = {kind.name.lower().replace("_", "-"): kind for kind in _types.Frontier}
    assert frontiers == _search.FRONTIERS
    layouts = list(_types.TargetLayout)
    assert [f"TARGET_{name}" for name in ("UNWEIGHTED", "PAIR", "VECTOR", "CLASS")] == [
        layout.name for layout in layouts[:4]
    ]


def test_flags_leave_the_number_of_a_feature_alone():
    flags = [flag for flag in _types.PackedFlag if flag is not _types.PackedFlag.FEATURE_MASK]
    for i, flag in enumerate(flags):
        assert int(flag).bit_count() == 1
        assert not any(flag & other for other in flags[:i])
        assert not flag & _types.PackedFlag.FEATURE_MASK
        assert flag < 2**31


def test_small_tables_take_few_threads():
    most = effective_threads(8)
    for n, threads in ((0, 1), (1023, 1), (1024, 2), (10**9, 8)):
        assert table_threads(8, n, 16) == min(threads, most)
    assert table_threads(1, 10**9, 10) == 1


def test_few_rows_are_predicted_on_one_thread():
    most = effective_threads(8)
    assert [predict_threads(8, n) for n in (0, 4095, 4096)] == [1, 1, most]
    assert [predict_threads(8, n, 512) for n in (511, 512)] == [1, most]


def test_criteria_in_annotations_are_those_of_the_table():
    assert get_args(RegressionCriterion) == tuple(REGRESSION_CRITERIA)
    assert get_args(ClassificationCriterion) == tuple(CLASSIFICATION_CRITERIA)
    assert set(REGRESSION_CRITERIA | CLASSIFICATION_CRITERIA) == set(CRITERIA)
    assert set(CRITERIA.values()) <= set(_search.CRITERIA)
