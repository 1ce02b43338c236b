"""Processes that help: their answers count, their loss does not."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from fresh_python import run_python
from helper_jobs import Report

from hybridtrees._compare import helpers as module
from hybridtrees._compare.data import make_data
from hybridtrees._compare.families import FAMILIES, Family, choose_families
from hybridtrees._compare.fitting import Fit, in_package
from hybridtrees._compare.helpers import Helpers
from hybridtrees._compare.run import compare_data
from hybridtrees._compare.search import Limits
from hybridtrees.datasets import load_heart_failure


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Processes start without delay, and on any machine."""
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    monkeypatch.setattr(module, "usable_cpus", lambda: 3)


def outcomes(comparison):
    rows = [
        (r.family.key, r.setting, r.test, r.train, r.error, r.trial.rounds)
        for r in comparison.results
    ]
    tried = [(t.family.key, t.setting, t.train, t.validation, t.rounds) for t in comparison.trials]
    return rows, tried


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_table_does_not_depend_on_processes(task):
    hearts = load_heart_failure()
    X, y = hearts.data[:120], hearts.target[:120]
    if task == "regression":
        X, y = X[:, 1:], X[:, 0]
    data = make_data(X, y, task=task)
    families = choose_families(["cart", "linear_tree", "xgb", "eblr", "rerf"])
    alone = compare_data(data, families, None, Limits(n_jobs=1, seed=3))
    with Helpers(3) as helpers:
        # Once they are up, for else a quick machine has done it all before.
        for _ in range(20):
            if len({process for _, process in helpers.map(Report(), range(60))}) == 3:
                break
        before = helpers.n_answers
        shared = compare_data(data, families, None, Limits(n_jobs=3, seed=3), helpers=helpers)
        assert helpers.n_answers > before + 5
    assert outcomes(alone) == outcomes(shared)


def test_answers_come_in_order_from_several_processes(capfd):
    with Helpers(3) as helpers:
        for n_items in (120, 60):
            found = helpers.map(Report(), range(n_items))
            assert [item for item, _ in found] == list(range(n_items))
            processes = {process for _, process in found}
            assert os.getpid() in processes and 2 <= len(processes) <= 3
        # The second time they were up already.
        assert len(processes) == 3
    for process in processes - {os.getpid()}:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    assert "Error" not in capfd.readouterr().err


@pytest.mark.parametrize("trouble", [{"exit_at": 40}, {"fail_at": 40}])
def test_what_a_lost_process_leaves_is_done_here(trouble):
    items = [40] * 40
    with Helpers(2) as helpers:
        found = helpers.map(Report(**trouble), items)
        assert found == [(40, os.getpid())] * 40 and helpers.n_answers == 0
        assert helpers.map(Report(), [1]) == [(1, os.getpid())]


def test_what_has_killed_a_process_is_not_tried_here():
    with Helpers(2) as helpers:
        found = helpers.map(Report(kill_at=40), [40] * 40)
        assert sorted(process for _, process in found) == [-1] + [os.getpid()] * 39
        assert helpers.n_answers == 0


# Read as a pickled answer: one that never ends, and None.
@pytest.mark.parametrize("text", ["coverage of everything", "N."])
def test_what_python_prints_as_it_starts_is_no_answer(monkeypatch, tmp_path, text):
    (tmp_path / "sitecustomize.py").write_text(f"print({text!r}, flush=True)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Helpers(2) as helpers:
        found = helpers.map(Report(), range(80))
        assert [item for item, _ in found] == list(range(80))
        assert helpers.n_answers > 0


def test_items_that_must_stay_and_work_alone():
    with Helpers(2) as helpers:
        found = helpers.map(Report(), range(60), may_leave=lambda item: item % 2 == 0)
        assert {process for item, process in found if item % 2} == {os.getpid()}
        assert helpers.n_answers > 0
        before = helpers.n_answers
        assert {p for _, p in helpers.map(Report(), range(20), alone=True)} == {os.getpid()}
        assert helpers.n_answers == before


@pytest.mark.parametrize("where", ["here", "there"])
def test_errors_of_this_process_end_the_work(where):
    home = os.getpid()

    def attempt(item, run):
        done = run(item)
        if (done[1] == home) == (where == "here"):
            raise KeyboardInterrupt
        return done

    with Helpers(2) as helpers:
        with pytest.raises(KeyboardInterrupt):
            helpers.map(Report(), range(400), attempt)
        assert len(helpers.map(Report(), range(3))) == 3


def test_no_process_where_none_can_be_started(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with Helpers(2) as helpers:
        assert helpers.map(Report(), range(5)) == [(k, os.getpid()) for k in range(5)]
    for executable in ("", None, "/opt/program"):
        monkeypatch.setattr(sys, "executable", executable)
        assert (Helpers(2).n_workers, Helpers(2).threads_each) == (1, 2)


def test_no_more_processes_than_processors():
    assert [Helpers(n).n_workers for n in (1, 2, 40)] == [1, 2, 3]
    assert Helpers(40).threads_each == 1


def test_families_travel_by_name():
    fit = Fit(FAMILIES[3], {"max_depth": 2}, part=1, stop=False)
    again = pickle.loads(pickle.dumps(fit))
    assert again == fit and again.family is FAMILIES[3]
    assert in_package(FAMILIES[0])
    assert not in_package(Family("cart", "CART", "CARTRegressor", "CARTClassifier"))


def test_scripts_need_no_guard(tmp_path):
    """A script without ``if __name__ == "__main__"`` runs once, whatever processes help it."""
    script = tmp_path / "script.py"
    script.write_text(
        "print('run')\n"
        "import numpy as np, hybridtrees\n"
        "from hybridtrees._compare import helpers\n"
        "helpers._PATIENCE, helpers.usable_cpus = 0.0, lambda: 2\n"
        "X = np.random.default_rng(0).normal(size=(300, 3))\n"
        "found = hybridtrees.compare(X, X[:, 0] ** 2, models=['cart', 'gb'], n_jobs=2)\n"
        "print(len(found.trials))\n"
    )
    done = run_python(str(script))
    n_settings = sum(len(f.settings()) for f in choose_families(["cart", "gb"]))
    assert done.stdout.split() == ["run", str(n_settings)], done.stderr


def test_processes_end_with_the_one_they_help():
    """Then nobody asks any more, though it was killed."""
    done = subprocess.run(
        [sys.executable, "-c", module._PROGRAM], input=pickle.dumps(sys.path), capture_output=True
    )
    ready = b"\n" + module._READY + b"\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, ready, b"")
