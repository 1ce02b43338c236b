"""The forest with linear leaves: how its trees are grown and kept, and what one predicts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees.core.base.checks import check_arrays
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.linear.blas import sequential_blas
from hybridtrees.models.linear_tree import leaves
from hybridtrees.models.linear_tree.base import LinearTreeParameters
from hybridtrees.models.linear_tree.growing import LinearTable, LinearTreeGrower
from hybridtrees.models.linear_tree.information import prune_by_information
from hybridtrees.models.shared.bagging import RowSampler
from hybridtrees.models.shared.fitted_checks import check_ensemble, check_samples
from hybridtrees.models.shared.forest.base import Forest, ForestData
from hybridtrees.models.shared.forest.warm_start import checksum, target_checksum
from hybridtrees.models.shared.importance import shares

# Parameters that trees, once grown, do not depend on.
_MAY_CHANGE = ("n_estimators", "oob_score", "n_jobs", "verbose", "warm_start", "random_state")

# Entries of a table below which trees are grown one after the other if leaves are iterated.
_SMALL_TABLE = 200_000


@dataclass
class BaggedTree:
    """A tree of the forest, and its predictions for the rows that it has not seen."""

    tree: Tree
    importance: np.ndarray
    oob_rows: np.ndarray | None
    oob_values: np.ndarray | None  # (n_oob, n_values)


@dataclass
class LinearForestFit:
    """What the growers of one fit share."""

    forest: LinearForestModel
    table: Any  # `LinearTable` of all rows, once for all trees
    values: Any  # the table as it came
    target: np.ndarray
    sampler: RowSampler
    needs_oob: bool  # whether trees predict the rows out of the bag

    @contextmanager
    def open_grower(self) -> Iterator[Any]:
        """Give a grower for one thread, while BLAS has no threads of its own."""
        with sequential_blas():
            yield LinearTreeGrower(self.table, self.target)

    def grow(
        self, grower: Any, counts: np.ndarray, weight: np.ndarray | None, seed: int
    ) -> BaggedTree:
        """Grow a tree on a sample: see `bag`."""
        forest, sampler = self.forest, self.sampler
        grown = grower.grow(weight, seed)
        criterion = forest._information()
        if criterion is not None:
            grown = prune_by_information(
                grown, grower, weight, criterion, resampled=sampler.replace
            )
        theta = leaves.smooth(grown, float(forest.smoothing))
        # What a forest does not use: the models of inner nodes.
        theta[grown.grown.nodes["left"] >= 0, :, 1:] = 0.0
        tree = leaves.make_tree(
            grown,
            theta,
            self.table,
            self.values,
            None if forest._n_classes() else self.target,
            str(forest.extrapolate),
            float(forest.bound_factor),
        )
        importance = np.zeros(forest.n_features_in_)
        inner = tree.nodes["left"] >= 0
        np.add.at(importance, tree.nodes["feature"][inner], tree.nodes["gain"][inner])
        rows = predicted = None
        if self.needs_oob:
            rows = sampler.out_of_bag(counts)
            own = TreeEnsemble([tree], self.values.shape[1], tree.values.shape[1])
            predicted = forest._predict_tree(own, self.values, 0, rows)
        return BaggedTree(tree, shares(importance), rows, predicted)


class LinearForestModel(Forest, LinearTreeParameters):
    """Bagged linear trees: everything but the target."""

    _few_rows = 512
    _trees: TreeEnsemble

    max_features: int | float | str | None = 1.0

    def _fit_table(self, X: Any) -> Any:
        features = super()._fit_table(X)
        self._columns = self._read_columns()
        return self._columns.expand(features)

    def _growing_threads(self, table: Any) -> int:
        if self.criterion != "squared_error" and table.shape[0] * table.shape[1] < _SMALL_TABLE:
            # Iterated fits to few rows are mostly Python: two threads take longer than one.
            return 1
        return super()._growing_threads(table)

    def _make_recipe(self, data: ForestData) -> Any:
        return self._recipe(data.n_threads)

    def _growth(self, recipe: Any, data: ForestData) -> dict[str, Any]:
        labels = np.asarray(vars(self).get("classes_", self.n_outputs_))
        found = {
            "X": checksum(data.table),
            "y": target_checksum(data.target, labels),
            "sample_weight": None if data.weight is None else checksum(data.weight),
        }
        for name, value in self.get_params().items():
            if name not in _MAY_CHANGE:
                found[name] = repr(np.asarray(value).tolist())
        return found

    def _prepare(self, recipe: Any, data: ForestData, needs_oob: bool) -> LinearForestFit:
        with sequential_blas():
            table = LinearTable(data.table, data.weight, recipe)
        return LinearForestFit(self, table, data.table, data.target, data.sampler, needs_oob)

    def _keep_trees(
        self, fit: LinearForestFit, grown: list[BaggedTree], earlier: dict[str, Any] | None
    ) -> None:
        trees = [made.tree for made in grown]
        importance = np.array([made.importance for made in grown])
        if earlier is not None:
            old = earlier["_trees"]
            trees = [old[k] for k in range(len(old))] + trees
            importance = np.vstack([earlier["_tree_importances"], importance])
        self._trees = TreeEnsemble(trees, self._columns.n_columns, trees[0].values.shape[1])
        self._tree_importances = importance

    def _check_fitted(self) -> None:
        columns, n_outputs = self._check_columns()
        trees = check_ensemble(self, "_trees", n_outputs, columns.n_columns)
        check_samples(self, len(trees))
        check_arrays(self, {"_tree_importances": ("f8", len(trees), "n_features")})

    # -- reading the forest ---------------------------------------------------------------------

    def _importances(self) -> tuple[np.ndarray, np.ndarray]:
        sums = self._tree_importances.sum(axis=0)
        split = self._tree_importances[self._tree_importances.any(axis=1)]
        return sums, split.std(axis=0) if len(split) else np.zeros(len(sums))

    def summary(self) -> str:
        """Return a short account of the forest in words.

        Returns
        -------
        text : str
        """
        trees = self.trees_
        n_leaves = np.add.reduceat(trees.nodes["left"] < 0, trees.tree_start[:-1], dtype=np.intp)
        columns = f"regressors {len(self._columns.linear)}"
        return "\n".join(self._summary_lines(str(self.criterion), columns, n_leaves))
