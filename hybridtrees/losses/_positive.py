"""Losses of a positive number, predicted by its logarithm: Poisson, gamma and Tweedie."""

from __future__ import annotations

import math

import numpy as np

from hybridtrees._parameters import check_real
from hybridtrees.core.base.exact_sum import exact_mean
from hybridtrees.losses._base import Loss, reject_targets

_LARGEST_LOG = 709.0  # of a float64
_LEAST_MEAN = 1e-16  # a start has to be finite even if all targets are 0


class _LogLinkLoss(Loss):
    """A deviance with a log link; starts at the logarithm of the mean.

    `power` is the exponent p of the variance m^p at the mean m.
    """

    power: float

    def _start(self, y, weight, output):
        return math.log(max(exact_mean(y, weight), _LEAST_MEAN))

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
        mean = np.exp(np.minimum(raw, _LARGEST_LOG))
        return mean[:, 0] if self.n_outputs == 1 else mean

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


class PoissonDeviance(_LogLinkLoss):
    """Negative log-likelihood of counts.

    Parameters
    ----------
    n_outputs : int
    max_delta_step : float
        Makes the hessian larger by exp(max_delta_step), which keeps steps short. XGBoost's
        default is 0.7.
    """

    kind = "poisson"
    metrics = ("poisson-nloglik", "rmse", "mae", "mse", "r2", "mape", "rmsle")
    power = 1.0

    def __init__(self, n_outputs: int = 1, max_delta_step: float = 0.0):
        super().__init__(n_outputs)
        self.max_delta_step = check_real("max_delta_step", max_delta_step, 0)

    def _shape(self, output):
        return math.exp(self.max_delta_step), 0.0


class GammaDeviance(_LogLinkLoss):
    """Negative log-likelihood of the gamma distribution, for positive targets."""

    kind = "gamma"
    metrics = ("gamma-deviance", "gamma-nloglik", "rmse", "mae", "mse", "r2", "mape", "rmsle")
    power = 2.0


class TweedieDeviance(_LogLinkLoss):
    """Deviance of Tweedie's distributions between Poisson and gamma: positive, with zeros.

    Parameters
    ----------
    power : float
        Exponent of the variance, from 1 (Poisson) to 2 (gamma).
    n_outputs : int
    """

    kind = "tweedie"
    metrics = ("tweedie-nloglik", "rmse", "mae", "mse", "r2", "mape", "rmsle")

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
