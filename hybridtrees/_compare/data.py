"""A table and a target, made ready for many fits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybridtrees.input.arrays import is_missing_object
from hybridtrees.input.validation import (
    FeatureReader,
    check_target_classification,
    check_target_regression,
)
from hybridtrees.inspection._columns import Columns, open_columns

TASKS = ("regression", "classification")
# Whole numbers of so few values are taken for classes.
_MOST_CLASSES = 10
# A text column with more labels than both names rows.
_MANY_LABELS, _UNIQUE_SHARE = 50, 0.5


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
) -> Data:
    """Check a table and its target.

    `time` is a column of X by name or number, which stays a feature if it holds numbers and leaves
    if it holds dates; or values of its own.
    """
    if task not in ("auto", *TASKS):
        raise ValueError(f"task must be 'auto', 'regression' or 'classification', got {task!r}")
    target_name = target_name or str(getattr(y, "name", None) or "y")
    columns = open_columns(X)
    notes = list(notes or ())
    when = None
    if time is not None:
        columns, when, note = _take_time(columns, time)
        notes += note
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
    names = reader.feature_names_in
    for j in np.flatnonzero(reader.is_categorical).tolist():
        n_labels = 0 if reader.categories[j] is None else len(reader.categories[j])
        if names_rows(n_labels, n_rows):
            name_of = f"x{j}" if names is None else names[j]
            notes.append(
                f"{name_of!r} has {n_labels} different labels in {n_rows} rows: leave it out if it "
                "names rows"
            )
    return Data(
        name=name,
        target_name=target_name,
        task=task,
        columns=columns,
        values=values.tocsr() if hasattr(values, "tocsr") else values,
        categorical=np.flatnonzero(reader.is_categorical).tolist(),
        feature_names=[f"x{j}" for j in range(columns.shape[1])] if names is None else list(names),
        labels=labels,
        target=target,
        classes=classes,
        time=when,
        notes=notes,
    )


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


def _take_time(columns: Columns, time: Any) -> tuple[Columns, np.ndarray, list[str]]:
    """Values that order the rows, and the columns that stay features."""
    if not isinstance(time, str | int | np.integer):
        when = np.asarray(time.to_numpy() if hasattr(time, "to_numpy") else time)
        if when.shape != (columns.shape[0],):
            raise ValueError(
                f"time must be a column of X or have one entry for each of its "
                f"{columns.shape[0]} rows, got the shape {when.shape}"
            )
        return columns, as_times(when, "time"), []
    index = columns.index(time, "time")
    name = time if columns.names is None else columns.names[index]
    when = _time_values(columns, index)
    times = as_times(when, str(name))
    if when.dtype.kind in "biuf":
        return columns, times, []
    note = f"{name!r} orders the rows and is no feature, for it does not hold numbers"
    return _without(columns, index), times, [note]


def _time_values(columns: Columns, index: int) -> np.ndarray:
    """Values of a column, dates among them, which are no features and so unknown to `Columns`."""
    series = columns.series(index)
    dtype = getattr(series, "dtype", None)
    if getattr(dtype, "tz", None) is not None:  # pandas
        return series.dt.tz_convert(None).to_numpy()
    arrow = str(getattr(series, "type", "")).startswith(("timestamp", "date"))
    polars = hasattr(dtype, "is_temporal") and dtype.is_temporal()
    return series.to_numpy() if arrow or polars else columns.column(index)


def _without(columns: Columns, index: int) -> Columns:
    """Leave a column out; tables of numbers have no dates, so that only named ones come here."""
    table = columns.table
    if isinstance(table, np.ndarray):
        return open_columns(np.delete(table, index, axis=1))
    if hasattr(table, "iloc"):
        return open_columns(table.iloc[:, [j for j in range(columns.shape[1]) if j != index]])
    keep = [name for j, name in enumerate(columns.names or ()) if j != index]
    if isinstance(table, dict):
        return open_columns({name: table[name] for name in keep})
    return open_columns(table.select(keep))


def as_times(values: np.ndarray, name: str) -> np.ndarray:
    """Return values that can be ordered: numbers, or dates from text such as 2024-05-31."""
    if values.dtype.kind == "O" and not any(isinstance(v, str) for v in values.tolist()):
        values = np.array(values.tolist())
        if values.dtype.kind == "O":  # Python dates
            values = values.astype("datetime64[us]")
    if values.dtype.kind in "OUT":
        try:
            values = np.array([str(v).strip().replace("/", "-") for v in values], "datetime64[us]")
        except ValueError:
            raise ValueError(
                f"the time column {name!r} holds {values[0]!r}: it must hold numbers or dates "
                "such as 2024-05-31 or 2024-05-31 12:30"
            ) from None
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
