"""Losses: what boosting minimises, how leaves are re-estimated, how scores become predictions.

The rows of registry.py are all of them; their names are importable from here.
"""

from hybridtrees.losses import registry
from hybridtrees.losses._base import Loss
from hybridtrees.losses._custom import CallableLoss
from hybridtrees.losses._groups import group_rows, quantile
from hybridtrees.losses._lookup import (
    FRIEDMAN_LOSSES,
    XGBOOST_OBJECTIVES,
    friedman_loss,
    lists_losses,
    xgboost_loss,
)
from hybridtrees.losses._rules import check_levels
from hybridtrees.losses.registry import *  # noqa: F403

STORABLE = tuple(registry.LOSSES.values())

__all__ = [
    "FRIEDMAN_LOSSES",
    "STORABLE",
    "XGBOOST_OBJECTIVES",
    "CallableLoss",
    "Loss",
    "check_levels",
    "friedman_loss",
    "group_rows",
    "lists_losses",
    "quantile",
    "xgboost_loss",
]
__all__ += registry.__all__
