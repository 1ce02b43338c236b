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
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

import numpy as np
from benchmarks.datasets import make_data
from peers_worker import IMPORT_NAMES, LIBRARIES

US = "hybridtrees"
SMALLEST = 1000  # rows that --scale leaves at least


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

# figure: (heading, format)
FIGURES = {
    "fit_s": ("fit s", "{:.3f}"),
    "predict_s": ("predict s", "{:.4f}"),
    "memory_mb": ("memory MB", "{:.0f}"),
    "score": ("score", "{:.5f}"),
    "latency_us": ("one row us", "{:.1f}"),
    "import_ms": ("import ms", "{:.1f}"),
}

Figures = dict[str, float | None]


def shrink(case: Case, scale: float) -> tuple[int, int | None]:
    """Training and test rows of a case under --scale."""
    if scale == 1.0:
        return case.n, case.n_test
    n_test = None if case.n_test is None else max(SMALLEST, int(case.n_test * scale))
    return max(SMALLEST, int(case.n * scale)), n_test


def prepare(case: Case, scale: float, cache: Path) -> Path:
    """Folder with the arrays of a case, made on first use."""
    n, n_test = shrink(case, scale)
    folder = cache / f"{case.task}-{n}x{case.p}-{n_test}-{int(case.zero_inflated)}"
    if case.kind == "import" or (folder / "y_test.npy").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    data = make_data(n, case.p, case.task, n_test=n_test, zero_inflated=case.zero_inflated)
    for name, array in data._asdict().items():
        np.save(folder / f"{name}.npy", array)
    return folder


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
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(limits, str(threads))}
    worker = str(Path(__file__).with_name("peers_worker.py"))
    command = [sys.executable, worker, json.dumps(job)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RuntimeError(last[0])
    return json.loads(done.stdout.strip().splitlines()[-1])


def rotations(libraries: list[str], repeats: int) -> Iterator[str]:
    """Each library `repeats` times, in an order that turns by one place per repeat."""
    for repeat in range(repeats):
        turn = repeat % len(libraries)
        yield from libraries[turn:] + libraries[:turn]


def best(runs: list[Figures]) -> Figures:
    """The smallest of each cost over the repeats, and the mean of the scores.

    LightGBM's quantised gradients are rounded at random: its best score would flatter it.
    """
    figures: Figures = {}
    for name in runs[0]:
        values = [run[name] for run in runs if run[name] is not None]
        choose = statistics.fmean if name == "score" else min
        figures[name] = choose(values) if values else None
    return figures


def run_case(
    case: Case, libraries: list[str], threads: int, repeats: int, folder: Path
) -> dict[str, Figures]:
    """Best figures of each library on one case; a library that fails is reported and left out."""
    runs: dict[str, list[Figures]] = {library: [] for library in libraries}
    failed = set()
    for library in rotations(libraries, case.repeats or repeats):
        if library in failed:
            continue
        try:
            figures = measure(case, library, threads, folder)
            runs[library].append({case.only: figures[case.only]} if case.only else figures)
        except RuntimeError as error:
            failed.add(library)
            print(f"  {library}: {error}", file=sys.stderr)
    return {k: best(v) for k, v in runs.items() if v and k not in failed}


def show(value: float | None, form: str) -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else form.format(value)


def ratio(ours: Figures, theirs: Figures, name: str) -> float | None:
    """hybridtrees / peer."""
    mine, other = ours.get(name), theirs.get(name)
    return None if mine is None or not other else mine / other


def print_table(rows: list[list[str]]) -> None:
    """Print rows with columns lined up: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  " + "  ".join(cells).rstrip())


def print_case(title: str, threads: int | None, results: dict[str, Figures]) -> None:
    """One table: the figures of each library, and the ratios."""
    print(f"\n{title}" + ("" if threads is None else f", {threads} thread(s)"))
    if not results:
        return
    names = list(next(iter(results.values())))
    ours = results.get(US, {})
    rows = [["library", *(FIGURES[n][0] for n in names)]]
    if ours:
        rows[0] += [f"ratio {FIGURES[n][0].rsplit(' ', 1)[0]}" for n in names]
    for library, figures in results.items():
        row = [library, *(show(figures[n], FIGURES[n][1]) for n in names)]
        if ours:
            form = "{:.3f}"
            row += [show(ratio(ours, figures, n), form) if library != US else "" for n in names]
        rows.append(row)
    print_table(rows)


def verdict(value: float, goal: float, limit: float) -> str:
    """How a ratio stands to its target."""
    return "reached" if value <= goal else "short" if value <= limit else "TOO LITTLE"


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
                what = f"{case}: {FIGURES[name][0]}" + (f" / {peer}" if peer else "")
                numbers = [f"{x:.3f}" for x in (value, goal, limit)]
                rows.append([what, str(threads), *numbers, verdict(value, goal, limit)])
    if len(rows) > 1:
        print("\ntargets")
        print_table(rows)


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
    if len(rows) > 1:
        print()
        print_table(rows)


def machine() -> dict:
    """What the figures depend on: processor, cores, versions."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(x.split(":")[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        processor = platform.processor()
    versions = {}
    for package in ("hybridtrees", "lightgbm", "xgboost", "xgboost-cpu", "scikit-learn", "numpy"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
    }


def positive(kind: type):
    """Argument type: a number greater than zero."""

    def parse(text: str):
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"must be greater than 0, got {text}")
        return value

    parse.__name__ = f"positive {kind.__name__}"
    return parse


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        epilog="cases: " + "; ".join(f"{name} ({case.title})" for name, case in CASES.items()),
    )
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--threads", nargs="+", type=positive(int), default=[1, 2])
    parser.add_argument("--library", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--repeats", type=positive(int), default=3)
    parser.add_argument("--scale", type=positive(float), default=1.0, help="fraction of the rows")
    parser.add_argument("--json", type=Path, help="also write every figure to this file")
    parser.add_argument("--cache", type=Path, help="keep the data here between runs")
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
    facts = machine()
    print(f"{facts['processor']}, {facts['cores']} cores, Python {facts['python']}")
    print(", ".join(f"{name} {version}" for name, version in facts["versions"].items()))
    if options.scale != 1.0:
        print(f"rows scaled by {options.scale}: titles name the full size")
    with tempfile.TemporaryDirectory() as temporary:
        records = run(options, options.cache or Path(temporary))
    print_speed_up(records)
    if options.scale == 1.0:
        print_targets(records)
    if options.json:
        content = {"machine": facts, "scale": options.scale, "results": records}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    return 0 if any(record["library"] == US for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
