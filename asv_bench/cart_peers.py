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

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import measuring
from measuring import US, Figures, ratio, verdict

SKLEARN, XGBOOST = "sklearn", "xgboost"


@dataclass(frozen=True)
class Case(measuring.Table):
    """One row of the comparison; `goals` are the ratio to reach and the one that is too little."""

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
    return measuring.run_worker("cart_worker.py", job)


def run_case(case: Case, threads: list[int], repeats: int, folder: Path) -> dict[str, Figures]:
    """Best figures by "library threads"; a tree of scikit-learn knows one thread only."""
    names = [f"{US} {count}" for count in threads]
    peer_threads = threads[:1] if case.peer == SKLEARN else threads
    names += [f"{case.peer} {count}" for count in peer_threads]
    return measuring.best_figures(
        names, case.repeats or repeats, lambda *where: measure(case, *where, folder)
    )


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
    measuring.print_rows(rows, "targets")


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison."""
    options = measuring.base_parser(__doc__, CASES).parse_args(arguments)
    facts = measuring.print_machine()
    measuring.print_scale(options.scale)
    records = {}
    with tempfile.TemporaryDirectory() as temporary:
        cache = options.cache or Path(temporary)
        for name in options.case:
            folder = measuring.save_data("cart", CASES[name], options.scale, cache)
            records[name] = run_case(CASES[name], options.threads, options.repeats, folder)
            measuring.print_figures(CASES[name].title, records[name])
    print_targets(records)
    measuring.write_json(options.json, facts, records, scale=options.scale)
    return 0 if any(results for results in records.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
