"""Losses by the names that users give them: scikit-learn's and XGBoost's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybridtrees._parameters import check_option, check_real
from hybridtrees.losses._base import Loss
from hybridtrees.losses._classes import ExponentialLoss, HingeLoss, Logistic, Softmax
from hybridtrees.losses._custom import CallableLoss
from hybridtrees.losses._positive import GammaDeviance, PoissonDeviance, TweedieDeviance
from hybridtrees.losses._regression import (
    AbsoluteError,
    ExpectileError,
    HuberError,
    PseudoHuberError,
    QuantileError,
    SmoothAbsoluteError,
    SmoothQuantileError,
    SquaredError,
)

FRIEDMAN_LOSSES = {
    "regression": (
        "squared_error",
        "absolute_error",
        "huber",
        "quantile",
        "poisson",
        "gamma",
        "tweedie",
    ),
    "classification": ("log_loss", "exponential"),
}

XGBOOST_OBJECTIVES = {
    "regression": (
        "reg:squarederror",
        "reg:absoluteerror",
        "reg:pseudohubererror",
        "reg:quantileerror",
        "reg:expectileerror",
        "count:poisson",
        "reg:gamma",
        "reg:tweedie",
    ),
    "classification": ("binary:logistic", "multi:softprob", "multi:softmax", "binary:hinge"),
}


def friedman_loss(
    name: str,
    *,
    n_classes: int = 0,
    alpha: float | Sequence[float] = 0.9,
    power: float = 1.5,
) -> Loss:
    """Return the loss of a name that scikit-learn's gradient boosting uses.

    Parameters
    ----------
    name : str
        One of FRIEDMAN_LOSSES.
    n_classes : int
        Number of classes; 0 in regression.
    alpha : float or sequence of floats
        Level of "huber", level or levels of "quantile".
    power : float
        Variance power of "tweedie".

    Returns
    -------
    loss : Loss
    """
    task = "classification" if n_classes else "regression"
    check_option("loss", name, FRIEDMAN_LOSSES[task])
    if name == "exponential" and n_classes > 2:
        raise ValueError(
            f"loss='exponential' is for two classes, but y holds {n_classes}; use 'log_loss'"
        )
    makers: dict[str, Callable[[], Loss]] = {
        "squared_error": SquaredError,
        "absolute_error": AbsoluteError,
        "huber": lambda: HuberError(alpha),  # type: ignore[arg-type]
        "quantile": lambda: QuantileError(alpha),
        "poisson": PoissonDeviance,
        "gamma": GammaDeviance,
        "tweedie": lambda: TweedieDeviance(power),
        "log_loss": lambda: Logistic() if n_classes == 2 else Softmax(n_classes),
        "exponential": ExponentialLoss,
    }
    return makers[name]()


def xgboost_loss(
    objective: str | Callable[..., Any],
    *,
    n_classes: int = 0,
    n_targets: int = 1,
    quantile_alpha: float | Sequence[float] | None = None,
    expectile_alpha: float | Sequence[float] | None = None,
    huber_slope: float = 1.0,
    tweedie_variance_power: float = 1.5,
    max_delta_step: float | None = None,
    smooth: bool = True,
) -> Loss:
    """Return the loss of an objective of XGBoost, or of a function in its style.

    Parameters
    ----------
    objective : str or callable
        One of XGBOOST_OBJECTIVES, or what `CallableLoss` takes.
    n_classes : int
        Number of classes; 0 in regression.
    n_targets : int
        Number of columns of y.
    quantile_alpha, expectile_alpha : float or sequence of floats
        Levels of "reg:quantileerror" and "reg:expectileerror", which need them.
    huber_slope : float
        Slope of "reg:pseudohubererror".
    tweedie_variance_power : float
        Variance power of "reg:tweedie", in [1, 2).
    max_delta_step : float, optional
        Of "count:poisson"; 0.7 by default.
    smooth : bool
        Whether the absolute and the quantile error are smoothed, as in XGBoost since 3.4, or
        their leaves are quantiles of the residuals, as before.

    Returns
    -------
    loss : Loss
    """
    task = "classification" if n_classes else "regression"
    if callable(objective):
        link = "identity" if not n_classes else "logistic" if n_classes == 2 else "softmax"
        n_outputs = n_classes if n_classes > 2 else n_targets
        return CallableLoss(objective, n_outputs, link)
    name = check_option("objective", objective, XGBOOST_OBJECTIVES[task])
    if name.startswith("binary:") and n_classes > 2:
        raise ValueError(
            f"objective={name!r} is for two classes, but y holds {n_classes}; use 'multi:softprob'"
        )
    if name in ("reg:quantileerror", "reg:expectileerror"):
        level = "quantile_alpha" if name == "reg:quantileerror" else "expectile_alpha"
        alpha = quantile_alpha if name == "reg:quantileerror" else expectile_alpha
        if alpha is None:
            raise ValueError(f"objective={name!r} needs {level}, a level from 0 to 1 or several")
        if n_targets > 1:
            raise ValueError(f"objective={name!r} is for one target, but y has {n_targets}")
        if level == "expectile_alpha":
            return ExpectileError(alpha)
        return SmoothQuantileError(alpha) if smooth else QuantileError(alpha, "xgboost")
    makers: dict[str, Callable[[], Loss]] = {
        "reg:squarederror": lambda: SquaredError(n_targets),
        "reg:absoluteerror": lambda: (
            SmoothAbsoluteError(n_targets) if smooth else AbsoluteError(n_targets, "xgboost")
        ),
        "reg:pseudohubererror": lambda: PseudoHuberError(huber_slope, n_targets),
        "count:poisson": lambda: PoissonDeviance(
            n_targets, 0.7 if max_delta_step is None else max_delta_step
        ),
        "reg:gamma": lambda: GammaDeviance(n_targets),
        "reg:tweedie": lambda: TweedieDeviance(
            check_real("tweedie_variance_power", tweedie_variance_power, 1, 2, closed="left"),  # type: ignore[arg-type]
            n_targets,
        ),
        "binary:logistic": lambda: Logistic(n_targets),
        "binary:hinge": lambda: HingeLoss(n_targets),
        "multi:softprob": lambda: Softmax(n_classes),
        "multi:softmax": lambda: Softmax(n_classes),
    }
    return makers[name]()
