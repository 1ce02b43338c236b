"""Forests of trees that are packed into a few bytes per node: all but the target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from hybridtrees._parameters import check_real
from hybridtrees._persistence import register
from hybridtrees.core.tree.packed import PackedTrees
from hybridtrees.core.tree.paths import decision_path
from hybridtrees.models.shared.bagging import RowSampler
from hybridtrees.models.shared.forest.base import MAX_TREES, BaggingParameters, ForestData
from hybridtrees.models.shared.forest.growing import ForestFit, ForestTree
from hybridtrees.models.shared.forest.reporting import ForestReports, in_c_order
from hybridtrees.models.shared.forest.warm_start import checksum, columns_checksum, target_checksum
from hybridtrees.models.shared.importance import importance_lines
from hybridtrees.models.shared.tree_parameters import ImpurityTreeParameters, TreeRecipe

register(PackedTrees)

# Training rows of the leaves are kept by default while they take no more than this.
KEPT_BYTES = 2**28


class ForestParameters(BaggingParameters, ImpurityTreeParameters):
    """Parameters of random forests and of RERF."""

    splitter: str = "hist"
    keep_rows: bool | str = "auto"

    def _check_tree_parameters(self) -> None:
        super()._check_tree_parameters()
        check_real("ccp_alpha", self.ccp_alpha, 0)
        auto = isinstance(self.keep_rows, str) and self.keep_rows == "auto"
        if not auto and not isinstance(self.keep_rows, bool | np.bool_):
            raise ValueError(f"keep_rows must be True, False or 'auto', got {self.keep_rows!r}")


class PackedForest(ForestReports, ForestParameters):
    """A random forest: everything but the target."""

    _trees: PackedTrees

    def _make_recipe(self, data: ForestData) -> TreeRecipe:
        # Equal splits are drawn from, lest the first features be preferred; but trees that all
        # see the same rows and features are to be the same.
        recipe = self._recipe(1, True)
        if data.leaves_out or recipe.max_features < self.n_features_in_:
            return recipe
        return replace(recipe, random_ties=False)

    def _growth(self, recipe: TreeRecipe, data: ForestData) -> dict[str, Any]:
        sampler, monotonic = data.sampler, recipe.monotonic
        own = self._target_checksum(data.target)
        return {
            "X": checksum(data.table),
            "the columns of X": columns_checksum(self._reader),
            "y": own,
            "sample_weight": None if sampler.weight is None else checksum(sampler.weight),
            "bootstrap": sampler.replace,
            "max_samples": sampler.n_drawn,
            "criterion": recipe.criterion,
            "splitter": recipe.splitter,
            "missing": recipe.missing,
            "max_features": recipe.max_features,
            "categorical_features": recipe.is_categorical.tolist(),
            "monotonic_cst": None if monotonic is None else monotonic.tolist(),
            "min_weight_fraction_leaf": float(self.min_weight_fraction_leaf),
            "ccp_alpha": float(self.ccp_alpha),
            **self._limits(),
            **self._more_growth(),
        }

    def _more_growth(self) -> dict[str, Any]:
        """Parameters of the classifier that trees, or what is kept of them, depend on."""
        return {}

    def _target_checksum(self, target: np.ndarray) -> int:
        return target_checksum(target, vars(self).get("classes_"))

    def _check_kept(self, earlier: dict[str, Any]) -> None:
        required = isinstance(self.keep_rows, bool | np.bool_) and bool(self.keep_rows)
        if required and earlier["_leaf_rows"] is None:
            raise ValueError(
                "warm_start=True cannot add keep_rows=True to a forest that was fitted without it"
            )

    def _prepare(self, recipe: TreeRecipe, data: ForestData, needs_oob: bool) -> ForestFit:
        return ForestFit(
            recipe,
            in_c_order(data.table) if needs_oob else data.table,
            data.target,
            data.sampler,
            data.factor,
            float(self.ccp_alpha),
            needs_oob,
            self._keeps_rows(recipe, data.sampler),
            data.n_threads,
        )

    def _keeps_rows(self, recipe: TreeRecipe, sampler: RowSampler) -> bool:
        if isinstance(self.keep_rows, bool | np.bool_):
            return bool(self.keep_rows)
        n_trees = MAX_TREES if self.n_estimators == "auto" else int(self.n_estimators)
        n_bytes = 4 * n_trees * min(sampler.n_drawn, sampler.n_rows)
        return recipe.n_classes == 0 and n_bytes <= KEPT_BYTES

    def _keep_trees(
        self, fit: ForestFit, grown: list[ForestTree], earlier: dict[str, Any] | None
    ) -> None:
        """Keep the trees, their importances and, where kept, the rows of their leaves."""
        gains = np.array([tree.gains for tree in grown])
        total = gains.sum(axis=1, keepdims=True)
        importance = gains / np.where(total > 0, total, 1.0)
        moments = np.stack([importance.sum(axis=0), np.square(importance).sum(axis=0)])
        n_split = int(np.count_nonzero(importance.any(axis=1)))
        rows = [tree.leaf_rows for tree in grown] if fit.keep_rows else None
        trees = PackedTrees(
            [tree.packed for tree in grown],
            self.n_features_in_,
            fit.recipe.criterion,
            fit.recipe.n_classes,
        )
        if earlier is not None:
            trees = earlier["_trees"].extended(trees)
            moments = moments + earlier["_importance_moments"]
            n_split += earlier["_n_split_trees"]
            rows = None if earlier["_leaf_rows"] is None or rows is None else rows
            if rows is not None:
                rows = [earlier["_leaf_rows"], *rows]
        self._trees = trees
        self._importance_moments, self._n_split_trees = moments, n_split
        self._leaf_rows = None if rows is None else np.concatenate(rows)
        self._train_target = None if rows is None else fit.target
        self._digest = self._grown_with["X"]
        self.max_features_ = fit.recipe.max_features

    # -- predict --------------------------------------------------------------------------------

    def _add_trees(
        self, trees: Any, table: Any, raw: np.ndarray, n_threads: int, first: int, last: int
    ) -> None:
        trees.add_raw(table, raw, n_threads, first, last, votes=self._votes())

    def _predict_tree(self, trees: Any, table: Any, tree: int, rows: np.ndarray) -> np.ndarray:
        return trees.values_of(table, tree, rows)

    def decision_path(self, X: Any) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
        """Nodes that each row passes, in all trees.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        indicator : csr_matrix of shape (n_rows, n_nodes)
            1 for every node on the way, the trees side by side.
        n_nodes_ptr : ndarray of shape (n_trees + 1,)
            Columns at which the trees begin.
        """
        leaves = self.apply(X)
        parts = [decision_path(tree, leaves[:, k]) for k, tree in enumerate(self._trees)]
        return scipy.sparse.hstack(parts).tocsr(), self._trees.tree_start.copy()

    # -- reading the forest ---------------------------------------------------------------------

    def _importances(self) -> tuple[np.ndarray, np.ndarray]:
        mean, square = self._importance_moments / max(1, self._n_split_trees)
        return self._importance_moments[0], np.sqrt(np.maximum(square - mean**2, 0.0))

    def summary(self) -> str:
        """Return a short account of the forest in words.

        Returns
        -------
        text : str
        """
        trees = self.trees_
        n_leaves = (np.diff(trees.tree_start) + 1) // 2
        splits = f"{trees.criterion}, {self.splitter} splits"
        lines = self._summary_lines(splits, self._outputs(), n_leaves)
        names = vars(self).get("feature_names_in_")
        return "\n".join(lines + importance_lines(self.feature_importances_, names))
