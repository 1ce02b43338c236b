"""Residuals of a regression, the targets of the trees of EBLR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Minimum prediction of a count, as a share of the mean count.
_MIN_COUNT = 1e-6


def _poisson(y: Floats, prediction: Floats) -> Floats:
    """Return the signed roots of the Poisson deviances."""
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


def _hamming(codes: NDArray[Any], raw: Floats) -> Floats:
    """Return 1 for misclassified rows, else 0."""
    best = raw[:, 0] > 0 if raw.shape[1] == 1 else raw.argmax(axis=1)
    return np.asarray(best != codes, dtype=np.float64)


def _probability(codes: NDArray[Any], raw: Floats) -> Floats:
    """Return class indicators minus probabilities; of two classes, for the second alone."""
    if raw.shape[1] == 1:
        with np.errstate(over="ignore"):
            return np.asarray((codes == 1) - 1.0 / (1.0 + np.exp(-raw[:, 0])))
    rest = -np.exp(raw - log_sum(raw)[:, None])
    rest[np.arange(len(codes)), codes] += 1.0
    return rest


def log_sum(raw: Floats) -> Floats:
    """Return the log-sum-exp of each row."""
    top = raw.max(axis=1)
    return np.asarray(top + np.log(np.exp(raw - top[:, None]).sum(axis=1)))


def deviance(codes: NDArray[Any], raw: Floats) -> Floats:
    """Return the negative log-probability of each row's class."""
    if raw.shape[1] == 1:
        return np.logaddexp(0.0, np.where(codes == 1, -raw[:, 0], raw[:, 0]))
    return np.asarray(log_sum(raw) - raw[np.arange(len(codes)), codes])


CLASSIFICATION: dict[str, Callable[[NDArray[Any], Floats], Floats]] = {
    "hamming": _hamming,
    "probability": _probability,
    "deviance": deviance,
}
