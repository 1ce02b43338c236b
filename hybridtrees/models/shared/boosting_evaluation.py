"""Validation tables, metrics and initial scores, as users pass them to `fit`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridtrees.input.validation import check_sample_weight
from hybridtrees.losses import Loss
from hybridtrees.metrics import Metric, callable_metric
from hybridtrees.models.shared.boosting import EvalSet

# What `eval_metric` may be.
EvalMetric = str | Callable[..., float] | Sequence[str | Callable[..., float]] | None


def read_metrics(loss: Loss, eval_metric: Any, also: Sequence[Metric] = ()) -> list[Metric]:
    """Return the metrics that are given by name or as functions, each name once.

    None is the first metric of the loss; `also` holds metrics that may be named beside the loss's.
    """
    given = loss.metrics[0] if eval_metric is None else eval_metric
    if not isinstance(given, list | tuple):
        given = [given]
    if not given:
        raise ValueError("eval_metric must name at least one metric, got an empty list")
    found = [callable_metric(one) if callable(one) else _metric(loss, one, also) for one in given]
    by_name: dict[str, tuple[Any, Metric]] = {}
    for one, metric in zip(given, found, strict=True):
        before = by_name.setdefault(metric.name, (one, metric))[0]
        if before is not one and (callable(one) or callable(before)):
            raise ValueError(
                f"eval_metric holds two metrics of the name {metric.name!r}: rename one of the "
                "functions"
            )
    return [metric for _, metric in by_name.values()]


def _metric(loss: Loss, name: Any, also: Sequence[Metric]) -> Metric:
    for metric in also:
        if isinstance(name, str) and name == metric.name:
            return metric
    return loss.metric(name)


def read_eval_sets(
    model: Any,
    loss: Loss,
    pairs: Sequence[tuple[Any, Any]] | None,
    weights: Sequence[Any] | None,
    last: tuple[Any, Any, Any],
) -> list[EvalSet]:
    """Read the validation tables as the model reads its training table.

    `last` holds X, y and weights of one more table, None without one.
    """
    if not isinstance(pairs, list | tuple | None):
        raise TypeError(f"eval_set must be a list, got {type(pairs).__name__}")
    pairs = list(pairs or ())
    weights = _one_each("sample_weight_eval_set", weights, len(pairs))
    if (last[0] is None) != (last[1] is None):
        raise ValueError("X_val and y_val must be given together: one of them is missing")
    if last[0] is None and last[2] is not None:
        raise ValueError("sample_weight_val needs X_val and y_val")
    n_pairs = len(pairs)
    if last[0] is not None:
        pairs.append(last[:2])
        weights.append(last[2])
    found = []
    for index, (pair, weight) in enumerate(zip(pairs, weights, strict=True)):
        name = f"validation_{index}"
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            what = type(pair).__name__
            raise ValueError(f"eval_set[{index}] must be a pair (X, y), got {what}")
        values = model._reader.read(pair[0])
        n_rows = values.shape[0]
        y_name, weight_name = "y_val", "sample_weight_val"
        if index < n_pairs:
            y_name, weight_name = f"the y of {name}", f"the sample_weight of {name}"
        y = model._encode_eval_target(pair[1], n_rows, y_name)
        loss.check_target(y, y_name)
        weight = check_sample_weight(weight, n_rows, name=weight_name)
        found.append(EvalSet(name, values, y, weight, X=pair[0]))
    return found


def _one_each(name: str, given: Any, n_pairs: int) -> list[Any]:
    """Check an argument beside `eval_set`: a list with one entry per pair, or None."""
    if not isinstance(given, list | tuple | None):
        raise TypeError(f"{name} must be a list, got {type(given).__name__}")
    entries = [None] * n_pairs if given is None else list(given)
    if len(entries) != n_pairs:
        raise ValueError(
            f"{name} must have one entry per pair of eval_set, got {len(entries)} for {n_pairs}"
        )
    return entries


def read_margin(
    given: Any, n_rows: int, n_outputs: int, name: str = "base_margin"
) -> np.ndarray | None:
    """Return a copy of initial raw scores, (n_rows, n_outputs); None without any.

    They may have the shape (n_rows,), (n_rows, n_outputs) or (n_rows * n_outputs,).
    """
    if given is None:
        return None
    try:
        margin = np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of numbers, got {given!r}") from None
    if (
        margin.ndim not in (1, 2)
        or margin.size != n_rows * n_outputs
        or (margin.ndim == 2 and len(margin) != n_rows)
    ):
        raise ValueError(
            f"{name} must have the shape ({n_rows}, {n_outputs}), a score for each row and output, "
            f"got {margin.shape}"
        )
    if not np.isfinite(margin).all():
        raise ValueError(f"{name} must hold finite numbers, got nan or infinity")
    return margin.reshape(n_rows, n_outputs)


def read_margins(
    given: Sequence[Any] | None,
    last: Any,
    eval_sets: Sequence[EvalSet],
    has_last: bool,
    n_outputs: int,
) -> list[np.ndarray | None]:
    """Return the initial raw scores of all validation tables; `last` are those of `X_val`."""
    if last is not None and not has_last:
        raise ValueError("base_margin_val needs X_val and y_val")
    n_pairs = len(eval_sets) - has_last
    margins = _one_each("base_margin_eval_set", given, n_pairs)
    names = [f"the base_margin of {table.name}" for table in eval_sets[:n_pairs]]
    if has_last:
        margins.append(last)
        names.append("base_margin_val")
    return [
        read_margin(margin, len(table.y), n_outputs, name)
        for margin, table, name in zip(margins, eval_sets, names, strict=True)
    ]
