"""Dates and times as features."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from scipy import sparse

from hybridtrees._parameters import check_boolean
from hybridtrees.base import atomic_fit
from hybridtrees.core.base.checks import check_arrays, check_type
from hybridtrees.input._user_tables import Columns, is_missing, open_columns
from hybridtrees.input.columns import column_indices
from hybridtrees.input.texts import parse_dates
from hybridtrees.input.validation import FeatureReader
from hybridtrees.models.shared.output_names import Transformer
from hybridtrees.prepare.calendar import PARTS, calendar_part, date_values, elapsed_days
from hybridtrees.prepare.tables import with_columns

ELAPSED = "elapsed"
_WAVES = ("sin", "cos")


class DateFeatures(Transformer):
    """Turn dates and times into numbers that models can use.

    Each column of dates is replaced by its calendar parts and by the days since the first date
    of `fit`, named ``<column>_<part>``. They follow the other columns, which stay as they
    are. A missing date is missing in all of its parts. Of the parts only those are made that have
    more than one value in `fit`. A date that never changes leaves no feature.

    Parameters
    ----------
    columns : array-like of str or int, str or int, optional
        Columns that hold dates: names, numbers or a mask. By default all whose type says so:
        datetime64, and the date, time and timestamp types of pandas, polars and pyarrow, and
        Python's dates. Only columns that are named here are read from text, which must be like
        2024-05-31 or 2024-05-31 12:30:05.
    parts : "auto" or list of str, default="auto"
        Calendar parts to make: "year", "month", "day", "weekday" (0 is Monday), "day_of_year",
        "hour", "minute", "second". By default all that vary; the year only without `elapsed`, which
        says the same.
    elapsed : bool, default=True
        Whether to make ``<column>_elapsed``, the days since the first date of `fit`, with
        fractions, by which linear models follow a trend.
    cyclic : bool, default=False
        Whether to add the sine and cosine of the parts that come round again, as
        ``<column>_<part>_sin`` and ``_cos``, so that December is near January in linear models.

    Attributes
    ----------
    date_columns_ : ndarray of int
        Numbers of the columns that hold dates.
    parts_ : list of list of str
        For each of them the parts that are made, ``elapsed`` among them.
    origins_ : ndarray of datetime64
        For each of them the first date of `fit`.

    See Also
    --------
    hybridtrees.prepare.PreparedRegressor : A model that takes tables with dates, in one file.
    hybridtrees.ProximityImputer : Fills in what is missing.

    Notes
    -----
    Dates with a time zone count as the clock there shows them. Times of day have the parts hour,
    minute and second, and the elapsed time since the earliest one.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import DateFeatures
    >>> days = np.array(["2024-05-31", "2024-06-01", "NaT"], dtype="datetime64[D]")
    >>> table = DateFeatures(parts=["month", "day"]).fit_transform({"day": days, "x": [1, 2, 3]})
    >>> list(table)
    ['x', 'day_month', 'day_day', 'day_elapsed']
    >>> table["day_month"]
    array([ 5.,  6., nan])
    """

    columns: Any = None
    parts: Any = "auto"
    elapsed: bool = True
    cyclic: bool = False

    @atomic_fit
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the columns of dates, and what varies in them.

        Parameters
        ----------
        X : array-like, data frame, dict of columns or sparse matrix of shape (n_rows, n_features)
        y : ignored
            For the protocol of scikit-learn.

        Returns
        -------
        self : DateFeatures
        """
        wanted = self._wanted_parts()
        check_boolean("elapsed", self.elapsed)
        check_boolean("cyclic", self.cyclic)
        table, dates = self._open(X, None)
        self._fit_features(_as_numbers(table, dates))
        if self.columns is not None:  # other dates stay as they are
            n_columns, names = table.shape[1], table.names
            dates = {j: dates[j] for j in column_indices(self.columns, n_columns, names, "columns")}
        self.date_columns_ = np.array(sorted(dates), dtype=np.int64)
        self.parts_ = [_varying(dates[j], wanted, self.elapsed) for j in sorted(dates)]
        self._origins = np.array([_first(dates[j]) for j in sorted(dates)], dtype=np.int64)
        if table.shape[1] == len(dates) and not any(self.parts_):
            raise ValueError("X holds only dates that do not vary: there is no feature in them")
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Find the columns of dates and replace them.

        Parameters
        ----------
        X : array-like, data frame, dict of columns or sparse matrix of shape (n_rows, n_features)
            The table.
        y : object
            Not used; there for pipelines.

        Returns
        -------
        table : ndarray, data frame or dict
            The table with the features of its dates.
        """
        return self.fit(X, y).transform(X)

    def transform(self, X: Any) -> Any:
        """Replace the columns of dates by their features.

        Parameters
        ----------
        X : array-like, data frame, dict of columns or sparse matrix of shape (n_rows, n_features)
            A table with the columns of `fit`.

        Returns
        -------
        table : ndarray, data frame, dict or sparse matrix
            The other columns, then the features of the dates; of the kind that `X` is.
        """
        self._check_is_fitted()
        table, dates = self._open(X, self.date_columns_)
        self._read_features(_as_numbers(table, dates))
        gone = [j for j in self.date_columns_.tolist() if j not in dates]
        if gone:
            name = super().get_feature_names_out()[gone[0]]
            raise ValueError(
                f"the column {name!r} of X held dates in fit and does not hold them now"
            )
        names = self.get_feature_names_out()
        made = [
            values
            for j, parts, origin in zip(
                self.date_columns_.tolist(), self.parts_, self._origins.tolist(), strict=True
            )
            for part in parts
            for values in self._features(dates[j], part, origin)
        ]
        new = dict(zip(names[len(names) - len(made) :], made, strict=True))
        return self._wrap(with_columns(table, self.date_columns_.tolist(), new), names, X)

    def _features(self, dates: np.ndarray, part: str, origin: int) -> list[np.ndarray]:
        """Columns that one part makes."""
        if part == ELAPSED:
            return [elapsed_days(dates, origin)]
        values = calendar_part(dates, part)
        period = self._period(part)
        if period is None:
            return [values]
        angle = 2 * np.pi * values / period
        return [values, np.sin(angle), np.cos(angle)]

    def _period(self, part: str) -> float | None:
        """Period of the waves that a part is shown as, None if it is not."""
        return PARTS[part][1] if self.cyclic and part != ELAPSED else None

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of a transformed table.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names to use if `fit` had none; otherwise they must be those of `fit`.

        Returns
        -------
        names : ndarray of str
        """
        given = super().get_feature_names_out(input_features)
        names: list[str] = []
        for j, made in self._columns_out():
            name = given[j] if made is None else f"{given[j]}_{made}"
            while made is not None and name in names:  # the table may have a column of that name
                name += "_"
            names.append(name)
        return np.array(names, dtype=object)

    def _columns_out(self) -> list[tuple[int, str | None]]:
        """For each column of a transformed table that of `fit`, and what is made of its date."""
        dates = self.date_columns_.tolist()
        found: list[tuple[int, str | None]] = [
            (j, None) for j in range(self.n_features_in_) if j not in dates
        ]
        for j, parts in zip(dates, self.parts_, strict=True):
            for part in parts:
                waves = [f"{part}_{wave}" for wave in _WAVES] if self._period(part) else []
                found += [(j, made) for made in (part, *waves)]
        return found

    @property
    def origins_(self) -> np.ndarray:
        """For each column of dates the first one of `fit`."""
        self._check_is_fitted()
        return self._origins.astype("datetime64[us]")

    def _wanted_parts(self) -> list[str]:
        if isinstance(self.parts, str) and self.parts == "auto":
            # Elapsed time is a sum of year and day of the year, up to leap days: regressions on all
            # three would rest on rounding errors.
            return [part for part in PARTS if part != "year" or not self.elapsed]
        known = ", ".join(map(repr, PARTS))
        listed = not isinstance(self.parts, str) and isinstance(self.parts, Iterable)
        wanted = list(self.parts) if listed else None
        if wanted is None or not all(isinstance(part, str) and part in PARTS for part in wanted):
            raise ValueError(f"parts must be 'auto' or a list of {known}, got {self.parts!r}")
        return [part for part in PARTS if part in wanted]

    def _open(self, X: Any, fitted: np.ndarray | None) -> tuple[Columns, dict[int, np.ndarray]]:
        """Open a table, and read its dates by the numbers of their columns.

        Columns that were named, or held dates in fit, may hold text.
        """
        try:
            table = open_columns(X)
        except ValueError:
            FeatureReader.fit(X)  # has the words that scikit-learn expects of all estimators
            raise
        if sparse.issparse(X):
            return table, {}
        named: list[int] = []
        if fitted is not None:
            named = [j for j in fitted.tolist() if j < table.shape[1]]
        elif self.columns is not None:
            n_columns, names = table.shape[1], table.names
            named = column_indices(self.columns, n_columns, names, "columns").tolist()
        dates = {}
        for j in range(table.shape[1]):
            values = date_values(table.series(j))
            if values is None and j in named:
                values = self._parsed(table, j, fitted is None)
            if values is not None:
                dates[j] = values
        return table, dates

    @staticmethod
    def _parsed(table: Columns, j: int, required: bool) -> np.ndarray | None:
        """Dates from text; None if the column holds no text."""
        name = f"x{j}" if table.names is None else table.names[j]
        column = table.column(j)
        cells = [value if isinstance(value, str) else None for value in column.tolist()]
        known = [cell for cell in cells if cell is not None]
        if is_missing(column).all():
            return np.full(len(column), "NaT", dtype="datetime64[us]")
        found = parse_dates(cells) if known else None
        if found is None and (required or known):
            value = next((c for c in known if parse_dates([c]) is None), column.tolist()[0])
            raise ValueError(
                f"the column {name!r} of X must hold dates such as 2024-05-31 or 2024-05-31 12:30, "
                f"got {value!r}"
            )
        return found

    def _check_fitted(self) -> None:
        check_arrays(self, {"date_columns_": ("i8", "n_dates"), "_origins": ("i8", "n_dates")})
        parts = check_type(self, "parts_", list)
        known = {*PARTS, ELAPSED}
        if len(parts) != len(self.date_columns_) or not all(
            isinstance(own, list) and len(set(own)) == len(own) and known.issuperset(own)
            for own in parts
        ):
            raise ValueError("parts_ of DateFeatures must list parts for each column of dates")
        columns = self.date_columns_
        if len(columns) and not 0 <= columns[0] <= columns[-1] < self.n_features_in_:
            raise ValueError("date_columns_ of DateFeatures are not among its features")
        if (np.diff(columns) <= 0).any():
            raise ValueError("date_columns_ of DateFeatures must ascend")


def _as_numbers(table: Columns, dates: dict[int, np.ndarray]) -> Any:
    """Return the table with zeros for dates and for categories, whose labels do not matter.

    So the reader of all estimators checks number and names of the columns, and their numbers.
    """
    zeros = np.zeros(table.shape[0])
    if table.names is None:  # text in a bare array is refused, as everywhere
        if len(dates) == table.shape[1]:
            return np.zeros(table.shape)
        return table.replaced(dict.fromkeys(dates, zeros)) if dates else table.table
    if len(set(table.names)) < len(table.names):
        raise ValueError("X has several columns of the same name, which must differ")
    return {
        name: zeros if j in dates or table.is_category(j) else table.series(j)
        for j, name in enumerate(table.names)
    }


def _varying(dates: np.ndarray, wanted: list[str], elapsed: bool) -> list[str]:
    """Return the parts that have more than one value."""
    known = np.unique(dates[~np.isnat(dates)])
    found = [part for part in wanted if len(np.unique(calendar_part(known, part))) > 1]
    return [*found, ELAPSED] if elapsed and len(known) > 1 else found


def _first(dates: np.ndarray) -> int:
    known = dates[~np.isnat(dates)]
    return int(known.min().astype(np.int64)) if len(known) else 0
