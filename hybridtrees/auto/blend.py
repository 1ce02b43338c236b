"""Weights of candidates by their held-out predictions, and the temperature of probabilities."""

from __future__ import annotations

import math

import numpy as np

from hybridtrees.core.base.exact_sum import exact_mean
from hybridtrees.ensembles.greedy import greedy_weights, log_losses, squared_losses

_ROUNDS = 40
_COLDEST, _HOTTEST = 0.25, 4.0
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_STEPS = 40

# The least probability of a class in the held-out loss: a class that a fold has not seen.
FLOOR = 1e-6


def right_probabilities(proba: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the probabilities of the classes that came, (..., n_rows), none of them 0."""
    return np.asarray(np.clip(proba[..., np.arange(len(codes)), codes], FLOOR, 1.0))


def row_losses(predictions: np.ndarray, target: np.ndarray, classify: bool) -> np.ndarray:
    """Return the loss of each row."""
    if classify:
        return np.asarray(-np.log(right_probabilities(predictions, target)))
    return np.asarray(np.square(predictions - target))


def held_out_losses(
    predictions: np.ndarray, target: np.ndarray, weight: np.ndarray | None, classify: bool
) -> np.ndarray:
    """Return the mean squared error, or the log-loss, of each candidate's predictions."""
    if classify:
        return np.asarray(log_losses(weight)(right_probabilities(predictions, target)))
    return np.asarray(squared_losses(target, weight)(predictions))


def blend(
    predictions: np.ndarray, target: np.ndarray, weight: np.ndarray | None, classify: bool
) -> np.ndarray:
    """Return weights of the candidates by greedy selection; predictions are by candidate, row."""
    if len(predictions) == 1:
        return np.ones(1)
    if classify:
        return greedy_weights(right_probabilities(predictions, target), log_losses(weight), _ROUNDS)
    return greedy_weights(predictions, squared_losses(target, weight), _ROUNDS)


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
