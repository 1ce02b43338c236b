"""Part of the report about the data: every column, and the target."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from hybridtrees._compare import svg
from hybridtrees._compare.data import Data
from hybridtrees._compare.insight import some
from hybridtrees._compare.report_style import figure, figures, folded, html_table, part
from hybridtrees.input._user_tables import is_missing

# Bounds, for a page is not worth minutes, nor megabytes.
_MOST_ROWS, _MOST_COLUMNS = 200_000, 60
_OPEN_COLUMNS = 15
_BINS, _LABELS, _CLASS_ROWS = 16, 3, 12
_LABEL_LENGTH = 40


@dataclass(frozen=True)
class ColumnProfile:
    """What a reader wants to know of a column."""

    name: str
    kind: str
    missing: float  # Share of the rows
    distinct: int
    values: str  # Smallest, middle and largest number, or the most frequent labels
    counts: list[int]  # Of a small histogram


def profile(data: Data) -> list[ColumnProfile]:
    """Describe the first columns of a table."""
    rows = some(np.arange(data.shape[0]), _MOST_ROWS)
    columns = data.columns if len(rows) == data.shape[0] else data.columns.take(rows)
    categorical = set(data.categorical)
    found = []
    for j, name in enumerate(data.feature_names[:_MOST_COLUMNS]):
        if j in categorical:
            found.append(_of_labels(name, columns.column(j)))
        else:
            found.append(_of_numbers(name, _numbers(data.values, j)[rows]))
    return found


def _numbers(values: Any, index: int) -> np.ndarray:
    sparse = hasattr(values, "tocsr")
    column: np.ndarray = values[:, [index]].toarray().ravel() if sparse else values[:, index]
    return column


def _of_numbers(name: str, values: np.ndarray) -> ColumnProfile:
    known = values[~np.isnan(values)].astype(np.float64)
    missing = 1 - len(known) / len(values)
    if not len(known):
        return ColumnProfile(name, "empty", 1.0, 0, "", [])
    distinct = np.unique(known)
    whole = bool((distinct == np.floor(distinct)).all())
    kind = "whole number" if whole else "number"
    if np.isin(distinct, (0, 1)).all():
        kind = "0 / 1"
    low, middle, high = (short(v) for v in (distinct[0], np.median(known), distinct[-1]))
    return ColumnProfile(
        name, kind, missing, len(distinct), f"{low} · {middle} · {high}", _histogram(known)[0]
    )


def _of_labels(name: str, values: np.ndarray) -> ColumnProfile:
    known = [str(value) for value in values[~is_missing(values)].tolist()]
    labels, counts = np.unique(np.array(known, dtype=object), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    words = ", ".join(
        f"{cut(labels[k])} {counts[k] / len(known):.0%}" for k in order[:_LABELS].tolist()
    )
    more = ", …" if len(labels) > _LABELS else ""
    missing = 1 - len(known) / len(values)
    return ColumnProfile(
        name, "category", missing, len(labels), words + more, counts[order][:_BINS].tolist()
    )


def _histogram(values: np.ndarray, bins: int = _BINS) -> tuple[list[int], np.ndarray]:
    """Return counts and edges; a few values far away must not press all others into one bar."""
    low, high = np.quantile(values, [0.005, 0.995])
    distinct = np.unique(values)
    if len(distinct) == 1:
        return [len(values)], np.array([low - 0.5, high + 0.5])
    if low == high:
        low, high = distinct[0], distinct[-1]
    counts, edges = np.histogram(np.clip(values, low, high), bins, (low, high))
    return counts.tolist(), edges


def short(value: float) -> str:
    """Write a number of a table in four digits, whole numbers in full."""
    value = float(value)
    if value == int(value) and abs(value) < 1e7:
        return str(int(value))
    return f"{value:.4g}"


def cut(label: str) -> str:
    """Shorten a name that would fill a page."""
    return label if len(label) <= _LABEL_LENGTH else label[: _LABEL_LENGTH - 1] + "…"


def _words(column: ColumnProfile) -> str:
    return f"distribution of {cut(column.name)}"


def data_part(data: Data, anchor: str) -> str:
    """Return the part about the data."""
    n_rows, n_features = data.shape
    columns = profile(data)
    rows = [
        [
            svg.breakable(cut(column.name)),
            column.kind,
            f"{column.missing:.1%}" if column.missing else "",
            f"{column.distinct:,}",
            escape(column.values),
            f"<td role='cell' class='chart'>{svg.spark(column.counts, _words(column))}</td>",
        ]
        for column in columns
    ]
    heads = ["column", "type", "missing", "distinct", "values", "distribution"]
    table = html_table(heads, rows, text=(1, 5), long=(4,), kind="cards profile", title="columns")
    left_out = n_features - len(columns)
    if left_out:
        table += f"<p class='muted'>and {left_out:,} more columns</p>"
    if len(columns) > _OPEN_COLUMNS:
        table = folded(f"All {len(columns)} columns shown here", table)
    gaps = sum(column.missing > 0 for column in columns)
    n_categorical = len(data.categorical)
    kinds = f", {n_categorical:,} of them categories" if n_categorical else ""
    about = (
        f"{n_rows:,} rows, {n_features:,} features{kinds}; missing values in {gaps or 'no'} "
        f"column{'' if gaps == 1 else 's'}. Numbers are shown as smallest · median · largest"
        f"{', categories by their most frequent labels' if n_categorical else ''}."
    )
    return part("The data", about, figures([_target(data)]) + table, anchor)


def _target(data: Data) -> str:
    """Distribution of the target."""
    title = f"Target: {data.target_name}"
    if data.classes is None:
        values = data.target.astype(np.float64)
        counts, edges = _histogram(values, 24)
        axes = svg.Axes(edges, [0, *counts], x_label=cut(data.target_name), y_label="rows")
        words = " · ".join(short(v) for v in (values.min(), np.median(values), values.max()))
        return figure(f"{title} ({words})", axes.bars(edges, counts).draw(f"histogram, {title}"))
    sizes = np.bincount(data.target, minlength=data.n_classes)
    order = np.argsort(-sizes, kind="stable")[:_CLASS_ROWS].tolist()
    rows = [
        svg.Row(f"{cut(str(data.classes[k]))} ({sizes[k] / sizes.sum():.0%})", [sizes[k]], f"k{k}")
        for k in order
    ]
    more = data.n_classes - len(order)
    rest = f"<p class='muted'>and {more} more classes</p>" if more else ""
    return figure(
        title,
        svg.dot_rows(title, rows, [svg.Mark("rows", "")], bars=True, most_ticks=3) + rest,
        "small",
    )
