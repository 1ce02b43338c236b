"""Print a hash of models and their predictions; run with vectors of different widths."""

import hashlib

import numpy as np

from hybridtrees import (
    GradientBoostingClassifier,
    LinearTreeRegressor,
    LogisticClassifier,
    PLGBClassifier,
    PLGBRegressor,
    RandomForestRegressor,
    XGBClassifier,
    XGBRegressor,
)
from hybridtrees.core.base._threads import vector_bits


def digest(*arrays: np.ndarray) -> str:
    """Short hash of the bytes of arrays."""
    parts = [np.ascontiguousarray(array).tobytes() for array in arrays]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def make_table(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, some of them tied or missing, and a target."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, p)).astype(np.float32)
    X[:, 3] = np.round(X[:, 3])
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] + 0.3 * rng.standard_normal(n)
    X[: n // 2][rng.random((n // 2, p)) < 0.03] = np.nan
    return X, y


def main() -> None:
    """Fit and print."""
    print(vector_bits())
    # Up to 16 and 32 columns are looked up in registers, more are not.
    for p in (8, 25, 40):
        X, y = make_table(3001, p)
        for clip in ("clip", "linear"):
            model = PLGBRegressor(
                n_estimators=15, max_leaves=31, extrapolation=clip, random_state=0
            ).fit(X, y)
            n_used = len(np.unique(model.trees_.coef_feature))
            assert (p < 16) == (n_used < 16) and (p < 32) == (n_used < 32), n_used
            far = 3 * X  # beyond where lines are clipped
            tables = (X, far, far.astype(np.float64), np.asfortranarray(far), far[:1], far[7:20])
            print("plgb", p, clip, digest(*(model.predict(table) for table in tables)))
    X, y = make_table(3001, 12)
    wide, classes = X.astype(np.float64) * 1.1, np.digitize(y, [-1.0, 1.0])
    constraints = (1, 0, 0, -1) + (0,) * 8
    full = np.nan_to_num(X)
    shared = {"n_estimators": 10, "random_state": 0}
    models = {
        "xgb": XGBRegressor(**shared).fit(X, y),
        "xgb exact": XGBRegressor(tree_method="exact", **shared).fit(wide, y),
        "plgb monotone": PLGBRegressor(monotone_constraints=constraints, **shared).fit(X, y),
        "plgb full": PLGBRegressor(leaf_fit="full", max_leaf_features=12, **shared).fit(X, y),
        "forest": RandomForestRegressor(**shared).fit(X, y),
        "linear tree": LinearTreeRegressor(max_depth=3).fit(full, y),
    }
    for name, model in models.items():
        print(name, digest(model.predict(wide), model.predict(X)))
    for name in ("xgb", "plgb monotone", "linear tree"):
        explained = [models[name].shap_values(full[:70], interactions=i) for i in (False, True)]
        print("shap", name, digest(*(found.values for found in explained)))
    classifiers = {
        "xgb classes": XGBClassifier(**shared).fit(X, classes),
        "plgb classes": PLGBClassifier(**shared).fit(X, classes),
        "gb": GradientBoostingClassifier(splitter="hist", **shared).fit(X, y > 0),
        "logistic": LogisticClassifier().fit(full, y > 0),
    }
    for name, model in classifiers.items():
        print(name, digest(model.predict_proba(full)))


if __name__ == "__main__":
    main()
