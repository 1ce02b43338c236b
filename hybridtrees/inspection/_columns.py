"""Tables of any kind whose rows are picked and whose columns are exchanged.

Models are asked through their public methods only, so what they are given must be of the kind
that they were fitted on: a data frame stays one, with its types.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from hybridtrees.input.arrays import is_masked, is_missing_object
from hybridtrees.input.columns import column_index
from hybridtrees.input.sources import _as_array
from hybridtrees.input.tables import _loaded_classes


class Columns(ABC):
    """A table whose columns can be exchanged."""

    def __init__(self, table: Any, names: list[Any] | None = None) -> None:
        self.table = table
        self.shape: tuple[int, ...] = tuple(table.shape)
        self.names = names

    def index(self, feature: Any, parameter: str = "features") -> int:
        """Position of a column that the caller names or numbers."""
        return column_index(feature, self.shape[1], self.names, parameter)

    def feature_names(self, estimator: Any) -> list[str]:
        """Names of the columns: the table's own, or those that a model knows."""
        names = getattr(estimator, "feature_names_in_", None) if self.names is None else self.names
        if names is None:
            return [f"feature_{j}" for j in range(self.shape[1])]
        return [str(name) for name in names]

    @abstractmethod
    def take(self, rows: np.ndarray) -> Columns:
        """Return the rows at the given positions."""

    @abstractmethod
    def column(self, index: int) -> np.ndarray:
        """Return the values of a column: numbers, or objects."""

    @abstractmethod
    def is_category(self, index: int) -> bool:
        """Whether a column holds categories by its own type."""

    def permuted(self, index: int, order: np.ndarray) -> Any:
        """Return the table with the entries of a column in another order."""
        return self.replaced({index: self.column(index)[order]})

    @abstractmethod
    def replaced(self, columns: dict[int, np.ndarray]) -> Any:
        """Return the table with new values in some columns."""


def open_columns(X: Any) -> Columns:
    """Find out what `X` is: an array, a data frame or a sparse matrix."""
    kinds: tuple[tuple[tuple[type, ...], type], ...] = (
        (_loaded_classes("pandas", "DataFrame"), PandasColumns),
        (_loaded_classes("polars", "DataFrame"), PolarsColumns),
        (_loaded_classes("pyarrow", "Table"), ArrowColumns),
    )
    for classes, kind in kinds:
        if isinstance(X, classes):
            return _check_shape(kind(X))
    if isinstance(X, _loaded_classes("pyarrow", "RecordBatch")):
        return _check_shape(ArrowColumns(sys.modules["pyarrow"].Table.from_batches([X])))
    if sparse.issparse(X):
        return _check_shape(SparseColumns(X))
    if hasattr(X, "__arrow_c_stream__") and hasattr(X, "columns"):
        import pyarrow

        return _check_shape(ArrowColumns(pyarrow.table(X)))
    if isinstance(X, Mapping):
        return _check_shape(DictColumns(X))
    return _check_shape(ArrayColumns(open_array(X)))


def _open_column(values: Any) -> Columns:
    """Open one column of a dict as a table of a single column."""
    if isinstance(values, _loaded_classes("pandas", "Series", "Categorical")):
        return PandasColumns(sys.modules["pandas"].DataFrame({"": values}).reset_index(drop=True))
    if isinstance(values, _loaded_classes("polars", "Series")):
        return PolarsColumns(values.to_frame())
    if isinstance(values, _loaded_classes("pyarrow", "Array", "ChunkedArray")):
        return ArrowColumns(sys.modules["pyarrow"].table({"": values}))
    array = open_array(values)
    if array.ndim != 1:
        raise ValueError(f"X is a dict with a column of the shape {array.shape}, not of one axis")
    return ArrayColumns(array[:, None])


def open_array(values: Any) -> np.ndarray:
    """Return an array-like as an array, with NaN where it is masked."""
    if is_masked(values):
        return np.ma.filled(np.ma.asarray(values, dtype=float), np.nan)
    return _as_array(values)


def _check_shape(columns: Columns) -> Columns:
    if len(columns.shape) != 2 or 0 in columns.shape:
        raise ValueError(
            f"X must be a table with at least one row and one column, got the shape {columns.shape}"
        )
    return columns


def is_missing(values: np.ndarray) -> np.ndarray:
    """Which entries of a column have no value."""
    if values.dtype.kind == "O":
        return np.fromiter(map(is_missing_object, values), dtype=bool, count=len(values))
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)


class ArrayColumns(Columns):
    """A NumPy array, or what becomes one."""

    def take(self, rows: np.ndarray) -> ArrayColumns:
        return ArrayColumns(self.table[rows])

    def column(self, index: int) -> np.ndarray:
        return self.table[:, index]

    def is_category(self, index: int) -> bool:
        """Whether a column holds text."""
        values = self.table[:, index]
        return values.dtype.kind in "OUT" and any(isinstance(value, str) for value in values)

    def replaced(self, columns: dict[int, np.ndarray]) -> np.ndarray:
        # Integers would cut the values of a grid, and floats of few digits round them.
        dtypes = [self.table.dtype, *(values.dtype for values in columns.values())]
        dtype = np.result_type(*dtypes) if all(d.kind in "biuf" for d in dtypes) else object
        changed = self.table.astype(dtype, order="K")
        for index, values in columns.items():
            changed[:, index] = values
        return changed


class PandasColumns(Columns):
    """A pandas DataFrame."""

    def __init__(self, table: Any) -> None:
        super().__init__(table, list(table.columns))

    def take(self, rows: np.ndarray) -> PandasColumns:
        return PandasColumns(self.table.iloc[rows].reset_index(drop=True))

    def column(self, index: int) -> np.ndarray:
        series = self.table.iloc[:, index]
        if self.is_category(index):
            return series.astype(object).to_numpy()
        if isinstance(series.dtype, np.dtype):
            return series.to_numpy()
        return series.to_numpy(dtype=np.float64, na_value=np.nan)

    def is_category(self, index: int) -> bool:
        """Whether a column has a category or string type, or holds strings."""
        series = self.table.iloc[:, index]
        kind = type(series.dtype).__name__
        if kind in ("CategoricalDtype", "StringDtype") or "string" in str(series.dtype):
            return True
        return series.dtype == object and any(isinstance(value, str) for value in series)

    def permuted(self, index: int, order: np.ndarray) -> Any:
        changed = self.table.copy(deep=False)
        changed.isetitem(index, self.table.iloc[:, index].array.take(order))
        return changed

    def replaced(self, columns: dict[int, np.ndarray]) -> Any:
        import pandas  # type: ignore[import-untyped]

        changed = self.table.copy(deep=False)
        for index, values in columns.items():
            same = self.table.dtypes.iloc[index] if self.is_category(index) else None
            changed.isetitem(index, pandas.array(values, dtype=same) if same else values)
        return changed


class PolarsColumns(Columns):
    """A polars DataFrame."""

    def __init__(self, table: Any) -> None:
        super().__init__(table, list(table.columns))

    def take(self, rows: np.ndarray) -> PolarsColumns:
        return PolarsColumns(self.table[rows])

    def column(self, index: int) -> np.ndarray:
        series = self.table.to_series(index)
        if self.is_category(index):
            return np.array(series.to_list(), dtype=object)
        return series.cast(sys.modules["polars"].Float64).to_numpy()

    def is_category(self, index: int) -> bool:
        """Whether a column has a string or category type."""
        return str(self.table.dtypes[index].base_type()) in ("String", "Categorical", "Enum")

    def permuted(self, index: int, order: np.ndarray) -> Any:
        return self.table.with_columns(self.table.to_series(index)[order])

    def replaced(self, columns: dict[int, np.ndarray]) -> Any:
        import polars

        series = []
        for index, values in columns.items():
            dtype = self.table.dtypes[index] if self.is_category(index) else polars.Float64
            series.append(polars.Series(self.table.columns[index], values.tolist(), dtype=dtype))
        return self.table.with_columns(series)


class ArrowColumns(Columns):
    """A pyarrow Table."""

    def __init__(self, table: Any) -> None:
        super().__init__(table, list(table.column_names))

    def take(self, rows: np.ndarray) -> ArrowColumns:
        return ArrowColumns(self.table.take(rows))

    def column(self, index: int) -> np.ndarray:
        values = self.table.column(index).to_pylist()
        return np.array(values, dtype=object if self.is_category(index) else np.float64)

    def is_category(self, index: int) -> bool:
        """Whether a column has a string or dictionary type."""
        dtype = str(self.table.schema.field(index).type)
        return dtype.startswith(("dictionary", "string", "large_string"))

    def permuted(self, index: int, order: np.ndarray) -> Any:
        moved = self.table.column(index).take(order)
        return self.table.set_column(index, self.table.schema.field(index), moved)

    def replaced(self, columns: dict[int, np.ndarray]) -> Any:
        import pyarrow

        changed = self.table
        for index, values in columns.items():
            array = pyarrow.array(values.tolist())
            if pyarrow.types.is_dictionary(self.table.schema.field(index).type):
                array = array.dictionary_encode()
            changed = changed.set_column(index, self.table.column_names[index], array)
        return changed


class DictColumns(Columns):
    """A dict from names to columns, each of which is a table of its own kind."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.names = list(table)
        self._parts = [_open_column(values) for values in table.values()]
        lengths = {part.shape[0] for part in self._parts} or {0}
        if len(lengths) > 1:
            raise ValueError(f"X is a dict, whose columns differ in length: {sorted(lengths)}")
        self.shape = (lengths.pop(), len(self.names))

    def take(self, rows: np.ndarray) -> DictColumns:
        return DictColumns(
            {
                name: _only_column(part.take(rows).table)
                for name, part in zip(self.table, self._parts, strict=True)
            }
        )

    def column(self, index: int) -> np.ndarray:
        return self._parts[index].column(0)

    def is_category(self, index: int) -> bool:
        """Whether a column holds text, or has a category or string type."""
        return self._parts[index].is_category(0)

    def permuted(self, index: int, order: np.ndarray) -> Any:
        moved = _only_column(self._parts[index].permuted(0, order))
        return {**self.table, list(self.table)[index]: moved}

    def replaced(self, columns: dict[int, np.ndarray]) -> Any:
        names = list(self.table)
        new = {
            names[index]: _only_column(self._parts[index].replaced({0: values}))
            for index, values in columns.items()
        }
        return {**self.table, **new}


def _only_column(table: Any) -> Any:
    """Return the column of a table that has but one."""
    if isinstance(table, np.ndarray):
        return table[:, 0]
    if hasattr(table, "iloc"):
        return table.iloc[:, 0]
    return table.to_series(0) if hasattr(table, "to_series") else table.column(0)


class SparseColumns(Columns):
    """A scipy.sparse matrix or array."""

    def __init__(self, table: Any) -> None:
        super().__init__(table.tocsc())

    def take(self, rows: np.ndarray) -> SparseColumns:
        return SparseColumns(self.table[rows])

    def column(self, index: int) -> np.ndarray:
        """Return the values of a column, zeros among them."""
        return np.asarray(self.table[:, [index]].toarray(), dtype=np.float64).ravel()

    def is_category(self, index: int) -> bool:
        """Return False: a sparse matrix holds numbers."""
        return False

    def replaced(self, columns: dict[int, np.ndarray]) -> Any:
        parts, start = [], 0
        for index in sorted(columns):
            new = sparse.csc_array(np.asarray(columns[index], dtype=np.float64)[:, None])
            parts += [self.table[:, start:index], new]
            start = index + 1
        parts.append(self.table[:, start:])
        return sparse.hstack([part for part in parts if part.shape[1]], format="csc")
