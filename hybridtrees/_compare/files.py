"""Data sets for the command line, bundled or from files, and predictions back into files."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from hybridtrees import datasets
from hybridtrees._compare.data import (
    Data,
    as_times,
    guess_task,
    make_data,
    names_rows,
    numbers_rows,
)
from hybridtrees._compare.reading import (
    Table,
    cells_to_write,
    column_of,
    read_and_keep,
    read_table,
    source_name,
    truth_values,
)
from hybridtrees._outputs import writing_to

# Each takes the seed, for which the bundled tables have no use.
DATASETS: dict[str, Callable[[int], datasets.Dataset]] = {
    "breast_cancer": lambda seed: datasets.load_breast_cancer(),
    "heart_failure": lambda seed: datasets.load_heart_failure(),
    "house_prices": lambda seed: datasets.make_house_prices(1500, random_state=seed),
    "seasonal_series": lambda seed: datasets.make_seasonal_series(1500, random_state=seed),
}

# Columns that order the rows.
_TIME = {"seasonal_series": "time"}


def load_bundled(name: str, seed: int) -> Data:
    """Return a bundled or generated data set, ready to be compared on."""
    if name not in DATASETS:
        raise ValueError(f"data must be among {', '.join(DATASETS)}, got {name!r}")
    dataset = DATASETS[name](seed)
    table = dataset.data
    if not isinstance(table, dict):
        table = dict(zip(dataset.feature_names, table.T, strict=True))
    return make_data(
        table,
        dataset.target,
        task=dataset.task,
        time=_TIME.get(name),
        name=name,
        target_name=dataset.target_name,
    )


def load_file(
    path: str | PathLike[str],
    target: str,
    *,
    task: str = "auto",
    time: str | None = None,
    drop: Sequence[str] = (),
    decimal: str | None = None,
) -> Data:
    """Read a file for a comparison; rows in which the target is missing are left out."""
    about: dict[str, str] = {}
    table = read_table(path, decimal=decimal, notes=about)
    y = column_of(table, target, "the target")
    for name in drop:
        column_of(table, name, "--drop")
    if target in drop:
        raise ValueError(f"the column {target!r} cannot be both the target and dropped")
    when = None if time is None else column_of(table, time, "--time")
    if time == target:
        raise ValueError(f"the column {target!r} cannot be both the target and the time")
    notes = [f"{name!r} {note}" for name, note in about.items() if name not in drop]
    # Found before rows are left out, which would leave gaps between the numbers.
    numbering = {name for name, column in table.items() if numbers_rows(name, column)} - {time}
    known = _is_known(y)
    if not known.all():
        if not known.any():
            raise ValueError(f"the target {target!r} has no value in any row")
        notes.append(f"{np.count_nonzero(~known)} rows without a value of {target!r} are left out")
        table = {name: column[known] for name, column in table.items()}
        y = y[known]
        when = None if when is None else when[known]
    left_out = {target, *drop}
    features = {name: column for name, column in table.items() if name not in left_out}
    features, more = _usable(features)
    if not features:
        raise ValueError(f"{source_name(path)} has no column left to predict {target!r} from")
    if y.dtype.kind == "M":
        raise ValueError(f"the target {target!r} holds dates: it must hold numbers or classes")
    if task == "auto":
        task = guess_task(y)
        if task == "classification" and y.dtype.kind == "f" and len(np.unique(y)) > 2:
            more.append(
                f"{target!r} has {len(np.unique(y))} different whole numbers, which are taken for "
                "classes; --task regression takes them for amounts"
            )
    # Classes that are whole numbers are spelled as such: 1, not 1.0.
    if task == "classification" and y.dtype.kind == "f" and (y == np.floor(y)).all():
        y = y.astype(np.int64)
    return make_data(
        features,
        y,
        task=task,
        time=None if when is None else as_times(when, str(time)),
        name=Path(source_name(path)).name,
        target_name=target,
        notes=notes + more,
        numbering=numbering,
    )


def _is_known(column: np.ndarray) -> np.ndarray:
    if column.dtype.kind == "O":
        return np.array([value is not None for value in column])
    missing: np.ndarray = np.isnat(column) if column.dtype.kind == "M" else np.isnan(column)
    return ~missing


def _usable(features: Table) -> tuple[Table, list[str]]:
    """Leave out columns that no model can use; also returns notes about them."""
    kept, notes = {}, []
    for name, column in features.items():
        if column.dtype.kind == "O":
            labels = {value for value in column if value is not None}
            if names_rows(len(labels), len(column)):
                notes.append(f"{name!r} is left out: {len(labels)} different texts name rows")
                continue
            truth = truth_values(column)
            if truth is not None:
                column = truth
            elif not labels:
                column = np.full(len(column), np.nan)
        if column.dtype.kind == "f" and np.isinf(column).any():
            notes.append(f"{name!r} holds infinite values, which are taken for missing")
            column = np.where(np.isinf(column), np.nan, column)
        kept[name] = column
    return kept, notes


def predict_file(
    model: Any,
    path: str | PathLike[str],
    *,
    keep: Sequence[str] = (),
    decimal: str | None = None,
    notes: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Predict the rows of a file: ``prediction``, and ``probability_<class>`` for each class.

    Several targets or quantiles are ``prediction_0``, ``prediction_1`` and so on.

    Columns to `keep` stand before them, as the file has them. Columns that the model does not know
    by name are ignored.
    """
    names = getattr(model, "feature_names_in_", None)
    spelled = _text_features(model)
    about: dict[str, str] = {}
    where = source_name(path)
    # What is only kept does not tell how the numbers of the file are written.
    text = spelled.union(keep).difference(() if names is None else set(names) - spelled)
    table, kept = read_and_keep(path, keep, text=text, decimal=decimal, notes=about)
    for name in keep:
        column_of(table, name, "--keep")
    if names is None:
        others = [column for name, column in table.items() if name not in keep]
        if len(others) != model.n_features_in_:
            raise ValueError(
                f"the model has {model.n_features_in_} features without names, but {where} has "
                f"{len(others)} columns"
            )
        X: Any = np.column_stack(others)
    else:
        gone = [str(name) for name in names if name not in table]
        if gone:
            raise ValueError(f"{where} lacks columns that the model needs: {', '.join(gone)}")
        dates = () if not hasattr(model, "dates_") else names[model.dates_.date_columns_]
        X = {
            str(name): table[name] if name in dates else _finite(table[name], str(name), spelled)
            for name in names
        }
        if notes is not None:
            notes.update({name: note for name, note in about.items() if name in X})
    predicted = model.predict(X)
    columns = {"prediction": predicted}
    if predicted.ndim == 2:  # several targets or quantiles
        columns = {f"prediction_{k}": column for k, column in enumerate(predicted.T)}
    if hasattr(model, "classes_"):
        proba = model.predict_proba(X)
        for label, column in zip(model.classes_, proba.T, strict=True):
            columns[f"probability_{label}"] = column
    taken = [name for name in kept if name in columns]
    if taken:
        raise ValueError(f"--keep cannot keep {taken[0]!r}, which is a column of the predictions")
    return {**kept, **columns}


def readable(columns: dict[str, Any]) -> dict[str, list[Any]]:
    """Return columns as people read them: predictions, which are arrays, with seven digits."""
    return {
        name: list(map(_spelled, column))
        if isinstance(column, np.ndarray)
        else cells_to_write(column)
        for name, column in columns.items()
    }


def _spelled(value: Any) -> Any:
    if not isinstance(value, float):  # NumPy's are among them
        return value
    if not np.isfinite(value):
        return ""
    return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.7g}"


def _text_features(model: Any) -> set[str]:
    """Names of the features that were text in fit."""
    own = getattr(model, "estimator_", model)
    while not hasattr(own, "_reader"):  # an ensemble: all members have read the same table
        own = own.estimators_[0]
    names = getattr(own, "feature_names_in_", None)
    categories = own._reader.categories
    return {
        str(name)
        for name, known in zip(names if names is not None else (), categories, strict=False)
        if known is not None and known.dtype == object
    }


def _finite(column: np.ndarray, name: str, spelled: set[str]) -> np.ndarray:
    """Return a column as the model had it in fit."""
    if column.dtype.kind == "O" and name not in spelled:
        known = [value for value in column if value is not None]
        truth = truth_values(column)
        if truth is not None:
            return truth
        if known:
            raise ValueError(f"the column {name!r} held numbers in fit and holds {known[0]!r} now")
        return np.full(len(column), np.nan)
    return np.where(np.isinf(column), np.nan, column) if column.dtype.kind == "f" else column


def write_csv(path_or_stream: Any, columns: dict[str, Any]) -> None:
    """Write columns of one length as CSV."""
    if isinstance(path_or_stream, str | PathLike):
        with writing_to(path_or_stream) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
            write_csv(text, columns)
            text.detach()  # writes what is left, and leaves the file open
        return
    writer = csv.writer(path_or_stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))


def write_parquet(path: str | PathLike[str], columns: dict[str, Any]) -> None:
    """Write columns of one length as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with writing_to(path) as stream:
        parquet.write_table(pa.table(columns), stream)


_WRITERS = {".csv": write_csv, ".parquet": write_parquet, ".pq": write_parquet}


def table_writer(path: str | PathLike[str]) -> Callable[[Any, dict[str, Any]], None]:
    """Return the function that writes tables to files of such a name, or raise an error."""
    write = _WRITERS.get(Path(path).suffix.lower())
    if write is None:
        *first, last = _WRITERS
        raise ValueError(f"the file must end in {', '.join(first)} or {last}, got {str(path)!r}")
    if write is write_parquet and find_spec("pyarrow") is None:
        raise ImportError(f"writing {path} needs pyarrow: pip install pyarrow")
    return write
