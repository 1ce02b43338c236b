"""Predictions and reports of XGB and PLGB: scores, leaves, importances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import attribute
from hybridtrees.core.base.checks import check_arrays
from hybridtrees.models.shared.boosted_trees import BoostedTrees
from hybridtrees.models.shared.boosting_evaluation import read_margin
from hybridtrees.models.shared.fitted_checks import check_boosting, check_round
from hybridtrees.models.shared.importance import ImportanceType, shares, split_importance


class BoostedPrediction(BoostedTrees):
    """Predictions and reports of XGB and PLGB, with xgboost's names and options.

    Attributes
    ----------
    best_iteration, best_score : int, float
        With early stopping: the best round, and its score.
    """

    n_estimators: int = attribute()
    importance_type: ImportanceType = attribute()
    _base_raw_: np.ndarray = attribute()
    _best_iteration: int | None = attribute()
    _best_score: float | None = attribute()
    _evals_result: dict[str, dict[str, list[float]]] = attribute()

    def _check_fitted(self) -> None:
        if "trees_" in vars(self):
            check_arrays(self, {"_base_raw_": ("f8", "n_outputs")})
            check_boosting(self, self._base_raw_)
            check_round(self, "_best_iteration")

    def _best_round(self) -> int | None:
        return self._best_iteration

    def _constant_start(self) -> np.ndarray:
        return self._base_raw_

    def _start_raw(self, X: Any, n_rows: int, *, base_margin: Any = None) -> np.ndarray:
        margin = read_margin(base_margin, n_rows, len(self._base_raw_))
        if margin is not None:
            return margin
        raw = np.empty((n_rows, len(self._base_raw_)))
        raw[:] = self._base_raw_
        return raw

    def predict_raw(
        self, X: Any, iteration_range: tuple[int, int] | None = None, *, base_margin: Any = None
    ) -> np.ndarray:
        """Predict raw scores, the sums of the trees before the link.

        With early stopping, only the trees up to the best round count.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        iteration_range : pair of int, optional
            First round to use, and one past the last; (0, 0) for all rounds.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Initial raw scores, in place of `base_score`.

        Returns
        -------
        raw : ndarray of shape (n_rows, n_outputs)
        """
        return self._raw_scores(X, iteration_range, base_margin=base_margin)

    def predict(
        self,
        X: Any,
        output_margin: bool = False,
        *,
        iteration_range: tuple[int, int] | None = None,
        pred_leaf: bool = False,
        base_margin: Any = None,
        validate_features: bool = True,
    ) -> np.ndarray:
        """Predict numbers, or the most probable class.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        output_margin : bool, default=False
            Return the raw scores, before the link.
        iteration_range : pair of int, optional
            First round to use, and one past the last; (0, 0) for all rounds. By default all; with
            early stopping, those up to the best.
        pred_leaf : bool, default=False
            Return the leaves, as `apply` does.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Initial raw scores, in place of `base_score`.
        validate_features : bool, default=True
            Not used: features are always validated.

        Returns
        -------
        prediction : ndarray of shape (n_rows,), or (n_rows, n_outputs) for several targets, \
quantiles or expectiles
        """
        if pred_leaf:
            return self.apply(X, iteration_range)
        raw = self._raw_scores(X, iteration_range, base_margin=base_margin)
        if output_margin:
            return raw[:, 0] if raw.shape[1] == 1 else raw
        return self._final(raw)

    def _final(self, raw: np.ndarray) -> np.ndarray:
        """Turn the scores of all rounds into predictions."""
        return self._from_raw(raw)

    def staged_predict(self, X: Any, *, base_margin: Any = None) -> Iterator[np.ndarray]:
        """Predict after every round; with early stopping, up to the best. See `predict`."""
        raws = self._staged_raw(X, base_margin=base_margin)
        return (self._from_raw(raw).copy() for raw in raws)

    def apply(self, X: Any, iteration_range: tuple[int, int] | None = None) -> np.ndarray:
        """Return the leaf of each row in each tree.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        iteration_range : pair of int, optional
            First round to use, and one past the last; (0, 0) for all rounds.

        Returns
        -------
        leaves : ndarray of int32, shape (n_rows, n_trees)
            Indices of nodes. Trees are ordered by round and, within a round, by output.
        """
        return self._leaves(X, iteration_range)

    # -- reading the model ----------------------------------------------------------------------

    def get_score(self, importance_type: str | None = None) -> np.ndarray:
        """Return the importance of every feature, not normalised.

        Parameters
        ----------
        importance_type : {"weight", "gain", "cover", "total_gain", "total_cover"}, optional
            Number of splits; mean gain or cover (sum of hessians) of a split; their totals. The
            constructor's `importance_type` by default.

        Returns
        -------
        importance : ndarray of shape (n_features,)
        """
        self._check_is_fitted()
        return split_importance(self.trees_, importance_type or self.importance_type or "gain")

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Importances of `importance_type`, summing to 1 (all 0 where no tree has a split)."""
        importance = self.get_score()
        if np.isinf(importance).any():
            # Rows without curvature make infinite gains, beside which others do not count.
            importance = np.isinf(importance).astype(np.float64)
        return shares(importance)

    def _training_text(self) -> str:
        text = f"{self._loss.kind} loss"
        if self._best_iteration is None:
            return text
        best = f"best round {self._best_iteration} with a score of {self._best_score:.6g}"
        return f"{text}\nstopped early, {best}"

    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """Return the scores of every round: ``{"validation_0": {"rmse": [...]}, ...}``."""
        self._check_is_fitted()
        if not self._evals_result:
            raise ValueError("no evaluation results: fit was called without an eval_set")
        return self._evals_result

    def get_num_boosting_rounds(self) -> int:
        """Return `n_estimators`, the number of rounds to run; `n_iter_` were run."""
        n_rounds: int = type(self).n_estimators if self.n_estimators is None else self.n_estimators
        return n_rounds

    @property
    def best_iteration(self) -> int:
        """Round with the best score, with early stopping."""
        return int(self._stopped("best_iteration", "_best_iteration"))

    @property
    def best_score(self) -> float:
        """Score of the best round, with early stopping."""
        return float(self._stopped("best_score", "_best_score"))

    def _stopped(self, name: str, attribute: str) -> Any:
        self._check_is_fitted()
        value = getattr(self, attribute)
        if value is None:
            raise AttributeError(
                f"{name} is available only after a fit with early_stopping_rounds or a callback "
                "that stops early"
            )
        return value
