"""Measure one library on one case of forests in this process.

``forest_peers.py`` starts this file once per measurement; it prints the figures as JSON. Only the
chosen library is imported.
"""

from __future__ import annotations

import json
import pickle
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from benchmarks.datasets import score
from peers_worker import load, measured_fit, seconds

SHARE_MISSING = 0.1


def forest(job: dict, **changes):
    """A forest by the same parameters in both libraries."""
    name = job["family"] + ("Regressor" if job["task"] == "regression" else "Classifier")
    params = {**job["params"], "random_state": 0, "n_jobs": job["threads"], **changes}
    if job["library"] == "hybridtrees":
        from hybridtrees.models.forest import estimators as forests

        return getattr(forests, name)(**params, **job["ours"])
    from sklearn import ensemble

    return getattr(ensemble, name)(**params)


def predict(model, job: dict, X):
    """Predictions of a regressor, probabilities of a classifier."""
    return model.predict(X) if job["task"] == "regression" else model.predict_proba(X)


def measure_forest(job: dict) -> dict:
    """Fit and predict times, memory and sizes, scores on new rows and out of the bag."""
    data = load(Path(job["folder"]))
    # Lazy imports and thread pools are not fit time.
    warm = forest(job, n_estimators=2).fit(data["X"][:500], data["y"][:500])
    predict(warm, job, data["X_test"][:500])
    model, figures = measured_fit(lambda: forest(job), data)
    predict(model, job, data["X_test"][:1000])
    figures["predict_s"] = seconds(predict, model, job, data["X_test"])
    figures["pickle_mb"] = len(pickle.dumps(model)) / 1e6
    if hasattr(model, "save"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "forest")
            model.save(path)
            figures["file_mb"] = path.stat().st_size / 1e6
    figures["score"] = score(job["task"], data["y_test"], predict(model, job, data["X_test"]))
    with warnings.catch_warnings():
        # With few trees some rows have no prediction out of the bag.
        warnings.simplefilter("ignore")
        rows = slice(min(len(data["y"]), 10_000))
        scored = forest(job, oob_score=True, bootstrap=True).fit(data["X"][rows], data["y"][rows])
    figures["oob"] = float(scored.oob_score_)
    return figures


def measure_imputation(job: dict) -> dict:
    """Time to fill a table of which a tenth is missing."""
    from hybridtrees.models.forest.imputer import ProximityImputer

    data = load(Path(job["folder"]))
    X = np.array(data["X"])
    X[np.random.default_rng(0).random(X.shape) < SHARE_MISSING] = np.nan
    imputer = ProximityImputer(random_state=0, n_jobs=job["threads"])
    return {"seconds": seconds(imputer.fit_transform, X, data["y"])}


if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    kinds = {"forest": measure_forest, "imputation": measure_imputation}
    print(json.dumps(kinds[wanted["kind"]](wanted)))
