"""Plots of partial dependence; matplotlib is imported on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, check_option
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.input._user_tables import open_columns
from hybridtrees.inspection.partial_dependence import (
    KINDS,
    PartialDependence,
    partial_dependence,
    weighted_quantiles,
)
from hybridtrees.inspection.plots import pyplot

_DECILES = np.linspace(0.1, 0.9, 9)


def plot_partial_dependence(
    estimator: Any,
    X: Any,
    features: Sequence[Any] | int | str,
    *,
    target: Any = None,
    kind: str = "average",
    centered: bool = False,
    max_lines: int = 200,
    random_state: Any = 0,
    n_cols: int = 3,
    ax: Any = None,
    **options: Any,
) -> np.ndarray:
    """Plot the partial dependence of a model on features and pairs of features.

    A numeric feature gives a line, with marks at the deciles of the rows; a category gives bars.
    Two numeric features give a contour plot, a numeric feature and a category a line per level, two
    categories a heat map.

    Parameters
    ----------
    estimator : fitted estimator
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Rows to average over.
    features : int, str, or a sequence whose items are int, str or pairs of these
        Features and pairs of features to plot, one panel each.
    target : label or int, optional
        Class (of more than two) or number of the output to plot; by default all of them, or the
        first one for pairs and individual lines.
    kind : {"average", "individual", "both"}, default="average"
        Whether to plot the average, a line per row, or both.
    centered : bool, default=False
        Whether lines of numeric features start at 0.
    max_lines : int, default=200
        Maximum number of rows with a line of their own, drawn at random.
    random_state : int, Generator, RandomState or None
        Seed of that draw.
    n_cols : int, default=3
        Maximum number of columns of the grid of panels.
    ax : matplotlib Axes or array of them, optional
        One per panel; by default a new figure is created.
    **options
        Arguments of `partial_dependence`: `sample_weight`, `grid`, `custom_values` and so on.

    Returns
    -------
    axes : ndarray of matplotlib Axes
        One per panel.
    """
    check_option("kind", kind, KINDS)
    check_boolean("centered", centered)
    check_integer("max_lines", max_lines, 1)
    check_integer("n_cols", n_cols, 1)
    panels = [features] if isinstance(features, int | str | np.integer) else list(features)
    if not panels:
        raise ValueError("features must name at least one panel, got an empty sequence")
    plt = pyplot()
    results = []
    for panel in panels:
        is_pair = not isinstance(panel, str) and np.shape(panel) == (2,)
        results.append(
            partial_dependence(estimator, X, panel, kind="average" if is_pair else kind, **options)
        )
    axes = _axes(plt, ax, len(panels), n_cols)
    columns = open_columns(X)
    rng = np.random.default_rng(seed_sequence(random_state))
    for axis, result in zip(axes, results, strict=True):
        outputs = _outputs(estimator, result, target)
        if len(result.feature_indices) == 2:
            _draw_pair(axis, result, outputs[0])
            continue
        name = result.output_names[outputs[0]]
        axis.set_xlabel(result.feature_names[0])
        axis.set_ylabel("partial dependence" + ("" if name == "y" else f" ({name})"))
        rows = None
        if result.individual is not None:
            outputs = outputs[:1]
            rows = result.individual[outputs[0]]
            if len(rows) > max_lines:
                rows = rows[np.sort(rng.choice(len(rows), max_lines, replace=False))]
        if result.is_categorical[0]:
            _draw_levels(axis, result, outputs, rows, rng)
        else:
            _draw_lines(axis, result, outputs, rows, centered)
            _mark_deciles(axis, columns.column(result.feature_indices[0]))
        if len(outputs) > 1:
            axis.set_ylabel("partial dependence")
            axis.legend(fontsize="small")
    return axes


def _axes(plt: Any, ax: Any, n_panels: int, n_cols: int) -> np.ndarray:
    """Return the axes of the panels, in a new figure if `ax` is None."""
    if ax is None:
        n_cols = min(n_cols, n_panels)
        n_rows = -(-n_panels // n_cols)
        figure, grid = plt.subplots(
            n_rows,
            n_cols,
            figsize=(4.2 * n_cols, 3.4 * n_rows),
            squeeze=False,
            layout="constrained",
        )
        for spare in grid.ravel()[n_panels:]:
            figure.delaxes(spare)
        return cast(np.ndarray, grid.ravel()[:n_panels])
    axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(axes) != n_panels:
        raise ValueError(f"ax must hold {n_panels} Axes, one per panel, got {len(axes)}")
    return axes


def _outputs(estimator: Any, result: PartialDependence, target: Any) -> list[int]:
    """Return the numbers of the outputs to draw."""
    n_outputs = len(result.output_names)
    if target is None:
        return list(range(n_outputs))
    if n_outputs == 1:
        return [0]
    classes = getattr(estimator, "classes_", None)
    known = list(range(n_outputs) if classes is None else classes)
    if target not in known:
        raise ValueError(f"target must be one of {known}, got {target!r}")
    return [known.index(target)]


def _draw_lines(
    axis: Any, result: PartialDependence, outputs: list[int], rows: Any, centered: bool
) -> None:
    """Draw lines of the averages, and thin lines of rows."""
    x = result.grid_values[0]
    if rows is not None:
        rows = rows - rows[:, :1] if centered else rows
        strength = min(0.5, max(0.08, 10 / len(rows)))
        axis.plot(x, rows.T, color="tab:blue", alpha=strength, linewidth=0.8)
    if result.average is None:
        return
    for k in outputs:
        y = result.average[k]
        y = y - y[0] if centered else y
        color = None if rows is None else "tab:orange"
        axis.plot(x, y, color=color, linewidth=2, label=result.output_names[k])


def _draw_levels(
    axis: Any, result: PartialDependence, outputs: list[int], rows: Any, rng: np.random.Generator
) -> None:
    """Draw bars of the averages of the levels, and dots of rows."""
    x = np.arange(len(result.grid_values[0]))
    width = 0.8 / len(outputs)
    if result.average is not None:
        for place, k in enumerate(outputs):
            shift = (place - (len(outputs) - 1) / 2) * width
            name = result.output_names[k]
            axis.bar(x + shift, result.average[k], width, label=name, alpha=0.85)
    if rows is not None:
        spread = x + rng.uniform(-0.2, 0.2, size=rows.shape)
        axis.plot(spread.ravel(), rows.ravel(), ".", color="black", alpha=0.25, markersize=3)
    _name_levels(axis, axis.xaxis, result.grid_values[0], rotate=True)


def _draw_pair(axis: Any, result: PartialDependence, output: int) -> None:
    assert result.average is not None
    table = result.average[output]
    x, y = result.grid_values
    categorical = result.is_categorical
    names = result.feature_names
    title = result.output_names[output]
    if any(categorical) and not all(categorical):
        if categorical[0]:
            x, y, table, names = y, x, table.T, names[::-1]
        for k, level in enumerate(y):
            axis.plot(x, table[:, k], label=str(level))
        axis.set_xlabel(names[0])
        axis.set_ylabel("partial dependence" + ("" if title == "y" else f" ({title})"))
        axis.legend(title=names[1], fontsize="small")
        return
    axis.set_xlabel(names[0])
    axis.set_ylabel(names[1])
    if all(categorical):
        picture = axis.imshow(table.T, aspect="auto", origin="lower")
        _name_levels(axis, axis.xaxis, x, rotate=True)
        _name_levels(axis, axis.yaxis, y, rotate=False)
    elif min(table.shape) < 2:
        raise ValueError("a map of two numbers needs at least two values of each")
    else:
        picture = axis.contourf(x, y, table.T, levels=12, alpha=0.9)
        lines = axis.contour(x, y, table.T, levels=12, colors="black", linewidths=0.4)
        axis.clabel(lines, fontsize="x-small")
    axis.figure.colorbar(picture, ax=axis, label=None if title == "y" else title)


def _name_levels(axis: Any, which: Any, levels: np.ndarray, rotate: bool) -> None:
    names = [str(level) for level in levels]
    which.set_ticks(np.arange(len(levels)), labels=names)
    if rotate and sum(map(len, names)) > 24:
        axis.tick_params("x", rotation=45)
        for text in axis.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")


def _mark_deciles(axis: Any, values: np.ndarray) -> None:
    """Mark the deciles at the bottom: where there are few rows, the curve is unreliable."""
    values = values.astype(np.float64)
    values = values[~np.isnan(values)]
    if len(values):
        deciles = weighted_quantiles(values, None, _DECILES)
        axis.vlines(
            deciles, 0, 0.04, transform=axis.get_xaxis_transform(), color="black", linewidth=0.8
        )
