"""The forest that learns where residuals are large: no part of `uncertainty`, which is below it."""

from __future__ import annotations

from typing import Any


def spread_forest(owner: Any) -> Any:
    """Return an unfitted forest for the table of a model, with out-of-bag predictions."""
    from hybridtrees.models.forest.estimators import RandomForestRegressor

    return RandomForestRegressor(
        categorical_features=getattr(owner, "categorical_features", None),
        min_samples_leaf=20,
        oob_score=True,
        keep_rows=False,
        random_state=0,
        n_jobs=getattr(owner, "n_jobs", None),
    )
