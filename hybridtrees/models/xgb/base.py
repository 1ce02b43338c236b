"""What the XGBoost-style regressor and classifier share: all but the target and the loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, check_option, check_real
from hybridtrees._persistence import load
from hybridtrees.base import atomic_fit
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads, threads_for_table
from hybridtrees.core.bins.mapper import MAX_BINS, BinMapper
from hybridtrees.core.grow.exact import ApproxGrower, ExactGrower
from hybridtrees.core.grow.grower import Grower, GrowerParams
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.losses import Loss, check_levels, xgboost_loss
from hybridtrees.models.shared.boosting import Steps, Training, Watcher, boost, draw_each
from hybridtrees.models.shared.boosting_evaluation import read_eval_sets, read_metrics
from hybridtrees.models.shared.boosting_steps import NewtonSteps
from hybridtrees.models.shared.constraints import read_interactions, read_monotonic
from hybridtrees.models.shared.early_stopping import EarlyStopping, Evaluation, Progress
from hybridtrees.models.shared.importance import IMPORTANCE_TYPES
from hybridtrees.models.xgb.evaluation import Callbacks, check_callbacks
from hybridtrees.models.xgb.margin import read_margin, read_margins
from hybridtrees.models.xgb.names import check_base_score, check_fixed_parameters
from hybridtrees.models.xgb.prediction import FittedXGB

TREE_METHODS = ("hist", "auto", "exact", "approx")
FEATURE_TYPES = ("q", "c", "i", "int", "float")
MOST_CATEGORIES = 2**15  # more than the bins of a feature, fewer than a C int holds
GROW_POLICIES = {"depthwise": "depth-wise", "lossguide": "best-first"}


class XGBModel(FittedXGB):
    """What the regressor and the classifier share: everything but the target and the loss."""

    _steps: Callable[..., Steps] = NewtonSteps

    def __init__(
        self,
        *,
        objective: str | Callable[..., Any] | None = None,
        n_estimators: int = 100,
        max_depth: int | None = 6,
        max_leaves: int = 0,
        max_bin: int = 256,
        grow_policy: str = "depthwise",
        learning_rate: float = 0.3,
        tree_method: str = "hist",
        sketch: str = "global",
        gamma: float = 0.0,
        min_child_weight: float = 1.0,
        max_delta_step: float = 0.0,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bylevel: float = 1.0,
        colsample_bynode: float = 1.0,
        reg_alpha: float = 0.0,
        reg_lambda: float = 1.0,
        scale_pos_weight: float = 1.0,
        base_score: float | Sequence[float] | None = None,
        missing: float = math.nan,
        categorical_features: Any = None,
        feature_types: Sequence[str] | None = None,
        enable_categorical: bool = True,
        max_cat_to_onehot: int = 4,
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        quantile_alpha: float | Sequence[float] | None = None,
        expectile_alpha: float | Sequence[float] | None = None,
        huber_slope: float = 1.0,
        tweedie_variance_power: float = 1.5,
        importance_type: str = "gain",
        early_stopping_rounds: int | None = None,
        eval_metric: Any = None,
        callbacks: Sequence[Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        booster: str | None = None,
        multi_strategy: str | None = None,
        num_parallel_tree: int | None = None,
        sampling_method: str | None = None,
        feature_weights: Any = None,
        max_cat_threshold: int | None = None,
        device: str | None = None,
        verbosity: int | None = None,
        validate_parameters: bool | None = None,
    ):
        self.objective = objective
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.max_bin = max_bin
        self.grow_policy = grow_policy
        self.learning_rate = learning_rate
        self.tree_method = tree_method
        self.sketch = sketch
        self.gamma = gamma
        self.min_child_weight = min_child_weight
        self.max_delta_step = max_delta_step
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.colsample_bylevel = colsample_bylevel
        self.colsample_bynode = colsample_bynode
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.scale_pos_weight = scale_pos_weight
        self.base_score = base_score
        self.missing = missing
        self.categorical_features = categorical_features
        self.feature_types = feature_types
        self.enable_categorical = enable_categorical
        self.max_cat_to_onehot = max_cat_to_onehot
        self.monotone_constraints = monotone_constraints
        self.interaction_constraints = interaction_constraints
        self.quantile_alpha = quantile_alpha
        self.expectile_alpha = expectile_alpha
        self.huber_slope = huber_slope
        self.tweedie_variance_power = tweedie_variance_power
        self.importance_type = importance_type
        self.early_stopping_rounds = early_stopping_rounds
        self.eval_metric = eval_metric
        self.callbacks = callbacks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.booster = booster
        self.multi_strategy = multi_strategy
        self.num_parallel_tree = num_parallel_tree
        self.sampling_method = sampling_method
        self.feature_weights = feature_weights
        self.max_cat_threshold = max_cat_threshold
        self.device = device
        self.verbosity = verbosity
        self.validate_parameters = validate_parameters

    # -- what the two differ in -----------------------------------------------------------------

    def _encode_target(
        self, y: Any, n_rows: int, before: XGBModel | None
    ) -> tuple[np.ndarray, Loss]:
        raise AttributeError("the regressor and the classifier bring this")

    def _encode_eval_target(self, y: Any, n_rows: int, name: str) -> np.ndarray:
        raise AttributeError("the regressor and the classifier bring this")

    # -- fit ------------------------------------------------------------------------------------

    @atomic_fit
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        verbose: bool | int | None = None,
        xgb_model: XGBModel | str | None = None,
        base_margin: Any = None,
        base_margin_eval_set: Sequence[Any] | None = None,
        base_margin_val: Any = None,
    ) -> Self:
        """Fit the trees.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            NaN means missing. String and category columns of a data frame are categories.
        y : array-like of shape (n_rows,)
            In regression also of shape (n_rows, n_targets).
        sample_weight : array-like of shape (n_rows,), optional
        eval_set : list of (X, y) pairs, optional
            Tables to watch the training on, named validation_0, validation_1, ...
        sample_weight_eval_set : list of array-likes, optional
            Weights of the rows of each pair in `eval_set`.
        X_val, y_val, sample_weight_val : optional
            One more such table, behind those of `eval_set`.
        verbose : bool or int, optional
            Print a line every so many rounds. Overrides the constructor's.
        xgb_model : fitted estimator of the same class, or a file of one, optional
            Model to continue: `n_estimators` rounds are added to all of its rounds. With the
            same rows, parameters and `random_state` this gives what one long training gives.
            Its features hold: what is missing and what is a category is as it was there.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Raw score of each row to start from, in place of `base_score`. It is no part of the
            model: `predict` needs one for its own rows.
        base_margin_eval_set : list of array-likes, optional
            The same for each pair in `eval_set`.
        base_margin_val : array-like, optional
            The same for `X_val`.

        Returns
        -------
        self : estimator
        """
        grower = self._grower_params()
        callbacks = check_callbacks(self.callbacks)
        n_threads = effective_threads(self.n_jobs)
        seeds = seed_sequence(self.random_state)
        before = self._model_before(xgb_model)
        values = self._fit_table(X, before)
        grower = self._constrained(grower)
        # Threads wait for each other longer than they work on a small table.
        n_threads = threads_for_table(n_threads, *values.shape)
        target, loss = self._encode_target(y, values.shape[0], before)
        loss.check_target(target)
        if before is not None:
            _check_continued(before._loss, loss)
        weight = check_sample_weight(sample_weight, values.shape[0])
        weight = self._class_weight(loss, target, weight)
        last = (X_val, y_val, sample_weight_val)
        eval_sets = list(
            read_eval_sets(
                self._reader,
                lambda y, n_rows, name: self._encode_checked(loss, y, n_rows, name),
                eval_set,
                sample_weight_eval_set,
                last,
            )
        )
        margin = read_margin(base_margin, values.shape[0], loss.n_outputs)
        margins = read_margins(
            base_margin_eval_set, base_margin_val, eval_sets, X_val is not None, loss.n_outputs
        )
        if self.early_stopping_rounds is not None and not eval_sets:
            raise ValueError("early_stopping_rounds needs an eval_set (or X_val and y_val) in fit")
        evaluation = Evaluation(loss, read_metrics(loss, self.eval_metric))
        stopping = EarlyStopping(evaluation, self.early_stopping_rounds)
        asked = Callbacks(callbacks, self, evaluation)
        watchers: list[Watcher] = [evaluation, stopping, *([asked] if callbacks else [])]
        watchers.append(Progress(self._line_period(verbose), evaluation.latest, stopping.ending))
        base_raw = before._base_raw_ if before else self._base_raw(loss, target, weight)
        for each, own in zip(eval_sets, margins, strict=True):
            each.raw = _scores(before, base_raw, own, each.values, n_threads)
        raw = _scores(before, base_raw, margin, values, n_threads)
        rate = float(self.learning_rate)
        first = before.n_iter_ if before else 0
        with self._open_grower(values, weight, grower, n_threads) as opened:
            training = boost(
                self._steps(opened, loss, target, weight, raw, rate, n_threads, grower.monotonic),
                range(first, first + self.n_estimators),
                sampler=draw_each(float(self.subsample)),
                seeds=seeds.spawn(1)[0],
                eval_sets=eval_sets,
                watchers=watchers,
            )
        self._keep(training, before, loss, base_raw)
        self._evals_result = evaluation.scores
        self._best_iteration, self._best_score = asked.best() or (None, None)
        if self.early_stopping_rounds is not None:
            self._best_iteration, self._best_score = stopping.best_round, stopping.best_score
        return self

    def _encode_checked(self, loss: Loss, y: Any, n_rows: int, name: str) -> np.ndarray:
        """Target of a validation table, within the range of the loss."""
        target = self._encode_eval_target(y, n_rows, name)
        loss.check_target(target, name)
        return target

    def _keep(
        self, training: Training, before: XGBModel | None, loss: Loss, base_raw: np.ndarray
    ) -> None:
        """Keep the trees, behind those of the model that was continued."""
        trees, outputs = training.trees, training.tree_output
        if before is not None:
            old = before.trees_
            trees = [*(old[i] for i in range(len(old))), *trees]
            outputs = [*old.tree_output.tolist(), *outputs]
        if not trees:
            raise ValueError("a callback has ended the training before the first round")
        self.trees_ = TreeEnsemble(trees, self.n_features_in_, loss.n_outputs, outputs)
        self.n_iter_ = len(trees) // loss.n_outputs
        self._loss = loss
        self._base_raw_ = base_raw

    def _model_before(self, given: Any) -> XGBModel | None:
        """Return the model to continue."""
        if isinstance(given, str | PathLike):
            given = load(given)
        if given is None:
            return None
        if type(given) is not type(self):
            raise TypeError(
                f"xgb_model must be a fitted {type(self).__name__} or a file of one, got {given!r}"
            )
        given._check_is_fitted()
        return given

    def _fit_table(self, X: Any, before: XGBModel | None) -> Any:
        """Learn the features of X, or read it as the model before does."""
        categorical = self._categorical(X)
        if before is not None:
            self._reader = before._reader
            self.n_features_in_ = before.n_features_in_
            self.__dict__.pop("feature_names_in_", None)
            if hasattr(before, "feature_names_in_"):
                self.feature_names_in_ = before.feature_names_in_
            return self._reader.read(X)
        values = self._fit_features(X, categorical_features=categorical, missing=self.missing)
        if not self.enable_categorical and self._reader.is_categorical.any():
            feature = int(np.flatnonzero(self._reader.is_categorical)[0])
            raise ValueError(
                f"feature {feature} holds categories, which enable_categorical=False rules out"
            )
        return values

    def _categorical(self, X: Any) -> Any:
        """Return which features hold categories, after `feature_types` too."""
        types = self.feature_types
        if types is None:
            return self.categorical_features
        if not isinstance(types, list | tuple) or any(t not in FEATURE_TYPES for t in types):
            allowed = ", ".join(repr(name) for name in FEATURE_TYPES)
            raise ValueError(f"feature_types must be a list of {allowed}, got {types!r}")
        if self.categorical_features is not None:
            raise ValueError("give feature_types or categorical_features, not both")
        shape = (0, len(X)) if isinstance(X, dict) else getattr(X, "shape", ())
        if len(shape) == 2 and len(types) != shape[1]:
            raise ValueError(
                f"feature_types must have one entry for each of the {shape[1]} features, got "
                f"{len(types)}"
            )
        return np.array([name == "c" for name in types], dtype=bool)

    def _open_grower(
        self, values: Any, weight: np.ndarray | None, params: GrowerParams, n_threads: int
    ) -> Grower | ExactGrower | ApproxGrower:
        """Return the grower of the tree method, to be opened."""
        mask = self._reader.is_categorical
        max_bins = min(self.max_bin, MAX_BINS)
        if self.tree_method == "exact":
            return ExactGrower(values, mask, params, n_threads)
        if self.tree_method == "approx" and self.sketch == "local":
            thinned = replace(params, candidate_share=1.0 / max_bins)
            return ExactGrower(values, mask, thinned, n_threads)
        if self.tree_method == "approx":
            return ApproxGrower(values, mask, params, n_threads, max_bins)
        mapper = BinMapper(max_bins=max_bins, categorical_features=mask, n_jobs=n_threads)
        binned = mapper.fit_transform(values, weight)
        return Grower(binned, params, n_threads, mapper.category_to_bin_)

    def _grower_params(self) -> GrowerParams:
        """Check the parameters, all before any work."""
        check_integer("n_estimators", self.n_estimators, 1)
        check_integer("max_bin", self.max_bin, 2, 256)
        check_real("learning_rate", self.learning_rate, 0, closed="right")
        check_real("subsample", self.subsample, 0, 1, closed="right")
        check_real("scale_pos_weight", self.scale_pos_weight, 0, closed="right")
        check_base_score(self.base_score)
        check_fixed_parameters(self)
        check_option("tree_method", self.tree_method, TREE_METHODS)
        check_option("sketch", self.sketch, ("global", "local"))
        check_option("importance_type", self.importance_type, IMPORTANCE_TYPES)
        check_integer("early_stopping_rounds", self.early_stopping_rounds, 1, allow_none=True)
        check_boolean("enable_categorical", self.enable_categorical)
        for name in ("quantile_alpha", "expectile_alpha"):
            if getattr(self, name) is not None:
                check_levels(name, getattr(self, name))
        check_real("huber_slope", self.huber_slope, 0, closed="neither")
        check_real("tweedie_variance_power", self.tweedie_variance_power, 1, 2, closed="left")
        if not isinstance(self.verbose, bool):
            check_integer("verbose", self.verbose, 0)
        fractions = tuple(
            check_real(name, getattr(self, name), 0, 1, closed="right")
            for name in ("colsample_bytree", "colsample_bylevel", "colsample_bynode")
        )
        return GrowerParams(
            frontier=GROW_POLICIES[check_option("grow_policy", self.grow_policy, GROW_POLICIES)],
            max_depth=check_integer("max_depth", self.max_depth, 0, 2**15 - 1, allow_none=True)
            or 0,
            max_leaves=check_integer("max_leaves", self.max_leaves, 0, 2**30),
            min_child_weight=check_real("min_child_weight", self.min_child_weight, 0),
            min_gain=check_real("gamma", self.gamma, 0),
            reg_lambda=check_real("reg_lambda", self.reg_lambda, 0),
            reg_alpha=check_real("reg_alpha", self.reg_alpha, 0),
            max_delta_step=self._longest_step(),
            feature_fractions=fractions,
            # xgboost asks for fewer categories than the parameter says, the grower for at most.
            max_cat_to_onehot=min(
                check_integer("max_cat_to_onehot", self.max_cat_to_onehot, 1) - 1, MOST_CATEGORIES
            ),
        )

    def _constrained(self, params: GrowerParams) -> GrowerParams:
        """Add the constraints on features, now that their names are known."""
        names, mask = getattr(self, "feature_names_in_", None), self._reader.is_categorical
        return replace(
            params,
            monotonic=read_monotonic(
                self.monotone_constraints, names, mask, "monotone_constraints"
            ),
            interaction=read_interactions(
                self.interaction_constraints, names, len(mask), "interaction_constraints"
            ),
        )

    def _longest_step(self) -> float:
        """Largest leaf value; counts have a limit where none is given, as in xgboost."""
        step = check_real("max_delta_step", self.max_delta_step, 0)
        assert step is not None
        return 0.7 if step == 0 and self.objective == "count:poisson" else step

    def _make_loss(self, objective: Any, n_classes: int = 0, n_targets: int = 1) -> Loss:
        return xgboost_loss(
            objective,
            n_classes=n_classes,
            n_targets=n_targets,
            quantile_alpha=self.quantile_alpha,
            expectile_alpha=self.expectile_alpha,
            huber_slope=self.huber_slope,
            tweedie_variance_power=self.tweedie_variance_power,
            max_delta_step=self._longest_step(),
            smooth=self._takes_smooth_losses(),
        )

    def _takes_smooth_losses(self) -> bool:
        """Whether the leaves of robust losses are Newton steps."""
        return True

    def _class_weight(
        self, loss: Loss, target: np.ndarray, weight: np.ndarray | None
    ) -> np.ndarray | None:
        return weight

    def _base_raw(self, loss: Loss, target: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        if self.base_score is None:
            return loss.init_raw(target, weight)
        given = check_base_score(self.base_score)
        if len(given) not in (1, loss.n_outputs):
            raise ValueError(
                f"base_score must be one number or {loss.n_outputs}, one per output, got "
                f"{len(given)}"
            )
        return np.array([loss.link(score) for score in given] * (loss.n_outputs // len(given)))

    def _line_period(self, verbose: bool | int | None) -> int:
        """Return the rounds from one line of the progress report to the next, 0 for none."""
        if verbose is None:
            verbose = self.verbose
        elif not isinstance(verbose, bool):
            check_integer("verbose", verbose, 0)
        return int(verbose)


def _check_continued(before: Loss, loss: Loss) -> None:
    """Check that the raw scores of the model to continue mean what they mean to a loss."""
    if before.n_outputs != loss.n_outputs:
        raise ValueError(
            f"xgb_model has {before.n_outputs} outputs, but this training has {loss.n_outputs}"
        )
    if before.link(0.25) != loss.link(0.25):  # any prediction would do
        raise ValueError(
            f"xgb_model has raw scores of the loss {before.kind!r}, which stand for other "
            f"predictions under the loss {loss.kind!r}: continue with an objective of the same link"
        )


def _scores(
    before: XGBModel | None,
    base_raw: np.ndarray,
    margin: np.ndarray | None,
    values: Any,
    n_threads: int,
) -> np.ndarray:
    """Raw scores that a training starts from, with the trees of the model to continue."""
    raw = np.tile(base_raw, (values.shape[0], 1)) if margin is None else margin.copy()
    if before is not None:
        before.trees_.add_raw(values, raw, n_threads)
    return raw
