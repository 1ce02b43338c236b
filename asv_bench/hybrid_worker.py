"""Fit one hybrid of one library in this process, and print its figures as JSON.

``hybrid_peers.py`` starts this file once per measurement. Only the chosen library is imported:
scikit-learn's hybrids are composed of its parts, as the published runs did.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from peers_worker import load, measured_fit, seconds


def hybridtrees_model(job: dict, n: int):
    """The estimator; penalties of scikit-learn are per sum, ours per mean of the rows."""
    import hybridtrees

    kind = "Regressor" if job["task"] == "regression" else "Classifier"
    params = dict(job["params"])
    family = job["family"]
    penalty, strength = params.pop("penalty"), params.pop("strength", 1.0)
    params["penalty"] = penalty
    per_row = kind == "Classifier" or penalty == "ridge"
    params["alpha"] = strength / n if per_row else strength
    if family == "RERF":
        params["random_state"] = job["seed"]
    return getattr(hybridtrees, f"{family}{kind}")(**params, n_jobs=job["threads"])


def sklearn_line(job: dict):
    """Scikit-learn's regression with the same penalty."""
    from sklearn import linear_model as lm

    params = job["params"]
    penalty, strength = params["penalty"], params.get("strength", 1.0)
    ratio = params.get("l1_ratio", 0.5)
    if job["task"] == "regression":
        return {
            None: lm.LinearRegression,
            "ridge": lambda: lm.Ridge(strength),
            "lasso": lambda: lm.Lasso(strength),
            "elasticnet": lambda: lm.ElasticNet(alpha=strength, l1_ratio=ratio),
        }[penalty]()
    inverse = np.inf if penalty is None else 1.0 / strength
    if penalty in (None, "ridge"):
        return lm.LogisticRegression(C=inverse, max_iter=1400)
    if penalty == "lasso":
        return lm.LogisticRegression(C=inverse, l1_ratio=1.0, solver="liblinear")
    return lm.LogisticRegression(C=inverse, l1_ratio=ratio, solver="saga", max_iter=1400)


class SklearnEBLR:
    """The published loop: a regression, a tree on its residuals, a column, and again."""

    def __init__(self, job: dict):
        self.job, self.base = job, sklearn_line(job)
        self.classify = job["task"] != "regression"

    def fit(self, X, y):
        from sklearn.base import clone
        from sklearn.tree import DecisionTreeRegressor

        params = self.job["params"]
        self.trees = []
        X = np.asarray(X, dtype=np.float32)
        for _ in range(params["n_rules"]):
            said = clone(self.base).fit(X, y).predict(X)
            residual = (said != y).astype(float) if self.classify else y - said
            depth = params.get("max_depth", 3)
            tree = DecisionTreeRegressor(max_depth=depth, random_state=self.job["seed"])
            value = np.abs(tree.fit(X, residual).predict(X))
            self.trees.append((tree, value.max()))
            X = np.column_stack([X, value == value.max()]).astype(np.float32)
        self.model = clone(self.base).fit(X, y)

    def score(self, X):
        X = np.asarray(X, dtype=np.float32)
        for tree, largest in self.trees:
            X = np.column_stack([X, np.abs(tree.predict(X)) == largest]).astype(np.float32)
        return self.model.decision_function(X) if self.classify else self.model.predict(X)


class SklearnRERF:
    """A regression, and a forest on what it leaves."""

    def __init__(self, job: dict):
        from sklearn.ensemble import RandomForestRegressor

        params = job["params"]
        self.classify = job["task"] != "regression"
        self.line = sklearn_line(job)
        self.forest = RandomForestRegressor(
            params["n_estimators"],
            max_depth=params["max_depth"],
            max_features=1.0 if self.classify else "sqrt",
            n_jobs=job["threads"],
            random_state=job["seed"],
        )

    def level(self, X):
        return self.line.predict_proba(X)[:, 1] if self.classify else self.line.predict(X)

    def fit(self, X, y):
        self.line.fit(X, y)
        self.forest.fit(np.asarray(X, dtype=np.float32), y - self.level(X))

    def score(self, X):
        return self.level(X) + self.forest.predict(np.asarray(X, dtype=np.float32))


class Ours:
    """hybridtrees through its estimators."""

    def __init__(self, job: dict):
        self.job = job

    def fit(self, X, y):
        self.model = hybridtrees_model(self.job, len(X)).fit(X, y)

    def score(self, X):
        regression = self.job["task"] == "regression"
        return self.model.predict(X) if regression else self.model.decision_function(X)


def make(job: dict):
    if job["library"] == "hybridtrees":
        return Ours(job)
    return SklearnEBLR(job) if job["family"] == "EBLR" else SklearnRERF(job)


def quality(task: str, y, score) -> float:
    """RMSE, or the area under the ROC curve."""
    if task == "regression":
        return float(np.sqrt(np.mean((score - y) ** 2)))
    order = np.argsort(score, kind="stable")
    values, start, counts = np.unique(score[order], return_index=True, return_counts=True)
    rank = np.repeat(start + (counts + 1) / 2, counts)
    positive = y[order] > 0
    n = positive.sum()
    return float((rank[positive].sum() - n * (n + 1) / 2) / (n * (len(y) - n)))


def measure(job: dict) -> dict:
    """Fit time, peak memory above the input, time and quality on the test rows."""
    data = load(Path(job["folder"]))
    small = dict(job, params=dict(job["params"]))
    for name in ("n_rules", "n_estimators"):
        if name in small["params"]:
            small["params"][name] = 2
    # Lazy imports and thread pools are not fit time.
    first = make(small)
    first.fit(data["X"][:1000], data["y"][:1000])
    first.score(data["X_test"][:100])
    model, figures = measured_fit(lambda: make(job), data)
    figures["predict_s"] = seconds(model.score, data["X_test"])
    figures["score"] = quality(job["task"], data["y_test"], model.score(data["X_test"]))
    return figures


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
