"""Raw scores of the user's to start from, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridtrees.models.shared.boosting import EvalSet


def read_margin(
    given: Any, n_rows: int, n_outputs: int, name: str = "base_margin"
) -> np.ndarray | None:
    """Return the margins as float64 of shape (n_rows, n_outputs), None without any.

    Parameters
    ----------
    given : array-like of shape (n_rows,), (n_rows, n_outputs) or (n_rows * n_outputs,), or None
    n_rows, n_outputs : int
    name : str
        Name of the argument, for messages.

    Returns
    -------
    margin : ndarray or None
        A copy.
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
    """Return the margins of all validation tables.

    Parameters
    ----------
    given : list of array-likes or None
        Of the tables of `eval_set`.
    last : array-like or None
        Of the table of `X_val`.
    eval_sets : sequence of EvalSet
    has_last : bool
        Whether there is a table of `X_val`.
    n_outputs : int

    Returns
    -------
    margins : list of ndarray or None
    """
    if not isinstance(given, list | tuple | None):
        raise TypeError(f"base_margin_eval_set must be a list, got {type(given).__name__}")
    if last is not None and not has_last:
        raise ValueError("base_margin_val needs X_val and y_val")
    n_pairs = len(eval_sets) - has_last
    margins = [None] * n_pairs if given is None else list(given)
    if len(margins) != n_pairs:
        raise ValueError(
            f"base_margin_eval_set must have one entry per pair of eval_set, got {len(margins)} "
            f"for {n_pairs}"
        )
    names = [f"the base_margin of {table.name}" for table in eval_sets[:n_pairs]]
    if has_last:
        margins.append(last)
        names.append("base_margin_val")
    return [
        read_margin(margin, len(table.y), n_outputs, name)
        for margin, table, name in zip(margins, eval_sets, names, strict=True)
    ]
