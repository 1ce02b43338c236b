"""The families that are compared, and what is tried of each.

A family is a row of `FAMILIES`. One whose classes the package does not have is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

import hybridtrees

Setting = dict[str, Any]


@dataclass(frozen=True)
class Stopping:
    """How a family finds the number of its rounds on validation rows."""

    parameter: str  # The number of rounds; a setting holds the most that are tried
    # Constructor arguments that make it stop early; left out of the final fit
    arguments: dict[str, Any]
    # From validation rows and target to arguments of `fit`
    fit_arguments: Callable[[Any, np.ndarray], dict[str, Any]]
    rounds: Callable[[Any], int]  # From a fitted model to the number of rounds that were best


@dataclass(frozen=True)
class Family:
    """One model of the comparison."""

    key: str  # What users call it
    name: str  # What tables call it
    # Names of classes of the package, or classes
    regressor: Any
    classifier: Any
    # Each from a parameter to the values to try, all combinations of which are settings; the
    # first settings are the likeliest to do well, since a budget may end the search
    grids: Sequence[dict[str, Sequence[Any]]] = ({},)
    fixed: dict[str, Any] = field(default_factory=dict)  # Further arguments of the constructor
    stopping: Stopping | None = None
    only: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Grids of classification, where they are others
    class_grids: Sequence[dict[str, Sequence[Any]]] | None = None

    def settings(self, task: str = "regression") -> list[Setting]:
        """All settings, in the order in which they are tried."""
        grids = self.grids
        if task == "classification" and self.class_grids is not None:
            grids = self.class_grids
        return [
            dict(zip(grid, values, strict=True))
            for grid in grids
            for values in product(*grid.values())
        ]

    def estimator(self, task: str) -> Any:
        """Return the class for a task."""
        kind = self.regressor if task == "regression" else self.classifier
        return getattr(hybridtrees, kind) if isinstance(kind, str) else kind

    def exists(self) -> bool:
        """Whether the package has the classes."""
        return all(
            not isinstance(kind, str) or kind in hybridtrees.__all__
            for kind in (self.regressor, self.classifier)
        )

    def make(self, task: str, setting: Setting, **common: Any) -> Any:
        """Build an estimator."""
        kind = self.estimator(task)
        estimator = kind(**{**self.fixed, **self.only.get(task, {}), **setting})
        known = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else ()
        common = {key: value for key, value in common.items() if key in known}
        return estimator.set_params(**common) if common else estimator


class ConstantRegressor:
    """Baseline that predicts the mean of the training target."""

    def fit(self, X: Any, y: np.ndarray) -> ConstantRegressor:
        """Remember the mean of `y`."""
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the mean for every row."""
        return np.full(_n_rows(X), self.mean_)


class ConstantClassifier:
    """Baseline that predicts the shares of the classes in training."""

    def fit(self, X: Any, y: np.ndarray) -> ConstantClassifier:
        """Remember the share of each class."""
        self.classes_, counts = np.unique(y, return_counts=True)
        self.share_ = counts / len(y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the shares for every row."""
        return np.tile(self.share_, (_n_rows(X), 1))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most frequent class for every row."""
        return np.full(_n_rows(X), self.classes_[self.share_.argmax()])


def _n_rows(X: Any) -> int:
    return len(next(iter(X.values()))) if isinstance(X, dict) else X.shape[0]


_PATIENCE = 30

_XGB_STOPPING = Stopping(
    "n_estimators",
    {"early_stopping_rounds": _PATIENCE},
    lambda X, y: {"eval_set": [(X, y)], "verbose": False},
    lambda model: model.best_iteration + 1,
)
_GB_STOPPING = Stopping(
    "n_estimators",
    {"n_iter_no_change": _PATIENCE, "tol": 0.0},
    lambda X, y: {"X_val": X, "y_val": y},
    lambda model: int(np.argmin(model.validation_scores_)) + 1,
)
_EBLR_STOPPING = Stopping(
    "n_rules",
    {"n_iter_no_change": 5},
    lambda X, y: {"X_val": X, "y_val": y},
    lambda model: model.n_rules_,
)
_PLGB_STOPPING = Stopping(
    "n_estimators",
    {"early_stopping_rounds": _PATIENCE},
    lambda X, y: {"X_val": X, "y_val": y},
    lambda model: model.best_iteration + 1,
)

_LINE = {"missing_indicator": True}

FAMILIES: tuple[Family, ...] = (
    Family(
        "linear",
        "linear / logistic regression",
        "LinearRegressor",
        "LogisticClassifier",
        (
            {"penalty": ["ridge", "lasso"], "alpha": ["cv"]},
            {"penalty": ["elasticnet"], "alpha": ["cv"], "l1_ratio": [0.5]},
            {"penalty": [None]},
        ),
        _LINE,
        only={"classification": {"alphas": 15, "cv": 3}},
    ),
    Family(
        "cart",
        "CART",
        "CARTRegressor",
        "CARTClassifier",
        ({"max_depth": [4, 6, 3, 8, 2, 5, 12], "min_samples_leaf": [5, 1, 20]},),
    ),
    Family(
        "forest",
        "random forest",
        "RandomForestRegressor",
        "RandomForestClassifier",
        (
            {"max_depth": [None], "max_features": ["sqrt", 0.5]},
            {"max_depth": [8], "max_features": [0.5]},
            {"max_depth": [4], "max_features": ["sqrt"]},
            {"max_depth": [None], "max_features": [1.0]},
            {"max_depth": [6], "max_features": [1.0], "min_samples_leaf": [5]},
        ),
        {"n_estimators": 100},
    ),
    Family(
        "adaboost",
        "AdaBoost",
        "AdaBoostRegressor",
        "AdaBoostClassifier",
        (
            {"max_depth": [3], "learning_rate": [0.5, 0.1]},
            {"max_depth": [1], "learning_rate": [0.5]},
        ),
        {"n_estimators": 100},
    ),
    Family(
        "gb",
        "gradient boosting",
        "GradientBoostingRegressor",
        "GradientBoostingClassifier",
        (
            {"max_depth": [3, 2], "learning_rate": [0.1]},
            {"max_depth": [1, 4], "learning_rate": [0.1], "subsample": [0.7]},
        ),
        {"n_estimators": 500},
        _GB_STOPPING,
    ),
    Family(
        "xgb",
        "XGB",
        "XGBRegressor",
        "XGBClassifier",
        (
            {"max_depth": [3, 5], "learning_rate": [0.1], "subsample": [0.8]},
            {"max_depth": [2], "learning_rate": [0.05], "colsample_bytree": [0.7]},
            {"max_depth": [1], "learning_rate": [0.1]},
        ),
        {"n_estimators": 800},
        _XGB_STOPPING,
    ),
    Family(
        "linear_tree",
        "linear tree",
        "LinearTreeRegressor",
        "LinearTreeClassifier",
        ({"max_depth": [2, 3, 1, 5], "penalty": ["ridge"], "alpha": [0.001, 0.1]},),
        {"min_samples_leaf": 0.05, "max_bins": 32, "categorical_effects": True},
    ),
    Family(
        "linear_forest",
        "linear forest",
        "LinearForestRegressor",
        "LinearForestClassifier",
        ({"max_depth": [3, 1], "penalty": ["ridge"], "alpha": [0.01]},),
        {"n_estimators": 20, "min_samples_leaf": 0.05, "max_bins": 32, "categorical_effects": True},
        # Logistic regressions of each candidate take their time: half as many as at depth 3.
        only={"classification": {"n_estimators": 10}},
        class_grids=({"max_depth": [2, 1], "penalty": ["ridge"], "alpha": [0.01]},),
    ),
    Family(
        "rerf",
        "RERF",
        "RERFRegressor",
        "RERFClassifier",
        (
            {"max_depth": [4, 8, 2, None], "penalty": ["ridge"], "alpha": [0.01]},
            {"max_depth": [4], "penalty": ["lasso"], "alpha": ["cv"]},
        ),
        {"n_estimators": 50, **_LINE},
    ),
    Family(
        "eblr",
        "EBLR",
        "EBLRRegressor",
        "EBLRClassifier",
        (
            {"max_depth": [1, 2], "penalty": ["ridge"], "alpha": [0.001, 0.1]},
            {"max_depth": [3], "penalty": ["ridge"], "alpha": [0.001]},
            {"max_depth": [2], "penalty": ["lasso"], "alpha": ["cv"]},
        ),
        {"n_rules": 20, "early_stopping": None, **_LINE},
        _EBLR_STOPPING,
    ),
    Family(
        "plgb",
        "PLGB",
        "PLGBRegressor",
        "PLGBClassifier",
        (
            {"max_leaves": [8, 4, 16], "learning_rate": [0.1]},
            {"max_leaves": [4], "learning_rate": [0.1], "reg_lambda": [10.0]},
        ),
        {"n_estimators": 500},
        _PLGB_STOPPING,
    ),
    Family("baseline", "baseline (constant)", ConstantRegressor, ConstantClassifier),
    # No family of its own: the final models of the others, averaged.
    Family("ensemble", "ensemble of the others", "VotingRegressor", "VotingClassifier"),
)
# Not searched, and without learning curves.
BASELINE, ENSEMBLE = "baseline", "ensemble"


def choose_families(models: Sequence[Any] | None) -> list[Family]:
    """Return families by their keys, each once and in the order asked for; all of them for None."""
    known = {family.key: family for family in FAMILIES if family.exists()}
    if models is None:
        return list(known.values())
    if isinstance(models, str) or not len(models):
        raise ValueError(f"models must be a list of {', '.join(known)}, got {models!r}")
    chosen = {}
    for model in models:
        if isinstance(model, Family):
            chosen[model.key] = model
        elif model in known:
            chosen[model] = known[model]
        else:
            raise ValueError(f"models must be among {', '.join(known)}, got {model!r}")
    if list(chosen) in ([ENSEMBLE], [ENSEMBLE, BASELINE], [BASELINE, ENSEMBLE]):
        raise ValueError("models must name what the ensemble is made of, got 'ensemble' alone")
    return list(chosen.values())
