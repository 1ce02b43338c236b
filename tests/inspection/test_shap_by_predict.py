"""Shapley values with a background against the sum over all coalitions, from `predict` alone.

Nothing here knows of trees or codes: a coalition is a table whose columns come from the row or from
the background, and its value the mean of the scores that the model gives this table.
"""

from functools import partial

import numpy as np
import pytest
from shap_oracle import shapley

import hybridtrees as ht

pd = pytest.importorskip("pandas")

N = 160
REGRESSORS = {
    "cart": ht.CARTRegressor(max_depth=4),
    "stopped": ht.CARTRegressor(max_depth=4, missing="stop"),
    "forest": ht.RandomForestRegressor(n_estimators=3, random_state=0),
    "boosting": ht.GradientBoostingRegressor(n_estimators=4),
    "xgb": ht.XGBRegressor(n_estimators=4, max_depth=4),
    "plgb": ht.PLGBRegressor(n_estimators=5),
    "linear tree": ht.LinearTreeRegressor(max_depth=3),
    "clipped tree": ht.LinearTreeRegressor(max_depth=3, extrapolate="clip"),
    "linear forest": ht.LinearForestRegressor(n_estimators=2, random_state=0),
    "rerf": ht.RERFRegressor(n_estimators=2, random_state=0),
    "eblr": ht.EBLRRegressor(n_rules=4, max_depth=2),
    "line": ht.LinearRegressor(missing_indicator=True),
    "voting": ht.VotingRegressor(
        [("line", ht.LinearRegressor()), ("trees", ht.XGBRegressor(n_estimators=3))]
    ),
    "bagging": ht.BaggingRegressor(
        ht.PLGBRegressor(n_estimators=2), n_estimators=2, max_features=0.6, random_state=0
    ),
    "auto": ht.AutoRegressor(quality=1, random_state=0),
}
CLASSIFIERS = {
    "forest": ht.RandomForestClassifier(n_estimators=3, random_state=0),
    "xgb": ht.XGBClassifier(n_estimators=3),
    "plgb": ht.PLGBClassifier(n_estimators=3),
    "logistic": ht.LogisticClassifier(),
}


@pytest.fixture(scope="module")
def frame():
    """Numbers with missing values, few categories, and many that become statistics."""
    rng = np.random.default_rng(8)
    table = pd.DataFrame(
        {
            "a": rng.normal(size=N),
            "b": np.where(rng.random(N) < 0.15, np.nan, rng.normal(size=N)),
            "few": pd.Categorical.from_codes(rng.integers(-1, 4, N), list("pqrs")),
            "many": pd.Categorical.from_codes(rng.integers(-1, 40, N), list(map(str, range(40)))),
        }
    )
    effect = np.append(0, rng.normal(size=40))[table["many"].cat.codes + 1]
    y = 2 * table["a"] * (table["few"] == "q") + effect + np.nan_to_num(table["b"]) ** 2
    return table, np.asarray(y, dtype=float)


def scores(model, X):
    """What the values add up to, (n_rows, n_outputs)."""
    if not hasattr(model, "classes_"):
        return model.predict(X)[:, None]
    found = model.predict_raw(X) if hasattr(model, "predict_raw") else model.predict_proba(X)
    found = found.reshape(len(X), -1)
    return found[:, 1:] if found.shape[1] == 2 else found


def check(model, X):
    rows, background = X.iloc[:3], X.iloc[20:25].reset_index(drop=True)
    assert rows.isna().to_numpy().any() and background.isna().to_numpy().any()
    found = model.shap_values(rows, background=background)
    pairs = model.shap_values(rows, background=background, interactions=True)
    values = found.values.reshape(len(rows), 4, -1)
    both = pairs.values.reshape(len(rows), 4, 4, -1)

    def value_of(row, coalition):
        table = background.copy()
        for j in coalition:
            table[table.columns[j]] = row.iloc[:, j]
        return scores(model, table).mean(axis=0)

    for k in range(len(rows)):
        row = rows.iloc[[k] * len(background)].reset_index(drop=True)
        single, interactions, base = shapley(partial(value_of, row), 4)
        np.testing.assert_allclose(values[k], single, atol=1e-9)
        np.testing.assert_allclose(both[k], interactions, atol=1e-9)
        np.testing.assert_allclose(np.ravel(found.base_values[k]), base, atol=1e-9)


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name, frame):
    X, y = frame
    check(REGRESSORS[name].fit(X, y), X)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name, n_classes, frame):
    X, y = frame
    y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    check(CLASSIFIERS[name].fit(X, y), X)
