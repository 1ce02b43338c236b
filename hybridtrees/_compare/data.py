"""A table and a target, made ready for many fits."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybridtrees.base import Estimator
from hybridtrees.input._user_tables import Columns, SparseColumns, open_columns
from hybridtrees.input.arrays import is_missing_object
from hybridtrees.input.columns import column_indices
from hybridtrees.input.texts import parse_dates
from hybridtrees.input.validation import (
    FeatureReader,
    check_target_classification,
    check_target_regression,
)
from hybridtrees.prepare import DateFeatures, PreparedClassifier, PreparedRegressor
from hybridtrees.prepare.calendar import date_values

TASKS = ("regression", "classification")
# Whole numbers of so few values are taken for classes.
_MOST_CLASSES = 10
# A text column with more labels than both names rows.
_MANY_LABELS, _UNIQUE_SHARE = 50, 0.5
# Words in the names of columns that number the rows.
_ID_WORDS = frozenset(("id", "ids", "key", "no", "nr", "number", "index", "idx"))
# Whole numbers that all differ by chance with a probability below exp(-10) number the rows.
_SELDOM = 10.0


@dataclass(frozen=True)
class Data:
    """What is compared on."""

    name: str
    target_name: str
    task: str
    # The features as they came: what the final models are fitted on, so that they know names and
    # labels
    columns: Columns
    # The same as numbers: what the search fits on, again and again. Categories are codes;
    # which of them exist a model learns from its own rows
    values: Any
    categorical: list[int]  # Columns of `values` that hold codes
    feature_names: list[str]
    labels: np.ndarray  # The target as it came
    target: np.ndarray  # Numbers, or codes of classes
    classes: np.ndarray | None
    time: np.ndarray | None = None  # Orders the rows
    dates: DateFeatures | None = None  # What has made features of dates, before `columns`
    is_drawn: bool = False  # whether the rows are drawn from those of a larger file
    # What was done to the table that the user should know
    notes: list[str] = field(default_factory=list)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.columns.shape[0], self.columns.shape[1]

    @property
    def n_classes(self) -> int:
        """Number of classes, 0 for regression."""
        return 0 if self.classes is None else len(self.classes)

    @property
    def strata(self) -> np.ndarray | None:
        """What a split is to keep in proportion."""
        return None if self.classes is None else self.target

    def on_raw_tables(self, model: Any) -> Any:
        """Return a model of `columns` as one of tables in which dates are still dates."""
        if self.dates is None or not isinstance(model, Estimator):
            return model
        kind = PreparedRegressor if self.classes is None else PreparedClassifier
        return kind.of(self.dates, model)

    def part(self, rows: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return features as numbers, and target, of some rows; both for reading only."""
        values, target = self.values[rows], self.target[rows]
        for array in (values, target):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
        return values, target


def names_rows(n_labels: int, n_rows: int) -> bool:
    """Whether a text column has so many labels that it only identifies rows."""
    return n_labels > max(_MANY_LABELS, _UNIQUE_SHARE * n_rows)


def numbers_rows(name: str, column: np.ndarray) -> bool:
    """Whether a column of numbers seems to number the rows, in any order.

    These are whole and differ in all rows. They fill a range without a gap, or the column is
    named so, or they lie too close together to differ by chance. (n independent draws from a
    range of m numbers all differ with a probability of about exp(-n^2 / 2m), or less if some
    numbers are more likely than others.)
    """
    if column.dtype.kind not in "iuf" or len(column) < 2:
        return False
    if column.dtype.kind == "f" and not (np.isfinite(column) & (column == np.floor(column))).all():
        return False
    ordered = np.sort(column)
    if (ordered[1:] == ordered[:-1]).any():
        return False
    n_rows, n_numbers = len(ordered), float(ordered[-1]) - float(ordered[0]) + 1
    words = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    named = name.lower().endswith("id") or not _ID_WORDS.isdisjoint(
        re.split(r"[^a-z]+", words.lower())
    )
    return named or n_numbers == n_rows or n_rows**2 / (2 * n_numbers) > _SELDOM


def guess_task(y: Any) -> str:
    """Classes if the target is text or truth values, or a few whole numbers; else numbers."""
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if values.dtype.kind in "OUSTb":
        numbers = [v for v in values.ravel().tolist() if not is_missing_object(v)]
        if any(isinstance(v, str | bytes | bool) for v in numbers):
            return "classification"
        values = np.array(numbers, dtype=np.float64)
    if values.dtype.kind not in "iuf":
        return "classification"
    values = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    whole = bool((values == np.floor(values)).all())
    few = whole and len(np.unique(values)) <= _MOST_CLASSES
    return "classification" if few else "regression"


def make_data(
    X: Any,
    y: Any,
    *,
    task: str = "auto",
    time: Any = None,
    categorical_features: Any = None,
    name: str = "data",
    target_name: str | None = None,
    notes: list[str] | None = None,
    numbering: Collection[str] | None = None,
    is_drawn: bool = False,
) -> Data:
    """Check a table and its target.

    `time` is a column of X by name or number, or values of its own. Dates become features.
    Columns in `numbering` hold numbers of rows; by default they are found here.
    """
    if task not in ("auto", *TASKS):
        raise ValueError(f"task must be 'auto', 'regression' or 'classification', got {task!r}")
    target_name = target_name or str(getattr(y, "name", None) or "y")
    columns = open_columns(X)
    notes = list(notes or ())
    when = None if time is None else _take_time(columns, time)
    if numbering is None:
        numbering = _numbering(columns, time)
    columns, dates, categorical_features = _without_dates(columns, categorical_features, notes)
    reader, values = FeatureReader.fit(columns.table, categorical_features=categorical_features)
    n_rows = columns.shape[0]
    if task == "auto":
        task = guess_task(y)
    if task == "classification":
        codes, classes = check_target_classification(y, n_rows)
        if len(classes) < 2:
            raise ValueError(
                f"the target {target_name!r} is constant: every row has the class "
                f"{_plain(classes[0])!r}"
            )
        single = np.flatnonzero(np.bincount(codes) < 2)
        if len(single):
            raise ValueError(_single_rows(target_name, classes, single))
        target, labels = codes.astype(np.int64), classes[codes]
    else:
        labels = target = _numbers(y, n_rows, target_name)
        classes = None
        if target.min() == target.max():
            raise ValueError(f"the target {target_name!r} is constant: every row is {target[0]}")
    named = reader.feature_names_in
    names = [f"x{j}" for j in range(columns.shape[1])] if named is None else list(named)
    notes += _notes_on_rows(names, reader, numbering, n_rows)
    return Data(
        name=name,
        target_name=target_name,
        task=task,
        columns=columns,
        values=values.tocsr() if hasattr(values, "tocsr") else values,
        categorical=np.flatnonzero(reader.is_categorical).tolist(),
        feature_names=names,
        labels=labels,
        target=target,
        classes=classes,
        time=when,
        dates=dates,
        is_drawn=is_drawn,
        notes=notes,
    )


def _notes_on_rows(
    names: list[str], reader: FeatureReader, numbering: Collection[str], n_rows: int
) -> list[str]:
    """Return notes about features that number or name rows."""
    notes = [
        f"{name!r} numbers the rows: leave it out if it means nothing else"
        for name in names
        if name in numbering
    ]
    for j in np.flatnonzero(reader.is_categorical).tolist():
        known = reader.categories[j]
        n_labels = 0 if known is None else len(known)
        if names_rows(n_labels, n_rows) and names[j] not in numbering:
            notes.append(
                f"{names[j]!r} has {n_labels} different labels in {n_rows} rows: leave it out if "
                "it names rows"
            )
    return notes


def _plain(label: Any) -> Any:
    """Return a label as Python spells it."""
    return label.item() if isinstance(label, np.generic) else label


def _single_rows(target_name: str, classes: np.ndarray, single: np.ndarray) -> str:
    """Message about classes with one row each."""
    what = f"the class {_plain(classes[single[0]])!r} of the target {target_name!r} has"
    if len(single) > 1:
        what = (
            f"{len(single)} of the {len(classes)} classes of the target {target_name!r}, such as "
            f"{_plain(classes[single[0]])!r}, have"
        )
    advice = "leave such rows out"
    if classes.dtype.kind in "biuf":
        advice += ", or take the target for numbers: the task is regression"
    return f"{what} a single row, which cannot be in training and in test rows; {advice}"


def _numbers(y: Any, n_rows: int, target_name: str) -> np.ndarray:
    """Target of a regression; text is refused in words that help."""
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if values.dtype.kind in "OUST":
        text = next((v for v in values.ravel().tolist() if isinstance(v, str | bytes)), None)
        if text is not None:
            raise ValueError(
                f"the target {target_name!r} holds text, such as {text!r}: regression needs "
                "numbers; for classes the task is classification"
            )
    return check_target_regression(y, n_rows)


def _numbering(columns: Columns, time: Any) -> set[str]:
    """Names of the columns that number the rows, but for the one that orders them."""
    if isinstance(columns, SparseColumns):
        return set()
    ordering = columns.index(time, "time") if _is_column(time) else None
    found = set()
    for j in range(columns.shape[1]):
        name = f"x{j}" if columns.names is None else str(columns.names[j])
        if j != ordering and not columns.is_category(j) and numbers_rows(name, columns.column(j)):
            found.add(name)
    return found


def _is_column(time: Any) -> bool:
    """Whether a column of X is meant, by name or number."""
    return isinstance(time, str | int | np.integer)


def _take_time(columns: Columns, time: Any) -> np.ndarray:
    """Values that order the rows."""
    if not _is_column(time):
        when = np.asarray(time.to_numpy() if hasattr(time, "to_numpy") else time)
        if when.shape != (columns.shape[0],):
            raise ValueError(
                f"time must be a column of X or have one entry for each of its "
                f"{columns.shape[0]} rows, got the shape {when.shape}"
            )
        return as_times(when, "time")
    index = columns.index(time, "time")
    name = time if columns.names is None else columns.names[index]
    dates = date_values(columns.series(index))
    return as_times(columns.column(index) if dates is None else dates, str(name))


def _without_dates(
    columns: Columns, categorical_features: Any, notes: list[str]
) -> tuple[Columns, DateFeatures | None, Any]:
    """Put features in the place of dates; also returns what made them, and the categories."""
    n_columns = columns.shape[1]
    places = [j for j in range(n_columns) if _holds_dates(columns, j)]
    if not places:
        return columns, None, categorical_features
    dates = DateFeatures(columns=places)
    table = dates.fit_transform(columns.table)
    for j, parts in zip(places, dates.parts_, strict=True):
        name = f"x{j}" if columns.names is None else columns.names[j]
        notes.append(
            f"{name!r} holds dates, whose features are {', '.join(parts)}"
            if parts
            else f"{name!r} is left out: it holds a single date"
        )
    if categorical_features is not None:
        names = columns.names
        chosen = column_indices(categorical_features, n_columns, names, "categorical_features")
        kept = [j for j in range(n_columns) if j not in places]
        categorical_features = [kept.index(j) for j in chosen if j in kept]
    return open_columns(table), dates, categorical_features


def _holds_dates(columns: Columns, j: int) -> bool:
    """Whether a column holds dates, by its type or as text such as 2024-05-31."""
    if isinstance(columns, SparseColumns):
        return False
    if date_values(columns.series(j)) is not None:
        return True
    if not columns.is_category(j):
        return False
    cells = columns.column(j).tolist()
    known = [cell for cell in cells if not is_missing_object(cell)]
    return bool(known) and all(isinstance(v, str) for v in known) and parse_dates(known) is not None


def as_times(values: np.ndarray, name: str) -> np.ndarray:
    """Return values that can be ordered: numbers, or dates from text such as 2024-05-31."""
    if values.dtype.kind == "O" and not any(isinstance(v, str) for v in values.tolist()):
        values = np.array(values.tolist())
        if values.dtype.kind == "O":  # Python dates
            values = values.astype("datetime64[us]")
    if values.dtype.kind in "OUT":
        dates = parse_dates(None if is_missing_object(v) else str(v) for v in values.tolist())
        if dates is None:
            raise ValueError(
                f"the time column {name!r} holds {values[0]!r}: it must hold numbers or dates "
                "such as 2024-05-31 or 2024-05-31 12:30"
            )
        values = dates
    if values.dtype.kind == "M":
        missing = np.isnat(values)
    else:
        values = values.astype(np.float64)
        missing = np.isnan(values)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(f"the time column {name!r} has no value in row {row}")
    return values


def finite_or_none(value: float) -> float | None:
    """Return a number that JSON can hold."""
    return float(value) if math.isfinite(value) else None
