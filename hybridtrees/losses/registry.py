"""The registry of losses: one small class each.

A class names its kernel (`kind`, see _kernels.pxd), its names in scikit-learn's gradient boosting
(`friedman`) and in XGBoost (`xgboost`), its metrics, its initial score and its parameters; `Loss`
explains each attribute. Its base classes (_rules.py) define the link, the range of targets and the
rule for leaves. Error messages, docstrings and model files follow from this registry.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np

from hybridtrees._parameters import check_real
from hybridtrees._persistence import register
from hybridtrees.core.base.exact_sum import exact_mean, exact_sum
from hybridtrees.losses import _kernels
from hybridtrees.losses._base import Loss, reject_targets
from hybridtrees.losses._groups import leaf_quantiles, quantile
from hybridtrees.losses._rules import (
    LogLink,
    ManyClasses,
    QuantileLeaves,
    SeveralLevels,
    SmoothedKink,
    TwoClasses,
    mean,
    median,
)
from hybridtrees.metrics import Metric

__all__ = [
    "AbsoluteError",
    "ExpectileError",
    "ExponentialLoss",
    "GammaDeviance",
    "HingeLoss",
    "HuberError",
    "LogCoshError",
    "Logistic",
    "PoissonDeviance",
    "PseudoHuberError",
    "QuantileError",
    "SmoothAbsoluteError",
    "SmoothQuantileError",
    "Softmax",
    "SquaredError",
    "SquaredLogError",
    "TweedieDeviance",
]


Row = TypeVar("Row", bound=type[Loss])
LOSSES: dict[str, type[Loss]] = {}  # by kind

_LEAST_HESSIAN = 1e-6  # of a row under the squared log error, as in XGBoost and in the kernel


def row(loss: Row) -> Row:
    """Class decorator: add a loss to the registry."""
    LOSSES[loss.kind] = register(loss)
    if "kernel" not in vars(loss):
        loss.kernel = loss.kind
    return loss


def _metrics(*first: str, last: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the metrics of a regression, the default first."""
    plain = ("rmse", "mae", "mse", "r2", "mape", "rmsle")
    return tuple(dict.fromkeys((*first, *plain, *last)))


# -- numbers ----------------------------------------------------------------------------------


@row
class SquaredError(Loss):
    """Half the squared error."""

    kind = "squared"
    friedman = ("squared_error",)
    xgboost = ("reg:squarederror", "reg:linear")
    metrics = _metrics("rmse", last=("mphe",))
    constant_hessian = True
    leaf_is_mean = True
    deviance_factor = 2.0
    _start = mean


@row
class SquaredLogError(Loss):
    """Half the squared difference of log(1 + x), for targets and predictions above -1."""

    kind = "squared_log"
    xgboost = ("reg:squaredlogerror",)
    metrics = _metrics("rmsle")

    def _start(self, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
        # One Newton step away from 0, as XGBoost does: gradient -log(1 + y), hessian 1 - gradient.
        step = np.log1p(y)
        hessian = np.maximum(1.0 + step, _LEAST_HESSIAN)
        return float(exact_mean(step, weight) / exact_mean(hessian, weight))

    def check_target(self, y: np.ndarray, name: str = "y") -> None:
        """Raise a ValueError if a target has no logarithm."""
        reject_targets(y, y <= -1, name, "greater than -1 for the squared log error")


@row
class AbsoluteError(QuantileLeaves):
    """The absolute error; starts at the median, and leaves are medians."""

    kind = "absolute"
    friedman = ("absolute_error",)
    metrics = _metrics("mae", last=("mphe",))

    def _shape(self, output: int) -> tuple[float, float]:
        return 0.5, -1.0 if self.dialect == "friedman" else 0.0


@row
class SmoothAbsoluteError(SmoothedKink):
    """The absolute error, smoothed at 0; starts at the median."""

    kind = "smooth_absolute"
    xgboost = ("reg:absoluteerror",)
    kinked = AbsoluteError
    metrics = AbsoluteError.metrics

    def _shape(self, output: int) -> tuple[float, float]:
        return self.scale[output], 0.0


@row
class HuberError(Loss):
    """Squared error up to delta, linear beyond (Friedman 2001, section 4.4).

    In every round delta is the quantile `alpha` of the absolute residuals; with several outputs
    each has its own, and `delta` is a tuple.
    """

    kind = "huber"
    friedman = ("huber",)
    parameters = {"alpha": "alpha"}
    metrics = AbsoluteError.metrics
    _start = median

    def __init__(self, alpha: float = 0.9, n_outputs: int = 1):
        super().__init__(n_outputs)
        self.alpha = check_real("alpha", alpha, 0, 1, closed="neither")
        self.delta: float | tuple[float, ...] = 1.0 if n_outputs == 1 else (1.0,) * n_outputs

    def _shape(self, output: int) -> tuple[float, float]:
        return self.delta[output] if isinstance(self.delta, tuple) else self.delta, 0.0

    def _prepare(self, y: np.ndarray, raw: np.ndarray, weight: np.ndarray | None) -> None:
        level = 100 * self.alpha / 100
        deltas = [quantile(d, weight, level) for d in np.abs(y.reshape(len(y), -1) - raw).T]
        self.delta = deltas[0] if self.n_outputs == 1 else tuple(deltas)

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
        """Re-estimate leaf values: median plus mean clipped deviation. See `Loss.leaf_values`."""
        distance = (y if y.ndim == 1 else y[:, output]) - raw[:, output]
        out = leaf_quantiles(distance, weight, rows, start, 0.5, "inverted_cdf", n_threads)
        delta, _ = self._shape(output)
        _kernels.add_clipped_means(distance, weight, rows, start, delta, out, n_threads)
        return out


@row
class PseudoHuberError(Loss):
    """A smooth form of Huber's loss, about linear beyond the distance `slope`."""

    kind = "pseudo_huber"
    xgboost = ("reg:pseudohubererror",)
    parameters = {"huber_slope": "slope"}
    metrics = _metrics("mphe")

    def __init__(self, slope: float = 1.0, n_outputs: int = 1):
        super().__init__(n_outputs)
        self.slope = check_real("huber_slope", slope, 0, closed="neither")

    def _shape(self, output: int) -> tuple[float, float]:
        return self.slope, 0.0

    def _start(self, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
        # One Newton step away from 0, as XGBoost does: gradient y / root, hessian 1 / root^3.
        root = np.hypot(1.0, y / self.slope)
        weight = np.ones(len(y)) if weight is None else weight
        return float(exact_sum(weight * y / root) / max(exact_sum(weight / root**3), 1e-6))

    def _metric_parameters(self) -> dict[str, Any]:
        return {"slope": self.slope}


@row
class LogCoshError(Loss):
    """log(cosh(error)): half the squared error near 0, about the absolute error beyond 1.

    The hessian of a row is about 1 / |error| for errors beyond 1. With a target of large scale the
    hessians of a child therefore do not add up to `min_child_weight`, and "reg:logcosh" finds no
    split: scale the target, or lower `min_child_weight`.
    """

    kind = "log_cosh"
    friedman = ("log_cosh",)
    xgboost = ("reg:logcosh",)
    metrics = _metrics("logcosh")
    _start = median


@row
class QuantileError(SeveralLevels, QuantileLeaves):
    """The pinball loss of one or several quantiles, with a raw score for each."""

    kind = "quantile"
    friedman = ("quantile",)
    parameters = {"alpha": "alpha", "quantile_alpha": "alpha", "dialect": "dialect"}
    metrics = _metrics("quantile")

    def _level(self, output: int) -> float:
        level = self.alpha[output]
        # Through a percentage, like scikit-learn: the rounding decides ties.
        return 100 * level / 100 if self.dialect == "friedman" else level

    def _shape(self, output: int) -> tuple[float, float]:
        alpha = self.alpha[output]
        return alpha, -alpha if self.dialect == "friedman" else 1 - alpha


@row
class SmoothQuantileError(SeveralLevels, SmoothedKink):
    """The pinball loss, smoothed at 0, of one or several quantiles."""

    kind = "smooth_quantile"
    xgboost = ("reg:quantileerror",)
    parameters = {"quantile_alpha": "alpha"}
    kinked = QuantileError
    metrics = QuantileError.metrics

    def _level(self, output: int) -> float:
        return self.alpha[output]

    def _shape(self, output: int) -> tuple[float, float]:
        return self.alpha[output], self.scale[output]


@row
class ExpectileError(SeveralLevels):
    """Squared error, weighted by alpha if the target is above the prediction, else 1 - alpha."""

    kind = "expectile"
    xgboost = ("reg:expectileerror",)
    parameters = {"expectile_alpha": "alpha"}
    metrics = _metrics("expectile")

    def _shape(self, output: int) -> tuple[float, float]:
        return self.alpha[output], 0.0

    def _start(self, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
        alpha = self.alpha[output]
        if alpha in (0, 1):
            used = y if weight is None else y[weight > 0]
            return float(used.min() if alpha == 0 else used.max())
        start: float = exact_mean(y, weight)
        # Newton steps on a piecewise quadratic: exact once no row changes sides.
        for _ in range(100):
            side = np.where(start >= y, 1 - alpha, alpha)
            better = exact_mean(y, side if weight is None else side * weight)
            if better == start:
                break
            start = better
        return start


# -- positive numbers -------------------------------------------------------------------------


@row
class PoissonDeviance(LogLink):
    """Negative log-likelihood of counts.

    The hessian is multiplied by exp(max_delta_step), which keeps steps short.
    """

    kind = "poisson"
    friedman = ("poisson",)
    xgboost = ("count:poisson",)
    parameters = {"max_delta_step": "max_delta_step"}
    metrics = _metrics("poisson-nloglik")
    power = 1.0

    def __init__(self, n_outputs: int = 1, max_delta_step: float = 0.0):
        super().__init__(n_outputs)
        self.max_delta_step = check_real("max_delta_step", max_delta_step, 0)

    def _shape(self, output: int) -> tuple[float, float]:
        return math.exp(self.max_delta_step), 0.0


@row
class GammaDeviance(LogLink):
    """Negative log-likelihood of the gamma distribution, for positive targets."""

    kind = "gamma"
    friedman = ("gamma",)
    xgboost = ("reg:gamma",)
    metrics = _metrics("gamma-deviance", "gamma-nloglik")
    hessian_vanishes = True
    power = 2.0


@row
class TweedieDeviance(LogLink):
    """Deviance of Tweedie distributions between Poisson and gamma, for targets of at least 0.

    `power` is the exponent of the variance, from 1 (Poisson) to 2 (gamma).
    """

    kind = "tweedie"
    friedman = ("tweedie",)
    xgboost = ("reg:tweedie",)
    parameters = {"power": "power", "tweedie_variance_power": "power"}
    metrics = _metrics("tweedie-nloglik")
    hessian_vanishes = True

    def __init__(self, power: float = 1.5, n_outputs: int = 1):
        super().__init__(n_outputs)
        self.power = check_real("tweedie_variance_power", power, 1, 2)

    def _shape(self, output: int) -> tuple[float, float]:
        return self.power, 0.0

    def metric(self, name: str) -> Metric:
        """Return a metric by name. See `Loss.metric`; the power is shown after an @."""
        if name == "tweedie-nloglik":
            name = f"tweedie-nloglik@{self.power:g}"
        return super().metric(name)


# -- classes ----------------------------------------------------------------------------------


@row
class Logistic(TwoClasses):
    """Negative log-likelihood of two classes; starts at the log-odds."""

    kind = "logistic"
    friedman: tuple[str, ...] = ("log_loss",)
    xgboost: tuple[str, ...] = ("binary:logistic", "binary:logitraw", "reg:logistic")
    metrics = ("logloss", "error", "auc", "rmse", "mae", "aucpr", "brier")
    hessian_vanishes = True
    deviance_factor = 2.0
    between = True

    def leaves_of_residuals(self, y: np.ndarray) -> bool:
        """Whether all targets are 0 or 1: the residuals then save exponentials."""
        return bool(np.all((y == 0) | (y == 1)))


@row
class Softmax(ManyClasses):
    """Negative log-likelihood of several classes, one raw score each."""

    kind = "softmax"
    friedman: tuple[str, ...] = ("log_loss",)
    xgboost: tuple[str, ...] = ("multi:softprob", "multi:softmax")
    metrics = ("mlogloss", "merror", "auc", "aucpr")
    hessian_vanishes = True


@row
class ExponentialLoss(TwoClasses):
    """AdaBoost's loss exp(-F) of two classes; F is half the log-odds."""

    kind = "exponential"
    friedman = ("exponential",)
    xgboost = ("binary:exponential", "exponential")
    metrics = Logistic.metrics
    odds_scale = 0.5


@row
class HingeLoss(TwoClasses):
    """Hinge loss of two classes; predictions are 0 or 1."""

    kind = "binary_hinge"
    xgboost = ("binary:hinge",)
    metrics = ("error", "auc", "aucpr")
    score_scale = "side"

    def _start(self, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
        """Return 1 if the second class weighs more, as XGBoost does, else 0."""
        return float(exact_mean(y, weight) > 0.5)

    def link(self, base_score: float) -> float:
        """Return the score unchanged."""
        return base_score

    def _positive(self, raw: np.ndarray) -> np.ndarray:
        return (raw > 0).astype(np.float64)
