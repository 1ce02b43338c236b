"""How the gallery orders its examples, and the look of their figures."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

STYLE = Path(__file__).parents[1] / "hybridtrees.mplstyle"

# Those that are not named come last.
ORDER = (
    "plot_quickstart.py",
    "plot_categories_and_missing.py",
    "plot_compare.py",
    "plot_extrapolation.py",
    "plot_linear_tree.py",
    "plot_eblr_rules.py",
    "plot_rerf.py",
    "plot_plgb.py",
    "plot_forest_intervals.py",
    "plot_forest_importance_bias.py",
    "plot_committee.py",
    "plot_heart_failure_ensembles.py",
    "plot_plgb_leaf_fits.py",
)


def position(filename: str) -> tuple[int, str]:
    """Sort examples from first steps to details."""
    return (ORDER.index(filename) if filename in ORDER else len(ORDER), filename)


def use_style(gallery_conf: dict, script: str) -> None:
    """Give every example the look of the other figures."""
    mpl.rcdefaults()
    mpl.style.use(STYLE)
