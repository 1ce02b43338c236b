"""The pieces of a linear tree along one feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees._parameters import check_integer
from hybridtrees.input.columns import column_index
from hybridtrees.inspection._named_tree import _output_names
from hybridtrees.inspection.plots import pyplot


@dataclass
class LinearPieces:
    """A linear tree as a function of one feature, with the others fixed.

    Attributes
    ----------
    feature : int
        Number of the feature.
    name : str
    low, high : ndarrays of shape (n_pieces,)
        Ends of the pieces, ascending; a piece holds ``low < x <= high``.
    slope : ndarray of shape (n_pieces,)
    value : ndarray of shape (n_pieces, 2)
        Output at both ends, within the limits of the leaf.
    leaf : ndarray of int, shape (n_pieces,)
        Leaf of each piece.
    at : ndarray of shape (n_features,)
        Values of the other features.
    output : str
        "y", or "score of" a class.
    """

    feature: int
    name: str
    low: np.ndarray
    high: np.ndarray
    slope: np.ndarray
    value: np.ndarray
    leaf: np.ndarray
    at: np.ndarray
    output: str

    def __len__(self) -> int:
        return len(self.low)


def linear_pieces(
    model: Any, X: Any, feature: int | str, *, at: Any = None, output: int = 0
) -> LinearPieces:
    """Return the pieces of a linear tree along one numeric feature.

    Parameters
    ----------
    model : fitted LinearTreeRegressor or LinearTreeClassifier
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Rows that determine the range of the feature and the default of `at`.
    feature : int or str
        Number or name of the feature.
    at : array-like of shape (n_features,), optional
        Values of the other features, in the form of a row of X; by default the medians and the most
        frequent categories of X.
    output : int, default=0
        Number of the output, or of the class (of more than two).

    Returns
    -------
    pieces : LinearPieces
    """
    tree = model.tree_
    names = model._columns.names
    f = column_index(feature, model.n_features_in_, model._reader.feature_names_in, "feature")
    if model._reader.is_categorical[f]:
        raise ValueError(f"feature must be numeric, but {names[f]} holds categories")
    n_outputs = tree.values.shape[1]
    number = check_integer("output", output, 0, n_outputs - 1)
    assert number is not None
    values = model._read_features(X)
    values = values.toarray() if hasattr(values, "toarray") else np.asarray(values, float)
    point = _middle(values, model._reader.is_categorical)
    if at is not None:
        given = model._read_features(_one_row(at, model._reader.feature_names_in))
        point = (given.toarray() if hasattr(given, "toarray") else np.asarray(given, float))[0]
    column = values[:, f][~np.isnan(values[:, f])]
    if not len(column):
        raise ValueError(f"X has no value of {names[f]}")
    low, high = float(column.min()), float(column.max())
    nodes = tree.nodes
    own = (nodes["left"] >= 0) & (nodes["feature"] == f) & (nodes["category_start"] < 0)
    cuts = np.unique(nodes["threshold"][own])
    ends = np.concatenate([[low], cuts[(cuts > low) & (cuts < high)], [high]])
    left, right = ends[:-1], ends[1:]
    leaf = model._trees.apply(_rows(model, point, f, right), 1)[:, 0]
    # Thresholds in branches that `at` does not reach separate nothing.
    first = np.flatnonzero(np.append(True, leaf[1:] != leaf[:-1]))
    last = np.append(first[1:], len(leaf)) - 1
    leaf, left, right = leaf[first], left[first], right[last]
    value = np.column_stack([_line_at(model, leaf, point, f, x, number) for x in (left, right)])
    terms = [slice(int(tree.coef_ptr[i]), int(tree.coef_ptr[i + 1])) for i in leaf]
    slope = np.array([tree.coef[t, number][tree.coef_feature[t] == f].sum() for t in terms])
    return LinearPieces(
        f, names[f], left, right, slope, value, leaf, point, _output_names(model, tree)[number]
    )


def plot_pieces(
    model: Any, X: Any, feature: int | str, *, at: Any = None, output: int = 0, ax: Any = None
) -> list[Any]:
    """Plot a linear tree as a function of one feature, a line per piece.

    Parameters
    ----------
    model, X, feature, at, output
        Arguments of `linear_pieces`.
    ax : matplotlib Axes, optional
        By default the current Axes.

    Returns
    -------
    lines : list of matplotlib Line2D
        One per piece, labelled with its leaf, then a thin line at each threshold.
    """
    pieces = linear_pieces(model, X, feature, at=at, output=output)
    if ax is None:
        ax = pyplot().gca()
    lines = []
    for i in range(len(pieces)):
        ends = [pieces.low[i], pieces.high[i]]
        lines += ax.plot(ends, pieces.value[i], label=f"leaf {pieces.leaf[i]}", linewidth=2)
    for cut in pieces.low[1:]:
        lines.append(ax.axvline(cut, color="0.7", linewidth=0.8, linestyle="--", zorder=0))
    ax.set_xlabel(pieces.name)
    ax.set_ylabel(pieces.output)
    return lines


def _one_row(at: Any, names: np.ndarray | None) -> Any:
    """Return a table of one row with the feature names of the model; frames are kept."""
    if hasattr(at, "columns"):
        return at
    at = list(np.ravel(np.asarray(at, dtype=object)))
    if names is None or len(at) != len(names):
        return np.array([at], dtype=np.float64)
    return {name: [value] for name, value in zip(names, at, strict=True)}


def _middle(values: np.ndarray, is_categorical: np.ndarray) -> np.ndarray:
    point = np.full(values.shape[1], np.nan)
    for j in range(values.shape[1]):
        column = values[:, j][~np.isnan(values[:, j])]
        if not len(column):
            continue
        if is_categorical[j]:
            labels, counts = np.unique(column, return_counts=True)
            point[j] = labels[np.argmax(counts)]
        else:
            point[j] = np.median(column)
    return point


def _rows(model: Any, point: np.ndarray, f: int, x: np.ndarray) -> np.ndarray:
    """Return the columns of the model at a point, with feature `f` set to each of `x`."""
    rows = np.tile(point, (len(x), 1))
    rows[:, f] = x
    expanded: np.ndarray = model._columns.expand(rows)
    return expanded


def _line_at(
    model: Any, leaf: np.ndarray, point: np.ndarray, f: int, x: np.ndarray, output: int
) -> np.ndarray:
    """Return the output of the given leaves, whichever leaf the rows would reach."""
    tree = model.tree_
    rows = _rows(model, point, f, x)
    out = np.empty(len(x))
    for i, (node, row) in enumerate(zip(leaf, rows, strict=True)):
        part = slice(int(tree.coef_ptr[node]), int(tree.coef_ptr[node + 1]))
        own = np.clip(row[tree.coef_feature[part]], tree.coef_low[part], tree.coef_high[part])
        moved = np.nan_to_num(own - tree.coef_center[part], nan=0.0)
        out[i] = tree.values[node, output] + moved @ tree.coef[part, output]
        if tree.value_range is not None:
            out[i] = np.clip(out[i], *tree.value_range[node, :, output])
    return out
