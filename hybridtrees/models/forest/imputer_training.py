"""The target and the weights that the forests of an imputer are grown for."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np

from hybridtrees.input.validation import check_sample_weight, check_target_classification

TASKS = ("auto", "regression", "classification")

# Whole numbers are classes while there are few of them: at most so many, and rows for each.
_MAX_CLASSES = 20
_ROWS_OF_A_CLASS = 5


@dataclass(frozen=True)
class Training:
    """What the forests of one fit are grown for."""

    y: Any
    weight: np.ndarray | None
    is_classification: bool
    codes: np.ndarray | None  # where the target has classes
    n_classes: int

    @classmethod
    def read(cls, y: Any, sample_weight: Any, n_rows: int, task: str) -> Self:
        """Check what came with a table of so many rows."""
        weight = check_sample_weight(sample_weight, n_rows)
        is_classification = y is None or has_classes(y, task)
        codes, n_classes = None, 0
        if is_classification and y is not None:
            codes, classes = check_target_classification(y, n_rows)
            n_classes = len(classes)
        return cls(y, weight, is_classification, codes, n_classes)


def has_classes(y: Any, task: str) -> bool:
    """Return whether a target is one of classes; see `ProximityImputer` for "auto"."""
    if task != "auto":
        return task == "classification"
    if any(word in str(getattr(y, "dtype", "")).lower() for word in ("categor", "enum")):
        return True
    target = np.asarray(y)
    if target.dtype.kind == "O":
        if not all(isinstance(v, Real) and not isinstance(v, bool) for v in target.flat):
            return True
        target = target.astype(np.float64)
    if target.dtype.kind == "f" and np.any(target != np.floor(target)):
        return False
    if target.dtype.kind not in "iuf":
        return True
    few = max(2, min(_MAX_CLASSES, target.size // _ROWS_OF_A_CLASS))
    return len(np.unique(target)) <= few
