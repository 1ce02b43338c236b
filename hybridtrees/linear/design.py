"""Design matrix of a regression: one-hot categories, indicators of missing values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hybridtrees._persistence import register
from hybridtrees.core.base.checks import MOST, Checked, check_arrays, check_numbers, check_type
from hybridtrees.input.validation import FeatureReader

# With more columns of categories and indicators the design matrix is sparse.
_MAX_DENSE = 64


@register
class Design(Checked):
    """The columns of a regression in terms of the features.

    Numeric features come first, unchanged; then a 0/1 column for each category of each categorical
    feature; then, with `indicators`, one for each feature that had missing values in fit. A missing
    or unseen category is NaN in all columns of its feature. Like other missing entries, it is later
    replaced by the mean, which is the share of the category.
    """

    def __init__(
        self, reader: FeatureReader, values: Any, *, drop_first: bool, indicators: bool
    ) -> None:
        mask = reader.is_categorical
        self.numeric = np.flatnonzero(~mask).astype(np.int64)
        self.categorical = np.flatnonzero(mask).astype(np.int64)
        labels = [known for known in reader.coded if known is not None]
        self.n_codes = np.array([len(known) for known in labels], dtype=np.int64)
        self.first = np.minimum(int(drop_first), np.maximum(self.n_codes - 1, 0))
        self.indicators = _with_missing(values) if indicators else np.zeros(0, dtype=np.int64)
        given = reader.feature_names_in
        features = [f"x{f}" for f in range(reader.n_features_in)] if given is None else list(given)
        self.names = [str(features[f]) for f in self.numeric]
        for f, known, first in zip(self.categorical, labels, self.first, strict=True):
            # A feature without known labels still has a column, of missing values.
            own = [f"{features[f]}={label}" for label in known[first:]]
            self.names += own or [str(features[f])]
        self.names += [f"{features[f]} is missing" for f in self.indicators]

    def _check_state(self) -> None:
        """Refuse features or codes that do not exist."""
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
        """Refuse a reader with other features or numbers of categories."""
        labels = [known for known in reader.coded if known is not None]
        if not np.array_equal(self.categorical, np.flatnonzero(reader.is_categorical)) or (
            self.n_codes.tolist() != [len(known) for known in labels]
            or len(self.numeric) + len(labels) != reader.n_features_in
        ):
            raise ValueError("the columns of a regression are those of other features")

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.names)

    @property
    def is_plain(self) -> bool:
        """Whether the columns are the features."""
        return not len(self.categorical) and not len(self.indicators)

    def by_feature(self, coef: NDArray[Any], fill: NDArray[Any]) -> NDArray[np.float64]:
        """Return one number per output and feature, from (n_columns, n_outputs) coefficients.

        A number has its coefficient, a category the standard deviation of the effects of its
        levels. `fill` holds the means of the columns, which are the shares of the levels.
        """
        found = np.zeros((coef.shape[1], len(self.numeric) + len(self.categorical)))
        found[:, self.numeric] = coef[: len(self.numeric)].T
        start = len(self.numeric)
        for f, width in zip(self.categorical, self.n_codes - self.first, strict=True):
            own = slice(start, start + max(int(width), 1))
            # A level without a column has the effect 0.
            found[:, f] = level_spread(coef[own], fill[own])
            start = own.stop
        return found

    def expand(self, values: Any) -> Any:
        """Return the design matrix, dense or CSR; the table itself if nothing is added."""
        if hasattr(values, "indptr"):
            values = values.tocsr()
        if self.is_plain:
            return values
        parts = [values[:, self.numeric]]
        for f, first, n in zip(self.categorical, self.first, self.n_codes, strict=True):
            parts.append(_one_hot(_column(values, int(f)), int(first), int(n), values.dtype))
        for f in self.indicators:
            missing = np.isnan(_column(values, int(f))).astype(values.dtype)
            parts.append(sparse.csr_array(missing[:, None]))
        parts = [part for part in parts if part.shape[1]]
        if hasattr(values, "indptr") or self.n_columns - len(self.numeric) > _MAX_DENSE:
            return sparse.hstack([sparse.csr_array(part) for part in parts], format="csr")
        table = np.empty((values.shape[0], self.n_columns), dtype=values.dtype, order="F")
        start = 0
        for part in parts:
            stop = start + part.shape[1]
            table[:, start:stop] = part.toarray() if hasattr(part, "toarray") else part
            start = stop
        return table


def level_spread(effects: NDArray[Any], shares: NDArray[Any]) -> NDArray[np.float64]:
    """Return the standard deviation of the effects of levels, (n_levels, n_outputs)."""
    shares = np.nan_to_num(shares)
    mean = shares @ effects
    rest = max(0.0, 1.0 - float(shares.sum()))  # of levels with the effect 0
    spread: NDArray[np.float64] = np.sqrt(shares @ (effects - mean) ** 2 + rest * mean**2)
    return spread


def _with_missing(values: Any) -> NDArray[np.int64]:
    if hasattr(values, "indptr"):
        entries = values.tocoo()
        return np.unique(entries.col[np.isnan(entries.data)]).astype(np.int64)
    return np.flatnonzero(np.isnan(values).any(axis=0)).astype(np.int64)


def _column(values: Any, f: int) -> NDArray[Any]:
    if hasattr(values, "indptr"):
        return np.asarray(values[:, [f]].toarray().ravel())
    return np.asarray(values[:, f])


def _one_hot(codes: NDArray[Any], first: int, n_codes: int, dtype: Any) -> Any:
    """Return one column per code from `first` on, NaN in all of them if the code is NaN."""
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
