"""Parts that several losses share: initial scores, links, rules for leaf values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hybridtrees._parameters import check_option, check_real
from hybridtrees.core.base.exact_sum import exact_mean, group_sums
from hybridtrees.core.tree.additive import Link
from hybridtrees.losses import _kernels
from hybridtrees.losses._base import Loss, reject_targets
from hybridtrees.losses._groups import leaf_quantiles, quantile
from hybridtrees.metrics import Metric

DIALECTS = ("friedman", "xgboost")

# Methods for the initial quantile of y, and for quantiles of the residuals in a leaf: scikit-learn
# interpolates only the former, XGBoost both.
_START_RULES = {"friedman": "linear", "xgboost": "weibull"}
_LEAF_RULES = {"friedman": "inverted_cdf", "xgboost": "weibull"}

_LARGEST_LOG = 709.0  # of a float64
_MIN_MEAN = 1e-16  # keeps the initial score finite if all targets are 0
_MIN_SHARE = 1e-7  # of a class, which keeps its log-odds finite


# -- initial scores: a loss uses one of these as its method `_start` --------------------------


def mean(loss: Loss, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
    """Start at the mean."""
    return float(exact_mean(y, weight))


def median(loss: Loss, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
    """Start at the median: the mean of the middle two values."""
    return quantile(y, weight, 0.5, "linear")


# -- leaves -----------------------------------------------------------------------------------


class QuantileLeaves(Loss):
    """A loss whose leaves are quantiles of the residuals.

    `dialect` chooses the conventions. In "friedman", scikit-learn's, the median of a leaf is the
    lower of the two middle residuals, and an exact prediction has the gradient of one that is too
    low. In "xgboost" the median is their mean, and that gradient is 0 (absolute error) or the one
    of a prediction that is too high (quantiles).
    """

    parameters = {"dialect": "dialect"}
    constant_hessian = True
    adaptive_leaves = True

    def __init__(self, n_outputs: int = 1, dialect: str = "friedman"):
        super().__init__(n_outputs)
        self.dialect = check_option("dialect", dialect, DIALECTS)

    def _level(self, output: int) -> float:
        return 0.5

    def _start(self, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
        return quantile(y, weight, self._level(output), _START_RULES[self.dialect])

    def leaf_values(
        self,
        y: np.ndarray,
        raw: np.ndarray,
        residual: np.ndarray | None,
        weight: np.ndarray | None,
        rows: np.ndarray,
        start: np.ndarray,
        *,
        output: int = 0,
        n_threads: int = 1,
    ) -> np.ndarray:
        """Re-estimate leaf values: quantiles of y - raw. See `Loss.leaf_values`."""
        target = y if y.ndim == 1 else y[:, output]
        rule = _LEAF_RULES[self.dialect]
        return leaf_quantiles(
            target - raw[:, output], weight, rows, start, self._level(output), rule, n_threads
        )


class SmoothedKink(Loss):
    """A robust loss, smoothed at 0 in proportion to the residuals of the round.

    Leaves are Newton steps, so that penalties and minimum weights work as for any other loss, and
    splits are scored by the sizes of the residuals and not only by their signs. As in XGBoost since
    3.4 the scale is the squared mean of the roots of the residuals, which is robust to outliers.
    Unlike XGBoost it starts at a quantile, the best constant, and not one step from the mean.
    """

    kinked: type[QuantileLeaves]  # the loss without smoothing

    def __init__(self, n_outputs: int = 1):
        super().__init__(n_outputs)
        self.scale = (1.0,) * n_outputs

    def _start(self, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
        return quantile(y, weight, self._level(output), _START_RULES["xgboost"])

    def _level(self, output: int) -> float:
        return 0.5

    def _prepare(self, y: np.ndarray, raw: np.ndarray, weight: np.ndarray | None) -> None:
        root = np.sqrt(np.abs(y.reshape(len(y), -1) - raw))
        scale = exact_mean(root, weight) ** 2
        # Without residuals any positive scale gives the gradient 0.
        self.scale = tuple(np.maximum(scale, np.finfo(np.float64).tiny).tolist())


class SeveralLevels(Loss):
    """A loss with one raw score and one prediction for each level `alpha` from 0 to 1.

    Predictions of several levels are sorted, so that they never cross.
    """

    def __init__(self, alpha: float | Sequence[float] = 0.5, *more: Any, **named: Any):
        self.alpha = check_levels("alpha", alpha)
        super().__init__(len(self.alpha), *more, **named)

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Return the predictions, (n_rows,) for one level, else (n_rows, n_levels)."""
        return rearranged(raw, self.alpha)

    def output_link(self) -> Link:
        """Return the link, which sorts the scores of several levels."""
        return Link("sorted", levels=self.alpha) if len(self.alpha) > 1 else Link()

    def metric(self, name: str) -> Metric:
        """Return a metric by name; with several levels only the one of the loss is defined."""
        metric = super().metric(name)
        if len(self.alpha) > 1 and metric.name != self.metrics[0]:
            raise ValueError(
                f"eval_metric={name!r} scores one prediction per row, but there are "
                f"{len(self.alpha)} levels; use {self.metrics[0]!r}"
            )
        return metric

    def _metric_parameters(self) -> dict[str, Any]:
        return {"alpha": self.alpha}


def check_levels(name: str, alpha: Any) -> tuple[float, ...]:
    """Check one or several levels from 0 to 1, and return them as a tuple."""
    if isinstance(alpha, np.ndarray):
        alpha = alpha.tolist()
    levels = list(alpha) if isinstance(alpha, list | tuple) else [alpha]
    if not levels:
        raise ValueError(f"{name} must name at least one level, got an empty list")
    return tuple(check_real(name, level, 0, 1) for level in levels)


def rearranged(raw: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Sort each row in the order of the levels (Chernozhukov et al. 2010).

    Sorted predictions are never farther from the true quantiles.
    """
    if len(levels) == 1:
        return raw[:, 0]
    out = np.empty_like(raw)
    out[:, np.argsort(levels, kind="stable")] = np.sort(raw, axis=1)
    return out


# -- links ------------------------------------------------------------------------------------


class LogLink(Loss):
    """A deviance with a log link; starts at the logarithm of the mean.

    `power` is the exponent p of the variance m^p at the mean m.
    """

    score_scale = "log"
    power: float

    def _start(self, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
        return math.log(max(exact_mean(y, weight), _MIN_MEAN))

    def _leaf_shape(self, output: int) -> tuple[float, float]:
        return self.power, 0.0

    def link(self, base_score: float) -> float:
        """Return the logarithm of a mean."""
        if not base_score > 0:
            raise ValueError(
                f"base_score must be greater than 0 for the {self.kind} loss, got {base_score!r}"
            )
        return math.log(base_score)

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Return the means."""
        means: np.ndarray = np.exp(np.minimum(raw, _LARGEST_LOG))
        return means[:, 0] if self.n_outputs == 1 else means

    def check_target(self, y: np.ndarray, name: str = "y") -> None:
        """Raise a ValueError if a target is negative, or 0 for the gamma loss."""
        zero_too = self.power >= 2
        reject_targets(
            y,
            y <= 0 if zero_too else y < 0,
            name,
            f"{'positive' if zero_too else 'at least 0'} for the {self.kind} loss",
        )

    def check_start(self, y: np.ndarray) -> None:
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

    def _start(self, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
        """Return the log-odds of the second class, kept finite when there is only one."""
        share = exact_mean(y, weight)
        return self.link(np.clip(share, _MIN_SHARE, 1 - _MIN_SHARE))

    def link(self, base_score: float) -> float:
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

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Return the probabilities of both classes; of the second if there are several targets."""
        positive = self._positive(raw)
        return positive if self.n_outputs > 1 else np.column_stack([1.0 - positive, positive])

    def output_link(self) -> Link:
        """Return the link from scores to probabilities."""
        return replace(super().output_link(), scale=1.0 / self.odds_scale)

    def score_input(self, raw: np.ndarray) -> np.ndarray:
        """Return the probability of the second class."""
        positive = self._positive(raw)
        return positive if self.n_outputs > 1 else positive[:, 0]

    def check_target(self, y: np.ndarray, name: str = "y") -> None:
        """Raise a ValueError if a target is not a class, or a share where that is allowed."""
        bad = ~((y >= 0) & (y <= 1)) if self.between else (y != 0) & (y != 1)
        allowed = "from 0 to 1" if self.between else "0 or 1"
        kind = self.kernel.removeprefix("binary_")
        reject_targets(y, bad, name, f"{allowed} for the {kind} loss")


class ManyClasses(Loss):
    """Classes numbered from 0 with a raw score each; starts at the centred log-shares."""

    task = "classification"
    score_scale = "shares"
    max_classes = math.inf

    def init_raw(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Return the logarithms of the class shares, centred."""
        shares = group_sums(y, self.n_outputs, weight)
        logs: np.ndarray = np.log(np.clip(shares / shares.sum(), _MIN_SHARE, None))
        logs -= logs.mean()
        return logs

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Return the probabilities of all classes."""
        proba: np.ndarray = np.exp(raw - raw.max(axis=1, keepdims=True))
        proba /= proba.sum(axis=1, keepdims=True)
        return proba

    def check_target(self, y: np.ndarray, name: str = "y") -> None:
        """Raise a ValueError if a target is not a class number."""
        bad = ~((y >= 0) & (y < self.n_outputs)) | (y != np.floor(y))
        reject_targets(y, bad, name, f"a class number from 0 to {self.n_outputs - 1}")

    def leaves_of_residuals(self, y: np.ndarray) -> bool:
        """Return True: the raw scores of other classes have changed since the residuals."""
        return True

    def _n_terms(self) -> int:
        return 1

    def _leaf_factor(self) -> float:
        return (self.n_outputs - 1) / self.n_outputs
