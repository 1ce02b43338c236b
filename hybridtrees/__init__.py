"""hybridtrees: fast trees, forests and boosting, and their hybrids with regression."""

import importlib
from typing import TYPE_CHECKING, Any

try:
    from hybridtrees.core import _grow  # noqa: F401
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "the compiled kernels of hybridtrees are missing. If this is the source folder, leave it "
        "to use an installed hybridtrees, or build in place with: pip install -e ."
    ) from error

from hybridtrees._persistence import load
from hybridtrees._version import __version__
from hybridtrees.core.bins import BinMapper, BinnedMatrix
from hybridtrees.core.sketch import QuantileSketch

if TYPE_CHECKING:
    from hybridtrees import inspection
    from hybridtrees._compare import compare
    from hybridtrees.linear.classifier import LogisticClassifier
    from hybridtrees.linear.regressor import LinearRegressor, linear_path
    from hybridtrees.models.cart import CARTClassifier, CARTRegressor
    from hybridtrees.models.eblr import EBLRClassifier, EBLRRegressor
    from hybridtrees.models.forest import RandomForestClassifier, RandomForestRegressor
    from hybridtrees.models.gradient_boosting import (
        GradientBoostingClassifier,
        GradientBoostingRegressor,
    )
    from hybridtrees.models.linear_forest import LinearForestClassifier, LinearForestRegressor
    from hybridtrees.models.linear_tree import LinearTreeClassifier, LinearTreeRegressor
    from hybridtrees.models.plgb import PLGBClassifier, PLGBRegressor
    from hybridtrees.models.proximity import ProximityImputer
    from hybridtrees.models.rerf import RERFClassifier, RERFRegressor
    from hybridtrees.models.xgboosting import XGBClassifier, XGBRegressor

# Families are loaded when first asked for: a program that uses one does not wait for the others.
_HOMES = {
    "CARTClassifier": "hybridtrees.models.cart",
    "CARTRegressor": "hybridtrees.models.cart",
    "EBLRClassifier": "hybridtrees.models.eblr",
    "EBLRRegressor": "hybridtrees.models.eblr",
    "GradientBoostingClassifier": "hybridtrees.models.gradient_boosting",
    "GradientBoostingRegressor": "hybridtrees.models.gradient_boosting",
    "LinearForestClassifier": "hybridtrees.models.linear_forest",
    "LinearForestRegressor": "hybridtrees.models.linear_forest",
    "LinearRegressor": "hybridtrees.linear.regressor",
    "LinearTreeClassifier": "hybridtrees.models.linear_tree",
    "LinearTreeRegressor": "hybridtrees.models.linear_tree",
    "LogisticClassifier": "hybridtrees.linear.classifier",
    "PLGBClassifier": "hybridtrees.models.plgb",
    "PLGBRegressor": "hybridtrees.models.plgb",
    "ProximityImputer": "hybridtrees.models.proximity",
    "RERFClassifier": "hybridtrees.models.rerf",
    "RERFRegressor": "hybridtrees.models.rerf",
    "RandomForestClassifier": "hybridtrees.models.forest",
    "RandomForestRegressor": "hybridtrees.models.forest",
    "XGBClassifier": "hybridtrees.models.xgboosting",
    "XGBRegressor": "hybridtrees.models.xgboosting",
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
