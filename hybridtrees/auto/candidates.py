"""The models that take part, with their parameters: the one place to change them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees.auto.plan import Plan
from hybridtrees.linear.classifier import LogisticClassifier
from hybridtrees.linear.regressor import LinearRegressor
from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor
from hybridtrees.models.plgb.estimators import PLGBClassifier, PLGBRegressor
from hybridtrees.models.xgb.estimators import XGBClassifier, XGBRegressor

# A linear model has a column for each category: with more of them its sums of products cost more
# than all trees.
_MOST_COLUMNS = 500

# Fewer rows cannot tell one penalty from another.
_FEWEST_ROWS = 20

_TITLES = {
    "trees": "boosted trees",
    "small trees": "boosted trees of 8 leaves",
    "lines": "boosted trees with lines",
    "drawn lines": "boosted trees with lines, rows and features drawn",
    "steep lines": "boosted trees with many lines",
    "forest": "random forest",
    "linear": "linear model",
}


@dataclass(frozen=True)
class Candidate:
    """A model that may take part."""

    name: str
    estimator: Any
    boosted: bool = False  # stopped early by held-out rows

    @property
    def title(self) -> str:
        """What the summary calls it."""
        return title_of(self.name)


def title_of(name: str) -> str:
    """Return what the summary calls a candidate."""
    return _TITLES.get(name, name)


def n_linear_columns(values: Any, is_categorical: np.ndarray) -> int:
    """Return the number of columns that a linear model makes of a table."""
    count = int(np.count_nonzero(~is_categorical))
    for j in np.flatnonzero(is_categorical):
        column = values[:, [j]].toarray() if hasattr(values, "toarray") else values[:, j]
        count += len(np.unique(column[~np.isnan(column)]))
    return count


def make_candidates(
    plan: Plan, values: Any, is_categorical: np.ndarray, classify: bool
) -> list[Candidate]:
    """Return the candidates of a plan, in the order in which they are tried."""
    categorical = np.flatnonzero(is_categorical).tolist() or None
    boosting: dict[str, Any] = {
        "n_estimators": plan.n_rounds,
        "learning_rate": plan.learning_rate,
        "early_stopping_rounds": plan.patience,
        "categorical_features": categorical,
    }
    trees = XGBClassifier if classify else XGBRegressor
    lines = PLGBClassifier if classify else PLGBRegressor
    forest: Any = RandomForestClassifier if classify else RandomForestRegressor
    linear: Any = LogisticClassifier if classify else LinearRegressor
    slopes = {**boosting, **({} if plan.extrapolates else {"extrapolation_margin": 0.0})}
    made = []
    for name in plan.candidates:
        if name == "trees":
            # Features are drawn so that trees differ; rows differ from fold to fold.
            model: Any = trees(colsample_bynode=0.8, **boosting)
        elif name == "small trees":
            model = trees(
                colsample_bynode=0.8, max_depth=0, max_leaves=8,
                grow_policy="lossguide", **boosting,
            )  # fmt: skip
        elif name == "lines":
            model = lines(**slopes)
        elif name == "drawn lines":
            model = lines(subsample=0.8, colsample_bynode=0.5, **slopes)
        elif name == "steep lines":
            model = lines(max_leaf_features=10, **slopes)
        elif name == "forest":
            # Leaves with one row predict probabilities of 0 or 1, which is overconfident.
            few = {"min_samples_leaf": 5, "max_features": "sqrt"} if classify else {}
            model = forest(plan.n_trees, categorical_features=categorical, keep_rows=False, **few)
        else:
            n_columns = n_linear_columns(values, is_categorical)
            if n_columns > _MOST_COLUMNS or values.shape[0] < _FEWEST_ROWS:
                continue
            model = linear(penalty="ridge", alpha="cv", categorical_features=categorical)
        made.append(Candidate(name, model, name not in ("forest", "linear")))
    return made
