"""Faulty files of other libraries are refused or give a model that answers.

`HYBRIDTREES_FUZZ=5000 pytest -n 0 tests/exchange/test_foreign_fuzzer.py` tries so many files of
each kind.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from fresh_python import run_python

import hybridtrees

pytest.importorskip("pandas")

TESTS = Path(__file__).parents[1]
# Cases of each kind by default, and the least of them that must be refused.
N_CASES, N_REFUSED = 150, 40


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
@pytest.mark.parametrize("kind", ["xgboost", "ubjson", "lightgbm", "catboost"])
def test_faulty_files(kind):
    n_cases = int(os.environ.get("HYBRIDTREES_FUZZ", N_CASES))
    folder = str(TESTS / "data" / "foreign")
    done = run_python(str(TESTS / "foreign_fuzzer.py"), folder, kind, "0", str(n_cases))
    assert done.stdout.endswith("done\n"), f"{done.stdout[-200:]}\n{done.stderr[-3000:]}"
    wrong = re.findall(r"^case .*\nWRONG(?:.*\n(?!case|refused))*.*", done.stdout, re.MULTILINE)
    assert not wrong, "\n".join(wrong)
    refused = int(re.search(r"^refused (\d+)$", done.stdout, re.MULTILINE)[1])
    assert N_REFUSED * n_cases // N_CASES <= refused < n_cases


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_faulty_files_of_imported_models(tmp_path):
    n_cases = int(os.environ.get("HYBRIDTREES_FUZZ", N_CASES))
    for stem, read in (
        ("lightgbm_linear.txt", hybridtrees.from_lightgbm),
        ("lightgbm_zero.txt", hybridtrees.from_lightgbm),
        ("xgboost_3_4_classes_json.json", hybridtrees.from_xgboost),
        ("catboost_oblivious.json", hybridtrees.from_catboost),
    ):
        read(TESTS / "data" / "foreign" / stem).save(tmp_path / f"{stem}.model")
    done = run_python(str(TESTS / "file_fuzzer.py"), str(tmp_path), "0", str(n_cases))
    assert done.stdout.endswith("done\n"), f"{done.stdout[-200:]}\n{done.stderr[-3000:]}"
    assert "WRONG" not in done.stdout, done.stdout[done.stdout.index("WRONG") - 200 :]
