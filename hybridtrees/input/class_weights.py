"""Class weights: the parameter `class_weight`, and the row weights that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from hybridtrees.core.base.exact_sum import group_sums


def check_class_weight(given: Any, names: tuple[str, ...] = ("balanced",)) -> None:
    """Check `class_weight`: None, one of `names`, or a dict of finite factors."""
    if isinstance(given, Mapping):
        for label, factor in given.items():
            if not isinstance(factor, Real) or not 0 <= float(factor) < np.inf:
                raise ValueError(
                    "class_weight must hold finite numbers of at least 0, got "
                    f"{factor!r} for class {label!r}"
                )
    elif given is not None and not (isinstance(given, str) and given in names):
        allowed = ", ".join(map(repr, (None, *names)))
        raise ValueError(f"class_weight must be {allowed} or a dict, got {given!r}")


def class_factors(given: Any, target: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the weight of each class under "balanced" or a dict.

    A dict may name classes that are not in a fold, unless it misses one that is: a misspelled
    label would otherwise go unnoticed.
    """
    if isinstance(given, str):
        counts = np.bincount(target, minlength=len(classes))
        return len(target) / (len(classes) * np.maximum(counts, 1))
    labels = classes.tolist()
    unknown = [label for label in given if label not in labels]
    if unknown and any(label not in given for label in labels):
        raise ValueError(
            f"class_weight names {unknown[0]!r}, which is not among the classes {labels}"
        )
    return np.array([float(given.get(label, 1.0)) for label in labels])


def weight_rows(
    factors: np.ndarray, target: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return the weights of the rows times those of their classes."""
    rows: np.ndarray = factors[target] if weight is None else weight * factors[target]
    if not rows.any():
        raise ValueError("class_weight leaves no row with a positive weight")
    return rows


@dataclass(frozen=True)
class SampleFactors:
    """Class weights of the rows of a sample."""

    factors: np.ndarray | str  # weight of each class, or "balanced_subsample"
    target: np.ndarray  # class codes of the rows
    n_classes: int

    def __call__(self, counts: np.ndarray) -> np.ndarray:
        """Return the class weight of each row, given how often each is in the sample."""
        if not isinstance(self.factors, str):
            return np.asarray(self.factors[self.target])
        sums = group_sums(self.target, self.n_classes, counts)
        # A class with a sum of 0 has no rows in the sample: its weight does not matter.
        factors = sums.sum() / (self.n_classes * np.where(sums > 0, sums, 1.0))
        return np.asarray(factors[self.target])


def drawable_weight(
    factor: Callable[[np.ndarray], np.ndarray], target: np.ndarray, weight: np.ndarray | None
) -> np.ndarray | None:
    """Return the weights that rows are sampled with, 0 for those of classes of weight 0."""
    zero = factor(np.ones(len(target), dtype=np.int64)) == 0
    if not zero.any():
        return weight
    return np.where(zero, 0.0, 1.0 if weight is None else weight)
