"""What a fitted XGBoost-style model can be asked: scores, leaves, importances, curves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hybridtrees._parameters import check_integer
from hybridtrees.base import Estimator
from hybridtrees.core.base.checks import check_arrays
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.losses import Loss
from hybridtrees.models.shared.boosting_summary import boosting_summary
from hybridtrees.models.shared.fitted_checks import check_boosting, check_round
from hybridtrees.models.shared.importance import split_importance
from hybridtrees.models.xgb.margin import read_margin


class FittedXGB(Estimator):
    """Predictions and readings of the regressor and the classifier."""

    n_estimators: int
    n_jobs: int | None
    importance_type: str
    trees_: TreeEnsemble
    n_iter_: int
    _loss: Loss
    _base_raw_: np.ndarray
    _best_iteration: int | None
    _best_score: float | None
    _evals_result: dict[str, dict[str, list[float]]]

    def _check_fitted(self) -> None:
        if "trees_" in vars(self):
            check_arrays(self, {"_base_raw_": ("f8", "n_outputs")})
            check_boosting(self, self._base_raw_)
            check_round(self, "_best_iteration")

    # -- predict --------------------------------------------------------------------------------

    def predict_raw(
        self,
        X: Any,
        iteration_range: tuple[int, int] | None = None,
        *,
        base_margin: Any = None,
    ) -> np.ndarray:
        """Add up the trees, before the link.

        After early stopping only the trees up to the best round count.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        iteration_range : pair of int, optional
            First round and the round behind the last that count; (0, 0) for all of them.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Raw scores to start from, in place of `base_score`.

        Returns
        -------
        raw : ndarray of shape (n_rows, n_outputs)
        """
        values = self._read_features(X)
        raw = self._starting_raw(values.shape[0], base_margin)
        n_threads = self._predict_threads(values.shape[0])
        self.trees_.add_raw(values, raw, n_threads, *self._tree_range(iteration_range))
        return raw

    def _starting_raw(self, n_rows: int, base_margin: Any) -> np.ndarray:
        margin = read_margin(base_margin, n_rows, len(self._base_raw_))
        if margin is not None:
            return margin
        raw = np.empty((n_rows, len(self._base_raw_)))
        raw[:] = self._base_raw_
        return raw

    def _predict_threads(self, n_rows: int) -> int:
        # A few rows are done before a second thread would have woken up.
        return 1 if n_rows < 512 else effective_threads(self.n_jobs)

    def _staged_raw(self, X: Any, base_margin: Any) -> Iterator[np.ndarray]:
        """Raw scores after every round that predictions use, all in the same array."""
        values = self._read_features(X)
        raw = self._starting_raw(values.shape[0], base_margin)
        n_outputs, (_, last) = raw.shape[1], self._tree_range(None)
        n_threads = self._predict_threads(values.shape[0])
        for first in range(0, last, n_outputs):
            self.trees_.add_raw(values, raw, n_threads, first, first + n_outputs)
            yield raw

    def _tree_range(self, iteration_range: tuple[int, int] | None) -> tuple[int, int]:
        """First tree of a range of rounds, and the one behind the last."""
        n_outputs = len(self._base_raw_)
        if iteration_range is None:
            best = self._best_iteration
            return 0, (self.n_iter_ if best is None else best + 1) * n_outputs
        if not isinstance(iteration_range, tuple | list) or len(iteration_range) != 2:
            raise ValueError(f"iteration_range must be a pair of rounds, got {iteration_range!r}")
        first, last = (
            check_integer("iteration_range", k, 0, self.n_iter_) for k in iteration_range
        )
        assert first is not None and last is not None
        last = last or self.n_iter_
        if first > last:
            raise ValueError(f"iteration_range must not end before it starts, got {first}, {last}")
        return first * n_outputs, last * n_outputs

    def apply(self, X: Any, iteration_range: tuple[int, int] | None = None) -> np.ndarray:
        """Leaf of each row in each tree.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        iteration_range : pair of int, optional
            As in `predict_raw`.

        Returns
        -------
        leaves : ndarray of int32, shape (n_rows, n_trees)
            Node numbers within the trees, which stand round by round and, within a round, class
            by class.
        """
        values = self._read_features(X)
        n_threads = self._predict_threads(values.shape[0])
        return self.trees_.apply(values, n_threads, *self._tree_range(iteration_range))

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
        if np.isinf(importance).any():
            # A gain beyond all numbers, of rows without curvature: nothing else counts.
            importance = np.isinf(importance).astype(np.float64)
        total = importance.sum()
        return importance / total if total > 0 else importance

    def summary(self) -> str:
        """Return a short account of the model in words.

        Returns
        -------
        text : str
        """
        self._check_is_fitted()
        best = self._best_iteration
        text = f"{self._loss.kind} loss"
        if best is not None:
            text += f"\nstopped early, best round {best} with a score of {self._best_score:.6g}"
        return boosting_summary(self, text)

    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """Scores of every round: ``{"validation_0": {"rmse": [...]}, ...}``."""
        self._check_is_fitted()
        if not self._evals_result:
            raise ValueError("no evaluation results: fit was called without an eval_set")
        return self._evals_result

    def get_num_boosting_rounds(self) -> int:
        """Return the rounds of a training, `n_estimators`; see `n_iter_` for those that ran."""
        return self.n_estimators

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
            raise AttributeError(
                f"{name} is there only after a fit with early_stopping_rounds, or with a callback "
                "that stops early"
            )
        return value
