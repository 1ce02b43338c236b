"""The classifier of gradient boosting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hybridtrees.input.validation import check_target_classification
from hybridtrees.losses import Loss, friedman_loss, lists_losses
from hybridtrees.models.gradient_boosting.base import GradientBoostingModel, Part
from hybridtrees.models.shared.boosted_trees import StagedClassifierMixin


@lists_losses
class GradientBoostingClassifier(StagedClassifierMixin, GradientBoostingModel):
    """Gradient boosting (Friedman 2001, 2002), for classes.

    One tree per round for two classes, one per class and round for more, with leaf values of one
    Newton step. Takes the parameters of scikit-learn's ``GradientBoostingClassifier``, with the
    same defaults; with exact splits it makes the same model where no two splits are equally
    good.

    Parameters
    ----------
    loss : str, default="log_loss"
        What is minimised:
        {friedman: classification}.
        The first is the binomial or multinomial deviance, "exponential" AdaBoost's loss of two
        classes.
    learning_rate, n_estimators, subsample, criterion, min_samples_split, min_samples_leaf, \
min_weight_fraction_leaf, max_depth, min_impurity_decrease, random_state, max_features, \
verbose, max_leaf_nodes, warm_start, validation_fraction, n_iter_no_change, tol, ccp_alpha, \
splitter, max_bins, categorical_features, interaction_cst, n_jobs
        As in `GradientBoostingRegressor`; the rows held out have equal shares of each class.
    monotonic_cst : array-like or dict, optional
        As in `GradientBoostingRegressor`, for the probability of the second of two classes.
    eval_metric : str, callable or list of these, optional
        "loss" (the default), "logloss", "error", "auc", "aucpr", "brier", "rmse", "mae" for two
        classes, "loss", "mlogloss", "merror", "auc", "aucpr" for more, or functions, which get
        class numbers, and probabilities of the second class or of each.
    init : None, "zero" or estimator, default=None
        Where to start: at the shares of the classes, at a raw score of zero, or at the
        probabilities of an estimator, of which a copy is fitted to class numbers.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_classes_ : int
    trees_, n_estimators_, n_iter_, n_trees_per_iteration_, init_, train_score_, \
oob_improvement_, oob_scores_, oob_score_, evals_result_, validation_scores_, best_iteration_, \
best_score_, max_features_, splitter_, feature_importances_, n_features_in_, feature_names_in_
        As in `GradientBoostingRegressor`.

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
        """Rows with a weight, which must be of two classes or more."""
        part = super()._weighted_part(X, values, y, sample_weight, again)
        if part.y.min() == part.y.max():
            where = "" if len(part.y) == values.shape[0] else " where sample_weight is positive"
            raise ValueError(
                f"{type(self).__name__} needs at least two classes, but y holds the one class "
                f"{self.classes_.tolist()[int(part.y[0])]!r}{where}"
            )
        return part

    def _encode_validation(self, y: Any, n_rows: int, name: str) -> np.ndarray:
        codes, _ = check_target_classification(
            y, n_rows, classes=self.classes_, name=name, estimator_name=type(self).__name__
        )
        return codes.astype(np.float64)

    def _draw_validation(self, rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
        """Rows to hold out, as many of each class as its share; one row of each stays."""
        counts = np.bincount(y.astype(np.intp), minlength=self.n_classes_)
        wanted = self.validation_fraction * counts
        held = np.minimum(np.floor(wanted).astype(np.intp), np.maximum(counts - 1, 0))
        missing = max(1, round(self.validation_fraction * len(y))) - held.sum()
        # The rest of the rows come from the classes whose shares were cut the most.
        for code in np.argsort(held - wanted, kind="stable"):
            if missing > 0 and held[code] < counts[code] - 1:
                held[code] += 1
                missing -= 1
        if held.sum() == 0:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} holds out none of the {len(y)} "
                "rows, for every class needs one to train on; give X_val"
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
        """Raw scores after every round, up to the best after early stopping.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        scores : ndarray
            As from `decision_function`, of a model with the rounds so far.
        """
        for raw in self._staged_raw(X):
            yield (raw[:, 0] if raw.shape[1] == 1 else raw).copy()
