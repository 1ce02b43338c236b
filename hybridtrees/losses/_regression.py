"""Losses of a real number on its own scale: squares, absolute values and mixtures of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridtrees._parameters import check_option, check_real
from hybridtrees.core.base.exact_sum import exact_mean, exact_sum
from hybridtrees.losses import _kernels
from hybridtrees.losses._base import Loss
from hybridtrees.losses._groups import leaf_quantiles, quantile

DIALECTS = ("friedman", "xgboost")

# Of the quantile of y to start from, and of the residuals in a leaf: scikit-learn interpolates
# the former alone, XGBoost both.
_START_RULES = {"friedman": "linear", "xgboost": "weibull"}
_LEAF_RULES = {"friedman": "inverted_cdf", "xgboost": "weibull"}

_PLAIN_METRICS = ("rmse", "mae", "mse", "r2", "mape", "rmsle")


def _default_first(name: str, *more: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((name, *_PLAIN_METRICS, *more)))


class SquaredError(Loss):
    """Half the squared error; starts at the mean."""

    kind = "squared"
    metrics = ("rmse", "mae", "mse", "r2", "mape", "rmsle", "mphe")
    constant_hessian = True
    leaf_is_mean = True
    deviance_factor = 2.0

    def _start(self, y, weight, output):
        return exact_mean(y, weight)


class _RobustLoss(Loss):
    """A loss whose leaves are quantiles of the residuals."""

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
        return leaf_quantiles(
            target - raw[:, output],
            weight,
            rows,
            start,
            self._level(output),
            _LEAF_RULES[self.dialect],
            n_threads,
        )


class AbsoluteError(_RobustLoss):
    """The absolute error; starts at the median, and medians are its leaves.

    Parameters
    ----------
    n_outputs : int
    dialect : {"friedman", "xgboost"}
        Whose conventions: scikit-learn takes the lower of two middle residuals in a leaf and
        counts a row that is met exactly as too low; XGBoost takes the mean and counts it as
        neither.
    """

    kind = "absolute"
    metrics = _default_first("mae", "mphe")

    def _shape(self, output):
        return 0.5, -1.0 if self.dialect == "friedman" else 0.0


class _SeveralLevels(Loss):
    """A loss with a raw score, and a prediction, for each of its levels `alpha`."""

    alpha: tuple[float, ...]

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


class QuantileError(_SeveralLevels, _RobustLoss):
    """The pinball loss of one or several quantiles, a raw score for each.

    Predictions of several quantiles are rearranged so that they never cross.

    Parameters
    ----------
    alpha : float or sequence of floats
        Levels of the quantiles, from 0 to 1.
    dialect : {"friedman", "xgboost"}
        Whose conventions in ties and between two residuals, see `AbsoluteError`.
    """

    kind = "quantile"
    metrics = _default_first("quantile")

    def __init__(self, alpha: float | Sequence[float] = 0.5, dialect: str = "friedman"):
        self.alpha = check_levels("alpha", alpha)
        super().__init__(len(self.alpha), dialect)

    def _level(self, output):
        level = self.alpha[output]
        # By way of a percentage, as scikit-learn does, which decides ties.
        return 100 * level / 100 if self.dialect == "friedman" else level

    def _shape(self, output):
        alpha = self.alpha[output]
        return alpha, -alpha if self.dialect == "friedman" else 1 - alpha


class _Smoothed(Loss):
    """A robust loss whose kink is rounded in proportion to the residuals of the round.

    Leaves are Newton steps, so that penalties and least weights count as for any other loss, and
    a split is judged by how far residuals reach and not by their signs alone. As in XGBoost since
    3.4 the scale of the residuals is the square of their mean root, which outliers hardly move.

    Attributes
    ----------
    scale : tuple of floats
        Scale of the residuals in the latest round, of each output.
    """

    def __init__(self, n_outputs: int = 1):
        super().__init__(n_outputs)
        self.scale = (1.0,) * n_outputs

    def _prepare(self, y, raw, weight):
        root = np.sqrt(np.abs(y.reshape(len(y), -1) - raw))
        scale = exact_mean(root, weight) ** 2
        # Without residuals any positive scale gives the gradient 0.
        self.scale = tuple(np.maximum(scale, np.finfo(np.float64).tiny).tolist())


class SmoothAbsoluteError(_Smoothed):
    """The absolute error with a rounded kink; starts at the median.

    XGBoost starts one step away from the mean, which is not the best constant.

    Parameters
    ----------
    n_outputs : int
    """

    kind = "smooth_absolute"
    metrics = AbsoluteError.metrics

    def _shape(self, output):
        return self.scale[output], 0.0

    def _start(self, y, weight, output):
        return quantile(y, weight, 0.5, _START_RULES["xgboost"])


class SmoothQuantileError(_SeveralLevels, _Smoothed):
    """The pinball loss with a rounded kink, of one or several quantiles, a raw score for each.

    Predictions of several quantiles are rearranged so that they never cross.

    Parameters
    ----------
    alpha : float or sequence of floats
        Levels of the quantiles, from 0 to 1.
    """

    kind = "smooth_quantile"
    metrics = QuantileError.metrics

    def __init__(self, alpha: float | Sequence[float] = 0.5):
        self.alpha = check_levels("alpha", alpha)
        super().__init__(len(self.alpha))

    def _shape(self, output):
        return self.alpha[output], self.scale[output]

    def _start(self, y, weight, output):
        return quantile(y, weight, self.alpha[output], _START_RULES["xgboost"])


class ExpectileError(_SeveralLevels):
    """Squared error, weighted differently above and below; one raw score per level.

    Predictions of several expectiles are rearranged so that they never cross.

    Parameters
    ----------
    alpha : float or sequence of floats
        Levels of the expectiles, from 0 to 1; 0.5 is the mean.
    """

    kind = "expectile"
    metrics = _default_first("expectile")

    def __init__(self, alpha: float | Sequence[float] = 0.5):
        self.alpha = check_levels("alpha", alpha)
        super().__init__(len(self.alpha))

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


class HuberError(Loss):
    """Squares up to a distance delta, absolute values beyond (Friedman 2001, section 4.4).

    In every round delta is the quantile `alpha` of the absolute residuals.

    Parameters
    ----------
    alpha : float
        Share of the residuals that count with their squares.
    n_outputs : int

    Attributes
    ----------
    delta : float
        The distance of the latest round.
    """

    kind = "huber"
    metrics = _default_first("mae", "mphe")

    def __init__(self, alpha: float = 0.9, n_outputs: int = 1):
        super().__init__(n_outputs)
        self.alpha = check_real("alpha", alpha, 0, 1, closed="neither")
        self.delta = 1.0

    def _shape(self, output):
        return self.delta, 0.0

    def _start(self, y, weight, output):
        return quantile(y, weight, 0.5, "linear")

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


class PseudoHuberError(Loss):
    """A smooth relative of Huber's loss; starts one Newton step away from 0, as XGBoost does.

    Parameters
    ----------
    slope : float
        Distance at which squares go over into absolute values.
    n_outputs : int
    """

    kind = "pseudo_huber"
    metrics = _default_first("mphe")

    def __init__(self, slope: float = 1.0, n_outputs: int = 1):
        super().__init__(n_outputs)
        self.slope = check_real("huber_slope", slope, 0, closed="neither")

    def _shape(self, output):
        return self.slope, 0.0

    def _start(self, y, weight, output):
        # Gradient y / root and hessian 1 / root^3 at the raw score 0.
        root = np.hypot(1.0, y / self.slope)
        weight = np.ones(len(y)) if weight is None else weight
        return exact_sum(weight * y / root) / max(exact_sum(weight / root**3), 1e-6)

    def _metric_parameters(self):
        return {"slope": self.slope}


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
