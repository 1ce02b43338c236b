"""Boosted trees on tables larger than memory: here, and XGBoost's ExtMemQuantileDMatrix.

Both read the same Parquet files, in a process of its own each. Ours decodes nothing beyond
``--memory`` (a share of the decoded codes), XGBoost keeps its pages on disk. Printed are seconds to
build what is on disk, seconds and CPU seconds of the fit per tree, the peak of resident memory, and
the bytes read per tree in relation to the bytes on disk: for ours counted, for XGBoost those that
its passes need (two per level). With ``--cold`` the files are dropped from the page cache before
the fit. Run as::

    python out_of_core.py
    python out_of_core.py --rows 50000000 --policy lossguide --cold
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

PIECE = 500_000  # rows of a file


def write_files(folder: Path, n: int, p: int) -> None:
    """Write Parquet files of float32 columns, some of few values, and a target."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    for first in range(0, n, PIECE):
        X = rng.normal(size=(min(PIECE, n - first), p)).astype(np.float32)
        X[:, p // 2 :] = np.round(X[:, p // 2 :] * np.linspace(1, 20, p - p // 2))
        y = X[:, 0] * X[:, 1] + X[:, 2] + 0.05 * X[:, -1] + rng.normal(size=len(X))
        columns = {f"x{j}": X[:, j] for j in range(p)} | {"y": y.astype(np.float32)}
        parquet.write_table(pa.table(columns), folder / f"part{first:012}.parquet")


def drop_cached(folder: Path) -> None:
    """Drop the files of a folder from the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cpu_seconds() -> float:
    """CPU seconds of this process so far, of all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run_ours(given: argparse.Namespace, files: Path, disk: Path) -> dict[str, float]:
    """Build a store and fit to it."""
    import hybridtrees as ht
    from hybridtrees.store.fitting import decoded_bytes

    start = time.perf_counter()
    ht.bin_to_disk(f"{files}/*.parquet", disk / "store", target="y", n_jobs=given.threads).close()
    built = time.perf_counter()
    if given.cold:
        drop_cached(disk)
    limit = max(1, int(given.memory * decoded_bytes(given.rows, given.columns)))
    store = ht.BinnedStore(disk / "store", memory_limit=limit)
    model = ht.XGBRegressor(
        n_estimators=given.rounds,
        max_depth=given.depth,
        max_leaves=given.leaves,
        grow_policy=given.policy,
        subsample=given.subsample,
        n_jobs=given.threads,
        random_state=0,
    )
    start_fit, start_cpu = time.perf_counter(), cpu_seconds()
    target = store.y
    assert target is not None
    before = store.bytes_read
    model.fit(store)
    seconds, cpu = time.perf_counter() - start_fit, cpu_seconds() - start_cpu
    codes = store.nbytes - before
    return {
        "build": built - start,
        "tree": seconds / given.rounds,
        "cpu": cpu / given.rounds,
        "reads": (store.bytes_read - before) / codes / given.rounds,
        "disk": codes / 1e6,
    }


def run_xgboost(given: argparse.Namespace, files: Path, disk: Path) -> dict[str, float]:
    """Build an ExtMemQuantileDMatrix and fit to it."""
    import xgboost
    from pyarrow import parquet

    parts = sorted(files.glob("*.parquet"))

    class Parts(xgboost.DataIter):
        def __init__(self) -> None:
            self.at = 0
            super().__init__(cache_prefix=str(disk / "cache"), on_host=False)

        def next(self, input_data) -> bool:
            if self.at == len(parts):
                return False
            table = parquet.read_table(parts[self.at])
            X = np.column_stack([table[name].to_numpy() for name in table.column_names[:-1]])
            input_data(data=X, label=table["y"].to_numpy())
            self.at += 1
            return True

        def reset(self) -> None:
            self.at = 0

    start = time.perf_counter()
    matrix = xgboost.ExtMemQuantileDMatrix(Parts(), max_bin=256, nthread=given.threads)
    built = time.perf_counter()
    if given.cold:
        drop_cached(disk)
    params = {
        "max_depth": given.depth,
        "max_leaves": given.leaves,
        "grow_policy": given.policy,
        "subsample": given.subsample,
        "nthread": given.threads,
    }
    start_fit, start_cpu = time.perf_counter(), cpu_seconds()
    xgboost.train(params, matrix, given.rounds)
    seconds, cpu = time.perf_counter() - start_fit, cpu_seconds() - start_cpu
    size = sum(path.stat().st_size for path in disk.rglob("*") if path.is_file())
    return {
        "build": built - start,
        "tree": seconds / given.rounds,
        "cpu": cpu / given.rounds,
        "reads": 2.0 * given.depth if given.policy == "depthwise" else float("nan"),
        "disk": size / 1e6,
    }


RUNS = {"hybridtrees": run_ours, "xgboost": run_xgboost}


def main() -> None:
    """Write the files, run each library in a process of its own, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--leaves", type=int, default=0)
    parser.add_argument("--policy", choices=["depthwise", "lossguide"], default="depthwise")
    parser.add_argument("--subsample", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", type=float, default=0.25)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    parser.add_argument("--worker", choices=list(RUNS), help=argparse.SUPPRESS)
    parser.add_argument("--files", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        with tempfile.TemporaryDirectory(dir=given.folder) as disk:
            figures = RUNS[given.worker](given, given.files, Path(disk))
        figures["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(json.dumps(figures))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        write_files(Path(folder), given.rows, given.columns)
        print(f"{given.rows:,} x {given.columns}, depth {given.depth}, {given.policy}")
        print(
            "library       build s   s a tree   cpu s a tree   reads a tree   on disk MB   peak MB"
        )
        for name in RUNS:
            command = [sys.executable, *sys.argv, "--worker", name, "--files", folder]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            f = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{name:<12}{f['build']:>9.2f}{f['tree']:>11.3f}{f['cpu']:>15.3f}{f['reads']:>15.2f}"
                f"{f['disk']:>13.0f}{f['peak']:>10.0f}"
            )


if __name__ == "__main__":
    main()
