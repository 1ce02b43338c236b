"""Plots of Shapley values by matplotlib, which is imported when needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import check_integer
from hybridtrees.inspection.plots import pyplot
from hybridtrees.inspection.shap_values import ShapValues

_RAISES, _LOWERS = "#c2453d", "#3a6ea5"
_ROW = 0.4  # half the height of a row of points


def plot_shap_bar(
    result: ShapValues, *, max_features: int | None = 20, output: Any = None, ax: Any = None
) -> Any:
    """Draw the mean absolute Shapley value of each feature, the largest on top.

    Parameters
    ----------
    result : ShapValues
    max_features : int or None, default=20
        Number of features to draw; None draws all.
    output : int or str, optional
        Number or name of the output; needed if there are several.
    ax : matplotlib Axes, optional
        By default the current ones.

    Returns
    -------
    ax : matplotlib Axes
    """
    values, _ = _one_output(result, output)
    size = np.abs(values).mean(axis=0)
    order = _largest(size, max_features)[::-1]
    ax = pyplot().gca() if ax is None else ax
    ax.barh(np.arange(len(order)), size[order])
    ax.set_yticks(np.arange(len(order)), [result.feature_names[j] for j in order])
    ax.set_xlabel(f"mean |Shapley value|, {result.explained}")
    return ax


def plot_shap_beeswarm(
    result: ShapValues,
    *,
    max_features: int | None = 20,
    max_rows: int = 2000,
    output: Any = None,
    ax: Any = None,
) -> Any:
    """Draw the Shapley values of all rows as points, a row of points for each feature.

    The colour is the value of the feature, from low to high among the rows; grey is missing.

    Parameters
    ----------
    result : ShapValues
    max_features : int or None, default=20
        Number of features to draw, those of the largest mean absolute value; None draws all.
    max_rows : int, default=2000
        Number of rows to draw, evenly spaced among all.
    output : int or str, optional
        Number or name of the output; needed if there are several.
    ax : matplotlib Axes, optional
        By default the current ones.

    Returns
    -------
    ax : matplotlib Axes
    """
    values, _ = _one_output(result, output)
    most = check_integer("max_rows", max_rows, 1)
    order = _largest(np.abs(values).mean(axis=0), max_features)[::-1]
    step = max(1, -(-len(values) // int(most or 1)))
    ax = pyplot().gca() if ax is None else ax
    ax.axvline(0.0, color="grey", linewidth=1, zorder=0)
    points = None
    for place, j in enumerate(order):
        own, colour = values[::step, j], feature_shades(result.data[::step, j])
        known = ~np.isnan(colour)
        height = place + swarm_offsets(own)
        ax.scatter(own[~known], height[~known], s=7, color="0.7", linewidth=0)
        drawn = ax.scatter(
            own[known], height[known], s=7, c=colour[known], cmap="coolwarm", vmin=0, vmax=1,
            linewidth=0, rasterized=True,
        )  # fmt: skip
        points = drawn if points is None else points
    ax.set_yticks(np.arange(len(order)), [result.feature_names[j] for j in order])
    ax.set_ylim(-0.6, len(order) - 0.4)
    ax.set_xlabel(f"Shapley value, {result.explained}")
    if points is not None:
        bar = ax.figure.colorbar(points, ax=ax, label="value of the feature")
        bar.set_ticks([0, 1], labels=["low", "high"])
    return ax


def plot_shap_waterfall(
    result: ShapValues,
    row: int = 0,
    *,
    max_features: int | None = 10,
    output: Any = None,
    ax: Any = None,
) -> Any:
    """Draw how the features of one row lead from the base to its score.

    Parameters
    ----------
    result : ShapValues
    row : int, default=0
        Number of the row.
    max_features : int or None, default=10
        Number of features with a bar of their own, the others share one; None draws all.
    output : int or str, optional
        Number or name of the output; needed if there are several.
    ax : matplotlib Axes, optional
        By default the current ones.

    Returns
    -------
    ax : matplotlib Axes
    """
    values, base = _one_output(result, output)
    row = int(check_integer("row", row, 0, len(values) - 1) or 0)
    own = values[row]
    chosen = _largest(np.abs(own), max_features)
    rest = np.setdiff1d(np.arange(len(own)), chosen)
    steps = [own[j] for j in chosen]
    labels = [f"{result.feature_names[j]} = {_shown(result, row, j)}" for j in chosen]
    if len(rest):
        steps.append(own[rest].sum())
        labels.append(f"{len(rest)} other feature{'s' if len(rest) > 1 else ''}")
    steps, labels = steps[::-1], labels[::-1]
    ends = base[row] + np.cumsum(steps)
    starts = ends - steps
    ax = pyplot().gca() if ax is None else ax
    colours = [_RAISES if step > 0 else _LOWERS for step in steps]
    places = np.arange(len(steps))
    ax.barh(places, steps, left=starts, color=colours)
    for place in places[:-1]:
        ax.plot([ends[place]] * 2, [place + 0.4, place + 0.6], color="grey", linewidth=1)
    low, high = min(starts.min(), ends.min()), max(starts.max(), ends.max())
    margin = 0.16 * (high - low) or 0.5
    for place, step in zip(places, steps, strict=True):
        to_right = step > 0
        ax.annotate(
            f"{step:+.3g}", (ends[place], place), xytext=(4 if to_right else -4, 0),
            textcoords="offset points", va="center", ha="left" if to_right else "right",
            fontsize="small",
        )  # fmt: skip
    ax.axvline(base[row], color="grey", linestyle=":", linewidth=1)
    ax.axvline(ends[-1], color="black", linestyle=":", linewidth=1)
    ax.set_xlim(low - margin, high + margin)
    ax.set_yticks(places, labels)
    ax.set_xlabel(f"{result.explained}: base {base[row]:.4g}, this row {ends[-1]:.4g}")
    return ax


def plot_shap_dependence(
    result: ShapValues, feature: int | str, *, color_by: Any = None, output: Any = None,
    ax: Any = None,
) -> Any:  # fmt: skip
    """Draw the Shapley value of a feature over its value.

    Parameters
    ----------
    result : ShapValues
    feature : int or str
        The feature, by number or name.
    color_by : int or str, optional
        Another feature, for the colour of the points.
    output : int or str, optional
        Number or name of the output; needed if there are several.
    ax : matplotlib Axes, optional
        By default the current ones.

    Returns
    -------
    ax : matplotlib Axes
    """
    values, _ = _one_output(result, output)
    j = _feature(result, feature, "feature")
    x, own = result.data[:, j], values[:, j]
    labels = None
    if result.display_data is not None:
        shown = result.display_data[:, j]
        if any(isinstance(value, str) for value in shown):
            labels = sorted({(code, str(v)) for code, v in zip(x, shown, strict=True) if v})
    ax = pyplot().gca() if ax is None else ax
    ax.axhline(0.0, color="grey", linewidth=1, zorder=0)
    at = x.astype(float)
    if labels:
        at = at + 0.6 * swarm_offsets(own)
        ax.set_xticks([code for code, _ in labels], [name for _, name in labels])
    if color_by is None:
        ax.scatter(at, own, s=9, linewidth=0)
    else:
        k = _feature(result, color_by, "color_by")
        shade = feature_shades(result.data[:, k])
        drawn = ax.scatter(at, own, s=9, c=shade, cmap="coolwarm", vmin=0, vmax=1, linewidth=0)
        bar = ax.figure.colorbar(drawn, ax=ax, label=result.feature_names[k])
        bar.set_ticks([0, 1], labels=["low", "high"])
    ax.set_xlabel(result.feature_names[j])
    ax.set_ylabel(f"Shapley value, {result.explained}")
    return ax


# ---- Parts ------------------------------------------------------------------------------------


def feature_shades(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the place of each value among all from 0 to 1, NaN where it is missing.

    Between the 5th and the 95th percentile, so that a few large values do not hide the others.
    """
    values = np.asarray(values, dtype=np.float64)
    known = np.isfinite(values)
    shades = np.full(len(values), np.nan)
    if known.any():
        low, high = np.percentile(values[known], [5, 95])
        if low == high:
            low, high = values[known].min(), values[known].max()
        span = high - low
        shades[known] = 0.5 if span == 0 else np.clip((values[known] - low) / span, 0, 1)
    return shades


def swarm_offsets(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return heights within +-0.4 at which points with these values do not hide each other."""
    values = np.asarray(values, dtype=np.float64)
    offsets = np.zeros(len(values))
    span = values.max() - values.min() if len(values) else 0.0
    n_bins = 100
    bins = np.zeros(len(values), dtype=np.intp)
    if span > 0:
        bins = np.minimum((n_bins * (values - values.min()) / span).astype(np.intp), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    order = np.argsort(bins, kind="stable")
    rank = np.empty(len(values), dtype=np.intp)
    rank[order] = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    # 0, 1, -1, 2, -2, ... steps from the middle.
    side = np.where(rank % 2 == 1, (rank + 1) // 2, -(rank // 2))
    widest = max(1, int(counts.max(initial=1)) // 2)
    offsets = side * min(_ROW / widest, 0.08)
    return offsets


def _one_output(result: Any, output: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    if not isinstance(result, ShapValues):
        raise TypeError(f"result must be what shap_values returns, got {type(result).__name__}")
    values, base = result.values, result.base_values
    n_features = len(result.feature_names)
    if values.ndim > 2 and values.shape[2] == n_features and (base.ndim == 1 or values.ndim == 4):
        raise ValueError("result must hold values, not interactions: call shap_values without them")
    if not len(values):
        raise ValueError("result must hold at least one row")
    if base.ndim == 1:
        if output not in (None, 0):
            raise ValueError(f"output must be None, as there is one output, got {output!r}")
        return values, base
    names = result.output_names or []
    if isinstance(output, str) and output in names:
        output = names.index(output)
    if (
        isinstance(output, bool)
        or not isinstance(output, int | np.integer)
        or not (0 <= output < base.shape[1])
    ):
        raise ValueError(f"output must be one of {names} or its number, got {output!r}")
    return values[:, :, int(output)], base[:, int(output)]


def _feature(result: ShapValues, given: Any, name: str) -> int:
    names = result.feature_names
    if isinstance(given, str) and given in names:
        return names.index(given)
    if (
        isinstance(given, bool)
        or not isinstance(given, int | np.integer)
        or not (0 <= given < len(names))
    ):
        raise ValueError(f"{name} must be a name or number of a feature, got {given!r}")
    return int(given)


def _largest(size: NDArray[Any], max_features: int | None) -> NDArray[np.intp]:
    count = check_integer("max_features", max_features, 1, allow_none=True)
    return np.argsort(-size, kind="stable")[:count]


def _shown(result: ShapValues, row: int, j: int) -> str:
    if result.display_data is not None and isinstance(result.display_data[row, j], str):
        return str(result.display_data[row, j])
    value = float(result.data[row, j])
    return "missing" if np.isnan(value) else f"{value:.4g}"
