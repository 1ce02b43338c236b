"""Sparse tables: one-hot columns, the same as categories, and cells stored at random."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from second_round_cases._fresh import fit_costs, in_new_process

N_ROWS = 200_000
N_GROUPS = 20
N_LEVELS = 100
N_COLUMNS = N_GROUPS * N_LEVELS
TEST_ROWS = 20_000

Result = tuple[float, float]
Side = dict[str, float]


def one_hot(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return codes (n_rows, N_GROUPS) of the levels, and two classes."""
    rng = np.random.default_rng(0)
    codes = rng.integers(N_LEVELS, size=(n_rows, N_GROUPS))
    effect = rng.normal(size=(N_GROUPS, N_LEVELS))
    total = effect[np.arange(N_GROUPS), codes].sum(axis=1)
    return codes, (total + rng.logistic(size=n_rows) > 0).astype(np.int64)


def table(kind: str, n_rows: int) -> tuple[Any, np.ndarray]:
    """Return a table of some kind, and its target."""
    codes, y = one_hot(n_rows)
    if kind == "categories":
        return codes.astype(np.float32), y
    if kind == "one-hot":
        codes = codes + N_LEVELS * np.arange(N_GROUPS)
        values = np.ones(codes.size, dtype=np.float32)
    else:
        rng = np.random.default_rng(1)
        codes = np.sort(rng.integers(N_COLUMNS, size=codes.shape), axis=1)
        values = rng.exponential(size=codes.size).astype(np.float32)
    start = np.arange(0, codes.size + 1, N_GROUPS)
    X = sparse.csr_matrix((values, codes.ravel(), start), shape=(n_rows, N_COLUMNS))
    X.sum_duplicates()
    if kind == "random":
        effect = np.random.default_rng(2).normal(size=N_COLUMNS)
        y = (X @ effect + np.random.default_rng(3).logistic(size=n_rows) > 0).astype(np.int64)
    return X, y


def make(library: str, kind: str, threads: int, trees: int = 100) -> tuple[Any, dict[str, Any]]:
    """Return a model with equal work in each library, and further arguments of its fit."""
    columns = list(range(N_GROUPS)) if kind == "categories" else None
    if library == "lightgbm":
        import lightgbm

        model = lightgbm.LGBMClassifier(
            n_estimators=trees, num_leaves=31, learning_rate=0.1, reg_lambda=1.0, n_jobs=threads,
            min_child_samples=1, min_child_weight=1.0, verbose=-1,
        )  # fmt: skip
        return model, {"categorical_feature": columns} if columns else {}
    import hybridtrees

    types = ["c"] * N_GROUPS if columns else None
    return hybridtrees.XGBClassifier(
        n_estimators=trees, max_leaves=31, max_depth=0, grow_policy="lossguide", tree_method="hist",
        learning_rate=0.1, reg_lambda=1.0, min_child_weight=1.0, n_jobs=threads,
        feature_types=types,
    ), {}  # fmt: skip


def measure(library: str, kind: str, threads: int, scale: float = 1.0) -> Side:
    """Costs of a fit, and the log loss of rows that were held out."""
    X, y = table(kind, int(scale * (N_ROWS + TEST_ROWS)))
    n = int(scale * N_ROWS)
    model, more = make(library, kind, threads, 2)
    model.fit(X[:500], y[:500], **more)  # lazy imports and threads are not part of a fit
    model, more = make(library, kind, threads)
    found = fit_costs(model, X[:n], y[:n], **more)
    right = model.predict_proba(X[n:])[np.arange(X.shape[0] - n), y[n:]]
    return found | {"score": float(-np.log(np.clip(right, 1e-15, 1)).mean())}


def side(library: str, kind: str, cost: str, threads: int) -> Result:
    """Cost and log loss of one library in a new process."""
    found = in_new_process(measure, library, kind, threads)
    return found[cost], found["score"]


def case(name: str, kind: str, cost: str, goal: float, limit: float) -> dict[str, Any]:
    """Return a case against LightGBM."""
    return {
        "name": name,
        "goal": goal,
        "limit": limit,
        "ours": partial(side, "hybridtrees", kind, cost),
        "peer": partial(side, "lightgbm", kind, cost),
        "unit": "fit s" if cost == "seconds" else "fit MB",
        "threads": (2,),
    }


CASES = [
    case("sparse one-hot, time", "one-hot", "seconds", 0.7, 1.5),
    case("sparse one-hot, memory", "one-hot", "memory", 1.0, 3.0),
    case("one-hot as categories, time", "categories", "seconds", 0.5, 1.0),
    case("sparse random, time", "random", "seconds", 1.0, 1.5),
    case("sparse random, memory", "random", "memory", 1.0, 3.0),
]
