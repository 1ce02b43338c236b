"""Tuning of RERF: grids of parameters of the regression and of the forest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

LINEAR = ("penalty", "alpha", "l1_ratio")

# The grid of tune=True.
_N_ALPHAS = 5
_DEFAULT_FOREST: dict[str, list[Any]] = {
    "max_features": [1.0, "third"],
    "min_samples_leaf": [1, 5, 20],
}


@dataclass(frozen=True)
class Candidate:
    """One setting: parameters of the regression and of the forest that replace the model's."""

    linear: dict[str, Any]
    forest: dict[str, Any]

    @property
    def params(self) -> dict[str, Any]:
        """All parameters of the setting."""
        return {**self.linear, **self.forest}


def check_grid(tune: Any, known: tuple[str, ...]) -> list[dict[str, list[Any]]] | None:
    """Check `tune` and return its grids, None for the default grid."""
    if tune is True or isinstance(tune, np.bool_):
        return None
    grids = [tune] if isinstance(tune, Mapping) else tune
    if not isinstance(grids, list | tuple) or not all(isinstance(g, Mapping) for g in grids):
        raise TypeError(
            f"tune must be a bool, a dict of lists of values, or a list of such dicts, got {tune!r}"
        )
    if not grids:
        raise ValueError("tune must hold at least one grid")
    found = []
    for grid in grids:
        for name, values in grid.items():
            if name not in known:
                raise ValueError(f"tune names {name!r}, which is not one of {', '.join(known)}")
            if isinstance(values, str) or not np.iterable(values) or not len(list(values)):
                raise ValueError(f"tune must give a list of values for {name!r}, got {values!r}")
        found.append({name: list(values) for name, values in grid.items()})
    return found


def default_grid(
    penalised: bool, alphas: Callable[[int], NDArray[Any]]
) -> list[dict[str, list[Any]]]:
    """Return the grid of ``tune=True``; ``alphas(n)`` gives n values of alpha."""
    grid = dict(_DEFAULT_FOREST)
    if penalised:
        grid["alpha"] = [float(alpha) for alpha in alphas(_N_ALPHAS)]
    return [grid]


def best_of(errors: list[float], by: str) -> int:
    """Return the index of the smallest error, ignoring NaN; `by` is for messages."""
    known = np.where(np.isnan(errors), np.inf, errors)
    if not np.isfinite(known).any():
        raise ValueError(
            f"{by} found no error for any setting of tune: there are too few rows or trees for "
            "out-of-sample predictions"
        )
    return int(known.argmin())


def candidates(grids: list[dict[str, list[Any]]]) -> Iterator[Candidate]:
    """Yield every combination; those of the same regression are consecutive."""
    for grid in grids:
        linear = [name for name in LINEAR if name in grid]
        forest = [name for name in grid if name not in LINEAR]
        for first in product(*(grid[name] for name in linear)):
            for second in product(*(grid[name] for name in forest)):
                yield Candidate(
                    dict(zip(linear, first, strict=True)), dict(zip(forest, second, strict=True))
                )
