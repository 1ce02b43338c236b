"""What the comparisons with other libraries share: fresh processes, figures, tables of text."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import numpy as np
from benchmarks.datasets import make_data

US = "hybridtrees"
SMALLEST = 1000  # rows that --scale leaves at least

Figures = dict[str, float | None]

# figure: (heading, format)
FIGURES = {
    "fit_s": ("fit s", "{:.3f}"),
    "predict_s": ("predict s", "{:.4f}"),
    "memory_mb": ("memory MB", "{:.0f}"),
    "leaves": ("leaves", "{:.0f}"),
    "pickle_mb": ("pickle MB", "{:.1f}"),
    "file_mb": ("file MB", "{:.1f}"),
    "oob": ("oob score", "{:.5f}"),
    "score": ("score", "{:.6f}"),
    "latency_us": ("one row us", "{:.1f}"),
    "import_ms": ("import ms", "{:.1f}"),
    "seconds": ("impute s", "{:.1f}"),
}


@dataclass(frozen=True)
class Table:
    """A generated table, and the parameters that models are fitted to it with."""

    title: str
    n: int
    p: int = 28
    task: str = "regression"
    params: dict = field(default_factory=dict)


def shrink(n: int | None, scale: float) -> int | None:
    """Rows of a case under --scale."""
    return n if n is None or scale == 1.0 else max(SMALLEST, int(n * scale))


def save_data(name: str, case, scale: float, cache: Path, **options) -> Path:
    """Folder with the generated arrays of a case, made on first use."""
    n, n_test = shrink(case.n, scale), shrink(case.n_test, scale)
    folder = cache / f"{name}-{case.task}-{n}x{case.p}-{n_test}"
    if not (folder / "y_test.npy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        data = make_data(n, case.p, case.task, n_test=n_test, **options)
        for part, array in data._asdict().items():
            np.save(folder / f"{part}.npy", array)
    return folder


def run_worker(script: str, job: dict, *before: str) -> Figures:
    """Run a script of this folder in a fresh process, limited to the job's threads."""
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(limits, str(job["threads"]))}
    command = [sys.executable, str(Path(__file__).with_name(script)), *before, json.dumps(job)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{job['library']}: {last[0]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def fit_seconds(model, X, y, n_threads: int) -> float:
    """Seconds of a fit: CPU time with one thread, which other programs do not disturb."""
    clock = time.process_time if n_threads == 1 else time.perf_counter
    start = clock()
    model.fit(X, y)
    return clock() - start


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


def best_figures(
    names: list[str], repeats: int, measure: Callable[[str, int], Figures]
) -> dict[str, Figures]:
    """Best figures by "library threads"; what fails is reported and left out."""
    runs: dict[str, list[Figures]] = {name: [] for name in names}
    for name in rotations(names, repeats):
        library, threads = name.split()
        try:
            runs[name].append(measure(library, int(threads)))
        except RuntimeError as error:
            print(f"  {error}", file=sys.stderr)
    return {name: best(found) for name, found in runs.items() if found}


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


def print_rows(rows: list[list[str]], title: str = "") -> None:
    """Print a table below its title; nothing if it has a heading only."""
    if len(rows) > 1:
        print(f"\n{title}" if title else "")
        print_table(rows)


def print_figures(title: str, results: dict[str, Figures]) -> None:
    """One table: the figures of each library and number of threads."""
    print(f"\n{title}")
    names = [k for k in FIGURES if any(found.get(k) is not None for found in results.values())]
    rows = [["library, threads", *(FIGURES[k][0] for k in names)]]
    for name, found in results.items():
        rows.append([name, *(show(found.get(k), FIGURES[k][1]) for k in names)])
    if results:
        print_table(rows)
    sys.stdout.flush()


def verdict(value: float, goal: float, limit: float) -> str:
    """How a ratio stands to its target."""
    return "reached" if value <= goal else "short" if value <= limit else "TOO LITTLE"


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


def print_machine() -> dict:
    """Print what the figures depend on, and return it."""
    facts = machine()
    print(f"{facts['processor']}, {facts['cores']} cores, Python {facts['python']}")
    print(", ".join(f"{name} {version}" for name, version in facts["versions"].items()))
    return facts


def print_scale(scale: float) -> None:
    """Say that tables are smaller than their titles tell."""
    if scale != 1.0:
        print(f"rows scaled by {scale}: titles name the full size")


def base_parser(
    doc: str, cases: dict, *, repeats: int = 3, scaled: bool = True
) -> argparse.ArgumentParser:
    """Parser with the arguments that all comparisons have."""
    parser = argparse.ArgumentParser(
        description=doc.split("\n\n")[0],
        epilog="cases: " + "; ".join(f"{name} ({case.title})" for name, case in cases.items()),
    )
    parser.add_argument("--case", nargs="+", choices=cases, default=list(cases), metavar="CASE")
    parser.add_argument("--threads", nargs="+", type=positive(int), default=[1, 2])
    parser.add_argument("--repeats", type=positive(int), default=repeats)
    if scaled:
        rows = "fraction of the rows"
        parser.add_argument("--scale", type=positive(float), default=1.0, help=rows)
    parser.add_argument("--json", type=Path, help="also write every figure to this file")
    parser.add_argument("--cache", type=Path, help="keep the data here between runs")
    return parser


def write_json(path: Path | None, facts: dict, results: Iterable, **more) -> None:
    """Write every figure to a file, if one is wanted."""
    if path:
        content = {"machine": facts, **more, "results": results}
        path.write_text(json.dumps(content, indent=1) + "\n")
