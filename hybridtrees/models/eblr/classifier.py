"""The classifier of EBLR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridtrees.base import ScoreClassifierMixin
from hybridtrees.input.validation import check_target_classification
from hybridtrees.linear.classifier import SEPARATED, warn_separated
from hybridtrees.losses import Logistic, Softmax
from hybridtrees.models.eblr import residuals
from hybridtrees.models.eblr.base import EBLRModel

if TYPE_CHECKING:
    from hybridtrees.linear.regression import Line, Options
    from hybridtrees.models.eblr.growing import Sample


class EBLRClassifier(ScoreClassifierMixin, EBLRModel):
    """Logistic regression enriched by rules, as `EBLRRegressor` enriches linear regression.

    The regression minimises

        sum_i w_i log-loss_i / sum_i w_i + alpha (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2)

    with b as there; scikit-learn's ``LogisticRegression(C=c)`` after a ``StandardScaler`` is
    ``penalty="ridge", alpha = 1 / (c * n_rows)``. Two classes have one score, the log-odds of
    the second; more have one score each.

    Parameters
    ----------
    n_rules : int, default=10
        Rules to find, at most.
    residual : {"hamming", "probability", "deviance"}, default="hamming"
        What the trees are grown on: 1 for rows whose class is predicted wrongly and else 0; the
        indicators of the classes less their probabilities, all classes in one tree (of two, one
        is enough); or minus the logarithm of the probability of the true class.
    penalty : {None, "ridge", "lasso", "elasticnet"}, default="ridge"
    early_stopping : {None, "validation", "aic", "bic"}, default=None
        As in `EBLRRegressor`, for the log-loss.
    max_iter, tol : int, float
        Limits of Newton's method, as in `LogisticClassifier`.
    max_depth, min_samples_split, min_samples_leaf, max_leaf_nodes, min_impurity_decrease, \
alpha, l1_ratio, fit_intercept, standardize, missing_indicator, categorical_features, \
validation_fraction, validation_split, n_iter_no_change, cv, random_state, n_jobs, verbose
        As in `EBLRRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    coef_ : ndarray of shape (1, n_columns + n_rules), or (n_classes, ...) for more than two
    intercept_ : ndarray of shape (1,) or (n_classes,)
    train_losses_ : ndarray of shape (n_rules + 1,)
        Mean log-loss on the training rows with 0, 1, 2, ... rules.
    rules_, n_rules_, coef_names_, rule_names_, alpha_, stopping_scores_, n_features_in_, \
feature_names_in_
        As in `EBLRRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import EBLRClassifier
    >>> x = np.arange(40.0)
    >>> y = (x > 30) | (x < 5)
    >>> model = EBLRClassifier(n_rules=2, max_depth=1).fit(x[:, None], y)
    >>> model.score(x[:, None], y)
    1.0
    """

    _residuals = residuals.CLASSIFICATION

    residual: str = "hamming"
    penalty: str | None = "ridge"
    max_iter: int = 100
    tol: float = 1e-9

    def _encode_target(self, y: Any, n_rows: int, *, validation: bool = False) -> np.ndarray:
        known = {"classes": self.classes_, "name": "y_val"} if validation else {}
        codes, self.classes_ = check_target_classification(
            y, n_rows, at_least_two=True, estimator_name=type(self).__name__, **known
        )
        return codes

    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _choose_alpha(self, sample: Sample, options: Options) -> float:
        from hybridtrees.linear.classification import (
            choose_classification_alpha,
            open_classification,
        )

        data, n_outputs = (sample.columns, sample.target, sample.weight), self._n_outputs()
        model = open_classification(*data, None, n_outputs, options)
        return choose_classification_alpha(*data, n_outputs, model).alpha

    def _keep_line(self, line: Line) -> None:
        self.coef_ = np.ascontiguousarray(line.coef.T)
        n_outputs = len(self.coef_)
        self.intercept_ = line.intercept if self.fit_intercept else np.zeros(n_outputs)
        self._loss = Logistic() if n_outputs == 1 else Softmax(n_outputs)
        if self.alpha_ == 0 and self.train_losses_[-1] < SEPARATED:
            warn_separated(stacklevel=6)

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Probabilities of the regressions with 0, 1, 2, ... rules; see `predict_proba`."""
        for raw in self._staged_raw(X):
            yield self._loss.predict(raw)

    def _class_row(self, label: Any) -> int:
        """Row of `coef_` for a class."""
        if len(self.coef_) == 1 or label is None:
            return 0
        found = np.flatnonzero(self.classes_ == label)
        if not len(found):
            raise ValueError(f"label must be one of {list(self.classes_)}, got {label!r}")
        return int(found[0])

    def summary(self, max_terms: int | None = 20, label: Any = None) -> str:
        """Write the regression as an equation for the log-odds, or the score of a class.

        Parameters
        ----------
        max_terms : int or None, default=20
            As in `EBLRRegressor.summary`.
        label : object, optional
            The class, where there are more than two; the first by default.

        Returns
        -------
        text : str
        """
        self._check_is_fitted()
        row = self._class_row(label)
        one = len(self.coef_) == 1
        title = f"log-odds of {self.classes_[1]}" if one else f"score of {self.classes_[row]}"
        return self._equation(title, row, max_terms)

    def plot_rules(
        self, ax: Any = None, *, label: Any = None, width: int = 50, colors: Any = None
    ) -> Any:
        """Draw the coefficients of the rules as bars, with their conditions; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, optional
        label : object, optional
            The class, where there are more than two; the first by default.
        width, colors
            As in `EBLRRegressor.plot_rules`.

        Returns
        -------
        ax : matplotlib axes
        """
        self._check_is_fitted()
        row = self._class_row(label)
        name = self.classes_[1 if len(self.coef_) == 1 else row]
        return self._draw_rules(f"coefficient for {name}", row, ax, width, colors)
