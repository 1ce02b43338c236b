"""Weights of candidates by their held-out predictions."""

from __future__ import annotations

import numpy as np

from hybridtrees.ensembles.greedy import greedy_weights, log_losses, squared_losses
from hybridtrees.uncertainty.calibration import right_probabilities

_ROUNDS = 40


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
