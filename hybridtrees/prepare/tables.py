"""Tables of any library with columns removed and others appended."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from hybridtrees.input._user_tables import (
    ArrowColumns,
    Columns,
    DictColumns,
    PandasColumns,
    PolarsColumns,
)


def with_columns(table: Columns, dropped: list[int], new: dict[str, np.ndarray]) -> Any:
    """Return the table, of the kind that it is, without some columns and with new ones."""
    if not dropped and not new:
        return table.table
    kept = [j for j in range(table.shape[1]) if j not in dropped]
    X = table.table
    if isinstance(table, PandasColumns):
        pandas = sys.modules["pandas"]
        frames = [X.iloc[:, kept], pandas.DataFrame(new, index=X.index)]
        return pandas.concat([frame for frame in frames if frame.shape[1]], axis=1)
    if isinstance(table, PolarsColumns):
        columns = [X.to_series(j) for j in kept]
        polars = sys.modules["polars"]
        return polars.DataFrame(columns + [polars.Series(k, v) for k, v in new.items()])
    if isinstance(table, ArrowColumns):
        X = X.select(kept)
        for name, values in new.items():
            X = X.append_column(name, [values])
        return X
    if isinstance(table, DictColumns):
        return {**{name: X[name] for j, name in enumerate(X) if j in kept}, **new}
    made = np.empty((table.shape[0], len(new)))
    for k, values in enumerate(new.values()):
        made[:, k] = values
    if not kept:
        return made
    others = X[:, kept]
    if others.dtype.kind == "M":
        others = others.astype(object)
    try:
        others = others.astype(np.float64)
    except (TypeError, ValueError):  # text
        return np.concatenate([others, made.astype(object)], axis=1)
    return np.concatenate([others, made], axis=1)
