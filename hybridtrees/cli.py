"""The ``hybridtrees`` command.

Exit codes: 0 when all went well, 1 when a run failed, 2 when the arguments make no sense.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib import metadata

from hybridtrees._version import __version__

RUN_TIME_PACKAGES = ("numpy", "scipy", "threadpoolctl")
OPTIONAL_PACKAGES = ("scikit-learn", "pandas", "polars", "pyarrow", "matplotlib")


def _seed(text: str) -> int:
    """Argument type of --seed."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be an integer, 0 or greater, got {text!r}")
    return value


def _jobs(text: str) -> int:
    """Argument type of --jobs."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value == 0:
        raise argparse.ArgumentTypeError(
            f"must be a number of threads, or -1 for every CPU, got {text!r}"
        )
    return value


def _data(text: str) -> str:
    """Argument type of --data."""
    # Imported here so that `hybridtrees info` and argument errors stay quick.
    from hybridtrees._compare import DATASETS

    if text not in DATASETS:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(DATASETS)}, got {text!r}")
    return text


def _run_compare(options: argparse.Namespace) -> None:
    """Print a table for each data set, each as soon as it is ready."""
    from hybridtrees._compare import DATASETS, compare, format_comparison

    start = time.perf_counter()
    # A data set named twice is fitted once.
    for name in dict.fromkeys(options.data or DATASETS):
        for comparison in compare([name], seed=options.seed, n_jobs=options.jobs):
            print(format_comparison(comparison), end="\n\n", flush=True)
    print(f"hybridtrees {__version__}, seed {options.seed}, {time.perf_counter() - start:.1f} s")


def _version(package: str) -> str:
    """Version of an installed package, found without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _run_info(options: argparse.Namespace) -> None:
    """Print versions and what the compiled part can do."""
    from hybridtrees._threads import effective_threads, usable_cpus
    from hybridtrees.core import _predict

    facts = {
        "hybridtrees": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "OpenMP": "yes" if _predict.has_openmp() else "no: built serial, n_jobs has no effect",
        "usable CPUs": str(usable_cpus()),
        "threads by default": str(effective_threads(None)),
        "vector width": f"{_predict.vector_bits()} bits",
    }
    facts |= {package: _version(package) for package in RUN_TIME_PACKAGES}
    facts |= {f"{package} (optional)": _version(package) for package in OPTIONAL_PACKAGES}
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line.

    Returns
    -------
    argparse.ArgumentParser
        Its namespace has `run`, the function of the chosen sub-command.
    """
    parser = argparse.ArgumentParser(
        prog="hybridtrees", description="Decision trees, forests and boosting."
    )
    parser.add_argument("--version", action="version", version=f"hybridtrees {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    compare = commands.add_parser(
        "compare",
        help="fit every model on small bundled data and print a table",
        description="Fit every model on small bundled data and print a table for each data set: "
        "70 % of the rows train, 15 % stop the boosting early, 15 % test.",
    )
    compare.add_argument("--seed", type=_seed, default=0, help="seed of everything (default 0)")
    compare.add_argument("--jobs", type=_jobs, help="threads (default: every usable CPU)")
    compare.add_argument(
        "--data",
        type=_data,
        action="append",
        metavar="NAME",
        help="breast_cancer, heart_failure or house_prices; may be repeated (default: all)",
    )
    compare.set_defaults(run=_run_compare)

    info = commands.add_parser(
        "info",
        help="print versions, threads and vector width",
        description="Print versions, threads and vector width.",
    )
    info.set_defaults(run=_run_info)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, default=None
        The arguments after the program's name; None takes those of the process.

    Returns
    -------
    int
        The exit code.
    """
    options = make_parser().parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, `head` for instance, has seen enough. Python flushes stdout once more at
        # exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("hybridtrees: interrupted", file=sys.stderr)
        return 1
    except Exception as error:
        print(f"hybridtrees: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0
