"""Averages of models: Bayesian, by held-out likelihood, and by greedy selection."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees._parameters import attribute, check_integer, check_option, is_classifier
from hybridtrees.base import ClassifierMixin, RegressorMixin, atomic_fit
from hybridtrees.core.base.checks import check_arrays, check_one_of
from hybridtrees.core.base.exact_sum import exact_mean, exact_sum
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.ensembles.greedy import (
    Losses,
    absolute_losses,
    greedy_weights,
    log_losses,
    mixture_weights,
    squared_losses,
)
from hybridtrees.ensembles.members import (
    Rows,
    check_probabilities,
    member_numbers,
    member_probabilities,
)
from hybridtrees.ensembles.out_of_fold import FoldedMembers, joined_folds, shares_of, weighted_sum
from hybridtrees.ensembles.parameter_counts import check_countable, count_parameters
from hybridtrees.input.labels_text import aligned
from hybridtrees.inspection._scoring import _FOR_CLASSES, _ON_LABELS, ALIASES
from hybridtrees.metrics import METRICS, Metric, get_metric

WEIGHTS = ("bic", "likelihood", "stacking", "greedy")
_SMALLEST = float(np.finfo(np.float64).tiny)
_EPSILON = float(np.finfo(np.float64).eps)
_TITLES = {"bic": "BIC", "likelihood": "log score", "stacking": "log score", "greedy": "loss"}


class _ModelAverage(FoldedMembers):
    """What both kinds share.

    Parameters
    ----------
    weights : {"bic", "likelihood", "stacking", "greedy"}
        Where the weights come from. "bic": exp(-BIC / 2) of models fitted to all rows, their
        approximate posterior probabilities; for linear models and single trees. "likelihood":
        the likelihood of rows that the models have not seen, by folds. "stacking": the mixture of
        the models' predictive distributions under which these rows are likeliest. "greedy":
        models are added one by one, again and again, to make the loss of the mean prediction of
        these rows small.
    scoring : str, Metric or None
        What ``weights="greedy"`` makes best: a name of `hybridtrees.metrics.METRICS` or "accuracy".
        By default the squared error, or the log-loss.
    n_rounds : int
        Most additions of ``weights="greedy"``.
    n_bags : int
        With ``weights="greedy"``: number of selections, each from a random half of the members,
        that are averaged; 1 selects from all members once.
    random_state : int, Generator, RandomState, SeedSequence or None
        Seed of the members that have none of their own, and of bags. Folds by a number do not
        depend on it.

    Attributes
    ----------
    weights_ : ndarray of shape (n_members,)
        Weights of the members; they sum to 1.
    criterion_ : ndarray of shape (n_members,)
        What the weights are based on: the BIC of each member; the sum of its log scores, or its
        loss alone, on rows that it has not seen.
    """

    weights: Literal["bic", "likelihood", "stacking", "greedy"] = "stacking"
    scoring: Any = None
    n_rounds: int = 50
    n_bags: int = 1

    criterion_: np.ndarray = attribute()

    @atomic_fit
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, time: Any = None
    ) -> Self:
        """Fit the members and find their weights.

        Parameters
        ----------
        X : array-like, data frame, dict of columns or sparse matrix of shape (n_rows, n_features)
            The table, as the members take it.
        y : array-like of shape (n_rows,)
            Numbers, or class labels.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights, for members that all take them: how often a row counts.
        groups : array-like of shape (n_rows,), optional
            Rows of one group are never divided by the folds.
        time : array-like of shape (n_rows,), optional
            Numbers or dates; each fold trains on the rows before those that it predicts.

        Returns
        -------
        self : estimator
        """
        members = self._check_members()
        self._check_options(members)
        cv = None if self.weights == "bic" else self._checked_cv()
        rows = self._learn_rows(X, y, sample_weight)
        self._check_weights(members, rows.weight)
        if self.weights == "bic":
            self._fit_members(members, rows)
            predictions = np.stack([self._predict_member(member, X) for member in self.estimators_])
            self._weigh_by_bic(predictions, rows)
        else:
            folds = self._make_folds(cv, rows, groups, time)
            by_fold = self._fit_members(
                members, rows, folds, lambda k, m, X: self._predict_member(m, X)
            )
            joined, seen = joined_folds(len(rows), folds, by_fold)
            predictions = np.stack([one[seen] for one in joined])
            self._weigh(predictions, rows.target[seen], rows, seen)
        self._kind = str(self.weights)
        return self

    def _check_options(self, members: list[tuple[str, Any]]) -> None:
        self._check_common()
        check_option("weights", self.weights, WEIGHTS)
        check_integer("n_rounds", self.n_rounds, 1)
        check_integer("n_bags", self.n_bags, 1)
        read_metric(self.scoring, is_classifier(self))
        for name, member in members:
            if is_classifier(self):
                needs = f"{type(self).__name__} needs probabilities"
                check_probabilities(member, f"the member {name!r}", needs)
            if self.weights == "bic":
                check_countable(member, name)

    def _predict_member(self, member: Any, X: Any) -> np.ndarray:
        """Return what a member predicts: numbers or probabilities."""
        raise NotImplementedError

    def _log_scores(
        self, predictions: np.ndarray, rows: Rows, seen: Any, weight: Any
    ) -> np.ndarray:
        """Log-density of the target of each row under each member, (n_members, n_rows)."""
        raise NotImplementedError

    def _weigh_by_bic(self, predictions: np.ndarray, rows: Rows) -> None:
        """Posterior probabilities of the members by their BIC, under equal prior ones."""
        total = float(len(rows)) if rows.weight is None else float(exact_sum(rows.weight))
        scores = self._log_scores(predictions, rows, slice(None), rows.weight)
        n_free = [
            count_parameters(member, name)
            for name, member in zip(self._names, self.estimators_, strict=True)
        ]
        fit = -2.0 * np.asarray(exact_sum(scores.T, rows.weight))
        self.criterion_ = fit + np.array(n_free) * np.log(total)
        self.weights_ = _softmax(-0.5 * self.criterion_)

    def _weigh(self, predictions: np.ndarray, target: Any, rows: Rows, seen: np.ndarray) -> None:
        """Weights by predictions of rows that members have not seen."""
        weight = None if rows.weight is None else rows.weight[seen]
        if self.weights == "greedy":
            given, losses = self._losses(predictions, rows, seen, weight)
            self.criterion_ = np.asarray(losses(given), dtype=np.float64)
            rng = np.random.default_rng(seed_sequence(self.random_state))
            found = greedy_weights(given, losses, int(self.n_rounds), int(self.n_bags), rng)
            self.weights_ = shares_of(found, len(predictions))
            return
        scores = self._log_scores(predictions, rows, seen, weight)
        self.criterion_ = np.asarray(exact_sum(scores.T, weight))
        if self.weights == "likelihood":
            self.weights_ = _softmax(self.criterion_)
        else:
            self.weights_ = mixture_weights(scores.T, weight)

    def _losses(
        self, predictions: np.ndarray, rows: Rows, seen: np.ndarray, weight: Any
    ) -> tuple[np.ndarray, Losses]:
        """Return what the greedy selection averages, and the losses of such averages."""
        raise NotImplementedError

    def summary(self) -> str:
        """Return a table of the members, the largest weight first.

        Returns
        -------
        text : str
        """
        self._check_is_fitted()
        order = np.argsort(-self.weights_, kind="stable")
        head = ["member", "model", "weight", _TITLES[self._kind]]
        lines = [
            [
                self._names[k],
                type(self.estimators_[k]).__name__,
                f"{self.weights_[k]:.4f}",
                f"{self.criterion_[k]:.6g}",
            ]
            for k in order
        ]
        title = f"{type(self).__name__}, weights by {self._kind}"
        return "\n".join([title, *aligned([head, *lines], {0, 1})])

    def _check_fitted(self) -> None:
        super()._check_fitted()
        self._check_shares()
        check_arrays(self, {"criterion_": ("f8", len(self.estimators_))})
        check_one_of(self, "_kind", WEIGHTS)


class ModelAverageRegressor(RegressorMixin, _ModelAverage):
    """Weighted mean of regressors, by their posterior probabilities or held-out predictions.

    Under Gaussian errors a model has ``BIC = n log(2 pi e RSS / n) + p log(n)``, with RSS the sum
    of its squared residuals. Its number of parameters p counts nonzero coefficients and the
    intercept, or the leaves of a tree. Its weight is proportional to ``exp(-BIC / 2)``.
    The held-out density of a row is Gaussian around the prediction of a model that has not seen
    it, with the mean square of that model's held-out residuals as variance.

    Attributes
    ----------
    variances_ : ndarray of shape (n_members,)
        Mean squared error of each member: on its own rows with ``weights="bic"``, otherwise on rows
        that it has not seen.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import CARTRegressor, LinearRegressor, ModelAverageRegressor
    >>> x = np.linspace(0, 1, 40)
    >>> y = x + 0.1 * np.sin(50 * x)
    >>> members = [("line", LinearRegressor()), ("tree", CARTRegressor(max_depth=2))]
    >>> model = ModelAverageRegressor(members, weights="bic").fit(x[:, None], y)
    >>> model.weights_.round(3)
    array([1., 0.])
    """

    variances_: np.ndarray = attribute()

    def _predict_member(self, member: Any, X: Any) -> np.ndarray:
        return member_numbers(member, X)

    def _weigh(self, predictions: np.ndarray, target: Any, rows: Rows, seen: np.ndarray) -> None:
        weight = None if rows.weight is None else rows.weight[seen]
        self.variances_ = np.asarray(exact_mean(np.square(predictions - target).T, weight))
        super()._weigh(predictions, target, rows, seen)

    def _log_scores(
        self, predictions: np.ndarray, rows: Rows, seen: Any, weight: Any
    ) -> np.ndarray:
        squares = np.square(predictions - rows.target[seen])
        self.variances_ = np.asarray(exact_mean(squares.T, weight))
        variance = np.maximum(self.variances_, _SMALLEST)[:, None]
        scores: np.ndarray = -0.5 * (np.log(2.0 * np.pi * variance) + squares / variance)
        return scores

    def _losses(
        self, predictions: np.ndarray, rows: Rows, seen: np.ndarray, weight: Any
    ) -> tuple[np.ndarray, Losses]:
        metric, target = read_metric(self.scoring, False), rows.target[seen]
        if metric is None or metric.name in ("mse", "rmse"):
            return predictions, squared_losses(target, weight)
        if metric.name == "mae":
            return predictions, absolute_losses(target, weight)
        return predictions, metric_losses(metric, target, weight)

    def _predictions(self, X: Any) -> np.ndarray:
        return weighted_sum(self._predict_members(self._predict_member, X), self.weights_)

    def _check_fitted(self) -> None:
        super()._check_fitted()
        check_arrays(self, {"variances_": ("f8", len(self.estimators_))})


class ModelAverageClassifier(ClassWeightMixin, ClassifierMixin, _ModelAverage):
    """Weighted mean of classifiers' probabilities, by posterior probabilities or held-out rows.

    A model has ``BIC = -2 log-likelihood + p log(n)`` with p the number of its coefficients that
    are not 0 and of its intercepts, or of the leaves of a tree times the number of classes but one.
    Its weight is proportional to ``exp(-BIC / 2)``. The held-out likelihood of a row is the
    probability that a model that has not seen it gives to its class.

    Attributes
    ----------
    n_classes_ : int
        Number of classes.

    Examples
    --------
    >>> from hybridtrees import CARTClassifier, LogisticClassifier, ModelAverageClassifier
    >>> from hybridtrees.datasets import load_breast_cancer
    >>> data = load_breast_cancer()
    >>> members = [("line", LogisticClassifier()), ("tree", CARTClassifier(max_depth=4))]
    >>> model = ModelAverageClassifier(members).fit(data.data, data.target)
    >>> bool(model.weights_[0] > model.weights_[1])
    True
    """

    def _predict_member(self, member: Any, X: Any) -> np.ndarray:
        return member_probabilities(member, X, self.classes_)

    def _right(self, predictions: np.ndarray, rows: Rows, seen: Any) -> np.ndarray:
        """Probability that each member gives to the class of each row."""
        assert rows.codes is not None
        codes = rows.codes[seen]
        right: np.ndarray = predictions[:, np.arange(len(codes)), codes]
        return right

    def _log_scores(
        self, predictions: np.ndarray, rows: Rows, seen: Any, weight: Any
    ) -> np.ndarray:
        return np.asarray(np.log(np.clip(self._right(predictions, rows, seen), _EPSILON, 1.0)))

    def _losses(
        self, predictions: np.ndarray, rows: Rows, seen: np.ndarray, weight: Any
    ) -> tuple[np.ndarray, Losses]:
        metric = read_metric(self.scoring, True)
        if metric is None or metric.name in ("logloss", "mlogloss"):
            return self._right(predictions, rows, seen), log_losses(weight)
        assert rows.codes is not None
        return predictions, metric_losses(metric, rows.codes[seen], weight)

    def _probabilities(self, X: Any) -> np.ndarray:
        return weighted_sum(self._predict_members(self._predict_member, X), self.weights_)


def _softmax(scores: np.ndarray) -> np.ndarray:
    shares = np.exp(scores - scores.max())
    return np.asarray(shares / shares.sum())


def read_metric(scoring: Any, for_classes: bool) -> Metric | None:
    """Return the metric that `scoring` names; None is the default of the kind."""
    if scoring is None:
        return None
    if isinstance(scoring, Metric):
        return scoring
    name = ALIASES.get(scoring, scoring) if isinstance(scoring, str) else None
    if name is None:
        raise TypeError(f"scoring must be a name, a Metric or None, got {scoring!r}")
    if name in _ON_LABELS:
        metric = _ON_LABELS[name]
    elif name.partition("@")[0] in METRICS:
        metric = get_metric(name)
    else:
        names = ", ".join([*METRICS, "accuracy"])
        raise ValueError(f"scoring must be one of {names}, got {scoring!r}")
    about_classes = name.partition("@")[0] in _FOR_CLASSES
    if about_classes != for_classes:
        kind = "classifier" if about_classes else "regressor"
        raise ValueError(f"scoring={scoring!r} is for a {kind}")
    return metric


def metric_losses(metric: Metric, target: np.ndarray, weight: np.ndarray | None) -> Losses:
    """Losses by any metric: numbers, or probabilities of shape (n_rows, n_classes)."""
    sign = -1.0 if metric.maximize else 1.0

    def loss(candidate: np.ndarray) -> float:
        if candidate.ndim == 2 and metric in _ON_LABELS.values():
            candidate = candidate.argmax(axis=1)
        elif candidate.ndim == 2 and candidate.shape[1] == 2:
            candidate = candidate[:, 1]
        return sign * float(metric.function(target, candidate, sample_weight=weight))

    return lambda candidates: np.array([loss(candidate) for candidate in candidates])
