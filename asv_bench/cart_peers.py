"""Compare single trees with scikit-learn's, and exact boosting with XGBoost's.

Every measurement runs in a fresh process (``cart_worker.py``) with the same data, parameters and
number of threads. The order of the libraries changes from repeat to repeat, and the minimum over
the repeats is reported. Ratios are hybridtrees / peer, so less than 1 is better. scikit-learn's
trees have one thread; with more, hybridtrees is compared with that.

    python asv_bench/cart_peers.py                      # every case, 1 and 2 threads
    python asv_bench/cart_peers.py --case regressor --threads 1 --repeats 3
    python asv_bench/cart_peers.py --scale 0.01         # a hundredth of the rows: a smoke test
    python asv_bench/cart_peers.py --json result.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from benchmarks.datasets import make_data
from peers import US, Figures, best, machine, positive, print_table, ratio, rotations, show, verdict

SMALLEST = 1000  # rows that --scale leaves at least
SKLEARN, XGBOOST = "sklearn", "xgboost"


@dataclass(frozen=True)
class Case:
    """One row of the comparison; `goals` are the ratio to reach and the one that is too little."""

    title: str
    n: int
    p: int = 28
    task: str = "regression"
    params: dict = field(default_factory=dict)
    family: str = "cart"
    peer: str = SKLEARN
    n_test: int | None = None
    figure: str = "fit_s"
    goals: tuple[float, float] = (1.0, 1.0)
    inner: int = 1  # repeats of the prediction within one process
    repeats: int | None = None  # overrides --repeats


CASES = {
    "regressor": Case("CART regressor, full depth, 100k x 28", 100_000, goals=(0.30, 0.60)),
    "classifier": Case(
        "CART classifier (gini), full depth, 100k x 28", 100_000, task="binary", goals=(0.30, 0.60)
    ),
    "million": Case(
        "CART regressor, depth 10, 1M x 28, exact", 1_000_000, params={"max_depth": 10},
        goals=(0.20, 0.35), repeats=1,
    ),
    "million-hist": Case(
        "the same with splitter='hist'", 1_000_000,
        params={"max_depth": 10, "splitter": "hist"}, goals=(0.05, 0.12), repeats=1,
    ),
    "absolute": Case(
        "absolute_error, depth 8, 20k x 10", 20_000, 10,
        params={"criterion": "absolute_error", "max_depth": 8}, goals=(0.5, 1.0),
    ),
    "exact-boosting": Case(
        "XGB exact, 100k x 28, 100 trees of depth 6", 100_000, family="boosting", peer=XGBOOST,
        params={"n_estimators": 100, "max_depth": 6}, goals=(0.3, 0.6), repeats=1,
    ),
    "predict": Case(
        "predict 1M rows, full-depth tree", 100_000, n_test=1_000_000, figure="predict_s",
        goals=(0.5, 1.0), inner=3,
    ),
}  # fmt: skip

# figure: (heading, format)
FIGURES = {
    "fit_s": ("fit s", "{:.3f}"),
    "predict_s": ("predict s", "{:.4f}"),
    "memory_mb": ("memory MB", "{:.0f}"),
    "leaves": ("leaves", "{:.0f}"),
    "score": ("score", "{:.5f}"),
}


def prepare(case: Case, scale: float, cache: Path) -> Path:
    """Folder with the arrays of a case, made on first use."""
    n = case.n if scale == 1.0 else max(SMALLEST, int(case.n * scale))
    n_test = case.n_test and max(SMALLEST, int(case.n_test * scale))
    folder = cache / f"cart-{case.task}-{n}x{case.p}-{n_test}"
    if not (folder / "y_test.npy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in make_data(n, case.p, case.task, n_test=n_test)._asdict().items():
            np.save(folder / f"{name}.npy", array)
    return folder


def measure(case: Case, library: str, threads: int, folder: Path) -> Figures:
    """Run the worker in a fresh process and return its figures."""
    job = {
        "family": case.family,
        "task": case.task,
        "params": case.params,
        "inner": case.inner,
        "library": library,
        "threads": threads,
        "folder": str(folder),
    }
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(limits, str(threads))}
    command = [sys.executable, str(Path(__file__).with_name("cart_worker.py")), json.dumps(job)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{library}: {last[0]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def run_case(case: Case, threads: list[int], repeats: int, folder: Path) -> dict[str, Figures]:
    """Best figures by "library threads"; a tree of scikit-learn knows one thread only."""
    names = [f"{US} {count}" for count in threads]
    peer_threads = threads[:1] if case.peer == SKLEARN else threads
    names += [f"{case.peer} {count}" for count in peer_threads]
    runs: dict[str, list[Figures]] = {name: [] for name in names}
    for name in rotations(names, case.repeats or repeats):
        library, count = name.split()
        try:
            runs[name].append(measure(case, library, int(count), folder))
        except RuntimeError as error:
            print(f"  {error}", file=sys.stderr)
    return {name: best(found) for name, found in runs.items() if found}


def print_case(case: Case, results: dict[str, Figures]) -> None:
    """One table: the figures of each library and number of threads."""
    print(f"\n{case.title}")
    if not results:
        return
    rows = [["library, threads", *(heading for heading, _ in FIGURES.values())]]
    for name, figures in results.items():
        rows.append([name, *(show(figures[k], form) for k, (_, form) in FIGURES.items())])
    print_table(rows)


def print_targets(records: dict[str, dict[str, Figures]]) -> None:
    """Ratios to the peer with as many threads, or with one; and what a second thread brings."""
    rows = [["target", "threads", "ratio", "goal", "limit", "verdict", "speed-up"]]
    for key, results in records.items():
        case = CASES[key]
        ours = {int(name.split()[1]): f for name, f in results.items() if name.startswith(US)}
        theirs = {int(n.split()[1]): f for n, f in results.items() if not n.startswith(US)}
        for threads, figures in ours.items():
            peer = theirs.get(threads) or theirs.get(min(theirs, default=0))
            value = ratio(figures, peer or {}, case.figure)
            if value is None:
                continue
            up = ratio(ours[min(ours)], figures, case.figure) or 0.0
            goal, limit = case.goals
            numbers = [f"{x:.3f}" for x in (value, goal, limit)]
            rows.append([key, str(threads), *numbers, verdict(value, goal, limit), f"{up:.2f}"])
    if len(rows) > 1:
        print("\ntargets")
        print_table(rows)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        epilog="cases: " + "; ".join(f"{name} ({case.title})" for name, case in CASES.items()),
    )
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--threads", nargs="+", type=positive(int), default=[1, 2])
    parser.add_argument("--repeats", type=positive(int), default=3)
    parser.add_argument("--scale", type=positive(float), default=1.0, help="fraction of the rows")
    parser.add_argument("--json", type=Path, help="also write every figure to this file")
    parser.add_argument("--cache", type=Path, help="keep the data here between runs")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison."""
    options = parse_arguments(arguments)
    facts = machine()
    print(f"{facts['processor']}, {facts['cores']} cores, Python {facts['python']}")
    print(", ".join(f"{name} {version}" for name, version in facts["versions"].items()))
    if options.scale != 1.0:
        print(f"rows scaled by {options.scale}: titles name the full size")
    records = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.case:
            folder = prepare(CASES[name], options.scale, options.cache or Path(temporary))
            records[name] = run_case(CASES[name], options.threads, options.repeats, folder)
            print_case(CASES[name], records[name])
            sys.stdout.flush()
    print_targets(records)
    if options.json:
        content = {"machine": facts, "scale": options.scale, "results": records}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    return 0 if any(results for results in records.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
