"""The classifier of EBLR."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridtrees.base import ClassifierMixin
from hybridtrees.input.validation import check_target_classification
from hybridtrees.losses import Logistic, Softmax
from hybridtrees.models.eblr import residuals, text
from hybridtrees.models.eblr.base import EBLRModel

if TYPE_CHECKING:
    from hybridtrees.linear.regression import Line, Options
    from hybridtrees.models.eblr.growing import Sample

# A mean loss below this without a penalty means that the classes are separated.
_SEPARATED = 1e-6


class EBLRClassifier(ClassifierMixin, EBLRModel):
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

    def __init__(
        self,
        *,
        n_rules: int = 10,
        residual: str = "hamming",
        max_depth: int | None | Sequence[int | None] = 3,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        penalty: str | None = "ridge",
        alpha: float | str = 1e-3,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        standardize: bool = True,
        missing_indicator: bool = False,
        categorical_features: Any = None,
        early_stopping: str | None = None,
        validation_fraction: float = 0.15,
        validation_split: str = "random",
        n_iter_no_change: int = 3,
        cv: Any = 5,
        max_iter: int = 100,
        tol: float = 1e-9,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        super().__init__(
            n_rules=n_rules,
            residual=residual,
            max_depth=max_depth,
            min_samples_split=min_samples_split,
            min_samples_leaf=min_samples_leaf,
            max_leaf_nodes=max_leaf_nodes,
            min_impurity_decrease=min_impurity_decrease,
            penalty=penalty,
            alpha=alpha,
            l1_ratio=l1_ratio,
            fit_intercept=fit_intercept,
            standardize=standardize,
            missing_indicator=missing_indicator,
            categorical_features=categorical_features,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            validation_split=validation_split,
            n_iter_no_change=n_iter_no_change,
            cv=cv,
            max_iter=max_iter,
            tol=tol,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        name = type(self).__name__
        codes, classes = check_target_classification(y, n_rows, estimator_name=name)
        if len(classes) < 2:
            raise ValueError(
                f"{name} needs at least two classes, but y holds the one class "
                f"{classes.tolist()[0]!r}"
            )
        self.classes_ = classes
        return codes

    def _encode_more(self, y: Any, n_rows: int) -> np.ndarray:
        name = type(self).__name__
        return check_target_classification(
            y, n_rows, classes=self.classes_, name="y_val", estimator_name=name
        )[0]

    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _row_loss(self) -> Callable:
        return residuals.deviance

    def _choose_alpha(self, sample: Sample, options: Options) -> float:
        if options.penalty.alpha is not None:
            return options.penalty.alpha
        from hybridtrees.linear.classification import open_classification
        from hybridtrees.linear.classifier import LogisticClassifier

        chooser = LogisticClassifier()
        data = sample.columns, sample.target, sample.weight
        model = open_classification(*data, None, self._n_outputs(), options)
        return chooser._choose_alpha(*data, self._n_outputs(), options, model)

    def _set_coef(self, line: Line) -> None:
        self.coef_ = np.ascontiguousarray(line.coef.T)
        n_outputs = len(self.coef_)
        self.intercept_ = line.intercept if self.fit_intercept else np.zeros(n_outputs)

    def _keep_target(self) -> None:
        self._loss = Logistic() if self._n_outputs() == 1 else Softmax(self._n_outputs())
        if self.alpha_ == 0 and self.train_losses_[-1] < _SEPARATED:
            from hybridtrees.linear.solvers import ConvergenceWarning

            warnings.warn(
                "the classes can be separated without error, so that without a penalty the "
                "coefficients grow without bound: use a penalty",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _rule_coef(self, k: int) -> Any:
        coef = self.coef_[:, self.coef_.shape[1] - self.n_rules_ + k]
        return float(coef[0]) if len(coef) == 1 else coef.copy()

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: log-odds of the second class, or one score per class.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        scores : ndarray of shape (n_rows,) for two classes, else (n_rows, n_classes)
        """
        raw = self.predict_raw(X)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probability of every class.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`.
        """
        raw = self.predict_raw(X)
        return self._loss.predict(raw)

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Probabilities of the regressions with 0, 1, 2, ... rules; see `predict_proba`."""
        for raw in self._staged_raw(X):
            yield self._loss.predict(raw)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        labels : ndarray of shape (n_rows,)
        """
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def _class_row(self, label: Any) -> int:
        """Row of `coef_` for a class."""
        if len(self.coef_) == 1:
            return 0
        if label is None:
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
        rules, row = self.rules_, self._class_row(label)
        p = self.coef_.shape[1] - len(rules)
        coefs = self.coef_[row, :p]
        if len(self.coef_) == 1:
            title = f"log-odds of {self.classes_[1]}"
        else:
            title = f"score of {self.classes_[row]}"
        return text.equation(
            title,
            float(self.intercept_[row]),
            list(self.coef_names_[:p]),
            coefs,
            coefs * self._column_spread,
            list(zip(rules, self._rule_texts(text.DIGITS), self.coef_[row, p:], strict=True)),
            max_terms,
        )

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
        rules, row = self.rules_, self._class_row(label)
        coefs = np.array([float(np.ravel(rule.coef)[row]) for rule in rules])
        name = self.classes_[1 if len(self.coef_) == 1 else row]
        texts = self._rule_texts(text.DIGITS)
        return text.draw_rules(rules, texts, coefs, f"coefficient for {name}", ax, width, colors)
