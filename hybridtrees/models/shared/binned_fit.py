"""Checks of fits to a table that comes in bins."""

from __future__ import annotations

from typing import Any, NoReturn

from hybridtrees.core.bins.binned_table import BinnedTable


def refuse_bins(estimator: Any, parameter: str, allowed: str) -> NoReturn:
    """Raise an error: with a parameter as it is, the values of the table are needed."""
    raise ValueError(
        f"{parameter}={getattr(estimator, parameter)!r} of {type(estimator).__name__} needs the "
        f"values of the table, but a BinnedStore has bins: {parameter} must be {allowed}"
    )


def check_bins(estimator: Any, table: BinnedTable, parameter: str, n_bins: int) -> None:
    """Refuse a table with other bins than the estimator asks for."""
    own = table.mapper.max_bins
    if own != n_bins:
        raise ValueError(
            f"{parameter}={getattr(estimator, parameter)!r} of {type(estimator).__name__}, but the "
            f"BinnedStore has up to {own} bins: {parameter} must be {own}"
        )
    if getattr(estimator, "categorical_statistics", None) is True:
        refuse_bins(estimator, "categorical_statistics", "'auto' or False, and keeps the bins")
