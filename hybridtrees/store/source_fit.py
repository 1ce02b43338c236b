"""Fits to sources that need not fit into memory: ``est.fit("data/*.parquet", target="y")``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hybridtrees.core.bins.binned_table import BinnedTable
from hybridtrees.core.bins.mapper import MAX_BINS, BinMapper
from hybridtrees.store.building import bin_to_disk
from hybridtrees.store.fitting import fit_arguments

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@contextmanager
def arguments_of_source(
    estimator: Any, source: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[Arguments]:
    """Bin a source to a folder for temporary files, and give the arguments of a fit to it.

    ``target`` and ``sample_weight`` in `kwargs` are columns of the source, or have an entry for
    each row.
    """
    name = type(estimator).__name__
    more = {key: value for key, value in kwargs.items() if key not in ("X", "target")}
    if any(arg is not None for arg in args) or more.pop("y", None) is not None:
        raise TypeError(f"{name}.fit takes y or target, a column of X, but not both")
    if kwargs["target"] is None:
        raise ValueError(f"target of {name}.fit must name a column of X, got None")
    weight = more.pop("sample_weight", None)
    check_before_work(estimator)
    with tempfile.TemporaryDirectory(prefix="hybridtrees-") as folder:
        store = bin_to_disk(
            source,
            Path(folder) / "store",
            target=kwargs["target"],
            weight=weight,
            categorical_features=_categorical(estimator),
            max_bins=_max_bins(estimator),
            # Lines in leaves need values.
            raw_features=bool(getattr(estimator, "max_leaf_features", 0)),
            n_jobs=getattr(estimator, "n_jobs", None),
        )
        with store:
            yield fit_arguments(store, estimator, (), more, declares=True)


def _max_bins(estimator: Any) -> int:
    own = getattr(estimator, "max_bin", None) or getattr(estimator, "max_bins", None)
    return min(own, MAX_BINS) if isinstance(own, int) and own > 1 else MAX_BINS


def _categorical(estimator: Any) -> Any:
    given = getattr(estimator, "categorical_features", None)
    return None if isinstance(given, str) and given == "from_dtype" else given


def check_before_work(estimator: Any) -> None:
    """Refuse what a fit to bins cannot do, before anything is read."""
    name = type(estimator).__name__
    check = getattr(estimator, "_check_binned", None)
    if check is None:
        raise TypeError(
            f"{name} cannot be fitted by target=...: it needs the values of all rows in memory, "
            "so read the table and pass X and y"
        )

    def load(wanted: Any) -> Any:
        raise AssertionError("nothing is read before the work")

    # A table of any number of rows, of which nothing is known but its bins.
    bins = BinMapper(max_bins=_max_bins(estimator))
    check(BinnedTable((sys.maxsize, 1), bins, load, load, None, None, (None,)))
