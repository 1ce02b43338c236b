"""The data sets that come with the package, as the command line knows them."""

from __future__ import annotations

from collections.abc import Callable

from hybridtrees._compare.data import Data, make_data
from hybridtrees.datasets import (
    Dataset,
    load_breast_cancer,
    load_heart_failure,
    make_house_prices,
    make_seasonal_series,
)

# Each takes the seed, for which the bundled tables have no use.
DATASETS: dict[str, Callable[[int], Dataset]] = {
    "breast_cancer": lambda seed: load_breast_cancer(),
    "heart_failure": lambda seed: load_heart_failure(),
    "house_prices": lambda seed: make_house_prices(1500, random_state=seed),
    "seasonal_series": lambda seed: make_seasonal_series(1500, random_state=seed),
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
