"""Small tables with lines: PLGB, linear forests, and EBLR with many categories."""

from __future__ import annotations

from functools import partial
from typing import Any

from second_round_cases._tables import cost, error, one_second, pieces, with_levels

N_LEVELS = 3490
Result = tuple[float, float]


def boost(library: str, n_rows: int, n_columns: int, threads: int) -> Result:
    """Fit PLGB or LightGBM's linear trees, with the defaults of each."""
    X, y = pieces(n_rows, n_columns)
    model: Any
    if library == "lightgbm":
        import lightgbm

        model = lightgbm.LGBMRegressor(linear_tree=True, n_jobs=threads, verbose=-1)
    else:
        import hybridtrees

        model = hybridtrees.PLGBRegressor(n_jobs=threads)
    seconds, _ = cost(lambda: model.fit(X, y), threads)
    return seconds, error(model, n_columns)


def linear_forest(n_rows: int, n_columns: int, classes: bool, threads: int) -> Result:
    """Fit a linear forest with its defaults."""
    import hybridtrees

    X, y = pieces(n_rows, n_columns, classes)
    make = hybridtrees.LinearForestClassifier if classes else hybridtrees.LinearForestRegressor
    model = make(n_jobs=threads, random_state=0)
    seconds, _ = cost(lambda: model.fit(X, y), threads)
    return seconds, error(model, n_columns)


def many_categories(threads: int) -> Result:
    """Fit EBLR with a column of thousands of categories."""
    import hybridtrees

    X, y = with_levels(33_000, 10, N_LEVELS)
    model = hybridtrees.EBLRRegressor(categorical_features=[0], n_jobs=threads)
    seconds, _ = cost(lambda: model.fit(X, y), threads)
    return seconds, float(((model.predict(X) - y) ** 2).mean() ** 0.5)


CASES = [
    {
        "name": f"plgb-{n}x{p}",
        "goal": 0.8,
        "limit": 1.2,
        "ours": partial(boost, "hybridtrees", n, p),
        "peer": partial(boost, "lightgbm", n, p),
        "unit": "time ratio",
    }
    for n, p in ((300, 10), (1000, 15), (5000, 20), (40_000, 20))
]
CASES += [
    {
        "name": f"linear-forest-{'classes' if classes else 'numbers'}-{n}x{p}",
        "goal": goal,
        "limit": limit,
        "ours": partial(linear_forest, n, p, classes),
        "peer": one_second,
        "unit": "seconds",
        "threads": [1],
    }
    for n, p, classes, goal, limit in (
        (300, 10, True, 1.0, 3.0),
        (1000, 15, True, 1.0, 3.0),
        (5000, 20, True, 1.0, 3.0),
        (5000, 20, False, 0.8, 2.0),
        (40_000, 20, False, 2.0, 4.0),
    )
]
CASES.append(
    {
        "name": f"eblr-{N_LEVELS}-categories",
        "goal": 3.0,
        "limit": 10.0,
        "ours": many_categories,
        "peer": one_second,
        "unit": "seconds",
        "threads": [1],
    }
)
