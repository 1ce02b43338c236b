"""The fit of a forest, whatever its trees are: samples, growth, out-of-bag errors, warm start."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, check_real
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.metrics import METRICS, Metric, accuracy_score, callable_metric, get_metric
from hybridtrees.models.shared.bagging import BaggingSettings, RowSampler, bag
from hybridtrees.models.shared.class_weights import drawable_weight
from hybridtrees.models.shared.forest.out_of_bag import (
    OutOfBag,
    most_probable,
    of_classes,
    two_columns,
)
from hybridtrees.models.shared.forest.warm_start import check_same_growth, continue_oob
from hybridtrees.models.shared.importance import shares
from hybridtrees.models.shared.targets import ClassTarget, RegressionTarget
from hybridtrees.models.shared.tree_models import TreeModel
from hybridtrees.models.shared.tree_parameters import GrowthParameters

# The maximum number of trees under n_estimators="auto".
MAX_TREES = 1000

_OOB_NAMES = (
    "oob_score_",
    "oob_curve_",
    "oob_prediction_",
    "oob_decision_function_",
    "_oob_sums",
    "_oob_counts",
    "_oob_metric",
)


class BaggingParameters(GrowthParameters):
    """Parameters of samples and of the number of trees."""

    _positional = ("n_estimators",)

    n_estimators: int | str = 100
    bootstrap: bool = True
    max_samples: int | float | None = None
    oob_score: Any = False
    warm_start: bool = False

    def _check_bagging(self) -> None:
        """Check all that can be checked without the data, except `oob_score`."""
        if not isinstance(self.n_estimators, str):
            check_integer("n_estimators", self.n_estimators, 1)
        elif self.n_estimators != "auto":
            raise ValueError(
                "n_estimators must be an integer of at least 1 or 'auto', got "
                f"{self.n_estimators!r}"
            )
        check_boolean("bootstrap", self.bootstrap)
        check_boolean("warm_start", self.warm_start)
        if isinstance(self.max_samples, Integral) and not isinstance(self.max_samples, bool):
            check_integer("max_samples", self.max_samples, 1)
        elif self.max_samples is not None:
            check_real("max_samples", self.max_samples, 0, 1, closed="right")

    def _asks_oob(self) -> bool:
        """Whether `oob_score` is anything but False, be it Python's or NumPy's."""
        return not isinstance(self.oob_score, bool | np.bool_) or bool(self.oob_score)

    def _oob_purpose(self) -> str:
        """Return what rows out of the bag are needed for, for messages."""
        return "oob_score" if self._asks_oob() else "n_estimators='auto'"

    def _n_trees(self, n_grown: int) -> tuple[int, bool]:
        """Trees to grow, and whether to stop when the error has settled."""
        if self.n_estimators == "auto":
            return max(0, MAX_TREES - n_grown), True
        n_trees = int(self.n_estimators) - n_grown
        if n_trees < 0:
            raise ValueError(
                f"n_estimators must be at least {n_grown}, the number of trees there are, when "
                f"warm_start=True, got {self.n_estimators}"
            )
        return n_trees, False

    def _make_sampler(self, n_rows: int, weight: np.ndarray | None) -> RowSampler:
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
            n_drawn = max(1, round(float(self.max_samples) * n_used))
        if weight is not None:
            # Equal weights are none: the draws are to be the same.
            unit = weight[0] if self.bootstrap else 1.0
            weight = None if unit > 0 and np.all(weight == unit) else weight
        like = vars(self).get("_sampler") if self.warm_start else None
        return RowSampler(n_rows, n_drawn, bool(self.bootstrap), weight, like)


@dataclass
class ForestData:
    """What a fit is given, read and checked."""

    table: Any  # what trees are grown on
    target: np.ndarray  # (n_rows, n_outputs), or int32 class codes
    weight: np.ndarray | None
    factor: Callable[[np.ndarray], np.ndarray] | None  # sample counts -> factors on row weights
    sampler: RowSampler
    leaves_out: bool  # whether samples leave rows out
    n_threads: int


class Forest(TreeModel, BaggingParameters):
    """Bagged trees: everything but the target, and the hooks below, which a family brings."""

    _few_rows = 64
    _default_metric: str
    _metric_names: tuple[str, ...] = ()

    # -- what families bring --------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Check all that can be checked without the data."""
        self._check_bagging()
        self._check_tree_parameters()
        if self._asks_oob():
            self._metric()

    def _fit_table(self, X: Any) -> Any:
        """Learn the features of `X` and return the table that trees are grown on."""
        return self._fit_features(X, categorical_features=self.categorical_features)

    def _n_classes(self) -> int:
        """Return the number of classes, 0 in regression."""
        raise NotImplementedError

    def _class_factor(self, target: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return what makes factors on the weights of rows from the counts of a sample."""
        return None

    def _votes(self) -> bool:
        """Whether trees vote for a class, instead of giving probabilities."""
        return False

    def _growing_threads(self, table: Any) -> int:
        return effective_threads(self.n_jobs)

    def _make_recipe(self, data: ForestData) -> Any:
        """Return how trees are grown."""
        raise NotImplementedError

    def _growth(self, recipe: Any, data: ForestData) -> dict[str, Any]:
        """Return what the trees depend on: a fit that adds trees must have the same."""
        raise NotImplementedError

    def _prepare(self, recipe: Any, data: ForestData, needs_oob: bool) -> Any:
        """Return what the growers share, with `open_grower`, `grow` and the table as `values`."""
        raise NotImplementedError

    def _keep_trees(self, fit: Any, grown: list[Any], earlier: dict[str, Any] | None) -> None:
        """Keep trees as `_trees`, after those of the earlier fit."""
        raise NotImplementedError

    def _add_trees(
        self, trees: Any, table: Any, raw: np.ndarray, n_threads: int, first: int, last: int
    ) -> None:
        """Add the predictions of the trees from one number to another."""
        trees.add_raw(table, raw, n_threads, first, last)

    def _predict_tree(self, trees: Any, table: Any, tree: int, rows: np.ndarray) -> np.ndarray:
        """Predictions of one tree for some rows, (n_rows, n_values)."""
        raw = np.zeros((len(rows), self._n_values()))
        self._add_trees(trees, table[rows], raw, 1, tree, tree + 1)
        return raw

    def _importances(self) -> tuple[np.ndarray, np.ndarray]:
        """Return sums of the importances over the trees, and their standard deviation."""
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
        data = self._read_data(X, y, sample_weight)
        recipe = self._make_recipe(data)
        n_first = 0 if earlier is None else len(earlier["_trees"])
        n_trees, settle = self._n_trees(n_first)
        asks_oob = self._asks_oob()
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
                f"{self._oob_purpose()} needs rows out of the bag: bootstrap=True, or max_samples "
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
        """Read and check what a fit is given."""
        table = self._fit_table(X)
        n_rows = table.shape[0]
        target = self._encode_target(y, n_rows)
        weight = check_sample_weight(sample_weight, n_rows)
        n_threads = self._growing_threads(table)
        factor = self._class_factor(target)
        drawn = weight if factor is None else drawable_weight(factor, target, weight)
        sampler = self._make_sampler(n_rows, drawn)
        return ForestData(table, target, weight, factor, sampler, sampler.leaves_out, n_threads)

    def _check_kept(self, earlier: dict[str, Any]) -> None:
        """Refuse to add trees with more kept of them than of those that there are."""

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

    def _root_seeds(self, earlier: dict[str, Any] | None) -> np.random.SeedSequence:
        if earlier is not None:
            entropy, key = earlier["_seed"]
            return np.random.SeedSequence(entropy, spawn_key=tuple(key))
        seeds = seed_sequence(self.random_state)
        entropy = seeds.entropy
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
        """Keep the out-of-bag predictions and their error, and what a warm start continues."""
        for name in _OOB_NAMES:
            self.__dict__.pop(name, None)
        if oob is None:
            return
        if not np.all(oob.counts[slice(None) if sampler.weight is None else sampler.weight > 0]):
            warnings.warn(
                "Some rows were in the sample of every tree and have no out-of-bag prediction: "
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
        """Numbers that a tree predicts: of two classes, for the second alone."""
        n_classes = self._n_classes()
        return (1 if n_classes == 2 else n_classes) if n_classes else self.n_outputs_

    def _predict_values(self, X: Any) -> np.ndarray:
        """Mean over the trees, (n_rows, n_values)."""
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
        """Return predictions as `predict` gives them, from means over trees."""
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
    def feature_importances_(self) -> np.ndarray:
        """Loss that the splits of each feature take off, summing to 1 (0 without splits)."""
        self._check_is_fitted()
        return shares(self._importances()[0])

    @property
    def feature_importances_std_(self) -> np.ndarray:
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
    """The target of a forest for regression. Stands before the family among the bases."""

    _default_metric = "mse"

    def _default_score(self, oob: OutOfBag) -> float:
        return oob.error(METRICS["r2"])

    def _keep_oob(self, oob: OutOfBag) -> None:
        self.oob_prediction_ = self._squeeze(oob.prediction())

    def _finish(self, mean: np.ndarray) -> np.ndarray:
        return self._squeeze(mean)


class ClassificationForest(ClassTarget):
    """The target of a forest for classification. Stands before the family among the bases."""

    _default_metric = "error"
    _metric_names = ("error", "merror", "logloss", "mlogloss", "brier", "auc", "aucpr")

    def _default_score(self, oob: OutOfBag) -> float:
        target, mean, weight = oob.score_input()
        if not len(target):
            return float("nan")
        return accuracy_score(target, most_probable(mean), sample_weight=weight)

    def _keep_oob(self, oob: OutOfBag) -> None:
        self.oob_decision_function_ = oob.prediction()

    def _by_class(self, mean: np.ndarray) -> np.ndarray:
        """Probabilities of all classes; trees know only the second of two."""
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
        return self.classes_[self._by_class(mean).argmax(axis=1)]
