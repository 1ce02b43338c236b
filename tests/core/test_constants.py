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


def test_python_sees_the_numbers_of_the_header():
    in_header = dict(re.findall(r"HT_(\w+)(?: =)? (0x\w+|[\d.e-]+)", HEADER))
    own = {"N_CODES": in_header.pop("CODES")}
    own |= {name: in_header[name] for name in ("MAX_BINS", "UNIFORM_CELLS", "MAX_REGRESSORS")}
    for name, number in own.items():
        assert int(number) == _types.Limit[name]
    for name in ("GRAD_ONLY", "PAIR16", "PAIR32"):
        assert int(in_header[name]) == _types.StatsLayout[name]
    for name in ("TIE_BINNED", "TIE_SORTED", "ROUNDING", "CONSTANT"):
        assert float(in_header[name]) == getattr(_types, name)
    for name in ("MISSING_KEY", "ALL_KEYS"):
        assert int(in_header[name].rstrip("u"), 16) == getattr(_types, name)
    assert np.iinfo(np.uint8).max + 1 == _types.Limit.N_CODES == _types.Limit.MAX_BINS + 1
    assert np.iinfo(np.uint32).max == _types.MISSING_KEY == _types.ALL_KEYS + 1


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.__name__)
def test_no_number_means_two_things(enum):
    text = (ROOT / "core/base/_types.pxd").read_text()
    body = text[text.index(f"enum {enum.__name__}:") :].split("\n\n")[0]
    listed = re.findall(r"^ +([A-Z]\w+)(?: =| \")", body, re.M)
    assert listed == list(enum.__members__)
    assert len({int(member) for member in enum}) == len(listed)


def test_names_of_parameters_are_those_of_the_enums():
    assert set(_search.CRITERIA.values()) == {int(kind) for kind in _types.Criterion}
    assert _search.CRITERIA["misclassified"] == _types.Criterion.MISCLASSIFIED
    assert _search.FRONTIERS["best-first"] == _types.Frontier.BEST_FIRST
    assert list(_search.FRONTIERS) == ["depth-wise", "best-first", "depth-first"]
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
