"""What forests of linear trees share: everything but the target."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from hybridtrees.base import atomic_fit
from hybridtrees.core.base.checks import check_arrays
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.metrics import Metric
from hybridtrees.models.forest.base import OOB_NAMES, ForestModel
from hybridtrees.models.forest.growing import OutOfBag, digest
from hybridtrees.models.forest.warm_start import check_same_growth, continue_oob, target_digest
from hybridtrees.models.linear_tree.base import LinearTreeParameters
from hybridtrees.models.shared.bagging import (
    BaggingPlan,
    BaggingResult,
    Sampler,
    bag,
    check_bagging,
)
from hybridtrees.models.shared.fitted_checks import check_ensemble, check_samples

# Parameters that trees, once grown, do not depend on.
_MAY_CHANGE = ("n_estimators", "oob_score", "n_jobs", "verbose", "warm_start", "random_state")

# Entries of a table below which trees are grown one after the other if leaves are iterated.
_SMALL_TABLE = 200_000


@dataclass
class BaggedTree:
    """A tree of the forest, and what it says of the rows that it has not seen.

    Attributes
    ----------
    tree : Tree
    importance : ndarray of shape (n_features,)
    oob_rows : ndarray of uint32 or None
    oob_values : ndarray of shape (n_oob, n_values) or None
    """

    tree: Tree
    importance: np.ndarray
    oob_rows: np.ndarray | None
    oob_values: np.ndarray | None


class LinearForestModel(LinearTreeParameters):
    """Bagged linear trees."""

    _default_metric: str
    _metric_names: tuple[str, ...] = ()
    _target_names: tuple[str, ...] = ()

    n_estimators: int | str
    max_samples: int | float | None
    bootstrap: bool
    oob_score: Any
    warm_start: bool
    random_state: Any
    n_jobs: int | None
    verbose: int
    categorical_features: Any

    # Samples, seeds, the number of trees and the metric are what they are in a random forest.
    _root_seeds = ForestModel._root_seeds
    _n_trees = ForestModel._n_trees
    _sampler_for = ForestModel._sampler_for
    _metric = ForestModel._metric

    # -- what the two differ in -----------------------------------------------------------------

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        raise AttributeError("the regressor and the classifier bring this")

    def _tree_values(self, trees: TreeEnsemble, values: Any, first: int = 0) -> np.ndarray:
        """Return what one tree says of rows: outputs, or probabilities."""
        raw = np.zeros((values.shape[0], trees.n_outputs))
        trees.add_raw(values, raw, 1, first, first + 1)
        return raw

    def _default_score(self, oob: OutOfBag) -> float:
        raise AttributeError("the regressor and the classifier bring this")

    def _keep_oob(self, oob: OutOfBag) -> None:
        raise AttributeError("the regressor and the classifier bring this")

    # -- fit ------------------------------------------------------------------------------------

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            NaN means missing. String and category columns of a data frame are categories.
        y : array-like of shape (n_rows,)
            In regression also of shape (n_rows, n_outputs).
        sample_weight : array-like of shape (n_rows,), optional
            Rows are drawn into bootstrap samples with probabilities proportional to their
            weights; without replacement, trees weigh them. Rows of weight zero are left out.

        Returns
        -------
        self : estimator
        """
        self._check_forest_parameters()
        n_threads = effective_threads(self.n_jobs)
        earlier = self.__dict__.copy() if self.warm_start and "_trees" in self.__dict__ else None
        features = self._fit_features(X, categorical_features=self.categorical_features)
        target = self._encode_target(y, features.shape[0])
        weight = check_sample_weight(sample_weight, features.shape[0])
        self._columns = self._read_columns()
        values = self._columns.expand(features)
        seeds = self._root_seeds(earlier)
        n_trees, settle = self._n_trees(earlier)
        self._grown_with = self._growth(values, target, weight)
        if earlier is not None:
            check_same_growth(earlier["_grown_with"], self._grown_with)
            if n_trees == 0:
                warnings.warn(
                    "Warm-start fitting without increasing n_estimators does not fit new trees.",
                    stacklevel=3,
                )
                if self.oob_score is False or "oob_score_" in earlier:
                    return self
        sampler = self._sampler_for(values.shape[0], weight)
        watch_oob = settle or self.oob_score is not False
        if watch_oob and not sampler.leaves_out:
            what = "n_estimators='auto'" if self.oob_score is False else "oob_score"
            raise ValueError(
                f"{what} needs rows out of the bag: bootstrap=True, or max_samples below the "
                "number of rows"
            )
        oob = self._watch(target, weight) if watch_oob else None
        curve = self._curve_so_far(oob, values, sampler, earlier)
        n_first = 0 if earlier is None else len(earlier["_trees"])
        plan = BaggingPlan(n_trees, settle, n_first, n_threads, self.verbose)
        result = self._grow(values, target, weight, sampler, plan, seeds, oob, curve)
        if result.trees:
            self._keep(values, sampler, result, earlier)
        self._keep_watched(oob, result)
        return self

    def _check_forest_parameters(self) -> None:
        check_bagging(self.n_estimators, self.bootstrap, self.max_samples, self.warm_start)
        self._metric()
        self._check_tree_parameters()

    def _grow(
        self,
        values: Any,
        target: np.ndarray,
        weight: np.ndarray | None,
        sampler: Sampler,
        plan: BaggingPlan,
        seeds: np.random.SeedSequence,
        oob: OutOfBag | None,
        curve: list[float],
    ) -> BaggingResult:
        from hybridtrees.linear.blas import sequential_blas
        from hybridtrees.models.linear_tree.growing import LinearTable, LinearTreeGrower

        with sequential_blas():
            recipe = self._recipe(plan.n_threads)
            if not recipe.squared and values.shape[0] * values.shape[1] < _SMALL_TABLE:
                # Iterated fits to few rows are mostly Python: two threads take longer than one.
                plan, recipe = replace(plan, n_threads=1), self._recipe(1)
            # Bins and units are those of the whole table, once for all trees.
            table = LinearTable(values, weight, recipe)

            def grow(grower: LinearTreeGrower, counts: np.ndarray, seed: int) -> BaggedTree:
                return self._grow_tree(grower, values, sampler, counts, seed, oob is not None)

            watch = None if oob is None else oob.add
            return bag(
                lambda: nullcontext(LinearTreeGrower(table, target)),
                grow, sampler, plan, seeds, watch, curve,
            )  # fmt: skip

    def _grow_tree(
        self,
        grower: Any,
        values: Any,
        sampler: Sampler,
        counts: np.ndarray,
        seed: int,
        watch_oob: bool,
    ) -> BaggedTree:
        """Grow a tree on a sample, given as the number of times that each row is in it."""
        from hybridtrees.models.linear_tree import leaves
        from hybridtrees.models.linear_tree.information import prune_by_information

        weight: np.ndarray | None = sampler.row_weight(counts)
        if sampler.weight is None and not sampler.leaves_out:
            weight = None
        grown, criterion = grower.grow(weight, seed), self._information()
        if criterion is not None:
            grown = prune_by_information(
                grown, grower, weight, criterion, resampled=sampler.replace
            )
        theta = leaves.smooth(grown, float(self.smoothing))
        # What a forest does not use: the models of inner nodes.
        theta[grown.grown.nodes["left"] >= 0, :, 1:] = 0.0
        tree = leaves.make_tree(
            grown,
            theta,
            grower.table,
            values,
            None if self._n_classes() else grower.target,
            str(self.extrapolate),
            float(self.bound_factor),
        )
        importance = np.zeros(self.n_features_in_)
        inner = tree.nodes["left"] >= 0
        np.add.at(importance, tree.nodes["feature"][inner], tree.nodes["gain"][inner])
        total = importance.sum()
        rows = predicted = None
        if watch_oob:
            rows = sampler.out_of_bag(counts)
            alone = TreeEnsemble([tree], values.shape[1], tree.values.shape[1])
            predicted = self._tree_values(alone, values[rows])
        return BaggedTree(tree, importance / total if total > 0 else importance, rows, predicted)

    def _watch(self, target: np.ndarray, weight: np.ndarray | None) -> OutOfBag:
        from hybridtrees.metrics import get_metric

        n_classes = self._n_classes()
        n_values = (1 if n_classes == 2 else n_classes) if n_classes else target.shape[1]
        metric: Metric = self._metric()
        if metric.name == "error" and n_classes != 2:
            metric = get_metric("merror")
        return OutOfBag(target, weight, metric, n_values, n_classes, False)

    def _curve_so_far(
        self, oob: OutOfBag | None, values: Any, sampler: Sampler, earlier: dict | None
    ) -> list[float]:
        if oob is None or earlier is None:
            return []

        def said(tree: int, rows: np.ndarray) -> np.ndarray:
            return self._tree_values(earlier["_trees"], values[rows], tree)

        return continue_oob(oob, earlier, sampler, said)

    def _growth(self, values: Any, target: np.ndarray, weight: np.ndarray | None) -> dict[str, Any]:
        """Return what the trees depend on, by which another fit is told from this one."""
        labels = [np.asarray(getattr(self, name)) for name in self._target_names]
        found = {
            "X": digest(values),
            "y": target_digest(target, labels[0] if labels else None),
            "sample_weight": None if weight is None else digest(weight),
        }
        for name, value in self.get_params().items():
            if name not in _MAY_CHANGE:
                found[name] = repr(np.asarray(value).tolist())
        return found

    def _keep(
        self, values: Any, sampler: Sampler, result: BaggingResult, earlier: dict | None
    ) -> None:
        trees = [made.tree for made in result.trees]
        importance = np.array([made.importance for made in result.trees])
        seeds = np.array(result.draw_seeds, dtype=np.uint64)
        if earlier is not None:
            old = earlier["_trees"]
            trees = [old[k] for k in range(len(old))] + trees
            importance = np.vstack([earlier["_tree_importances"], importance])
            seeds = np.concatenate([earlier["_draw_seeds"], seeds])
        n_outputs = trees[0].values.shape[1]
        self._trees = TreeEnsemble(trees, self._columns.n_columns, n_outputs)
        self._tree_importances = importance
        self._draw_seeds = seeds
        self._sampler = sampler
        self.n_estimators_ = len(trees)

    def _keep_watched(self, oob: OutOfBag | None, result: BaggingResult) -> None:
        for name in OOB_NAMES:
            self.__dict__.pop(name, None)
        if oob is None:
            return
        if not np.all(oob.counts[slice(None) if oob.weight is None else oob.weight > 0]):
            warnings.warn(
                "Some rows were in the sample of every tree and have no out-of-bag prediction: "
                "there are too few trees for a reliable estimate",
                UserWarning,
                stacklevel=4,
            )
        self.oob_curve_ = np.array(result.errors)
        default = isinstance(self.oob_score, bool | np.bool_)
        self.oob_score_ = self._default_score(oob) if default else oob.error()
        self._keep_oob(oob)
        if self.warm_start:
            self._oob_sums, self._oob_counts = oob.sums, oob.counts
            self._oob_metric = oob.metric.name

    def _check_fitted(self) -> None:
        columns, n_outputs = self._check_columns()
        trees = check_ensemble(self, "_trees", n_outputs, columns.n_columns)
        check_samples(self, len(trees))
        check_arrays(self, {"_tree_importances": ("f8", len(trees), "n_features")})

    # -- predict --------------------------------------------------------------------------------

    def _staged_means(self, X: Any) -> Iterator[np.ndarray]:
        values = self._table_of(X)
        total: np.ndarray | float = 0.0
        for k in range(len(self._trees)):
            total = total + self._tree_values(self._trees, values, k)
            yield total / (k + 1)

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row in every tree.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        leaves : ndarray of int32, shape (n_rows, n_trees)
        """
        values = self._table_of(X)
        return self._trees.apply(values, self._predict_threads(values.shape[0]))

    # -- reading the forest -----------------------------------------------------------------------

    @property
    def trees_(self) -> TreeEnsemble:
        """The trees; indexing gives a `Tree`."""
        self._check_is_fitted()
        return self._trees

    @property
    def feature_importances_(self) -> np.ndarray:
        """Loss that the splits of each feature take off, summing to 1 (0 without splits)."""
        self._check_is_fitted()
        sums = self._tree_importances.sum(axis=0)
        total = sums.sum()
        return sums / total if total > 0 else sums

    @property
    def feature_importances_std_(self) -> np.ndarray:
        """Standard deviation of the importances over the trees that have splits."""
        self._check_is_fitted()
        split = self._tree_importances.any(axis=1)
        if not split.any():
            return np.zeros(self._tree_importances.shape[1])
        return self._tree_importances[split].std(axis=0)

    def summary(self) -> str:
        """Return a short account of the forest in words.

        Returns
        -------
        text : str
        """
        trees = self.trees_
        leaves = [
            int(np.count_nonzero(tree.nodes["left"] < 0))
            for tree in map(trees.__getitem__, range(len(trees)))
        ]
        lines = [
            f"{type(self).__name__}: {self.criterion}",  # type: ignore[attr-defined]
            f"rows {self._sampler.n_rows}, features {self.n_features_in_}, "
            f"regressors {len(self._columns.linear)}",
            f"trees {len(trees)}, leaves of a tree: least {min(leaves)}, mean "
            f"{np.mean(leaves):.1f}, most {max(leaves)}",
        ]
        if "oob_score_" in vars(self):
            lines.append(f"out-of-bag score {self.oob_score_:.6g}")
        return "\n".join(lines)
