"""What is left of a target after a regression, in the forms that trees of EBLR are grown on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Predictions of a count that are not positive are put at this share of the mean count.
_MIN_COUNT = 1e-6


def _poisson(y: Floats, prediction: Floats) -> Floats:
    """Signed roots of the deviances of counts."""
    rate = np.maximum(prediction, max(_MIN_COUNT * float(y.mean()), np.finfo(float).tiny))
    with np.errstate(divide="ignore", invalid="ignore"):
        log_part = np.where(y > 0, y * (np.log(y) - np.log(rate)), 0.0)
    deviance = np.maximum(2.0 * (log_part - y + rate), 0.0)
    return np.sign(y - rate) * np.sqrt(deviance)


REGRESSION: dict[str, Callable[[Floats, Floats], Floats]] = {
    "linear": lambda y, prediction: y - prediction,
    "absolute": lambda y, prediction: np.abs(y - prediction),
    "squared": lambda y, prediction: (y - prediction) ** 2,
    "exponential": lambda y, prediction: -np.expm1(-np.abs(y - prediction)),
    "poisson": _poisson,
}


def _hamming(codes: NDArray, raw: Floats) -> Floats:
    """1 where the most probable class is a wrong one."""
    best = raw[:, 0] > 0 if raw.shape[1] == 1 else raw.argmax(axis=1)
    return (best != codes).astype(np.float64)


def _probability(codes: NDArray, raw: Floats) -> Floats:
    """Return indicators of the classes less their probabilities; of two, for the second alone."""
    if raw.shape[1] == 1:
        with np.errstate(over="ignore"):
            return (codes == 1) - 1.0 / (1.0 + np.exp(-raw[:, 0]))
    rest = -np.exp(raw - log_sum(raw)[:, None])
    rest[np.arange(len(codes)), codes] += 1.0
    return rest


def log_sum(raw: Floats) -> Floats:
    """Logarithm of the sum of exponentials along the rows."""
    top = raw.max(axis=1)
    return top + np.log(np.exp(raw - top[:, None]).sum(axis=1))


def deviance(codes: NDArray, raw: Floats) -> Floats:
    """Minus the logarithm of the probability of the class that a row is in."""
    if raw.shape[1] == 1:
        return np.logaddexp(0.0, np.where(codes == 1, -raw[:, 0], raw[:, 0]))
    return log_sum(raw) - raw[np.arange(len(codes)), codes]


CLASSIFICATION: dict[str, Callable[[NDArray, Floats], Floats]] = {
    "hamming": _hamming,
    "probability": _probability,
    "deviance": deviance,
}
