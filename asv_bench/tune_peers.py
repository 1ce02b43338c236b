"""`tune` against random search and scikit-learn's halving, on the same models and values.

All search the default values of XGB for the same seeds and score by the same number of folds. The
random search fits its settings with early stopping on the held-out rows of each fold, and goes on
until it has had the CPU time that `tune` took. `HalvingRandomSearchCV` halves on `n_estimators` and
fits anew on each rung. The error is that of the best model of each on test rows, after its fit to
all training rows. Run as::

    python tune_peers.py
    python tune_peers.py --seeds 3 --rows 5000
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import hybridtrees as ht
from hybridtrees.datasets import make_house_prices
from hybridtrees.selection.spaces import DEFAULT_SPACES

FOLDS, TRIALS, ROUNDS = 3, 30, 1000
SPACE = DEFAULT_SPACES["XGB"]
Table = tuple[np.ndarray, np.ndarray]


def tables(n: int, seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Generated tables of 3 n rows: numbers and two classes, with more or less noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(3 * n, 10))
    mean = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    mean += 10 * X[:, 3] + 5 * X[:, 4]
    noise = rng.standard_normal(3 * n)
    yield "Friedman 1", X, mean + noise
    yield "noisy", X, mean + 8 * noise
    yield "two classes", X, (mean + 3 * noise > 14).astype(int)
    houses = make_house_prices(3 * n, random_state=seed)
    numbers = [v for v in houses.data.values() if v.dtype.kind in "if"]
    yield "house prices", np.column_stack(numbers), houses.target


def error_of(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """RMSE or log-loss."""
    if y.dtype.kind != "i":
        return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
    proba = np.asarray(model.predict_proba(X), dtype=float)
    return float(-np.mean(np.log(np.clip(proba[np.arange(len(y)), y], 1e-15, 1))))


def by_tune(model: Any, X: np.ndarray, y: np.ndarray, seed: int, budget: float) -> Any:
    """Return what `tune` finds."""
    return ht.tune(
        model, X, y, n_trials=TRIALS, cv=FOLDS, max_resource=ROUNDS, random_state=seed, n_jobs=1
    ).best_estimator_


def by_random_search(model: Any, X: np.ndarray, y: np.ndarray, seed: int, budget: float) -> Any:
    """Return the best of settings drawn at random, in no more CPU time than the budget."""
    rng = np.random.default_rng(seed)
    part = np.random.default_rng(seed).permutation(len(y)) % FOLDS
    best, lowest, start = None, np.inf, time.process_time()
    while best is None or time.process_time() - start < budget:
        setting = {name: values[rng.integers(len(values))] for name, values in SPACE.items()}
        errors, rounds = [], []
        for k in range(FOLDS):
            own = ht._parameters.clone(model).set_params(
                **setting, n_estimators=ROUNDS, early_stopping_rounds=50
            )
            held = part == k
            own.fit(X[~held], y[~held], X_val=X[held], y_val=y[held])
            errors.append(own.best_score)
            rounds.append(own.best_iteration + 1)
        if np.mean(errors) < lowest:
            lowest = float(np.mean(errors))
            best = {**setting, "n_estimators": round(float(np.mean(rounds)))}
    return ht._parameters.clone(model).set_params(**best).fit(X, y)


def by_halving(model: Any, X: np.ndarray, y: np.ndarray, seed: int, budget: float) -> Any:
    """Return what scikit-learn's halving finds."""
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.model_selection import HalvingRandomSearchCV

    search = HalvingRandomSearchCV(
        model, SPACE, n_candidates=TRIALS, factor=3, resource="n_estimators",
        min_resources=ROUNDS // 27, max_resources=ROUNDS, cv=FOLDS, random_state=seed,
        scoring="neg_log_loss" if y.dtype.kind == "i" else "neg_root_mean_squared_error",
    )  # fmt: skip
    return search.fit(X, y).best_estimator_


def by_lightgbm(model: Any, X: np.ndarray, y: np.ndarray, seed: int, budget: float) -> Any:
    """Return what scikit-learn's halving finds around LightGBM."""
    import lightgbm

    kind = lightgbm.LGBMClassifier if y.dtype.kind == "i" else lightgbm.LGBMRegressor
    global SPACE
    kept, SPACE = SPACE, {
        "learning_rate": SPACE["learning_rate"], "num_leaves": [4, 8, 16, 31, 63],
        "min_child_samples": [5, 10, 20, 50, 100], "subsample": SPACE["subsample"],
        "subsample_freq": [1], "colsample_bytree": SPACE["colsample_bytree"],
        "reg_lambda": SPACE["reg_lambda"],
    }  # fmt: skip
    try:
        return by_halving(kind(n_jobs=1, random_state=0, verbose=-1), X, y, seed, budget)
    finally:
        SPACE = kept


WAYS: dict[str, Callable[..., Any]] = {
    "tune": by_tune,
    "random, equal time": by_random_search,
    "HalvingRandomSearchCV": by_halving,
    "the same, LightGBM": by_lightgbm,
}


def main() -> None:
    """Search and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=1500)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    ratios: dict[str, list[float]] = {name: [] for name in WAYS}
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for seed in range(given.seeds):
        for name, X, y in tables(given.rows, seed):
            n = given.rows
            kind = ht.XGBClassifier if y.dtype.kind == "i" else ht.XGBRegressor
            budget, found = 0.0, {}
            for way, search in WAYS.items():
                start = time.process_time()
                model = search(kind(n_jobs=1, random_state=0), X[:n], y[:n], seed, budget)
                seconds = time.process_time() - start
                budget = budget or seconds
                error = error_of(model, X[n:], y[n:])
                found[way] = error
                ratios[way].append(error / found["tune"])
                times[way].append(seconds / budget)
                print(f"{name:<14} seed {seed} {way:<24} {error:.4f} {seconds:7.1f} s", flush=True)
    print("error / tune's, geometric mean; CPU time / tune's")
    for way in WAYS:
        error, seconds = (np.exp(np.mean(np.log(v))) for v in (ratios[way], times[way]))
        print(f"{way:<24} {error:.4f} {seconds:6.2f}")


if __name__ == "__main__":
    main()
