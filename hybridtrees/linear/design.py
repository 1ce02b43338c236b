"""From features to the columns of a regression: categories, indicators of missing values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hybridtrees._persistence import register
from hybridtrees.core.base.checks import MOST, Checked, check_arrays, check_numbers, check_type
from hybridtrees.input.validation import FeatureReader

# Beyond this many columns of categories a table is made sparse.
_MOST_DENSE = 64


@register
class Design(Checked):
    """Which columns a regression has, in terms of the features.

    Numeric features come first, each as it is; then a column of zeros and ones for each category
    of each categorical feature; then an indicator for each feature that had missing values in
    fit, if indicators are wanted. A missing or unseen category is missing in all columns of its
    feature, and like other missing entries later replaced by the mean, the share of a category.
    """

    def __init__(
        self, reader: FeatureReader, values: Any, *, drop_first: bool, indicators: bool
    ) -> None:
        mask = reader.is_categorical
        self.numeric = np.flatnonzero(~mask).astype(np.int64)
        self.categorical = np.flatnonzero(mask).astype(np.int64)
        labels = [known for known in reader.categories if known is not None]
        self.n_codes = np.array([len(known) for known in labels], dtype=np.int64)
        self.first = np.minimum(int(drop_first), np.maximum(self.n_codes - 1, 0))
        self.indicators = _with_missing(values) if indicators else np.zeros(0, dtype=np.int64)
        given = reader.feature_names_in
        features = [f"x{f}" for f in range(reader.n_features_in)] if given is None else list(given)
        self.names = [str(features[f]) for f in self.numeric]
        for f, known, first in zip(self.categorical, labels, self.first, strict=True):
            # A feature without a known label still has a column: of missing values, to be 0.
            own = [f"{features[f]}={label}" for label in known[first:]]
            self.names += own or [str(features[f])]
        self.names += [f"{features[f]} is missing" for f in self.indicators]

    def _check_state(self) -> None:
        """Refuse columns of features or codes that do not exist."""
        sizes = check_arrays(
            self,
            {
                "numeric": ("i8", "n_numeric"),
                "categorical": ("i8", "n_categorical"),
                "first": ("i8", "n_categorical"),
                "n_codes": ("i8", "n_categorical"),
                "indicators": ("i8", "n_indicators"),
            },
        )
        n_features = sizes["n_numeric"] + sizes["n_categorical"]
        both = np.sort(np.concatenate([self.numeric, self.categorical]))
        if not np.array_equal(both, np.arange(n_features)):
            raise ValueError("a Design must have each feature once")
        check_numbers(self.indicators, "indicators of Design", 0, n_features)
        check_numbers(self.first, "first of Design", 0, 2)
        check_numbers(self.n_codes, "n_codes of Design", 0, MOST)
        widths = np.maximum(self.n_codes - self.first, 1)
        n_columns = sizes["n_numeric"] + int(widths.sum()) + sizes["n_indicators"]
        if len(check_type(self, "names", list)) != n_columns:
            raise ValueError(f"a Design of {n_columns} columns has {len(self.names)} names")
        if not all(isinstance(name, str) for name in self.names):
            raise ValueError("the names of a Design must be strings")

    def check_reader(self, reader: FeatureReader) -> None:
        """Refuse a reader whose features, or numbers of categories, are others."""
        labels = [known for known in reader.categories if known is not None]
        if not np.array_equal(self.categorical, np.flatnonzero(reader.is_categorical)) or (
            self.n_codes.tolist() != [len(known) for known in labels]
            or len(self.numeric) + len(labels) != reader.n_features_in
        ):
            raise ValueError("the columns of a regression are those of other features")

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.names)

    def expand(self, values: Any) -> Any:
        """Return the columns for a table of features: dense, or CSR.

        The table itself where nothing is to be added.
        """
        if hasattr(values, "indptr"):
            values = values.tocsr()
        if not len(self.categorical) and not len(self.indicators):
            return values
        parts = [values[:, self.numeric]]
        for f, first, n in zip(self.categorical, self.first, self.n_codes, strict=True):
            parts.append(_one_hot(_column(values, int(f)), int(first), int(n), values.dtype))
        for f in self.indicators:
            missing = np.isnan(_column(values, int(f))).astype(values.dtype)
            parts.append(sparse.csr_array(missing[:, None]))
        parts = [part for part in parts if part.shape[1]]
        if hasattr(values, "indptr") or self.n_columns - len(self.numeric) > _MOST_DENSE:
            return sparse.hstack([sparse.csr_array(part) for part in parts], format="csr")
        table = np.empty((values.shape[0], self.n_columns), dtype=values.dtype, order="F")
        start = 0
        for part in parts:
            stop = start + part.shape[1]
            table[:, start:stop] = part.toarray() if hasattr(part, "toarray") else part
            start = stop
        return table


def _with_missing(values: Any) -> NDArray[np.int64]:
    if hasattr(values, "indptr"):
        entries = values.tocoo()
        return np.unique(entries.col[np.isnan(entries.data)]).astype(np.int64)
    return np.flatnonzero(np.isnan(values).any(axis=0)).astype(np.int64)


def _column(values: Any, f: int) -> NDArray:
    if hasattr(values, "indptr"):
        return values[:, [f]].toarray().ravel()
    return values[:, f]


def _one_hot(codes: NDArray, first: int, n_codes: int, dtype: Any) -> Any:
    """One column per code from `first` on, NaN in all of them where the code is."""
    n, width = len(codes), max(n_codes - first, 1)
    missing = np.isnan(codes)
    known = np.flatnonzero(~missing & (codes >= first))
    unknown = np.flatnonzero(missing)
    rows = np.concatenate([known, np.repeat(unknown, width)])
    columns = np.concatenate(
        [codes[known].astype(np.int64) - first, np.tile(np.arange(width), len(unknown))]
    )
    entries = np.concatenate([np.ones(len(known)), np.full(len(unknown) * width, np.nan)])
    return sparse.csr_array((entries.astype(dtype), (rows, columns)), shape=(n, width))
