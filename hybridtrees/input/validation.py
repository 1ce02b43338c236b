"""Validation of X: from any supported input to the values that the engine reads.

`FeatureReader.fit` learns the number, names and categories of the features, `FeatureReader.read`
converts later tables to the same form. The checks of y and sample_weight are in `targets`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from copy import copy
from numbers import Real
from typing import Any

import numpy as np

from hybridtrees._persistence import register
from hybridtrees.core.base.checks import Checked, check_array, check_arrays, check_count, check_type
from hybridtrees.core.bins.binned_table import BinnedTable
from hybridtrees.input.arrays import FLOAT32, FLOAT64, _has_infinity
from hybridtrees.input.columns import column_indices
from hybridtrees.input.sources import Categories, Source, open_source
from hybridtrees.input.target_statistics import StatisticsChoice, TargetStatistics
from hybridtrees.input.targets import (
    check_sample_weight,
    check_target_classification,
    check_target_regression,
)

__all__ = [
    "FeatureReader",
    "check_sample_weight",
    "check_target_classification",
    "check_target_regression",
]

_MAX_NAMES_SHOWN = 5


@register
class FeatureReader(Checked):
    """Converts tables with the features seen in fit to values.

    Values are either a 2-D ndarray of float32 or float64 (any strides, perhaps read-only, and the
    user's own array if nothing had to change), or a CSR or CSC array of scipy.sparse with sorted
    indices and without duplicates, in which entries that are not stored are 0. NaN means missing.
    Categorical columns hold codes 0, 1, ... as floats: positions in `categories`, whose labels are
    float64 or str and sorted, or in the order of a category dtype.

    A label that was not seen in fit is read as missing. A column that held numbers in fit and
    holds text now (or vice versa) is an error.

    Columns with `statistics` hold a mean response in place of a code (`add_statistics`): they are
    numbers to the engine, `is_categorical` is False and `coded` has no labels for them.
    """

    statistics: TargetStatistics | None = None

    def __init__(
        self,
        n_features_in: int,
        feature_names_in: np.ndarray | None,
        categories: Categories,
        missing: float = math.nan,
        estimator_name: str = "the estimator",
        statistics: TargetStatistics | None = None,
    ) -> None:
        self.n_features_in = n_features_in
        self.feature_names_in = feature_names_in
        self.categories = categories
        self.missing = missing
        self.estimator_name = estimator_name
        self.statistics = statistics
        self._is_plain = (
            feature_names_in is None
            and all(labels is None for labels in categories)
            and missing != missing
        )

    @property
    def coded(self) -> Categories:
        """The labels of the columns that hold codes in the values that are read."""
        if self.statistics is None:
            return self.categories
        replaced = set(self.statistics.features.tolist())
        return [None if j in replaced else own for j, own in enumerate(self.categories)]

    @property
    def known_codes(self) -> Sequence[Any]:
        """For each column, something as long as its codes are many; None without codes."""
        return self.coded

    @property
    def is_categorical(self) -> np.ndarray:
        """Mask of the columns that hold codes in the values that are read."""
        return np.array([labels is not None for labels in self.coded], dtype=bool)

    @classmethod
    def fit(
        cls,
        X: Any,
        *,
        categorical_features: Any = None,
        missing: float | None = math.nan,
        estimator_name: str = "the estimator",
    ) -> tuple[FeatureReader, Any]:
        """Learn the features of `X` and return its values."""
        missing = _check_missing(missing)
        if isinstance(X, BinnedTable):
            names = feature_names(X.feature_names)
            return cls(X.shape[1], names, list(X.categories), missing, estimator_name), X
        if categorical_features is None and missing != missing and _is_clean(X):
            n_features = X.shape[1]
            return cls(n_features, None, [None] * n_features, missing, estimator_name), X
        source = open_source(X, missing, lambda n: _categorical_mask(categorical_features, n, None))
        names = feature_names(source.names)
        n_features = source.shape[1]
        chosen = _categorical_mask(categorical_features, n_features, names)
        categories: Categories = [
            source.learn(j) if chosen[j] or source.is_category(j) else None
            for j in range(n_features)
        ]
        reader = cls(n_features, names, categories, missing, estimator_name)
        return reader, source.values(categories)

    def read(self, X: Any) -> Any:
        """Return the values of a table that has the features seen in fit."""
        if self._is_plain and _is_clean(X) and X.shape[1] == self.n_features_in:
            return X
        return self.with_statistics(self.read_codes(X))

    def with_statistics(self, values: Any) -> Any:
        """Return the values of rows to predict, given those with codes."""
        return values if self.statistics is None else self.statistics.apply(_dense(values))

    def read_codes(self, X: Any) -> Any:
        """Return the values of a table, with codes also where there are statistics."""
        source = open_source(X, self.missing, self._declared)
        self.check_features(source)
        return source.values(self.categories)

    def add_statistics(
        self,
        values: Any,
        target: np.ndarray,
        n_classes: int,
        weight: np.ndarray | None,
        choice: StatisticsChoice,
    ) -> Any:
        """Replace codes of a training table by statistics of its target, where `choice` says so."""
        if choice is False or all(labels is None for labels in self.categories):
            return values
        if not isinstance(values, np.ndarray):
            if choice == "auto":
                return values  # a statistic of 0 would not be 0: the table would be dense
            values = values.toarray()
        made = TargetStatistics.learn(values, self.categories, target, n_classes, weight, choice)
        if made is None:
            return values
        self.statistics, ordered = made
        return ordered

    def check_features(self, source: Any) -> None:
        """Refuse a table, with `shape` and `names`, of other features than those of fit."""
        self._check_names(source)
        if source.shape[1] != self.n_features_in:
            raise ValueError(
                f"X has {source.shape[1]} features, but {self.estimator_name} is expecting "
                f"{self.n_features_in} features as input."
            )

    def order_again(
        self, values: Any, target: np.ndarray, n_classes: int, weight: np.ndarray | None
    ) -> Any:
        """Return a training table of the columns that have statistics, with those of its rows."""
        if self.statistics is None:
            return values
        return self.statistics.order(_dense(values), target, n_classes, weight)

    def learn_again(
        self, X: Any, target: np.ndarray, n_classes: int, weight: np.ndarray | None
    ) -> tuple[FeatureReader, Any]:
        """Return a reader with the statistics of another training table, and that table's values.

        The values have ordered statistics: nothing in a row comes from its own target. Columns
        without statistics are read as before; those with them may have further categories.
        """
        if self.statistics is None:
            return self, self.read(X)
        source = open_source(X, self.missing, self._declared)
        self.check_features(source)
        categories = list(self.categories)
        for j in self.statistics.features:
            categories[j] = source.learn(j)
        values = _dense(source.values(categories))
        again = copy(self)
        again.categories = categories
        again.statistics, ordered = self.statistics.learn_again(
            values, categories, target, n_classes, weight
        )
        return again, ordered

    def _declared(self, n_features: int) -> np.ndarray:
        """Return the mask of the columns of an array in which text is allowed."""
        known = [labels is not None for labels in self.categories]
        return np.array(known if n_features == self.n_features_in else [False] * n_features)

    def _check_names(self, source: Source) -> None:
        names = feature_names(source.names)
        fitted = self.feature_names_in
        if names is None and fitted is None:
            return
        if fitted is None or names is None:
            has, how = ("has", "without") if fitted is None else ("does not have valid", "with")
            warnings.warn(
                f"X {has} feature names, but {self.estimator_name} was fitted {how} feature names",
                UserWarning,
                stacklevel=5,
            )
        elif not np.array_equal(fitted, names):
            raise ValueError(_describe_mismatch(fitted, names))

    def _check_state(self) -> None:
        """Refuse names or categories that do not match the number of features."""
        n_features = check_count(self, "n_features_in")
        categories = check_type(self, "categories", list)
        if len(categories) != n_features:
            raise ValueError("the state of a FeatureReader must list each feature's categories")
        if self.feature_names_in is not None:
            check_arrays(self, {"feature_names_in": (object, n_features)})
            if not all(isinstance(name, str) for name in self.feature_names_in):
                raise ValueError("the feature names of a FeatureReader must be strings")
        for labels in categories:
            if labels is not None:
                check_array(labels, "categories of FeatureReader", (np.float64, object), ["n"])
        if self.statistics is not None:
            check_type(self, "statistics", TargetStatistics)
            self.statistics.check_categories(categories)
        check_type(self, "missing", Real)
        check_type(self, "estimator_name", str)

    def to_state(self) -> dict[str, Any]:
        """Return the state as a dict of numbers, strings, lists and arrays."""
        names = self.feature_names_in
        return {
            "n_features_in": int(self.n_features_in),
            "feature_names_in": None if names is None else names.tolist(),
            "categories": [
                labels.tolist() if labels is not None and labels.dtype == object else labels
                for labels in self.categories
            ],
            "missing": float(self.missing),
            "estimator_name": self.estimator_name,
            "statistics": self.statistics,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> FeatureReader:
        """Return the reader that `to_state` described."""
        names = state["feature_names_in"]
        categories = [
            np.array(labels, dtype=object) if isinstance(labels, list) else labels
            for labels in state["categories"]
        ]
        reader = cls(
            state["n_features_in"],
            None if names is None else np.array(names, dtype=object),
            categories,
            state["missing"],
            state["estimator_name"],
            state.get("statistics"),
        )
        reader._check_state()
        return reader


def _dense(values: Any) -> np.ndarray:
    """Return values as an ndarray, also those of a sparse table."""
    return values if isinstance(values, np.ndarray) else np.asarray(values.toarray())


def _is_clean(X: Any) -> bool:
    """Whether a table is a float array that needs no conversion, the most frequent case."""
    return (
        type(X) is np.ndarray
        and (X.dtype is FLOAT32 or X.dtype is FLOAT64)
        and X.ndim == 2
        and X.size > 0
        and X.flags.aligned
        and not _has_infinity(X)
    )


def feature_names(names: Sequence[Any] | None) -> np.ndarray | None:
    """Return column names as an object array of str, or None if they are not strings."""
    if names is None:
        return None
    kinds = sorted({type(name).__qualname__ for name in names})
    if "str" not in kinds:
        return None
    if len(kinds) > 1:
        raise TypeError(
            "Feature names are only supported if all input features have string names, but the "
            f"column names of X are of the types {kinds}. Convert them all to strings, for "
            "instance by X.columns = X.columns.astype(str), or none."
        )
    return np.array(names, dtype=object)


def _describe_mismatch(fitted: np.ndarray, names: np.ndarray) -> str:
    """Return a message with the names that are new or missing, or about their order."""
    parts = ["The feature names should match those that were passed during fit.\n"]
    unseen = sorted(set(names) - set(fitted))
    gone = sorted(set(fitted) - set(names))
    for title, group in (
        ("Feature names unseen at fit time:\n", unseen),
        ("Feature names seen at fit time, yet now missing:\n", gone),
    ):
        if group:
            parts.append(title)
            parts += [f"- {name}\n" for name in group[:_MAX_NAMES_SHOWN]]
            parts += ["- ...\n"] if len(group) > _MAX_NAMES_SHOWN else []
    if not unseen and not gone:
        parts.append("Feature names must be in the same order as they were in fit.\n")
    return "".join(parts)


def _check_missing(missing: Any) -> float:
    if missing is None:
        return math.nan
    if isinstance(missing, Real | np.number) and not isinstance(missing, bool):
        return float(missing)
    raise TypeError(f"missing must be a real number, NaN or None, got {missing!r}")


def _categorical_mask(declared: Any, n_features: int, names: np.ndarray | None) -> np.ndarray:
    """Return the mask of the features that the user declared categorical."""
    mask = np.zeros(n_features, dtype=bool)
    if declared is None or (isinstance(declared, str) and declared == "from_dtype"):
        return mask
    if isinstance(declared, str):
        raise ValueError(
            'categorical_features must be None, "from_dtype", or a list of names, numbers or '
            f"booleans, got {declared!r}"
        )
    mask[column_indices(declared, n_features, names, "categorical_features")] = True
    return mask
