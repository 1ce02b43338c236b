"""hybridtrees: fast trees, forests and boosting, and their hybrids with regression."""

import importlib
from typing import TYPE_CHECKING, Any

try:
    from hybridtrees.core.grow import _grow  # noqa: F401
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "the compiled kernels of hybridtrees are missing. If this is the source folder, leave it "
        "to use an installed hybridtrees, or build in place with: pip install -e ."
    ) from error

from hybridtrees._persistence import load
from hybridtrees._version import __version__
from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.bins.sketch import QuantileSketch

if TYPE_CHECKING:
    from hybridtrees import inspection
    from hybridtrees._compare import compare
    from hybridtrees.linear.classifier import LogisticClassifier
    from hybridtrees.linear.regressor import LinearRegressor, linear_path
    from hybridtrees.models.cart.estimators import CARTClassifier, CARTRegressor
    from hybridtrees.models.eblr.estimators import EBLRClassifier, EBLRRegressor
    from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor
    from hybridtrees.models.forest.imputer import ProximityImputer
    from hybridtrees.models.gradient_boosting.estimators import (
        GradientBoostingClassifier,
        GradientBoostingRegressor,
    )
    from hybridtrees.models.linear_tree.estimators import LinearTreeClassifier, LinearTreeRegressor
    from hybridtrees.models.linear_tree.forest import LinearForestClassifier, LinearForestRegressor
    from hybridtrees.models.plgb.estimators import PLGBClassifier, PLGBRegressor
    from hybridtrees.models.rerf.estimators import RERFClassifier, RERFRegressor
    from hybridtrees.models.xgb.estimators import XGBClassifier, XGBRegressor

# Families are loaded when first asked for: a program that uses one does not wait for the others.
_HOMES = {
    "CARTClassifier": "hybridtrees.models.cart.estimators",
    "CARTRegressor": "hybridtrees.models.cart.estimators",
    "EBLRClassifier": "hybridtrees.models.eblr.estimators",
    "EBLRRegressor": "hybridtrees.models.eblr.estimators",
    "GradientBoostingClassifier": "hybridtrees.models.gradient_boosting.estimators",
    "GradientBoostingRegressor": "hybridtrees.models.gradient_boosting.estimators",
    "LinearForestClassifier": "hybridtrees.models.linear_tree.forest",
    "LinearForestRegressor": "hybridtrees.models.linear_tree.forest",
    "LinearRegressor": "hybridtrees.linear.regressor",
    "LinearTreeClassifier": "hybridtrees.models.linear_tree.estimators",
    "LinearTreeRegressor": "hybridtrees.models.linear_tree.estimators",
    "LogisticClassifier": "hybridtrees.linear.classifier",
    "PLGBClassifier": "hybridtrees.models.plgb.estimators",
    "PLGBRegressor": "hybridtrees.models.plgb.estimators",
    "ProximityImputer": "hybridtrees.models.forest.imputer",
    "RERFClassifier": "hybridtrees.models.rerf.estimators",
    "RERFRegressor": "hybridtrees.models.rerf.estimators",
    "RandomForestClassifier": "hybridtrees.models.forest.estimators",
    "RandomForestRegressor": "hybridtrees.models.forest.estimators",
    "XGBClassifier": "hybridtrees.models.xgb.estimators",
    "XGBRegressor": "hybridtrees.models.xgb.estimators",
    "compare": "hybridtrees._compare",
    "linear_path": "hybridtrees.linear.regressor",
}

__all__ = [
    "BinMapper",
    "BinnedMatrix",
    "CARTClassifier",
    "CARTRegressor",
    "EBLRClassifier",
    "EBLRRegressor",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "LinearForestClassifier",
    "LinearForestRegressor",
    "LinearRegressor",
    "LinearTreeClassifier",
    "LinearTreeRegressor",
    "LogisticClassifier",
    "PLGBClassifier",
    "PLGBRegressor",
    "ProximityImputer",
    "QuantileSketch",
    "RERFClassifier",
    "RERFRegressor",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "XGBClassifier",
    "XGBRegressor",
    "__version__",
    "compare",
    "inspection",
    "linear_path",
    "load",
]


def __getattr__(name: str) -> Any:
    """Load a family, or the tools of inspection, when first asked for."""
    if name == "inspection":
        return importlib.import_module("hybridtrees.inspection")
    if name not in _HOMES:
        raise AttributeError(f"module 'hybridtrees' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
