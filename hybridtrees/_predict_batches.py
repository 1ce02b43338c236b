"""Predictions for tables larger than memory, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np

from hybridtrees._table_files import Append, appending, check_table_path
from hybridtrees.input._user_tables import _columns_of
from hybridtrees.input.batches import BATCH_ROWS, Batches, located, open_batches

_METHODS = {
    "predict": "prediction",
    "predict_proba": "probability",
    "predict_log_proba": "log_probability",
    "predict_raw": "raw",
    "decision_function": "decision",
    "predict_interval": "interval",
}


def predict_batches(
    model: Any,
    source: Any,
    output: np.ndarray | str | PathLike[str] | None = None,
    *,
    method: str = "predict",
    keep: Sequence[str] = (),
    batch_rows: int = BATCH_ROWS,
) -> np.ndarray | None:
    """Predict the rows of a table that need not fit into memory.

    Rows are read, predicted and handed over in batches. The predictions are those that the model
    makes for the whole table; those of regressions up to rounding.

    Parameters
    ----------
    model : estimator
        A fitted model of any family, or another object with the method.
    source : path, glob or folder, list of paths, pyarrow Dataset, polars LazyFrame, table, batches
        Rows with the columns of `fit`, in any order; others are ignored. Parquet and CSV files; any
        table that a model takes, such as a memory map; batches X, which are an object that can be
        iterated over again and again, or a function that returns an iterator.
    output : array or path, optional
        Where predictions go: an array with an entry for each row, such as a memory map, or a file
        whose name ends in .csv, .parquet or .pq. By default they are returned.
    method : str, default="predict"
        Also "predict_proba", "predict_log_proba", "predict_raw", "decision_function" or
        "predict_interval".
    keep : sequence of str
        Columns of the source to write before the predictions, to a file.
    batch_rows : int, default=65_536
        Rows of a batch.

    Returns
    -------
    predictions : ndarray or None
        None if they were written to a file.

    Notes
    -----
    A file has the columns ``prediction``, or ``probability_<class>`` for each class, as the command
    ``hybridtrees predict`` writes them.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import CARTRegressor, predict_batches
    >>> X = np.arange(10.0).reshape(-1, 1)
    >>> model = CARTRegressor(max_depth=1).fit(X, X[:, 0] > 4)
    >>> predict_batches(model, [X[:6], X[6:]], batch_rows=4)
    array([0., 0., 0., 0., 0., 1., 1., 1., 1., 1.])
    """
    if method not in _METHODS:
        raise ValueError(f"method must be one of {', '.join(_METHODS)}, got {method!r}")
    if not hasattr(model, method):
        raise TypeError(f"model is a {type(model).__name__}, which has no method {method}")
    to_file = isinstance(output, str | PathLike)
    if to_file:
        check_table_path(output)  # type: ignore[arg-type]
    elif output is not None and not isinstance(output, np.ndarray):
        raise TypeError(f"output must be an array, a path or None, got {type(output).__name__}")
    if isinstance(keep, str):
        raise TypeError(f"keep must be a list of columns, got {keep!r}")
    if len(keep) and not to_file:
        raise ValueError("keep names columns for a file, but output is none")
    names = getattr(model, "feature_names_in_", None)
    wanted, kept = _columns(model, names, source, keep, batch_rows)
    predictions = _predictions(getattr(model, method), wanted, len(kept))
    if to_file:
        with appending(fspath(output)) as append:  # type: ignore[arg-type]
            _write(append, predictions, model, method, kept)
        return None
    return _gather(predictions, wanted, output)  # type: ignore[arg-type]


def prediction_columns(model: Any, method: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Return predictions by the names of their columns in files."""
    stem = _METHODS[method]
    if values.ndim == 1:
        return {stem: values}
    if values.ndim > 2:
        raise ValueError(f"{method} gives an array of shape {values.shape}, not a table")
    names: Any = range(values.shape[-1])
    if method in ("predict_proba", "predict_log_proba") and hasattr(model, "classes_"):
        names = model.classes_
    return {f"{stem}_{name}": column for name, column in zip(names, values.T, strict=True)}


def text_features(model: Any) -> set[str]:
    """Names of the features that were text in fit."""
    own = getattr(model, "estimator_", model)
    while not hasattr(own, "_reader"):  # an ensemble: all members have read the same table
        members: Any = getattr(own, "estimators_", ())
        if not len(members):
            return set()
        own = members[0]
    names = getattr(own, "feature_names_in_", None)
    categories = own._reader.categories
    return {
        str(name)
        for name, known in zip(names if names is not None else (), categories, strict=False)
        if known is not None and known.dtype == object
    }


def _columns(
    model: Any, names: Any, source: Any, keep: Sequence[str], batch_rows: int
) -> tuple[Batches, list[str]]:
    """Return the source with the features first, and the names of what else is kept."""
    text = text_features(model)
    found = open_batches(source, batch_rows=batch_rows, text=text)
    known = None if found.names is None else [str(name) for name in found.names]
    if known is None:
        if len(keep):
            raise ValueError("keep names columns, but the columns of source have no names")
        return found, []
    gone = [name for name in keep if name not in known]
    if gone:
        raise ValueError(f"keep names {gone[0]!r}, which source does not have")
    if names is None:
        features = [j for j, name in enumerate(known) if name not in keep]
    else:
        lost = [str(name) for name in names if name not in known]
        if lost:
            raise ValueError(f"source lacks columns that model needs: {', '.join(lost)}")
        features = [known.index(name) for name in names]
    places = features + [known.index(name) for name in keep]
    return found.of_columns(np.array(places, dtype=np.intp)), list(keep)


def _predictions(predict: Any, batches: Batches, n_kept: int) -> Iterator[tuple[np.ndarray, Any]]:
    """Yield the predictions of each batch, and the columns that are kept."""
    first = 0
    for batch in batches:
        columns = _columns_of(batch.X)
        n_rows, n_columns = columns.shape
        if n_kept:
            split = n_columns - n_kept
            kept = [columns.series(j) for j in range(split, n_columns)]
            columns = columns.select(np.arange(split))
        else:
            kept = []
        with located(first, n_rows):
            values = np.asarray(predict(columns.table))
        yield values, kept
        first += n_rows


def _write(append: Append, predictions: Any, model: Any, method: str, keep: list[str]) -> None:
    for values, kept in predictions:
        made = prediction_columns(model, method, values)
        taken = [name for name in keep if name in made]
        if taken:
            raise ValueError(f"keep cannot keep {taken[0]!r}, which is a column of the predictions")
        append({**dict(zip(keep, map(_to_write, kept), strict=True)), **made})


def _to_write(column: Any) -> Any:
    """Return a kept column as writers take it."""
    if hasattr(column, "to_arrow"):  # of polars
        return column.to_arrow()
    return column.tolist() if isinstance(column, np.ndarray) else column


def _gather(predictions: Any, batches: Batches, output: np.ndarray | None) -> np.ndarray:
    """Return all predictions in one array, `output` if it is given."""
    n_rows, first = batches.n_rows, 0
    parts: list[np.ndarray] = []
    for values, _ in predictions:
        if output is None and n_rows is None:
            parts.append(values)
            continue
        assert n_rows is not None or output is not None
        if first == 0:
            if output is None:
                output = np.empty((n_rows, *values.shape[1:]), dtype=values.dtype)
            elif output.shape[1:] != values.shape[1:] or n_rows not in (None, len(output)):
                rows = "n_rows" if n_rows is None else n_rows
                raise ValueError(
                    f"output must have the shape {(rows, *values.shape[1:])}, got {output.shape}"
                )
            if not np.can_cast(values.dtype, output.dtype, "same_kind"):
                raise TypeError(
                    f"output is an array of {output.dtype}, but the predictions are {values.dtype}"
                )
        assert output is not None
        if first + len(values) > len(output):
            raise ValueError(f"output has {len(output)} entries, but source has more rows")
        output[first : first + len(values)] = values
        first += len(values)
    if output is None:
        return np.concatenate(parts)
    if first < len(output):
        raise ValueError(f"output has {len(output)} entries, but source has {first} rows")
    return output
