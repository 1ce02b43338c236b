"""EBLR: regression enriched by the rules that trees find where it errs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hybridtrees.base import RegressorMixin, ScoreClassifierMixin
from hybridtrees.input.validation import check_target_classification
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

    A linear regression is fitted, a small regression tree is grown on its residuals, and the leaf
    whose mean residual is farthest from zero becomes a rule: a column of zeros and ones that the
    next regression, and the next tree, have beside the features. All coefficients are fitted
    anew every time, and the last regression, on the features and `n_rules` rules, predicts.
    Leaves that are equally far from zero make one rule together.

    The regression minimises

        sum_i w_i (y_i - g(x_i))^2 / (2 sum_i w_i)
            + alpha (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2),

    b being the coefficients of standardised features and of rules as zeros and ones. This is the
    objective of scikit-learn's ``Lasso(alpha)`` and ``ElasticNet(alpha, l1_ratio)`` after a
    ``StandardScaler``; a ``Ridge(a)`` is ``alpha = a / n_rows`` here.

    Rounds end before `n_rules` where the residuals cannot be split any more; the published
    method goes on and adds columns of ones, which change nothing.

    Parameters
    ----------
    n_rules : int, default=10
        Rules to find, at most.
    residual : {"linear", "absolute", "squared", "exponential", "poisson"}, default="linear"
        What the trees are grown on: r = y - g(x), its absolute value abs(r), its square,
        1 - exp(-abs(r)), or the signed root of the Poisson deviance of y from g(x), for counts.
    max_depth : int, None or a list of these, default=3
        Largest depth of the trees, None for no limit. A list has the depths of the first, second,
        ... round; its last entry holds for all rounds that follow, so that ``[1, 2]`` begins with
        a rule of one condition and goes on with rules of up to two.
    min_samples_split, min_samples_leaf : int or float, default=2 and 1
        Minimum number of rows of a node that is split and of a leaf, or their shares of all rows.
    max_leaf_nodes : int, optional
        Maximum number of leaves; the trees are then grown best split first.
    min_impurity_decrease : float, default=0
        Minimum decrease of the squared error by a split, weighted by its share of the rows.
    alpha : float or "cv", default=0.001
        Strength of the penalty, per unit of weight; "cv" chooses it by cross-validation of the
        regression without rules.
    penalty, l1_ratio, fit_intercept, standardize, missing_indicator, categorical_features, cv, \
max_iter, tol
        As in `LinearRegressor`, of the regression. The trees take missing values and categories as
        they are.
    early_stopping : {None, "validation", "aic", "bic"}, default=None
        What decides the number of rules: nothing, the squared error on a part of the rows
        that is kept out, or an information criterion. The latter count every coefficient and,
        since they are searched for, every condition of a rule as a parameter, and every row of
        positive weight as one row: the sum of the weights does not matter.
    validation_fraction : float, default=0.15
        Share of rows kept out under ``early_stopping="validation"``. The rules are then found
        again on all rows.
    validation_split : {"random", "last"}, default="random"
        Whether the rows to be kept out are drawn, or are the last ones, as rows in the order of
        time demand.
    n_iter_no_change : int, default=3
        Rounds without improvement after which to stop. The rules up to the best round stay.
    random_state : int, Generator, RandomState or None
        Seed of the validation rows.
    n_jobs : int, optional
        Threads; all usable CPUs by default. The result does not depend on it.
    verbose : int, default=0
        Print a line per round.

    Attributes
    ----------
    rules_ : list of Rule
        Text, coefficient, support and gain of each rule.
    n_rules_ : int
        Number of rules.
    n_iter_ : int
        Regressions that were fitted to find them.
    n_features_in_, feature_names_in_ : int, ndarray
        The features of `fit`; names only where the table had them.
    coef_ : ndarray of shape (n_columns + n_rules,)
        For the columns as they came, those of the rules last.
    intercept_ : float
    coef_names_ : ndarray of str
        Names of the columns, as in `LinearRegressor`, and of the rules.
    rule_names_ : list of str
    alpha_ : float
        The penalty's strength that was used.
    train_losses_ : ndarray of shape (n_rules + 1,)
        Mean squared error on the training rows with 0, 1, 2, ... rules.
    stopping_scores_ : ndarray
        With early stopping: the criterion after 0, 1, 2, ... rules; the smaller the better.

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

    residual: str = "linear"

    def _encode_target(self, y: Any, n_rows: int, *, validation: bool = False) -> np.ndarray:
        name = "y_val" if validation else "y"
        target = read_regression_target(y, n_rows, type(self).__name__, several=False, name=name)
        if self.residual == "poisson" and target.min() < 0:
            raise ValueError(
                f"{name} must not be negative under residual='poisson', got {target.min()}"
            )
        return target

    def _choose_alpha(self, sample: Sample, options: Options) -> float:
        data = sample.columns, sample.target[:, None], sample.weight
        return choose_regression_alpha(*data, open_regression(*data, options)).alpha

    def _keep_line(self, line: Line) -> None:
        self.coef_ = line.coef[:, 0].copy()
        self.intercept_ = float(line.intercept[0]) if self.fit_intercept else 0.0

    def _predictions(self, X: Any) -> np.ndarray:
        return self._raw_scores(X)[:, 0]

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predictions of the regressions with 0, 1, 2, ... rules; see `predict`."""
        for raw in self._staged_raw(X):
            yield raw[:, 0]

    def summary(self, max_terms: int | None = 20) -> str:
        """Write the regression as an equation.

        Parameters
        ----------
        max_terms : int or None, default=20
            Columns to write out, those that change the prediction most; None for all. Rules are
            written in any case.

        Returns
        -------
        text : str
        """
        return self._equation("y", 0, max_terms)

    def plot_rules(self, ax: Any = None, *, width: int = 50, colors: Any = None) -> Any:
        """Draw the coefficients of the rules as bars, with their conditions; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, optional
        width : int, default=50
            Letters of a line of text.
        colors : pair of colors, optional
            For positive and negative coefficients.

        Returns
        -------
        ax : matplotlib axes
        """
        return self._draw_rules("coefficient", 0, ax, width, colors)


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
