"""The ``hybridtrees`` command.

Exit codes: 0 on success, 1 if a run failed, 2 for invalid arguments.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, TextIO

from hybridtrees._outputs import STREAM, check_writable, discard, report_error, write_text
from hybridtrees._predict_command import add_decimal, add_predict, check_files
from hybridtrees._store_command import add_store
from hybridtrees._version import __version__

if TYPE_CHECKING:
    from hybridtrees._compare import Comparison
    from hybridtrees._compare.data import Data
    from hybridtrees._compare.helpers import Helpers

RUN_TIME_PACKAGES = ("numpy", "scipy", "threadpoolctl")
OPTIONAL_PACKAGES = ("scikit-learn", "pandas", "polars", "pyarrow", "matplotlib")

# The comparison is imported where it is used: `hybridtrees info` and wrong arguments need not wait.


def _number(
    kind: type, is_allowed: Callable[[Any], bool], allowed: str
) -> Callable[[str], int | float]:
    """Return an argument type for numbers."""

    def read(text: str) -> int | float:
        try:
            value: int | float | None = kind(text)
        except ValueError:
            value = None
        if value is None or not is_allowed(value):
            raise argparse.ArgumentTypeError(f"must be {allowed}, got {text!r}")
        return value

    return read


_seed = _number(int, lambda value: value >= 0, "an integer, 0 or greater")
_jobs = _number(int, lambda value: value != 0, "a number of threads, or -1 for every CPU")
_folds = _number(int, lambda value: value >= 2, "a number of folds, 2 or more")
_rows = _number(int, lambda value: value >= 10, "a number of rows, 10 or more")
_positive = _number(float, lambda value: 0 < value < float("inf"), "a positive number")


def _one_of(options: Callable[[], Sequence[str]]) -> Callable[[str], str]:
    """Return an argument type for one of several names, which are imported on demand."""

    def check(text: str) -> str:
        if text not in options():
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(options())}, got {text!r}")
        return text

    return check


def _datasets() -> list[str]:
    from hybridtrees._compare.files import DATASETS

    return list(DATASETS)


def _models() -> list[str]:
    from hybridtrees._compare.families import choose_families

    return [family.key for family in choose_families(None)]


def _scores() -> list[str]:
    from hybridtrees._compare.scores import SCORES

    return list(SCORES)


def _load(options: argparse.Namespace, name: str) -> Data:
    """Return the bundled data set of a name, or the file of the command line."""
    from hybridtrees._compare.files import load_bundled, load_file

    if options.file is None:
        return load_bundled(name, options.seed)
    names = ("task", "time", "drop", "decimal", "rows", "seed")
    how = {name: getattr(options, name) for name in names}
    return load_file(options.file, options.target, **how)


def _compare_one(options: argparse.Namespace, data: Data, helpers: Helpers) -> Comparison:
    """Run the comparison on one data set."""
    from hybridtrees._compare.families import choose_families
    from hybridtrees._compare.progress import Progress
    from hybridtrees._compare.run import compare_data
    from hybridtrees._compare.scores import choose_score
    from hybridtrees._compare.search import Limits

    score = options.score
    if options.file is None and score is not None:
        from hybridtrees._compare.scores import scores_of

        # Data sets of the other task have their default score.
        score = score if score in scores_of(data.task) else None
    choose_score(score, data.task)
    limits = Limits(
        search=options.search,
        budget=options.budget,
        overfit=options.overfit_limit,
        n_jobs=options.jobs,
        seed=options.seed,
    )
    return compare_data(
        data,
        choose_families(options.models),
        score,
        limits,
        folds=options.folds,
        progress=Progress.for_people(options.progress, data.name),
        helpers=helpers,
    )


@dataclass
class _Delivery:
    """Prints the results of comparisons and writes their files.

    If one file fails, this is reported, and the others are still written.
    """

    # Paths of the best model, of all results and of the report. If `json` is ``-``, the standard
    # output is for JSON only, and text goes to the error stream
    save: str | None
    json: str | None
    html: str | None
    seed: int
    file: str | None = None  # what was compared on
    complete: bool = True  # Whether there was no error so far

    def say(self, text: str) -> None:
        """Print text for the user."""
        self._print(text, sys.stderr if self.json == STREAM else sys.stdout)

    def write(self, comparisons: Sequence[Comparison], helpers: Helpers) -> None:
        """Write all files, the model first, since it takes longest to compute again."""
        for option, path, write in (
            ("--save", self.save, self._write_model),
            ("--json", self.json, self._write_json),
            ("--html", self.html, self._write_html),
        ):
            if path is None:
                continue
            try:
                write(path, comparisons, helpers)
            except Exception as error:
                self._report(f"{option} {path}", error)

    def _write_model(self, path: str, comparisons: Sequence[Comparison], helpers: Any) -> None:
        best = comparisons[0].best_
        if comparisons[0].data.is_drawn:
            from hybridtrees._compare.large import fit_on_all_rows

            best, line = fit_on_all_rows(comparisons[0], str(self.file))
            self.say(line)
        best.save(path)
        self.say(f"best model, {type(best).__name__}: {path}")

    def _write_json(self, path: str, comparisons: Sequence[Comparison], helpers: Any) -> None:
        content = {
            "hybridtrees": __version__,
            "seed": self.seed,
            "comparisons": [comparison.to_dict() for comparison in comparisons],
        }
        text = json.dumps(content, indent=1)
        if path == STREAM:
            self._print(text, sys.stdout)
        else:
            write_text(path, text + "\n")
            self.say(f"results: {path}")

    def _write_html(self, path: str, comparisons: Sequence[Comparison], helpers: Helpers) -> None:
        from hybridtrees._compare.report import write_report

        write_report(comparisons, path, helpers)
        self.say(f"report: {path}")

    def _print(self, text: str, stream: TextIO) -> None:
        try:
            print(text, flush=True, file=stream)
        except OSError as error:
            if self.save is self.json is self.html is None:
                raise
            discard(stream)
            # A closed pipe is no error: `head`, for instance, has read enough.
            if not isinstance(error, BrokenPipeError):
                self._report("printing", error)

    def _report(self, where: str, error: Exception) -> None:
        self.complete = False
        report_error(error, where)


def _run_compare(options: argparse.Namespace) -> int:
    """Print a table for each data set as soon as it is ready, then write the files."""
    from hybridtrees._compare.helpers import Helpers
    from hybridtrees.core.base.threads import effective_threads

    for path in (options.save, options.json, options.html):
        if path not in (None, STREAM):
            check_writable(path, regular=path == options.save)
    start = time.perf_counter()
    outputs = options.save, options.json, options.html
    delivery = _Delivery(*outputs, options.seed, options.file)
    # A data set named twice is fitted once.
    names = [""] if options.file else list(dict.fromkeys(options.data or _datasets()))
    comparisons = []
    with Helpers(effective_threads(options.jobs)) as helpers:
        for name in names:
            comparison = _compare_one(options, _load(options, name), helpers)
            delivery.say(f"{comparison}\n")
            comparisons.append(comparison)
        delivery.write(comparisons, helpers)
    seconds = time.perf_counter() - start
    delivery.say(f"hybridtrees {__version__}, seed {options.seed}, {seconds:.1f} s")
    return 0 if delivery.complete else 1


def _version(package: str) -> str:
    """Return the version of a package without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _run_info(options: argparse.Namespace) -> int:
    """Print versions and properties of the compiled modules."""
    from hybridtrees.core.base import _threads
    from hybridtrees.core.base.threads import effective_threads, usable_cpus

    facts = {
        "hybridtrees": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "OpenMP": "yes" if _threads.has_openmp() else "no: built serial, n_jobs has no effect",
        "usable CPUs": str(usable_cpus()),
        "threads by default": str(effective_threads(None)),
        "vector width": f"{_threads.vector_bits()} bits",
    }
    facts |= {package: _version(package) for package in RUN_TIME_PACKAGES}
    facts |= {f"{package} (optional)": _version(package) for package in OPTIONAL_PACKAGES}
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line.

    Its namespace has `run`, the function of the sub-command, which returns the exit code, and
    `check`, which refuses inconsistent arguments.
    """
    parser = argparse.ArgumentParser(
        prog="hybridtrees", description="Decision trees, forests, boosting and their hybrids."
    )
    parser.add_argument("--version", action="version", version=f"hybridtrees {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_compare(commands)
    add_predict(commands)
    add_store(commands)
    info = commands.add_parser(
        "info",
        help="print versions, threads and vector width",
        description="Print versions, threads and vector width.",
    )
    info.set_defaults(run=_run_info, check=lambda given: None)
    return parser


def _add_compare(commands: Any) -> None:
    """Add the sub-command ``compare``."""
    parser = commands.add_parser(
        "compare",
        help="fit every model on one data set and rank them",
        description="Fit every model on a data set and rank them: 70 % of the rows train, 15 % "
        "choose the settings, folds of both rank the models, and 15 % test them. Without a file, "
        "on small bundled data.",
    )
    parser.add_argument(
        "file",
        nargs="?",
        help="CSV or Parquet file, a folder or pattern of Parquet files, - for the standard "
        "input; bundled data by default",
    )
    parser.add_argument("--target", metavar="COLUMN", help="column to predict")
    parser.add_argument(
        "--task",
        choices=("auto", "regression", "classification"),
        default="auto",
        help="what the target is (default: text, and few whole numbers, are classes)",
    )
    parser.add_argument("--time", metavar="COLUMN", help="split in the order of this column")
    parser.add_argument(
        "--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out"
    )
    add_decimal(parser)
    parser.add_argument(
        "--rows",
        type=_rows,
        metavar="N",
        help="rows of Parquet files to draw and compare on (default: as many as memory allows); "
        "--save fits the best model to all rows",
    )
    parser.add_argument(
        "--data",
        type=_one_of(_datasets),
        action="append",
        metavar="NAME",
        help="bundled data: breast_cancer, heart_failure, house_prices or seasonal_series; may "
        "be repeated (default: all)",
    )
    parser.add_argument(
        "--models",
        nargs="+",
        type=_one_of(_models),
        metavar="MODEL",
        help="linear, cart, forest, adaboost, gb, xgb, linear_tree, linear_forest, rerf, eblr, "
        "plgb, baseline, ensemble (default: all)",
    )
    parser.add_argument(
        "--score",
        type=_one_of(_scores),
        metavar="SCORE",
        help="rmse, mae, r2, mape; auc, logloss, accuracy, f1, brier (default: rmse or auc)",
    )
    parser.add_argument(
        "--search",
        choices=("halving", "grid"),
        default="halving",
        help="try settings on few rows first, or all on all rows (default: halving)",
    )
    parser.add_argument(
        "--budget", type=_positive, metavar="SECONDS", help="try no settings after this time"
    )
    parser.add_argument(
        "--folds",
        type=_folds,
        metavar="K",
        help="validate by k folds instead of one split, and rank by as many",
    )
    parser.add_argument(
        "--overfit-limit",
        type=_positive,
        metavar="SHARE",
        help="set aside settings whose validation score is worse than that of training by more "
        "than this share (default: 0.1 for scores such as the AUC, 1 for errors)",
    )
    parser.add_argument("--html", metavar="FILE", help="write a report of one page")
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write all results; - prints them, and the table on the error stream",
    )
    parser.add_argument("--save", metavar="FILE", help="save the best model")
    parser.add_argument("--seed", type=_seed, default=0, help="seed of everything (default 0)")
    parser.add_argument("--jobs", type=_jobs, help="threads (default: every usable CPU)")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="draw a progress bar (default: on a terminal)",
    )
    parser.set_defaults(run=_run_compare, check=lambda given: _check_compare(parser, given))


def _check_compare(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse inconsistent arguments."""
    if options.file is None:
        for name in ("target", "time", "drop", "decimal", "rows"):
            if getattr(options, name):
                parser.error(f"--{name} needs a file, named before the options")
    elif options.target is None:
        parser.error("a file needs --target, the column to predict")
    elif options.data:
        parser.error("--data names bundled data and does not go with a file")
    if options.save is not None:
        if options.file is None and len(set(options.data or _datasets())) > 1:
            parser.error("--save needs one data set: a file, or one --data")
        if set(options.models or ()) == {"baseline"}:
            parser.error("--save needs a model besides the baseline")
    outputs = {"--save": options.save, "--json": options.json, "--html": options.html}
    for name in ("--save", "--html"):
        if outputs[name] == STREAM:
            parser.error(f"{name} needs a file; only --json can be -, the standard output")
    if options.json != STREAM:
        outputs["the standard output"] = STREAM
    check_files(parser, {"the data file": options.file}, outputs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    options = make_parser().parse_args(arguments)
    options.check(options)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)  # the reader, `head` for instance, has read enough
        return 0
    except KeyboardInterrupt:
        print("hybridtrees: interrupted", file=sys.stderr)
        return 1
    except Exception as error:
        report_error(error)
        return 1
    return code
