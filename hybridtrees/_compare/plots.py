"""The drawings of a comparison by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hybridtrees.inspection.plots import pyplot

if TYPE_CHECKING:
    from hybridtrees._compare.result import Comparison


def _axes(ax: Any, n_rows: int) -> Any:
    if ax is not None:
        return ax
    return pyplot().subplots(figsize=(7, 1.2 + 0.35 * n_rows), layout="constrained")[1]


def _name_rows(ax: Any, rows: list[dict[str, Any]]) -> np.ndarray:
    places = np.arange(len(rows))
    ax.set_yticks(places, [row["model"] for row in rows])
    ax.invert_yaxis()
    ax.grid(axis="x", alpha=0.3)
    return places


def plot_ranking(comparison: Comparison, ax: Any = None) -> Any:
    """Draw training, validation and test scores; see `Comparison.plot_ranking`."""
    rows = [row for row in comparison.table if row["error"] is None]
    ax = _axes(ax, len(rows))
    places = _name_rows(ax, rows)
    for name, style in (
        ("train", {"facecolors": "none", "edgecolors": "tab:blue"}),
        ("validation", {"color": "lightsteelblue"}),
        ("test", {"color": "tab:blue"}),
    ):
        ax.scatter([row[name] for row in rows], places, label=name, zorder=3, **style)
    ax.set_xlabel(comparison.score.label)
    ax.set_title(comparison.data.name)
    ax.legend()
    return ax


def plot_times(comparison: Comparison, ax: Any = None) -> Any:
    """Draw the times to fit and to predict; see `Comparison.plot_times`."""
    rows = [row for row in comparison.table if row["error"] is None]
    rows.sort(key=lambda row: row["fit_seconds"])
    ax = _axes(ax, len(rows))
    places = _name_rows(ax, rows)
    n_test = len(comparison.plan.test)
    ax.scatter(
        [row["predict_seconds"] for row in rows],
        places,
        label=f"predict {n_test} rows",
        facecolors="none",
        edgecolors="tab:blue",
    )
    ax.scatter([row["fit_seconds"] for row in rows], places, label="fit", color="tab:blue")
    ax.set_xscale("log")
    ax.set_xlabel("seconds")
    ax.set_title(comparison.data.name)
    ax.legend()
    return ax
