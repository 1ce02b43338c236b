"""Ensemble selection (Caruana, Niculescu-Mizil, Crew and Ksikes 2004), and weights by EM."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hybridtrees.core.base.exact_sum import exact_mean

# A loss of each of several predictions, (n_candidates, n_rows, ...) -> (n_candidates,).
Losses = Callable[[np.ndarray], np.ndarray]

# Improvements below this share of the loss are rounding.
_TINY = 1e-12


def greedy_weights(
    predictions: np.ndarray,
    losses: Losses,
    n_rounds: int = 50,
    n_bags: int = 1,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Return the weights of models, which sum to 1, by greedy selection with replacement.

    Starting from nothing, each round adds the model that makes the loss of the mean prediction
    smallest; a model may be added again and again, and its weight is its share of the additions.
    The round whose loss is the smallest is taken, the first of equal ones. With several bags each
    chooses among a random half of the models, and their weights are averaged.

    Parameters
    ----------
    predictions : ndarray of shape (n_models, n_rows, ...)
        Of rows that no model has seen.
    losses : callable
        Loss of each of several predictions of all rows.
    n_rounds : int
        Most additions.
    n_bags : int
        Number of bags.
    rng : Generator, optional
        For more than one bag.
    """
    n_models = len(predictions)
    if n_bags == 1 or rng is None:
        return _select(predictions, losses, n_rounds)
    weights = np.zeros(n_models)
    size = max(1, -(-n_models // 2))
    for _ in range(n_bags):
        chosen = np.sort(rng.permutation(n_models)[:size])
        weights[chosen] += _select(predictions[chosen], losses, n_rounds)
    return weights / n_bags


def _select(predictions: np.ndarray, losses: Losses, n_rounds: int) -> np.ndarray:
    """Weights of one run."""
    counts = np.zeros(len(predictions))
    total = np.zeros(predictions.shape[1:])
    best, lowest = counts, np.inf
    for n_added in range(1, n_rounds + 1):
        found = losses((total + predictions) / n_added)
        # An undefined loss is never the smallest.
        found = np.where(np.isnan(found), np.inf, found)
        pick = int(np.argmin(found))
        total = total + predictions[pick]
        counts = counts + (np.arange(len(counts)) == pick)
        if n_added == 1 or found[pick] < lowest - _TINY * abs(lowest):
            best, lowest = counts, float(found[pick])
    shares: np.ndarray = best / best.sum()
    return shares


def squared_losses(target: np.ndarray, weight: np.ndarray | None = None) -> Losses:
    """Mean squared errors of numbers."""

    def losses(candidates: np.ndarray) -> np.ndarray:
        return np.asarray(exact_mean(np.square(candidates - target).T, weight))

    return losses


def absolute_losses(target: np.ndarray, weight: np.ndarray | None = None) -> Losses:
    """Mean absolute errors of numbers."""

    def losses(candidates: np.ndarray) -> np.ndarray:
        return np.asarray(exact_mean(np.abs(candidates - target).T, weight))

    return losses


def log_losses(weight: np.ndarray | None = None) -> Losses:
    """Log-losses of the probabilities of the right classes."""
    tiny = np.finfo(np.float64).eps

    def losses(candidates: np.ndarray) -> np.ndarray:
        return np.asarray(exact_mean(-np.log(np.clip(candidates, tiny, 1.0)).T, weight))

    return losses


def mixture_weights(
    log_density: np.ndarray,
    weight: np.ndarray | None = None,
    tolerance: float = 1e-6,
    max_iter: int = 10_000,
) -> np.ndarray:
    """Return the weights that maximise the mean log score of a mixture, by EM.

    ``log_density`` has the log-density of each row (n_rows) under each model (n_models). The
    problem is concave. It ends when the mean log score is within `tolerance` of the optimum: the
    largest mean ratio of a model's density to the mixture's, less 1, bounds the distance.
    """
    highest = log_density.max(axis=1, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    density = np.exp(log_density - highest)
    rows = density.max(axis=1) > 0
    density = np.ascontiguousarray(density[rows].T)
    share = np.full(np.count_nonzero(rows), 1.0) if weight is None else weight[rows]
    share = share / share.sum() if len(share) and share.sum() > 0 else share
    shares = np.full(len(density), 1.0 / len(density))
    for _ in range(max_iter):
        mixed = np.maximum((shares[:, None] * density).sum(axis=0), np.finfo(np.float64).tiny)
        ratio = (density * (share / mixed)).sum(axis=1)
        if ratio.max() <= 1.0 + tolerance:
            break
        shares = shares * ratio
        shares /= shares.sum()
    return shares
