"""Numbers and classes as targets of XGBoost's dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hybridtrees.base import RegressorMixin
from hybridtrees.core.base.exact_sum import exact_mean
from hybridtrees.input.validation import check_target_classification, check_target_regression
from hybridtrees.losses import Loss
from hybridtrees.models.shared.boosted_model import BoostedModel
from hybridtrees.models.shared.boosted_trees import StagedClassifierMixin


class BoostedRegressor(RegressorMixin, BoostedModel):
    """What concerns numbers, one or several per row."""

    predict = BoostedModel.predict  # xgboost's, in place of the mixin's

    def _encode_target(
        self, y: Any, n_rows: int, before: BoostedModel | None, max_step: float
    ) -> tuple[np.ndarray, Loss]:
        target = self._read_target(y, n_rows)
        self._n_targets = n_targets = 1 if target.ndim == 1 else target.shape[1]
        if n_targets == 0:
            raise ValueError("y must have at least one target, got an array without columns")
        largest, limit = np.abs(target).max(), float(np.finfo(np.float32).max)
        if largest > limit:  # gradients are float32
            raise ValueError(f"y must not exceed {limit:.3g} in magnitude, got {largest:.3g}")
        name = "reg:squarederror" if self.objective is None else self.objective
        return target, self._make_loss(name, max_step, n_targets=n_targets)

    def _encode_eval_target(self, y: Any, n_rows: int, name: str) -> np.ndarray:
        target = self._read_target(y, n_rows, name=name)
        n_targets = 1 if target.ndim == 1 else target.shape[1]
        if n_targets != self._n_targets:
            raise ValueError(f"{name} must have {self._n_targets} targets, got {n_targets}")
        return target

    def _read_target(self, y: Any, n_rows: int, **how: Any) -> np.ndarray:
        """Return y as a vector, or as a matrix of several targets."""
        name = type(self).__name__
        target = check_target_regression(y, n_rows, multi_output=True, estimator_name=name, **how)
        return target.reshape(n_rows) if target.ndim == 2 and target.shape[1] == 1 else target

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a regressor for one or more targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class BoostedClassifier(StagedClassifierMixin, BoostedModel):
    """What concerns classes."""

    predict = BoostedModel.predict

    def _encode_target(
        self, y: Any, n_rows: int, before: BoostedModel | None, max_step: float
    ) -> tuple[np.ndarray, Loss]:
        known = None if before is None else before.classes_
        codes, classes = check_target_classification(
            y, n_rows, classes=known, at_least_two=True, estimator_name=type(self).__name__
        )
        self.classes_ = classes
        self.n_classes_ = len(classes)
        name = self.objective
        if name is None:
            name = "binary:logistic" if len(classes) == 2 else "multi:softprob"
        loss = self._make_loss(name, max_step, n_classes=len(classes))
        return codes.astype(np.float64), loss

    def _encode_eval_target(self, y: Any, n_rows: int, name: str) -> np.ndarray:
        codes, _ = check_target_classification(
            y, n_rows, classes=self.classes_, name=name, estimator_name=type(self).__name__
        )
        return codes.astype(np.float64)

    def _class_weight(
        self, loss: Loss, target: np.ndarray, weight: np.ndarray | None
    ) -> np.ndarray | None:
        if loss.n_outputs > 1:
            return weight
        factor = np.where(target == 1, float(self.scale_pos_weight), 1.0)
        return factor if weight is None else weight * factor

    def _base_raw(self, loss: Loss, target: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        if self.base_score is not None or self.scale_pos_weight == 1 or loss.kind != "logistic":
            return super()._base_raw(loss, target, weight)
        # With scale_pos_weight xgboost starts after one Newton step from even odds.
        return np.array([4 * exact_mean(target, weight) - 2])

    def predict_proba(
        self,
        X: Any,
        iteration_range: tuple[int, int] | None = None,
        *,
        base_margin: Any = None,
        validate_features: bool = True,
    ) -> np.ndarray:
        """Predict the probability of every class.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        iteration_range, base_margin, validate_features : optional
            As in `predict`.

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`.
        """
        raw = self._raw_scores(X, iteration_range, base_margin=base_margin)
        return self._loss.predict(raw)

    def staged_predict_proba(self, X: Any, *, base_margin: Any = None) -> Iterator[np.ndarray]:
        """Predict probabilities after every round; see `staged_predict`."""
        raws = self._staged_raw(X, base_margin=base_margin)
        return (self._loss.predict(raw) for raw in raws)

    def decision_function(
        self, X: Any, iteration_range: tuple[int, int] | None = None, *, base_margin: Any = None
    ) -> np.ndarray:
        """Raw scores: log-odds of the second class, or one score per class; see `predict`.

        Parameters
        ----------
        X, iteration_range, base_margin
            As in `predict`.

        Returns
        -------
        scores : ndarray of shape (n_rows,) for two classes, else (n_rows, n_classes)
        """
        return self.predict(X, True, iteration_range=iteration_range, base_margin=base_margin)
