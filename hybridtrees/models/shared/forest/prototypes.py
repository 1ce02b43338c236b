"""Typical rows of classes, from the nearest rows of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from hybridtrees.input.validation import check_target_classification

# Maximum number of neighbours that make a prototype, where none is given.
_MAX_NEIGHBOURS = 50


@dataclass
class Prototypes:
    """Typical rows of the classes; arrays of values are (n_prototypes, n_features)."""

    rows: np.ndarray  # row of the table whose neighbours make each prototype
    values: np.ndarray  # medians of the neighbours; the most frequent code of a category
    lower: np.ndarray  # quartiles, NaN for categories
    upper: np.ndarray
    labels: np.ndarray | None  # classes of the prototypes
    categories: list[np.ndarray | None]  # labels of each feature's codes; None for numbers

    def decoded(self) -> np.ndarray:
        """Return `values` with the labels of categories in place of their codes.

        Returns
        -------
        table : ndarray of shape (n_prototypes, n_features), dtype object
            None where all neighbours lack the category.
        """
        table = self.values.astype(object)
        for j, labels in enumerate(self.categories):
            if labels is not None:
                known = ~np.isnan(self.values[:, j])
                table[~known, j] = None
                table[known, j] = labels[self.values[known, j].astype(np.intp)]
        return table


def group_rows(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the group of each row and the labels of the groups; one group without labels."""
    if y is None:
        return np.zeros(n_rows, dtype=np.intp), None
    codes, classes = check_target_classification(y, n_rows)
    return codes.astype(np.intp), classes


def neighbour_counts(group: np.ndarray, n_neighbors: int | None) -> np.ndarray:
    """Return how many nearest rows are looked at for each group."""
    sizes = np.bincount(group)
    if n_neighbors is None:
        # Each by its own size: a small class would leave the others next to no neighbours.
        return np.clip(sizes // 2, 1, _MAX_NEIGHBOURS)
    return np.full(len(sizes), min(n_neighbors, len(group)))


def nearest_rows(part: scipy.sparse.csr_array, n_neighbors: int, first: int = 0) -> np.ndarray:
    """Columns of the largest entries of each row, the first of equal ones; -1 for want of more.

    Each row (of a square matrix, from `first` on) is nearest to itself: many are equally near.
    """
    nearest = np.full((part.shape[0], n_neighbors), -1)
    for i in range(part.shape[0]):
        entries = slice(part.indptr[i], part.indptr[i + 1])
        columns = part.indices[entries]
        farness = np.where(columns == first + i, -np.inf, -part.data[entries])
        best = np.argsort(farness, kind="stable")[:n_neighbors]
        nearest[i, : len(best)] = columns[best]
    return nearest


def dense_places(
    nearest: np.ndarray, group: np.ndarray, label: int, n_places: int
) -> list[tuple[int, np.ndarray]]:
    """Rows around which most of the nearest are of a class, with those of the class."""
    free = np.ones(len(nearest), dtype=bool)
    places = []
    for _ in range(n_places):
        own = (nearest >= 0) & (group[nearest] == label) & free[nearest]
        count = np.where(free, own.sum(axis=1), 0)
        row = int(count.argmax())
        if count[row] == 0:
            break
        members = nearest[row][own[row]]
        free[members] = False
        places.append((row, members))
    return places
