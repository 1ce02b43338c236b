"""Fit a tree of the package linear-tree once and print its figures as JSON; see ``study.py``.

The package needs a scikit-learn below 1.6, so this file runs under a Python of its own, which
needs nothing else:

    python -m venv peer-env && peer-env/bin/pip install linear-tree==0.3.5 'scikit-learn<1.6'
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np


def make_model(task: str, params: dict):
    """The tree of the study; what is not named is the default of its package."""
    import lineartree
    from sklearn.linear_model import Lasso, LogisticRegression, Ridge

    if task == "regression":
        base = Ridge() if params["penalty"] == "ridge" else Lasso(max_iter=3000)
    else:
        penalty = None if params["penalty"] is None else "l2"
        base = LogisticRegression(penalty=penalty, max_iter=300 if penalty is None else 100)
    kind = "LinearTreeRegressor" if task == "regression" else "LinearTreeClassifier"
    own = {key: value for key, value in params.items() if key in ("max_depth", "max_bins")}
    return getattr(lineartree, kind)(base, **own)


def main() -> None:
    job = json.loads(sys.argv[1])
    data = np.load(job["data"])
    y = data["y"] if job["task"] == "regression" else data["y"].astype(int)
    model = make_model(job["task"], job["params"])
    warnings.simplefilter("ignore")
    start, worked = time.perf_counter(), time.process_time()
    model.fit(data["X"], y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - worked
    if job["task"] == "regression":
        said = model.predict(data["X_test"])
    else:
        said = model.predict_proba(data["X_test"])[:, 1]
    print(json.dumps({"fit_s": seconds, "cpu_s": cpu, "said": said.tolist()}))


if __name__ == "__main__":
    main()
