"""The estimators that the suites measure, one mixin per family."""

from __future__ import annotations

from hybridtrees import XGBClassifier, XGBRegressor

from .common import N_TREES

BOOSTING = {"n_estimators": N_TREES, "learning_rate": 0.1, "random_state": 0}


class XGBDepthWise:
    """XGBoost-style boosting level by level, as by default."""

    parameters = {"max_depth": 6}

    def make_estimator(self, task: str, n_jobs: int):
        kind = XGBRegressor if task == "regression" else XGBClassifier
        return kind(**BOOSTING, **self.parameters, n_jobs=n_jobs)


class XGBLossGuided(XGBDepthWise):
    """XGBoost-style boosting that splits the best leaf first."""

    parameters = {"max_depth": 0, "max_leaves": 31, "grow_policy": "lossguide"}
