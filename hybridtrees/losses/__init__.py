"""Losses of boosting, with their links and their rules for leaf values.

All losses are defined in registry.py; their names can be imported from here.
"""

from hybridtrees.losses import (
    crossed,  # which adds to the registry
    registry,
)
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
from hybridtrees.losses.crossed import *  # noqa: F403
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
__all__ += [*registry.__all__, *crossed.__all__]
