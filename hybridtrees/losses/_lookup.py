"""Losses by the names that users give them: scikit-learn's and XGBoost's."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hybridtrees._parameters import check_option, check_real
from hybridtrees.losses._base import Loss
from hybridtrees.losses._custom import CallableLoss
from hybridtrees.losses._rules import ManyClasses, SeveralLevels, SmoothedKink
from hybridtrees.losses.registry import LOSSES

TASKS = ("regression", "classification")


def names(whose: str) -> dict[str, tuple[str, ...]]:
    """Return all names, "friedman" or "xgboost", of each task."""
    return {
        task: tuple(
            dict.fromkeys(
                name for row in LOSSES.values() if row.task == task for name in getattr(row, whose)
            )
        )
        for task in TASKS
    }


FRIEDMAN_LOSSES = names("friedman")
XGBOOST_OBJECTIVES = names("xgboost")


def friedman_loss(
    name: str, *, n_classes: int = 0, alpha: float | Sequence[float] = 0.9, power: float = 1.5
) -> Loss:
    """Return the loss of a name that scikit-learn's gradient boosting uses."""
    row = _find("friedman", "loss", name, n_classes)
    return _make(row, n_classes, 1, {"alpha": alpha, "power": power})


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

    `smooth` rounds the absolute and the quantile error, as XGBoost does since 3.4; otherwise their
    leaves are quantiles of the residuals, as before.
    """
    if callable(objective):
        link = "identity" if not n_classes else "logistic" if n_classes == 2 else "softmax"
        return CallableLoss(objective, n_classes if n_classes > 2 else n_targets, link)
    row = _find("xgboost", "objective", objective, n_classes)
    given: dict[str, Any] = {
        "quantile_alpha": quantile_alpha,
        "expectile_alpha": expectile_alpha,
        "huber_slope": huber_slope,
        "tweedie_variance_power": tweedie_variance_power,
        "max_delta_step": 0.7 if max_delta_step is None else max_delta_step,
        "dialect": "xgboost",
    }
    if issubclass(row, SeveralLevels):
        (level,) = row.parameters
        if given[level] is None:
            raise ValueError(
                f"objective={objective!r} needs {level}, a level from 0 to 1 or several"
            )
        if n_targets > 1:
            raise ValueError(f"objective={objective!r} is for one target, but y has {n_targets}")
    if "tweedie_variance_power" in row.parameters:
        check_real("tweedie_variance_power", tweedie_variance_power, 1, 2, closed="left")
    if issubclass(row, SmoothedKink) and not smooth:
        row = row.kinked
    return _make(row, n_classes, n_targets, given)


def _find(whose: str, parameter: str, name: Any, n_classes: int) -> type[Loss]:
    """Return the row of a name that suits the number of classes."""
    task = "classification" if n_classes else "regression"
    rows = [row for row in LOSSES.values() if row.task == task]
    for row in rows:
        known = isinstance(name, str) and name in getattr(row, whose)
        if known and n_classes <= row.max_classes:
            return row
    check_option(parameter, name, names(whose)[task])
    many = next(getattr(row, whose)[0] for row in rows if row.max_classes >= n_classes)
    raise ValueError(
        f"{parameter}={name!r} is for two classes, but y holds {n_classes}; use {many!r}"
    )


def _make(row: type[Loss], n_classes: int, n_targets: int, given: dict[str, Any]) -> Loss:
    """Make a loss with those of the user's parameters that its row names."""
    own = {ours: given[users] for users, ours in row.parameters.items() if users in given}
    if not issubclass(row, SeveralLevels):
        own["n_outputs"] = n_classes if issubclass(row, ManyClasses) else n_targets
    return row(**own)


Class = TypeVar("Class", bound=type)


def lists_losses(cls: Class) -> Class:
    """Class decorator: put all names of losses into a docstring, so that none is ever missing.

    They take the place of ``{friedman: task}`` and ``{xgboost: task}``.
    """
    lines = []
    for line in (cls.__doc__ or "").splitlines():
        for whose in ("friedman", "xgboost"):
            for task, all_names in names(whose).items():
                token = f"{{{whose}: {task}}}"
                if token in line:
                    indent = line[: len(line) - len(line.lstrip())]
                    text = line.replace(token, ", ".join(f'"{name}"' for name in all_names))
                    line = textwrap.indent(
                        textwrap.fill(text.strip(), 88, break_on_hyphens=False), indent
                    )
        lines.append(line)
    cls.__doc__ = "\n".join(lines) if lines else None
    return cls
