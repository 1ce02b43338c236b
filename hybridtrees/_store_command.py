"""The command ``hybridtrees store``: builds, describes and checks tables on disk."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np


def add_store(commands: Any) -> None:
    """Add the sub-command ``store``, which has commands of its own."""
    store = commands.add_parser(
        "store",
        help="build, describe and check tables on disk",
        description="Tables on disk, binned for fits by hybridtrees.BinnedStore.",
    )
    own = store.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_build(own)
    for name, run, what in (
        ("info", _run_info, "print rows, columns and sizes of a store"),
        ("verify", _run_verify, "read a whole store and check it"),
    ):
        parser = own.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        parser.add_argument("store", nargs="+", help="folder of the store; of all its parts")
        parser.set_defaults(run=run, check=lambda given: None)


def _add_build(commands: Any) -> None:
    """Add ``store build``."""
    build = commands.add_parser(
        "build",
        help="bin a table of any size and store it",
        description="Bin the rows of Parquet or CSV files, which need not fit into memory, and "
        "store them for any number of fits.",
    )
    build.add_argument("source", nargs="+", help="files, patterns or folders, all of one kind")
    build.add_argument(
        "-o",
        "--output",
        nargs="+",
        required=True,
        metavar="FOLDER",
        help="folder of the store; several for several disks",
    )
    build.add_argument("--target", metavar="COLUMN", help="column to predict")
    build.add_argument("--weight", metavar="COLUMN", help="column with the weights of the rows")
    build.add_argument(
        "--columns", nargs="+", metavar="COLUMN", help="features (default: all other columns)"
    )
    build.add_argument(
        "--categorical", nargs="+", metavar="COLUMN", help="columns of numbers that are categories"
    )
    build.add_argument(
        "--raw",
        nargs="*",
        metavar="COLUMN",
        help="features whose values are stored too, for linear leaves; without names, all",
    )
    build.add_argument(
        "--max-bins", type=int, default=255, metavar="N", help="most bins of a feature"
    )
    build.add_argument(
        "--compression",
        choices=("auto", "none", "bits", "zstd", "lz4"),
        default="auto",
        help="how codes are stored where that saves a quarter (default: auto)",
    )
    build.add_argument("--overwrite", action="store_true", help="replace a store that is there")
    build.add_argument("--jobs", type=int, metavar="N", help="threads (default: every usable CPU)")
    build.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="print lines about the progress (default: on a terminal)",
    )
    build.set_defaults(run=_run_build, check=lambda given: None)


def _run_build(options: argparse.Namespace) -> int:
    """Build a store, and describe it."""
    from hybridtrees.store.building import bin_to_disk

    progress = sys.stderr.isatty() if options.progress is None else options.progress
    with bin_to_disk(
        options.source,
        options.output,
        target=options.target,
        weight=options.weight,
        columns=options.columns,
        categorical_features=options.categorical,
        raw_features=True if options.raw == [] else options.raw,
        max_bins=options.max_bins,
        compression=None if options.compression == "none" else options.compression,
        n_jobs=options.jobs,
        overwrite=options.overwrite,
        progress=progress,
    ) as store:
        _describe(store)
    return 0


def _run_info(options: argparse.Namespace) -> int:
    """Print what is in a store."""
    from hybridtrees.store.reader import BinnedStore

    with BinnedStore(options.store) as store:
        _describe(store)
    return 0


def _run_verify(options: argparse.Namespace) -> int:
    """Read every chunk of a store."""
    from hybridtrees.store.reader import BinnedStore

    with BinnedStore(options.store) as store:
        store.verify()
        print(f"{store.n_rows:,} rows in {store.n_blocks:,} blocks: no damage found")
    return 0


def _describe(store: Any) -> None:
    schema = store.schema
    target = {"none": "none", "numbers": "numbers"}.get(schema.target)
    facts = {
        "rows": f"{store.n_rows:,}",
        "features": f"{store.n_features:,}, of which {_count(store.mapper.is_categorical_)} "
        "categorical",
        "bins": f"up to {schema.mapper.max_bins}",
        "target": target or f"{len(schema.classes):,} different values",
        "weights": "yes" if schema.weighted else "no",
        "values": f"of {len(schema.raw_features):,} features",
        "blocks": f"{store.n_blocks:,}",
        "bytes": f"{store.nbytes:,}, {store.nbytes / store.n_rows:.1f} a row",
    }
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")


def _count(mask: np.ndarray) -> int:
    return int(np.count_nonzero(mask))
