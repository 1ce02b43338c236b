"""Files larger than memory: rows are drawn for the search, and the winner is fitted to all rows."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridtrees._compare.reading import Table, finite_column, open_parquet, read_parts
from hybridtrees._predict_batches import text_features
from hybridtrees.core.base.random_state import spawn_seeds
from hybridtrees.core.bins._bins import sample_rows
from hybridtrees.store.memory import check_memory_limit
from hybridtrees.store.source_fit import check_before_work

if TYPE_CHECKING:
    from hybridtrees._compare.result import Comparison

# Numbers that a comparison holds for each cell of a table, over all copies and models.
_COPIES = 10


def draw_rows(path: str | PathLike[str], rows: int | None, seed: int) -> tuple[Table, int] | None:
    """Return rows of Parquet files and the number of all rows, or None if all are to be read.

    `rows` is how many are wanted; by default, as many as a comparison has memory for.
    """
    batches = open_parquet(path)
    if batches is None:
        if rows is not None:
            raise ValueError(f"--rows needs Parquet files and pyarrow, got {path}")
        return None
    assert batches.n_rows is not None and batches.names is not None
    n_rows = batches.n_rows
    if rows is None:
        rows = max(1, check_memory_limit(None) // (8 * _COPIES * len(batches.names)))
    if rows >= n_rows:
        return None
    drawn = sample_rows(n_rows, rows, int(spawn_seeds(seed, 1)[0]))
    parts, first = [], 0
    for table, _ in read_parts(path, ()):
        n_own = len(next(iter(table.values())))
        low, high = np.searchsorted(drawn, [first, first + n_own])
        parts.append({name: c[drawn[low:high] - first] for name, c in table.items()})
        first += n_own
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, n_rows


def fit_on_all_rows(comparison: Comparison, path: str) -> tuple[Any, str]:
    """Return the best model that can be fitted in batches, fitted to all rows, and a line about it.

    If there is none, the model is that of the rows drawn.
    """
    data = comparison.data
    for result in comparison.results:
        model = result.model
        if model is None or _needs_memory(model):
            continue
        again = type(model)(**model.get_params())
        again.fit(lambda model=model: _rows(comparison, path, model), target=data.target_name)
        name = type(model).__name__
        best = "the best model" if result is comparison.winner else "the best that can be so"
        return data.on_raw_tables(again), f"{name}, {best}, is fitted to all rows"
    name = type(comparison.best_).__name__
    line = f"{name} needs the values of all rows in memory: it is fitted to the rows drawn"
    return comparison.best_, line


def _needs_memory(model: Any) -> bool:
    """Whether a model cannot be fitted in batches."""
    try:
        check_before_work(model)
    except (TypeError, ValueError):
        return True
    return False


def _rows(comparison: Comparison, path: str, model: Any) -> Iterator[dict[str, Any]]:
    """Yield features as the model knows them, and the target, of all rows that have one."""
    data = comparison.data
    spelled = text_features(model)
    dates = data.dates
    names = data.columns.names if dates is None else dates.feature_names_in_.tolist()
    assert names is not None
    raw = set() if dates is None else {names[j] for j in dates.date_columns_}
    for table, _ in read_parts(path, ()):
        y = table[data.target_name]
        known = ~np.array([v is None for v in y]) if y.dtype.kind == "O" else ~np.isnan(y)
        if not known.any():
            continue
        X: Any = {name: table[name][known] for name in names}
        X = {n: c if n in raw else finite_column(c, n, spelled) for n, c in X.items()}
        y = y[known] if data.classes is None else y[known].astype(data.classes.dtype)
        X = X if dates is None else dates.transform(X)
        yield {**{name: X[name] for name in X}, data.target_name: y}
