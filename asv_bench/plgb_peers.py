"""Piece-wise linear boosting beside LightGBM's linear trees: time, error, prediction, memory.

    python asv_bench/plgb_peers.py [work ...] [--quick] [--threads N]

works: wide, piecewise, extrapolation, rounds, casp. Every figure is printed with that of the peer
in the same run. Times are the best of two runs, in seconds: the processor's with one thread, which
other work on the machine disturbs least, and those of the clock with more.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import lightgbm
import numpy as np
from benchmarks.datasets import make_data
from benchmarks.piecewise_data import make_piecewise_linear, make_time_slopes

from hybridtrees import PLGBRegressor, XGBRegressor

SHAPE = {"learning_rate": 0.1, "max_leaves": 31}
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def rmse(prediction, y) -> float:
    return float(np.sqrt(np.mean((prediction - y) ** 2)))


def lightgbm_model(X, y, n_threads, *, linear=True, ridge=0.0, rounds=100, leaves=31, rate=0.1):
    """A LightGBM model with the same rounds, leaves and rate as ours."""
    params = {
        "objective": "regression", "num_leaves": leaves, "learning_rate": rate,
        "linear_tree": linear, "linear_lambda": ridge, "num_threads": n_threads, "verbose": -1,
    }  # fmt: skip
    data = lightgbm.Dataset(X, y, params={"linear_tree": linear, "verbose": -1})
    return lightgbm.train(params, data, rounds)


def timed(function, n_threads, repeats=2):
    """Return the best time and the last result."""
    clock = time.process_time if n_threads == 1 else time.perf_counter
    best = np.inf
    for _ in range(repeats):
        start = clock()
        result = function()
        best = min(best, clock() - start)
    return best, result


def race(name, X, y, X_test, y_test, n_threads) -> None:
    """Fit time, error, time to the peer's error, and prediction time."""
    theirs, peer = timed(lambda: lightgbm_model(X, y, n_threads), n_threads)
    ours, model = timed(lambda: PLGBRegressor(n_jobs=n_threads, **SHAPE).fit(X, y), n_threads)
    goal, error = rmse(peer.predict(X_test), y_test), rmse(model.predict(X_test), y_test)
    print(f"{name}: fit {ours:.2f} against {theirs:.2f}, ratio {ours / theirs:.2f}")
    print(f"{name}: error {error:.4f} against {goal:.4f}, ratio {error / goal:.2f}")
    rounds = next(
        (k for k in range(1, 101)
         if rmse(model.predict(X_test, iteration_range=(0, k)), y_test) <= goal), None,
    )  # fmt: skip
    if rounds is not None:
        short = PLGBRegressor(n_estimators=rounds, n_jobs=n_threads, **SHAPE)
        reach, _ = timed(lambda: short.fit(X, y), n_threads)
        print(f"{name}: its error after {rounds} rounds, {reach:.2f} s, ratio {reach / theirs:.2f}")
    theirs, _ = timed(lambda: peer.predict(X, num_threads=n_threads), n_threads)
    ours, _ = timed(lambda: model.predict(X), n_threads)
    print(f"{name}: predict {ours:.2f} against {theirs:.2f}, ratio {ours / theirs:.2f}")


def wide(quick, n_threads) -> None:
    """A million rows of 28 columns."""
    n = 100_000 if quick else 1_000_000
    data = make_data(n, 28, "regression")
    race("wide", data.X, data.y, data.X_test, data.y_test, n_threads)


def piecewise(quick, n_threads) -> None:
    """A truth that is linear in each of many cells."""
    n = 40_000 if quick else 200_000
    X, y = make_piecewise_linear(n + n // 2, 20, np.random.default_rng(0))
    race("piecewise", X[:n], y[:n], X[n:], y[n:], n_threads)


def extrapolation(quick, n_threads) -> None:
    """Slopes in time, tested beyond the training range."""
    X, y, late = make_time_slopes(20_000, 10, np.random.default_rng(0))
    early = ~late
    for ridge in (0.0, 1.0):
        peer = lightgbm_model(X[early], y[early], n_threads, ridge=ridge)
        print(
            f"extrapolation: LightGBM, ridge {ridge:g}: {rmse(peer.predict(X[late]), y[late]):.3f}"
        )
    peer = lightgbm_model(X[early], y[early], n_threads, linear=False)
    print(f"extrapolation: LightGBM, constant: {rmse(peer.predict(X[late]), y[late]):.3f}")
    for fit in ("half_additive", "full"):
        model = PLGBRegressor(leaf_fit=fit, n_jobs=n_threads, **SHAPE).fit(X[early], y[early])
        print(f"extrapolation: ours, {fit}: {rmse(model.predict(X[late]), y[late]):.3f}")


def rounds(quick, n_threads) -> None:
    """Rounds to the error that constant leaves have after 100."""
    n = 20_000 if quick else 100_000
    data = make_data(n, 28, "regression", n_test=n)
    X, y = np.concatenate([data.X, data.X_test]), np.concatenate([data.y, data.y_test])
    flat = XGBRegressor(max_depth=None, grow_policy="lossguide", n_jobs=n_threads, **SHAPE)
    goal = rmse(flat.fit(X[:n], y[:n]).predict(X[n:]), y[n:])
    model = PLGBRegressor(n_jobs=n_threads, **SHAPE).fit(X[:n], y[:n])
    errors = [rmse(model.predict(X[n:], iteration_range=(0, k)), y[n:]) for k in range(1, 101)]
    reached = np.flatnonzero(np.array(errors) <= goal)
    print(f"rounds: {reached[0] + 1 if len(reached) else 'more than 100'} for {goal:.4f}")


def casp(quick, n_threads) -> None:
    """Protein structures; settings chosen on a validation split."""
    import pandas

    table = pandas.read_parquet(DATA / "casp.parquet")
    X, y = table.drop(columns="RMSD").to_numpy(np.float64), table["RMSD"].to_numpy()
    order = np.random.default_rng(0).permutation(len(y))
    fit, check, test = np.split(order, [int(0.64 * len(y)), int(0.8 * len(y))])
    best = (np.inf, {})
    for leaves in (63, 255) if quick else (63, 127, 255, 400):
        for ridge in (1.0, 10.0):
            settings = {"max_leaves": leaves, "reg_lambda": ridge, "learning_rate": 0.1}
            model = PLGBRegressor(n_estimators=100 if quick else 500, n_jobs=n_threads, **settings)
            model.set_params(early_stopping_rounds=30)
            model.fit(X[fit], y[fit], X_val=X[check], y_val=y[check])
            settings["n_estimators"] = model.best_iteration + 1
            best = min(best, (model.best_score, settings), key=lambda pair: pair[0])
    both = np.concatenate([fit, check])
    model = PLGBRegressor(n_jobs=n_threads, **best[1]).fit(X[both], y[both])
    print(f"casp: {rmse(model.predict(X[test]), y[test]):.4f} with {best[1]}")


WORKS = {
    "wide": wide, "piecewise": piecewise, "extrapolation": extrapolation, "rounds": rounds,
    "casp": casp,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("works", nargs="*", default=list(WORKS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    for name in given.works:
        WORKS[name](given.quick, given.threads)


if __name__ == "__main__":
    main()
