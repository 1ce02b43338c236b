"""Prototypes of classes, from the nearest neighbours of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from hybridtrees.input.validation import check_target_classification

# Default maximum number of neighbours of a prototype.
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
            None if the category is missing in all neighbours.
        """
        table = self.values.astype(object)
        for j, labels in enumerate(self.categories):
            if labels is not None:
                known = ~np.isnan(self.values[:, j])
                table[~known, j] = None
                table[known, j] = labels[self.values[known, j].astype(np.intp)]
        return table


def group_rows(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the group of each row, and the labels of the groups; one group without `y`."""
    if y is None:
        return np.zeros(n_rows, dtype=np.intp), None
    codes, classes = check_target_classification(y, n_rows)
    return codes.astype(np.intp), classes


def neighbour_counts(group: np.ndarray, n_neighbors: int | None) -> np.ndarray:
    """Return the number of neighbours for each group."""
    sizes = np.bincount(group)
    if n_neighbors is None:
        # By the size of each class: that of the smallest would be too few for the others.
        return np.clip(sizes // 2, 1, _MAX_NEIGHBOURS)
    return np.full(len(sizes), min(n_neighbors, len(group)))


def nearest_rows(part: scipy.sparse.csr_array, n_neighbors: int, first: int = 0) -> np.ndarray:
    """Return columns of the largest entries of each row, padded with -1; ties by column.

    The matrix is a block, from row `first` on, of a square one. Each row is made its own first
    neighbour, since many others may have the same proximity.
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
    """Return the rows with most neighbours of a class, with these neighbours."""
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
