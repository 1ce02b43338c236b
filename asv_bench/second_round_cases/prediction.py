"""Prediction of a million rows by trees of 64 leaves; the goal is for XGBoost 3.4."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from second_round_cases._tables import cost, error, pieces

N_COLUMNS = 28
Result = tuple[float, float]


@cache
def fitted(library: str, threads: int) -> Any:
    """Return a model of 100 trees of depth 6."""
    X, y = pieces(50_000, N_COLUMNS)
    given = {"n_estimators": 100, "max_depth": 6, "n_jobs": threads, "tree_method": "hist"}
    if library == "xgboost":
        import xgboost

        return xgboost.XGBRegressor(**given).fit(X, y)
    import hybridtrees

    return hybridtrees.XGBRegressor(**given).fit(X, y)


def predict(library: str, threads: int) -> Result:
    """Predict a million rows of float32."""
    X = pieces(1_000_000, N_COLUMNS)[0].astype("float32")
    model = fitted(library, threads)
    seconds, _ = cost(lambda: model.predict(X), threads)
    return seconds, error(model, N_COLUMNS)


CASES = [
    {
        "name": "predict-64-leaves",
        "goal": 0.12,
        "limit": 0.2,
        "ours": partial(predict, "hybridtrees"),
        "peer": partial(predict, "xgboost"),
        "unit": "time ratio",
    }
]
