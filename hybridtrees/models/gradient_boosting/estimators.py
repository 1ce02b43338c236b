"""Friedman's gradient boosting, with scikit-learn's parameter names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees._parameters import check_real
from hybridtrees.input.validation import check_target_classification
from hybridtrees.losses import Loss, check_levels, friedman_loss, lists_losses
from hybridtrees.models.gradient_boosting.base import GradientBoostingModel, Part
from hybridtrees.models.shared.boosted_trees import StagedClassifierMixin
from hybridtrees.models.shared.targets import LARGEST_TARGET, SeveralTargets

_LARGEST_SINGLE = float(np.finfo(np.float32).max)


@lists_losses
class GradientBoostingRegressor(SeveralTargets, GradientBoostingModel):
    """Gradient boosting for regression (Friedman 2001, 2002).

    Every round grows a regression tree on the negative gradients of the loss, and sets its leaves
    to the values that minimise the loss of their rows. Takes the parameters of scikit-learn's
    ``GradientBoostingRegressor``, with the same defaults; with exact splits the model is the same
    unless splits tie. With several targets every round grows a tree for each, and early stopping
    takes the mean of their losses.

    Parameters
    ----------
    loss : str
        Loss to minimise:
        {friedman: regression}.
        "poisson", "gamma" and "tweedie" have a log link.
    init : None, "zero" or estimator
        Initial scores: the constant that minimises the loss, zero, or the predictions of a fitted
        copy of an estimator.
    eval_metric : str, callable, list of these or None
        Metrics for the validation tables: "loss" (the default), names of metrics that suit the loss
        ("rmse", "mae", "mse", "r2", "mape", "rmsle", ...), or functions
        ``metric(y_true, y_pred[, sample_weight])``, where smaller is better.
    alpha : float or list of floats
        Level of the quantile, or the quantile of the absolute residuals at which "huber" changes
        from squared to absolute error. With several levels of "quantile" a tree is grown for each
        in every round, and the predictions of a row are sorted, so that quantiles never cross
        (rearrangement, Chernozhukov, Fernandez-Val and Galichon 2010).
    power : float
        Variance power of "tweedie", from 1 to 2.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import GradientBoostingRegressor
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = GradientBoostingRegressor().fit(X, X[:, 0] > 100)
    >>> model.predict(X[:1]).round(2)
    array([0.])
    """

    loss: str = "squared_error"
    alpha: float | Sequence[float] = 0.9
    power: float = 1.5

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_levels("alpha", self.alpha)
        check_real("power", self.power, 1, 2)
        friedman_loss(self.loss, alpha=self.alpha, power=self.power)

    def _make_loss(self) -> Loss:
        return friedman_loss(
            self.loss, n_targets=self._n_targets, alpha=self.alpha, power=self.power
        )

    def _encode_target(self, y: Any, n_rows: int, again: bool) -> np.ndarray:
        # Histograms take float32 gradients.
        limit = _LARGEST_SINGLE if self._uses_bins(n_rows) else LARGEST_TARGET
        return self._read_targets(y, n_rows, limit)

    def _predictions(self, X: Any) -> np.ndarray:
        return self._from_raw(self._raw_scores(X))


@lists_losses
class GradientBoostingClassifier(ClassWeightMixin, StagedClassifierMixin, GradientBoostingModel):
    """Gradient boosting for classification (Friedman 2001, 2002).

    One tree per round for two classes, one per class and round for more; leaf values are one Newton
    step. Takes the parameters of scikit-learn's ``GradientBoostingClassifier``, with the same
    defaults; with exact splits the model is the same unless splits tie.

    Parameters
    ----------
    loss : str
        Loss to minimise:
        {friedman: classification}.
        The first is the binomial or multinomial deviance, "exponential" the loss of AdaBoost, for
        two classes.
    init : None, "zero" or estimator
        Initial scores: the shares of the classes, zero, or the probabilities of a copy of an
        estimator, fitted to class codes.
    eval_metric : str, callable, list of these or None
        Metrics for the validation tables: "loss" (the default), "logloss", "error", "auc", "aucpr",
        "brier", "rmse", "mae" for two classes, "loss", "mlogloss", "merror", "auc", "aucpr" for
        more, or functions of class codes and probabilities, those of the second class or of each.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import GradientBoostingClassifier
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> labels = np.where(X[:, 0] > 100, "high", "low")
    >>> GradientBoostingClassifier(n_estimators=20).fit(X, labels).predict(X[-1:])
    array(['high'], dtype='<U4')
    """

    _is_classifier = True

    loss: str = "log_loss"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        friedman_loss(self.loss, n_classes=2)

    def _make_loss(self) -> Loss:
        return friedman_loss(self.loss, n_classes=self.n_classes_)

    def _encode_target(self, y: Any, n_rows: int, again: bool) -> np.ndarray:
        known = self.classes_ if again else None
        codes, classes = check_target_classification(
            y, n_rows, classes=known, estimator_name=type(self).__name__
        )
        self.classes_ = classes
        self.n_classes_ = len(classes)
        return codes.astype(np.float64)

    def _weighted_part(self, X: Any, values: Any, y: Any, sample_weight: Any, again: bool) -> Part:
        """Return the rows of positive weight, which must have at least two classes."""
        part = super()._weighted_part(X, values, y, sample_weight, again)
        if part.y.min() == part.y.max():
            where = "" if len(part.y) == values.shape[0] else " where sample_weight is positive"
            raise ValueError(
                f"{type(self).__name__} needs at least two classes, but y holds the one class "
                f"{self.classes_.tolist()[int(part.y[0])]!r}{where}"
            )
        return part

    def _draw_validation(self, rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
        """Sample the rows to hold out, stratified by class; one row of each class stays."""
        counts = np.bincount(y.astype(np.intp), minlength=self.n_classes_)
        wanted = self.validation_fraction * counts
        held = np.minimum(np.floor(wanted).astype(np.intp), np.maximum(counts - 1, 0))
        missing = max(1, round(self.validation_fraction * len(y))) - held.sum()
        # The rows lost by rounding down come from the classes that lost most.
        for code in np.argsort(held - wanted, kind="stable"):
            if missing > 0 and held[code] < counts[code] - 1:
                held[code] += 1
                missing -= 1
        if held.sum() == 0:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} holds out none of the {len(y)} "
                "rows, since every class needs one for training; pass X_val"
            )
        drawn = [
            rng.choice(np.flatnonzero(y == code), count, replace=False)
            for code, count in enumerate(held)
        ]
        return np.sort(np.concatenate(drawn))

    def _raw_codes(self, raw: np.ndarray) -> np.ndarray:
        # Even odds go to the second class, as in scikit-learn.
        return (raw[:, 0] >= 0).astype(np.intp) if raw.shape[1] == 1 else raw.argmax(axis=1)

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Predict raw scores after every round; with early stopping, up to the best round.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        scores : ndarray
            As from `decision_function`, by the rounds so far.
        """
        for raw in self._staged_raw(X):
            yield (raw[:, 0] if raw.shape[1] == 1 else raw).copy()
