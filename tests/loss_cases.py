"""Every loss with its formula in NumPy, targets that suit it, and helpers to call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hybridtrees import losses


class Case(NamedTuple):
    """A loss, its value for targets y and raw scores r (arrays), and a source of targets."""

    loss: losses.Loss
    value: Callable
    targets: Callable
    hessian_factor: float = 1.0  # of ours to the true one


def normal(rng, n):
    return 2 * rng.normal(size=n)


def binary(rng, n):
    return rng.integers(0, 2, n).astype(float)


def counts(rng, n):
    return rng.poisson(1.5, n).astype(float)


def positive(rng, n):
    return rng.gamma(2.0, size=n) + 0.01


def pinball(alpha):
    return lambda y, r: np.maximum(alpha * (y - r), (alpha - 1) * (y - r))


def expectile(alpha):
    return lambda y, r: np.where(r >= y, 1 - alpha, alpha) * (y - r) ** 2 / 2


def huber(delta):
    def value(y, r):
        d = np.abs(y - r)
        return np.where(d <= delta, d**2 / 2, delta * (d - delta / 2))

    return value


def tweedie(p):
    return lambda y, r: np.exp((2 - p) * r) / (2 - p) - y * np.exp((1 - p) * r) / (1 - p)


class FixedHuber(losses.HuberError):
    """Huber's loss with a distance that stays, so that it can be differentiated."""

    def _prepare(self, y, raw, weight):
        self.delta = 0.8


class FixedSmoothAbsolute(losses.SmoothAbsoluteError):
    """The smooth absolute error with a scale that stays."""

    def _prepare(self, y, raw, weight):
        self.scale = (0.8,)


class FixedSmoothQuantile(losses.SmoothQuantileError):
    """The smooth pinball loss with a scale that stays, so wide that curves show."""

    def _prepare(self, y, raw, weight):
        self.scale = (20.0,)


def smooth_pinball(alpha, scale):
    """The integral of scale / 2 (tanh(x) + 1 - 2 alpha), x = (r - y) / (0.04 scale)."""

    def value(y, r):
        x = (r - y) / (0.04 * scale)
        log_cosh = np.logaddexp(x, -x) - np.log(2)
        return scale / 2 * (0.04 * scale * log_cosh + (1 - 2 * alpha) * (r - y))

    return value


CASES = {
    "squared": Case(losses.SquaredError(), lambda y, r: (y - r) ** 2 / 2, normal),
    "absolute": Case(losses.AbsoluteError(), lambda y, r: np.abs(y - r), normal),
    "quantile": Case(losses.QuantileError(0.3), pinball(0.3), normal),
    "expectile": Case(losses.ExpectileError(0.8), expectile(0.8), normal),
    "huber": Case(FixedHuber(), huber(0.8), normal),
    "pseudo_huber": Case(
        losses.PseudoHuberError(1.7),
        lambda y, r: 1.7**2 * (np.sqrt(1 + ((y - r) / 1.7) ** 2) - 1),
        normal,
    ),
    "smooth_absolute": Case(
        FixedSmoothAbsolute(), lambda y, r: 0.8 * (np.hypot(0.8, y - r) - 0.8), normal
    ),
    "smooth_quantile": Case(FixedSmoothQuantile(0.3), smooth_pinball(0.3, 20.0), normal),
    "squared_log": Case(
        losses.SquaredLogError(),
        lambda y, r: (np.log1p(np.maximum(r, -1 + 1e-6)) - np.log1p(y)) ** 2 / 2,
        positive,
    ),
    "log_cosh": Case(losses.LogCoshError(), lambda y, r: np.log(np.cosh(y - r)), normal),
    "poisson": Case(losses.PoissonDeviance(), lambda y, r: np.exp(r) - y * r, counts),
    "poisson_xgb": Case(
        losses.PoissonDeviance(max_delta_step=0.7),
        lambda y, r: np.exp(r) - y * r,
        counts,
        np.exp(0.7),
    ),
    "gamma": Case(losses.GammaDeviance(), lambda y, r: r + y * np.exp(-r), positive),
    "tweedie": Case(losses.TweedieDeviance(1.4), tweedie(1.4), counts),
    "tweedie_1": Case(losses.TweedieDeviance(1), lambda y, r: np.exp(r) - y * r, counts),
    "tweedie_2": Case(losses.TweedieDeviance(2), lambda y, r: r + y * np.exp(-r), positive),
    "logistic": Case(losses.Logistic(), lambda y, r: np.logaddexp(0, r) - y * r, binary),
    "exponential": Case(
        losses.ExponentialLoss(), lambda y, r: np.exp(np.where(y == 1, -r, r)), binary
    ),
    "hinge": Case(losses.HingeLoss(), lambda y, r: np.maximum(0, 1 - (2 * y - 1) * r), binary),
}

# Flat or linear between kinks: no second derivative to compare with.
KINKED = {"absolute", "quantile", "hinge"}

# Their hessian is that of a parabola above the loss.
MAJORISED = {"smooth_absolute", "smooth_quantile", "log_cosh"}


def statistics(loss, y, raw, weight=None, n_threads=1, method="statistics"):
    """(grad, hess) of shape (n_outputs, n_rows)."""
    raw = np.ascontiguousarray(raw, dtype=np.float64).reshape(len(y), -1)
    grad = np.full((raw.shape[1], len(y)), np.nan, dtype=np.float32)
    hess = np.full_like(grad, np.nan)
    getattr(loss, method)(
        np.ascontiguousarray(y, dtype=np.float64), raw, weight, grad, hess, n_threads
    )
    return grad, hess


def residuals(loss, y, raw, weight=None, n_threads=1):
    """Pseudo-residuals of shape (n_outputs, n_rows)."""
    raw = np.ascontiguousarray(raw, dtype=np.float64).reshape(len(y), -1)
    out = np.full((raw.shape[1], len(y)), np.nan)
    loss.residuals(np.ascontiguousarray(y, dtype=np.float64), raw, weight, out, n_threads)
    return out


def leaf_values(loss, y, raw, weight, leaf, n_leaves, output=0, n_threads=1, residual=None):
    """Leaf values for a leaf number per row."""
    raw = np.ascontiguousarray(raw, dtype=np.float64).reshape(len(y), -1)
    rows, start = losses.group_rows(np.asarray(leaf, dtype=np.int32), n_leaves)
    return loss.leaf_values(
        y, raw, residual, weight, rows, start, output=output, n_threads=n_threads
    )
