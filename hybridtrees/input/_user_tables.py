"""Tables of any kind whose rows can be selected and whose columns can be replaced.

Models are called through their public methods, so a table must stay of the kind that they were
fitted on: a data frame stays a data frame, with its dtypes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
from scipy import sparse

from hybridtrees.input.arrays import is_masked, is_missing_object
from hybridtrees.input.columns import column_index
from hybridtrees.input.sources import _as_array, _check_shape
from hybridtrees.input.tables import _loaded_classes


class Columns:
    """A table whose columns can be replaced."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.shape: tuple[int, ...] = tuple(table.shape)
        names = getattr(table, "column_names", getattr(table, "columns", None))
        self.names: list[Any] | None = None if names is None else list(names)

    def index(self, feature: Any, parameter: str = "features") -> int:
        """Return the position of a column given by name or number."""
        return column_index(feature, self.shape[1], self.names, parameter)

    def feature_names(self, estimator: Any) -> list[str]:
        """Return the column names of the table, or those that a model knows."""
        names = getattr(estimator, "feature_names_in_", None) if self.names is None else self.names
        if names is None:
            return [f"feature_{j}" for j in range(self.shape[1])]
        return [str(name) for name in names]

    def take(self, rows: np.ndarray) -> Self:
        """Return the rows at the given positions."""
        return type(self)(self.table[rows])

    def rows(self, start: int, stop: int) -> Self:
        """Return the rows from `start` to before `stop`, without a copy where that is possible."""
        return type(self)(self.table[start:stop])

    def joined(self, others: Sequence[Columns]) -> Self:
        """Return the rows of this table and, after them, of others of the same kind."""
        return type(self)(np.concatenate([self.table, *(part.table for part in others)]))

    def select(self, features: np.ndarray) -> Self:
        """Return the columns at the given positions."""
        return type(self)(self.table[:, features])

    def series(self, index: int) -> Any:
        """Return a column in the type of the table's library."""
        raise NotImplementedError

    def exchanged(self, columns: dict[int, Any]) -> Any:
        """Return the table with other columns, given in the type of its library."""
        raise NotImplementedError

    def column(self, index: int) -> np.ndarray:
        """Return the values of a column: numbers, or objects."""
        return _values(self.series(index))

    def is_category(self, index: int) -> bool:
        """Whether a column has a category or string dtype, or holds strings."""
        return _is_category(self.series(index))

    def permuted(self, index: int, order: np.ndarray) -> Any:
        """Return the table with the entries of a column reordered."""
        return self.exchanged({index: _pick(self.series(index), order)})

    def replaced(self, columns: dict[int, np.ndarray]) -> Any:
        """Return the table with new values in some columns."""
        return self.exchanged({j: _like(self.series(j), new) for j, new in columns.items()})


def open_columns(X: Any) -> Columns:
    """Return the columns of an array, data frame, dict or sparse matrix."""
    columns = _columns_of(X)
    _check_shape(columns.shape, X)
    return columns


def _columns_of(X: Any) -> Columns:
    if isinstance(X, _loaded_classes("pandas", "DataFrame")):
        return PandasColumns(X)
    if isinstance(X, _loaded_classes("polars", "DataFrame")):
        return PolarsColumns(X)
    if isinstance(X, _loaded_classes("pyarrow", "RecordBatch")):
        X = sys.modules["pyarrow"].Table.from_batches([X])
    if isinstance(X, _loaded_classes("pyarrow", "Table")):
        return ArrowColumns(X)
    if hasattr(X, "__arrow_c_stream__") and hasattr(X, "columns"):
        import pyarrow

        return ArrowColumns(pyarrow.table(X))
    if sparse.issparse(X):
        return SparseColumns(X)
    return DictColumns(X) if isinstance(X, Mapping) else ArrayColumns(open_array(X))


def _open_series(values: Any) -> Any:
    """Open one column of a dict."""
    if isinstance(values, _loaded_classes("pandas", "Series", "Categorical")):
        return sys.modules["pandas"].Series(values).reset_index(drop=True)
    if _library(values) in ("polars", "pyarrow"):
        return values
    array = open_array(values)
    if array.ndim != 1:
        raise ValueError(f"X is a dict with a column of the shape {array.shape}, not of one axis")
    return array


def open_array(values: Any) -> np.ndarray:
    """Return an array-like as an array, with NaN for masked entries."""
    if is_masked(values):
        return np.ma.filled(np.ma.asarray(values, dtype=float), np.nan)
    return _as_array(values)


def is_missing(values: np.ndarray) -> np.ndarray:
    """Return which entries of a column are missing."""
    if values.dtype.kind == "O":
        return np.fromiter(map(is_missing_object, values), dtype=bool, count=len(values))
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)


# ---- One column in the type of its library ----------------------------------------------------


def _library(series: Any) -> str:
    return type(series).__module__.partition(".")[0]


def _is_category(series: Any) -> bool:
    """Whether a column has a category or string dtype, or holds strings."""
    library = _library(series)
    if library == "polars":
        return str(series.dtype.base_type()) in ("String", "Categorical", "Enum")
    if library == "pyarrow":
        return str(series.type).startswith(("dictionary", "string", "large_string"))
    kind = type(series.dtype).__name__
    if kind in ("CategoricalDtype", "StringDtype") or "string" in str(series.dtype):
        return True
    return series.dtype.kind in "OUT" and any(isinstance(value, str) for value in series)


def _values(series: Any) -> np.ndarray:
    """Values of a column: numbers, or objects."""
    library = _library(series)
    if library not in ("pandas", "polars", "pyarrow"):
        return cast(np.ndarray, series)
    if _is_category(series):
        return np.array(series.to_pylist() if library == "pyarrow" else series.to_list(), object)
    if library == "pyarrow":
        return np.array(series.to_pylist(), dtype=np.float64)
    if library == "polars":
        return cast(np.ndarray, series.cast(sys.modules["polars"].Float64).to_numpy())
    given = {} if isinstance(series.dtype, np.dtype) else {"dtype": np.float64, "na_value": np.nan}
    return cast(np.ndarray, series.to_numpy(**given))


def _pick(series: Any, rows: np.ndarray) -> Any:
    """Return the entries of a column at the given positions."""
    if _library(series) == "pandas":
        return series.iloc[rows].reset_index(drop=True)
    return series.take(rows) if _library(series) == "pyarrow" else series[rows]


def _between(series: Any, start: int, stop: int) -> Any:
    """Return the entries of a column from `start` to before `stop`."""
    if _library(series) == "pandas":
        return series.iloc[start:stop]
    if _library(series) == "pyarrow":
        return series.slice(start, stop - start)
    return series[start:stop]


def _end_to_end(parts: list[Any]) -> Any:
    """Return columns of one library as one column."""
    library = _library(parts[0])
    if library in ("pandas", "polars"):
        return sys.modules[library].concat(parts)
    if library == "pyarrow":
        pyarrow = sys.modules["pyarrow"]
        chunks = [getattr(part, "chunks", [part]) for part in parts]
        return pyarrow.chunked_array([chunk for own in chunks for chunk in own], parts[0].type)
    return np.concatenate(parts)


def _like(series: Any, values: np.ndarray) -> Any:
    """Return values as a column of the same library, categories with the same dtype."""
    library = _library(series)
    if library == "pandas":
        same = series.dtype if _is_category(series) else None
        return sys.modules["pandas"].Series(values, dtype=same)
    if library == "polars":
        polars = sys.modules["polars"]
        dtype = series.dtype if _is_category(series) else polars.Float64
        return polars.Series(series.name, values.tolist(), dtype=dtype)
    if library == "pyarrow":
        pyarrow = sys.modules["pyarrow"]
        array = pyarrow.array(values.tolist())
        return array.dictionary_encode() if pyarrow.types.is_dictionary(series.type) else array
    return values.astype(_common_type(series.dtype, values.dtype), copy=False)


def _common_type(*dtypes: np.dtype) -> Any:
    """Return a dtype that holds the old and the new values without rounding."""
    return np.result_type(*dtypes) if all(d.kind in "biuf" for d in dtypes) else object


# ---- Tables -----------------------------------------------------------------------------------


class ArrayColumns(Columns):
    """A NumPy array, or what becomes one."""

    def series(self, index: int) -> Any:
        return self.table[:, index]

    def exchanged(self, columns: dict[int, Any]) -> Any:
        dtype = _common_type(self.table.dtype, *(values.dtype for values in columns.values()))
        changed = self.table.astype(dtype, order="K")
        for index, values in columns.items():
            changed[:, index] = values
        return changed


class PandasColumns(Columns):
    """A pandas DataFrame."""

    def take(self, rows: np.ndarray) -> PandasColumns:
        return PandasColumns(self.table.iloc[rows].reset_index(drop=True))

    def rows(self, start: int, stop: int) -> PandasColumns:
        return PandasColumns(self.table.iloc[start:stop])

    def joined(self, others: Sequence[Columns]) -> PandasColumns:
        parts = [part.table for part in (self, *others)]
        return PandasColumns(sys.modules["pandas"].concat(parts, ignore_index=True))

    def select(self, features: np.ndarray) -> PandasColumns:
        return PandasColumns(self.table.iloc[:, features])

    def series(self, index: int) -> Any:
        return self.table.iloc[:, index]

    def exchanged(self, columns: dict[int, Any]) -> Any:
        changed = self.table.copy(deep=False)
        for index, series in columns.items():
            changed.isetitem(index, series.array)  # ignores the index of the frame
        return changed


class PolarsColumns(Columns):
    """A polars DataFrame."""

    def joined(self, others: Sequence[Columns]) -> PolarsColumns:
        parts = [part.table for part in (self, *others)]
        return PolarsColumns(sys.modules["polars"].concat(parts, how="vertical_relaxed"))

    def select(self, features: np.ndarray) -> PolarsColumns:
        return PolarsColumns(self.table[:, features.tolist()])

    def series(self, index: int) -> Any:
        return self.table.to_series(index)

    def exchanged(self, columns: dict[int, Any]) -> Any:
        return self.table.with_columns(list(columns.values()))


class ArrowColumns(Columns):
    """A pyarrow Table."""

    def take(self, rows: np.ndarray) -> ArrowColumns:
        return ArrowColumns(self.table.take(rows))

    def rows(self, start: int, stop: int) -> ArrowColumns:
        return ArrowColumns(self.table.slice(start, stop - start))

    def joined(self, others: Sequence[Columns]) -> ArrowColumns:
        parts = [part.table for part in (self, *others)]
        return ArrowColumns(sys.modules["pyarrow"].concat_tables(parts))

    def select(self, features: np.ndarray) -> ArrowColumns:
        return ArrowColumns(self.table.select(features.tolist()))

    def series(self, index: int) -> Any:
        return self.table.column(index)

    def exchanged(self, columns: dict[int, Any]) -> Any:
        changed = self.table
        for index, series in columns.items():
            changed = changed.set_column(index, self.table.column_names[index], series)
        return changed


class DictColumns(Columns):
    """A dict from names to columns, each of any library."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.names: list[Any] = list(table)
        self._series = [_open_series(values) for values in table.values()]
        lengths = set(map(len, self._series)) or {0}
        if len(lengths) > 1:
            raise ValueError(f"X is a dict, whose columns differ in length: {sorted(lengths)}")
        self.shape = (lengths.pop(), len(self.names))

    def take(self, rows: np.ndarray) -> DictColumns:
        picked = (_pick(series, rows) for series in self._series)
        return DictColumns(dict(zip(self.table, picked, strict=True)))

    def rows(self, start: int, stop: int) -> DictColumns:
        parts = (_between(series, start, stop) for series in self._series)
        return DictColumns(dict(zip(self.table, parts, strict=True)))

    def joined(self, others: Sequence[Columns]) -> DictColumns:
        parts = [self, *others]
        columns = ([part.series(j) for part in parts] for j in range(len(self.names)))
        return DictColumns(dict(zip(self.table, map(_end_to_end, columns), strict=True)))

    def select(self, features: np.ndarray) -> DictColumns:
        return DictColumns({self.names[j]: self.table[self.names[j]] for j in features})

    def series(self, index: int) -> Any:
        return self._series[index]

    def exchanged(self, columns: dict[int, Any]) -> Any:
        return {**self.table, **{self.names[index]: new for index, new in columns.items()}}


class SparseColumns(Columns):
    """A scipy.sparse matrix or array."""

    def __init__(self, table: Any) -> None:
        super().__init__(table.tocsc())

    def joined(self, others: Sequence[Columns]) -> SparseColumns:
        return SparseColumns(sparse.vstack([part.table for part in (self, *others)]))

    def series(self, index: int) -> np.ndarray:
        """Return a column as a dense array."""
        return np.asarray(self.table[:, [index]].toarray(), dtype=np.float64).ravel()

    def exchanged(self, columns: dict[int, Any]) -> Any:
        parts, start = [], 0
        for index in sorted(columns):
            new = sparse.csc_array(np.asarray(columns[index], dtype=np.float64)[:, None])
            parts += [self.table[:, start:index], new]
            start = index + 1
        parts.append(self.table[:, start:])
        return sparse.hstack([part for part in parts if part.shape[1]], format="csc")
