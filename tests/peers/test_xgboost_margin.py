"""base_margin and base_score per output, against xgboost."""

from __future__ import annotations

import numpy as np
import pytest
from xgb_data import integer_table, target

import hybridtrees

xgboost = pytest.importorskip("xgboost")
pytestmark = pytest.mark.peer


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_base_margin(task):
    X, y, _ = integer_table(400)
    y = y if task == "regression" else target(task, y)
    n_outputs = len(np.unique(y)) if task == "multiclass" else 1
    margin = np.random.default_rng(0).normal(size=(400, n_outputs))
    name = "XGBRegressor" if task == "regression" else "XGBClassifier"
    # Leaves of some size: in small ones splits are equally good.
    params = {"n_estimators": 4, "max_depth": 3, "min_child_weight": 8, "n_jobs": 1}
    fit = {
        "base_margin": margin, "eval_set": [(X, y)], "base_margin_eval_set": [margin],
        "verbose": False,
    }  # fmt: skip
    models = [
        getattr(library, name)(**params).fit(X, y, **fit) for library in (hybridtrees, xgboost)
    ]
    for given in (None, margin):
        ours, theirs = (m.predict(X, output_margin=True, base_margin=given) for m in models)
        np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.ptp(theirs))
    curves = [np.array([*m.evals_result()["validation_0"].values()]) for m in models]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-4)


def test_base_score_of_each_target():
    X, y, _ = integer_table(400)
    both = np.column_stack([y, 1 - 2 * y])
    params = {"n_estimators": 3, "max_depth": 3, "base_score": [1.0, -3.0], "n_jobs": 1}
    ours = hybridtrees.XGBRegressor(**params).fit(X, both).predict(X)
    theirs = xgboost.XGBRegressor(**params).fit(X, both).predict(X)
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.ptp(theirs))
