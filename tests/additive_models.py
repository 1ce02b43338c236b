"""Models of every family that is a sum of trees, fitted to a table of all kinds of columns."""

import numpy as np
import pytest

import hybridtrees as ht

N = 400


def table(rng, n=N):
    """Numbers with missing values, a column of few categories and one of many."""
    import pandas as pd

    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "few": pd.Categorical.from_codes(rng.integers(-1, 4, n), list("pqrs")),
            "many": pd.Categorical.from_codes(rng.integers(-1, 60, n), list(map(str, range(60)))),
            "c": rng.integers(0, 5, n).astype(float),
        }
    )
    effect = np.append(0, rng.normal(size=60))[frame["many"].cat.codes + 1]
    step = np.where(frame["a"] > 0, 2 * frame["c"], -frame["a"])
    y = step + effect + (frame["few"] == "q") + 0.1 * rng.normal(size=n)
    return frame, np.asarray(y, dtype=float)


def case(name, **parameters):
    return pytest.param(name, parameters, id=f"{name}-{parameters}" if parameters else name)


REGRESSORS = [
    case("CARTRegressor", max_depth=6),
    case("CARTRegressor", max_depth=4, missing="stop"),
    case("RandomForestRegressor", n_estimators=7),
    case("ExtraTreesRegressor", n_estimators=5),
    case("GradientBoostingRegressor", n_estimators=9),
    case("GradientBoostingRegressor", n_estimators=5, init="zero"),
    case("XGBRegressor", n_estimators=9, max_depth=3),
    case("XGBRegressor", n_estimators=9, objective="reg:quantileerror", quantile_alpha=[0.9, 0.1]),
    case("PLGBRegressor", n_estimators=9),
    case("LinearTreeRegressor", max_depth=3),
    case("LinearTreeRegressor", max_depth=3, extrapolate="bounded"),
    case("LinearForestRegressor", n_estimators=5),
    case("RERFRegressor", n_estimators=5),
    case("RERFRegressor", n_estimators=5, categorical_encoding="target_mean"),
    case("RERFRegressor", n_estimators=5, missing_indicator=True, linear_features=["b", "few"]),
    case("EBLRRegressor", n_rules=6, max_depth=2),
    case("LinearRegressor"),
    case("LinearRegressor", missing_indicator=True, fit_intercept=False, penalty="ridge"),
]
CLASSIFIERS = [
    case("CARTClassifier", max_depth=5),
    case("RandomForestClassifier", n_estimators=7),
    case("RandomForestClassifier", n_estimators=7, voting="hard"),
    case("GradientBoostingClassifier", n_estimators=5),
    case("XGBClassifier", n_estimators=5),
    case("PLGBClassifier", n_estimators=5),
    case("LinearTreeClassifier", max_depth=2),
    case("LinearForestClassifier", n_estimators=4),
    case("RERFClassifier", n_estimators=5),
    case("EBLRClassifier", n_rules=4, max_depth=2),
    case("LogisticClassifier"),
]


def fitted(name, parameters, rng, n_classes=0):
    X, y = table(rng)
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    model = getattr(ht, name)(**parameters)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    new, _ = table(rng, 200)
    return model.fit(X, y), new
