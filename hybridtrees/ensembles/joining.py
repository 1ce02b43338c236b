"""Columns of numbers put before the columns of a table, whatever kind of table that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from hybridtrees.input._user_tables import (
    ArrowColumns,
    Columns,
    DictColumns,
    PandasColumns,
    PolarsColumns,
    SparseColumns,
    open_columns,
)


def check_names(columns: Columns, names: Sequence[str]) -> None:
    """Refuse new columns with the names of columns of the table."""
    taken = {str(name) for name in columns.names or ()}.intersection(names)
    if taken:
        raise ValueError(
            f"passthrough=True needs members with other names than the columns of X, got "
            f"{sorted(taken)[0]!r} twice: rename the member"
        )


def join(X: Any, names: Sequence[str], numbers: np.ndarray) -> Any:
    """Return a table of the kind of `X` with columns of numbers first, then those of `X`."""
    columns = open_columns(X)
    table = columns.table
    new = {name: np.ascontiguousarray(numbers[:, j]) for j, name in enumerate(names)}
    if isinstance(columns, PandasColumns):
        import pandas

        own = table.set_axis([str(name) for name in table.columns], axis=1)
        return pandas.concat([pandas.DataFrame(new, index=table.index), own], axis=1)
    if isinstance(columns, PolarsColumns):
        import polars

        return polars.DataFrame(new).hstack(table)
    if isinstance(columns, ArrowColumns):
        import pyarrow

        arrays = [*map(pyarrow.array, new.values()), *table.columns]
        return pyarrow.table(arrays, names=[*new, *table.column_names])
    if isinstance(columns, DictColumns):
        return {**new, **{str(name): column for name, column in table.items()}}
    if isinstance(columns, SparseColumns):
        return sparse.hstack([sparse.csc_array(numbers), table], format="csr")
    return np.hstack([numbers, table])
