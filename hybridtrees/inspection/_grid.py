"""Values of a feature at which a model is asked for its partial dependence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hybridtrees.inspection._columns import Columns, is_missing

GRIDS = ("linear", "quantile")


def weighted_quantiles(
    values: np.ndarray, weight: np.ndarray | None, shares: np.ndarray
) -> np.ndarray:
    """Smallest values below which at least such shares of the weight lie.

    Where a share falls just between two values it is their mean, so that a weight of two is the
    same as a row given twice.
    """
    order = np.argsort(values, kind="stable")
    values = values[order]
    weight = np.ones(len(values)) if weight is None else weight[order].astype(np.float64)
    values, weight = values[weight > 0], weight[weight > 0]
    total = np.cumsum(weight)
    targets = np.asarray(shares, dtype=np.float64) * total[-1]
    slack = 1e-12 * total[-1]  # the sums are rounded
    low = np.minimum(np.searchsorted(total, targets - slack, side="left"), len(values) - 1)
    high = np.minimum(np.searchsorted(total, targets + slack, side="right"), len(values) - 1)
    return (values[low] + values[high]) / 2


def feature_grid(
    columns: Columns,
    index: int,
    labels: np.ndarray | None,
    weight: np.ndarray | None,
    resolution: int,
    percentiles: tuple[float, float],
    grid: str,
) -> np.ndarray:
    """Grid of one feature: levels of a category, the few values of a number, or quantiles."""
    values = columns.column(index)
    known = ~is_missing(values)
    if not known.any():
        raise ValueError(f"column {index} of X holds no value at all: give its custom_values")
    values = values[known]
    if labels is not None:
        return _levels(values, labels)
    distinct = np.unique(values.astype(np.float64) if values.dtype.kind == "O" else values)
    if len(distinct) < resolution:
        return distinct
    weight = None if weight is None else weight[known]
    if weight is not None and not (weight > 0).any():
        weight = None
    shares = np.array(percentiles)
    if grid == "quantile":
        shares = np.linspace(*percentiles, resolution)
        return np.unique(weighted_quantiles(values.astype(np.float64), weight, shares))
    low, high = weighted_quantiles(values.astype(np.float64), weight, shares)
    if low == high:
        raise ValueError(
            f"percentiles {percentiles} of column {index} of X are equal ({low}): choose others, "
            'grid="quantile", or custom_values'
        )
    return np.linspace(low, high, resolution)


def _levels(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Levels that occur, those known to the model first and in its order."""
    place = {str(label): k for k, label in enumerate(labels.tolist())}

    def rank(level: Any) -> tuple[int, str]:
        text = str(float(level)) if labels.dtype.kind == "f" else str(level)
        return place.get(text, len(place)), text

    levels = sorted(dict.fromkeys(values.tolist()), key=rank)
    if any(isinstance(level, str) for level in levels):
        return np.array(levels, dtype=object)
    return np.array(levels)


def custom_grids(columns: Columns, given: Mapping[Any, Any] | None) -> dict[int, np.ndarray]:
    """Grids that the caller has given, by the number of their column."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(
            f"custom_values must be a dict from features to values, got {type(given).__name__}"
        )
    grids = {}
    for feature, points in given.items():
        values = np.asarray(points)
        if values.dtype.kind in "UST":
            values = values.astype(object)
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(
                f"custom_values[{feature!r}] must be a sequence of at least one value, got the "
                f"shape {values.shape}"
            )
        grids[columns.index(feature, "custom_values")] = values
    return grids
