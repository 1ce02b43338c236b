"""The benchmarks measure every family, and run."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import hybridtrees

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def benchmarks(monkeypatch):
    if not (ROOT / "asv_bench").is_dir():
        pytest.skip("needs the source tree")
    monkeypatch.syspath_prepend(str(ROOT / "asv_bench"))
    yield lambda name: importlib.import_module(f"benchmarks.{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        del sys.modules[name]


def test_every_family_is_measured(benchmarks):
    recipes = benchmarks("estimators").RECIPES.values()
    measured = {f"{recipe.family}Regressor" for recipe in recipes}
    assert measured == {name for name in hybridtrees.__all__ if name.endswith("Regressor")}


@pytest.mark.parametrize("family", ["xgb", "linear"])
def test_a_benchmark_runs(benchmarks, family, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suite = benchmarks("families").Result()
    suite.setup_cache()
    suite.setup(10_000, family, "binary", 2)
    assert 0 < suite.track_score(10_000, family, "binary", 2) < 0.7
    assert suite.track_size(10_000, family, "binary", 2) > 100
