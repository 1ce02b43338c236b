"""Piece-wise linear boosting beside LightGBM's linear trees: time, error, prediction, memory.

    python asv_bench/plgb_peers.py [work ...] [--quick] [--threads N]

works: wide, piecewise, leaves, memory, extrapolation, rounds, casp. Every figure is printed with
that of the peer in the same run. Times are the best of several runs, in seconds: the processor's
with one thread, which other work on the machine disturbs least, and those of the clock with more.
The time to the peer's error is that of a fit of as many rounds as it takes to reach it, from the
table to the model. Memory is what a fit takes on top of the table, in a process of its own (Linux
only).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import lightgbm
import numpy as np
from benchmarks.datasets import make_data
from benchmarks.piecewise_data import make_piecewise_linear, make_time_slopes, make_trend_changes

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


def our_model(n_threads, rounds=100) -> PLGBRegressor:
    return PLGBRegressor(n_estimators=rounds, n_jobs=n_threads, random_state=0, **SHAPE)


def rounds_to(model, X, y, goal) -> int:
    """Rounds after which the error is no larger than `goal`; it falls from round to round."""
    low, high = 0, model.n_iter_
    while high - low > 1:
        middle = (low + high) // 2
        if rmse(model.predict(X, iteration_range=(0, middle)), y) <= goal:
            high = middle
        else:
            low = middle
    return high


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
    ours, model = timed(lambda: our_model(n_threads).fit(X, y), n_threads)
    goal, error = rmse(peer.predict(X_test), y_test), rmse(model.predict(X_test), y_test)
    print(f"{name}: fit {ours:.2f} against {theirs:.2f}, ratio {ours / theirs:.2f}")
    print(f"{name}: error {error:.4f} against {goal:.4f}, ratio {error / goal:.2f}")
    if error <= goal:
        rounds = rounds_to(model, X_test, y_test, goal)
        reach, _ = timed(lambda: our_model(n_threads, rounds).fit(X, y), n_threads)
        print(f"{name}: its error after {rounds} rounds, {reach:.2f} s, ratio {reach / theirs:.2f}")
    theirs, _ = timed(lambda: peer.predict(X, num_threads=n_threads), n_threads)
    ours, _ = timed(lambda: model.predict(X), n_threads)
    print(f"{name}: predict {ours:.2f} against {theirs:.2f}, ratio {ours / theirs:.2f}")


def wide_data(quick):
    """A million rows of 28 columns, and test rows."""
    data = make_data(100_000 if quick else 1_000_000, 28, "regression")
    return data.X, data.y, data.X_test, data.y_test


def piecewise_data(quick):
    """A truth that is linear in each of many cells."""
    n = 40_000 if quick else 200_000
    X, y = make_piecewise_linear(n + n // 2, 20, np.random.default_rng(0))
    return X[:n], y[:n], X[n:], y[n:]


TABLES = {"wide": wide_data, "piecewise": piecewise_data}


def wide(quick, n_threads) -> None:
    """Speed and error on many rows."""
    race("wide", *wide_data(quick), n_threads)


def piecewise(quick, n_threads) -> None:
    """Speed and error where the truth is piece-wise linear."""
    race("piecewise", *piecewise_data(quick), n_threads)


def memory(quick, n_threads) -> None:
    """Peak memory of fits."""
    for table in TABLES:
        peaks = []
        for library in ("ours", "lightgbm"):
            options = ["--peak", library, table, "--threads", str(n_threads)]
            options += ["--quick"] if quick else []
            done = subprocess.run(
                [sys.executable, __file__, *options], capture_output=True, text=True, check=True
            )
            peaks.append(float(done.stdout))
        ours, theirs = peaks
        print(f"memory: {table}: {ours:.0f} MB against {theirs:.0f}, ratio {ours / theirs:.2f}")


def print_peak(library, table, quick, n_threads) -> None:
    """Print the megabytes that a fit needs at its peak, beside the table."""
    X, y, _, _ = TABLES[table](quick)
    X, y = X.copy(), y.copy()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = peak_megabytes()
    if library == "ours":
        our_model(n_threads).fit(X, y)
    else:
        lightgbm_model(X, y, n_threads)
    print(peak_megabytes() - before)


def peak_megabytes() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def extrapolation(quick, n_threads) -> None:
    """Slopes in time, tested beyond the training range."""
    for make in (make_trend_changes, make_time_slopes):
        X, y, late = make(20_000, 10, np.random.default_rng(0))
        early, name = ~late, make.__name__.removeprefix("make_")
        predicted = {}
        for ridge in (0.0, 1.0):
            peer = lightgbm_model(X[early], y[early], n_threads, ridge=ridge)
            predicted[f"LightGBM, ridge {ridge:g}"] = peer.predict(X[late])
        peer = lightgbm_model(X[early], y[early], n_threads, linear=False)
        predicted["LightGBM, constant"] = peer.predict(X[late])
        for fit in ("half_additive", "full"):
            model = our_model(n_threads).set_params(leaf_fit=fit).fit(X[early], y[early])
            predicted[f"ours, {fit}"] = model.predict(X[late])
        for label, values in predicted.items():
            print(f"extrapolation: {name}: {label}: {rmse(values, y[late]):.3f}")


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


def leaves(quick, n_threads) -> None:
    """Prediction with lines in the leaves beside prediction with constants."""
    n = 10_000 if quick else 100_000
    data = make_data(n, 28, "regression", n_test=10 * n)
    for size in (31, 127, 255):
        models = {}
        for name, settings in {
            "constant": {"max_leaf_features": 0},
            "clipped": {},
            "lines": {"extrapolation": "linear"},
        }.items():
            model = our_model(n_threads).set_params(max_leaves=size, **settings)
            models[name] = model.fit(data.X, data.y)
        times = dict.fromkeys(models, np.inf)
        for _ in range(12):  # in turn: a machine that is shared has slow times and quick ones
            for name, model in models.items():
                once, _ = timed(lambda model=model: model.predict(data.X_test), n_threads, 1)
                times[name] = min(times[name], once)
        base = times.pop("constant")
        shown = ", ".join(f"{k} {t:.3f} ratio {t / base:.2f}" for k, t in times.items())
        print(f"leaves: {size} a tree: constant {base:.3f}, {shown}", flush=True)


WORKS = {
    "wide": wide, "piecewise": piecewise, "leaves": leaves, "memory": memory,
    "extrapolation": extrapolation, "rounds": rounds, "casp": casp,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("works", nargs="*", default=list(WORKS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peak", choices=("ours", "lightgbm"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        print_peak(given.peak, given.works[0], given.quick, given.threads)
        return
    for name in given.works:
        WORKS[name](given.quick, given.threads)


if __name__ == "__main__":
    main()
