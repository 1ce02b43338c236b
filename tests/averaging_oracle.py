"""Slow implementations of the weights of averaged models."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np


def greedy_by_hand(told, target, n_rounds, loss):
    """Ensemble selection as the paper has it: a bag of models, one more in each round."""
    bag, best, lowest = [], [], np.inf
    for _ in range(n_rounds):
        tried = [
            loss(target, np.mean([told[j] for j in [*bag, k]], axis=0)) for k in range(len(told))
        ]
        bag.append(int(np.argmin(tried)))
        if min(tried) < lowest - 1e-12 * abs(lowest) if np.isfinite(lowest) else True:
            best, lowest = list(bag), min(tried)
    return np.bincount(best, minlength=len(told)) / len(best)


def best_bag(told, target, size, loss):
    """The smallest loss of any bag of up to so many models, by trying all."""
    return min(
        loss(target, np.mean([told[j] for j in bag], axis=0))
        for n in range(1, size + 1)
        for bag in combinations_with_replacement(range(len(told)), n)
    )


def squared(target, said):
    return float(np.mean((target - said) ** 2))
