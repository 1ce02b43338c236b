"""Make the files in tests/data/foreign: small models of other libraries, and what they predict.

    python make_foreign_models.py [xgboost|lightgbm|catboost ...]

Each `NAME.npz` has the rows `X` and the raw scores `raw` of `NAME.json`, `.ubj` or `.txt`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "foreign"


def tables():
    """Numbers with gaps, codes of few and of many categories; rows with the unusual in addition."""
    rng = np.random.default_rng(0)
    n = 400
    X = np.column_stack(
        [rng.normal(size=n).round(2), rng.normal(size=n), rng.integers(0, 6, n),
         rng.integers(0, 280, n)]
    )  # fmt: skip
    y = X[:, 0] + np.isin(X[:, 2], [1, 4]) + (X[:, 3] % 3 == 1) + rng.normal(size=n) / 9
    X[::7, 0] = np.nan
    rows = X[:60].copy()
    rows[:20, 2] = rng.choice([0, 1, 4, 5, 6, 31, 32, 1e5], 20)
    rows[:20, 3] = rng.choice([0, 1, 279, 280, 287, 288, 1e6], 20)
    return X, y, rows


def keep(stem, rows, raw):
    np.savez_compressed(FOLDER / f"{stem}.npz", X=rows, raw=raw.reshape(len(rows), -1))


def make_xgboost():
    import xgboost as xgb

    version = "_".join(xgb.__version__.split(".")[:2])
    X, y, rows = tables()
    rows[40:50, 2:] = np.nan
    kinds, names = ["float", "float", "c", "c"], list("abcd")
    classes = np.digitize(y, [0, 1])

    def matrix(values, target=None):
        return xgb.DMatrix(
            values, target, enable_categorical=True, feature_types=kinds, feature_names=names
        )

    # Trees are dropped by the booster dart, and since 3.4 by parameters alone.
    dart = {} if version == "3_4" else {"booster": "dart"}
    for stem, target, parameters in (
        ("dart", y, {**dart, "rate_drop": 0.9, "one_drop": 1, "max_cat_to_onehot": 1}),
        ("classes", classes, {"objective": "multi:softprob", "num_class": 3}),
        ("vectors", np.column_stack([y, -y]), {"multi_strategy": "multi_output_tree"}),
        ("onehot", classes > 0, {"objective": "binary:logistic", "max_cat_to_onehot": 500,
                                 "num_parallel_tree": 2}),
    ):  # fmt: skip
        if stem == "vectors":  # has no categories
            train, ask = xgb.DMatrix(X, target), xgb.DMatrix(rows)
        else:
            train, ask = matrix(X, target), matrix(rows)
        model = xgb.train({"max_depth": 3, "seed": 0, **parameters}, train, 3)
        for kind in ("json", "ubj"):
            name = f"xgboost_{version}_{stem}_{kind}"
            model.save_model(FOLDER / f"{name}.{kind}")
            keep(name, rows, model.predict(ask, output_margin=True))


def make_lightgbm():
    import lightgbm as lgb

    X, y, rows = tables()
    rows[40:50, 2:] = np.nan
    rows[50:, :2] = np.random.default_rng(1).choice([np.inf, -np.inf, 0, 1e-36], (10, 2))
    classes = np.digitize(y, [0, 1])
    common = {"verbose": -1, "num_leaves": 6, "min_data_per_group": 5, "cat_smooth": 1, "seed": 0}
    for stem, target, parameters in (
        ("linear", y, {"linear_tree": True}),
        ("classes", classes, {"objective": "multiclass", "num_class": 3}),
        ("zero", classes > 0, {"objective": "binary", "sigmoid": 0.7, "zero_as_missing": True}),
        ("forest", y, {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}),
    ):
        values = np.where(np.isnan(X), 0, X) if stem == "zero" else X
        table = lgb.Dataset(values, target, categorical_feature=[2, 3], feature_name=list("abcd"))
        model = lgb.train(common | parameters, table, 3)
        name = f"lightgbm_{stem}"
        model.save_model(FOLDER / f"{name}.txt")
        raw = model.predict(rows, raw_score=stem != "forest")
        keep(name, rows, raw)


def make_catboost():
    from catboost import CatBoostClassifier, CatBoostRegressor, Pool

    X, y, rows = tables()

    def pool(values, target=None):
        table = [[a, b, int(c), int(d)] for a, b, c, d in values]
        return Pool(table, target, cat_features=[2, 3], feature_names=list("abcd"))

    common = {"iterations": 3, "depth": 3, "verbose": 0, "allow_writing_files": False,
              "one_hot_max_size": 255, "random_seed": 0}  # fmt: skip
    X[:, 3] %= 200
    rows[50:, :2] = np.random.default_rng(1).choice([np.inf, -np.inf, 0, np.nan], (10, 2))
    for stem, target, kind, parameters in (
        ("oblivious", y, CatBoostRegressor, {}),
        ("classes", np.digitize(y, [0, 1]), CatBoostClassifier, {}),
        ("lossguide", y, CatBoostRegressor, {"grow_policy": "Lossguide", "nan_mode": "Max"}),
        ("poisson", np.abs(y), CatBoostRegressor, {"loss_function": "Poisson"}),
    ):
        data = pool(X, target)
        model = kind(**(common | parameters)).fit(data)
        name = f"catboost_{stem}"
        model.save_model(str(FOLDER / f"{name}.json"), format="json", pool=data)
        keep(name, rows, model.predict(pool(rows), prediction_type="RawFormulaVal"))


if __name__ == "__main__":
    for library in sys.argv[1:] or ("xgboost", "lightgbm", "catboost"):
        globals()[f"make_{library}"]()
