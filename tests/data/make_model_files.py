"""Make tests/data/models: a saved model of every estimator, rows, and what it says of them.

``PYTHONPATH=tests python tests/data/make_model_files.py FOLDER`` writes `<name>.htree` and
`<name>.npz`; a file that exists is kept. Those in the folder were made by version 0.1.0 and stand
for the files that users have: when one can no longer be read, mend the reader, not the file.
"""

import sys
from pathlib import Path

import numpy as np
from model_files import outputs, readable

import hybridtrees as ht


def make_table(n):
    """Columns by name, with ties, missing numbers and categories, and the target's mean."""
    rng = np.random.default_rng(17)
    colour = rng.choice(["blue", "green", "red", "yellow", "white", "black"], n)
    table = {
        "size": rng.standard_normal(n).astype(np.float32),
        "age": rng.integers(0, 9, n).astype(np.float64),
        "price": rng.standard_normal(n),
        "colour": np.where(rng.random(n) < 0.04, "", colour),
    }
    steep = np.isin(colour, ["red", "white"])
    mean = np.where(steep, 2.0, -1.0) * table["size"] + np.abs(table["age"] - 4) + table["price"]
    table["price"] = np.where(rng.random(n) < 0.1, np.nan, table["price"])
    return table, mean + 0.3 * rng.standard_normal(n)


def estimators():
    """Return the estimators by name, and which target each is fitted to."""
    few = {"n_estimators": 6, "random_state": 0}
    small = {"max_depth": 4, "random_state": 0}
    numbers = [("line", ht.LinearRegressor()), ("tree", ht.CARTRegressor(**small))]
    classes = [("line", ht.LogisticClassifier()), ("tree", ht.CARTClassifier(**small))]
    runs = {"n_restarts": 2, "tol": 1e-4, "random_state": 0}
    return {
        "cart_regressor": (ht.CARTRegressor(**small), "real"),
        "cart_classifier": (ht.CARTClassifier(**small), "classes"),
        "random_forest_regressor": (ht.RandomForestRegressor(max_depth=4, **few), "real"),
        "random_forest_classifier": (ht.RandomForestClassifier(max_depth=4, **few), "classes"),
        "extra_trees_regressor": (ht.ExtraTreesRegressor(max_depth=4, **few), "pair"),
        "extra_trees_classifier": (ht.ExtraTreesClassifier(max_depth=4, **few), "classes"),
        "gradient_boosting_regressor": (ht.GradientBoostingRegressor(loss="huber", **few), "real"),
        "gradient_boosting_classifier": (ht.GradientBoostingClassifier(**few), "classes"),
        "xgb_regressor": (ht.XGBRegressor(**few), "real"),
        "xgb_regressor_exact": (ht.XGBRegressor(tree_method="exact", **few), "pair"),
        "xgb_classifier": (ht.XGBClassifier(max_depth=3, **few), "classes"),
        "xgbrf_regressor": (ht.XGBRFRegressor(max_depth=4, **few), "real"),
        "xgbrf_classifier": (ht.XGBRFClassifier(max_depth=3, **few), "classes"),
        "linear_regressor": (ht.LinearRegressor(missing_indicator=True), "real"),
        "logistic_classifier": (ht.LogisticClassifier(penalty="lasso"), "classes"),
        "linear_tree_regressor": (ht.LinearTreeRegressor(max_depth=3), "real"),
        "linear_tree_classifier": (ht.LinearTreeClassifier(max_depth=2), "classes"),
        "linear_forest_regressor": (ht.LinearForestRegressor(max_depth=2, **few), "pair"),
        "linear_forest_classifier": (ht.LinearForestClassifier(max_depth=1, **few), "binary"),
        "rerf_regressor": (ht.RERFRegressor(max_depth=4, **few), "real"),
        "rerf_classifier": (ht.RERFClassifier(max_depth=4, **few), "classes"),
        "eblr_regressor": (ht.EBLRRegressor(n_rules=4, random_state=0), "real"),
        "eblr_classifier": (ht.EBLRClassifier(n_rules=4, random_state=0), "classes"),
        "plgb_regressor": (ht.PLGBRegressor(max_leaves=6, **few), "real"),
        "plgb_classifier": (ht.PLGBClassifier(max_leaves=4, **few), "classes"),
        "adaboost_regressor": (ht.AdaBoostRegressor(**few), "real"),
        "adaboost_classifier": (ht.AdaBoostClassifier(max_depth=2, **few), "classes"),
        "bagging_regressor": (
            ht.BaggingRegressor(ht.LinearTreeRegressor(max_depth=1), 4, random_state=0),
            "real",
        ),
        "bagging_classifier": (
            ht.BaggingClassifier(ht.CARTClassifier(max_depth=4), **few),
            "classes",
        ),
        "pasting_regressor": (ht.PastingRegressor(precinct_size=60, **few), "real"),
        "pasting_classifier": (ht.PastingClassifier(precinct_size=60, **few), "classes"),
        "voting_regressor": (ht.VotingRegressor(numbers, weights=[2, 1]), "real"),
        "voting_classifier": (ht.VotingClassifier(classes, voting="soft"), "classes"),
        "stacking_regressor": (ht.StackingRegressor(numbers, passthrough=True), "real"),
        "stacking_classifier": (ht.StackingClassifier(classes), "classes"),
        "model_average_regressor": (ht.ModelAverageRegressor(numbers), "real"),
        "model_average_classifier": (ht.ModelAverageClassifier(classes, weights="bic"), "classes"),
        "auto_regressor": (ht.AutoRegressor(quality=2, random_state=0), "real"),
        "auto_classifier": (ht.AutoClassifier(quality=1, random_state=0), "classes"),
        "mixture_of_experts_regressor": (ht.MixtureOfExpertsRegressor(n_experts=3, **runs), "real"),
        "mixture_of_experts_classifier": (
            ht.MixtureOfExpertsClassifier(expert="tree", **runs),
            "classes",
        ),
        "proximity_imputer": (ht.ProximityImputer(n_rounds=1, **few), "real"),
    }


def main():
    """Fit and write."""
    folder = Path(sys.argv[1])
    table, y = make_table(200)
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [1.0, 3.0])]
    targets = {"real": y, "pair": np.column_stack([y, -y]), "classes": labels, "binary": y > 2}
    # New rows: beyond the training's range, a category that it has not seen, and missing ones.
    new, _ = make_table(260)
    rows = {name: column[-60:].copy() for name, column in new.items()}
    rows["size"][:10] *= 4
    rows["colour"][:3], rows["colour"][3:6] = "pink", ""
    for name, (estimator, target) in estimators().items():
        path = folder / f"{name}.htree"
        if path.exists():
            continue
        estimator.fit(readable(table), targets[target]).save(path)
        expected = {
            f"out_{key}": value for key, value in outputs(estimator, readable(rows)).items()
        }
        stored = {f"in_{key}": value for key, value in rows.items()}
        np.savez_compressed(folder / f"{name}.npz", **stored, **expected)


if __name__ == "__main__":
    main()
