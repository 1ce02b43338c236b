"""Fit every model family on small data and rank the results: ``hybridtrees compare``.

A family is a row of `FAMILIES`; a data set is a row of `DATASETS`. Nothing else here knows which
models exist.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hybridtrees import (
    CARTClassifier,
    CARTRegressor,
    LinearRegressor,
    LogisticClassifier,
    XGBClassifier,
    XGBRegressor,
)
from hybridtrees._random import seed_sequence
from hybridtrees.datasets import (
    Dataset,
    load_breast_cancer,
    load_heart_failure,
    make_house_prices,
)
from hybridtrees.metrics import r2_score, roc_auc_score

PREDICT_REPEATS = 5  # the quickest is reported: one call is too short to time


class ConstantRegressor:
    """Baseline that predicts the mean of the training target."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> ConstantRegressor:
        """Remember the mean of `y`."""
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the mean for every row."""
        return np.full(len(X), self.mean_)


class ConstantClassifier:
    """Baseline that predicts the shares of the classes in training."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> ConstantClassifier:
        """Remember the share of each class, coded 0, 1, ..."""
        self.share_ = np.bincount(y) / len(y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the shares for every row."""
        return np.tile(self.share_, (len(X), 1))


def _no_validation(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Fit arguments of a family that does not look at the validation part."""
    return {}


def _eval_set(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Fit arguments that give the validation part to XGBoost-style boosting."""
    return {"eval_set": [(X, y)], "verbose": False}


@dataclass(frozen=True)
class Family:
    """One row of the comparison.

    Parameters
    ----------
    name : str
        How the table calls it.
    regressor, classifier : type
        The two estimators of the family.
    parameters : dict
        Constructor arguments of both.
    validation : callable
        From the validation part to further arguments of `fit`.
    """

    name: str
    regressor: type
    classifier: type
    parameters: dict[str, Any] = field(default_factory=dict)
    validation: Callable[[np.ndarray, np.ndarray], dict[str, Any]] = _no_validation


BOOSTING = {"n_estimators": 500, "learning_rate": 0.05, "early_stopping_rounds": 30}

FAMILIES: tuple[Family, ...] = (
    Family("linear, ridge", LinearRegressor, LogisticClassifier, {"penalty": "ridge"}),
    Family("CART, pruned", CARTRegressor, CARTClassifier, {"ccp_alpha": "cv"}),
    Family(
        "XGB, depth-wise",
        XGBRegressor,
        XGBClassifier,
        {**BOOSTING, "max_depth": 4},
        _eval_set,
    ),
    Family(
        "XGB, loss-guided",
        XGBRegressor,
        XGBClassifier,
        {**BOOSTING, "max_depth": 0, "max_leaves": 15, "grow_policy": "lossguide"},
        _eval_set,
    ),
    Family("baseline (constant)", ConstantRegressor, ConstantClassifier),
)

# Each takes the seed; the bundled tables have no use for it.
DATASETS: dict[str, Callable[[int], Dataset]] = {
    "breast_cancer": lambda seed: load_breast_cancer(),
    "heart_failure": lambda seed: load_heart_failure(),
    "house_prices": lambda seed: make_house_prices(1500, random_state=seed),
}


class Split(NamedTuple):
    """Row numbers of the three parts of a data set."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Result:
    """What one family achieved on one data set."""

    model: str
    test_score: float
    train_score: float
    fit_seconds: float
    predict_seconds: float
    size_bytes: int


@dataclass(frozen=True)
class Comparison:
    """All results on one data set, the best first."""

    data: str
    dataset: Dataset
    split: Split
    score_name: str
    results: list[Result]


def split_rows(dataset: Dataset, seed: int) -> Split:
    """Split rows 70 / 15 / 15 at random, class by class for a classification task.

    Parameters
    ----------
    dataset : Dataset
        The data; only its target and its task are looked at.
    seed : int
        Seed of the shuffle.

    Returns
    -------
    Split
        Row numbers in ascending order.
    """
    rng = np.random.default_rng(seed_sequence(seed))
    target = np.asarray(dataset.target)
    strata = target if dataset.task == "classification" else np.zeros(len(target), dtype=int)
    parts: tuple[list, list, list] = ([], [], [])
    for stratum in np.unique(strata):
        rows = rng.permutation(np.flatnonzero(strata == stratum))
        first, second = round(0.70 * len(rows)), round(0.85 * len(rows))
        for part, chosen in zip(parts, np.split(rows, [first, second]), strict=True):
            part.append(chosen)
    return Split(*(np.sort(np.concatenate(part)) for part in parts))


def _make_estimator(family: Family, dataset: Dataset, seed: int, n_jobs: int | None) -> Any:
    """Build the estimator of a family that suits the task, with the arguments it understands."""
    kind = family.regressor if dataset.task == "regression" else family.classifier
    estimator = kind(**family.parameters)
    if hasattr(estimator, "get_params"):
        wanted = {
            "random_state": seed,
            "n_jobs": n_jobs,
            "categorical_features": dataset.categorical_features or None,
        }
        known = estimator.get_params(deep=False)
        estimator.set_params(**{key: value for key, value in wanted.items() if key in known})
    return estimator


def _predict(estimator: Any, X: np.ndarray, task: str) -> np.ndarray:
    """Return what the score wants: values, or probabilities of class 1."""
    return estimator.predict(X) if task == "regression" else estimator.predict_proba(X)[:, 1]


def _evaluate(
    family: Family, dataset: Dataset, split: Split, seed: int, n_jobs: int | None
) -> Result:
    """Fit one family and measure it."""
    X, y = dataset.to_array(), np.asarray(dataset.target)
    score = r2_score if dataset.task == "regression" else roc_auc_score
    estimator = _make_estimator(family, dataset, seed, n_jobs)
    arguments = family.validation(X[split.validation], y[split.validation])
    X_train, y_train, X_test = X[split.train], y[split.train], X[split.test]

    start = time.perf_counter()
    estimator.fit(X_train, y_train, **arguments)
    fit_seconds = time.perf_counter() - start

    predict_seconds = np.inf
    for _ in range(PREDICT_REPEATS):
        start = time.perf_counter()
        prediction = _predict(estimator, X_test, dataset.task)
        predict_seconds = min(predict_seconds, time.perf_counter() - start)
    return Result(
        model=family.name,
        test_score=score(y[split.test], prediction),
        train_score=score(y_train, _predict(estimator, X_train, dataset.task)),
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        size_bytes=len(pickle.dumps(estimator)),
    )


def compare(
    data: Sequence[str] | None = None, *, seed: int = 0, n_jobs: int | None = None
) -> list[Comparison]:
    """Fit every family on every chosen data set.

    Boosting stops early on the validation part. The test part is looked at once, for the score.

    Parameters
    ----------
    data : sequence of str, default=None
        Names from `DATASETS`; None takes them all.
    seed : int, default=0
        Seed of the split, the generated data and the models.
    n_jobs : int, default=None
        Threads of each model; None takes every usable CPU.

    Returns
    -------
    list of Comparison
        One for each data set, results in order of their test score.
    """
    comparisons = []
    for name in DATASETS if data is None else data:
        if name not in DATASETS:
            raise ValueError(f"data must be among {', '.join(DATASETS)}, got {name!r}")
        dataset = DATASETS[name](seed)
        split = split_rows(dataset, seed)
        results = [_evaluate(family, dataset, split, seed, n_jobs) for family in FAMILIES]
        results.sort(key=lambda result: -result.test_score)
        score_name = "R2" if dataset.task == "regression" else "ROC AUC"
        comparisons.append(Comparison(name, dataset, split, score_name, results))
    return comparisons


def _aligned(rows: list[list[str]], left: set[int]) -> list[str]:
    """Pad cells so that columns line up, those in `left` to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if j in left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def format_comparison(comparison: Comparison) -> str:
    """Return a heading and a table as text.

    Parameters
    ----------
    comparison : Comparison
        Results on one data set.

    Returns
    -------
    str
        Several lines without a final line break.
    """
    n_samples, n_features = comparison.dataset.shape
    parts = " / ".join(str(len(part)) for part in comparison.split)
    heading = (
        f"{comparison.data}: {comparison.dataset.task}, {n_samples} rows, "
        f"{n_features} features, train / validation / test {parts}"
    )
    score = comparison.score_name
    rows = [["rank", "model", f"test {score}", f"train {score}", "fit ms", "predict ms", "size KB"]]
    for rank, result in enumerate(comparison.results, start=1):
        rows.append(
            [
                str(rank),
                result.model,
                f"{result.test_score:.4f}",
                f"{result.train_score:.4f}",
                f"{1e3 * result.fit_seconds:.1f}",
                f"{1e3 * result.predict_seconds:.2f}",
                f"{result.size_bytes / 1024:.1f}",
            ]
        )
    lines = _aligned(rows, left={1})
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join([heading, "", *lines])
