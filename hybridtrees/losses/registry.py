"""The losses: one row each, that is a class of a few facts, and the names users give them.

A row says which kernel works it out (`kind`, see _kernels.pxd), its names in scikit-learn's
gradient boosting (`friedman`) and in XGBoost (`xgboost`), its metrics, where it starts and what
shapes it; `Loss` explains each fact. Its bases (_rules.py) say the link, the range of targets and
the rule for leaves. Error messages, docstrings and model files know a row as soon as it is here.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from hybridtrees._parameters import check_real
from hybridtrees._persistence import register
from hybridtrees.core.base.exact_sum import exact_mean, exact_sum
from hybridtrees.losses import _kernels
from hybridtrees.losses._base import Loss
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
    "TweedieDeviance",
]


Row = TypeVar("Row", bound=type[Loss])
LOSSES: dict[str, type[Loss]] = {}  # by kind; all that a model file may hold


def row(loss: Row) -> Row:
    """Class decorator: add a loss to the registry."""
    LOSSES[loss.kind] = register(loss)
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
    xgboost = ("reg:squarederror",)
    metrics = _metrics("rmse", last=("mphe",))
    constant_hessian = True
    leaf_is_mean = True
    deviance_factor = 2.0
    _start = mean


@row
class AbsoluteError(QuantileLeaves):
    """The absolute error; starts at the median, and medians are its leaves."""

    kind = "absolute"
    friedman = ("absolute_error",)
    metrics = _metrics("mae", last=("mphe",))

    def _shape(self, output):
        return 0.5, -1.0 if self.dialect == "friedman" else 0.0


@row
class SmoothAbsoluteError(SmoothedKink):
    """The absolute error with a rounded kink; starts at the median."""

    kind = "smooth_absolute"
    xgboost = ("reg:absoluteerror",)
    kinked = AbsoluteError
    metrics = AbsoluteError.metrics

    def _shape(self, output):
        return self.scale[output], 0.0


@row
class HuberError(Loss):
    """Squares up to a distance delta, absolute values beyond (Friedman 2001, section 4.4).

    In every round delta is the quantile `alpha` of the absolute residuals.
    """

    kind = "huber"
    friedman = ("huber",)
    parameters = {"alpha": "alpha"}
    metrics = AbsoluteError.metrics
    _start = median

    def __init__(self, alpha: float = 0.9, n_outputs: int = 1):
        super().__init__(n_outputs)
        self.alpha = check_real("alpha", alpha, 0, 1, closed="neither")
        self.delta = 1.0

    def _shape(self, output):
        return self.delta, 0.0

    def _prepare(self, y, raw, weight):
        distance = np.abs(y.reshape(len(y), -1) - raw)
        if weight is not None and distance.shape[1] > 1:
            weight = np.repeat(weight, distance.shape[1])
        self.delta = quantile(distance.ravel(), weight, 100 * self.alpha / 100)

    def leaf_values(self, y, raw, residual, weight, rows, start, *, output=0, n_threads=1):
        """Re-estimate leaf values: median plus mean cut-off deviation; see `Loss.leaf_values`."""
        distance = (y if y.ndim == 1 else y[:, output]) - raw[:, output]
        out = leaf_quantiles(distance, weight, rows, start, 0.5, "inverted_cdf", n_threads)
        _kernels.add_clipped_means(distance, weight, rows, start, self.delta, out, n_threads)
        return out


@row
class PseudoHuberError(Loss):
    """A smooth relative of Huber's loss, linear beyond the distance `slope`."""

    kind = "pseudo_huber"
    xgboost = ("reg:pseudohubererror",)
    parameters = {"huber_slope": "slope"}
    metrics = _metrics("mphe")

    def __init__(self, slope: float = 1.0, n_outputs: int = 1):
        super().__init__(n_outputs)
        self.slope = check_real("huber_slope", slope, 0, closed="neither")

    def _shape(self, output):
        return self.slope, 0.0

    def _start(self, y, weight, output):
        # One Newton step away from 0, as XGBoost does: gradient y / root, hessian 1 / root^3.
        root = np.hypot(1.0, y / self.slope)
        weight = np.ones(len(y)) if weight is None else weight
        return exact_sum(weight * y / root) / max(exact_sum(weight / root**3), 1e-6)

    def _metric_parameters(self):
        return {"slope": self.slope}


@row
class LogCoshError(Loss):
    """Logarithm of the hyperbolic cosine of the error: squares near 0, absolute values far out."""

    kind = "log_cosh"
    friedman = ("log_cosh",)
    xgboost = ("reg:logcosh",)
    metrics = _metrics("logcosh")
    _start = median


@row
class QuantileError(SeveralLevels, QuantileLeaves):
    """The pinball loss of one or several quantiles, a raw score for each."""

    kind = "quantile"
    friedman = ("quantile",)
    parameters = {"alpha": "alpha", "quantile_alpha": "alpha", "dialect": "dialect"}
    metrics = _metrics("quantile")

    def _level(self, output):
        level = self.alpha[output]
        # By way of a percentage, as scikit-learn does, which decides ties.
        return 100 * level / 100 if self.dialect == "friedman" else level

    def _shape(self, output):
        alpha = self.alpha[output]
        return alpha, -alpha if self.dialect == "friedman" else 1 - alpha


@row
class SmoothQuantileError(SeveralLevels, SmoothedKink):
    """The pinball loss with a rounded kink, of one or several quantiles, a raw score for each."""

    kind = "smooth_quantile"
    xgboost = ("reg:quantileerror",)
    parameters = {"quantile_alpha": "alpha"}
    kinked = QuantileError
    metrics = QuantileError.metrics

    def _level(self, output):
        return self.alpha[output]

    def _shape(self, output):
        return self.alpha[output], self.scale[output]


@row
class ExpectileError(SeveralLevels):
    """Squared error, weighted differently above and below; 0.5 is the level of the mean."""

    kind = "expectile"
    xgboost = ("reg:expectileerror",)
    parameters = {"expectile_alpha": "alpha"}
    metrics = _metrics("expectile")

    def _shape(self, output):
        return self.alpha[output], 0.0

    def _start(self, y, weight, output):
        alpha = self.alpha[output]
        if alpha in (0, 1):
            used = y if weight is None else y[weight > 0]
            return used.min() if alpha == 0 else used.max()
        start = exact_mean(y, weight)
        # Newton's steps on a piecewise quadratic: exact as soon as no row changes sides.
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

    The hessian is larger by the factor exp(max_delta_step), which keeps steps short.
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

    def _shape(self, output):
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
    """Deviance of Tweedie's distributions between Poisson and gamma: positive, with zeros.

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
        self.power = check_real("tweedie_variance_power", power, 1, 2)  # type: ignore[assignment]

    def _shape(self, output):
        return self.power, 0.0

    def metric(self, name):
        """Return a metric by its name; see `Loss.metric`. The power is shown behind an @."""
        if name == "tweedie-nloglik":
            name = f"tweedie-nloglik@{self.power:g}"
        return super().metric(name)


# -- classes ----------------------------------------------------------------------------------


@row
class Logistic(TwoClasses):
    """Negative log-likelihood of two classes; starts at the log-odds."""

    kind = "logistic"
    friedman = ("log_loss",)
    xgboost = ("binary:logistic",)
    metrics = ("logloss", "error", "auc", "rmse", "mae", "aucpr", "brier")
    hessian_vanishes = True
    deviance_factor = 2.0
    between = True

    def leaves_of_residuals(self, y):
        """Whether leaves are made of residuals: of targets 0 and 1, which saves exponentials."""
        return bool(np.all((y == 0) | (y == 1)))


@row
class Softmax(ManyClasses):
    """Negative log-likelihood of several classes, one raw score each."""

    kind = "softmax"
    friedman = ("log_loss",)
    xgboost = ("multi:softprob", "multi:softmax")
    metrics = ("mlogloss", "merror", "auc", "aucpr")
    hessian_vanishes = True


@row
class ExponentialLoss(TwoClasses):
    """AdaBoost's loss exp(-F) of two classes; F is half the log-odds."""

    kind = "exponential"
    friedman = ("exponential",)
    metrics = Logistic.metrics
    odds_scale = 0.5


@row
class HingeLoss(TwoClasses):
    """Hinge loss of two classes: predictions are 0 or 1 and nothing between."""

    kind = "binary_hinge"
    xgboost = ("binary:hinge",)
    metrics = ("error", "auc", "aucpr")
    score_scale = "side"

    def _start(self, y, weight, output):
        """Return 1 if the second class weighs more, as XGBoost does, else 0."""
        return float(exact_mean(y, weight) > 0.5)

    def link(self, base_score):
        """Return the raw score that the user gave."""
        return base_score

    def _positive(self, raw):
        return (raw > 0).astype(np.float64)
