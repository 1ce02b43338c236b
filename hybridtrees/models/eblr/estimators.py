"""EBLR: regression enriched by rules that trees find in its residuals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees._parameters import check_integer
from hybridtrees.base import RegressorMixin, ScoreClassifierMixin
from hybridtrees.input.validation import check_target_classification
from hybridtrees.linear._base import LogisticParameters
from hybridtrees.linear.classification import choose_classification_alpha, open_classification
from hybridtrees.linear.classifier import SEPARATED, warn_separated
from hybridtrees.linear.regression import Line, Options, choose_regression_alpha, open_regression
from hybridtrees.losses import Logistic, Softmax
from hybridtrees.models.eblr import residuals
from hybridtrees.models.eblr.base import EBLRModel
from hybridtrees.models.eblr.growing import Sample
from hybridtrees.models.shared.targets import read_regression_target


class EBLRRegressor(RegressorMixin, EBLRModel):
    """Explainable boosted linear regression (Ilic, Gorgulu, Cevik and Baydogan 2021).

    A linear regression is fitted, and a small regression tree is grown on its residuals. The leaf
    whose mean residual is farthest from zero becomes a rule: a column of zeros and ones that is
    added to the features of the next regression and of the next tree. Tied leaves form one rule.
    All coefficients are refitted in every round; the last regression makes the predictions. Trees
    split on missing values and categories directly.

    The regression minimises::

        sum_i w_i (y_i - g(x_i))^2 / (2 sum_i w_i)
            + alpha (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2),

    where b are the coefficients of standardised features, and of rules as zeros and ones. This is
    the objective of scikit-learn's ``Lasso(alpha)`` and ``ElasticNet(alpha, l1_ratio)`` after a
    ``StandardScaler``; ``Ridge(a)`` corresponds to ``alpha = a / n_rows``.

    With several targets, each has its own rules, as if it were fitted alone.

    Rounds end before `n_rules` if no tree can be split any more; the published method continues
    with columns of ones, which have no effect.

    Parameters
    ----------
    residual : {"linear", "absolute", "squared", "exponential", "poisson"}
        Target of the trees: r = y - g(x), its absolute value abs(r), its square, 1 - exp(-abs(r)),
        or the signed root of the Poisson deviance of y from g(x), for counts.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        One number per feature: the coefficient of a number; for a category the standard deviation
        of the effects of its levels over the training rows. Rules are not included.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercept of the regression.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import EBLRRegressor
    >>> x = np.arange(20.0)
    >>> y = x + 5 * (x > 14)
    >>> model = EBLRRegressor(n_rules=1, max_depth=1).fit(x[:, None], y)
    >>> model.rules_[0].text, round(model.rules_[0].coef, 6)
    ('x0 > 14.5', 5.0)
    """

    _residuals = residuals.REGRESSION

    residual: Literal["linear", "absolute", "squared", "exponential", "poisson"] = "linear"

    def _encode_target(self, y: Any, n_rows: int, *, validation: bool = False) -> np.ndarray:
        name = "y_val" if validation else "y"
        target = read_regression_target(y, n_rows, type(self).__name__, name=name)
        n_targets = 1 if target.ndim == 1 else target.shape[1]
        if validation and n_targets != self._n_targets:
            raise ValueError(f"{name} must have {self._n_targets} targets, got {n_targets}")
        self._n_targets = n_targets
        if self.residual == "poisson" and target.min() < 0:
            raise ValueError(
                f"{name} must not be negative under residual='poisson', got {target.min()}"
            )
        return target if n_targets > 1 else target.reshape(n_rows)

    def _choose_alpha(self, sample: Sample, options: Options) -> float:
        data = sample.columns, sample.target[:, None], sample.weight
        return choose_regression_alpha(*data, open_regression(*data, options)).alpha

    def _keep_line(self, line: Line) -> None:
        single = self._single_output()
        intercept = line.intercept if self.fit_intercept else np.zeros(line.coef.shape[1])
        self.intercept_ = float(intercept[0]) if single else intercept

    def _single_output(self) -> bool:
        return "_rule_target" not in vars(self)

    def _squeeze(self, raw: np.ndarray) -> np.ndarray:
        return raw[:, 0] if self._single_output() else raw

    def _predictions(self, X: Any) -> np.ndarray:
        return self._squeeze(self._raw_scores(X))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predict by the regressions with 0, 1, 2, ... rules; see `predict`."""
        for raw in self._staged_raw(X):
            yield self._squeeze(raw)

    def _target_row(self, target: int) -> int:
        """Check the number of a target."""
        n_targets = self._line().coef.shape[1]
        number = check_integer("target", target, 0, n_targets - 1)
        assert number is not None
        return number

    def summary(self, max_terms: int | None = 20, target: int = 0) -> str:
        """Write the regression as an equation.

        Parameters
        ----------
        max_terms : int or None, default=20
            Maximum number of columns, those of the largest effect; None for all. Rules are always
            included.
        target : int, default=0
            Number of the target, if there are several.

        Returns
        -------
        text : str
        """
        self._check_is_fitted()
        title = "y" if self._single_output() else f"y{target}"
        return self._equation(title, self._target_row(target), max_terms)

    def plot_rules(
        self, ax: Any = None, *, target: int = 0, width: int = 50, colors: Any = None
    ) -> Any:
        """Draw the coefficients of the rules as bars, with their conditions; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, optional
        target : int, default=0
            Number of the target, if there are several.
        width : int, default=50
            Characters per line of text.
        colors : pair of colors, optional
            Colors of positive and negative coefficients.

        Returns
        -------
        ax : matplotlib axes
        """
        self._check_is_fitted()
        return self._draw_rules("coefficient", self._target_row(target), ax, width, colors)

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a regressor for one or more targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class EBLRClassifier(ClassWeightMixin, ScoreClassifierMixin, LogisticParameters, EBLRModel):
    """Logistic regression enriched by rules, as `EBLRRegressor` enriches linear regression.

    The regression minimises::

        sum_i w_i log-loss_i / sum_i w_i + alpha (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2)

    with b as there; scikit-learn's ``LogisticRegression(C=c)`` after a ``StandardScaler``
    corresponds to ``penalty="ridge", alpha = 1 / (c * n_rows)``. Two classes have one score, the
    log-odds of the second; more have one score each.

    Parameters
    ----------
    residual : {"hamming", "probability", "deviance"}
        Target of the trees: 1 for misclassified rows, else 0; the indicators of the classes minus
        their probabilities, for all classes in one tree (of two, for the second); or the negative
        log-probability of the true class.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features), or (n_classes, n_features) for more than two
        One number per feature: the coefficient of a number; for a category the standard deviation
        of the effects of its levels over the training rows. Rules are not included.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts of the regression.

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

    residual: Literal["hamming", "probability", "deviance"] = "hamming"

    def _encode_target(self, y: Any, n_rows: int, *, validation: bool = False) -> np.ndarray:
        known: dict[str, Any] = {"classes": self.classes_, "name": "y_val"} if validation else {}
        codes, self.classes_ = check_target_classification(
            y, n_rows, at_least_two=True, estimator_name=type(self).__name__, **known
        )
        return codes

    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _choose_alpha(self, sample: Sample, options: Options) -> float:
        data, n_outputs = (sample.columns, sample.target, sample.weight), self._n_outputs()
        model = open_classification(*data, None, n_outputs, options)
        return choose_classification_alpha(*data, n_outputs, model).alpha

    def _keep_line(self, line: Line) -> None:
        n_outputs = line.coef.shape[1]
        self.intercept_ = line.intercept if self.fit_intercept else np.zeros(n_outputs)
        self._loss = Logistic() if n_outputs == 1 else Softmax(n_outputs)
        if self.alpha_ == 0 and self.train_losses_[-1] < SEPARATED:
            warn_separated(stacklevel=6)

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Predict probabilities by the regressions with 0, 1, 2, ... rules; see `predict_proba`."""
        for raw in self._staged_raw(X):
            yield self._loss.predict(raw)

    def _class_row(self, label: Any) -> int:
        """Return the row of `term_coef_` for a class."""
        if len(self.classes_) == 2 or label is None:
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
            Maximum number of columns, those of the largest effect; None for all. Rules are always
            included.
        label : object, optional
            The class, if there are more than two; the first by default.

        Returns
        -------
        text : str
        """
        self._check_is_fitted()
        row = self._class_row(label)
        one = len(self.classes_) == 2
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
            The class, if there are more than two; the first by default.
        width : int, default=50
            Characters per line of text.
        colors : pair of colors, optional
            Colors of positive and negative coefficients.

        Returns
        -------
        ax : matplotlib axes
        """
        self._check_is_fitted()
        row = self._class_row(label)
        name = self.classes_[1 if len(self.classes_) == 2 else row]
        return self._draw_rules(f"coefficient for {name}", row, ax, width, colors)
