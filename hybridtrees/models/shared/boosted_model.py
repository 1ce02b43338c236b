"""The fit that XGB and PLGB share, with xgboost's parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np

from hybridtrees._parameters import (
    Seed,
    check_boolean_or_auto,
    check_integer,
    check_option,
    check_real,
    check_verbose,
)
from hybridtrees._persistence import load
from hybridtrees.base import atomic_fit
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import table_threads
from hybridtrees.core.bins.binned_table import BinnedTable
from hybridtrees.core.bins.mapper import MAX_BINS
from hybridtrees.core.grow.grower import Grower, NewtonLeaves
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.table import Table
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.losses import Loss, check_levels, xgboost_loss
from hybridtrees.models.shared.binned_fit import check_bins, refuse_bins
from hybridtrees.models.shared.boosted_prediction import BoostedPrediction
from hybridtrees.models.shared.boosted_start import (
    check_base_score,
    check_continued,
    fitted_copy,
    start_scores,
)
from hybridtrees.models.shared.boosting import Training, Watcher, boost, draw_each
from hybridtrees.models.shared.boosting_evaluation import (
    EvalMetric,
    read_eval_sets,
    read_margin,
    read_margins,
    read_metrics,
)
from hybridtrees.models.shared.boosting_steps import BoostingSteps, NewtonSteps
from hybridtrees.models.shared.constraints import read_interactions, read_monotonic
from hybridtrees.models.shared.importance import IMPORTANCE_TYPES, ImportanceType
from hybridtrees.models.shared.watchers import (
    Callbacks,
    EarlyStopping,
    Evaluation,
    Progress,
    check_callbacks,
)

MAX_CATEGORIES = 2**15  # more than a feature has bins, and it fits into a C int
SAMPLING_METHODS = ("uniform", "gradient_based")
GROW_POLICIES = {"depthwise": "depth-wise", "lossguide": "best-first"}


class BoostedModel(BoostedPrediction):
    """Parameters and fit; a family adds its grower, `boosted_targets.py` the target.

    None stands for the default of every parameter, as in xgboost.

    Parameters
    ----------
    n_estimators : int
        Number of boosting rounds.
    max_depth : int or None
        Maximum depth of a tree; 0 for no limit.
    max_leaves : int
        Maximum number of leaves of a tree; 0 for no limit.
    max_bin : int
        Maximum number of bins of a feature, at most 256; one of 256 is for missing values.
    grow_policy : {"depthwise", "lossguide"}
        Split level by level, or where the gain is largest.
    learning_rate : float
        Factor on every tree.
    gamma : float
        Minimum gain of a split. Like in xgboost, the gain has no factor of one half: gamma is twice
        that of the formulas in the literature.
    min_child_weight : float
        Minimum sum of hessians in a child.
    max_delta_step : float
        Maximum output of a leaf before the learning rate; 0 for no limit, or for 0.7 under
        "count:poisson".
    subsample : float
        Share of the rows drawn for each round.
    sampling_method : {"uniform", "gradient_based"} or None
        How `subsample` draws rows; None stands for "uniform". With "gradient_based" rows of large
        gradients are likelier, and weigh inversely to their probabilities, so that sums over the
        sample have the same mean and less variance: minimal variance sampling (Ibragimov and Gusev
        2019). A share of 0.1 to 0.3 is then often enough.
    colsample_bytree, colsample_bylevel, colsample_bynode : float
        Share of the features drawn for each tree, of these for each level, of these for each node.
    reg_alpha, reg_lambda : float
        L1 and L2 penalty on leaf values.
    missing : float
        A value that means missing, in addition to NaN.
    categorical_features : None, "from_dtype" or array-like
        Categorical features. None and "from_dtype" are the same: the string and category columns of
        a data frame (or dict of columns). An array-like names further ones, by index (``[0, -1]``),
        by column name (``["city"]``) or by a mask; only these may hold text in an array without
        column types. Values need not be codes: those of `fit` are encoded, and other values are
        treated as missing.
    max_cat_to_onehot : int
        Features of fewer categories are split one category against the rest, others by sets of
        categories, which are ordered by their leaf values.
    cat_smooth : float
        So many rows with the mean of the node are added to each category when categories are
        ordered. Like the next two it is for sets of features of more than four categories, which
        would otherwise follow the noise of rare categories.
    cat_l2 : float
        L2 penalty on leaf values when such a split is scored, in addition to `reg_lambda`.
    min_data_per_group : int
        Minimum number of rows between two cuts in the order of categories: neighbours are taken
        together. Rows are counted by their hessians. A twentieth of the table if that is less.
    monotone_constraints : array-like, dict, str or None
        1 if the prediction may only increase with a feature, -1 if it may only decrease, else 0:
        one entry per feature, or a dict by name or index.
    interaction_constraints : list of lists, str or None
        Groups of features, by name or index, that may be split on along one path. A feature in no
        group is a group of its own. At most 63 groups.
    importance_type : {"gain", "weight", "cover", "total_gain", "total_cover"}
        What `feature_importances_` measures.
    early_stopping_rounds : int or None
        Stop when the last metric on the last validation table has not improved for so many rounds;
        `predict` then uses the rounds up to the best.
    callbacks : list or None
        Objects that are called during training and may end it, see `hybridtrees.callbacks`.
    random_state : int, Generator, RandomState or None
        Seed of the rows and features drawn. The same seed gives the same model for any `n_jobs`.
    n_jobs : int or None
        Number of threads; all usable CPUs by default.
    verbose : int
        Print a line every `verbose` rounds, with elapsed and remaining time; on a terminal with a
        progress bar, if tqdm is installed.
    """

    objective: str | Callable[..., Any] | None = None
    n_estimators: int = 100
    max_depth: int | None = 6
    max_leaves: int | None = 0
    max_bin: int = 256
    grow_policy: Literal["depthwise", "lossguide"] = "depthwise"
    learning_rate: float = 0.3
    gamma: float = 0.0
    min_child_weight: float = 1.0
    max_delta_step: float = 0.0
    subsample: float = 1.0
    sampling_method: Literal["uniform", "gradient_based"] | None = None
    colsample_bytree: float = 1.0
    colsample_bylevel: float = 1.0
    colsample_bynode: float = 1.0
    reg_alpha: float = 0.0
    reg_lambda: float = 1.0
    scale_pos_weight: float = 1.0
    base_score: float | Sequence[float] | None = None
    missing: float = math.nan
    categorical_features: Any = None
    max_cat_to_onehot: int = 4
    cat_smooth: float = 10.0
    cat_l2: float = 10.0
    min_data_per_group: int = 100
    monotone_constraints: Any = None
    interaction_constraints: Any = None
    quantile_alpha: float | Sequence[float] | None = None
    expectile_alpha: float | Sequence[float] | None = None
    huber_slope: float = 1.0
    tweedie_variance_power: float = 1.5
    importance_type: ImportanceType = "gain"
    early_stopping_rounds: int | None = None
    eval_metric: EvalMetric = None
    callbacks: Sequence[Any] | None = None
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: int = 0

    _steps: ClassVar[Callable[..., BoostingSteps]] = NewtonSteps
    _none_is_default: ClassVar[bool] = True
    _leaves_by_rows: ClassVar[bool] = False  # whether None is a number of leaves by a rule

    def _check_parameters(self) -> GrowerParams:
        """Check what can be checked without the data; return the parameters of the engine."""
        if self.base_score is not None:
            check_base_score(self.base_score)
        check_boolean_or_auto("categorical_statistics", self.categorical_statistics)
        for name in ("quantile_alpha", "expectile_alpha"):
            if getattr(self, name) is not None:
                check_levels(name, getattr(self, name))
        check_integer("n_estimators", self.n_estimators, 1)
        check_integer("max_bin", self.max_bin, 2, MAX_BINS + 1)
        check_real("learning_rate", self.learning_rate, 0, closed="right")
        check_real("subsample", self.subsample, 0, 1, closed="right")
        if self.sampling_method is not None:
            check_option("sampling_method", self.sampling_method, SAMPLING_METHODS)
        check_real("scale_pos_weight", self.scale_pos_weight, 0, closed="right")
        check_option("importance_type", self.importance_type, IMPORTANCE_TYPES)
        check_integer("early_stopping_rounds", self.early_stopping_rounds, 1, allow_none=True)
        check_real("huber_slope", self.huber_slope, 0, closed="neither")
        check_real("tweedie_variance_power", self.tweedie_variance_power, 1, 2, closed="left")
        check_verbose(self.verbose)
        step = check_real("max_delta_step", self.max_delta_step, 0)
        # As in xgboost, the steps of a Poisson model are limited by default.
        step = 0.7 if step == 0 and self.objective == "count:poisson" else step
        onehot = check_integer("max_cat_to_onehot", self.max_cat_to_onehot, 1)
        depth = check_integer("max_depth", self.max_depth, 0, 2**15 - 1, allow_none=True)
        leaves = None
        if self.max_leaves is not None or not self._leaves_by_rows:
            leaves = check_integer("max_leaves", self.max_leaves, 0, 2**30)
        return GrowerParams(
            frontier=GROW_POLICIES[check_option("grow_policy", self.grow_policy, GROW_POLICIES)],
            max_depth=depth or 0,
            max_leaves=leaves or 0,
            min_child_weight=check_real("min_child_weight", self.min_child_weight, 0),
            min_gain=check_real("gamma", self.gamma, 0),
            reg_lambda=check_real("reg_lambda", self.reg_lambda, 0),
            reg_alpha=check_real("reg_alpha", self.reg_alpha, 0),
            max_delta_step=step,
            feature_fractions=(
                check_real("colsample_bytree", self.colsample_bytree, 0, 1, closed="right"),
                check_real("colsample_bylevel", self.colsample_bylevel, 0, 1, closed="right"),
                check_real("colsample_bynode", self.colsample_bynode, 0, 1, closed="right"),
            ),
            # In xgboost the limit is exclusive, in the grower inclusive.
            max_cat_to_onehot=min(onehot - 1, MAX_CATEGORIES),
            cat_smooth=check_real("cat_smooth", self.cat_smooth, 0),
            cat_l2=check_real("cat_l2", self.cat_l2, 0),
            min_data_per_group=check_integer("min_data_per_group", self.min_data_per_group, 1),
        )

    # -- what families and targets differ in ----------------------------------------------------

    def _open_grower(
        self, values: Any, weight: np.ndarray | None, params: GrowerParams, n_threads: int
    ) -> Grower:
        """Return the grower, not opened yet; by default one on bins that are made once per fit."""
        table = self._bin_table(values, weight, n_threads)
        return Grower(table, params, NewtonLeaves(params), n_threads)

    def _bin_table(
        self, values: Any, weight: np.ndarray | None, n_threads: int, *, dense: bool = False
    ) -> Table:
        max_bins, mask = self._max_bins(), self._reader.is_categorical
        return Table.in_bins(values, mask, max_bins, weight, n_threads, dense=dense)

    def _max_bins(self) -> int:
        """Return the maximum number of bins of values: one of 256 is for missing values."""
        return min(self.max_bin, MAX_BINS)

    def _check_binned(self, table: BinnedTable) -> None:
        """Refuse a table in bins if the fit would need values."""
        if not math.isnan(self.missing):
            refuse_bins(self, "missing", "NaN")
        check_bins(self, table, "max_bin", self._max_bins())

    def _n_rounds(self) -> int:
        """Return the number of rounds to run."""
        return self.n_estimators

    def _n_parallel(self) -> int:
        """Return the number of trees of a round and output."""
        return 1

    def _takes_smooth_losses(self) -> bool:
        """Whether robust losses are smoothed, so that leaves can be Newton steps."""
        return True

    def _encode_target(
        self, y: Any, n_rows: int, before: BoostedModel | None, max_step: float
    ) -> tuple[np.ndarray, Loss]:
        """Return the target as the engine takes it, and the loss."""
        raise NotImplementedError

    def _encode_eval_target(self, y: Any, n_rows: int, name: str) -> np.ndarray:
        """Return the target of a validation table, encoded as in fit."""
        raise NotImplementedError

    def _scale_positives(
        self, loss: Loss, target: np.ndarray, weight: np.ndarray | None
    ) -> np.ndarray | None:
        """Return the row weights times `scale_pos_weight`, which only classifiers use."""
        return weight

    # -- fit ------------------------------------------------------------------------------------

    @atomic_fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        verbose: bool | int | None = None,
        xgb_model: Any = None,
        base_margin: Any = None,
        base_margin_eval_set: Sequence[Any] | None = None,
        base_margin_val: Any = None,
    ) -> Self:
        """Fit the trees.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or BinnedStore of shape (n_rows, n_features)
            NaN and `missing` mean missing. String and category columns of a data frame are
            categories.
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
            Class labels, or numbers; several targets in regression only. Not given with a
            `BinnedStore`, which has the target and the weights.
        sample_weight : array-like of shape (n_rows,), optional
        eval_set : list of (X, y) pairs, optional
            Validation tables, named validation_0, validation_1, ...
        sample_weight_eval_set : list of array-likes, optional
            Row weights of each pair in `eval_set`.
        X_val, y_val, sample_weight_val : optional
            One more validation table, after those of `eval_set`.
        verbose : bool or int, optional
            Print a line every `verbose` rounds. Overrides the constructor's parameter.
        xgb_model : fitted estimator of the same class, or a file of one, optional
            Model to continue; XGB takes models and files of XGBoost too. `n_estimators` rounds are
            added to all of its rounds. With the same rows, parameters and `random_state` the result
            is that of one long training.
            Missing values and categories are read as in that model.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Initial raw score of each row, in place of `base_score`. It is not stored in the model:
            pass one to `predict` as well.
        base_margin_eval_set : list of array-likes, optional
            Initial raw scores for each pair in `eval_set`.
        base_margin_val : array-like, optional
            Initial raw scores for `X_val`.

        Returns
        -------
        self : estimator
        """
        params = self._check_parameters()
        callbacks = [] if self.callbacks is None else check_callbacks(self.callbacks)
        period = self.verbose if verbose is None else verbose
        check_verbose(period)
        seeds = seed_sequence(self.random_state)
        before = None if xgb_model is None else self._model_before(xgb_model)
        values = self._learn_table(X, before)
        n_rows, n_features = values.shape
        params = params.grouped_in(n_rows)
        if self.monotone_constraints is not None or self.interaction_constraints is not None:
            params = self._constrained(params)
        n_threads = table_threads(self.n_jobs, n_rows, n_features)
        target, loss = self._encode_target(y, n_rows, before, params.max_delta_step)
        loss.check_target(target)
        self._check_sampling(loss)
        if before is not None:
            check_continued(before, loss, self._n_parallel())
        weight = self._weigh_classes(target, check_sample_weight(sample_weight, n_rows))
        if self.scale_pos_weight != 1:
            weight = self._scale_positives(loss, target, weight)
        values = self._order_categories(values, target, weight, before is not None)
        last = (X_val, y_val, sample_weight_val)
        eval_sets = read_eval_sets(self, loss, eval_set, sample_weight_eval_set, last)
        margin = read_margin(base_margin, n_rows, loss.n_outputs)
        margins = read_margins(
            base_margin_eval_set, base_margin_val, eval_sets, X_val is not None, loss.n_outputs
        )
        if self.early_stopping_rounds is not None and not eval_sets:
            raise ValueError("early_stopping_rounds needs an eval_set (or X_val and y_val) in fit")
        scored = bool(eval_sets) or self.eval_metric is not None
        evaluation = Evaluation(loss, read_metrics(loss, self.eval_metric) if scored else [])
        stopping = EarlyStopping(evaluation, self.early_stopping_rounds)
        base_raw = before._base_raw_ if before else self._base_raw(loss, target, weight)
        so_far = partial(fitted_copy, self, before, loss, base_raw)
        hooks = Callbacks(callbacks, self, evaluation, so_far)
        watchers: list[Watcher] = [evaluation, stopping] if eval_sets else []
        watchers += [hooks] if callbacks else []
        if period:
            watchers.append(Progress(int(period), evaluation.latest, stopping.ending, bare=True))
        for each, own in zip(eval_sets, margins, strict=True):
            each.raw = start_scores(before, base_raw, own, each.values, n_threads)
        raw = start_scores(before, base_raw, margin, values, n_threads)
        rate, share = float(self.learning_rate), float(self.subsample)
        by_gradient = self.sampling_method == "gradient_based"
        shares = (1.0, share) if by_gradient else (share, 1.0)
        draw = draw_each(shares[0])
        first = before.n_iter_ if before else 0
        rounds, n_parallel = range(first, first + self._n_rounds()), self._n_parallel()
        with self._open_grower(values, weight, params, n_threads) as grower:
            steps = self._steps(
                grower, loss, target, weight, raw, rate, n_threads, params.monotonic, shares[1],
                n_parallel, draw,
            )  # fmt: skip
            training = boost(
                steps,
                rounds,
                sampler=draw,
                seeds=seeds.spawn(1)[0],
                eval_sets=eval_sets,
                watchers=watchers,
            )
        self._keep(training, before, loss, base_raw)
        self._evals_result = evaluation.scores
        best = stopping if self.early_stopping_rounds is not None else hooks
        self._best_iteration, self._best_score = best.best_round, best.best_score
        return self

    def _model_before(self, given: Any) -> Self:
        """Return the model to continue, which may be given as a file."""
        if isinstance(given, str | PathLike):
            given = load(given)
        if type(given) is not type(self):
            raise TypeError(
                f"xgb_model must be a fitted {type(self).__name__} or a file of one, got {given!r}"
            )
        given._check_is_fitted()
        return given

    def _learn_table(self, X: Any, before: BoostedModel | None, categorical: Any = None) -> Any:
        """Learn the features of X, or read it as the continued model does."""
        if before is None:
            categorical = self.categorical_features if categorical is None else categorical
            return self._fit_features(X, categorical_features=categorical, missing=self.missing)
        if isinstance(X, BinnedTable):
            raise ValueError(f"xgb_model of {type(self).__name__}.fit needs values, not bins")
        self._reader = before._reader
        self.n_features_in_ = before.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(before, "feature_names_in_"):
            self.feature_names_in_ = before.feature_names_in_
        return self._reader.read_codes(X)

    def _constrained(self, params: GrowerParams) -> GrowerParams:
        """Add the constraints on features, which may be given by name."""
        names, mask = getattr(self, "feature_names_in_", None), self._reader.is_categorical
        given = self.monotone_constraints, self.interaction_constraints
        monotonic = read_monotonic(given[0], names, mask, "monotone_constraints")
        groups = read_interactions(given[1], names, len(mask), "interaction_constraints")
        return replace(params, monotonic=monotonic, interaction=groups)

    def _check_sampling(self, loss: Loss) -> None:
        """Refuse to draw by gradients where leaves are not fitted to them."""
        if self.sampling_method == "gradient_based" and loss.adaptive_leaves:
            raise ValueError(
                f"sampling_method='gradient_based' of {type(self).__name__} weighs gradients, but "
                f"the leaves of objective={self.objective!r} are fitted to the residuals: use "
                "'uniform'"
            )

    def _make_loss(
        self, objective: Any, max_step: float, *, n_classes: int = 0, **targets: int
    ) -> Loss:
        return xgboost_loss(
            objective,
            n_classes=n_classes,
            **targets,
            quantile_alpha=self.quantile_alpha,
            expectile_alpha=self.expectile_alpha,
            huber_slope=self.huber_slope,
            tweedie_variance_power=self.tweedie_variance_power,
            max_delta_step=max_step,
            smooth=self._takes_smooth_losses(),
        )

    def _base_raw(self, loss: Loss, target: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Return the initial raw scores, one per output."""
        if self.base_score is None:
            return loss.init_raw(target, weight)
        given = check_base_score(self.base_score)
        if len(given) not in (1, loss.n_outputs):
            raise ValueError(
                f"base_score must be one number or {loss.n_outputs}, one per output, got "
                f"{len(given)}"
            )
        return np.array([loss.link(score) for score in given] * (loss.n_outputs // len(given)))

    def _keep(
        self, training: Training, before: BoostedModel | None, loss: Loss, base_raw: np.ndarray
    ) -> None:
        """Keep the trees, after those of the continued model."""
        trees, outputs = training.trees, training.tree_output
        if before is not None:
            old = before.trees_
            trees = [*(old[i] for i in range(len(old))), *trees]
            outputs = [*old.tree_output.tolist(), *outputs]
        if not trees:
            raise ValueError("a callback ended the training before the first round")
        self.trees_ = TreeEnsemble(trees, self.n_features_in_, loss.n_outputs, outputs)
        self.n_iter_ = len(trees) // (loss.n_outputs * self._n_parallel())
        self._loss = loss
        self._base_raw_ = base_raw
