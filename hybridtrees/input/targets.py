"""Checks of y and sample_weight."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from hybridtrees.input.arrays import (
    COMPLEX_MESSAGE,
    is_masked,
    is_missing_object,
    is_number,
    plain_array,
    shorten,
)

# Integer labels in a range of up to this many values are counted instead of sorted.
_MAX_SPAN = 1 << 16


def check_target_regression(
    y: Any,
    n_rows: int | None = None,
    *,
    multi_output: bool = False,
    name: str = "y",
    estimator_name: str = "the estimator",
) -> np.ndarray:
    """Return the target of a regression as contiguous, finite float64.

    It is 2-D if that is allowed and it has not just one column, which is a vector everywhere.
    """
    values = _as_array(y, name, estimator_name)
    if multi_output and values.ndim == 2:
        values = values[:, 0] if values.shape[1] == 1 else values
    else:
        values = _to_vector(values, name)
    _check_length(values, n_rows, name)
    values = _real(values, name)
    _reject_not_finite(values, name)
    return values


def check_target_classification(
    y: Any,
    n_rows: int | None = None,
    *,
    classes: np.ndarray | None = None,
    at_least_two: bool = False,
    name: str = "y",
    estimator_name: str = "the estimator",
) -> tuple[np.ndarray, np.ndarray]:
    """Return class labels as int32 codes, and the sorted classes in their original dtype.

    With `classes`, which must be sorted, any other label is an error. With `at_least_two` a single
    class is an error.
    """
    labels = _to_vector(_as_array(y, name, estimator_name), name)
    _check_length(labels, n_rows, name)
    labels = _check_labels(labels, name)
    if classes is not None:
        return _encode_known(labels, np.asarray(classes), name), np.asarray(classes)
    if labels.dtype.kind in "iu" and len(labels):
        low, high = int(labels.min()), int(labels.max())
        if high - low < _MAX_SPAN and not (at_least_two and low == high):
            return _encode_by_counting(labels, low, high)
    classes, codes = np.unique(labels, return_inverse=True)
    if at_least_two and len(classes) < 2:
        raise ValueError(
            f"{estimator_name} needs at least two classes, but {name} holds the one class "
            f"{classes.tolist()[0]!r}"
        )
    return np.ascontiguousarray(codes.ravel(), dtype=np.int32), classes


# Limits on the sum of weights, beyond which its square leaves the range of float64.
WEIGHT_RANGE = (1e-150, 1e150)


def check_sample_weight(
    sample_weight: Any, n_rows: int, *, name: str = "sample_weight"
) -> np.ndarray | None:
    """Return row weights as float64; None if all of them are 1."""
    if sample_weight is None:
        return None
    values = _as_array(sample_weight, name, "")
    if values.ndim == 0:
        values = np.full(n_rows, _real(values, name))
        if values[0] == 1.0:
            return None
    if values.ndim != 1:
        raise ValueError(f"{name} must be 1D, got an array of shape {values.shape}")
    if len(values) != n_rows:
        raise ValueError(
            f"{name} must have one entry for each of the {n_rows} rows of X, "
            f"got an array of shape {values.shape}"
        )
    values = check_weights(values, name)
    with np.errstate(over="ignore"):
        check_total_weight(values.sum(), name)
    return values


def check_weights(weights: np.ndarray, name: str) -> np.ndarray:
    """Return weights of some rows as float64; they must be finite and not negative."""
    values = _real(weights, name)
    _reject_not_finite(values, name)
    if values.min() < 0:
        row = int(values.argmin())
        raise ValueError(f"{name} must not be negative, got {values[row]} in row {row}")
    return values


def check_total_weight(total: float, name: str) -> None:
    """Refuse a sum of the weights of all rows that is zero or out of range."""
    if total == 0:
        raise ValueError(f"{name} is zero for every row: at least one weight must be positive")
    if not WEIGHT_RANGE[0] <= total <= WEIGHT_RANGE[1]:
        raise ValueError(
            f"{name} must sum to a number from {WEIGHT_RANGE[0]:g} to {WEIGHT_RANGE[1]:g}, got "
            f"{total:g}: scale the weights"
        )


def as_vector(y: Any, name: str) -> np.ndarray:
    """Return an array-like, or a column of any library, as a one-dimensional array."""
    return _to_vector(_as_array(y, name, ""), name)


def _as_array(y: Any, name: str, estimator_name: str) -> np.ndarray:
    """Return an array-like as an ndarray; nulls of data frame columns become None or NaN."""
    if y is None:
        raise ValueError(
            f"{estimator_name} requires {name} to be passed, but the target {name} is None"
        )
    if type(y) is np.ndarray:
        return y
    if is_masked(y):
        if np.ma.getmaskarray(y).any():
            raise ValueError(f"Input {name} contains masked (missing) values")
        y = np.ma.getdata(y)
    if hasattr(y, "tocsr"):
        raise TypeError(f"{name} is a sparse matrix; it must be a dense one-dimensional array")
    if not isinstance(y, np.ndarray | list | tuple) and hasattr(y, "to_numpy"):
        # pandas, polars and pyarrow; an Arrow array that is not chunked must be allowed to copy.
        is_arrow = type(y).__module__.startswith("pyarrow") and not hasattr(y, "num_chunks")
        y = y.to_numpy(zero_copy_only=False) if is_arrow else y.to_numpy()
    try:
        return plain_array(y)
    except ValueError as error:
        raise ValueError(f"{name} cannot be made an array: {error}") from error


def _to_vector(values: np.ndarray, name: str) -> np.ndarray:
    if values.ndim == 2 and values.shape[1] == 1:
        exceptions = sys.modules.get("sklearn.exceptions")
        warnings.warn(
            f"A column-vector {name} was passed when a 1d array was expected. "
            f"Change the shape of {name} to (n_rows,), for instance by ravel().",
            getattr(exceptions, "DataConversionWarning", UserWarning),
            stacklevel=4,
        )
        return values.ravel()
    if values.ndim != 1:
        raise ValueError(
            f"{name} should be a 1d array, got an array of shape {values.shape} instead."
        )
    return values


def _check_length(values: np.ndarray, n_rows: int | None, name: str) -> None:
    if n_rows is not None and len(values) != n_rows:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"X has {n_rows} rows, {name} has {len(values)}"
        )
    if len(values) == 0:
        raise ValueError(f"{name} has 0 sample(s) while a minimum of 1 is required.")


def _real(values: np.ndarray, name: str) -> np.ndarray:
    """Return real numbers of any dtype as contiguous float64."""
    if values.dtype.kind == "c":
        raise ValueError(COMPLEX_MESSAGE.format(name=name, dtype=values.dtype))
    if values.dtype.kind == "O":
        for row, value in enumerate(values.ravel()):
            if isinstance(value, complex):
                raise ValueError(COMPLEX_MESSAGE.format(name=name, dtype=shorten(value)))
            if not is_number(value) and not is_missing_object(value):
                raise ValueError(
                    f"{name} must hold real numbers, got {shorten(value)} at place {row}"
                )
        values = np.array(
            [np.nan if is_missing_object(value) else float(value) for value in values.ravel()]
        ).reshape(values.shape)
    elif values.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers, got an array of {values.dtype}")
    with np.errstate(over="ignore"):  # a long double out of range is reported as infinity
        return np.ascontiguousarray(values, dtype=np.float64)


def _reject_not_finite(values: np.ndarray, name: str) -> None:
    finite = np.isfinite(values)
    if finite.all():
        return
    row = int(np.argwhere(~finite)[0, 0])
    what = "NaN" if np.isnan(values[row]).any() else "infinity or a value too large for float64"
    raise ValueError(f"Input {name} contains {what} in row {row}. {name} must be finite.")


def _check_labels(labels: np.ndarray, name: str) -> np.ndarray:
    """Return labels of one sortable kind, or raise."""
    kind = labels.dtype.kind
    if kind == "O":
        labels = _labels_from_objects(labels, name)
        kind = labels.dtype.kind
    if kind == "c":
        raise ValueError(COMPLEX_MESSAGE.format(name=name, dtype=labels.dtype))
    if kind == "f":
        _reject_not_finite(labels, name)
        fraction = np.flatnonzero(labels != np.floor(labels))
        if len(fraction):
            raise ValueError(
                f"Unknown label type: continuous. {name} of a classifier must hold classes, got "
                f"{labels[fraction[0]]} in row {fraction[0]}; for real targets use a regressor."
            )
    elif kind not in "biuOUST":
        raise ValueError(
            f"Unknown label type: {labels.dtype}. {name} of a classifier must hold integers, "
            "booleans or strings."
        )
    return labels


def _labels_from_objects(labels: np.ndarray, name: str) -> np.ndarray:
    missing = [row for row, value in enumerate(labels) if is_missing_object(value)]
    if missing:
        raise ValueError(f"Input {name} contains NaN or None in row {missing[0]}.")
    if all(isinstance(value, str) for value in labels):
        return labels
    if all(is_number(value) for value in labels):
        return np.array(labels.tolist())
    kinds = sorted({type(value).__name__ for value in labels})
    raise ValueError(
        f"Unknown label type: {', '.join(kinds)}. {name} of a classifier must hold integers, "
        "booleans or strings, all of one kind."
    )


def _encode_by_counting(labels: np.ndarray, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Return codes and classes of integers in a small range, without sorting the rows."""
    # A difference of values of a narrow type may not fit that type.
    offsets = (
        labels.astype(np.int64) - low if labels.dtype != np.uint64 else labels - np.uint64(low)
    )
    offsets = offsets.astype(np.intp)
    present = np.bincount(offsets, minlength=high - low + 1) > 0
    codes = (np.cumsum(present) - 1).astype(np.int32)[offsets]
    # Through Python integers, since the offset may not fit the type of the labels.
    classes = np.array([low + int(k) for k in np.flatnonzero(present)], dtype=labels.dtype)
    return codes, classes


def _encode_known(labels: np.ndarray, classes: np.ndarray, name: str) -> np.ndarray:
    """Return the codes of labels among known classes."""
    is_text = labels.dtype.kind in "OUST"
    if is_text != (classes.dtype.kind in "OUST"):
        raise ValueError(
            f"{name} holds {labels.dtype} labels, but the classes are {shorten(classes.tolist())}"
        )
    place = np.searchsorted(classes, labels)
    place[place == len(classes)] = 0
    unknown = np.flatnonzero(classes[place] != labels)
    if len(unknown):
        raise ValueError(
            f"{name} holds the label {labels[unknown[0]]!r} in row {unknown[0]}, which is not "
            f"among the classes {shorten(classes.tolist())}"
        )
    return place.astype(np.int32)
