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
    """Return the names of all losses by task; `whose` is "friedman" or "xgboost"."""
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
    name: str,
    *,
    n_classes: int = 0,
    n_targets: int = 1,
    alpha: float | Sequence[float] = 0.9,
    power: float = 1.5,
) -> Loss:
    """Return the loss of a name that scikit-learn's gradient boosting uses."""
    row = _find("friedman", "loss", name, n_classes)
    _check_one_target(row, f"loss={name!r}", n_targets)
    return _make(row, n_classes, n_targets, {"alpha": alpha, "power": power})


def xgboost_loss(
    objective: str | Callable[..., Any],
    *,
    n_classes: int = 0,
    n_targets: int = 1,
    n_labels: int = 2,
    quantile_alpha: float | Sequence[float] | None = None,
    expectile_alpha: float | Sequence[float] | None = None,
    huber_slope: float = 1.0,
    tweedie_variance_power: float = 1.5,
    max_delta_step: float | None = None,
    smooth: bool = True,
) -> Loss:
    """Return the loss of one of XGBoost's objectives, or of a custom objective function.

    With `smooth` the absolute and the quantile error are smoothed, as in XGBoost since 3.4. Without
    it their leaves are quantiles of the residuals, as in earlier versions. `n_labels` counts the
    classes where numbers are taken for classes.
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
    _check_one_target(row, f"objective={objective!r}", n_targets)
    n_targets = n_labels if row.counts_classes else n_targets
    if "tweedie_variance_power" in row.parameters:
        check_real("tweedie_variance_power", tweedie_variance_power, 1, 2, closed="left")
    if issubclass(row, SmoothedKink) and not smooth:
        row = row.kinked
    return _make(row, n_classes, n_targets, given)


def _check_one_target(row: type[Loss], given: str, n_targets: int) -> None:
    if (issubclass(row, SeveralLevels) or row.counts_classes) and n_targets > 1:
        raise ValueError(f"{given} is for one target, but y has {n_targets}")


def _find(whose: str, parameter: str, name: Any, n_classes: int) -> type[Loss]:
    """Return the loss class of a name that suits the number of classes."""
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
    """Make a loss with the parameters that its class names."""
    own = {ours: given[users] for users, ours in row.parameters.items() if users in given}
    if not issubclass(row, SeveralLevels):
        own["n_outputs"] = (n_classes or n_targets) if issubclass(row, ManyClasses) else n_targets
    return row(**own)


Class = TypeVar("Class", bound=type)


def lists_losses(cls: Class) -> Class:
    """Class decorator: fill the names of losses into a docstring, so that none is missing.

    They replace ``{friedman: task}`` and ``{xgboost: task}``.
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
