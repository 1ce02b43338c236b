"""Print a hash of the predictions of a few models.

Two builds of the same source must print the same lines, whatever their flags.
"""

from __future__ import annotations

import hashlib

import numpy as np

import hybridtrees

WORKS = {
    "defaults": {},
    "loss-guided": {"max_depth": 0, "max_leaves": 31, "grow_policy": "lossguide"},
    "sampled": {"subsample": 0.7, "colsample_bytree": 0.6, "colsample_bynode": 0.7},
    "regularised": {"reg_alpha": 0.5, "gamma": 0.1, "min_child_weight": 5, "max_bin": 63},
}


def make_data(n: int = 20_000, p: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Numbers with ties and missing values, and a target that depends on them."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, p)).astype(np.float32)
    X[:, 3] = np.round(X[:, 3])
    X[:, 4] = np.where(rng.random(n) < 0.9, 0, X[:, 4])
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] + rng.standard_normal(n)
    X[rng.random((n, p)) < 0.05] = np.nan
    return X, y


def digest(prediction: np.ndarray) -> str:
    """Short hash of the bytes of an array."""
    return hashlib.sha256(np.ascontiguousarray(prediction).tobytes()).hexdigest()[:16]


def main() -> None:
    """Fit and print."""
    X, y = make_data()
    classes = np.digitize(y, [-1.0, 1.0])
    for name, parameters in WORKS.items():
        shared = {"n_estimators": 30, "random_state": 0, "n_jobs": 2, **parameters}
        regressor = hybridtrees.XGBRegressor(**shared).fit(X, y)
        print(name, "regression", digest(regressor.predict(X)))
        classifier = hybridtrees.XGBClassifier(**shared).fit(X, classes)
        print(name, "multiclass", digest(classifier.predict_proba(X)))
        classifier = hybridtrees.XGBClassifier(**shared).fit(X, classes > 1)
        print(name, "binary", digest(classifier.predict_proba(X)))
    # Large enough for the packed 16-bit histograms and for every parallel loop.
    X, y = make_data(120_000)
    classifier = hybridtrees.XGBClassifier(n_estimators=5, n_jobs=2).fit(X, y > 0)
    print("large binary", digest(classifier.predict_proba(X)))


if __name__ == "__main__":
    main()
