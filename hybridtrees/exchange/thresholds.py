"""Thresholds of other libraries as ours: ``x <= threshold`` in float64 sends rows the same way.

A library that rounds a value to float32 before it compares sends all doubles that are rounded to
the same float32 to one side. The exact threshold in float64 is then the largest double that is
rounded to the last float32 on the left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# From here on doubles are rounded to an infinite float32.
_OVERFLOW = 2.0**128 - 2.0**103


def up_to_single(last_left: Any) -> np.ndarray:
    """Return the largest doubles that are rounded to the given float32 numbers.

    Numbers half-way between two float32 are rounded to the one whose last bit is 0.
    """
    last = np.asarray(last_left, dtype=np.float32)
    with np.errstate(all="ignore"):
        above = np.nextafter(last, np.float32(np.inf)).astype(np.float64)
        middle = (last.astype(np.float64) + above) / 2
    middle = np.where(last == np.finfo(np.float32).max, _OVERFLOW, middle)
    middle = np.where(last == -np.inf, -_OVERFLOW, middle)
    odd = (last.view(np.int32) & 1).astype(bool)
    # The infinities count as even, the numbers beside them as odd.
    edge = np.where(odd, np.nextafter(middle, -np.inf), middle)
    return np.where(last == np.inf, np.inf, edge)


def below_single(threshold: Any) -> np.ndarray:
    """Return the thresholds of ``float32(x) < threshold``, as in XGBoost; NaN for -inf."""
    threshold = np.asarray(threshold, dtype=np.float32)
    with np.errstate(over="ignore"):
        last = np.nextafter(threshold, np.float32(-np.inf))
    # Nothing is below -inf, and no threshold of ours says so.
    return np.where(threshold == -np.inf, np.nan, up_to_single(last))


def at_most_single(threshold: Any) -> np.ndarray:
    """Return the thresholds of ``float32(x) <= threshold`` with doubles, as in scikit-learn."""
    threshold = np.asarray(threshold, dtype=np.float64)
    with np.errstate(over="ignore"):
        last = threshold.astype(np.float32)
        before = np.nextafter(last, np.float32(-np.inf))
    beyond = last.astype(np.float64) > threshold
    return up_to_single(np.where(beyond, before, last))
