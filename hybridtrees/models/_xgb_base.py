"""What the XGBoost-style regressor and classifier share: all but the target and the loss."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from hybridtrees._parameters import check_integer, check_option, check_real
from hybridtrees._random import seed_sequence
from hybridtrees._threads import effective_threads
from hybridtrees._validation import (
    check_sample_weight,
)
from hybridtrees.base import Estimator, atomic_fit
from hybridtrees.core.bins import BinMapper
from hybridtrees.core.grow import GrowerParams
from hybridtrees.core.tree import TreeEnsemble
from hybridtrees.losses import Loss
from hybridtrees.metrics import get_metric
from hybridtrees.models._boosting import BoostingPlan, EvalSet, boost
from hybridtrees.models._importance import IMPORTANCE_TYPES, split_importance

GROW_POLICIES = {"depthwise": "depth-wise", "lossguide": "best-first"}


class XGBModel(Estimator):
    """What the regressor and the classifier share: everything but the target and the loss."""

    def __init__(
        self,
        *,
        objective: str | None = None,
        n_estimators: int = 100,
        max_depth: int | None = 6,
        max_leaves: int = 0,
        max_bin: int = 256,
        grow_policy: str = "depthwise",
        learning_rate: float = 0.3,
        tree_method: str = "hist",
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
        base_score: float | None = None,
        missing: float = math.nan,
        categorical_features: Any = None,
        max_cat_to_onehot: int = 4,
        importance_type: str = "gain",
        early_stopping_rounds: int | None = None,
        eval_metric: str | Sequence[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.objective = objective
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.max_bin = max_bin
        self.grow_policy = grow_policy
        self.learning_rate = learning_rate
        self.tree_method = tree_method
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
        self.max_cat_to_onehot = max_cat_to_onehot
        self.importance_type = importance_type
        self.early_stopping_rounds = early_stopping_rounds
        self.eval_metric = eval_metric
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- what the two differ in -----------------------------------------------------------------

    _objectives: dict[str, type[Loss]] = {}

    def _encode_target(self, y: Any, n_rows: int) -> tuple[np.ndarray, Loss]:
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
    ) -> Self:
        """Fit the trees.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            NaN means missing. String and category columns of a data frame are categories.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
        eval_set : list of (X, y) pairs, optional
            Tables to watch the training on, named validation_0, validation_1, ...
        sample_weight_eval_set : list of array-likes, optional
            Weights of the rows of each pair in `eval_set`.
        X_val, y_val, sample_weight_val : optional
            One more such table, behind those of `eval_set`.
        verbose : bool or int, optional
            Print a line every so many rounds. Overrides the constructor's.

        Returns
        -------
        self : estimator
        """
        grower = self._grower_params()
        n_threads = effective_threads(self.n_jobs)
        seeds = seed_sequence(self.random_state)
        values = self._fit_features(
            X, categorical_features=self.categorical_features, missing=self.missing
        )
        # Threads wait for each other longer than they work on a small table.
        n_threads = min(n_threads, 1 + values.shape[0] * values.shape[1] // 16384)
        target, loss = self._encode_target(y, values.shape[0])
        weight = check_sample_weight(sample_weight, values.shape[0])
        weight = self._class_weight(loss, target, weight)
        eval_sets = list(
            self._eval_sets(eval_set, sample_weight_eval_set, (X_val, y_val, sample_weight_val))
        )
        plan = self._plan(loss, grower, eval_sets, verbose, n_threads)
        base_raw = self._base_raw(loss, target, weight)
        mapper = BinMapper(
            max_bins=min(self.max_bin, 255),
            categorical_features=self._reader.is_categorical,
            n_jobs=n_threads,
        )
        binned = mapper.fit_transform(values, weight)
        result = boost(
            binned,
            target,
            weight,
            base_raw,
            plan,
            eval_sets=eval_sets,
            category_to_bin=mapper.category_to_bin_,
            seeds=seeds.spawn(1)[0],
        )
        self.trees_ = TreeEnsemble(
            result.trees, self.n_features_in_, loss.n_outputs, result.tree_output
        )
        self.n_iter_ = result.n_rounds
        self._loss = loss
        self._base_raw_ = base_raw
        self._evals_result = result.evals_result
        stopping = self.early_stopping_rounds is not None
        self._best_iteration = result.best_round if stopping else None
        self._best_score = result.best_score if stopping else None
        return self

    def _grower_params(self) -> GrowerParams:
        """Check the parameters, all before any work."""
        check_integer("n_estimators", self.n_estimators, 1)
        check_integer("max_bin", self.max_bin, 2, 256)
        check_real("learning_rate", self.learning_rate, 0, closed="right")
        check_real("subsample", self.subsample, 0, 1, closed="right")
        check_real("scale_pos_weight", self.scale_pos_weight, 0, closed="right")
        check_real("base_score", self.base_score, allow_none=True)
        check_option("tree_method", self.tree_method, ("hist", "auto"))
        check_option("importance_type", self.importance_type, IMPORTANCE_TYPES)
        check_integer("early_stopping_rounds", self.early_stopping_rounds, 1, allow_none=True)
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
            max_delta_step=check_real("max_delta_step", self.max_delta_step, 0),
            feature_fractions=fractions,
            # xgboost asks for fewer categories than the parameter says, the grower for at most.
            max_cat_to_onehot=check_integer("max_cat_to_onehot", self.max_cat_to_onehot, 1) - 1,
        )

    def _class_weight(
        self, loss: Loss, target: np.ndarray, weight: np.ndarray | None
    ) -> np.ndarray | None:
        return weight

    def _base_raw(self, loss: Loss, target: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        if self.base_score is None:
            return loss.init_raw(target, weight)
        return np.full(loss.n_outputs, loss.link(float(self.base_score)))

    def _plan(
        self,
        loss: Loss,
        grower: GrowerParams,
        eval_sets: list[EvalSet],
        verbose: bool | int | None,
        n_threads: int,
    ) -> BoostingPlan:
        names = loss.metrics[0] if self.eval_metric is None else self.eval_metric
        if not isinstance(names, list | tuple):
            names = [names]
        if not names:
            raise ValueError("eval_metric must name at least one metric, got an empty list")
        names = [check_option("eval_metric", name, loss.metrics) for name in names]
        metrics = [get_metric(name) for name in dict.fromkeys(names)]
        if verbose is None:
            verbose = self.verbose
        elif not isinstance(verbose, bool):
            check_integer("verbose", verbose, 0)
        if self.early_stopping_rounds is not None and not eval_sets:
            raise ValueError("early_stopping_rounds needs an eval_set (or X_val and y_val) in fit")
        return BoostingPlan(
            loss=loss,
            grower=grower,
            n_rounds=self.n_estimators,
            learning_rate=float(self.learning_rate),
            subsample=float(self.subsample),
            metrics=metrics,
            early_stopping_rounds=self.early_stopping_rounds,
            verbose=int(verbose),
            n_threads=n_threads,
        )

    def _eval_sets(
        self,
        pairs: Sequence[tuple[Any, Any]] | None,
        weights: Sequence[Any] | None,
        last: tuple[Any, Any, Any],
    ) -> Iterator[EvalSet]:
        """Read the validation tables in the form that fit has learned."""
        for name, given in (("eval_set", pairs), ("sample_weight_eval_set", weights)):
            if not isinstance(given, list | tuple | None):
                raise TypeError(f"{name} must be a list, got {type(given).__name__}")
        pairs = list(pairs or ())
        weights = [None] * len(pairs) if weights is None else list(weights)
        if len(weights) != len(pairs):
            raise ValueError(
                f"sample_weight_eval_set must have one entry per pair of eval_set, got "
                f"{len(weights)} for {len(pairs)}"
            )
        if (last[0] is None) != (last[1] is None):
            raise ValueError("X_val and y_val go together: one of them is missing")
        if last[0] is None and last[2] is not None:
            raise ValueError("sample_weight_val needs X_val and y_val")
        if last[0] is not None:
            pairs.append(last[:2])
            weights.append(last[2])
        for index, (pair, weight) in enumerate(zip(pairs, weights, strict=True)):
            name = f"validation_{index}"
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                what = type(pair).__name__
                raise ValueError(f"eval_set[{index}] must be a pair (X, y), got {what}")
            values = self._reader.read(pair[0])
            n_rows = values.shape[0]
            y = self._encode_eval_target(pair[1], n_rows, f"the y of {name}")
            weight = check_sample_weight(weight, n_rows, name=f"the sample_weight of {name}")
            yield EvalSet(name, values, y, weight)

    # -- predict --------------------------------------------------------------------------------

    def predict_raw(self, X: Any) -> np.ndarray:
        """Add up the trees, before the link.

        After early stopping only the trees up to the best round count.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        raw : ndarray of shape (n_rows, n_outputs)
        """
        values = self._read_features(X)
        n_rows = values.shape[0]
        raw = np.empty((n_rows, len(self._base_raw_)))
        raw[:] = self._base_raw_
        # A few rows are done before a second thread would have woken up.
        n_threads = 1 if n_rows < 512 else effective_threads(self.n_jobs)
        self.trees_.add_raw(values, raw, n_threads, 0, self._n_trees_used())
        return raw

    def _n_trees_used(self) -> int:
        if self._best_iteration is None:
            return self.trees_.n_trees
        return (self._best_iteration + 1) * len(self._base_raw_)

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row in each tree.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        leaves : ndarray of int32, shape (n_rows, n_trees)
            Node numbers within the trees, which stand round by round and, within a round, class
            by class.
        """
        values = self._read_features(X)
        n_threads = effective_threads(self.n_jobs)
        return self.trees_.apply(values, n_threads, 0, self._n_trees_used())

    # -- reading the model ----------------------------------------------------------------------

    def get_score(self, importance_type: str | None = None) -> np.ndarray:
        """Return the importance of every feature, not normalised.

        Parameters
        ----------
        importance_type : {"weight", "gain", "cover", "total_gain", "total_cover"}, optional
            Number of splits; mean gain or cover (sum of hessians) of a split; their totals. By
            default the constructor's.

        Returns
        -------
        importance : ndarray of shape (n_features,)
        """
        self._check_is_fitted()
        return split_importance(self.trees_, importance_type or self.importance_type)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Importances of `importance_type`, summing to 1 (all 0 where no tree has a split)."""
        importance = self.get_score()
        total = importance.sum()
        return importance / total if total > 0 else importance

    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """Scores of every round: ``{"validation_0": {"rmse": [...]}, ...}``."""
        self._check_is_fitted()
        if not self._evals_result:
            raise ValueError("no evaluation results: fit was called without an eval_set")
        return self._evals_result

    @property
    def best_iteration(self) -> int:
        """Round with the best score, with early stopping."""
        return self._stopped("best_iteration", "_best_iteration")

    @property
    def best_score(self) -> float:
        """Score of the best round, with early stopping."""
        return self._stopped("best_score", "_best_score")

    def _stopped(self, name: str, attribute: str) -> Any:
        self._check_is_fitted()
        value = getattr(self, attribute)
        if value is None:
            raise AttributeError(f"{name} is there only after a fit with early_stopping_rounds")
        return value
