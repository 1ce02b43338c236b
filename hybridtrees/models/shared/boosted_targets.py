"""Targets of XGB and PLGB: numbers and classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees.core.base.exact_sum import exact_mean
from hybridtrees.input.validation import check_target_classification
from hybridtrees.losses import Loss
from hybridtrees.models.shared.boosted_model import MAX_CATEGORIES, BoostedModel
from hybridtrees.models.shared.boosted_trees import StagedClassifierMixin
from hybridtrees.models.shared.targets import SeveralTargets


class BoostedRegressor(SeveralTargets, BoostedModel):
    """A regressor for one or more targets.

    Parameters
    ----------
    objective : str, callable or None
        Loss to minimise, by default the first of:
        {xgboost: regression};
        or a function ``objective(y_true, raw[, sample_weight])`` that returns gradients and
        hessians. The absolute and the quantile error are smoothed at 0, in every round in
        proportion to the residuals, like in xgboost since 3.4. Losses of classes take labels as
        numbers, 0, 1, ...: they predict probabilities, but "binary:logitraw" scores and
        "binary:hinge" and "multi:softmax" labels. "reg:linear" is "reg:squarederror".
    scale_pos_weight : float
        Factor on the weights of rows of target 1, for "binary:logistic" and "binary:logitraw".
    base_score : float, list of floats or None
        Initial prediction, or one per output; the best constant by default, such as the mean of y
        for squared error and its median for absolute error.
    quantile_alpha, expectile_alpha : float, list of floats or None
        Levels of "reg:quantileerror" and "reg:expectileerror". With several levels a tree is grown
        for each in every round, and the predictions of a row are sorted, so that they never cross.
    huber_slope : float
        Residual at which "reg:pseudohubererror" changes from squared to absolute error.
    tweedie_variance_power : float
        Variance power of "reg:tweedie", in [1, 2).
    eval_metric : str, callable, list of these or None
        Metrics for the validation tables, by name ("rmse", "mae", "mse", "r2", "mape", "rmsle", and
        that of the objective, which is the default) or as functions
        ``metric(y_true, y_pred[, sample_weight])``, where smaller is better.
    """

    predict = BoostedModel.predict  # with xgboost's options, in place of the mixin's

    def _encode_target(
        self, y: Any, n_rows: int, before: BoostedModel | None, max_step: float
    ) -> tuple[np.ndarray, Loss]:
        # Gradients are float32.
        target = self._read_targets(y, n_rows, float(np.finfo(np.float32).max))
        name = "reg:squarederror" if self.objective is None else self.objective
        return target, self._make_loss(
            name, max_step, n_targets=self._n_targets, n_labels=_count_labels(target)
        )

    def _scale_positives(
        self, loss: Loss, target: np.ndarray, weight: np.ndarray | None
    ) -> np.ndarray | None:
        if loss.kernel != "logistic" or loss.n_outputs > 1:
            return weight
        return _scaled(target, weight, self.scale_pos_weight)

    def _base_raw(self, loss: Loss, target: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        start = _scaled_start(self, loss, target, weight)
        return super()._base_raw(loss, target, weight) if start is None else start


class BoostedClassifier(ClassWeightMixin, StagedClassifierMixin, BoostedModel):
    """A classifier.

    Parameters
    ----------
    objective : str, callable or None
        Loss to minimise, one of:
        {xgboost: classification};
        or a function ``objective(y_true, raw[, sample_weight])`` that returns gradients and
        hessians. By default "binary:logistic" for two classes, and "multi:softprob", which also
        takes its place, for more. "binary:hinge" gives labels without probabilities;
        "binary:logitraw" and "reg:logistic" are the same as "binary:logistic", "multi:softmax" as
        "multi:softprob", "reg:linear" as "reg:squarederror".
    scale_pos_weight : float
        Factor on the weights of the second of two classes.
    base_score : float, list of floats or None
        Initial probability of the second of two classes; with more classes, one raw score for all
        or one for each. The shares of the classes by default.
    quantile_alpha, expectile_alpha, huber_slope, tweedie_variance_power : float, list or None
        For regression objectives; not used.
    eval_metric : str, callable, list of these or None
        Metrics for the validation tables: "logloss", "error", "auc", "aucpr", "brier" for two
        classes, "mlogloss", "merror", "auc", "aucpr" for more, or functions of class codes and
        probabilities, those of the second class or of each; the log-loss by default.
    """

    predict = BoostedModel.predict

    def _encode_target(
        self, y: Any, n_rows: int, before: BoostedModel | None, max_step: float
    ) -> tuple[np.ndarray, Loss]:
        known = None if before is None else vars(before)["classes_"]
        codes, classes = check_target_classification(
            y, n_rows, classes=known, at_least_two=True, estimator_name=type(self).__name__
        )
        self.classes_ = classes
        self.n_classes_ = len(classes)
        name = self.objective
        if name is None or (isinstance(name, str) and name == "binary:logistic"):
            # The default of xgboost's classifier for any number of classes is "binary:logistic".
            name = "binary:logistic" if len(classes) == 2 else "multi:softprob"
        loss = self._make_loss(name, max_step, n_classes=len(classes))
        return codes.astype(np.float64), loss

    def _scale_positives(
        self, loss: Loss, target: np.ndarray, weight: np.ndarray | None
    ) -> np.ndarray | None:
        if loss.n_outputs > 1:
            return weight
        return _scaled(target, weight, self.scale_pos_weight)

    def _base_raw(self, loss: Loss, target: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        start = _scaled_start(self, loss, target, weight)
        return super()._base_raw(loss, target, weight) if start is None else start

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
        iteration_range : pair of int, optional
            First round to use, and one past the last; (0, 0) for all rounds.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Initial raw scores, in place of `base_score`.
        validate_features : bool, default=True
            Not used: features are always validated.

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`.
        """
        raw = self._raw_scores(X, iteration_range, base_margin=base_margin)
        return self._calibrated(np.asarray(self._loss.predict(raw)))

    def _final(self, raw: np.ndarray) -> np.ndarray:
        if not self._is_calibrated():
            return self._from_raw(raw)
        proba = self._calibrated(np.asarray(self._loss.predict(raw)))
        return np.asarray(self.classes_[proba.argmax(axis=1)])

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
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        iteration_range : pair of int, optional
            First round to use, and one past the last; (0, 0) for all rounds.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Initial raw scores, in place of `base_score`.

        Returns
        -------
        scores : ndarray of shape (n_rows,) for two classes, else (n_rows, n_classes)
        """
        return self.predict(X, True, iteration_range=iteration_range, base_margin=base_margin)


def _count_labels(target: np.ndarray) -> int:
    """Return the number of classes if targets are their numbers; else the loss will refuse them."""
    largest = target.max()
    return int(largest) + 1 if 1 <= largest < MAX_CATEGORIES else 2


def _scaled(target: np.ndarray, weight: np.ndarray | None, factor: float) -> np.ndarray:
    """Return the weights of rows, times a factor where the target is 1."""
    factors = np.where(target == 1, float(factor), 1.0)
    return factors if weight is None else weight * factors


def _scaled_start(
    model: BoostedModel, loss: Loss, target: np.ndarray, weight: np.ndarray | None
) -> np.ndarray | None:
    """Return where xgboost starts with `scale_pos_weight`: one Newton step from even odds."""
    if model.base_score is not None or model.scale_pos_weight == 1 or loss.kernel != "logistic":
        return None
    return np.array([4 * exact_mean(target, weight) - 2])
