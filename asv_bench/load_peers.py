"""Opening the file of a forest against `joblib.load` of scikit-learn's.

    python load_peers.py [--rows 100000] [--trees 100] [--repeats 5]

Full-depth regression on the same table with the same parameters. Files are in the cache of the
system; CPU seconds and wall time, the best of some repeats taken in turns. Ratios are ours divided
by scikit-learn's: of our files to its files of the same kind, and of our default, which is
compressed, to its default, which is not.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

import joblib
import numpy as np
from measuring import positive, print_machine, print_table
from sklearn.ensemble import RandomForestRegressor as PeerForest

import hybridtrees

N_FEATURES = 20


def make_table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of numbers, and a target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, N_FEATURES))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2] * (X[:, 3] > 0) + rng.normal(size=n_rows) / 5
    return X, y


def in_turns(repeats: int, jobs: dict) -> dict[str, tuple[float, float]]:
    """Return the least CPU and wall seconds of each job."""
    best = dict.fromkeys(jobs, (np.inf, np.inf))
    for _ in range(repeats):
        for name, job in jobs.items():
            wall, cpu = time.perf_counter(), time.process_time()
            model = job()
            spent = time.process_time() - cpu, time.perf_counter() - wall
            best[name] = min(best[name][0], spent[0]), min(best[name][1], spent[1])
            del model  # not while the next one is measured
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=positive(int), default=100_000)
    parser.add_argument("--trees", type=positive(int), default=100)
    parser.add_argument("--repeats", type=positive(int), default=5)
    arguments = parser.parse_args()
    print_machine()

    X, y = make_table(arguments.rows)
    common = {"n_estimators": arguments.trees, "random_state": 0, "n_jobs": 1}
    ours = hybridtrees.RandomForestRegressor(**common).fit(X, y)
    peer = PeerForest(**common).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        names = ("ours", "ours, stored", "peer", "peer, zlib")
        files = {name: Path(folder, name) for name in names}
        ours.save(files["ours"])
        ours.save(files["ours, stored"], compress=False)
        joblib.dump(peer, files["peer"])
        joblib.dump(peer, files["peer, zlib"], compress=1)
        jobs = {
            name: partial(hybridtrees.load if "ours" in name else joblib.load, path)
            for name, path in files.items()
        }
        for job in jobs.values():  # modules that are imported when first needed
            job().predict(X[:10])
        best = in_turns(arguments.repeats, jobs)
        rows = [["file", "MB", "cpu s", "wall s"]]
        for name, path in files.items():
            cpu, wall = best[name]
            rows.append([name, f"{path.stat().st_size / 1e6:.1f}", f"{cpu:.3f}", f"{wall:.3f}"])
        print_table(rows)
    for mine, other in (("ours", "peer"), ("ours, stored", "peer"), ("ours", "peer, zlib")):
        cpu, wall = (best[mine][k] / best[other][k] for k in (0, 1))
        print(f"{mine} / {other}: cpu {cpu:.3f}, wall {wall:.3f}")


if __name__ == "__main__":
    main()
