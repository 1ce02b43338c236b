"""Compare random forests with scikit-learn's: time, memory, and scores.

Every measurement runs in a fresh process (``forest_worker.py``) with the same data, parameters
and number of threads. The order of the libraries changes from repeat to repeat, and the minimum
over the repeats is reported. Ratios are hybridtrees / scikit-learn, so less than 1 is better.

    python asv_bench/forest_peers.py                    # every case, 1 and 2 threads
    python asv_bench/forest_peers.py --case regression --threads 1 --repeats 1
    python asv_bench/forest_peers.py --scale 0.01       # a hundredth of the rows: a smoke test
    python asv_bench/forest_peers.py --trees 5          # fewer trees; ratios hardly change
    python asv_bench/forest_peers.py --json result.json
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
PEER = "sklearn"

# What the peer has under another default; full depth in both.
REGRESSION = {"max_features": 1 / 3, "min_samples_leaf": 1}


@dataclass(frozen=True)
class Case:
    """One table; `goals` maps figures to the ratio to reach and the one that is too little."""

    title: str
    n: int
    p: int = 28
    task: str = "regression"
    params: dict = field(default_factory=dict)
    ours: dict = field(default_factory=dict)  # parameters that the peer does not have
    goals: dict[str, tuple[float, float]] = field(default_factory=dict)
    n_test: int = 100_000
    kind: str = "forest"


FIT = {"fit_s": (0.10, 0.25), "predict_s": (0.2, 0.5), "pickle_mb": (0.25, 0.5),
       "file_mb": (0.25, 0.5)}  # fmt: skip

CASES = {
    "regression": Case(
        "RF regression, 100k x 28, full depth", 100_000, params=REGRESSION, goals=FIT
    ),
    "classification": Case(
        "RF classification, 100k x 28, full depth", 100_000, task="binary",
        goals={**FIT, "fit_s": (0.15, 0.35)},
    ),
    "small-regression": Case(
        "RF regression, 10k x 20", 10_000, 20, params=REGRESSION, goals={"fit_s": (0.3, 0.6)}
    ),
    "small-classification": Case(
        "RF classification, 10k x 20", 10_000, 20, task="binary", goals={"fit_s": (0.3, 0.6)}
    ),
    "exact-regression": Case(
        "RF regression, 100k x 28, splitter='exact'", 100_000, params=REGRESSION,
        ours={"splitter": "exact"}, goals={"fit_s": (0.5, 0.9)},
    ),
    "exact-classification": Case(
        "RF classification, 100k x 28, splitter='exact'", 100_000, task="binary",
        ours={"splitter": "exact"}, goals={"fit_s": (0.5, 0.9)},
    ),
    "imputation": Case(
        "proximity imputation, 10k x 20, 10 % missing", 10_000, 20, kind="imputation",
        goals={"seconds": (30.0, 120.0)}, n_test=1000,
    ),
}  # fmt: skip

# figure: (heading, format)
FIGURES = {
    "fit_s": ("fit s", "{:.2f}"),
    "predict_s": ("predict s", "{:.3f}"),
    "memory_mb": ("peak MB", "{:.0f}"),
    "pickle_mb": ("pickle MB", "{:.1f}"),
    "file_mb": ("file MB", "{:.1f}"),
    "oob": ("oob score", "{:.5f}"),
    "score": ("test score", "{:.5f}"),
    "seconds": ("impute s", "{:.1f}"),
}


def prepare(case: Case, scale: float, cache: Path) -> Path:
    """Folder with the arrays of a case, made on first use."""
    n = case.n if scale == 1.0 else max(SMALLEST, int(case.n * scale))
    n_test = max(SMALLEST, int(case.n_test * scale))
    folder = cache / f"forest-{case.task}-{n}x{case.p}-{n_test}"
    if not (folder / "y_test.npy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in make_data(n, case.p, case.task, n_test=n_test)._asdict().items():
            np.save(folder / f"{name}.npy", array)
    return folder


def measure(case: Case, library: str, threads: int, trees: int, folder: Path) -> Figures:
    """Run the worker in a fresh process and return its figures."""
    job = {
        "kind": case.kind,
        "task": case.task,
        "params": {**case.params, "n_estimators": trees},
        "ours": case.ours,
        "library": library,
        "threads": threads,
        "folder": str(folder),
    }
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(limits, str(threads))}
    command = [sys.executable, str(Path(__file__).with_name("forest_worker.py")), json.dumps(job)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{library}: {last[0]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def run_case(case: Case, options: argparse.Namespace, folder: Path) -> dict[str, Figures]:
    """Best figures by "library threads"."""
    libraries = [US] if case.kind == "imputation" else [US, PEER]
    names = [f"{library} {count}" for library in libraries for count in options.threads]
    runs: dict[str, list[Figures]] = {name: [] for name in names}
    for name in rotations(names, options.repeats):
        library, count = name.split()
        try:
            runs[name].append(measure(case, library, int(count), options.trees, folder))
        except RuntimeError as error:
            print(f"  {error}", file=sys.stderr)
    return {name: best(found) for name, found in runs.items() if found}


def print_case(case: Case, results: dict[str, Figures]) -> None:
    """One table: the figures of each library and number of threads."""
    print(f"\n{case.title}")
    if not results:
        return
    names = [k for k in FIGURES if any(figures.get(k) is not None for figures in results.values())]
    rows = [["library, threads", *(FIGURES[k][0] for k in names)]]
    for name, figures in results.items():
        rows.append([name, *(show(figures.get(k), FIGURES[k][1]) for k in names)])
    print_table(rows)


def print_targets(records: dict[str, dict[str, Figures]]) -> None:
    """Ratios to the peer with as many threads, and what a second thread brings."""
    rows = [["target", "figure", "threads", "ratio", "goal", "limit", "verdict", "speed-up"]]
    for key, results in records.items():
        ours = {int(name.split()[1]): f for name, f in results.items() if name.startswith(US)}
        theirs = {int(n.split()[1]): f for n, f in results.items() if not n.startswith(US)}
        for figure, (goal, limit) in CASES[key].goals.items():
            # A file of ours is held against the peer's pickle.
            other = "pickle_mb" if figure == "file_mb" else figure
            for threads, figures in ours.items():
                peer = theirs.get(threads, {}) if theirs else {figure: 1.0}
                value = ratio(figures, {figure: peer.get(other)}, figure)
                if value is None:
                    continue
                up = ratio(ours[min(ours)], figures, figure) or 0.0
                numbers = [f"{x:.3f}" for x in (value, goal, limit)]
                rows.append(
                    [key, figure, str(threads), *numbers, verdict(value, goal, limit), f"{up:.2f}"]
                )
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
    parser.add_argument("--repeats", type=positive(int), default=1)
    parser.add_argument("--trees", type=positive(int), default=100)
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
    if options.scale != 1.0 or options.trees != 100:
        print(f"rows scaled by {options.scale}, {options.trees} trees")
    records = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.case:
            folder = prepare(CASES[name], options.scale, options.cache or Path(temporary))
            records[name] = run_case(CASES[name], options, folder)
            print_case(CASES[name], records[name])
            sys.stdout.flush()
    print_targets(records)
    if options.json:
        content = {"machine": facts, "scale": options.scale, "results": records}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    return 0 if any(results for results in records.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
