"""Compare hybridtrees with LightGBM, XGBoost and scikit-learn on equal work.

Every measurement runs in a fresh process (``peers_worker.py``) with the same data, parameters
and number of threads. The order of the libraries changes from repeat to repeat, and the minimum
over the repeats is reported: it is the figure least disturbed by other work on the machine.
Generating the data is never timed; binning always is. Ratios are hybridtrees / peer, so less
than 1 is better.

    python asv_bench/peers.py                           # every case, 1 and 2 threads
    python asv_bench/peers.py --case regression --threads 1 --repeats 3
    python asv_bench/peers.py --scale 0.01              # a hundredth of the rows: a smoke test
    python asv_bench/peers.py --json result.json
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

import measuring
from measuring import US, Figures, ratio, show, verdict
from peers_worker import IMPORT_NAMES, LIBRARIES


@dataclass(frozen=True)
class Work:
    """What every library is asked to grow."""

    trees: int = 100
    leaves: int = 31
    learning_rate: float = 0.1
    l2: float = 1.0
    min_rows: int = 20
    min_hessian: float = 20.0


# Least rows and least hessian of a leaf are one thing under squared error. Under logistic loss
# they are not, and XGBoost's dialect has only the second, so the first is switched off.
LOGISTIC = Work(min_rows=1, min_hessian=1.0)


@dataclass(frozen=True)
class Case:
    """One row of the comparison: a table, a task, and what is measured on it."""

    title: str
    n: int = 1_000_000
    p: int = 28
    task: str = "regression"
    kind: str = "fit"
    n_test: int | None = None
    zero_inflated: bool = False
    work: Work = field(default_factory=Work)
    inner: int = 1  # repeats within one process, for work too short to time once
    repeats: int | None = None  # overrides --repeats
    only: str = ""  # the one figure to report, if not all

    @property
    def libraries(self) -> list[str]:
        """The libraries that differ on this case."""
        return list(IMPORT_NAMES if self.kind == "import" else LIBRARIES)

    @property
    def uses_threads(self) -> bool:
        """Whether the number of threads matters."""
        return self.kind in ("fit", "predict")


CASES = {
    "regression": Case("fit 1M x 28, squared error"),
    "logistic": Case("fit 1M x 28, logistic loss", task="binary", work=LOGISTIC),
    "small": Case("fit 10k x 20, squared error", n=10_000, p=20, inner=5),
    "wide": Case("fit 50k x 500, squared error", n=50_000, p=500),
    "zero-inflated": Case("fit 1M x 28, most columns 90 % zero", zero_inflated=True),
    "predict": Case(
        "predict 1M rows, 100 trees", n=100_000, n_test=1_000_000, kind="predict", inner=3
    ),
    "predict-large": Case(
        "predict 1M rows, 100 trees of 127 leaves",
        n=100_000,
        n_test=1_000_000,
        kind="predict",
        work=Work(leaves=127),
    ),  # fmt: skip
    "one-row": Case("predict one NumPy row", n=100_000, kind="latency"),
    "import": Case("import beyond numpy and scipy.sparse", n=0, kind="import"),
    "memory": Case("peak memory above the input, 1M x 28", repeats=1, only="memory_mb"),
}

# (case, figure, peer): ratio to reach, ratio that is too little. Peer "" means the figure itself.
TARGETS = {
    ("regression", "fit_s", "lightgbm"): (0.40, 0.70),
    ("regression", "fit_s", "lightgbm-quantized"): (0.70, 1.00),
    ("regression", "fit_s", "xgboost"): (0.70, 1.00),
    ("regression", "fit_s", "scikit-learn"): (0.70, 1.00),
    ("regression", "score", "lightgbm"): (1.000, 1.002),
    ("logistic", "fit_s", "lightgbm"): (0.50, 0.80),
    ("logistic", "fit_s", "lightgbm-quantized"): (0.70, 1.00),
    ("logistic", "fit_s", "xgboost"): (0.70, 1.00),
    ("logistic", "fit_s", "scikit-learn"): (0.70, 1.00),
    ("logistic", "score", "lightgbm"): (1.000, 1.002),
    ("small", "fit_s", "lightgbm"): (0.60, 1.00),
    ("wide", "fit_s", "lightgbm"): (0.60, 1.00),
    ("zero-inflated", "fit_s", "lightgbm"): (0.60, 1.00),
    ("predict", "predict_s", "xgboost"): (0.10, 0.35),
    ("one-row", "latency_us", "xgboost"): (0.05, 0.20),
    ("memory", "memory_mb", "lightgbm"): (0.80, 1.20),
    ("import", "import_ms", ""): (30.0, 100.0),
}


def prepare(case: Case, scale: float, cache: Path) -> Path:
    """Folder with the arrays of a case, made on first use."""
    if case.kind == "import":
        return cache
    kind = f"peers-{int(case.zero_inflated)}"
    return measuring.save_data(kind, case, scale, cache, zero_inflated=case.zero_inflated)


def measure(case: Case, library: str, threads: int, folder: Path) -> Figures:
    """Run the worker in a fresh process and return its figures."""
    job = {
        "kind": case.kind,
        "task": case.task,
        "work": asdict(case.work),
        "inner": case.inner,
        "library": library,
        "threads": threads,
        "folder": str(folder),
    }
    return measuring.run_worker("peers_worker.py", job)


def run_case(
    case: Case, libraries: list[str], threads: int, repeats: int, folder: Path
) -> dict[str, Figures]:
    """Best figures of each library on one case; a library that fails is reported and left out."""
    runs: dict[str, list[Figures]] = {library: [] for library in libraries}
    failed = set()
    for library in measuring.rotations(libraries, case.repeats or repeats):
        if library in failed:
            continue
        try:
            figures = measure(case, library, threads, folder)
            runs[library].append({case.only: figures[case.only]} if case.only else figures)
        except RuntimeError as error:
            failed.add(library)
            print(f"  {library}: {error}", file=sys.stderr)
    return {k: measuring.best(v) for k, v in runs.items() if v and k not in failed}


def print_case(title: str, threads: int | None, results: dict[str, Figures]) -> None:
    """One table: the figures of each library, and the ratios."""
    print(f"\n{title}" + ("" if threads is None else f", {threads} thread(s)"))
    if not results:
        return
    names = list(next(iter(results.values())))
    ours = results.get(US, {})
    rows = [["library", *(measuring.FIGURES[n][0] for n in names)]]
    if ours:
        rows[0] += [f"ratio {measuring.FIGURES[n][0].rsplit(' ', 1)[0]}" for n in names]
    for library, figures in results.items():
        row = [library, *(show(figures[n], measuring.FIGURES[n][1]) for n in names)]
        if ours:
            form = "{:.3f}"
            row += [show(ratio(ours, figures, n), form) if library != US else "" for n in names]
        rows.append(row)
    measuring.print_table(rows)


def print_targets(records: list[dict]) -> None:
    """Every target for which both sides were measured."""
    by_key = {(r["case"], r["threads"], r["library"]): r["figures"] for r in records}
    rows = [["target", "threads", "value", "goal", "limit", "verdict"]]
    for (case, name, peer), (goal, limit) in TARGETS.items():
        for threads in sorted({r["threads"] for r in records if r["case"] == case}):
            ours = by_key.get((case, threads, US), {})
            theirs = by_key.get((case, threads, peer), {})
            value = ratio(ours, theirs, name) if peer else ours.get(name)
            if value is not None:
                what = f"{case}: {measuring.FIGURES[name][0]}" + (f" / {peer}" if peer else "")
                numbers = [f"{x:.3f}" for x in (value, goal, limit)]
                rows.append([what, str(threads), *numbers, verdict(value, goal, limit)])
    measuring.print_rows(rows, "targets")


def print_speed_up(records: list[dict]) -> None:
    """Fit time with the fewest threads over fit time with the most, of every library."""
    rows = [["speed-up of fit", "threads", "speed-up"]]
    fits = [r for r in records if r["figures"].get("fit_s")]
    for case, library in dict.fromkeys((r["case"], r["library"]) for r in fits):
        times = {
            r["threads"]: r["figures"]["fit_s"]
            for r in fits
            if (r["case"], r["library"]) == (case, library)
        }
        few, many = min(times), max(times)
        if few < many:
            up = f"{times[few] / times[many]:.2f}"
            rows.append([f"{case}: {library}", f"{few} -> {many}", up])
    measuring.print_rows(rows)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = measuring.base_parser(__doc__, CASES)
    parser.add_argument("--library", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    return parser.parse_args(arguments)


def run(options: argparse.Namespace, cache: Path) -> list[dict]:
    """Measure and print every chosen case."""
    records = []
    for name in options.case:
        case = CASES[name]
        folder = prepare(case, options.scale, cache)
        libraries = [x for x in case.libraries if x in options.library]
        for threads in options.threads if case.uses_threads else options.threads[:1]:
            results = run_case(case, libraries, threads, options.repeats, folder)
            print_case(case.title, threads if case.uses_threads else None, results)
            sys.stdout.flush()
            for library, figures in results.items():
                record = {"case": name, "threads": threads, "library": library}
                records.append({**record, "figures": figures})
    return records


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison."""
    options = parse_arguments(arguments)
    facts = measuring.print_machine()
    measuring.print_scale(options.scale)
    with tempfile.TemporaryDirectory() as temporary:
        records = run(options, options.cache or Path(temporary))
    print_speed_up(records)
    if options.scale == 1.0:
        print_targets(records)
    measuring.write_json(options.json, facts, records, scale=options.scale)
    return 0 if any(record["library"] == US for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
