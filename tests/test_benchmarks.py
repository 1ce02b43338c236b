"""The benchmarks measure every family, and run."""

from __future__ import annotations

import importlib
import json
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
    presets = {"XGBRFRegressor"}  # XGB with other defaults
    everyone = {name for name in hybridtrees.__all__ if name.endswith("Regressor")}
    assert measured == everyone - presets


@pytest.mark.parametrize("family", ["xgb", "linear"])
def test_a_benchmark_runs(benchmarks, family, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suite = benchmarks("families").Result()
    suite.setup_cache()
    suite.setup(10_000, family, "binary", 2)
    assert 0 < suite.track_score(10_000, family, "binary", 2) < 0.7
    assert suite.track_size(10_000, family, "binary", 2) > 100


CASE = """
calls = []

def work(side, seconds, score):
    def run(n_threads):
        calls.append((side, n_threads))
        return seconds * (1 + len(calls)), score
    return run

CASES = [{"name": "toy", "goal": 0.1, "limit": 0.5, "ours": work("ours", 1.0, 0.9),
          "peer": work("peer", 4.0, 0.8), "unit": "time ratio"}]
"""


PACKAGES = ("toy_cases", "ensemble_cases", "second_round_cases", "ensemble_peers", "measuring")


@pytest.fixture
def ensemble_peers(benchmarks, tmp_path, monkeypatch):
    """The runner, and a package of one case."""
    folder = tmp_path / "toy_cases"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "toy.py").write_text(CASE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("ensemble_peers"), folder
    for name in list(sys.modules):
        if name.partition(".")[0] in PACKAGES:
            del sys.modules[name]


def test_ensembles_are_compared_in_turn(ensemble_peers, tmp_path, capsys):
    runner, _ = ensemble_peers
    path = tmp_path / "figures.json"
    arguments = ["--repeat", "2", "--threads", "2", "--json", str(path)]
    assert runner.main(arguments, "toy_cases") == 0
    calls = importlib.import_module("toy_cases.toy").calls
    assert calls == [("ours", 2), ("peer", 2), ("peer", 2), ("ours", 2)]
    found = json.loads(path.read_text())["results"][0]
    assert (found["ours"], found["peer"]) == (2.0, 12.0)  # the minima
    assert found["ratio"] == pytest.approx(1 / 6) and found["verdict"] == "short"
    assert (found["ours_score"], found["peer_score"]) == (0.9, 0.8)
    assert "toy" in capsys.readouterr().out
    assert runner.main(["--list"], "toy_cases") == 0
    assert capsys.readouterr().out == "toy\n"


def test_faulty_cases_of_ensembles_are_named(ensemble_peers, capsys):
    runner, folder = ensemble_peers
    (folder / "again.py").write_text(CASE)
    with pytest.raises(ValueError, match="two cases with the name 'toy'"):
        runner.discover("toy_cases")
    (folder / "again.py").write_text("CASES = [{'name': 'x'}]")
    sys.modules.pop("toy_cases.again")
    importlib.invalidate_caches()
    with pytest.raises(ValueError, match="again: a case must be a dict with the keys"):
        runner.discover("toy_cases")
    (folder / "again.py").unlink()
    case = importlib.import_module("toy_cases.toy").CASES[0]
    case["ours"] = lambda n_threads: 1 / 0
    assert runner.main(["--threads", "1"], "toy_cases") == 1
    assert "toy: ZeroDivisionError" in capsys.readouterr().err


def test_the_cases_of_ensembles_are_whole(ensemble_peers):
    runner, _ = ensemble_peers
    pytest.importorskip("sklearn")
    for case in [*runner.discover().values(), *runner.discover("second_round_cases").values()]:
        assert case["goal"] <= case["limit"]


def test_a_case_may_name_its_numbers_of_threads(ensemble_peers):
    runner, _ = ensemble_peers
    assert runner.discover("toy_cases")
    module = importlib.import_module("toy_cases.toy")
    module.CASES[0]["threads"] = (3,)
    assert runner.main(["--repeat", "1"], "toy_cases") == 0
    assert module.calls == [("ours", 3), ("peer", 3)]
