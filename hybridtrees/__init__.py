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

from hybridtrees._version import __version__

if TYPE_CHECKING:
    from hybridtrees import callbacks, datasets, inspection, metrics
    from hybridtrees._compare import compare
    from hybridtrees._persistence import load
    from hybridtrees._predict_batches import predict_batches
    from hybridtrees.auto.estimators import AutoClassifier, AutoRegressor
    from hybridtrees.core.bins.mapper import BinMapper
    from hybridtrees.core.bins.matrix import BinnedMatrix
    from hybridtrees.core.bins.sketch import QuantileSketch
    from hybridtrees.ensembles.adaboost import AdaBoostClassifier, AdaBoostRegressor
    from hybridtrees.ensembles.averaging import ModelAverageClassifier, ModelAverageRegressor
    from hybridtrees.ensembles.bagging import BaggingClassifier, BaggingRegressor
    from hybridtrees.ensembles.mixture import MixtureOfExpertsClassifier, MixtureOfExpertsRegressor
    from hybridtrees.ensembles.pasting import PastingClassifier, PastingRegressor
    from hybridtrees.ensembles.stacking import StackingClassifier, StackingRegressor
    from hybridtrees.ensembles.voting import VotingClassifier, VotingRegressor
    from hybridtrees.exchange.catboost import from_catboost
    from hybridtrees.exchange.lightgbm import from_lightgbm
    from hybridtrees.exchange.sklearn import from_sklearn
    from hybridtrees.exchange.xgboost import from_xgboost
    from hybridtrees.linear.classifier import LogisticClassifier
    from hybridtrees.linear.regressor import LinearRegressor, linear_path
    from hybridtrees.models.cart.estimators import CARTClassifier, CARTRegressor
    from hybridtrees.models.eblr.estimators import EBLRClassifier, EBLRRegressor
    from hybridtrees.models.forest.estimators import (
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from hybridtrees.models.forest.imputer import ProximityImputer
    from hybridtrees.models.gradient_boosting.estimators import (
        GradientBoostingClassifier,
        GradientBoostingRegressor,
    )
    from hybridtrees.models.linear_tree.estimators import LinearTreeClassifier, LinearTreeRegressor
    from hybridtrees.models.linear_tree.forest import LinearForestClassifier, LinearForestRegressor
    from hybridtrees.models.plgb.estimators import PLGBClassifier, PLGBRegressor
    from hybridtrees.models.rerf.estimators import RERFClassifier, RERFRegressor
    from hybridtrees.models.xgb.estimators import (
        XGBClassifier,
        XGBRegressor,
        XGBRFClassifier,
        XGBRFRegressor,
    )
    from hybridtrees.prepare import DateFeatures
    from hybridtrees.selection import cv, split_rows, tune
    from hybridtrees.store.building import bin_to_disk
    from hybridtrees.store.reader import BinnedStore

# Imported on first use: a program that uses one family does not wait for the others.
_LAZY_MODULES = {
    "_compare": ("compare",),
    "_persistence": ("load",),
    "_predict_batches": ("predict_batches",),
    "auto.estimators": ("AutoClassifier", "AutoRegressor"),
    "core.bins.mapper": ("BinMapper",),
    "core.bins.matrix": ("BinnedMatrix",),
    "core.bins.sketch": ("QuantileSketch",),
    "ensembles.adaboost": ("AdaBoostClassifier", "AdaBoostRegressor"),
    "ensembles.averaging": ("ModelAverageClassifier", "ModelAverageRegressor"),
    "ensembles.bagging": ("BaggingClassifier", "BaggingRegressor"),
    "ensembles.mixture": ("MixtureOfExpertsClassifier", "MixtureOfExpertsRegressor"),
    "ensembles.pasting": ("PastingClassifier", "PastingRegressor"),
    "ensembles.stacking": ("StackingClassifier", "StackingRegressor"),
    "ensembles.voting": ("VotingClassifier", "VotingRegressor"),
    "exchange.catboost": ("from_catboost",),
    "exchange.lightgbm": ("from_lightgbm",),
    "exchange.sklearn": ("from_sklearn",),
    "exchange.xgboost": ("from_xgboost",),
    "linear.classifier": ("LogisticClassifier",),
    "linear.regressor": ("LinearRegressor", "linear_path"),
    "models.cart.estimators": ("CARTClassifier", "CARTRegressor"),
    "models.eblr.estimators": ("EBLRClassifier", "EBLRRegressor"),
    "models.forest.estimators": (
        "ExtraTreesClassifier",
        "ExtraTreesRegressor",
        "RandomForestClassifier",
        "RandomForestRegressor",
    ),
    "models.forest.imputer": ("ProximityImputer",),
    "models.gradient_boosting.estimators": (
        "GradientBoostingClassifier",
        "GradientBoostingRegressor",
    ),
    "models.linear_tree.estimators": ("LinearTreeClassifier", "LinearTreeRegressor"),
    "models.linear_tree.forest": ("LinearForestClassifier", "LinearForestRegressor"),
    "models.plgb.estimators": ("PLGBClassifier", "PLGBRegressor"),
    "models.rerf.estimators": ("RERFClassifier", "RERFRegressor"),
    "models.xgb.estimators": ("XGBClassifier", "XGBRFClassifier", "XGBRFRegressor", "XGBRegressor"),
    "prepare": ("DateFeatures",),
    "selection": ("cv", "split_rows", "tune"),
    "store.building": ("bin_to_disk",),
    "store.reader": ("BinnedStore",),
}
# Names of other libraries for modules.
_MODULE_ALIASES = {"callback": "callbacks"}
_PUBLIC_MODULES = ("callbacks", "datasets", "inspection", "metrics")
_MODULE_OF = {name: module for module, names in _LAZY_MODULES.items() for name in names}

__all__ = [
    "AdaBoostClassifier",
    "AdaBoostRegressor",
    "AutoClassifier",
    "AutoRegressor",
    "BaggingClassifier",
    "BaggingRegressor",
    "BinMapper",
    "BinnedMatrix",
    "BinnedStore",
    "CARTClassifier",
    "CARTRegressor",
    "DateFeatures",
    "EBLRClassifier",
    "EBLRRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "LinearForestClassifier",
    "LinearForestRegressor",
    "LinearRegressor",
    "LinearTreeClassifier",
    "LinearTreeRegressor",
    "LogisticClassifier",
    "MixtureOfExpertsClassifier",
    "MixtureOfExpertsRegressor",
    "ModelAverageClassifier",
    "ModelAverageRegressor",
    "PLGBClassifier",
    "PLGBRegressor",
    "PastingClassifier",
    "PastingRegressor",
    "ProximityImputer",
    "QuantileSketch",
    "RERFClassifier",
    "RERFRegressor",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "StackingClassifier",
    "StackingRegressor",
    "VotingClassifier",
    "VotingRegressor",
    "XGBClassifier",
    "XGBRFClassifier",
    "XGBRFRegressor",
    "XGBRegressor",
    "__version__",
    "bin_to_disk",
    "callbacks",
    "compare",
    "cv",
    "datasets",
    "from_catboost",
    "from_lightgbm",
    "from_sklearn",
    "from_xgboost",
    "inspection",
    "linear_path",
    "load",
    "metrics",
    "predict_batches",
    "split_rows",
    "tune",
]


if not TYPE_CHECKING:  # for type checkers, a name that is not there is an error

    def __getattr__(name: str) -> Any:
        """Import a family, a function or a module on first use."""
        if name in (*_PUBLIC_MODULES, *_MODULE_ALIASES):
            return importlib.import_module(f"hybridtrees.{_MODULE_ALIASES.get(name, name)}")
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'hybridtrees' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"hybridtrees.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
