"""Tables for imported models, read as the library that a model is from reads them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from hybridtrees._persistence import register
from hybridtrees.core.base.checks import check_arrays, check_type
from hybridtrees.input.arrays import (
    FLOAT32,
    FLOAT64,
    float_dtype,
    is_masked,
    is_real,
    plain_array,
    to_float,
)
from hybridtrees.input.sources import Categories, open_source
from hybridtrees.input.tables import Column, Table, open_table
from hybridtrees.input.validation import FeatureReader

# LightGBM takes numbers of at most this size for zero.
_ZERO = float(np.float32(1e-35))


@register
class ImportedReader(FeatureReader):
    """Reads tables for an imported model.

    Unlike in our own models infinities are numbers, and columns of categories may hold codes
    without labels.

    Parameters
    ----------
    n_features_in, feature_names_in, categories, missing, estimator_name
        See `FeatureReader`; a column of categories has labels only if the foreign model has.
    n_codes : ndarray of int64, optional
        By feature: number of codes; the last one stands for all that no split mentions. 0 for a
        column of numbers.
    single : bool
        Whether numbers are rounded to float32, as in XGBoost, scikit-learn's trees and CatBoost.
    zero_missing : ndarray of bool, optional
        Columns in which zero means missing (LightGBM's `zero_as_missing`).
    sparse_missing : bool
        Whether entries that a sparse table does not store are missing, and not zero.
    labelled : bool
        Whether numbers in a column of categories are labels, and not codes.
    unseen_missing : bool
        Whether categories that no split mentions count as missing.
    """

    def __init__(
        self,
        n_features_in: int,
        feature_names_in: np.ndarray | None = None,
        categories: Categories | None = None,
        missing: float = math.nan,
        estimator_name: str = "the imported model",
        *,
        n_codes: np.ndarray | None = None,
        single: bool = False,
        zero_missing: np.ndarray | None = None,
        sparse_missing: bool = False,
        labelled: bool = False,
        unseen_missing: bool = False,
    ) -> None:
        labels: Categories = [None] * n_features_in if categories is None else categories
        super().__init__(n_features_in, feature_names_in, labels, missing, estimator_name)
        self.n_codes = np.zeros(n_features_in, dtype=np.int64) if n_codes is None else n_codes
        self.zero_missing = zero_missing
        self.single, self.sparse_missing = single, sparse_missing
        self.labelled, self.unseen_missing = labelled, unseen_missing

    @property
    def is_categorical(self) -> np.ndarray:
        """Mask of the columns that hold codes in the values that are read."""
        return self.n_codes > 0

    @property
    def known_codes(self) -> Sequence[Any]:
        """A range for each column of codes, since labels are not known for all; None for others."""
        return [range(n) if n else None for n in self.n_codes.tolist()]

    def read(self, X: Any) -> Any:
        """Return the values of a table, as a float array."""
        table = None
        if not scipy.sparse.issparse(X) and not isinstance(X, np.ndarray | list | tuple):
            table = open_table(X)
        if table is not None:
            self._check_table(table)
            return self._prepare(*self._columns(table))
        values, coded = (self._dense(X), []) if scipy.sparse.issparse(X) else self._array(X)
        self.check_features(_Shape(values.shape))
        return self._prepare(values, coded)

    def read_codes(self, X: Any) -> Any:
        """Return the values of a table: there are no statistics in place of codes."""
        return self.read(X)

    def _check_table(self, table: Table) -> None:
        """Refuse a data frame of other names; spaces may have become underscores."""
        known = self.feature_names_in
        names = table.names
        if known is not None and names is not None and len(known) == len(names):
            plain = [name.replace(" ", "_") if isinstance(name, str) else name for name in names]
            names = known.tolist() if plain == known.tolist() else names
        self.check_features(_Shape((table.n_rows, len(table.names or ())), names))

    def _dense(self, X: Any) -> np.ndarray:
        """Return a sparse table in full; entries that are not stored are 0, or missing."""
        if not is_real(X.dtype):
            raise TypeError(f"X has the dtype {X.dtype}, which is not supported")
        if not self.sparse_missing:
            return to_float(np.asarray(X.toarray()))
        X = X.tocoo()
        values = np.full(X.shape, np.nan, dtype=float_dtype(X.dtype))
        values[X.row, X.col] = X.data
        return values

    def _array(self, X: Any) -> tuple[np.ndarray, list[int]]:
        """Return an array, and the columns that hold codes already."""
        values = plain_array(X)
        if values.ndim == 2 and values.size and is_real(values.dtype):
            if is_masked(X):
                return np.ma.filled(X.astype(float_dtype(values.dtype)), np.nan), []
            return to_float(values), []
        # Everything else is refused, or an array of objects.
        source = open_source(X, math.nan, lambda n: np.resize(self.is_categorical, n))
        return self._columns(Table(None, source.shape[0], source._columns))  # type: ignore[attr-defined]

    def _columns(self, table: Table) -> tuple[np.ndarray, list[int]]:
        """Return columns as one array, and those that hold codes already."""
        if table.array is not None:
            return to_float(table.array), []
        self.check_features(_Shape((table.n_rows, len(table.columns)), self.feature_names_in))
        wide = any(column.dtype == FLOAT64 for column in table.columns)
        dtype = FLOAT64 if wide else FLOAT32
        values = np.empty((table.n_rows, len(table.columns)), dtype=dtype, order="F")
        for j, column in enumerate(table.columns):
            values[:, j] = self._codes(column, j) if column.is_category else column.numbers()
        return values, [j for j, column in enumerate(table.columns) if column.is_category]

    def _codes(self, column: Column, j: int) -> np.ndarray:
        """Return the codes of a column of categories by their labels; NaN is missing."""
        if not self.n_codes[j] and self.categories[j] is None:
            raise ValueError(
                f"{column.label} of X holds categories, but {self.estimator_name} was trained "
                "with numbers there"
            )
        factors, labels = column.factors, self.categories[j]
        found = np.arange(len(factors.labels) + 1, dtype=np.float64)
        if labels is not None:
            found[:-1] = self._find(factors.labels.tolist(), j)
        found[-1] = np.nan
        codes: np.ndarray = found[factors.codes]
        return codes

    def _find(self, wanted: list[Any], j: int) -> list[float]:
        """Return the codes of labels."""
        labels = self.categories[j]
        assert labels is not None
        index = {_key(label): code for code, label in enumerate(labels.tolist())}
        return [index.get(_key(label), self._unseen(j)) for label in wanted]

    def _unseen(self, j: int) -> float:
        return math.nan if self.unseen_missing else float(max(self.n_codes[j] - 1, 0))

    def _prepare(self, values: np.ndarray, coded: list[int]) -> np.ndarray:
        """Round numbers, and mark missing values and unseen categories; copies before it writes."""
        given = values
        if self.missing == self.missing:
            values = np.where(values == values.dtype.type(self.missing), np.nan, values)
        if self.single and values.dtype == FLOAT64:
            with np.errstate(over="ignore"):
                values = values.astype(np.float32, order="K")
        columns = np.flatnonzero(self.is_categorical)
        zeros = [] if self.zero_missing is None else np.flatnonzero(self.zero_missing).tolist()
        if values is given and (len(columns) or len(zeros)):
            values = values.copy(order="K")
        for j in zeros:
            values[np.abs(values[:, j]) <= _ZERO, j] = np.nan
        for j in columns.tolist():
            values[:, j] = self._known_codes(values[:, j], j, self.labelled and j not in coded)
        return values

    def _known_codes(self, column: np.ndarray, j: int, by_label: bool) -> np.ndarray:
        """Return codes, with one code or NaN in place of all that no split mentions."""
        labels = self.categories[j]
        last, missing = self.n_codes[j] - 1, np.isnan(column)
        if by_label and labels is not None:
            distinct, place = np.unique(column, return_inverse=True)
            codes = self._find(distinct.tolist(), j)
            column = np.array(codes)[place.reshape(column.shape)]
        # Codes are cut to integers; XGBoost looks for negative ones before, LightGBM afterwards.
        known = ((column >= 0) if self.single else (column > -1)) & (column < last)
        column = np.where(known, np.trunc(column), self._unseen(j))
        return np.where(missing, np.nan, column)

    def _check_state(self) -> None:
        """Refuse columns whose codes do not match their number or labels."""
        super()._check_state()
        check_arrays(self, {"n_codes": ("i8", self.n_features_in)})
        if self.zero_missing is not None:
            check_arrays(self, {"zero_missing": ("?", self.n_features_in)})
        for name in ("single", "sparse_missing", "labelled", "unseen_missing"):
            check_type(self, name, bool)
        if self.statistics is not None:
            raise ValueError("an imported model has no statistics of its target")

    def to_state(self) -> dict[str, Any]:
        """Return the state as a dict of numbers, strings, lists and arrays."""
        own = ("n_codes", "single", "zero_missing", "sparse_missing", "labelled", "unseen_missing")
        state = super().to_state()
        del state["statistics"]
        return state | {name: getattr(self, name) for name in own}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ImportedReader:
        """Return the reader that `to_state` described."""
        state = dict(state)
        names, labels = state.pop("feature_names_in"), state.pop("categories")
        reader = cls(
            feature_names_in=None if names is None else np.array(names, dtype=object),
            categories=[np.array(c, dtype=object) if isinstance(c, list) else c for c in labels],
            **state,
        )
        reader._check_state()
        return reader


class _Shape:
    """The shape and names of a table, for checks."""

    def __init__(self, shape: tuple[int, ...], names: Any = None) -> None:
        self.shape, self.names = shape, names


def _key(label: Any) -> Any:
    """Return a label so that 3, 3.0 and "3" are the same."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)
