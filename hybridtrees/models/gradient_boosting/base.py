"""Fit of gradient boosting, without the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from hybridtrees._parameters import (
    attribute,
    check_boolean,
    check_integer,
    check_option,
    check_real,
)
from hybridtrees.base import atomic_fit
from hybridtrees.core.base.exact_sum import exact_sum
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import table_threads
from hybridtrees.core.bins.binned_table import BinnedTable
from hybridtrees.core.grow.grower import Grower, MeanLeaves, NewtonLeaves
from hybridtrees.core.grow.table import MIN_RANGE, Table
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.losses import Loss
from hybridtrees.metrics import Metric
from hybridtrees.models.gradient_boosting.prediction import FittedGB
from hybridtrees.models.gradient_boosting.start import check_init, fit_init, take_rows
from hybridtrees.models.gradient_boosting.watchers import (
    LossCurves,
    LossEvaluation,
    Monitor,
    NoChange,
    read_loss_metrics,
)
from hybridtrees.models.shared.binned_fit import check_bins, refuse_bins
from hybridtrees.models.shared.boosting import EvalSet, Training, Watcher, boost, draw_share
from hybridtrees.models.shared.boosting_evaluation import EvalMetric, read_eval_sets
from hybridtrees.models.shared.boosting_steps import FriedmanSteps
from hybridtrees.models.shared.constraints import read_interactions, read_monotonic
from hybridtrees.models.shared.tree_parameters import TreeParameters, count_features
from hybridtrees.models.shared.watchers import Progress

CRITERIA = ("friedman_mse", "squared_error")
SPLITTERS = ("auto", "exact", "hist")

# Fitted attributes that exist only for some arguments of `fit`.
OPTIONAL = (
    "oob_scores_", "oob_score_", "oob_improvement_", "evals_result_", "validation_scores_",
    "best_iteration_", "best_score_",
)  # fmt: skip

# Rows above which "auto" means "hist".
MAX_EXACT_ROWS = 10_000


@dataclass
class Part:
    """Some rows of the training data: as read, and as the user passed them (`X`)."""

    values: Any
    y: np.ndarray
    weight: np.ndarray | None
    X: Any

    def take(self, rows: np.ndarray) -> Part:
        """Return some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        values = self.values.tocsr()[rows] if hasattr(self.values, "tocsr") else self.values[rows]
        return Part(values, self.y[rows], weight, take_rows(self.X, rows))


class Watch(NamedTuple):
    """The watchers that keep the curves, in order; the last two only with validation tables."""

    curves: LossCurves
    evaluation: LossEvaluation | None = None
    stopping: NoChange | None = None

    def latest(self) -> list[str]:
        """Return the figures of the latest round as short texts."""
        scores = [] if self.evaluation is None else self.evaluation.latest()
        return [*self.curves.latest(), *scores]


class GradientBoostingModel(FittedGB, TreeParameters):
    """Friedman's gradient boosting, without the target.

    Parameters
    ----------
    learning_rate : float
        Factor on every tree.
    n_estimators : int
        Number of boosting rounds.
    subsample : float
        Share of the rows drawn for each round, without replacement.
    criterion : {"friedman_mse", "squared_error"}
        Both stand for the squared error of the residuals: their splits are the same.
    ccp_alpha : float
        Complexity parameter of minimal cost-complexity pruning of every tree, per row: a leaf must
        lower the weighted mean squared error of the residuals by this much.
    random_state : int, Generator, RandomState or None
        Seed of the rows and features drawn, and, in a classifier with exact splits, of the feature
        that is taken where several split equally well. If only that is drawn, every fit without a
        seed is the same. The same seed gives the same model for any `n_jobs`.
    verbose : int
        Print a line every `verbose` rounds, with elapsed and remaining time.
    warm_start : bool
        Whether `fit` adds rounds to the fitted ones, up to `n_estimators`.
    validation_fraction : float
        Share of the rows held out with `n_iter_no_change`, if `fit` gets no validation table; of
        classes stratified.
    n_iter_no_change : int or None
        Stop when the last metric on the last validation table has not improved on any of the
        previous `n_iter_no_change` rounds. Predictions then use the rounds up to the best one;
        scikit-learn uses all.
    tol : float
        Minimum improvement.
    splitter : {"auto", "exact", "hist"}
        Search every threshold, or those between at most `max_bins` bins of each feature, which is
        faster; "auto" uses bins above 10,000 rows. Under "exact" a feature whose values range over
        no more than 1e-7 counts as constant, like in scikit-learn.
    monotonic_cst : array-like, dict or None
        1 if the prediction may only increase with a feature, in classification the probability of
        the second of two classes, -1 if it may only decrease, else 0: one entry per feature, or a
        dict by name or index. It does not apply to `init`.
    interaction_cst : {"pairwise", "no_interactions"}, sequence of sequences or None
        Groups of features, by name or index, that may be split on along one path; the features in
        no group form one more. "pairwise" allows any two. At most 63 groups.
    cat_smooth : float
        So many rows with the mean of the node are added to each category when categories are
        ordered by their mean response. Like `min_data_per_group`, it is for features of more than
        four categories.
    min_data_per_group : int
        Minimum number of rows between two cuts in that order: neighbours are taken together. A
        twentieth of the table if that is less.
    """

    _dialects: ClassVar[tuple[str, ...]] = ("scikit-learn boosting",)

    n_estimators_: int = attribute()
    _seeds: dict[str, Any] = attribute()

    loss: str = attribute()
    learning_rate: float = 0.1
    n_estimators: int = 100
    subsample: float = 1.0
    criterion: Literal["friedman_mse", "squared_error"] = "friedman_mse"
    ccp_alpha: float = 0.0
    max_depth: int | None = 3
    init: Any = None
    warm_start: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int | None = None
    tol: float = 1e-4
    splitter: Literal["auto", "exact", "hist"] = "auto"
    interaction_cst: Any = None
    cat_smooth: float = 10.0
    min_data_per_group: int = 100
    eval_metric: EvalMetric = None

    def _check_parameters(self) -> None:
        """Check what can be checked without the data."""
        check_option("criterion", self.criterion, CRITERIA)
        check_option("splitter", self.splitter, SPLITTERS)
        check_real("learning_rate", self.learning_rate, 0)
        check_integer("n_estimators", self.n_estimators, 1)
        check_real("subsample", self.subsample, 0, 1, closed="right")
        check_boolean("warm_start", self.warm_start)
        check_real("validation_fraction", self.validation_fraction, 0, 1, closed="neither")
        check_integer("n_iter_no_change", self.n_iter_no_change, 1, allow_none=True)
        check_real("tol", self.tol, 0)
        check_real("ccp_alpha", self.ccp_alpha, 0)
        check_real("cat_smooth", self.cat_smooth, 0)
        check_integer("min_data_per_group", self.min_data_per_group, 1)
        self._check_tree_parameters()
        check_init(self.init, self._is_classifier)

    # -- hooks for targets ----------------------------------------------------------------------

    def _encode_target(self, y: Any, n_rows: int, again: bool) -> np.ndarray:
        raise NotImplementedError

    def _encode_eval_target(self, y: Any, n_rows: int, name: str) -> np.ndarray:
        raise NotImplementedError

    def _make_loss(self) -> Loss:
        raise NotImplementedError

    # -- fit ------------------------------------------------------------------------------------

    @atomic_fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        monitor: Callable[[int, Any, dict[str, Any]], Any] | None = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
    ) -> Self:
        """Fit the trees, round by round.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or BinnedStore of shape (n_rows, n_features)
            NaN means missing. String and category columns of a data frame are categories.
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
            Numbers, or class labels; several targets in regression only. Not given with a
            `BinnedStore`, which has the target and the weights.
        sample_weight : array-like of shape (n_rows,), optional
            Rows of weight zero are left out.
        monitor : callable, optional
            ``monitor(round, self, state)``, called after every round; if it returns True, the
            training ends. `state` holds the "raw_predictions" of the training rows and the "rows"
            of the round (None for all); `train_score_` and other curves are up to date.
        X_val, y_val, sample_weight_val : optional
            A validation table, in place of a share of `X`.
        eval_set : list of (X, y) pairs, optional
            Several validation tables, named validation_0, validation_1, ...; that of `X_val` comes
            last. `n_iter_no_change` uses the last one.
        sample_weight_eval_set : list of array-likes, optional
            Row weights of each pair in `eval_set`.

        Returns
        -------
        self : estimator
        """
        self._check_parameters()
        if monitor is not None and not callable(monitor):
            raise TypeError(f"monitor must be a callable or None, got {monitor!r}")
        again = bool(self.warm_start) and "trees_" in vars(self)
        if again and self.n_estimators < self.n_estimators_:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be at least {self.n_estimators_}, the "
                "number of rounds already fitted, with warm_start=True"
            )
        given = X_val is not None or not isinstance(eval_set, list | tuple | None) or eval_set
        holds_out = self.n_iter_no_change is not None and not given
        if again:
            values = self._reader.read_codes(X)
        else:
            seeds = self._seed_sequence(holds_out)
            # Kept as plain numbers, for a warm start.
            self._seeds = {"entropy": seeds.entropy, "spawn_key": seeds.spawn_key}
            values = self._fit_features(X, categorical_features=self.categorical_features)
        constraints = self._constraints()
        draws, holding = np.random.SeedSequence(**self._seeds).spawn(2)
        n_threads = table_threads(self.n_jobs, *values.shape)
        part = self._weighted_part(X, values, y, sample_weight, again)
        self._loss = self._same_loss() if again else self._make_loss()
        self._loss.check_target(part.y)
        self._loss.check_start(part.y)
        n_outputs = self._loss.n_outputs
        if constraints["monotonic"] is not None and self._is_classifier and n_outputs > 1:
            raise ValueError(
                f"monotonic_cst needs two classes at most, but y has {n_outputs}: each "
                "probability depends on the scores of all classes"
            )
        metrics = read_loss_metrics(self._loss, self.eval_metric)
        last = (X_val, y_val, sample_weight_val)
        out = None
        if holds_out:
            held = self._draw_validation(np.random.default_rng(holding), part.y)
            kept = np.setdiff1d(np.arange(len(part.y)), held)
            part, out = part.take(kept), part.take(held)
        part.values = self._order_categories(part.values, part.y, part.weight, again)
        eval_sets = read_eval_sets(self, self._loss, eval_set, sample_weight_eval_set, last)
        if out is not None:
            seen = self._reader.with_statistics(out.values)
            eval_sets = [EvalSet("validation_0", seen, out.y, out.weight, X=out.X)]
        if not again:
            self._start(part)
        for table in eval_sets:
            table.raw = self._scores_so_far(table.X, table.values, again, n_threads)
        watch = self._watch(part, eval_sets, metrics, again)
        self._boost(part, eval_sets, constraints, watch, monitor, again, n_threads, draws)
        return self

    def _seed_sequence(self, holds_out: bool) -> np.random.SeedSequence:
        """Return the seeds of a fit.

        Among features of equal splits one is drawn, so that the rounds differ. As long as nothing
        else is drawn, every fit without a `random_state` gives the same model.
        """
        draws = holds_out or self.subsample < 1 or self.max_features is not None
        return seed_sequence(0 if self.random_state is None and not draws else self.random_state)

    def _same_loss(self) -> Loss:
        """Return the loss of a warm start, which must be that of the rounds already fitted."""
        before, loss = self._loss, self._make_loss()
        if (loss.kind, loss.n_outputs) != (before.kind, before.n_outputs):
            raise ValueError(
                f"warm_start=True cannot change the loss: the rounds already fitted have the "
                f"{before.kind} loss of {before.n_outputs} outputs, loss={self.loss!r} now means "
                f"{loss.kind} of {loss.n_outputs}"
            )
        levels = [getattr(one, "alpha", None) for one in (before, loss)]
        if loss.n_outputs > 1 and levels[0] != levels[1]:
            raise ValueError(
                f"warm_start=True cannot change the levels of several quantiles: alpha was "
                f"{levels[0]}, now it is {levels[1]}"
            )
        return loss

    def _watch(
        self, part: Part, eval_sets: list[EvalSet], metrics: list[Metric], again: bool
    ) -> Watch:
        """Return the watchers that keep the curves; a warm start continues the earlier curves."""
        curves = LossCurves(self._loss, part.y, part.weight)
        if again:
            curves.resume(*self._curves)
        if not eval_sets:
            return Watch(curves)
        before = vars(self).get("evals_result_") if again else None
        evaluation = LossEvaluation(self._loss, metrics, before)
        return Watch(curves, evaluation, NoChange(evaluation, self.n_iter_no_change, self.tol))

    def _boost(
        self,
        part: Part,
        eval_sets: list[EvalSet],
        constraints: dict[str, Any],
        watch: Watch,
        monitor: Callable[..., Any] | None,
        again: bool,
        n_threads: int,
        seeds: np.random.SeedSequence,
    ) -> None:
        """Run the boosting loop and keep its result."""
        raw = self._scores_so_far(part.X, part.values, again, n_threads)
        first = self.n_estimators_ if again else 0
        watchers: list[Watcher] = [watcher for watcher in watch if watcher is not None]
        if monitor is not None:
            watchers.append(Monitor(monitor, self, lambda: self._keep_curves(watch)))
        if self.verbose:
            watchers.append(Progress(int(self.verbose), watch.latest))
        with self._open_grower(part, constraints, n_threads) as grower:
            steps = FriedmanSteps(
                grower, self._loss, part.y, part.weight, raw, float(self.learning_rate),
                n_threads, constraints["monotonic"], float(self.ccp_alpha), self.init is not None,
            )  # fmt: skip
            training = boost(
                steps,
                range(first, self.n_estimators),
                sampler=draw_share(float(self.subsample)),
                seeds=seeds,
                eval_sets=eval_sets,
                watchers=watchers,
            )
        self._keep(training, watch, again)

    def _constraints(self) -> dict[str, np.ndarray | None]:
        """Return the constraints as the engine takes them."""
        names, mask = vars(self).get("feature_names_in_"), self._reader.is_categorical
        return {
            "monotonic": read_monotonic(self.monotonic_cst, names, mask, "monotonic_cst"),
            "interaction": read_interactions(
                self.interaction_cst, names, len(mask), "interaction_cst", rest_together=True
            ),
        }

    # -- rows -----------------------------------------------------------------------------------

    def _weighted_part(self, X: Any, values: Any, y: Any, sample_weight: Any, again: bool) -> Part:
        """Return the rows of positive weight."""
        target = self._encode_target(y, values.shape[0], again)
        weight = check_sample_weight(sample_weight, values.shape[0])
        weight = self._weigh_classes(target, weight)
        part = Part(values, target, weight, X)
        if weight is None or weight.all():
            return part
        return part.take(np.flatnonzero(weight))

    def _draw_validation(self, rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
        """Sample the rows to hold out."""
        n_held = max(1, round(self.validation_fraction * len(y)))
        if n_held >= len(y):
            raise ValueError(
                f"validation_fraction={self.validation_fraction} leaves none of the {len(y)} rows "
                "for training"
            )
        return np.sort(rng.choice(len(y), n_held, replace=False))

    # -- start and growth -----------------------------------------------------------------------

    def _start(self, part: Part) -> None:
        """Set the initial scores."""
        if self.init is None:
            self.init_ = self._loss.init_raw(part.y, part.weight)
        elif isinstance(self.init, str):
            self.init_ = np.zeros(self._loss.n_outputs)
        else:
            target = part.y.astype(np.int64) if self._is_classifier else part.y
            self.init_ = fit_init(self.init, part.X, target, part.weight)

    def _scores_so_far(self, X: Any, values: Any, again: bool, n_threads: int) -> np.ndarray:
        raw = self._start_raw(X, values.shape[0])
        if again:
            self.trees_.add_raw(values, raw, n_threads)
        return raw

    def _open_grower(self, part: Part, constraints: dict[str, Any], n_threads: int) -> Grower:
        """Return the grower of regression trees, not opened yet."""
        n_rows, n_features = part.values.shape
        self.splitter_ = "hist" if self._uses_bins(n_rows) else "exact"
        self.max_features_ = count_features(self.max_features, n_features)
        share = float(self.subsample)
        n_drawn = max(1, int(share * n_rows)) if share < 1 else n_rows
        total = n_drawn if part.weight is None else exact_sum(part.weight) * n_drawn / n_rows
        params = replace(
            self._grower_params(n_rows, n_features, total),
            cat_smooth=float(self.cat_smooth),
            min_data_per_group=int(self.min_data_per_group),
            **constraints,
        ).grouped_in(n_rows)
        mask = self._reader.is_categorical
        if self.splitter_ == "exact":
            # Of a classifier alone: trees of several targets are those of one model per target.
            params = replace(
                params, criterion="squares", random_ties=self._is_classifier, random_cuts=False
            )
            params = replace(params.in_subtrees(), min_gain=max(params.min_gain, 0.0))
            table = Table(part.values, mask, min_range=MIN_RANGE)
            return Grower(table, params, MeanLeaves(), n_threads)
        # Squared error is the Newton gain of gradients -r with unit hessians and no penalty. Here
        # a split must have a positive gain: sums over bins are rounded, and do not tell a node of
        # equal residuals from one in which they cancel.
        newton = replace(
            params,
            frontier="depth-wise" if params.frontier == "depth-first" else params.frontier,
            min_gain=max(params.min_gain, 0.0),
            reg_lambda=0.0,
        )
        table = Table.in_bins(part.values, mask, int(self.max_bins), part.weight, n_threads)
        return Grower(table, newton, NewtonLeaves(newton), n_threads)

    def _uses_bins(self, n_rows: int) -> bool:
        return self.splitter == "hist" or (self.splitter == "auto" and n_rows > MAX_EXACT_ROWS)

    def _check_binned(self, table: BinnedTable) -> None:
        """Refuse a table in bins if the fit would need values."""
        if not self._uses_bins(table.shape[0]):
            refuse_bins(self, "splitter", "'hist'")
        if self.warm_start:
            refuse_bins(self, "warm_start", "False")
        if self.n_iter_no_change is not None:
            refuse_bins(self, "n_iter_no_change", "None")
        check_bins(self, table, "max_bins", self.max_bins)

    def _keep(self, training: Training, watch: Watch, again: bool) -> None:
        """Keep the trees, after those of an earlier fit, and the curves."""
        n_outputs = self._loss.n_outputs
        before = [self.trees_[i] for i in range(len(self.trees_))] if again else []
        outputs = [*(self.trees_.tree_output if again else ()), *training.tree_output]
        self.trees_ = TreeEnsemble(
            [*before, *training.trees], self.n_features_in_, n_outputs, outputs
        )
        self.n_estimators_ = self.n_iter_ = len(self.trees_) // n_outputs
        self.n_trees_per_iteration_ = n_outputs
        self._keep_curves(watch)

    def _keep_curves(self, watch: Watch) -> None:
        curves = watch.curves
        self.train_score_ = np.array(curves.train)
        oob, improvement = np.array(curves.oob), np.array(curves.oob_improvement)
        self._curves = (self.train_score_, oob, improvement)
        for name in OPTIONAL:
            self.__dict__.pop(name, None)
        if len(oob):
            self.oob_scores_, self.oob_improvement_ = oob, improvement
            self.oob_score_ = float(oob[-1])
        if watch.evaluation is not None:
            self.evals_result_ = watch.evaluation.copied_scores()
            self.validation_scores_ = np.array(watch.evaluation.stopping_curve())
        stopping = watch.stopping
        if stopping is None or stopping.patience is None:
            return
        # A warm start without new rounds may have no scores.
        if stopping.best_round is not None and stopping.best_score is not None:
            self.best_iteration_, self.best_score_ = stopping.best_round, stopping.best_score
