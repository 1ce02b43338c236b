"""The models that the suites measure: one row for each family and each way to search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import hybridtrees

from .common import N_TREES

BOOSTING = {"n_estimators": N_TREES, "learning_rate": 0.1, "random_state": 0}
FOREST = {"n_estimators": N_TREES, "random_state": 0}


@dataclass(frozen=True)
class Recipe:
    """A model, and up to which size it is measured."""

    family: str  # the class is this and Regressor or Classifier
    parameters: dict[str, Any] = field(default_factory=dict)
    max_rows: int = 1_000_000
    classes: bool = True  # whether it is measured on more than two classes
    sparse: bool = False  # whether it is measured on sparse tables


RECIPES = {
    "xgb": Recipe("XGB", {**BOOSTING, "max_depth": 6}, sparse=True),
    "xgb lossguide": Recipe(
        "XGB", {**BOOSTING, "max_depth": 0, "max_leaves": 31, "grow_policy": "lossguide"}
    ),
    "xgb exact": Recipe("XGB", {**BOOSTING, "tree_method": "exact"}, 100_000, classes=False),
    "xgb approx": Recipe("XGB", {**BOOSTING, "tree_method": "approx"}, 100_000, classes=False),
    "gb": Recipe("GradientBoosting", BOOSTING, sparse=True),
    "gb exact": Recipe("GradientBoosting", {**BOOSTING, "splitter": "exact"}, 100_000, False),
    "plgb": Recipe("PLGB", BOOSTING, classes=False),
    "plgb additive": Recipe("PLGB", {**BOOSTING, "leaf_fit": "additive"}, 100_000, False),
    "cart": Recipe("CART", {"max_depth": 12, "random_state": 0}, sparse=True),
    "cart hist": Recipe("CART", {"splitter": "hist", "max_depth": 12, "random_state": 0}),
    "forest": Recipe("RandomForest", FOREST, 100_000, classes=False, sparse=True),
    "extra trees": Recipe("ExtraTrees", FOREST, 100_000, classes=False),
    "adaboost": Recipe("AdaBoost", {"n_estimators": N_TREES, "random_state": 0}, 100_000),
    "bagging": Recipe("Bagging", FOREST, 100_000, classes=False),
    "pasting": Recipe("Pasting", FOREST, classes=False),
    "linear": Recipe("Linear", sparse=True),
    "linear tree": Recipe("LinearTree", {"max_depth": 4}, 100_000, classes=False),
    "linear forest": Recipe("LinearForest", {**FOREST, "n_estimators": 5}, 10_000, classes=False),
    "rerf": Recipe("RERF", FOREST, 100_000, classes=False),
    "eblr": Recipe("EBLR", {"n_rules": 10}, 100_000, classes=False),
    "voting": Recipe("Voting", {}, 100_000, classes=False),
    "stacking": Recipe("Stacking", {}, 100_000, classes=False),
    "average": Recipe("ModelAverage", {}, 100_000, classes=False),
    "auto": Recipe("Auto", {"quality": 2, "random_state": 0}, 10_000, classes=False),
    "mixture": Recipe(
        "MixtureOfExperts", {"n_restarts": 1, "random_state": 0}, 100_000, classes=False
    ),
}


def make_estimator(name: str, task: str, n_jobs: int, **more: Any) -> Any:
    """Build a model that is not fitted."""
    recipe = RECIPES[name]
    kind = "Regressor" if task == "regression" else "Classifier"
    family = "Logistic" if (recipe.family, kind) == ("Linear", "Classifier") else recipe.family
    cls: Callable[..., Any] = getattr(hybridtrees, f"{family}{kind}")
    parameters = dict(recipe.parameters)
    if recipe.family in ("Voting", "Stacking", "ModelAverage"):
        # What a table needs goes to the members.
        members = {name: make_estimator(name, task, n_jobs, **more) for name in ("linear", "gb")}
        parameters["estimators"], more = list(members.items()), {}
    if recipe.family == "Voting" and kind == "Classifier":
        parameters["voting"] = "soft"
    return cls(**parameters, **more, n_jobs=n_jobs)
