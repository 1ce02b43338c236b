"""The linear forest: how its trees are grown and kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hybridtrees._parameters import attribute
from hybridtrees.core.base.checks import check_arrays
from hybridtrees.core.base.threads import FEW_ROWS_TREES
from hybridtrees.core.tree.additive import AdditiveForm, scaled
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.linear.blas import sequential_blas
from hybridtrees.models.linear_tree.base import LinearTreeParameters
from hybridtrees.models.linear_tree.growing import LinearTable, LinearTreeGrower
from hybridtrees.models.shared.bagging import RowSampler
from hybridtrees.models.shared.fitted_checks import check_ensemble, check_samples
from hybridtrees.models.shared.forest.base import Forest, ForestData
from hybridtrees.models.shared.forest.warm_start import checksum, target_checksum
from hybridtrees.models.shared.importance import shares
from hybridtrees.models.shared.tree_parameters import MaxFeatures

# Parameters that grown trees do not depend on.
_MAY_CHANGE = ("n_estimators", "oob_score", "n_jobs", "verbose", "warm_start", "random_state")

# Tables with fewer entries use one thread if the models of the leaves are fitted in Python.
_SMALL_TABLE = 200_000


@dataclass
class BaggedTree:
    """A tree of the forest, and its out-of-bag predictions."""

    tree: Tree
    importance: np.ndarray
    oob_rows: np.ndarray | None
    oob_values: np.ndarray | None  # (n_oob, n_values)


@dataclass
class LinearForestFit:
    """What the growers of one fit share."""

    forest: LinearForestModel
    table: Any  # `LinearTable` of all rows, shared by all trees
    values: Any  # the user's table
    target: np.ndarray
    sampler: RowSampler
    needs_oob: bool  # whether trees predict out-of-bag rows

    @contextmanager
    def open_grower(self) -> Iterator[Any]:
        """Open a grower for one thread, with BLAS restricted to one thread."""
        with sequential_blas():
            yield LinearTreeGrower(self.table, self.target)

    def grow(
        self, grower: Any, counts: np.ndarray, weight: np.ndarray | None, seed: int
    ) -> BaggedTree:
        """Grow a tree on a sample: see `bag`."""
        forest, sampler = self.forest, self.sampler
        grown = grower.grow(weight, seed)
        grown, theta, tree = forest._finish_tree(grown, grower, self.values, weight, sampler)
        importance = forest._columns.by_feature(grower.line_gains(grown, theta, weight))
        inner = tree.nodes["left"] >= 0
        np.add.at(importance, tree.nodes["feature"][inner], tree.nodes["gain"][inner])
        rows = predicted = None
        if self.needs_oob:
            rows = sampler.out_of_bag(counts)
            own = TreeEnsemble([tree], self.values.shape[1], tree.values.shape[1])
            predicted = forest._predict_tree(own, self.values, 0, rows)
        return BaggedTree(tree, shares(importance), rows, predicted)


class LinearForestModel(Forest, LinearTreeParameters):
    """Bagged linear trees without the target.

    Parameters
    ----------
    max_features : int, float, {"sqrt", "log2", "third"} or None
        Features drawn for each split: a number, a share, or all. Regressions use all features.
    pruning : {"auto", "bic", "aic", None}
        Remove splits that do not improve an information criterion of the training rows, which adds
        2 ("aic") or the logarithm of the number of rows ("bic") per coefficient. "auto" is "aic":
        trees that are averaged may be larger. None keeps every split that lowers the loss. A
        bootstrap sample counts as sum(c)^2 / sum(c^2) rows, c being how often each row was drawn,
        since repeated rows add no information.
    """

    _dialects: ClassVar[tuple[str, ...]] = ("forests of linear trees", "trees of linear-tree")
    _few_rows = FEW_ROWS_TREES
    _trees: TreeEnsemble = attribute()

    max_features: MaxFeatures = 1.0

    def _make_table(self, values: Any) -> Any:
        self._columns = self._read_columns(values.shape[0])
        return self._columns.expand(values)

    def _growing_threads(self, table: Any) -> int:
        in_python = self.criterion == "absolute_error" or self.penalty in ("lasso", "elasticnet")
        if in_python and table.shape[0] * table.shape[1] < _SMALL_TABLE:
            # Two threads take longer than one, since they wait for each other.
            return 1
        return super()._growing_threads(table)

    def _make_recipe(self, data: ForestData) -> Any:
        return self._recipe(data.n_threads)

    def _growth(self, recipe: Any, data: ForestData) -> dict[str, Any]:
        labels = np.asarray(vars(self).get("classes_", self.n_outputs_))
        found: dict[str, Any] = {
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

    def _additive_form(self) -> AdditiveForm:
        share = 1.0 / len(self._trees)
        return self._form_of([scaled(tree, share) for tree in self._trees])

    # -- reading the forest ---------------------------------------------------------------------

    def _importances(self) -> tuple[np.ndarray, np.ndarray]:
        sums = self._tree_importances.sum(axis=0)
        split = self._tree_importances[self._tree_importances.any(axis=1)]
        return sums, split.std(axis=0) if len(split) else np.zeros(len(sums))

    def summary(self) -> str:
        """Summarise the forest: sizes of the trees, out-of-bag score.

        Returns
        -------
        text : str
        """
        trees = self.trees_
        n_leaves = np.add.reduceat(trees.nodes["left"] < 0, trees.tree_start[:-1], dtype=np.intp)
        columns = f"regressors {len(self._columns.linear)}"
        return "\n".join(self._summary_lines(str(self.criterion), columns, n_leaves))
