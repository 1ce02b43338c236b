"""Forests: RERF, categories of many levels, full depth."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from second_round_cases._tables import cost, error, pieces, with_levels

Result = tuple[float, float]


def residual_forest(library: str, threads: int) -> Result:
    """Fit a logistic regression and a forest on its residuals."""
    X, y = pieces(40_000, 20, True)
    if library == "hybridtrees":
        import hybridtrees

        model = hybridtrees.RERFClassifier(random_state=0, n_jobs=threads)
        seconds, _ = cost(lambda: model.fit(X, y), threads)
        return seconds, error(model, 20)
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import LogisticRegression

    def work() -> Any:
        line = LogisticRegression().fit(X, y)
        forest = RandomForestRegressor(max_features=1 / 3, random_state=0, n_jobs=threads)
        return line, forest.fit(X, y - line.predict_proba(X)[:, 1])

    seconds, (line, forest) = cost(work, threads)
    X, y = pieces(5000, 20, True, seed=1)
    own = np.clip(line.predict_proba(X)[:, 1] + forest.predict(X), 1e-3, 1 - 1e-3)
    return seconds, float(-np.log(np.where(y == 1, own, 1 - own)).mean())


def forest(library: str, threads: int, **settings: Any) -> Any:
    """Return a forest of 100 trees that draws a third of the features for each split."""
    given = {"n_estimators": 100, "max_features": 1 / 3, "random_state": 0, "n_jobs": threads}
    if library == "sklearn":
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(**given)
    import hybridtrees

    return hybridtrees.RandomForestRegressor(**given, **settings)


def many_levels(library: str, threads: int) -> Result:
    """Fit a forest to a column of thousands of levels; scikit-learn takes codes as numbers."""
    X, y = with_levels(19_000, 10, 4411)
    test = np.arange(len(y)) % 5 == 0
    model = forest(
        library, threads, **({} if library == "sklearn" else {"categorical_features": [0]})
    )
    seconds, _ = cost(lambda: model.fit(X[~test], y[~test]), threads)
    return seconds, float(((model.predict(X[test]) - y[test]) ** 2).mean() ** 0.5)


def full_depth(library: str, what: str, threads: int) -> Result:
    """Fit trees of full depth, or predict with them."""
    X, y = pieces(100_000, 28)
    model = forest(library, threads)
    seconds, _ = cost(lambda: model.fit(X, y), threads)
    if what == "predict":
        seconds, _ = cost(lambda: model.predict(X), threads)
    return seconds, error(model, 28)


def _case(name: str, goal: float, limit: float, work: Any, *more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "goal": goal,
        "limit": limit,
        "ours": partial(work, "hybridtrees", *more),
        "peer": partial(work, "sklearn", *more),
        "unit": "time ratio",
        "threads": [1],
    }


CASES = [
    _case("rerf-classes", 0.2, 0.4, residual_forest),
    _case("forest-4411-levels", 0.5, 1.0, many_levels),
    _case("forest-full-depth-fit", 0.10, 0.15, full_depth, "fit"),
    _case("forest-full-depth-predict", 0.12, 0.2, full_depth, "predict"),
]
