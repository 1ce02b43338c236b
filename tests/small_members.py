"""Members for ensembles that are made of named ones, and nothing for other estimators."""

from __future__ import annotations

from typing import Any

import hybridtrees as ht


def small_members(cls: type) -> dict[str, Any]:
    """Return the parameter `estimators` of a small ensemble, where a class has it."""
    if "estimators" not in cls().get_params(deep=False):
        return {}
    if cls.__name__.endswith("Classifier"):
        line: Any = ht.LogisticClassifier()
        tree: Any = ht.CARTClassifier(max_depth=3, max_features=1)
    else:
        line, tree = ht.LinearRegressor(), ht.CARTRegressor(max_depth=3, max_features=1)
    return {"estimators": [("line", line), ("tree", tree)]}
