"""Mean rank of piece-wise linear boosting among its peers, over several public tables.

    python asv_bench/plgb_ranks.py [table ...] [--data FOLDER] [--threads N]

Every model is tuned alike: the same leaves and penalties are tried, rounds are stopped early on the
validation rows, and the setting that is best there is scored once on the test rows. Tables come
with their split, or are split 64/16/20 by a seed. LightGBM's linear trees get standardised columns,
as its documentation asks for.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path

import lightgbm
import numpy as np
import pandas
import xgboost

from hybridtrees import PLGBClassifier, PLGBRegressor
from hybridtrees.metrics import roc_auc_score

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TABLES = {
    "breast_cancer": ("diagnosis", True),
    "car_insurance": ("OUTCOME", True),
    "software_defect": ("defects", True),
    "electricity_transformer": ("OT_next", False),
    "house_prices": ("SalePrice", False),
    "superconductivity": ("critical_temp", False),
    "casp": ("RMSD", False),
}
LEAVES, PENALTIES = (7, 31), (1.0, 10.0)
ROUNDS, PATIENCE, RATE = 300, 20, 0.1


def read(name: str, folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Features and target of the training, validation and test rows."""
    target, _ = TABLES[name]
    if (folder / f"{name}.parquet").exists():
        table = pandas.read_parquet(folder / f"{name}.parquet")
        order = np.random.default_rng(0).permutation(len(table))
        cuts = np.split(order, [int(0.64 * len(order)), int(0.8 * len(order))])
        parts = [table.iloc[rows] for rows in cuts]
    else:
        stages = ("train", "validation", "test")
        parts = [pandas.read_parquet(folder / f"{name}_{stage}.parquet") for stage in stages]
    out = []
    for part in parts:
        X = part.drop(columns=[target, "date"], errors="ignore").to_numpy(np.float64)
        out.append((np.where(np.isfinite(X), X, np.nan), part[target].to_numpy(np.float64)))
    return out


def error(y: np.ndarray, prediction: np.ndarray, classes: bool) -> float:
    """1 - AUC, or the root of the mean squared error."""
    if classes:
        return 1 - roc_auc_score(y, prediction)
    return float(np.sqrt(np.mean((y - prediction) ** 2)))


def plgb(parts, classes, leaves, penalty, n_threads):
    """Predictions of piece-wise linear boosting for validation and test rows."""
    model = (PLGBClassifier if classes else PLGBRegressor)(
        n_estimators=ROUNDS, learning_rate=RATE, max_leaves=leaves, reg_lambda=penalty,
        early_stopping_rounds=PATIENCE, n_jobs=n_threads, random_state=0,
    )  # fmt: skip
    (X, y), (X_val, y_val), (X_test, _) = parts
    model.fit(X, y, X_val=X_val, y_val=y_val)
    if classes:
        return [model.predict_proba(Z)[:, 1] for Z in (X_val, X_test)]
    return [model.predict(Z) for Z in (X_val, X_test)]


def light(parts, classes, leaves, penalty, n_threads, linear=False):
    """Predictions of LightGBM."""
    tables = [X for X, _ in parts]
    if linear:
        mean, spread = np.nanmean(tables[0], axis=0), np.nanstd(tables[0], axis=0)
        tables = [(X - mean) / np.where(spread > 0, spread, 1.0) for X in tables]
    params = {
        "objective": "binary" if classes else "regression", "num_leaves": leaves,
        "learning_rate": RATE, "lambda_l2": penalty, "linear_tree": linear,
        "linear_lambda": penalty if linear else 0.0, "num_threads": n_threads, "verbose": -1,
        "seed": 0,
    }  # fmt: skip
    own = {"linear_tree": linear, "verbose": -1}
    data = lightgbm.Dataset(tables[0], parts[0][1], params=own)
    valid = lightgbm.Dataset(tables[1], parts[1][1], reference=data, params=own)
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    model = lightgbm.train(params, data, ROUNDS, valid_sets=[valid], callbacks=[stop])
    return [model.predict(Z, num_threads=n_threads) for Z in tables[1:]]


def light_linear(parts, classes, leaves, penalty, n_threads):
    """Predictions of LightGBM's linear trees."""
    return light(parts, classes, leaves, penalty, n_threads, linear=True)


def xgb(parts, classes, leaves, penalty, n_threads):
    """Predictions of XGBoost."""
    kind = xgboost.XGBClassifier if classes else xgboost.XGBRegressor
    model = kind(
        n_estimators=ROUNDS, learning_rate=RATE, max_leaves=leaves, max_depth=0,
        grow_policy="lossguide", reg_lambda=penalty, early_stopping_rounds=PATIENCE,
        n_jobs=n_threads, random_state=0,
    )  # fmt: skip
    (X, y), (X_val, y_val), (X_test, _) = parts
    model.fit(X, y, eval_set=[(X_val, y_val)], verbose=False)
    if classes:
        return [model.predict_proba(Z)[:, 1] for Z in (X_val, X_test)]
    return [model.predict(Z) for Z in (X_val, X_test)]


MODELS = {"plgb": plgb, "lightgbm": light, "lightgbm linear": light_linear, "xgboost": xgb}


def tuned(name, parts, classes, n_threads, talk=False) -> float:
    """Test error of the setting that is best on the validation rows."""
    best = (np.inf, np.inf)
    for leaves, penalty in product(LEAVES, PENALTIES):
        valid, test = MODELS[name](parts, classes, leaves, penalty, n_threads)
        pair = error(parts[1][1], valid, classes), error(parts[2][1], test, classes)
        if talk:
            setting = f"{name}, {leaves} leaves, penalty {penalty:g}"
            print(f"    {setting}: {pair[0]:.5g} {pair[1]:.5g}", flush=True)
        best = min(best, pair, key=lambda found: found[0])
    return best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("tables", nargs="*", default=list(TABLES))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--talk", action="store_true", help="print every setting")
    given = parser.parse_args()
    print(f"{'test error':<24}" + "".join(f"{name:>17}" for name in MODELS))
    ranks = []
    for table in given.tables:
        parts, classes = read(table, given.data), TABLES[table][1]
        errors, seconds = [], []
        for name in MODELS:
            start = time.process_time()
            errors.append(tuned(name, parts, classes, given.threads, given.talk))
            seconds.append(time.process_time() - start)
        ranks.append(pandas.Series(errors).rank().to_numpy())
        print(f"{table:<24}" + "".join(f"{value:>17.5g}" for value in errors), flush=True)
        print(f"{'  seconds':<24}" + "".join(f"{value:>17.1f}" for value in seconds), flush=True)
    print(f"{'mean rank':<24}" + "".join(f"{value:>17.2f}" for value in np.mean(ranks, axis=0)))


if __name__ == "__main__":
    main()
