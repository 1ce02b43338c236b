"""The fit that all forests share: samples, growth, out-of-bag errors, warm start."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from hybridtrees.base import ClassifierMixin
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.input.class_weights import drawable_weight
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.metrics import METRICS, Metric, accuracy_score, callable_metric, get_metric
from hybridtrees.models.shared.bagging import BaggingSettings, RowSampler, bag
from hybridtrees.models.shared.forest.out_of_bag import (
    OutOfBag,
    most_probable,
    of_classes,
    two_columns,
)
from hybridtrees.models.shared.forest.parameters import BaggingParameters
from hybridtrees.models.shared.forest.warm_start import check_same_growth, continue_oob
from hybridtrees.models.shared.importance import shares
from hybridtrees.models.shared.targets import ClassTarget, RegressionTarget
from hybridtrees.models.shared.tree_models import TreeModel

_OOB_NAMES = (
    "oob_score_", "oob_curve_", "oob_prediction_", "oob_decision_function_", "_oob_sums",
    "_oob_counts", "_oob_metric",
)  # fmt: skip


@dataclass
class ForestData:
    """The validated input of a fit."""

    table: Any  # what trees are grown on
    target: np.ndarray  # (n_rows, n_outputs), or int32 class codes
    weight: np.ndarray | None
    factor: Callable[[np.ndarray], np.ndarray] | None  # sample counts -> class weights of rows
    sampler: RowSampler
    leaves_out: bool  # whether samples leave rows out
    n_threads: int


class Forest(TreeModel, BaggingParameters):
    """Bagged trees without the target; a family implements the hooks below.

    Attributes
    ----------
    trees_ : sequence of Tree
        The trees.
    n_estimators_ : int
        Number of trees.
    oob_score_ : float
        With `oob_score`: the out-of-bag score.
    oob_curve_ : ndarray of shape (n_trees,)
        Out-of-bag error after each tree, with `oob_score` or ``n_estimators="auto"``: mean squared
        error, error rate of a classifier, or the metric of `oob_score`.
    feature_importances_, feature_importances_std_ : ndarray of shape (n_features,)
        Mean decrease in impurity by the splits on each feature, and its standard deviation over the
        trees. It is biased towards features with many values.
    """

    _few_rows = 64
    _default_metric: ClassVar[str]
    _metric_names: ClassVar[tuple[str, ...]] = ()

    # -- hooks for families ---------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Check what can be checked without the data."""
        self._check_bagging()
        self._check_tree_parameters()
        if self._scores_oob():
            self._metric()

    def _make_table(self, values: Any) -> Any:
        """Return the table that trees are grown on."""
        return values

    def _n_classes(self) -> int:
        """Return the number of classes, 0 in regression."""
        raise NotImplementedError

    def _class_factor(self, target: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return the function from sample counts to class weights of rows, None without any."""
        return None

    def _votes(self) -> bool:
        """Whether trees vote for a class, instead of averaging probabilities."""
        return False

    def _growing_threads(self, table: Any) -> int:
        return effective_threads(self.n_jobs)

    def _make_recipe(self, data: ForestData) -> Any:
        """Return how trees are grown."""
        raise NotImplementedError

    def _growth(self, recipe: Any, data: ForestData) -> dict[str, Any]:
        """Return what the trees depend on; a warm start refuses to change any of it."""
        raise NotImplementedError

    def _prepare(self, recipe: Any, data: ForestData, needs_oob: bool) -> Any:
        """Return an object with `open_grower`, `grow` and the table as `values`; see `bag`."""
        raise NotImplementedError

    def _keep_trees(self, fit: Any, grown: list[Any], earlier: dict[str, Any] | None) -> None:
        """Keep the trees as `_trees`, after those of an earlier fit."""
        raise NotImplementedError

    def _add_trees(
        self, trees: Any, table: Any, raw: np.ndarray, n_threads: int, first: int, last: int
    ) -> None:
        """Add the predictions of the trees [first, last) to `raw`."""
        trees.add_raw(table, raw, n_threads, first, last)

    def _predict_tree(self, trees: Any, table: Any, tree: int, rows: np.ndarray) -> np.ndarray:
        """Return the predictions of one tree for some rows, (n_rows, n_values)."""
        raw = np.zeros((len(rows), self._n_values()))
        self._add_trees(trees, table[rows], raw, 1, tree, tree + 1)
        return raw

    def _importances(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the importances summed over the trees, and their standard deviations."""
        raise NotImplementedError

    def _default_score(self, oob: OutOfBag) -> float:
        raise NotImplementedError

    def _keep_oob(self, oob: OutOfBag) -> None:
        raise NotImplementedError

    # -- fit ------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Grow the forest."""
        self._check_parameters()
        earlier = self.__dict__.copy() if self.warm_start and "_trees" in self.__dict__ else None
        n_first = 0 if earlier is None else len(earlier["_trees"])
        n_trees, settle = self._n_trees(n_first)
        asks_oob = self._asks_oob()
        data = self._read_data(X, y, sample_weight)
        recipe = self._make_recipe(data)
        seeds = self._root_seeds(earlier)
        self._grown_with = self._growth(recipe, data)
        if earlier is not None:
            check_same_growth(earlier["_grown_with"], self._grown_with)
            self._check_kept(earlier)
            if n_trees == 0:
                warnings.warn(
                    "Warm-start fitting without increasing n_estimators does not fit new trees.",
                    stacklevel=4,
                )
                if not asks_oob or "oob_score_" in earlier:
                    return
        needs_oob = settle or asks_oob
        if needs_oob and not data.leaves_out:
            raise ValueError(
                f"{self._oob_purpose()} needs out-of-bag rows: set bootstrap=True, or max_samples "
                "below the number of rows"
            )
        fit = self._prepare(recipe, data, needs_oob)
        oob = self._open_oob(data.target, data.weight) if needs_oob else None
        curve: list[float] = []
        if oob is not None and earlier is not None:
            predict = partial(self._predict_tree, earlier["_trees"], fit.values)
            curve = continue_oob(oob, earlier, data.sampler, predict)
        grain = 0.0 if oob is None else oob.grain
        settings = BaggingSettings(n_trees, settle, n_first, data.n_threads, self.verbose, grain)
        add = None if oob is None else oob.add
        result = bag(fit.open_grower, fit.grow, data.sampler, settings, seeds, add, curve)
        if result.trees:
            self._keep_trees(fit, result.trees, earlier)
            self._sampler = data.sampler
            own = np.array(result.draw_seeds, dtype=np.uint64)
            self._draw_seeds = np.append(earlier["_draw_seeds"], own) if earlier else own
            self.n_estimators_ = len(self._draw_seeds)
        self._keep_errors(oob, result.errors, data.sampler)

    def _read_data(self, X: Any, y: Any, sample_weight: Any) -> ForestData:
        """Validate the input of a fit."""
        values = self._fit_features(X, categorical_features=self.categorical_features)
        n_rows = values.shape[0]
        target = self._encode_target(y, n_rows)
        weight = self._weigh_classes(target, check_sample_weight(sample_weight, n_rows))
        table = self._make_table(self._order_categories(values, target, weight))
        factor = self._class_factor(target)
        n_threads = self._growing_threads(table)
        drawn = weight if factor is None else drawable_weight(factor, target, weight)
        sampler = self._make_sampler(n_rows, drawn)
        return ForestData(table, target, weight, factor, sampler, sampler.leaves_out, n_threads)

    def _check_kept(self, earlier: dict[str, Any]) -> None:
        """Refuse a warm start that needs data which the earlier fit did not keep."""

    def _metric(self) -> Metric:
        """Return the metric of the out-of-bag curve."""
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
            return of_classes(metric) if isinstance(self, ClassifierMixin) else metric
        raise TypeError(
            f"oob_score must be True, False, a function or a name, got {self.oob_score!r}"
        )

    def _root_seeds(self, earlier: dict[str, Any] | None) -> np.random.SeedSequence:
        if earlier is not None:
            entropy, key = earlier["_seed"]
            return np.random.SeedSequence(entropy, spawn_key=tuple(key))
        seeds = seed_sequence(self.random_state)
        entropy = cast(Any, seeds.entropy)  # a number or several
        self._seed = (
            int(entropy) if isinstance(entropy, Integral) else list(map(int, entropy)),
            list(map(int, seeds.spawn_key)),
        )
        return seeds

    def _open_oob(self, target: np.ndarray, weight: np.ndarray | None) -> OutOfBag:
        n_classes, metric = self._n_classes(), self._metric()
        if metric.name == "error" and n_classes != 2:
            metric = get_metric("merror")
        return OutOfBag(target, weight, metric, self._n_values(), n_classes, self._votes())

    def _keep_errors(self, oob: OutOfBag | None, curve: list[float], sampler: RowSampler) -> None:
        """Keep the out-of-bag predictions and errors, and what a warm start needs to continue."""
        for name in _OOB_NAMES:
            self.__dict__.pop(name, None)
        if oob is None:
            return
        if not np.all(oob.counts[slice(None) if sampler.weight is None else sampler.weight > 0]):
            warnings.warn(
                "Some rows are in the sample of every tree and have no out-of-bag prediction: "
                "there are too few trees for a reliable estimate",
                UserWarning,
                stacklevel=5,
            )
        self.oob_curve_ = np.array(curve)
        default = isinstance(self.oob_score, bool | np.bool_)
        self.oob_score_ = self._default_score(oob) if default else oob.error()
        self._keep_oob(oob)
        if self.warm_start:
            self._oob_sums, self._oob_counts = oob.sums, oob.counts
            self._oob_metric = oob.metric.name

    # -- predict --------------------------------------------------------------------------------

    def _n_values(self) -> int:
        """Return how many numbers a tree predicts; of two classes, one for the second."""
        n_classes = self._n_classes()
        return (1 if n_classes == 2 else n_classes) if n_classes else self.n_outputs_

    def _predict_values(self, X: Any) -> np.ndarray:
        """Return the mean over the trees, (n_rows, n_values)."""
        table, trees = self._read_table(X), self._trees
        raw = np.zeros((table.shape[0], self._n_values()))
        self._add_trees(trees, table, raw, self._predict_threads(len(raw)), 0, len(trees))
        raw /= len(trees)
        return raw

    def _staged_values(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the means over the first tree, the first two, and so on."""
        table, trees = self._read_table(X), self._trees
        raw = np.zeros((table.shape[0], self._n_values()))
        n_threads = self._predict_threads(len(raw))
        for tree in range(len(trees)):
            self._add_trees(trees, table, raw, n_threads, tree, tree + 1)
            yield raw / (tree + 1)

    def _finish(self, mean: np.ndarray) -> np.ndarray:
        """Turn means over the trees into what `predict` returns."""
        raise NotImplementedError

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predictions of the first tree, the first two, and so on.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        prediction : ndarray
            As from `predict`.
        """
        for mean in self._staged_values(X):
            yield self._finish(mean)

    # -- reading the forest ---------------------------------------------------------------------

    @property
    def trees_(self) -> Any:
        """The trees; indexing gives a `Tree`, made anew each time."""
        self._check_is_fitted()
        return self._trees

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Decrease in loss by the splits on each feature, normalised to a sum of 1."""
        self._check_is_fitted()
        return shares(self._importances()[0])

    @property
    def feature_importances_std_(self) -> NDArray[np.float64]:
        """Standard deviation of the importances over the trees that have splits."""
        self._check_is_fitted()
        return self._importances()[1]

    def _summary_lines(self, splits: str, columns: str, n_leaves: np.ndarray) -> list[str]:
        lines = [
            f"{type(self).__name__}: {splits}",
            f"rows {self._sampler.n_rows}, features {self.n_features_in_}, {columns}",
            f"trees {len(n_leaves)}, leaves of a tree: min {n_leaves.min()}, mean "
            f"{n_leaves.mean():.1f}, max {n_leaves.max()}",
        ]
        if "oob_score_" in vars(self):
            lines.append(f"out-of-bag score {self.oob_score_:.6g}")
        return lines


class RegressionForest(RegressionTarget):
    """The target of a forest for regression; goes before the family among the bases.

    Attributes
    ----------
    oob_prediction_ : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        With `oob_score`: mean prediction of the trees that a row is out of bag for, NaN if there
        are none.
    """

    _has_oob = True
    _default_metric = "mse"

    def _default_score(self, oob: OutOfBag) -> float:
        return oob.error(METRICS["r2"])

    def _keep_oob(self, oob: OutOfBag) -> None:
        self.oob_prediction_ = self._squeeze(oob.prediction())

    def _finish(self, mean: np.ndarray) -> np.ndarray:
        return self._squeeze(mean)


class ClassificationForest(ClassTarget):
    """The target of a forest for classification; goes before the family among the bases.

    Parameters
    ----------
    oob_score : bool, str or callable
        Whether to compute the out-of-bag score: True for the accuracy, or the name of a metric, or
        a function of (y, predicted classes), both as indices into `classes_`.

    Attributes
    ----------
    oob_decision_function_ : ndarray of shape (n_rows, n_classes)
        With `oob_score`: probabilities (or shares of votes) by the trees that a row is out of bag
        for.
    """

    _has_oob = True
    _default_metric = "error"
    _metric_names: ClassVar[tuple[str, ...]] = (
        "error", "merror", "logloss", "mlogloss", "brier", "auc", "aucpr",
    )  # fmt: skip

    def _default_score(self, oob: OutOfBag) -> float:
        target, mean, weight = oob.score_input()
        if not len(target):
            return float("nan")
        return accuracy_score(target, most_probable(mean), sample_weight=weight)

    def _keep_oob(self, oob: OutOfBag) -> None:
        self.oob_decision_function_ = oob.prediction()

    def _by_class(self, mean: np.ndarray) -> np.ndarray:
        """Return the probabilities of all classes; of two, trees predict only the second."""
        if self.n_classes_ == 1:
            return np.ones((len(mean), 1))
        return two_columns(mean) if self.n_classes_ == 2 else mean

    def _probabilities(self, X: Any) -> np.ndarray:
        return self._by_class(self._predict_values(X))  # type: ignore[attr-defined]

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the probabilities by the first tree, the first two, and so on.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        proba : ndarray of shape (n_rows, n_classes)
        """
        for mean in self._staged_values(X):  # type: ignore[attr-defined]
            yield self._by_class(mean)

    def _finish(self, mean: np.ndarray) -> np.ndarray:
        return np.asarray(self.classes_[self._by_class(mean).argmax(axis=1)])
