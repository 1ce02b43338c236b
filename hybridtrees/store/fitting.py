"""What `fit` gets from a store: codes in place of values, target and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridtrees.core.bins import _bins
from hybridtrees.core.bins.binned_table import BinnedTable
from hybridtrees.core.bins.blocked import BlockedBins
from hybridtrees.core.bins.matrix import BinnedMatrix, empty_codes
from hybridtrees.store.memory import check_memory_limit

if TYPE_CHECKING:
    from hybridtrees.store.reader import BinnedStore

# Parameters of estimators for which rows of values are predicted during the fit.
_HOLD_OUT = ("conformal", "calibrate")


def fit_arguments(
    store: BinnedStore,
    estimator: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    declares: bool = False,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of ``estimator.fit(store, *args, **kwargs)`` with the store opened.

    `declares`: the store has been built with the categorical features of the estimator.
    """
    name = type(estimator).__name__
    check = getattr(estimator, "_check_binned", None)
    if check is None:
        raise TypeError(
            f"{name} cannot be fitted to a BinnedStore: it needs the values of the table, not bins"
        )
    more = {key: value for key, value in kwargs.items() if key != "X"}
    if any(arg is not None for arg in args) or more.get("y") is not None:
        raise TypeError(f"{name}.fit takes target and weights from the BinnedStore: give only it")
    if more.get("sample_weight") is not None:
        raise TypeError(f"{name}.fit takes sample_weight from the BinnedStore: give only it")
    for parameter in _HOLD_OUT:
        if getattr(estimator, parameter, None) is not None:
            raise ValueError(
                f"{parameter} of {name} needs rows of values held out, a BinnedStore has bins: "
                f"leave {parameter} at None, and give such rows afterwards"
            )
    declared = getattr(estimator, "categorical_features", None)
    if not declares and declared is not None and not isinstance(declared, str):
        raise ValueError(
            f"categorical_features of {name} are those of the BinnedStore: leave it at None"
        )
    if store.y is None:
        raise ValueError(f"the BinnedStore has no target, which {name}.fit needs")
    table = binned_table(store, name)
    check(table)
    y = store.y if store.schema.classes is None else store.schema.classes[store.y]
    return (table, y), {**more, "sample_weight": store.weight}


def binned_table(store: BinnedStore, name: str) -> BinnedTable:
    """Return the table that a fit gets; `name` is that of the estimator."""
    made: list[BinnedMatrix | BlockedBins] = []

    def load(n_threads: int) -> BinnedMatrix | BlockedBins:
        if not made:
            made.append(load_bins(store, name, n_threads))
        return made[0]

    return BinnedTable(
        store.shape,
        store.mapper,
        load,
        store.values_of,
        store.bin_ends,
        store.schema.feature_names,
        store.schema.categories or (),
    )


def load_bins(store: BinnedStore, name: str, n_threads: int) -> BinnedMatrix | BlockedBins:
    """Decode all codes if the memory limit allows it; otherwise they are read block by block."""
    n_rows, n_features = store.shape
    need = decoded_bytes(*store.shape)
    limit = check_memory_limit(store.memory_limit)
    if need > limit:
        why_not = (
            f"{name} needs the codes of all rows in memory, {need:,} bytes, but memory_limit of "
            f"the BinnedStore allows {limit:,}"
        )
        return BlockedBins(store, n_rows, store.mapper, store.has_missing.copy(), why_not, limit)
    records, columns = empty_codes(n_rows, n_features)
    store.read_into(columns, range(n_features), n_threads)
    _bins.records_from_columns(columns, records, n_threads)
    mapper = store.mapper
    kinds = mapper.n_bins_.copy(), store.has_missing.copy(), mapper.is_categorical_.copy()
    return BinnedMatrix(records, columns, *kinds, list(mapper.bin_edges_))


def decoded_bytes(n_rows: int, n_features: int) -> int:
    """Bytes of the codes in memory, row by row and column by column."""
    return n_rows * (n_features + (n_features + 3) // 4 * 4 + 4)
