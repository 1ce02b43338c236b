"""Data sets for the command line, bundled or from files, and predictions back into files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from hybridtrees._compare.large import draw_rows
from hybridtrees._compare.reading import (
    Table,
    column_of,
    finite_column,
    read_parts,
    read_table,
    source_name,
    truth_values,
)
from hybridtrees._predict_batches import prediction_columns, text_features

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
    rows: int | None = None,
    seed: int = 0,
) -> Data:
    """Read a file for a comparison; rows in which the target is missing are left out.

    Of Parquet files, `rows` are drawn, by default as many as there is memory for: see `large`.
    """
    about: dict[str, str] = {}
    drawn = draw_rows(path, rows, seed)
    table = read_table(path, decimal=decimal, notes=about) if drawn is None else drawn[0]
    y = column_of(table, target, "the target")
    for name in drop:
        column_of(table, name, "--drop")
    if target in drop:
        raise ValueError(f"the column {target!r} cannot be both the target and dropped")
    when = None if time is None else column_of(table, time, "--time")
    if time == target:
        raise ValueError(f"the column {target!r} cannot be both the target and the time")
    notes = [f"{name!r} {note}" for name, note in about.items() if name not in drop]
    if drawn is not None:
        n_drawn = len(next(iter(table.values())))
        notes.append(f"{n_drawn:,} of {drawn[1]:,} rows, drawn at random, are compared on")
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
        is_drawn=drawn is not None,
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
) -> Iterator[dict[str, Any]]:
    """Predict the rows of a file: ``prediction``, and ``probability_<class>`` for each class.

    Yields the columns of some rows at a time, see `read_parts`. Several targets or quantiles are
    ``prediction_0``, ``prediction_1`` and so on.

    Columns to `keep` stand before them, as the file has them. Columns that the model does not know
    by name are ignored.
    """
    names = getattr(model, "feature_names_in_", None)
    spelled = text_features(model)
    about: dict[str, str] = {}
    # What is only kept does not tell how the numbers of the file are written.
    text = spelled.union(keep).difference(() if names is None else set(names) - spelled)
    for table, kept in read_parts(path, keep, text=text, decimal=decimal, notes=about):
        for name in keep:
            column_of(table, name, "--keep")
        X = _features(model, source_name(path), table, keep, spelled)
        if notes is not None and isinstance(X, dict):
            notes.update({name: note for name, note in about.items() if name in X})
        columns = prediction_columns(model, "predict", model.predict(X))
        if hasattr(model, "classes_"):
            columns |= prediction_columns(model, "predict_proba", model.predict_proba(X))
        taken = [name for name in kept if name in columns]
        if taken:
            raise ValueError(
                f"--keep cannot keep {taken[0]!r}, which is a column of the predictions"
            )
        yield {**kept, **columns}


def _features(model: Any, where: str, table: Table, keep: Sequence[str], spelled: set[str]) -> Any:
    """Return the features of a model from a table of a file."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        others = [column for name, column in table.items() if name not in keep]
        if len(others) != model.n_features_in_:
            raise ValueError(
                f"the model has {model.n_features_in_} features without names, but {where} has "
                f"{len(others)} columns"
            )
        return np.column_stack(others)
    gone = [str(name) for name in names if name not in table]
    if gone:
        raise ValueError(f"{where} lacks columns that the model needs: {', '.join(gone)}")
    dates = () if not hasattr(model, "dates_") else names[model.dates_.date_columns_]
    return {
        str(name): table[name] if name in dates else finite_column(table[name], str(name), spelled)
        for name in names
    }
