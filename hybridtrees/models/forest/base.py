"""What the forests share: all but the target."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import scipy.sparse

from hybridtrees._parameters import check_real
from hybridtrees._persistence import register
from hybridtrees.base import Estimator, atomic_fit
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.tree.packed import PackedTrees
from hybridtrees.core.tree.paths import decision_path
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.metrics import Metric, callable_metric, get_metric
from hybridtrees.models.cart.base import CARTModel
from hybridtrees.models.forest.growing import (
    ForestFit,
    OutOfBag,
    digest,
    drawable_weight,
    in_c_order,
    of_classes,
)
from hybridtrees.models.forest.reporting import ForestReading
from hybridtrees.models.forest.warm_start import (
    check_kept_rows,
    check_same_growth,
    continue_oob,
    grown_with,
    target_digest,
)
from hybridtrees.models.shared.bagging import (
    MOST_TREES,
    BaggingPlan,
    BaggingResult,
    Sampler,
    bag,
    check_bagging,
)
from hybridtrees.models.shared.tree_parameters import Recipe

register(PackedTrees)

# Training rows of the leaves are kept by themselves while they take no more than this.
KEPT_BYTES = 2**28

# Parameters that a forest hands on to its trees.
_TREE_PARAMETERS = (
    "criterion",
    "splitter",
    "max_depth",
    "min_samples_split",
    "min_samples_leaf",
    "min_weight_fraction_leaf",
    "max_features",
    "max_leaf_nodes",
    "min_impurity_decrease",
    "ccp_alpha",
    "monotonic_cst",
    "missing",
    "categorical_features",
    "max_bins",
    "verbose",
)

_OOB_STATE = ("_oob_sums", "_oob_counts", "_oob_metric")
OOB_NAMES = ("oob_score_", "oob_curve_", "oob_prediction_", "oob_decision_function_", *_OOB_STATE)


class ForestModel(ForestReading, Estimator):
    """What the regressor and the classifier share: everything but the target."""

    _tree_class: type[CARTModel]
    _default_metric: str
    _target_names: tuple[str, ...] = ("n_outputs_",)
    _metric_names: tuple[str, ...] = ()

    n_estimators: int | str
    ccp_alpha: float
    max_samples: int | float | None
    bootstrap: bool
    oob_score: Any
    keep_rows: bool | str
    warm_start: bool
    random_state: Any
    n_jobs: int | None
    verbose: int
    categorical_features: Any

    # -- what the two differ in -----------------------------------------------------------------

    def _votes(self) -> bool:
        return False

    def _n_classes(self) -> int:
        return 0

    def _class_factor(
        self, tree: CARTModel, target: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray] | None:
        return None

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
        tree = self._check_parameters()
        n_threads = effective_threads(self.n_jobs)
        earlier = self.__dict__.copy() if self.warm_start and "_trees" in self.__dict__ else None
        values = self._fit_features(X, categorical_features=self.categorical_features)
        target = self._read_target(tree, y, values.shape[0])
        weight = check_sample_weight(sample_weight, values.shape[0])
        seeds = self._root_seeds(earlier)
        n_trees, settle = self._n_trees(earlier)
        factor = self._class_factor(tree, target)
        sampler = self._sampler_for(values.shape[0], drawable_weight(factor, target, weight))
        self._grown_with = self._growth(tree, sampler, values, target)
        if earlier is not None:
            check_same_growth(earlier["_grown_with"], self._grown_with)
            check_kept_rows(self.keep_rows, earlier)
            if n_trees == 0:
                warnings.warn(
                    "Warm-start fitting without increasing n_estimators does not fit new trees.",
                    stacklevel=3,
                )
                if not self._asks_oob() or "oob_score_" in earlier:
                    return self
        watch_oob = settle or self._asks_oob()
        if watch_oob and not sampler.leaves_out:
            raise ValueError(
                f"{self._oob_purpose()} needs rows out of the bag: bootstrap=True, or max_samples "
                "below the number of rows"
            )
        fit = self._prepare(tree, values, target, sampler, factor, n_threads, watch_oob)
        oob = self._watch(fit, target, weight) if watch_oob else None
        curve = self._curve_so_far(oob, fit, earlier)
        first = 0 if earlier is None else len(self._trees)
        grain = 0.0 if oob is None else oob.grain
        plan = BaggingPlan(n_trees, settle, first, n_threads, self.verbose, grain)
        watch = None if oob is None else oob.add
        result = bag(fit.open_grower, fit.sampler, plan, seeds, watch, curve)
        if result.trees:
            self._keep(fit, result, earlier)
        self._keep_watched(oob, result, sampler)
        return self

    def _asks_oob(self) -> bool:
        """Whether `oob_score` is anything but False, be it Python's or NumPy's."""
        return not isinstance(self.oob_score, bool | np.bool_) or bool(self.oob_score)

    def _oob_purpose(self) -> str:
        """Return what rows out of the bag are needed for, for messages."""
        return "oob_score" if self._asks_oob() else "n_estimators='auto'"

    def _growth(
        self, tree: CARTModel, sampler: Sampler, values: Any, target: np.ndarray
    ) -> dict[str, Any]:
        """Return what the trees depend on: a fit that adds trees must have the same."""
        others = {"ccp_alpha": float(self.ccp_alpha), **self._more_growth()}
        recipe = self._recipe_for(tree, sampler)
        return grown_with(
            recipe, sampler, values, self._reader, self._target_digest(target), others
        )

    def _more_growth(self) -> dict[str, Any]:
        return {}

    def _target_digest(self, target: np.ndarray) -> int:
        return target_digest(target, vars(self).get("classes_"))

    def _check_parameters(self) -> CARTModel:
        """Check all that can be checked without the data; returns the estimator of a tree."""
        check_bagging(self.n_estimators, self.bootstrap, self.max_samples, self.warm_start)
        check_real("ccp_alpha", self.ccp_alpha, 0)
        auto = isinstance(self.keep_rows, str) and self.keep_rows == "auto"
        if not auto and not isinstance(self.keep_rows, bool | np.bool_):
            raise ValueError(f"keep_rows must be True, False or 'auto', got {self.keep_rows!r}")
        self._metric()
        params = {name: getattr(self, name) for name in _TREE_PARAMETERS}
        tree = self._tree_class(**params)
        tree._check_parameters()
        return tree

    def _metric(self) -> Metric:
        """Metric of the out-of-bag curve."""
        if isinstance(self.oob_score, bool | np.bool_):
            return get_metric(self._default_metric)
        if isinstance(self.oob_score, str):
            names = self._metric_names
            if self.oob_score.partition("@")[0] not in names:
                raise ValueError(
                    f"oob_score must be True, False, a function or one of {', '.join(names)}, "
                    f"got {self.oob_score!r}"
                )
            return get_metric(self.oob_score)
        if callable(self.oob_score):
            metric = callable_metric(self.oob_score)
            return of_classes(metric) if self._estimator_type == "classifier" else metric
        raise TypeError(
            f"oob_score must be True, False, a function or a name, got {self.oob_score!r}"
        )

    def _read_target(self, tree: CARTModel, y: Any, n_rows: int) -> np.ndarray:
        """Encode y as a tree does, and take over what it learns of it."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        tree._reader = self._reader
        tree.n_features_in_ = self.n_features_in_
        target = tree._encode_target(y, n_rows)
        for name in self._target_names:
            setattr(self, name, getattr(tree, name))
        return target

    def _root_seeds(self, earlier: dict | None) -> np.random.SeedSequence:
        if earlier is not None:
            entropy, key = earlier["_seed"]
            return np.random.SeedSequence(entropy, spawn_key=tuple(key))
        seeds = seed_sequence(self.random_state)
        entropy = seeds.entropy
        self._seed = (
            int(entropy) if isinstance(entropy, Integral) else [int(part) for part in entropy],
            [int(part) for part in seeds.spawn_key],
        )
        return seeds

    def _n_trees(self, earlier: dict | None) -> tuple[int, bool]:
        """Trees to grow, and whether to stop when the error has settled."""
        grown = 0 if earlier is None else len(earlier["_trees"])
        if self.n_estimators == "auto":
            return max(0, MOST_TREES - grown), True
        n_trees = int(self.n_estimators) - grown
        if n_trees < 0:
            raise ValueError(
                f"n_estimators must be at least {grown}, the number of trees there are, when "
                f"warm_start=True, got {self.n_estimators}"
            )
        return n_trees, False

    def _prepare(
        self,
        tree: CARTModel,
        values: Any,
        target: np.ndarray,
        sampler: Sampler,
        factor: Callable[[np.ndarray], np.ndarray] | None,
        n_threads: int,
        watch_oob: bool,
    ) -> ForestFit:
        """All that growers share."""
        if watch_oob:
            values = in_c_order(values)
        return ForestFit(
            self._recipe_for(tree, sampler),
            values,
            target,
            sampler,
            factor,
            float(self.ccp_alpha),
            watch_oob,
            self._keeps_rows(sampler),
            n_threads,
        )

    def _recipe_for(self, tree: CARTModel, sampler: Sampler) -> Recipe:
        """How trees are grown on these samples."""
        recipe = tree._recipe(1)
        # Between equal splits is drawn, lest the first features be preferred; but trees that all
        # see the same rows and features are to be the same.
        draws = sampler.leaves_out or recipe.max_features < self.n_features_in_
        return replace(recipe, random_ties=draws)

    def _sampler_for(self, n_rows: int, weight: np.ndarray | None) -> Sampler:
        n_used = n_rows if weight is None else int(np.count_nonzero(weight))
        if self.max_samples is None:
            n_drawn = n_used
        elif isinstance(self.max_samples, Integral):
            n_drawn = int(self.max_samples)
            if n_drawn > n_used and not self.bootstrap:
                raise ValueError(
                    f"max_samples must be at most {n_used}, the number of rows, with "
                    f"bootstrap=False, got {n_drawn}"
                )
        else:
            assert isinstance(self.max_samples, Real)
            n_drawn = max(1, round(float(self.max_samples) * n_used))
        if weight is not None:
            # Equal weights are none: the draws are to be the same.
            unit = weight[0] if self.bootstrap else 1.0
            weight = None if unit > 0 and np.all(weight == unit) else weight
        like = vars(self).get("_sampler") if self.warm_start else None
        return Sampler(n_rows, n_drawn, bool(self.bootstrap), weight, like)

    def _keeps_rows(self, sampler: Sampler) -> bool:
        if isinstance(self.keep_rows, bool | np.bool_):
            return bool(self.keep_rows)
        n_trees = MOST_TREES if self.n_estimators == "auto" else int(self.n_estimators)
        n_bytes = 4 * n_trees * min(sampler.n_drawn, sampler.n_rows)
        return self._n_classes() == 0 and n_bytes <= KEPT_BYTES

    def _watch(self, fit: ForestFit, target: np.ndarray, weight: np.ndarray | None) -> OutOfBag:
        n_classes = fit.recipe.n_classes
        n_values = (1 if n_classes == 2 else n_classes) if n_classes else target.shape[1]
        metric = self._metric()
        if metric.name == "error" and n_classes != 2:
            metric = get_metric("merror")
        return OutOfBag(target, weight, metric, n_values, n_classes, self._votes())

    def _curve_so_far(self, oob: OutOfBag | None, fit: ForestFit, earlier: dict | None) -> list:
        if oob is None or earlier is None:
            return []
        said = partial(earlier["_trees"].values_of, fit.values)
        return continue_oob(oob, earlier, fit.sampler, said)

    def _keep(self, fit: ForestFit, result: BaggingResult, earlier: dict | None) -> None:
        """Keep the trees, the importances and how the samples were drawn."""
        trees = PackedTrees(
            [tree.packed for tree in result.trees],
            self.n_features_in_,
            fit.recipe.criterion,
            fit.recipe.n_classes,
        )
        importance = np.array([tree.importance for tree in result.trees])
        moments = np.stack([importance.sum(axis=0), np.square(importance).sum(axis=0)])
        n_split = int(np.count_nonzero(importance.any(axis=1)))
        seeds = np.array(result.draw_seeds, dtype=np.uint64)
        rows = [tree.leaf_rows for tree in result.trees] if fit.keep_rows else None
        if earlier is not None:
            trees = earlier["_trees"].extended(trees)
            moments = moments + earlier["_importance_moments"]
            n_split += earlier["_n_split_trees"]
            seeds = np.concatenate([earlier["_draw_seeds"], seeds])
            rows = None if earlier["_leaf_rows"] is None or rows is None else rows
            if rows is not None:
                rows = [earlier["_leaf_rows"], *rows]
        self._trees = trees
        self._importance_moments, self._n_split_trees = moments, n_split
        self._draw_seeds = seeds
        self._sampler = fit.sampler
        self._leaf_rows = None if rows is None else np.concatenate(rows)
        self._train_target = None if rows is None else fit.target
        self._digest = digest(fit.values)
        self.max_features_ = fit.recipe.max_features
        self.n_estimators_ = len(trees)

    def _keep_watched(self, oob: OutOfBag | None, result: BaggingResult, sampler: Sampler) -> None:
        for name in OOB_NAMES:
            self.__dict__.pop(name, None)
        if oob is None:
            return
        if not np.all(oob.counts[slice(None) if sampler.weight is None else sampler.weight > 0]):
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

    # -- predict --------------------------------------------------------------------------------

    def _threads_for(self, n_rows: int) -> int:
        # A few rows are done before a second thread would have woken up.
        return 1 if n_rows < 64 else effective_threads(self.n_jobs)

    def _mean(self, X: Any) -> np.ndarray:
        """Mean over the trees, (n_rows, n_values)."""
        values = self._read_features(X)
        raw = np.zeros((values.shape[0], self._trees.n_values))
        n_threads = self._threads_for(values.shape[0])
        self._trees.add_raw(values, raw, n_threads, votes=self._votes())
        raw /= len(self._trees)
        return raw

    def _staged_means(self, X: Any) -> Iterator[np.ndarray]:
        values = self._read_features(X)
        raw = np.zeros((values.shape[0], self._trees.n_values))
        n_threads = self._threads_for(values.shape[0])
        for tree in range(len(self._trees)):
            self._trees.add_raw(values, raw, n_threads, tree, tree + 1, votes=self._votes())
            yield raw / (tree + 1)

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row in every tree.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        leaves : ndarray of int32, shape (n_rows, n_trees)
            Numbers of nodes. With ``missing="stop"`` a row may end at an inner node.
        """
        values = self._read_features(X)
        return self._trees.apply(values, self._threads_for(values.shape[0]))

    def decision_path(self, X: Any) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
        """Nodes that each row comes through, in all trees.

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

    @property
    def trees_(self) -> PackedTrees:
        """The trees; indexing gives a `Tree`, made anew each time."""
        self._check_is_fitted()
        return self._trees

    @property
    def feature_importances_(self) -> np.ndarray:
        """Impurity that the splits of each feature take off, summing to 1 (0 without splits)."""
        self._check_is_fitted()
        sums = self._importance_moments[0]
        total = sums.sum()
        return sums / total if total > 0 else sums

    @property
    def feature_importances_std_(self) -> np.ndarray:
        """Standard deviation of the importances over the trees that have splits."""
        self._check_is_fitted()
        n = max(1, self._n_split_trees)
        mean, square = self._importance_moments / n
        return np.sqrt(np.maximum(square - mean**2, 0.0))

    def summary(self) -> str:
        """Return a short account of the forest in words.

        Returns
        -------
        text : str
        """
        trees = self.trees_
        nodes = np.diff(trees.tree_start)
        lines = [
            f"{type(self).__name__}: {trees.criterion}, {self.splitter} splits",  # type: ignore[attr-defined]
            f"rows {self._sampler.n_rows}, features {self.n_features_in_}, {self._outputs()}",
            f"trees {len(trees)}, leaves of a tree: least {nodes.min() // 2 + 1}, mean "
            f"{(nodes.mean() + 1) / 2:.1f}, most {nodes.max() // 2 + 1}",
        ]
        if "oob_score_" in vars(self):
            lines.append(f"out-of-bag score {self.oob_score_:.6g}")
        return "\n".join(lines + self._importance_lines())

    def _outputs(self) -> str:
        raise AttributeError("the regressor and the classifier bring this")

    _importance_lines = CARTModel._importance_lines
