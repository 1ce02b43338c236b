"""The kinds of X: dense array, columns of several types, sparse matrix.

Every source has a shape and perhaps column names, tells which columns are categorical by their
dtype, and returns the values, given the categories learned in fit.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse

from hybridtrees.input.arrays import (
    COMPLEX_MESSAGE,
    FLOAT32,
    FLOAT64,
    TEXT_IN_ARRAY,
    column_label,
    infinity_error,
    is_masked,
    is_number_type,
    is_real,
    kinds_of_objects,
    numbers_from_objects,
    plain_array,
    reject_infinity,
    shorten,
    to_float,
)
from hybridtrees.input.labels import (
    encode_factors,
    encode_numbers,
    factorize_objects,
    learn_factors,
    learn_numbers,
)
from hybridtrees.input.tables import Column, Table, open_table

Categories = list[np.ndarray | None]


class Source:
    """A table as the user passed it; by default all columns are numeric."""

    shape: tuple[int, int]
    names: list[Any] | None = None

    def is_category(self, index: int) -> bool:
        """Whether a column is categorical by its dtype."""
        return False

    def learn(self, index: int) -> np.ndarray:
        """Return the labels of a categorical column."""
        return learn_numbers(self._numbers(index))

    def order(self, index: int) -> np.ndarray | None:
        """Return all labels of a category dtype in their order, None for other columns."""
        return None

    def _numbers(self, index: int) -> np.ndarray:
        raise NotImplementedError

    def values(self, categories: Categories) -> Any:
        """Return the values, with categorical columns encoded."""
        raise NotImplementedError


def open_source(X: Any, missing: float, declared: Callable[[int], np.ndarray]) -> Source:
    """Return the source for `X`, whose shape is checked.

    `declared` returns, for an array of n columns, the mask of the columns that the user declared
    categorical, in which text is allowed.
    """
    if sparse.issparse(X):
        return SparseSource(X, missing)
    table = None if isinstance(X, np.ndarray | list | tuple) else open_table(X)
    if table is not None:
        _check_shape((table.n_rows, len(table.names or ())), X)
        if table.array is not None:
            return DenseSource(to_float(table.array), missing, table.names)
        return ColumnSource(table, missing)
    return _open_array(X, missing, declared)


def _open_array(X: Any, missing: float, declared: Callable[[int], np.ndarray]) -> Source:
    values = _as_array(X)
    _check_shape(values.shape, X)
    if values.dtype.kind == "c":
        raise ValueError(COMPLEX_MESSAGE.format(name="X", dtype=values.dtype))
    mask = np.ma.getmask(X) if is_masked(X) else None
    masked = mask is not None and bool(np.any(mask))
    if is_real(values.dtype):
        floats = to_float(values)
        if masked:
            floats = floats.copy() if floats is values else floats
            floats[mask] = np.nan
        return DenseSource(floats, missing)
    if values.dtype.kind not in "OUST":
        raise TypeError(
            f"X has the dtype {values.dtype}, which is not supported: convert it to numbers first"
        )
    values = (values.astype(str) if values.dtype.kind == "S" else values).astype(object)
    if masked:
        values[mask] = None
    columns = [
        _bare_column(values[:, j], column_label(j), bool(is_declared))
        for j, is_declared in enumerate(declared(values.shape[1]))
    ]
    return ColumnSource(Table(None, len(values), columns), missing)


def _bare_column(values: np.ndarray, label: str, declared: bool) -> Column:
    """Return a column of an object array; text is a category only where declared."""
    if declared:
        kinds = kinds_of_objects(values)
        texts = {kind for kind in kinds if issubclass(kind, str)}
        if texts and all(map(is_number_type, kinds - texts)):
            return Column(label, None, lambda: factorize_objects(values))
    return Column(label, FLOAT64, lambda: numbers_from_objects(values, label, TEXT_IN_ARRAY))


def _as_array(X: Any) -> np.ndarray:
    try:
        return plain_array(X)
    except ValueError as error:
        raise ValueError(f"X cannot be made a 2-D array, its rows differ in length: {error}") from (
            error
        )


def _check_shape(shape: tuple[int, ...], X: Any) -> None:
    if len(shape) != 2:
        if len(shape) == 0:
            what = f"a single value: {shorten(X)}"
        else:
            what = f"{len(shape)}D array of shape {shape}"
        advice = (
            "Reshape your data: X.reshape(-1, 1) if it has a single feature, X.reshape(1, -1) if "
            "it is a single row."
        )
        if isinstance(X, str | PathLike):
            advice = (
                "Rows of files are fitted by fit(X, target=...), target being one of their "
                "columns, and predicted by hybridtrees.predict_batches."
            )
        raise ValueError(f"Expected 2D array (rows and features), got {what} instead. {advice}")
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required."
            )


def _mark_missing(values: np.ndarray, missing: float) -> np.ndarray:
    """Return `values` with NaN in place of `missing`; a copy only if there are any."""
    if missing != missing:
        return values
    with np.errstate(over="ignore"):
        sentinel = values.dtype.type(missing)
    equal = values == sentinel
    if np.isinf(sentinel) != np.isinf(missing) or not equal.any():
        return values
    values = values.copy(order="K")
    values[equal] = np.nan
    return values


class DenseSource(Source):
    """A real 2-D array, float32 or float64."""

    def __init__(self, values: np.ndarray, missing: float, names: list[Any] | None = None) -> None:
        self._values = _mark_missing(values, missing)
        self.shape = values.shape
        self.names = names

    def _numbers(self, index: int) -> np.ndarray:
        return self._values[:, index]

    def values(self, categories: Categories) -> np.ndarray:
        """Return the array, copied only if a code differs from its value."""
        values = self._values
        reject_infinity(values, self.names)
        for j, labels in enumerate(categories):
            if labels is None:
                continue
            codes = encode_numbers(values[:, j], labels, column_label(j, self.names))
            if not np.array_equal(codes, values[:, j], equal_nan=True):
                if values is self._values:
                    values = values.copy(order="K")
                values[:, j] = codes
        return values


class ColumnSource(Source):
    """Columns of several types: a data frame, a dict, or an array of Python objects."""

    def __init__(self, table: Table, missing: float) -> None:
        self._columns = table.columns
        self._missing = missing
        self.shape = (table.n_rows, len(table.columns))
        self.names = table.names

    def is_category(self, index: int) -> bool:
        """Whether the column has a category or string dtype."""
        return self._columns[index].is_category

    def learn(self, index: int) -> np.ndarray:
        """Return the labels of a categorical column."""
        column = self._columns[index]
        return learn_factors(column.factors) if column.is_category else super().learn(index)

    def order(self, index: int) -> np.ndarray | None:
        """Return all labels of a category dtype in their order, None for other columns."""
        column = self._columns[index]
        ordered = column.is_category and column.factors.ordered
        return column.factors.labels if ordered else None

    def values(self, categories: Categories) -> np.ndarray:
        """Return one array in Fortran order, float32 if all columns fit, else float64."""
        narrow = all(
            labels is not None or column.dtype == FLOAT32
            for column, labels in zip(self._columns, categories, strict=True)
        )
        values = np.empty(self.shape, dtype=FLOAT32 if narrow else FLOAT64, order="F")
        for j, (column, labels) in enumerate(zip(self._columns, categories, strict=True)):
            if column.is_category and labels is None:
                if (column.factors.codes >= 0).any():
                    raise ValueError(f"{column.label} of X held numbers in fit, categories now")
                values[:, j] = np.nan
            elif labels is None:
                values[:, j] = self._numbers(j)
            elif column.is_category:
                values[:, j] = encode_factors(column.factors, labels, column.label)
            else:
                values[:, j] = encode_numbers(self._numbers(j), labels, column.label)
        return values

    def _numbers(self, index: int) -> np.ndarray:
        column = self._columns[index]
        numbers = _mark_missing(to_float(column.numbers()), self._missing)
        infinite = np.isinf(numbers)
        if infinite.any():
            raise infinity_error(column.label, int(infinite.argmax()), numbers.dtype)
        return numbers


class SparseSource(Source):
    """A scipy.sparse matrix or array; entries that are not stored are 0."""

    def __init__(self, X: Any, missing: float) -> None:
        _check_shape(X.shape, X)
        if X.dtype.kind == "c":
            raise ValueError(COMPLEX_MESSAGE.format(name="X", dtype=X.dtype))
        if not is_real(X.dtype):
            raise TypeError(f"X is a sparse matrix of {X.dtype}; it must hold real numbers")
        if missing == 0:
            raise ValueError(
                "missing=0 with a sparse X would make every absent entry missing. Absent entries "
                "are zeros; store NaN where a value is missing, or pass a dense array."
            )
        self._matrix = _canonical(X)
        self._matrix.data = _mark_missing(self._matrix.data, missing)
        self.shape = X.shape

    def _numbers(self, index: int) -> np.ndarray:
        self._matrix = self._matrix.tocsc()
        column: np.ndarray = self._matrix[:, [index]].toarray().ravel()
        return column

    def values(self, categories: Categories) -> Any:
        """Return a CSR or CSC array of float32 or float64; CSC if there are categories."""
        self._reject_infinity()
        if all(labels is None for labels in categories):
            return self._matrix
        matrix = self._matrix.tocsc()
        parts = []
        start = 0  # first of the numeric columns before the next category
        for j, labels in enumerate(categories):
            if labels is None:
                continue
            codes = encode_numbers(self._numbers(j), labels, column_label(j))
            parts += [matrix[:, start:j], sparse.csc_array(codes.astype(matrix.dtype)[:, None])]
            start = j + 1
        return sparse.hstack([*parts, matrix[:, start:]], format="csc")

    def _reject_infinity(self) -> None:
        infinite = np.flatnonzero(np.isinf(self._matrix.data))
        if infinite.size:
            entries = self._matrix.tocoo()
            row, column = entries.row[infinite[0]], entries.col[infinite[0]]
            raise infinity_error(column_label(int(column)), int(row), self._matrix.dtype)


def _canonical(X: Any) -> Any:
    """Return a CSR or CSC array with sorted indices and no duplicates; `X` is not changed.

    All indices are checked, since compiled code relies on them.
    """
    if X.format not in ("csr", "csc"):
        X = X.tocsr()
    major, minor = X.shape if X.format == "csr" else X.shape[::-1]
    indptr, indices = X.indptr, X.indices
    sound = (
        indptr.ndim == indices.ndim == X.data.ndim == 1
        and len(indptr) == major + 1
        and indptr[0] == 0
        and indptr[-1] <= min(len(indices), len(X.data))
        and bool((np.diff(indptr) >= 0).all())
    )
    if not sound or (len(indices) and (indices.min() < 0 or indices.max() >= minor)):
        raise ValueError(f"X is a damaged {X.format.upper()} matrix: its indices are out of range")
    kind = sparse.csr_array if X.format == "csr" else sparse.csc_array
    n_stored = int(indptr[-1])
    # Converted first: duplicates summed as int8 could overflow.
    data = to_float(X.data[:n_stored])
    matrix = kind((data, indices[:n_stored], indptr), shape=X.shape, copy=False)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix
