"""Predictions of rows by models that have not seen them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybridtrees._parameters import clone
from hybridtrees.input._user_tables import open_columns
from hybridtrees.input.folds import Folds, check_per_row, check_times, make_folds

FOLDS = 5

# Arguments of `fit` that have one entry for each row, and those that continue another model.
_BY_ROW = ("groups", "time")
_REFUSED = {
    "base_margin": "its scores are no part of the model",
    "xgb_model": "that model has seen the rows which would be held out",
}


@dataclass
class Request:
    """The rows and options of a fit that is to be repeated on folds."""

    X: Any
    target: np.ndarray  # numbers, or class labels
    codes: np.ndarray | None  # positions of the labels among the classes
    weight: np.ndarray | None
    cv: Any = FOLDS
    groups: Any = None
    time: Any = None
    options: dict[str, Any] = field(default_factory=dict)  # further arguments of `fit`


@dataclass
class HeldOut:
    """Predictions of models for rows that they have not seen."""

    rows: np.ndarray  # row numbers, each at most once
    answers: tuple[np.ndarray, ...]  # (len(rows), n_values) each
    fold: np.ndarray | None = None  # which model has predicted the row
    models: list[Any] = field(default_factory=list)


def check_fit_options(name: str, way: str, options: dict[str, Any]) -> None:
    """Refuse arguments of `fit` with which it cannot be repeated on folds."""
    for argument, reason in _REFUSED.items():
        if options.get(argument) is not None:
            raise ValueError(
                f"{argument} cannot be used where {name} is fitted to folds ({way}): {reason}; "
                f"leave conformal and calibrate at None, and call conformalize with other rows"
            )


def by_folds(
    model: Any, request: Request, ask: Callable[[Any, Any], tuple[np.ndarray, ...]], keep: bool
) -> HeldOut:
    """Fit copies of a model to folds, and predict with each the rows that it has not seen."""
    columns = open_columns(request.X)
    n_rows = columns.shape[0]
    grouped = check_per_row(request.groups, "groups", n_rows)
    times = check_times(request.time, n_rows)
    folds = _deal_out(request, n_rows, grouped, times)
    parts, answers, numbers = [], [], []
    models: list[Any] = []
    seen = np.zeros(n_rows, dtype=bool)
    for train, test in folds:
        test = test[~seen[test]]  # folds of the caller's own may test a row again
        if request.weight is not None:
            test = test[request.weight[test] > 0]
        if not len(test):
            continue
        seen[test] = True
        options = dict(request.options)
        for name, values in zip(_BY_ROW, (grouped, times), strict=True):
            if values is not None and name in options:
                options[name] = values[train]
        if request.weight is not None:
            options["sample_weight"] = request.weight[train]
        copy = quiet_copy(model)
        copy.fit(columns.take(train).table, request.target[train], **options)
        answers.append(ask(copy, columns.take(test).table))
        parts.append(test)
        numbers.append(np.full(len(test), len(models) if keep else 0, dtype=np.int32))
        models.append(copy)
    joined = tuple(np.concatenate(part) for part in zip(*answers, strict=True))
    if not keep:
        return HeldOut(np.concatenate(parts), joined)
    return HeldOut(np.concatenate(parts), joined, np.concatenate(numbers), models)


def quiet_copy(model: Any) -> Any:
    """Return an unfitted copy that holds no rows out itself, and prints nothing."""
    known = model.get_params(deep=False)
    plain = {"conformal": None, "calibrate": None, "verbose": 0, "warm_start": False}
    return clone(model).set_params(**{k: v for k, v in plain.items() if k in known})


def _deal_out(request: Request, n_rows: int, groups: Any, times: Any) -> Folds:
    """Return the folds; a number of them is lowered where there are fewer rows or groups."""
    cv = request.cv
    if times is not None and groups is not None:
        raise ValueError("give groups or time, not both: folds in time order may divide groups")
    if times is not None and not isinstance(cv, int):
        raise ValueError("time needs a number of folds as cv, got folds of your own")
    if isinstance(cv, int):
        most = n_rows if request.weight is None else int(np.count_nonzero(request.weight))
        if groups is not None:
            most = len(np.unique(groups))
        elif times is not None:
            most = len(np.unique(times)) - 1
        cv = max(2, min(cv, most)) if times is None else max(1, min(cv, most))
    return make_folds(cv, n_rows, request.codes, request.weight, groups=groups, time=times)
