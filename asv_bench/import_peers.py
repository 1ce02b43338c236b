"""Models taken over from other libraries against their owners: prediction, and opening a file.

    python import_peers.py [--rows 1000000] [--trees 100] [--repeats 3]

One thread, CPU seconds, the best of some repeats taken in turns, the same rows for both. The last
column is our time divided by the owner's.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np

import hybridtrees

N_FEATURES = 20


def make_table(n_rows: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with some missing values, and a target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, N_FEATURES)).astype(dtype)
    y = np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2] * (X[:, 3] > 0) + rng.normal(size=n_rows) / 5
    X[rng.random(X.shape) < 0.02] = np.nan
    return X, y


def in_turns(repeats: int, *jobs) -> list[float]:
    """Return the least CPU seconds of each job."""
    best = [np.inf] * len(jobs)
    for _ in range(repeats):
        for k, job in enumerate(jobs):
            start = time.process_time()
            job()
            best[k] = min(best[k], time.process_time() - start)
    return best


def report(what: str, ours: float, owner: float) -> None:
    """Print one line."""
    print(f"{what:44} {ours:8.3f} {owner:8.3f} {ours / owner:7.3f}", flush=True)


def compare_xgboost(arguments) -> None:
    """Trees of depth 6 on float32 rows."""
    import xgboost as xgb

    X, y = make_table(20_000, np.float32)
    rows, _ = make_table(arguments.rows, np.float32)
    common = {"max_depth": 6, "nthread": 1, "eta": 0.1}
    booster = xgb.train(common, xgb.DMatrix(X, y), arguments.trees)
    model = hybridtrees.from_xgboost(booster)
    model.set_params(n_jobs=1)
    error = np.abs(model.predict(rows[:1000]) - booster.inplace_predict(rows[:1000])).max()
    assert error < 1e-5, error
    label = f"xgboost {xgb.__version__}, {arguments.trees} trees"
    ours, owner = in_turns(
        arguments.repeats, lambda: model.predict(rows), lambda: booster.inplace_predict(rows)
    )
    report(f"{label}: {arguments.rows} rows", ours, owner)
    large = xgb.train(common, xgb.DMatrix(X, y), 1000)
    for kind in ("json", "ubj"):
        content = large.save_raw(kind)
        ours, owner = in_turns(
            arguments.repeats,
            lambda content=content: hybridtrees.from_xgboost(bytes(content)),
            lambda content=content: xgb.Booster({"nthread": 1}, model_file=content),
        )
        report(f"opening 1000 trees, {kind}, {len(content) >> 10} KiB", ours, owner)


def compare_lightgbm(arguments) -> None:
    """Trees of 31 leaves on float64 rows, with constants and lines in the leaves."""
    import lightgbm as lgb

    X, y = make_table(20_000, np.float64)
    rows, _ = make_table(arguments.rows, np.float64)
    for linear in (False, True):
        common = {"verbose": -1, "num_threads": 1, "linear_tree": linear}
        booster = lgb.train(common, lgb.Dataset(X, y), arguments.trees)
        model = hybridtrees.from_lightgbm(booster)
        model.set_params(n_jobs=1)
        error = np.abs(model.predict(rows[:1000]) - booster.predict(rows[:1000])).max()
        assert error < 1e-9, error
        ours, owner = in_turns(
            arguments.repeats,
            lambda model=model: model.predict(rows),
            lambda booster=booster: booster.predict(rows, num_threads=1),
        )
        label = f"lightgbm {lgb.__version__}, {'linear ' if linear else ''}trees"
        report(f"{label}: {arguments.rows} rows", ours, owner)
    text = lgb.train({"verbose": -1, "num_threads": 1}, lgb.Dataset(X, y), 1000).model_to_string()
    ours, owner = in_turns(
        arguments.repeats,
        lambda: hybridtrees.from_lightgbm(text.encode()),
        lambda: lgb.Booster(model_str=text),
    )
    report(f"opening 1000 trees, text, {len(text) >> 10} KiB", ours, owner)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    print(f"{'CPU seconds':44} {'ours':>8} {'owner':>8} {'ratio':>7}")
    compare_xgboost(given)
    compare_lightgbm(given)
