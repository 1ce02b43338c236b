"""Data frames of pandas, polars and pyarrow, and dicts of columns, read column by column.

The three libraries are not imported to recognise a table: its class is compared with those of the
libraries that are loaded already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from hybridtrees.input.arrays import (
    COMPLEX_MESSAGE,
    FLOAT32,
    FLOAT64,
    TEXT_MIXED,
    column_label,
    float_dtype,
    is_masked,
    kinds_of_objects,
    numbers_from_objects,
    plain_array,
)
from hybridtrees.input.labels import Factors, factorize_objects, make_factors

CONVERT = "convert it to numbers or strings first"
CONVERT_TIME = "convert it to numbers first, for instance by hybridtrees.DateFeatures"


@dataclass
class Column:
    """One column of a table, read on demand."""

    label: str  # Name of the column in messages
    dtype: np.dtype | None  # float32 or float64 for numbers, None for categories
    # Returns a real ndarray (NaN where missing) for numbers, `Factors` for categories
    load: Callable[[], Any]

    @property
    def is_category(self) -> bool:
        """Whether the column is categorical by its dtype."""
        return self.dtype is None

    def numbers(self) -> np.ndarray:
        """Return the values of a column of numbers."""
        return cast(np.ndarray, self.load())

    @cached_property
    def factors(self) -> Factors:
        """Codes and labels of a categorical column; cached, since fit uses them twice."""
        return cast(Factors, self.load())


@dataclass
class Table:
    """A data frame or a dict as a list of columns."""

    names: list[Any] | None  # None if there are no names
    n_rows: int
    columns: Sequence[Column] = ()  # empty if there is `array` instead
    # All columns without a copy, for a pandas frame of one floating dtype
    array: np.ndarray | None = None


def open_table(X: Any) -> Table | None:
    """Open a data frame or a dict of columns, or return None when `X` is neither."""
    if isinstance(X, _loaded_classes("pandas", "DataFrame")):
        return _open_pandas(X)
    if isinstance(X, _loaded_classes("polars", "DataFrame")):
        names = list(X.columns)
        return Table(names, X.height, _labelled(_polars_column, X.get_columns(), names))
    if isinstance(X, _loaded_classes("polars", "LazyFrame")):
        raise TypeError(
            "X is a polars LazyFrame; pass X.collect(), or read it in batches by "
            "fit(X, target=...) and hybridtrees.predict_batches"
        )
    arrow = isinstance(X, _loaded_classes("pyarrow", "Table", "RecordBatch"))
    if not arrow and hasattr(X, "__arrow_c_stream__") and hasattr(X, "columns"):
        # A frame of another library with Arrow's interchange protocol.
        import pyarrow

        arrow, X = True, pyarrow.table(X)
    if arrow:
        names = list(X.schema.names)
        return Table(names, X.num_rows, _labelled(arrow_column, X.columns, names))
    if isinstance(X, Mapping):
        return _open_mapping(X)
    return None


def _loaded_classes(module: str, *names: str) -> tuple[type[Any], ...]:
    """Return classes of a library; an empty tuple if it is not loaded."""
    loaded = sys.modules.get(module)
    found = (getattr(loaded, name, None) for name in names)
    return tuple(cls for cls in found if isinstance(cls, type))


def _labelled(
    read: Callable[[Any, str], Column], columns: Iterable[Any], names: list[Any]
) -> list[Column]:
    return [read(column, column_label(j, names)) for j, column in enumerate(columns)]


def _unsupported(label: str, dtype: Any, advice: str = CONVERT) -> TypeError:
    return TypeError(f"{label} of X has the type {dtype}, which is not supported: {advice}")


# ---- pandas -----------------------------------------------------------------------------------


def _open_pandas(frame: Any) -> Table:
    names = list(frame.columns)
    dtypes = list(frame.dtypes)
    table = Table(names, len(frame))
    if dtypes and dtypes[0] in (FLOAT32, FLOAT64) and all(d == dtypes[0] for d in dtypes):
        table.array = frame.to_numpy()
    else:
        columns = (frame.iloc[:, j] for j in range(len(names)))
        table.columns = _labelled(_pandas_column, columns, names)
    return table


def _pandas_column(series: Any, label: str) -> Column:
    dtype = series.dtype
    family = type(dtype).__name__
    if family == "CategoricalDtype":
        cat = series.cat
        return Column(
            label, None, lambda: make_factors(cat.codes.to_numpy(), cat.categories, ordered=True)
        )
    if family == "StringDtype":
        return Column(label, None, lambda: make_factors(*series.factorize(), ordered=False))
    if family == "ArrowDtype":
        import pyarrow

        return arrow_column(pyarrow.array(series.array), label)
    if family == "SparseDtype":
        series = series.sparse.to_dense()
        dtype = series.dtype
    if isinstance(dtype, np.dtype):
        column = _numpy_column(series.to_numpy(), label)
        if column.is_category:  # strings, which pandas hashes faster
            column.load = lambda: make_factors(*series.factorize(), ordered=False)
        return column
    if isinstance(getattr(dtype, "numpy_dtype", None), np.dtype):  # nullable numbers and booleans
        target = float_dtype(dtype.numpy_dtype)
        return Column(label, target, lambda: series.to_numpy(dtype=target, na_value=np.nan))
    raise _unsupported(label, dtype, CONVERT_TIME if dtype.kind in "Mm" else CONVERT)


def _numpy_column(values: np.ndarray, label: str) -> Column:
    """Return the column of a NumPy array; strings are categories."""
    kind = values.dtype.kind
    if kind in "biuf":
        return Column(label, float_dtype(values.dtype), lambda: values)
    if kind in "OUT":
        values = values.astype(object, copy=False)
        kinds = kinds_of_objects(values)
        if kinds and all(issubclass(kind, str) for kind in kinds):
            return Column(label, None, lambda: factorize_objects(values))
        return Column(label, FLOAT64, lambda: numbers_from_objects(values, label, TEXT_MIXED))
    if kind == "c":
        raise ValueError(COMPLEX_MESSAGE.format(name=label, dtype=values.dtype))
    if kind in "Mm":
        raise _unsupported(label, values.dtype, CONVERT_TIME)
    raise _unsupported(label, values.dtype)


# ---- polars -----------------------------------------------------------------------------------

_NARROW_POLARS = ("Boolean", "Int8", "Int16", "UInt8", "UInt16", "Float16", "Float32")


def _polars_column(series: Any, label: str) -> Column:
    import polars

    dtype = series.dtype
    if dtype in (polars.String, polars.Categorical):
        # The physical codes of a Categorical depend on what else the process has read: labels are
        # sorted like strings.
        return Column(label, None, lambda: _polars_strings(series.cast(polars.String)))
    if dtype == polars.Enum:
        return Column(
            label, None, lambda: make_factors(_polars_codes(series), dtype.categories, ordered=True)
        )
    if dtype == polars.Null:
        return Column(label, FLOAT32, lambda: np.full(len(series), np.nan, dtype=np.float32))
    if dtype == polars.Boolean or dtype.is_numeric():
        narrow = str(dtype) in _NARROW_POLARS
        target = polars.Float32 if narrow else polars.Float64
        return Column(label, FLOAT32 if narrow else FLOAT64, lambda: series.cast(target).to_numpy())
    raise _unsupported(label, dtype, CONVERT_TIME if dtype.is_temporal() else CONVERT)


def _polars_strings(series: Any) -> Factors:
    import polars

    labels = series.drop_nulls().unique().sort()
    codes = _polars_codes(series.cast(polars.Enum(labels)))
    return make_factors(codes, labels.to_list(), ordered=False)


def _polars_codes(series: Any) -> np.ndarray:
    import polars

    codes = series.to_physical().cast(polars.Int64).fill_null(-1)
    return cast(np.ndarray, codes.to_numpy())


# ---- pyarrow ----------------------------------------------------------------------------------


def arrow_column(array: Any, label: str) -> Column:
    """Return the column of an Arrow array, chunked or not."""
    import pyarrow
    from pyarrow import types

    dtype = array.type
    if types.is_dictionary(dtype):
        return Column(label, None, lambda: _arrow_factors(array, ordered=True))
    is_view = getattr(types, "is_string_view", lambda _: False)
    if types.is_string(dtype) or types.is_large_string(dtype) or is_view(dtype):
        return Column(label, None, lambda: _arrow_factors(array, ordered=False))
    if types.is_null(dtype):
        return Column(label, FLOAT32, lambda: np.full(len(array), np.nan, dtype=np.float32))
    if types.is_boolean(dtype):
        return Column(label, FLOAT32, lambda: _arrow_numbers(array.cast(pyarrow.int8())))
    if types.is_decimal(dtype):
        return Column(label, FLOAT64, lambda: _arrow_numbers(array.cast(pyarrow.float64())))
    if types.is_integer(dtype) or types.is_floating(dtype):
        target = float_dtype(np.dtype(dtype.to_pandas_dtype()))
        return Column(label, target, lambda: _arrow_numbers(array))
    raise _unsupported(label, dtype, CONVERT_TIME if types.is_temporal(dtype) else CONVERT)


def _arrow_numbers(array: Any) -> np.ndarray:
    # Only chunked arrays copy by default; integers with nulls become float64 with NaN.
    given = {} if hasattr(array, "num_chunks") else {"zero_copy_only": False}
    return cast(np.ndarray, array.to_numpy(**given))


def _arrow_factors(array: Any, *, ordered: bool) -> Factors:
    import pyarrow

    if hasattr(array, "num_chunks"):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        if hasattr(array, "num_chunks"):  # some versions give a chunked array of one chunk back
            array = array.chunk(0)
    if not ordered:
        array = array.dictionary_encode()
    codes = array.indices.cast(pyarrow.int64()).fill_null(-1)
    return make_factors(codes.to_numpy(), array.dictionary.to_pylist(), ordered=ordered)


# ---- dicts ------------------------------------------------------------------------------------


def _open_mapping(X: Mapping[Any, Any]) -> Table:
    """Open a dict from names to arrays, lists, or columns of a data frame library."""
    names = list(X)
    columns: list[Column] = []
    lengths: list[int] = []
    for j, values in enumerate(X.values()):
        label = column_label(j, names)
        column, length = _mapped_column(values, label)
        if lengths and length != lengths[0]:
            raise ValueError(
                "X is a dict, whose columns must be of equal length, but "
                f"{columns[0].label} holds {lengths[0]} values and {label} holds {length}"
            )
        columns.append(column)
        lengths.append(length)
    return Table(names, lengths[0] if lengths else 0, columns)


def _mapped_column(values: Any, label: str) -> tuple[Column, int]:
    """Return a column of a dict, and its length."""
    # Not as arrays, which would lose categories and missing values.
    if isinstance(values, _loaded_classes("pandas", "Series", "Categorical")):
        return _pandas_column(sys.modules["pandas"].Series(values), label), len(values)
    if isinstance(values, _loaded_classes("polars", "Series")):
        return _polars_column(values, label), len(values)
    if isinstance(values, _loaded_classes("pyarrow", "Array", "ChunkedArray")):
        return arrow_column(values, label), len(values)
    array = _mapped_array(values, label)
    if array.ndim != 1:
        raise ValueError(
            "X is a dict, whose columns must be one-dimensional arrays or lists, but "
            f"{label} has the shape {array.shape}"
        )
    return _numpy_column(array, label), len(array)


def _mapped_array(values: Any, label: str) -> np.ndarray:
    if is_masked(values):
        objects = np.ma.getdata(values).astype(object)
        objects[np.ma.getmaskarray(values)] = None
        return objects
    try:
        return plain_array(values)
    except ValueError as error:
        raise ValueError(f"{label} of X cannot be made a one-dimensional array: {error}") from error
