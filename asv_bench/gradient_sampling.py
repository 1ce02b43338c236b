"""Rows drawn by gradients against rows drawn alike: error for the CPU time, here and in xgboost.

Times are those of one thread. Errors are those on test rows: after all rounds, and after as many as
fit into the CPU time of our uniform sampling, where rounds take equal time. Run as::

    python gradient_sampling.py
    python gradient_sampling.py --shares 0.1 0.3 --rows 100000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xgboost

import hybridtrees as ht

ROUNDS = 300
SHARED: dict[str, Any] = {"learning_rate": 0.1, "max_depth": 6, "random_state": 0, "n_jobs": 1}
Table = tuple[str, np.ndarray, np.ndarray]


def tables(n_rows: int) -> Iterator[Table]:
    """Generated tables: even and heavy-tailed errors, two classes, a rare class, seven classes."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2 * n_rows, 10))
    mean = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    mean += 10 * X[:, 3] + 5 * X[:, 4]
    noise = rng.standard_normal(2 * n_rows)
    yield "Friedman 1", X, mean + noise
    yield "heavy tail", X, np.exp(mean / 5 + 0.3 * noise)
    yield "two classes", X, (mean + 2 * noise > 14).astype(int)
    yield "1 % positive", X, (mean + noise > np.quantile(mean + noise, 0.99)).astype(int)
    yield "seven classes", X, np.digitize(mean + 2 * noise, [6, 9, 12, 15, 18, 21])


def error_of(y: np.ndarray, predicted: np.ndarray) -> float:
    """RMSE, or log-loss of probabilities."""
    if predicted.ndim == 1:
        return float(np.sqrt(np.mean((y - predicted) ** 2)))
    return float(-np.mean(np.log(np.maximum(predicted[np.arange(len(y)), y], 1e-15))))


def fitted(library: Any, classify: bool, X: np.ndarray, y: np.ndarray, **own: Any) -> Any:
    """Return a model and the CPU seconds of its fit, the smaller of two."""
    kind = library.XGBClassifier if classify else library.XGBRegressor
    seconds = []
    for _ in range(2):
        model = kind(n_estimators=ROUNDS, **SHARED, **own)
        start = time.process_time()
        model.fit(X, y)
        seconds.append(time.process_time() - start)
    return model, min(seconds)


def curve(model: Any, X: np.ndarray, y: np.ndarray, classify: bool) -> Callable[[int], float]:
    """Return the test error as a function of the rounds."""
    predict = model.predict_proba if classify else model.predict
    return lambda rounds: error_of(y, predict(X, iteration_range=(0, rounds)))


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.2, 0.3])
    given = parser.parse_args()
    n = given.rows
    print("error after all rounds (CPU seconds), and error after equal CPU time:")
    print("that of our uniform sampling")
    for name, X, y in tables(n):
        classify = y.dtype.kind == "i"
        train, test = (X[:n], y[:n]), (X[n:], y[n:])
        model, seconds = fitted(ht, classify, *train)
        print(f"{name:<14} all rows {curve(model, *test, classify)(ROUNDS):.4f} ({seconds:.2f} s)")
        for share in given.shares:
            budget, cells = 0.0, []
            for method in ("uniform", "gradient_based"):
                for library in (ht, xgboost):
                    own = {"subsample": share, "sampling_method": method}
                    model, seconds = fitted(library, classify, *train, **own)
                    error = curve(model, *test, classify)
                    budget = budget or seconds
                    rounds = max(1, min(ROUNDS, round(ROUNDS * budget / seconds)))
                    who = f"{library.__name__[:3]} {method[:4]}"
                    cells.append(f"{who} {error(ROUNDS):.4f} ({seconds:.2f} s) {error(rounds):.4f}")
            print(f"{'':<14} {share:.1f}  " + "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
