"""Measure one library on one case of single trees, or of exact boosting, in this process.

``cart_peers.py`` starts this file once per measurement; it prints the figures as JSON. Only the
chosen library is imported.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.datasets import score
from peers_worker import load, measured_fit, seconds


def cart(library: str, job: dict):
    """A single tree; the search of hybridtrees is exact unless the case says otherwise."""
    kind = "Regressor" if job["task"] == "regression" else "Classifier"
    params = dict(job["params"])
    if library == "hybridtrees":
        import hybridtrees

        return getattr(hybridtrees, f"CART{kind}")(**params, n_jobs=job["threads"])
    from sklearn import tree

    params.pop("splitter", None)
    return getattr(tree, f"DecisionTree{kind}")(**params, random_state=0)


def boosting(library: str, job: dict):
    """Boosted trees with exact splits, by the same parameters in both libraries."""
    import importlib

    module = importlib.import_module(library)
    params = dict(job["params"], n_jobs=job["threads"], random_state=0)
    return module.XGBRegressor(tree_method="exact", **params)


MODELS = {"cart": cart, "boosting": boosting}


def predict(model, job: dict, X):
    """Predictions of a regressor, probabilities of a classifier."""
    return model.predict(X) if job["task"] == "regression" else model.predict_proba(X)


def measure(job: dict) -> dict:
    """Fit time, peak memory above the input, predict time on the test part, leaves and score."""
    data = load(Path(job["folder"]))
    make = MODELS[job["family"]]
    warm = dict(job, params=dict(job["params"]))
    if job["family"] == "boosting":
        warm["params"]["n_estimators"] = 2
    # Lazy imports and thread pools are not fit time.
    predict(
        make(job["library"], warm).fit(data["X"][:500], data["y"][:500]), job, data["X_test"][:500]
    )
    model, figures = measured_fit(lambda: make(job["library"], job), data)
    predict(model, job, data["X_test"][:1000])
    times = [seconds(predict, model, job, data["X_test"]) for _ in range(job["inner"])]
    figures["predict_s"] = min(times)
    figures["leaves"] = float(model.get_n_leaves()) if job["family"] == "cart" else None
    figures["score"] = score(job["task"], data["y_test"], predict(model, job, data["X_test"]))
    return figures


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
