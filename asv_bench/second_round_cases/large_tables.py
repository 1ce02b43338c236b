"""Large dense tables: PLGB on linear pieces, seven classes, and a million rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from benchmarks.datasets import make_data, score
from benchmarks.piecewise_data import make_piecewise_linear

from second_round_cases._tables import TEST_ROWS, cost, pieces

Result = tuple[float, float]
SHAPE = {"n_estimators": 100, "learning_rate": 0.1, "reg_lambda": 1.0}


def boosting(library: str, task: str, threads: int) -> Any:
    """Return a model of 100 rounds with 31 leaves."""
    kind = "Regressor" if task == "regression" else "Classifier"
    if library == "lightgbm":
        import lightgbm

        return getattr(lightgbm, f"LGBM{kind}")(
            **SHAPE, num_leaves=31, min_child_samples=1, min_child_weight=1.0, max_bin=255,
            n_jobs=threads, verbose=-1,
        )  # fmt: skip
    import hybridtrees

    return getattr(hybridtrees, f"XGB{kind}")(
        **SHAPE, max_leaves=31, max_depth=0, grow_policy="lossguide", min_child_weight=1.0,
        max_bin=255, n_jobs=threads,
    )  # fmt: skip


def lines(library: str, figure: str, threads: int) -> Result:
    """Fit trees of 31 leaves with lines; the figure is the time, or the error."""
    n_rows = 200_000
    X, y = make_piecewise_linear(n_rows + TEST_ROWS, 20, np.random.default_rng(0))
    model: Any
    if library == "lightgbm":
        import lightgbm

        model = lightgbm.LGBMRegressor(linear_tree=True, n_jobs=threads, verbose=-1)
    else:
        import hybridtrees

        model = hybridtrees.PLGBRegressor(max_leaves=31, n_jobs=threads)
    seconds, _ = cost(lambda: model.fit(X[:n_rows], y[:n_rows]), threads)
    found = score("regression", y[n_rows:], model.predict(X[n_rows:]))
    return (found if figure == "error" else seconds), found


def seven_classes(library: str, threads: int) -> Result:
    """Fit the softmax loss."""
    n_rows = 200_000
    X, y = pieces(n_rows + TEST_ROWS, 50)
    codes = np.digitize(y, np.quantile(y, np.arange(1, 7) / 7))
    model = boosting(library, "multiclass", threads)
    seconds, _ = cost(lambda: model.fit(X[:n_rows], codes[:n_rows]), threads)
    return seconds, score("multiclass", codes[n_rows:], model.predict_proba(X[n_rows:]))


def million(library: str, task: str, threads: int) -> Result:
    """Fit a million rows."""
    data = make_data(1_000_000, 28, task, n_test=TEST_ROWS)
    model = boosting(library, task, threads)
    seconds, _ = cost(lambda: model.fit(data.X, data.y), threads)
    predict = model.predict if task == "regression" else model.predict_proba
    return seconds, score(task, data.y_test, predict(data.X_test))


def _case(name: str, goal: float, limit: float, unit: str, work: Any, *more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "goal": goal,
        "limit": limit,
        "ours": partial(work, "hybridtrees", *more),
        "peer": partial(work, "lightgbm", *more),
        "unit": unit,
        "threads": [2],
    }


CASES = [
    _case("plgb-200000x20, time", 0.7, 1.0, "time ratio", lines, "time"),
    _case("plgb-200000x20, error", 0.75, 0.84, "RMSE", lines, "error"),
    _case("softmax-7-classes", 0.40, 0.60, "time ratio", seven_classes),
    _case("million-squared", 0.33, 0.36, "time ratio", million, "regression"),
    _case("million-logistic", 0.38, 0.47, "time ratio", million, "binary"),
]
