"""Maps from held-out probabilities to calibrated ones: one temperature, or isotonic regressions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybridtrees._persistence import register
from hybridtrees.core.base.checks import Checked, check_array, check_numbers, check_type
from hybridtrees.core.base.exact_sum import exact_mean

CALIBRATIONS = ("temperature", "isotonic")

_COLDEST, _HOTTEST = 0.25, 4.0
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_STEPS = 40

# Least probability in the held-out loss: that of a class which a fold has not seen is 0.
FLOOR = 1e-6


def right_probabilities(proba: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the probabilities of the observed classes, (..., n_rows), none of them 0."""
    return np.asarray(np.clip(proba[..., np.arange(len(codes)), codes], FLOOR, 1.0))


def heated(proba: np.ndarray, temperature: float) -> np.ndarray:
    """Return probabilities whose logarithms are divided by a temperature (Guo et al. 2017)."""
    if temperature == 1.0:
        return proba
    logs = np.log(np.maximum(proba, np.finfo(np.float64).tiny)) / temperature
    logs -= logs.max(axis=1, keepdims=True)
    shares = np.exp(logs)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def find_temperature(proba: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> float:
    """Return the temperature of the least log-loss, which is convex in its inverse.

    1 if the gain may be chance: a parameter must raise the likelihood by more than half the
    logarithm of the number of rows (BIC).
    """

    def loss(inverse: float) -> float:
        right = right_probabilities(heated(proba, 1.0 / inverse), codes)
        return float(exact_mean(-np.log(right), weight))

    low, high = 1.0 / _HOTTEST, 1.0 / _COLDEST
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    found = [loss(inner[0]), loss(inner[1])]
    for _ in range(_STEPS):
        if high - low < 1e-3:
            break
        if found[0] <= found[1]:
            high, inner[1], found[1] = inner[1], inner[0], found[0]
            inner[0] = high - _GOLDEN * (high - low)
            found[0] = loss(inner[0])
        else:
            low, inner[0], found[0] = inner[0], inner[1], found[1]
            inner[1] = low + _GOLDEN * (high - low)
            found[1] = loss(inner[1])
    best = 2.0 / (low + high)
    gain = (loss(1.0) - loss(1.0 / best)) * len(codes)
    return best if gain > 0.5 * math.log(len(codes)) else 1.0


@register
class Temperature(Checked):
    """One temperature for all classes."""

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature

    @classmethod
    def learn(cls, proba: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> Temperature:
        """Find the temperature of the least log-loss."""
        return cls(find_temperature(proba, codes, weight))

    def apply(self, proba: np.ndarray) -> np.ndarray:
        """Return calibrated probabilities."""
        return heated(proba, self.temperature)

    def check_classes(self, n_classes: int) -> None:
        """Refuse another number of classes: any fits."""

    def _check_state(self) -> None:
        if not 0 < check_type(self, "temperature", float) < math.inf:
            raise ValueError(f"a temperature must be positive, got {self.temperature}")


@register
class Isotonic(Checked):
    """An isotonic regression for each class, or for the second of two (Zadrozny and Elkan 2002)."""

    def __init__(self, points: list[np.ndarray], levels: list[np.ndarray]) -> None:
        self.points, self.levels = points, levels

    @classmethod
    def learn(cls, proba: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> Isotonic:
        """Fit the regressions of the indicator of each class on its probability."""
        n_classes = proba.shape[1]
        points, levels = [], []
        for k in (1,) if n_classes == 2 else range(n_classes):
            x, y = _steps(proba[:, k], codes == k, weight)
            points.append(x)
            levels.append(y)
        return cls(points, levels)

    def apply(self, proba: np.ndarray) -> np.ndarray:
        """Return calibrated probabilities."""
        if len(self.points) == 1:
            second = np.interp(proba[:, -1], self.points[0], self.levels[0])
            return np.column_stack([1.0 - second, second])
        pairs = zip(proba.T, self.points, self.levels, strict=True)
        found = np.column_stack([np.interp(p, x, y) for p, x, y in pairs])
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def check_classes(self, n_classes: int) -> None:
        """Refuse another number of classes."""
        if n_classes < 2 or len(self.points) != (1 if n_classes == 2 else n_classes):
            raise ValueError("the isotonic regressions are about other classes")

    def _check_state(self) -> None:
        check_type(self, "points", list)
        check_type(self, "levels", list)
        if not self.points or len(self.points) != len(self.levels):
            raise ValueError("isotonic regressions must have points and levels")
        for x, y in zip(self.points, self.levels, strict=True):
            check_array(x, "points of an isotonic regression", "f8", ["n"])
            check_array(y, "levels of an isotonic regression", "f8", [len(x)])
            check_numbers(x, "points of an isotonic regression", 0.0, 1.0 + 1e-6)
            check_numbers(y, "levels of an isotonic regression", 1e-300, 1.0 + 1e-6)
            if not len(x) or np.any(np.diff(x) < 0) or np.any(np.diff(y) < 0):
                raise ValueError("an isotonic regression must rise")


def _steps(
    proba: np.ndarray, came: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return points and levels of an isotonic regression, with lines between its blocks.

    No level is 0 or 1: even the level of a block of all m rows is 1 / (m + 2) away from them
    (Laplace's rule of succession).
    """
    from scipy.optimize import isotonic_regression

    points, place = np.unique(proba, return_inverse=True)
    weight = np.ones(len(proba)) if weight is None else weight
    mass = np.bincount(place, weight, len(points))
    share = np.bincount(place, weight * came, len(points)) / mass
    found = isotonic_regression(share, weights=mass)
    edges = found.blocks
    ends = np.unique(np.concatenate([edges[:-1], edges[1:] - 1]))
    least = 1.0 / (len(proba) + 2.0)
    return points[ends], np.clip(found.x[ends], least, 1.0 - least)


def learn_calibration(
    name: str, proba: np.ndarray, codes: np.ndarray, weight: np.ndarray | None
) -> Any:
    """Learn the calibration of a name; rows of weight 0 do not count."""
    if weight is not None:
        used = weight > 0
        proba, codes, weight = proba[used], codes[used], weight[used]
    kind: Any = {"temperature": Temperature, "isotonic": Isotonic}[name]
    return kind.learn(np.clip(proba, 0.0, 1.0), codes, weight)
