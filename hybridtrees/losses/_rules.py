"""What several losses share: starts, links with their range of targets, and rules for leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridtrees._parameters import check_option, check_real
from hybridtrees.core.base.exact_sum import exact_mean, group_sums
from hybridtrees.losses import _kernels
from hybridtrees.losses._base import Loss, reject_targets
from hybridtrees.losses._groups import leaf_quantiles, quantile

DIALECTS = ("friedman", "xgboost")

# Of the quantile of y to start from, and of the residuals in a leaf: scikit-learn interpolates
# the former alone, XGBoost both.
_START_RULES = {"friedman": "linear", "xgboost": "weibull"}
_LEAF_RULES = {"friedman": "inverted_cdf", "xgboost": "weibull"}

_LARGEST_LOG = 709.0  # of a float64
_MIN_MEAN = 1e-16  # a start has to be finite even if all targets are 0
_MIN_SHARE = 1e-7  # of a class; its log-odds have to be finite


# -- starts: a loss takes one of these as its method `_start` ---------------------------------


def mean(loss: Loss, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
    """Start at the mean."""
    return exact_mean(y, weight)


def median(loss: Loss, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
    """Start at the median; the mean of the middle two."""
    return quantile(y, weight, 0.5, "linear")


# -- leaves -----------------------------------------------------------------------------------


class QuantileLeaves(Loss):
    """A loss whose leaves are quantiles of the residuals.

    `dialect` says whose conventions: scikit-learn takes the lower of two middle residuals in a
    leaf and counts a row that is met exactly as too low; XGBoost takes the mean and counts it as
    neither.
    """

    parameters = {"dialect": "dialect"}
    constant_hessian = True
    adaptive_leaves = True

    def __init__(self, n_outputs: int = 1, dialect: str = "friedman"):
        super().__init__(n_outputs)
        self.dialect = check_option("dialect", dialect, DIALECTS)

    def _level(self, output: int) -> float:
        return 0.5

    def _start(self, y, weight, output):
        return quantile(y, weight, self._level(output), _START_RULES[self.dialect])

    def leaf_values(self, y, raw, residual, weight, rows, start, *, output=0, n_threads=1):
        """Re-estimate leaf values: quantiles of y - raw. See `Loss.leaf_values`."""
        target = y if y.ndim == 1 else y[:, output]
        rule = _LEAF_RULES[self.dialect]
        return leaf_quantiles(
            target - raw[:, output], weight, rows, start, self._level(output), rule, n_threads
        )


class SmoothedKink(Loss):
    """A robust loss whose kink is rounded in proportion to the residuals of the round.

    Leaves are Newton steps, so that penalties and minimum weights count as for any other loss, and
    a split is scored by how far residuals reach and not by their signs alone. As in XGBoost since
    3.4 the scale of the residuals is the square of their mean root, which outliers hardly move.
    XGBoost starts one step away from the mean, which is not the best constant: a quantile is.
    """

    kinked: type[QuantileLeaves]  # the loss without rounding

    def __init__(self, n_outputs: int = 1):
        super().__init__(n_outputs)
        self.scale = (1.0,) * n_outputs

    def _start(self, y, weight, output):
        return quantile(y, weight, self._level(output), _START_RULES["xgboost"])

    def _level(self, output: int) -> float:
        return 0.5

    def _prepare(self, y, raw, weight):
        root = np.sqrt(np.abs(y.reshape(len(y), -1) - raw))
        scale = exact_mean(root, weight) ** 2
        # Without residuals any positive scale gives the gradient 0.
        self.scale = tuple(np.maximum(scale, np.finfo(np.float64).tiny).tolist())


class SeveralLevels(Loss):
    """A loss with a raw score, and a prediction, for each of its levels `alpha` from 0 to 1.

    Predictions of several levels are rearranged so that they never cross.
    """

    def __init__(self, alpha: float | Sequence[float] = 0.5, *more: Any, **named: Any):
        self.alpha = check_levels("alpha", alpha)
        super().__init__(len(self.alpha), *more, **named)

    def predict(self, raw):
        """Return the predictions, (n_rows,) for one level, else (n_rows, n_levels)."""
        return rearranged(raw, self.alpha)

    def metric(self, name):
        """Return a metric by its name; of several levels only that of the loss has a score."""
        metric = super().metric(name)
        if len(self.alpha) > 1 and metric.name != self.metrics[0]:
            raise ValueError(
                f"eval_metric={name!r} scores one prediction per row, but there are "
                f"{len(self.alpha)} levels; use {self.metrics[0]!r}"
            )
        return metric

    def _metric_parameters(self):
        return {"alpha": self.alpha}


def check_levels(name: str, alpha: Any) -> tuple[float, ...]:
    """Check one or several levels from 0 to 1, and return them as a tuple."""
    if isinstance(alpha, np.ndarray):
        alpha = alpha.tolist()
    levels = list(alpha) if isinstance(alpha, list | tuple) else [alpha]
    if not levels:
        raise ValueError(f"{name} must name at least one level, got an empty list")
    return tuple(check_real(name, level, 0, 1) for level in levels)  # type: ignore[misc]


def rearranged(raw: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Sort each row in the order of the levels (Chernozhukov et al. 2010).

    A row that is in order stays as it is; the others come closer to the truth.
    """
    if len(levels) == 1:
        return raw[:, 0]
    out = np.empty_like(raw)
    out[:, np.argsort(levels, kind="stable")] = np.sort(raw, axis=1)
    return out


# -- links ------------------------------------------------------------------------------------


class LogLink(Loss):
    """A deviance of a positive number, predicted by its logarithm; starts at that of the mean.

    `power` is the exponent p of the variance m^p at the mean m.
    """

    score_scale = "log"
    power: float

    def _start(self, y, weight, output):
        return math.log(max(exact_mean(y, weight), _MIN_MEAN))

    def _leaf_shape(self, output):
        return self.power, 0.0

    def link(self, base_score):
        """Return the logarithm of a mean."""
        if not base_score > 0:
            raise ValueError(
                f"base_score must be greater than 0 for the {self.kind} loss, got {base_score!r}"
            )
        return math.log(base_score)

    def predict(self, raw):
        """Return the means."""
        means = np.exp(np.minimum(raw, _LARGEST_LOG))
        return means[:, 0] if self.n_outputs == 1 else means

    def check_target(self, y, name="y"):
        """Raise a ValueError if a target is negative, or 0 for the gamma loss."""
        zero_too = self.power >= 2
        reject_targets(
            y,
            y <= 0 if zero_too else y < 0,
            name,
            f"{'positive' if zero_too else 'at least 0'} for the {self.kind} loss",
        )

    def check_start(self, y):
        """Raise a ValueError if all targets are 0: their mean has no logarithm."""
        if not np.any(y > 0):
            raise ValueError(
                f"y must have a positive sum for the {self.kind} loss, but all {len(y)} rows with "
                "a weight are 0"
            )


class TwoClasses(Loss):
    """Two classes, numbered 0 and 1; starts at the log-odds times `odds_scale`."""

    task = "classification"
    score_scale = "odds"
    max_classes = 2
    odds_scale = 1.0
    between = False  # whether targets may lie between 0 and 1

    def _start(self, y, weight, output):
        """Return the log-odds of the second class, kept finite when there is only one."""
        share = exact_mean(y, weight)
        return self.link(np.clip(share, _MIN_SHARE, 1 - _MIN_SHARE))

    def link(self, base_score):
        """Return the raw score of a probability."""
        if not 0 < base_score < 1:
            raise ValueError(
                f"base_score must be a probability strictly between 0 and 1 for {self.kind} loss, "
                f"got {base_score!r}"
            )
        return self.odds_scale * math.log(base_score / (1 - base_score))

    def _positive(self, raw: np.ndarray) -> np.ndarray:
        """Return the probabilities of the second class."""
        positive = np.empty(raw.size)
        _kernels.sigmoid(np.ascontiguousarray(raw).ravel() / self.odds_scale, positive)
        return positive.reshape(raw.shape)

    def predict(self, raw):
        """Return the probabilities of both classes, or of the second for each of several y."""
        positive = self._positive(raw)
        return positive if self.n_outputs > 1 else np.column_stack([1.0 - positive, positive])

    def score_input(self, raw):
        """Return the probability of the second class."""
        positive = self._positive(raw)
        return positive if self.n_outputs > 1 else positive[:, 0]

    def check_target(self, y, name="y"):
        """Raise a ValueError if a target is no class, nor a share where that is allowed."""
        bad = ~((y >= 0) & (y <= 1)) if self.between else (y != 0) & (y != 1)
        allowed = "from 0 to 1" if self.between else "0 or 1"
        reject_targets(y, bad, name, f"{allowed} for the {self.kind.removeprefix('binary_')} loss")


class ManyClasses(Loss):
    """Classes numbered from 0, a raw score each; starts at the centred logarithms of the shares."""

    task = "classification"
    score_scale = "shares"
    max_classes = math.inf

    def init_raw(self, y, weight):
        """Return the logarithms of the class shares, centred."""
        shares = group_sums(y, self.n_outputs, weight)
        logs = np.log(np.clip(shares / shares.sum(), _MIN_SHARE, None))
        return logs - logs.mean()

    def predict(self, raw):
        """Return the probabilities of all classes."""
        proba = np.exp(raw - raw.max(axis=1, keepdims=True))
        return proba / proba.sum(axis=1, keepdims=True)

    def check_target(self, y, name="y"):
        """Raise a ValueError if a target is no class number."""
        bad = ~((y >= 0) & (y < self.n_outputs)) | (y != np.floor(y))
        reject_targets(y, bad, name, f"a class number from 0 to {self.n_outputs - 1}")

    def leaves_of_residuals(self, y):
        """Whether leaves are made of residuals: always, for other scores have changed since."""
        return True

    def _n_terms(self):
        return 1

    def _leaf_factor(self):
        return (self.n_outputs - 1) / self.n_outputs
