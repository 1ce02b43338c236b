"""Losses: what boosting minimises, and how raw scores become predictions."""

from __future__ import annotations

import math

import numpy as np

from hybridtrees import _losses


class Loss:
    """A loss with its link; subclasses fill in the parts that differ.

    Attributes
    ----------
    kind : str
        Name of its kernel.
    n_outputs : int
        Raw scores per row.
    metrics : tuple of str
        Metrics that can watch over its training, the default first.
    """

    kind: str
    metrics: tuple[str, ...]
    constant_hessian = False

    def __init__(self, n_outputs: int = 1):
        self.n_outputs = n_outputs

    def statistics(
        self,
        y: np.ndarray,
        raw: np.ndarray,
        weight: np.ndarray | None,
        grad: np.ndarray,
        hess: np.ndarray | None,
        n_threads: int,
    ) -> None:
        """Write gradients and hessians, both (n_outputs, n_rows), at the raw scores."""
        _losses.statistics(self.kind, raw, y, weight, grad, hess, n_threads)

    def init_raw(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Raw score to start from, one per output."""
        raise AttributeError(f"{type(self).__name__} has no initial score")

    def link(self, base_score: float) -> float:
        """Raw score of a prediction that the user gave."""
        return base_score

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Predictions from raw scores of shape (n_rows, n_outputs)."""
        return raw[:, 0] if self.n_outputs == 1 else raw

    def score_input(self, raw: np.ndarray) -> np.ndarray:
        """Return the predictions in the form that metrics take."""
        return self.predict(raw)


class SquaredError(Loss):
    """Half the squared error; starts at the mean."""

    kind = "squared"
    metrics = ("rmse", "mae", "mse", "r2")
    constant_hessian = True

    def init_raw(self, y, weight):
        """Return the weighted mean."""
        return np.array([np.average(y, weights=weight)])


class Logistic(Loss):
    """Negative log-likelihood of two classes; starts at the log-odds."""

    kind = "logistic"
    metrics = ("logloss", "error", "auc", "rmse", "mae")

    def init_raw(self, y, weight):
        """Return the log-odds of the second class, kept finite when there is only one."""
        return np.array([self.link(np.clip(np.average(y, weights=weight), 1e-7, 1 - 1e-7))])

    def link(self, base_score):
        """Return the log-odds of a probability."""
        if not 0 < base_score < 1:
            raise ValueError(
                "base_score must be a probability strictly between 0 and 1 for logistic loss, "
                f"got {base_score!r}"
            )
        return math.log(base_score / (1 - base_score))

    def predict(self, raw):
        """Return the probabilities of both classes."""
        proba = np.empty((len(raw), 2))
        positive = np.empty(len(raw))
        _losses.sigmoid(np.ascontiguousarray(raw[:, 0]), positive)
        proba[:, 1] = positive
        np.subtract(1.0, positive, out=proba[:, 0])
        return proba

    def score_input(self, raw):
        """Return the probability of the second class."""
        return self.predict(raw)[:, 1]


class Softmax(Loss):
    """Negative log-likelihood of several classes, one raw score each."""

    kind = "softmax"
    metrics = ("mlogloss", "merror")

    def init_raw(self, y, weight):
        """Return the logarithms of the class shares, centred."""
        shares = np.bincount(y.astype(np.intp), weights=weight, minlength=self.n_outputs)
        logs = np.log(np.clip(shares / shares.sum(), 1e-7, None))
        return logs - logs.mean()

    def predict(self, raw):
        """Return the probabilities of all classes."""
        proba = np.exp(raw - raw.max(axis=1, keepdims=True))
        return proba / proba.sum(axis=1, keepdims=True)
