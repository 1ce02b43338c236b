"""Random forests, whose trees are packed into a few bytes per node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse

from hybridtrees._parameters import attribute, check_boolean_or_auto, check_option, check_real
from hybridtrees._persistence import register
from hybridtrees.core.base.criteria import REGRESSION_CRITERIA
from hybridtrees.core.bins.binned_table import BinnedTable
from hybridtrees.core.tree.additive import (
    AdditiveForm,
    Link,
    feature_columns,
    joined,
    scaled,
    with_values,
)
from hybridtrees.core.tree.packed import PackedTrees
from hybridtrees.core.tree.paths import decision_path
from hybridtrees.input.validation import check_target_regression
from hybridtrees.models.shared.bagging import RowSampler
from hybridtrees.models.shared.binned_fit import check_bins, refuse_bins
from hybridtrees.models.shared.forest.base import ForestData, RegressionForest
from hybridtrees.models.shared.forest.growing import ForestFit, ForestTree
from hybridtrees.models.shared.forest.leaves import quantiles, sizes_of_branches
from hybridtrees.models.shared.forest.out_of_bag import as_votes
from hybridtrees.models.shared.forest.parameters import MAX_TREES, BaggingParameters
from hybridtrees.models.shared.forest.reporting import ForestReports, in_c_order
from hybridtrees.models.shared.forest.warm_start import checksum, columns_checksum, target_checksum
from hybridtrees.models.shared.importance import importance_lines
from hybridtrees.models.shared.tree_parameters import (
    ImpurityTreeParameters,
    RegressionCriterion,
    Splitter,
    TreeRecipe,
)
from hybridtrees.models.shared.tree_views import SequenceOfTrees, TreeView
from hybridtrees.uncertainty.intervals import METHODS as INTERVAL_METHODS
from hybridtrees.uncertainty.mixins import IntervalMethod

register(PackedTrees)

# Maximum memory of the training rows of the leaves under keep_rows="auto", in bytes.
KEPT_BYTES = 2**28


def packed_form(
    packed: PackedTrees, votes: bool, reader: Any, classes: np.ndarray | None
) -> AdditiveForm:
    """Return packed trees as a sum: the mean of their values or of their votes."""
    share, trees = 1.0 / len(packed), list(packed)
    if votes:
        trees = [with_values(tree, as_votes(tree.values)) for tree in trees]
    n_outputs = trees[0].values.shape[1]
    return AdditiveForm(
        np.zeros(n_outputs),
        joined([scaled(tree, share) for tree in trees], packed.n_features, n_outputs),
        feature_columns(reader),
        Link("identity" if classes is None else "shares"),
        reader,
        classes,
    )


class ForestParameters(BaggingParameters, ImpurityTreeParameters):
    """Parameters of random forests and of RERF.

    Parameters
    ----------
    min_samples_leaf : int or float
        Minimum number of distinct rows of a leaf, or their share of all rows.
    keep_rows : bool or "auto"
        Whether to keep the training rows of each leaf, for `predict_quantiles`, `predict_interval`
        and `leaf_weights`; "auto" does so if it takes at most 256 MB.
    warm_start : bool
        Whether `fit` adds trees to the fitted ones. Data and parameters must be the same, except
        for `n_estimators`, `oob_score`, `keep_rows`, `n_jobs` and `verbose`.
    """

    splitter: Splitter = "hist"
    ccp_alpha: float = 0.0
    keep_rows: bool | Literal["auto"] = "auto"

    def _check_tree_parameters(self) -> None:
        super()._check_tree_parameters()
        check_real("ccp_alpha", self.ccp_alpha, 0)
        check_boolean_or_auto("keep_rows", self.keep_rows)


class PackedForest(SequenceOfTrees, ForestReports, ForestParameters):
    """A random forest without the target.

    `len`, indices and iteration are those of `estimators_`.

    Attributes
    ----------
    estimators_ : list of models of one tree
        Views of the trees, with the methods of scikit-learn's trees; a tree is made when its view
        is asked for it. Those of a classifier predict codes of classes.
    estimator_ : model of one tree
        The parameters of a tree, without a tree.
    estimators_samples_ : list of ndarray
        Rows of the sample of each tree, as often as they were drawn.
    """

    _view: ClassVar[type[TreeView]] = TreeView

    _trees: PackedTrees = attribute()

    def _check_binned(self, table: BinnedTable) -> None:
        """Refuse a table in bins if the fit would need values."""
        if self.splitter != "hist":
            refuse_bins(self, "splitter", "'hist'")
        if self._asks_oob():
            refuse_bins(self, "oob_score", "False")
        if self.n_estimators == "auto":
            refuse_bins(self, "n_estimators", "a number")
        check_bins(self, table, "max_bins", self.max_bins)

    def _make_recipe(self, data: ForestData) -> TreeRecipe:
        # Ties between splits are broken at random: the first one would favour the first features.
        # But trees that all have the same rows and features must be the same.
        recipe = self._recipe(1, True)
        drawn = recipe.max_features < self.n_features_in_ or recipe.splitter == "random"
        if data.leaves_out or drawn:
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
        """Return parameters of the classifier that the trees depend on."""
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
        """Keep the trees, their importances and, if asked for, the rows of their leaves."""
        gains = np.array([tree.gains for tree in grown])
        total = gains.sum(axis=1, keepdims=True)
        importance = gains / np.where(total > 0, total, 1.0)
        moments = np.stack([importance.sum(axis=0), np.square(importance).sum(axis=0)])
        n_split = int(np.count_nonzero(importance.any(axis=1)))
        rows: list[Any] | None = [tree.leaf_rows for tree in grown] if fit.keep_rows else None
        packed = [tree.packed for tree in grown]
        criterion, n_classes = fit.recipe.criterion, fit.recipe.n_classes
        trees = PackedTrees(packed, self.n_features_in_, criterion, n_classes)
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
        return np.asarray(trees.values_of(table, tree, rows))

    def _additive_form(self) -> AdditiveForm:
        return packed_form(self._trees, self._votes(), self._reader, vars(self).get("classes_"))

    def decision_path(self, X: Any) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
        """Return the nodes on the path of each row, in all trees.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        indicator : csr_matrix of shape (n_rows, n_nodes)
            1 for every node on the path, the trees side by side.
        n_nodes_ptr : ndarray of shape (n_trees + 1,)
            First column of each tree.
        """
        leaves = self.apply(X)
        parts = [decision_path(tree, leaves[:, k]) for k, tree in enumerate(self._trees)]
        return scipy.sparse.hstack(parts).tocsr(), self._trees.tree_start.copy()

    # -- reading the forest ---------------------------------------------------------------------

    @property
    def estimators_(self) -> list[TreeView]:
        """The trees as models of one tree."""
        self._check_is_fitted()
        return [self._view(self, k, int(seed)) for k, seed in enumerate(self._draw_seeds)]

    @property
    def estimator_(self) -> TreeView:
        """The parameters of a tree, without a tree."""
        self._check_is_fitted()
        return self._view(self)

    @property
    def estimators_samples_(self) -> list[np.ndarray]:
        """Rows of the sample of each tree, drawn again from its seed."""
        self._check_is_fitted()
        counts = (self._sampler.counts(int(seed)) for seed in self._draw_seeds)
        return [np.repeat(np.arange(len(count)), count) for count in counts]

    def _importances(self) -> tuple[np.ndarray, np.ndarray]:
        mean, square = self._importance_moments / max(1, self._n_split_trees)
        return self._importance_moments[0], np.sqrt(np.maximum(square - mean**2, 0.0))

    def summary(self) -> str:
        """Summarise the forest: sizes of the trees, out-of-bag score, importances.

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


class PackedRegressionForest(RegressionForest, PackedForest):
    """A random forest for regression, with quantiles from the training rows of its leaves."""

    _criteria = REGRESSION_CRITERIA
    _metric_names: ClassVar[tuple[str, ...]] = (
        "mse", "rmse", "mae", "mape", "rmsle", "r2", "mphe", "quantile", "expectile",
        "poisson-nloglik", "gamma-nloglik", "gamma-deviance", "tweedie-nloglik",
    )  # fmt: skip

    criterion: RegressionCriterion = "squared_error"

    def _known_target(self, y: Any, n_rows: int) -> np.ndarray:
        target = check_target_regression(
            y, n_rows, multi_output=True, estimator_name=type(self).__name__
        ).reshape(n_rows, -1)
        if target.shape[1] != self.n_outputs_:
            raise ValueError(f"y must have {self.n_outputs_} outputs, got {target.shape[1]}")
        return target

    def _tree_error(
        self, target: np.ndarray, predicted: np.ndarray, weight: np.ndarray | None
    ) -> float:
        gap = np.abs(target - predicted)
        if self._trees.criterion != "absolute_error":
            gap = gap * gap
        return float(np.average(gap.mean(axis=1), weights=weight))

    def predict_quantiles(self, X: Any, q: Any = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Predict quantiles of the target (Meinshausen 2006).

        They are quantiles of the training targets weighted by `leaf_weights`: the smallest target
        at which the cumulative weight reaches the level.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        q : float or array-like of shape (n_levels,)
            Levels between 0 and 1.

        Returns
        -------
        quantiles : ndarray of shape (n_rows, n_levels), or (n_rows,) for a single number
            With several outputs (n_rows, n_levels, n_outputs) or (n_rows, n_outputs).
        """
        self._check_is_fitted()
        try:
            levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        except (TypeError, ValueError):
            levels = np.empty(0)
        if levels.ndim != 1 or not len(levels) or not np.all((levels >= 0) & (levels <= 1)):
            raise ValueError(f"q must be one or more numbers from 0 to 1, got {q!r}")
        groups, weight = self._kept_groups("predict_quantiles")
        leaves = self.apply(X)
        sizes = sizes_of_branches(self._trees)
        n_threads = self._predict_threads(len(leaves))
        how = leaves, sizes, levels, n_threads
        assert self._train_target is not None
        columns = [quantiles(groups, weight, column, *how) for column in self._train_target.T]
        found = np.stack(columns, axis=-1)
        if found.shape[-1] == 1:
            found = found[..., 0]
        return found[:, 0] if np.ndim(q) == 0 else found

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        method: IntervalMethod | Literal["quantiles"] = "auto",
        *,
        level: float | None = None,
    ) -> np.ndarray:
        """Predict an interval for the target of each row.

        With `conformal`, or after `conformalize`, a share `coverage` of new rows has its target in
        the interval, on average over rows like those held out. Quantiles of the forest promise
        nothing of the kind.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        coverage : float, default=0.9
            Share of the rows, between 0 and 1.
        method : {"auto", "constant", "quantiles"}, default="auto"
            "constant": the same distances from the prediction for all rows. "quantiles": the
            quantiles (1 - coverage) / 2 and (1 + coverage) / 2 of `predict_quantiles`. "auto":
            "quantiles" if no rows were held out; else wider where residuals were large, if that
            describes the held-out residuals better.
        level : float, optional
            The same as `coverage`.

        Returns
        -------
        interval : ndarray of shape (n_rows, 2), or (n_rows, 2, n_outputs) for several outputs
            Lower and upper bound.
        """
        if level is not None:
            coverage = check_real("level", level, 0, 1, closed="neither")
        check_option("method", method, (*INTERVAL_METHODS, "quantiles"))
        held_out = vars(self).get("_uncertainty") is not None
        if method != "quantiles" and (held_out or method != "auto"):
            return super().predict_interval(X, coverage, method)
        rest = (1.0 - check_real("coverage", coverage, 0, 1, closed="neither")) / 2.0
        return self.predict_quantiles(X, (rest, 1.0 - rest))
