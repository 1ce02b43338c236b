"""Losses: what boosting minimises, how leaves are re-estimated, how scores become predictions."""

from hybridtrees._persistence import register
from hybridtrees.losses._base import Loss
from hybridtrees.losses._classes import ExponentialLoss, HingeLoss, Logistic, Softmax
from hybridtrees.losses._custom import CallableLoss
from hybridtrees.losses._groups import group_rows, quantile
from hybridtrees.losses._lookup import (
    FRIEDMAN_LOSSES,
    XGBOOST_OBJECTIVES,
    friedman_loss,
    xgboost_loss,
)
from hybridtrees.losses._positive import GammaDeviance, PoissonDeviance, TweedieDeviance
from hybridtrees.losses._regression import (
    AbsoluteError,
    ExpectileError,
    HuberError,
    PseudoHuberError,
    QuantileError,
    SmoothAbsoluteError,
    SmoothQuantileError,
    SquaredError,
    check_levels,
)

# All that a model file may hold; own functions are not among them, for they are code.
STORABLE = (
    SquaredError,
    AbsoluteError,
    HuberError,
    PseudoHuberError,
    QuantileError,
    SmoothAbsoluteError,
    SmoothQuantileError,
    ExpectileError,
    PoissonDeviance,
    GammaDeviance,
    TweedieDeviance,
    Logistic,
    ExponentialLoss,
    HingeLoss,
    Softmax,
)
for _loss in STORABLE:
    register(_loss)

__all__ = [
    "FRIEDMAN_LOSSES",
    "STORABLE",
    "XGBOOST_OBJECTIVES",
    "AbsoluteError",
    "CallableLoss",
    "ExpectileError",
    "ExponentialLoss",
    "GammaDeviance",
    "HingeLoss",
    "HuberError",
    "Logistic",
    "Loss",
    "PoissonDeviance",
    "PseudoHuberError",
    "QuantileError",
    "SmoothAbsoluteError",
    "SmoothQuantileError",
    "Softmax",
    "SquaredError",
    "TweedieDeviance",
    "check_levels",
    "friedman_loss",
    "group_rows",
    "quantile",
    "xgboost_loss",
]
