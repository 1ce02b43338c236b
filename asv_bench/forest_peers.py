"""Compare random forests and extra-trees with scikit-learn's: time, memory, and scores.

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
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import measuring
from measuring import US, Figures, ratio, verdict

PEER = "sklearn"

# What the peer has under another default; full depth in both.
REGRESSION = {"max_features": 1 / 3, "min_samples_leaf": 1}


@dataclass(frozen=True)
class Case(measuring.Table):
    """One table; `goals` maps figures to the ratio to reach and the one that is too little."""

    ours: dict = field(default_factory=dict)  # parameters that the peer does not have
    goals: dict[str, tuple[float, float]] = field(default_factory=dict)
    n_test: int = 100_000
    kind: str = "forest"
    family: str = "RandomForest"


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
    "extra-regression": Case(
        "ExtraTrees regression, 100k x 28, full depth", 100_000, family="ExtraTrees",
        goals={"fit_s": (0.15, 0.25)},
    ),
    "extra-classification": Case(
        "ExtraTrees classification, 100k x 28, full depth", 100_000, task="binary",
        family="ExtraTrees", goals={"fit_s": (0.15, 0.25)},
    ),
    "imputation": Case(
        "proximity imputation, 10k x 20, 10 % missing", 10_000, 20, kind="imputation",
        goals={"seconds": (30.0, 120.0)}, n_test=1000,
    ),
}  # fmt: skip


def measure(case: Case, library: str, threads: int, trees: int, folder: Path) -> Figures:
    """Run the worker in a fresh process and return its figures."""
    job = {
        "kind": case.kind,
        "family": case.family,
        "task": case.task,
        "params": {**case.params, "n_estimators": trees},
        "ours": case.ours,
        "library": library,
        "threads": threads,
        "folder": str(folder),
    }
    return measuring.run_worker("forest_worker.py", job)


def run_case(case: Case, options: argparse.Namespace, folder: Path) -> dict[str, Figures]:
    """Best figures by "library threads"."""
    libraries = [US] if case.kind == "imputation" else [US, PEER]
    names = [f"{library} {count}" for library in libraries for count in options.threads]
    return measuring.best_figures(
        names, options.repeats, lambda *where: measure(case, *where, options.trees, folder)
    )


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
    measuring.print_rows(rows, "targets")


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison."""
    parser = measuring.base_parser(__doc__, CASES, repeats=1)
    parser.add_argument("--trees", type=measuring.positive(int), default=100)
    options = parser.parse_args(arguments)
    facts = measuring.print_machine()
    if options.scale != 1.0 or options.trees != 100:
        print(f"rows scaled by {options.scale}, {options.trees} trees")
    records = {}
    with tempfile.TemporaryDirectory() as temporary:
        cache = options.cache or Path(temporary)
        for name in options.case:
            folder = measuring.save_data("forest", CASES[name], options.scale, cache)
            records[name] = run_case(CASES[name], options, folder)
            measuring.print_figures(CASES[name].title, records[name])
    print_targets(records)
    measuring.write_json(options.json, facts, records, scale=options.scale)
    return 0 if any(results for results in records.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
