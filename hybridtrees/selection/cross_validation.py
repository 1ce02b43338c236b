"""Scores of a model on rows that it has not seen, fold by fold."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, clone, is_classifier
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.input._user_tables import Columns, open_columns
from hybridtrees.input.folds import Folds, check_cv, check_per_row, check_times, make_folds
from hybridtrees.input.targets import (
    check_sample_weight,
    check_target_classification,
    check_target_regression,
)
from hybridtrees.inspection._result import Result
from hybridtrees.inspection._scoring import Predictions, make_scorers


@dataclass(repr=False)
class CrossValidation(Result):
    """What `cv` has found.

    Attributes
    ----------
    scores : dict of str to ndarray of shape (n_folds,)
        Score of the test rows of each fold, by the name of the score.
    predictions : ndarray of shape (n_rows,), (n_rows, n_outputs) or (n_rows, n_classes)
        Prediction of each row by the models that have not seen it, probabilities for a
        classifier; the mean over the repeats. NaN for rows that no fold tests.
    folds : list of (ndarray, ndarray)
        Training and test rows of each fold.
    fit_seconds : ndarray of shape (n_folds,)
        Time of each fit.
    stages : dict of str to ndarray of shape (n_folds, n_stages), or None
        With ``staged=True``, the scores after each round of boosting or tree of a forest.
    best_stage : dict of str to int, or None
        Number of rounds or trees whose mean score over the folds is best. The first stage of
        EBLR is the regression without rules: its number of rules is one less.
    models : list of estimators, or None
        With ``keep_models=True``, the model of each fold.
    """

    scores: dict[str, np.ndarray]
    predictions: np.ndarray
    folds: Folds
    fit_seconds: np.ndarray
    stages: dict[str, np.ndarray] | None = None
    best_stage: dict[str, int] | None = None
    models: list[Any] | None = None

    @property
    def mean(self) -> dict[str, float]:
        """Mean of each score over the folds."""
        return {name: float(np.mean(values)) for name, values in self.scores.items()}

    @property
    def std(self) -> dict[str, float]:
        """Standard deviation of each score over the folds."""
        return {name: float(np.std(values)) for name, values in self.scores.items()}

    def __repr__(self) -> str:
        lines = [f"{'score':<14}{'mean':>11}{'std':>11}   {len(self.folds)} folds"]
        for name, mean in self.mean.items():
            best = "" if self.best_stage is None else f"   best after {self.best_stage[name]}"
            lines.append(f"{name:<14}{mean:>11.5g}{self.std[name]:>11.3g}{best}")
        return "\n".join(lines)


def cv(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    folds: Any = 5,
    repeats: int = 1,
    scoring: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    time: Any = None,
    staged: bool = False,
    keep_models: bool = False,
    fit_params: dict[str, Any] | None = None,
    random_state: Any = 0,
) -> CrossValidation:
    """Cross-validate a model.

    Each fold fits a fresh copy of the estimator to the other rows and scores it on its own.

    Parameters
    ----------
    estimator : estimator
        Any with `fit`, `predict` and `get_params`; it is left as it is.
    X : array-like, data frame, dict of columns or sparse matrix of shape (n_rows, n_features)
        Features, as the estimator takes them.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Target: numbers, or classes for a classifier.
    folds : int, iterable of pairs (training rows, test rows) or splitter, default=5
        Number of folds, dealt out at random with equal shares of each class, or folds of your
        own; a splitter is an object of scikit-learn with a method `split`.
    repeats : int, default=1
        How often the rows are dealt out anew, for a number of folds without `time`.
    scoring : str, Metric, callable, or a list or dict of these, optional
        Names are those of `hybridtrees.metrics.METRICS`, "accuracy", or scikit-learn's such as
        "neg_mean_squared_error". A callable takes (estimator, X, y), and `sample_weight` if there
        are weights, and is larger for better models. By default R2 or the accuracy.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights of fits and scores.
    groups : array-like of shape (n_rows,), optional
        Rows of one group are never divided between training and test rows.
    time : array-like of shape (n_rows,), optional
        Numbers or dates. Each fold trains on the rows before those that it tests on.
    staged : bool, default=False
        Whether to score every round of boosting or tree of a forest, to find the best number.
    keep_models : bool, default=False
        Whether the result holds the fitted models.
    fit_params : dict, optional
        Further arguments of `fit`, the same for every fold.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the folds.

    Returns
    -------
    result : CrossValidation

    Examples
    --------
    >>> from hybridtrees import XGBClassifier, cv
    >>> from hybridtrees.datasets import load_breast_cancer
    >>> data = load_breast_cancer()
    >>> model = XGBClassifier(n_estimators=30)
    >>> result = cv(model, data.data, data.target, scoring=["auc", "logloss"])
    >>> round(result.mean["auc"], 2)
    0.99
    """
    repeats = check_integer("repeats", repeats, 1)
    if time is not None and groups is not None:
        raise ValueError("give groups or time, not both: folds in time order may divide groups")
    check_boolean("staged", staged)
    check_boolean("keep_models", keep_models)
    splitter = check_cv(folds, "folds")
    columns = open_columns(X)
    n_rows = columns.shape[0]
    weight = check_sample_weight(sample_weight, n_rows)
    target, classes = read_target(estimator, y, n_rows)
    if repeats > 1 and (time is not None or not isinstance(splitter, int)):
        raise ValueError(f"repeats={repeats} needs a number of folds without time")
    if time is not None and not isinstance(splitter, int):
        raise ValueError("time needs a number of folds, got folds of your own")
    labels = None if classes is None else np.searchsorted(classes, target)
    rng = np.random.default_rng(seed_sequence(random_state))
    parts = [
        fold
        for _ in range(repeats)
        for fold in make_folds(
            splitter,
            n_rows,
            labels,
            weight,
            "folds",
            groups=check_per_row(groups, "groups", n_rows),
            time=check_times(time, n_rows),
            rng=rng,
        )
    ]
    check_classes(parts, labels, classes)
    run = _Run(estimator, columns, target, weight, scoring, staged, fit_params or {})
    fitted = [run.fold(train, test) for train, test in parts]
    scores, stages, best = run.table([f.scores for f in fitted], [f.stages for f in fitted])
    return CrossValidation(
        scores,
        _out_of_fold(n_rows, parts, fitted, classes),
        parts,
        np.array([f.seconds for f in fitted]),
        stages,
        best,
        [f.model for f in fitted] if keep_models else None,
    )


@dataclass
class _Fold:
    """A fitted fold."""

    model: Any
    prediction: np.ndarray
    scores: dict[str, float]
    stages: list[dict[str, float]]
    seconds: float


class Stage(Predictions):
    """Predictions after some of the rounds."""

    def __init__(self, estimator: Any, labels: np.ndarray, probabilities: Any = None) -> None:
        super().__init__(estimator, None)
        self.labels = labels
        if probabilities is not None:
            two = probabilities.shape[1] == 2
            self.probabilities = probabilities[:, 1] if two else probabilities


class _Run:
    """What the fits of all folds share."""

    def __init__(
        self,
        estimator: Any,
        columns: Columns,
        target: np.ndarray,
        weight: np.ndarray | None,
        scoring: Any,
        staged: bool,
        fit_params: dict[str, Any],
    ) -> None:
        if staged and not hasattr(estimator, "staged_predict"):
            raise ValueError(
                f"staged=True needs a model with staged_predict, got {type(estimator).__name__}"
            )
        items = scoring.values() if isinstance(scoring, Mapping) else scoring
        items = items if isinstance(scoring, Mapping | list | set | tuple) else [scoring]
        if staged and any(callable(item) for item in items):
            raise ValueError("staged=True scores by names or metrics, not by functions")
        self.estimator, self.columns, self.target = estimator, columns, target
        self.weight, self.scoring, self.staged = weight, scoring, staged
        self.fit_params = fit_params
        self.larger_is_better: dict[str, bool] = {}

    def fold(self, train: np.ndarray, test: np.ndarray) -> _Fold:
        """Fit a model to the training rows, and score it on the test rows."""
        model = clone(self.estimator)
        extra = dict(self.fit_params)
        if self.weight is not None:
            extra["sample_weight"] = self.weight[train]
        start = clock.perf_counter()
        model.fit(self.columns.take(train).table, self.target[train], **extra)
        seconds = clock.perf_counter() - start
        table, y = self.columns.take(test).table, self.target[test]
        w = None if self.weight is None else self.weight[test]
        scorers = make_scorers(self.scoring, model)
        self.larger_is_better = {name: s.maximize or s.negated for name, s in scorers.items()}

        def scores(predictions: Predictions) -> dict[str, float]:
            return {name: s.reported(predictions, y, w) for name, s in scorers.items()}

        predictions = Predictions(model, table)
        classifier = hasattr(model, "classes_")
        proba = classifier and hasattr(model, "predict_proba")
        stages = [scores(stage) for stage in _stages(model, table)] if self.staged else []
        found = np.asarray(model.predict_proba(table) if proba else predictions.labels)
        return _Fold(model, found, scores(predictions), stages, seconds)

    def table(
        self, scores: list[dict[str, float]], stages: list[list[dict[str, float]]]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray] | None, dict[str, int] | None]:
        """Scores by name, those of the stages, and the best number of stages."""
        by_name = {name: np.array([s[name] for s in scores]) for name in scores[0]}
        if not self.staged:
            return by_name, None, None
        # Models that have stopped early have fewer rounds.
        n_stages = min(map(len, stages))
        curves = {
            name: np.array([[stage[name] for stage in fold[:n_stages]] for fold in stages])
            for name in by_name
        }
        best = {}
        for name, curve in curves.items():
            sign = 1 if self.larger_is_better[name] else -1
            best[name] = 1 + int(np.argmax(sign * curve.mean(axis=0)))
        return by_name, curves, best


def _stages(model: Any, table: Any) -> Iterator[Stage]:
    """Predictions after each round."""
    if not hasattr(model, "classes_"):
        yield from (Stage(model, labels) for labels in model.staged_predict(table))
        return
    for proba in model.staged_predict_proba(table):
        yield Stage(model, model.classes_[np.argmax(proba, axis=1)], proba)


def read_target(estimator: Any, y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Target as an array, and the classes where the estimator is a classifier."""
    name = type(estimator).__name__
    for method in ("fit", "predict", "get_params"):
        if not hasattr(estimator, method) or isinstance(estimator, type):
            raise TypeError(f"estimator must have the method {method}, got {estimator!r}")
    if is_classifier(estimator):
        codes, classes = check_target_classification(y, n_rows, estimator_name=name)
        return classes[codes], classes
    target = check_target_regression(y, n_rows, multi_output=True, estimator_name=name)
    return target, None


def check_classes(folds: Folds, labels: np.ndarray | None, classes: np.ndarray | None) -> None:
    """Refuse folds that test a class which they do not train."""
    if labels is None or classes is None:
        return
    for number, (train, test) in enumerate(folds):
        unseen = np.setdiff1d(labels[test], labels[train])
        if len(unseen):
            raise ValueError(
                f"fold {number} tests rows of the class {str(classes[unseen[0]])!r}, but trains on "
                "none: use fewer folds or other ones, or leave the class out"
            )


def _out_of_fold(
    n_rows: int, folds: Folds, fitted: list[_Fold], classes: np.ndarray | None
) -> np.ndarray:
    """Mean prediction of each row over the folds that test it."""
    first = fitted[0]
    if classes is None:
        shape = first.prediction.shape[1:]
    elif hasattr(first.model, "predict_proba"):
        shape = (len(classes),)
    else:  # labels, which have no mean: those of the last repeat
        labels = np.full(n_rows, np.nan, dtype=object)
        for (_, test), fold in zip(folds, fitted, strict=True):
            labels[test] = fold.prediction
        return labels
    sums, counts = np.zeros((n_rows, *shape)), np.zeros((n_rows, *(1 for _ in shape)))
    for (_, test), fold in zip(folds, fitted, strict=True):
        if classes is None:
            sums[test] += fold.prediction
        else:
            sums[np.ix_(test, np.searchsorted(classes, fold.model.classes_))] += fold.prediction
        counts[test] += 1
    with np.errstate(invalid="ignore"):
        return sums / counts
