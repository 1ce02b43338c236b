"""Fits where the system does not let the process start all the threads it wants."""

from __future__ import annotations

import sys
import threading

import pytest
from fresh_python import run_python

from hybridtrees.core.base._threads import startable_threads, team_threads
from hybridtrees.core.base.workers import run_threads, start_workers

# Sixteen threads have stacks of 8 MB each as a rule: addresses for a few of them are left.
LIMITED = """
import resource
import numpy as np
from hybridtrees import RandomForestRegressor, XGBRegressor

make, room = {make}, {room}
rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 12))
y = X[:, 0] + X[:, 1] * X[:, 2]
expected = make(1).fit(X, y).predict(X)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
limit = used + room * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
try:
    np.testing.assert_array_equal(make(16).fit(X, y).predict(X), expected)
except MemoryError:
    print("MemoryError")
else:
    print("fitted")
"""

MODELS = {
    "hist": "lambda n: XGBRegressor(n_estimators=5, n_jobs=n)",
    "exact": "lambda n: XGBRegressor(tree_method='exact', n_estimators=5, n_jobs=n)",
    "forest": "lambda n: RandomForestRegressor(n_estimators=20, random_state=0, n_jobs=n)",
}


@pytest.mark.skipif(sys.platform != "linux", reason="limits and their use are those of Linux")
@pytest.mark.parametrize("room", [12, 60])
@pytest.mark.parametrize("model", MODELS)
def test_a_fit_with_little_memory_ends_well(model, room):
    done = run_python("-c", LIMITED.format(make=MODELS[model], room=room))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("fitted", "MemoryError")
    # Each thread of a forest takes memory of its own.
    assert room < 60 or model == "forest" or done.stdout.strip() == "fitted"


def test_workers_are_started_at_once():
    pool, n_threads = start_workers(3)
    assert n_threads == 3
    with pool:
        assert list(pool.map(abs, [-1, 2, -3, 4])) == [1, 2, 3, 4]
    assert start_workers(1) == (None, 1)
    assert run_threads(abs, [-1, 2], 1) == run_threads(abs, [-1, 2], 2) == [1, 2]


def test_work_is_done_alone_where_no_thread_can_be_started(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert start_workers(2) == (None, 1)
    assert run_threads(abs, [-1, 2], 2) == [1, 2]


def test_threads_that_can_be_started_are_all_granted():
    assert [startable_threads(n) for n in (0, 1, 2, 5)] == [0, 1, 2, 5]
    assert [team_threads(n) for n in (1, 2, 8, 3, 8, 9, 1)] == [1, 2, 8, 3, 8, 9, 1]
