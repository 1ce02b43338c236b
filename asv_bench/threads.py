"""How much two threads gain on the large fits, and how much this machine lets two cores gain.

Every round measures a fit with one thread, with two threads, and two fits of one thread each at
the same time in two processes, one after the other; the minimum over the rounds counts. The two
processes share nothing but the caches and the memory of the machine, so their gain,
``2 * alone / together``, is what two threads could reach at best here. LightGBM stands beside.

    python asv_bench/threads.py                          # three rounds of every case
    python asv_bench/threads.py --case logistic --rounds 5
    python asv_bench/threads.py --rows 0.05              # a smoke test
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.datasets import make_data
from peers import CASES, Case

LARGE = ("regression", "logistic", "zero-inflated", "wide")
LIBRARIES = ("hybridtrees", "lightgbm")


def make_model(library: str, case: Case, threads: int):
    """The estimator of a library for a case."""
    work = case.work
    kind = "Regressor" if case.task == "regression" else "Classifier"
    if library == "hybridtrees":
        return getattr(importlib.import_module("hybridtrees"), f"XGB{kind}")(
            n_estimators=work.trees, max_depth=0, max_leaves=work.leaves, max_bin=255,
            grow_policy="lossguide", learning_rate=work.learning_rate, reg_lambda=work.l2,
            min_child_weight=work.min_hessian, n_jobs=threads,
        )  # fmt: skip
    return getattr(importlib.import_module("lightgbm"), f"LGBM{kind}")(
        n_estimators=work.trees, num_leaves=work.leaves, max_bin=255,
        learning_rate=work.learning_rate, reg_lambda=work.l2, min_child_samples=work.min_rows,
        min_child_weight=work.min_hessian, n_jobs=threads, verbosity=-1,
    )  # fmt: skip


def worker(name: str, library: str, threads: int, folder: str) -> None:
    """Fit when a line comes in, print the seconds, until the input ends."""
    X, y = np.load(Path(folder, "X.npy")), np.load(Path(folder, "y.npy"))
    make_model(library, CASES[name], threads).fit(X[:1000], y[:1000])
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        make_model(library, CASES[name], threads).fit(X, y)
        print(json.dumps(time.perf_counter() - start), flush=True)


class Worker:
    """A process that fits on request."""

    def __init__(self, name: str, library: str, threads: int, folder: str):
        command = [sys.executable, __file__, "--worker", name, library, str(threads), folder]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{library} did not start")

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("fit\n")
        self.process.stdin.flush()

    def end(self) -> float:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


def measure(name: str, library: str, folder: str, rounds: int) -> tuple[float, float, float]:
    """Least seconds of one thread, of two, and of two processes at once."""
    best = [np.inf] * 3
    first, second = (Worker(name, library, 1, folder) for _ in range(2))
    threaded = Worker(name, library, 2, folder)
    for _ in range(rounds):
        first.begin()
        best[0] = min(best[0], first.end())
        threaded.begin()
        best[1] = min(best[1], threaded.end())
        for one in (first, second):
            one.begin()
        best[2] = min(best[2], max(one.end() for one in (first, second)))
    for one in (first, second, threaded):
        one.close()
    return best[0], best[1], best[2]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", action="append", choices=LARGE)
    parser.add_argument("--library", action="append", choices=LIBRARIES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=float, default=1.0, help="share of the rows")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, library, threads, folder = options.worker
        worker(name, library, int(threads), folder)
        return
    print("| case | library | 1 thread s | 2 threads s | gain | gain of two processes |")
    print("|---|---|---|---|---|---|")
    for name in options.case or LARGE:
        case = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            n = max(2000, int(case.n * options.rows))
            data = make_data(n, case.p, case.task, n_test=100, zero_inflated=case.zero_inflated)
            np.save(Path(folder, "X.npy"), data.X)
            np.save(Path(folder, "y.npy"), data.y)
            for library in options.library or LIBRARIES:
                one, two, together = measure(name, library, folder, options.rounds)
                print(
                    f"| {case.title} | {library} | {one:.2f} | {two:.2f} | {one / two:.2f} "
                    f"| {2 * one / together:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
