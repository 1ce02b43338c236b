"""Losses of classes: two by one raw score, several by one raw score each."""

from __future__ import annotations

import math

import numpy as np

from hybridtrees.core.base.exact_sum import exact_mean, group_sums
from hybridtrees.losses import _kernels
from hybridtrees.losses._base import Loss, reject_targets

_LEAST_SHARE = 1e-7


class _BinaryLoss(Loss):
    """Two classes, numbered 0 and 1; starts at the log-odds times `odds_scale`."""

    odds_scale = 1.0

    def _start(self, y, weight, output):
        """Return the log-odds of the second class, kept finite when there is only one."""
        share = exact_mean(y, weight)
        return self.link(np.clip(share, _LEAST_SHARE, 1 - _LEAST_SHARE))

    def link(self, base_score):
        """Return the raw score of a probability."""
        if not 0 < base_score < 1:
            raise ValueError(
                f"base_score must be a probability strictly between 0 and 1 for {self.kind} loss, "
                f"got {base_score!r}"
            )
        return self.odds_scale * math.log(base_score / (1 - base_score))

    def predict(self, raw):
        """Return the probabilities of both classes, or of the second for each of several y."""
        positive = np.empty(raw.size)
        _kernels.sigmoid(np.ascontiguousarray(raw).ravel() / self.odds_scale, positive)
        if self.n_outputs > 1:
            return positive.reshape(raw.shape)
        return np.column_stack([1.0 - positive, positive])

    def score_input(self, raw):
        """Return the probability of the second class."""
        proba = self.predict(raw)
        return proba if self.n_outputs > 1 else proba[:, 1]

    def check_target(self, y, name="y"):
        """Raise a ValueError if a target is outside [0, 1]."""
        reject_targets(y, ~((y >= 0) & (y <= 1)), name, f"from 0 to 1 for the {self.kind} loss")


class Logistic(_BinaryLoss):
    """Negative log-likelihood of two classes; starts at the log-odds."""

    kind = "logistic"
    metrics = ("logloss", "error", "auc", "rmse", "mae", "aucpr", "brier")
    deviance_factor = 2.0


class ExponentialLoss(_BinaryLoss):
    """AdaBoost's loss exp(-F) of two classes; F is half the log-odds."""

    kind = "exponential"
    metrics = ("logloss", "error", "auc", "rmse", "mae", "aucpr", "brier")
    odds_scale = 0.5

    def check_target(self, y, name="y"):
        """Raise a ValueError if a target is neither 0 nor 1."""
        reject_targets(y, (y != 0) & (y != 1), name, "0 or 1 for the exponential loss")


class HingeLoss(_BinaryLoss):
    """Hinge loss of two classes: predictions are 0 or 1 and nothing between."""

    kind = "binary_hinge"
    metrics = ("error", "auc", "aucpr")

    def _start(self, y, weight, output):
        """Return 1 if the second class weighs more, as XGBoost does, else 0."""
        return float(exact_mean(y, weight) > 0.5)

    def link(self, base_score):
        """Return the raw score that the user gave."""
        return base_score

    def predict(self, raw):
        """Return 1 for the class on whose side the raw score is, and 0 for the other."""
        positive = (raw > 0).astype(np.float64)
        if self.n_outputs > 1:
            return positive
        return np.column_stack([1.0 - positive[:, 0], positive[:, 0]])

    def check_target(self, y, name="y"):
        """Raise a ValueError if a target is neither 0 nor 1."""
        reject_targets(y, (y != 0) & (y != 1), name, "0 or 1 for the hinge loss")


class Softmax(Loss):
    """Negative log-likelihood of several classes, one raw score each."""

    kind = "softmax"
    metrics = ("mlogloss", "merror", "auc", "aucpr")

    def init_raw(self, y, weight):
        """Return the logarithms of the class shares, centred."""
        shares = group_sums(y, self.n_outputs, weight)
        logs = np.log(np.clip(shares / shares.sum(), _LEAST_SHARE, None))
        return logs - logs.mean()

    def predict(self, raw):
        """Return the probabilities of all classes."""
        proba = np.exp(raw - raw.max(axis=1, keepdims=True))
        return proba / proba.sum(axis=1, keepdims=True)

    def check_target(self, y, name="y"):
        """Raise a ValueError if a target is no class number."""
        bad = ~((y >= 0) & (y < self.n_outputs)) | (y != np.floor(y))
        reject_targets(y, bad, name, f"a class number from 0 to {self.n_outputs - 1}")

    def _n_terms(self):
        return 1

    def _leaf_factor(self):
        return (self.n_outputs - 1) / self.n_outputs
