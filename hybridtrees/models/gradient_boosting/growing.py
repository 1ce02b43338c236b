"""Growers of regression trees on residuals, for Friedman's boosting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hybridtrees.core.base.exact_sum import exact_mean
from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.grow.exact import ExactGrower, open_search, read_splits
from hybridtrees.core.grow.grower import PAIR, UNIT, Grower, GrowerParams, RowTarget
from hybridtrees.core.grow.sorted_table import LEAST_RANGE
from hybridtrees.core.tree.tree import Tree, TreeEnsemble


class ExactResiduals(ExactGrower):
    """Grows least-squares trees that try every threshold; to be used as a context manager.

    Parameters
    ----------
    values, is_categorical, params, n_threads
        As for `ExactGrower`.
    weight : float64 array of shape (n_rows,), optional
    center : bool
        Whether residuals may be far from 0 on average, so that digits are saved by centring.
    """

    takes_gradients = False
    least_range = LEAST_RANGE

    def __init__(
        self,
        values: Any,
        is_categorical: np.ndarray,
        params: GrowerParams,
        n_threads: int,
        weight: np.ndarray | None = None,
        center: bool = False,
    ):
        squares = replace(params, criterion="squares")
        super().__init__(values, is_categorical, squares, n_threads)
        self._center = center
        self._weight = weight
        if weight is not None:
            self._data[:, 1] = weight

    def __enter__(self) -> ExactResiduals:
        width = 1 if self._weight is None else 2
        self._search, self._grower = open_search(
            self._table, self.params, self.n_threads, 1, width, keep_lists=True
        )
        return self

    def grow_mean(self, residual: np.ndarray, rows: np.ndarray | None, seed: int) -> Tree:
        """Grow one tree whose values are means of the residuals.

        Parameters
        ----------
        residual : float64 array of shape (n_rows,)
        rows : uint32 array or None
            Ascending ids of the rows to use.
        seed : int
            Of the draws of features.

        Returns
        -------
        tree : Tree
        """
        mean = 0.0
        if self._center:
            mean = exact_mean(residual, self._weight)
            residual = residual - mean
        if self._weight is None:
            target = RowTarget(np.ascontiguousarray(residual)[:, None], UNIT, 1)
        else:
            np.multiply(residual, self._weight, out=self._data[:, 0])
            target = RowTarget(self._data, PAIR, 1)
        self._search.begin(target, rows, seed)
        grown = self._grower.grow()
        sets = read_splits(self._table, grown)
        sums = grown[1]
        return Tree(grown[0], sums[:, 0] / sums[:, 1] + mean, sets)

    def row_nodes(self) -> np.ndarray:
        """Node where each row ended, -1 for rows that took no part."""
        return self._grower.row_nodes()

    def add_to_raw(self, values: np.ndarray, tree: Tree, raw: np.ndarray) -> None:
        """Add the values of the nodes grown last to the scores of all rows.

        Parameters
        ----------
        values : float64 array, one for each node that was grown
        tree : Tree
            What has become of the nodes; it predicts the same.
        raw : float64 array of shape (n_rows,)
        """
        if not self._grower.update_raw(np.ascontiguousarray(values), raw):
            ensemble = TreeEnsemble([tree], self._table.n_features)
            ensemble.add_raw(self.values, raw.reshape(-1, 1), self.n_threads)


class BinnedResiduals(Grower):
    """Grows least-squares trees on binned features; to be used as a context manager.

    Parameters
    ----------
    binned, params, n_threads, category_to_bin
        As for `Grower`.
    weight : float64 array of shape (n_rows,), optional
    """

    takes_gradients = True

    def __init__(
        self,
        binned: BinnedMatrix,
        params: GrowerParams,
        n_threads: int,
        category_to_bin: Sequence[np.ndarray | None] | None = None,
        weight: np.ndarray | None = None,
    ):
        # Squared error is the Newton gain of gradients -r under unit curvature, no penalty.
        # A split has to bring something: sums of bins are rounded, and cannot tell a node of
        # equal residuals from one in which they cancel.
        newton = replace(
            params,
            frontier="depth-wise" if params.frontier == "depth-first" else params.frontier,
            min_gain=max(params.min_gain, 0.0),
            reg_lambda=0.0,
            reg_alpha=0.0,
            max_delta_step=0.0,
        )
        super().__init__(binned, newton, n_threads, category_to_bin)
        self._hess = 1.0 if weight is None else weight.astype(np.float32)

    @classmethod
    def of(
        cls,
        values: Any,
        is_categorical: np.ndarray,
        params: GrowerParams,
        n_threads: int,
        max_bins: int,
        weight: np.ndarray | None = None,
    ) -> BinnedResiduals:
        """Bin a table, and make its grower."""
        mapper = BinMapper(max_bins=max_bins, categorical_features=is_categorical, n_jobs=n_threads)
        binned = mapper.fit_transform(values, weight)
        return cls(binned, params, n_threads, mapper.category_to_bin_, weight)

    def __enter__(self) -> BinnedResiduals:
        super().__enter__()
        return self

    def grow_mean(self, residual: np.ndarray, rows: np.ndarray | None, seed: int) -> Tree:
        """Grow one tree whose values are means of the residuals.

        Parameters
        ----------
        residual : float32 array of shape (n_rows,)
            Gradients: residuals times weights, negative.
        rows, seed
            As for `ExactResiduals.grow_mean`.

        Returns
        -------
        tree : Tree
        """
        return self.grow(residual, self._hess, rows=rows, seed=seed)

    def row_nodes(self) -> np.ndarray:
        """Node where each row ended, -1 for rows that took no part."""
        return self._grower.row_nodes()

    def add_to_raw(self, values: np.ndarray, tree: Tree, raw: np.ndarray) -> None:
        """Add values to the scores of all rows; see `ExactResiduals.add_to_raw`."""
        self._grower.update_raw(np.ascontiguousarray(values), raw, ascending=True)
