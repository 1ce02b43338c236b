"""What a report shows beyond scores: learning curves, importances, effects, curves of tests."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees._compare.families import BASELINE, ENSEMBLE, Family
from hybridtrees._compare.fitting import Fit, FitJob, Part, in_package
from hybridtrees._compare.helpers import Helpers
from hybridtrees._compare.result import Comparison, Result
from hybridtrees._compare.scores import Prediction
from hybridtrees.inspection import (
    PartialDependence,
    PermutationImportance,
    ShapValues,
    partial_dependence,
    permutation_importance,
    shap_values,
)
from hybridtrees.metrics import roc_curve
from hybridtrees.selection.splits import nested_parts

_SHARES = (0.125, 0.25, 0.5, 1.0)
# Rows are bounded, because a drawing is not worth minutes.
_MOST_CURVE_ROWS, _MOST_TEST_ROWS, _MOST_EFFECT_ROWS = 20_000, 1000, 300
# Shapley values of a forest take about 2 ns per byte of its pickle and row. A model is passed over
# if not even the fewest rows fit.
_MOST_SHAP_ROWS, _FEWEST_SHAP_ROWS, _MOST_SHAP_WORK = 200, 40, 3e8
_MOST_FEATURES = 40
_MOST_ROC_POINTS = 120
_NORMAL_95 = 1.96


@dataclass(frozen=True)
class Curve:
    """Scores of one family with more and more training rows."""

    family: Family
    n_rows: list[int]
    train: list[float]
    validation: list[float]


def learning_curves(comparison: Comparison, helpers: Helpers) -> list[Curve]:
    """Fit the chosen setting of every family to parts of the training rows.

    Families that failed, the baseline and the ensemble have no curve.
    """
    data, plan, limits = comparison.data, comparison.plan, comparison.limits
    fold = plan.folds[-1]
    most = min(len(fold.train), _MOST_CURVE_ROWS)
    sizes = sorted({max(10, math.ceil(share * most)) for share in _SHARES})
    subsets = nested_parts(fold.train, sizes, plan.by_time, data.strata, limits.seed)
    held_out = data.part(fold.validation)
    parts = [Part(*data.part(rows), *held_out) for rows in subsets]
    job = FitJob.on(data, parts, comparison.score.name, limits.seed, helpers.threads_each)
    apart = (BASELINE, ENSEMBLE)
    wanted = [r for r in comparison.results if r.error is None and r.family.key not in apart]
    # The search has fitted the settings to all rows, unless it had several folds or a budget.
    searched = most == len(fold.train) and len(plan.folds) == 1
    fits = [
        Fit(result.family, result.setting, k, stop=False)
        for k in reversed(range(len(sizes)))  # the longest first, so that none is left at the end
        for result in wanted
        if not (searched and sizes[k] == result.trial.n_rows)
    ]
    found = helpers.map(job, fits, may_leave=lambda fit: in_package(fit.family))
    scores = {
        (fit.family.key, fit.part): (one.get("train", math.nan), one.get("validation", math.nan))
        for fit, one in zip(fits, found, strict=True)
    }
    curves = []
    for result in wanted:
        known = (result.trial.train, result.trial.validation)
        # Few rows may be too few for a setting, and leave a gap.
        points = [scores.get((result.family.key, k), known) for k in range(len(sizes))]
        curves.append(Curve(result.family, sizes, [a for a, _ in points], [b for _, b in points]))
    return curves


@dataclass(frozen=True)
class Importances:
    """What the score of each model loses when a feature is shuffled, in shares of its total."""

    features: list[str]  # Those that matter most on average, the most important first
    families: list[Family]
    shares: np.ndarray  # (n_features, n_models)
    of_winner: list[int]  # Numbers of the features that the winner needs, the most important first


def importances(comparison: Comparison, most: int = 12) -> Importances | None:
    """Permutation importances of all models on the test rows; None where all models failed."""
    data = comparison.data
    results = [r for r in comparison.results if r.model is not None and r.family.key != BASELINE]
    if not results:
        return None
    if comparison.winner.family.key != ENSEMBLE:  # its members say the same, at less cost
        results = [r for r in results if r.family.key != ENSEMBLE]
    rows = some(comparison.plan.test, _MOST_TEST_ROWS)
    X, y = data.columns.take(rows).table, data.labels[rows]
    features = _candidates([r.model for r in results], data.shape[1])
    scoring = "rmse" if data.task == "regression" else "logloss"
    shares = np.zeros((data.shape[1], len(results)))
    for k, result in enumerate(results):
        # The log-loss needs rows of every class that a model knows.
        has_all = data.n_classes < 2 or len(np.unique(y)) == len(result.model.classes_)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = permutation_importance(
                result.model,
                X,
                y,
                scoring=scoring if has_all else "accuracy",
                n_repeats=2,
                random_state=comparison.limits.seed,
                features=features,
            )
        assert isinstance(found, PermutationImportance)  # of one score
        lost = np.maximum(found.importances_mean, 0.0)
        shares[features, k] = lost / lost.sum() if lost.sum() > 0 else 0.0
    order = np.argsort(-shares.mean(axis=1), kind="stable")[: min(most, len(features))]
    own = shares[:, [result is comparison.winner for result in results]].ravel()
    return Importances(
        [data.feature_names[j] for j in order],
        [result.family for result in results],
        shares[order],
        [int(j) for j in np.argsort(-own, kind="stable") if own[j] > 0],
    )


def _candidates(models: list[Any], n_features: int) -> list[int]:
    """Features worth shuffling: all of a few; else those that the trees split on most."""
    if n_features <= _MOST_FEATURES:
        return list(range(n_features))
    known = [
        np.asarray(model.feature_importances_)
        for model in models
        if len(getattr(model, "feature_importances_", ())) == n_features
    ]
    total = np.sum(known, axis=0) if known else np.zeros(n_features)
    return sorted(np.argsort(-total, kind="stable")[:_MOST_FEATURES].tolist())


def some(rows: np.ndarray, most: int) -> np.ndarray:
    """Return at most so many of the rows, evenly spread."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]


def effects(comparison: Comparison, features: list[int]) -> list[PartialDependence]:
    """Partial dependence of the winner on some features, averaged over rows that it has seen."""
    rows = some(comparison.plan.rest, _MOST_EFFECT_ROWS)
    X = comparison.data.columns.take(rows).table
    found = []
    for feature in features:
        try:
            one = partial_dependence(
                comparison.winner.model,
                X,
                feature,
                grid="quantile",
                grid_resolution=30,
                percentiles=(0.02, 0.98),
            )
        except ValueError:  # a column that has no value in these rows
            continue
        one.feature_names = [comparison.data.feature_names[feature]]
        found.append(one)
    return found


@dataclass(frozen=True)
class Explanation:
    """Shapley values of some test rows, for one model."""

    result: Result
    values: ShapValues


def explanation(comparison: Comparison) -> Explanation | None:
    """Explain the winner, or else the best model that can be explained; None if there is none."""
    results = [comparison.winner, *(r for r in comparison.results if r is not comparison.winner)]
    for result in results:
        n_rows = min(_MOST_SHAP_ROWS, int(_MOST_SHAP_WORK / max(result.size_bytes, 1)))
        if result.model is None or n_rows < _FEWEST_SHAP_ROWS:
            continue
        rows = some(comparison.plan.test, n_rows)
        X, n_threads = comparison.data.columns.take(rows).table, comparison.limits.n_threads
        try:
            return Explanation(result, shap_values(result.model, X, n_jobs=n_threads))
        except TypeError:  # the model is no sum of trees or lines
            continue
    return None


# ---- Curves of predicted classes ----------------------------------------------------------------


def roc_curves(y: np.ndarray, predicted: Prediction) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the false and true positive rates of the test rows.

    One curve for two classes. For more, that of each class against the rest and, last, their mean
    weighted by the classes' shares, whose area is the AUC that tables show. Empty if the rows
    are all of one class.
    """
    codes = [1] if predicted.proba.shape[1] == 2 else predicted.codes
    curves, weights = [], []
    for code in codes:
        positive = y == code
        if positive.all() or not positive.any():
            continue
        score = predicted.rank if len(codes) == 1 else predicted.proba[:, code]
        curves.append(roc_curve(positive, score)[:2])
        weights.append(positive.sum())
    if len(codes) > 1 and curves:
        grid = np.unique(np.concatenate([false for false, _ in curves]))
        mean = np.average([_heights(grid, *curve) for curve in curves], axis=0, weights=weights)
        curves.append((np.repeat(grid, 2), mean.ravel()))
    return [_thinned(*curve) for curve in curves]


def _heights(grid: np.ndarray, false: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Lowest and highest point of a curve at some places: two where it is vertical, (n, 2)."""
    first = np.searchsorted(false, grid, "left")
    last = np.searchsorted(false, grid, "right") - 1
    # Between two points of the curve `last` is the one before and `first` the one behind.
    step = np.where(first > last, false[first] - false[last], 1.0)
    between = true[last] + (grid - false[last]) / step * (true[first] - true[last])
    exact = false[first] == grid
    return np.column_stack(
        [np.where(exact, true[first], between), np.where(exact, true[last], between)]
    )


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out points between which a curve is straight, and more where there are too many."""
    new = np.append(True, (np.diff(x) != 0) | (np.diff(y) != 0))
    x, y = x[new], y[new]
    cross = np.diff(x[:-1]) * np.diff(y[1:]) - np.diff(x[1:]) * np.diff(y[:-1])
    corners = np.concatenate([[True], np.abs(cross) > 1e-12, [True]])
    kept = some(np.flatnonzero(corners), _MOST_ROC_POINTS)
    return x[kept], y[kept]


@dataclass(frozen=True)
class Calibration:
    """Shares that were predicted and observed, in groups of about equally many rows."""

    predicted: np.ndarray
    observed: np.ndarray
    low: np.ndarray  # Ends of a 95 % interval of the observed share (Wilson 1927)
    high: np.ndarray


def calibration(y: np.ndarray, predicted: Prediction) -> Calibration:
    """Compare predicted probabilities with what came; of more than two classes, all together."""
    if predicted.proba.shape[1] == 2:
        share, came = predicted.proba[:, 1], y == 1
    else:
        share, came = predicted.proba.ravel(), (y[:, None] == np.array(predicted.codes)).ravel()
    # Rows of equal probability stay together, so that groups may be of different sizes.
    n_groups = min(10, max(2, len(share) // 10))
    place = np.searchsorted(np.sort(share), share) * n_groups // len(share)
    groups = [place == k for k in np.unique(place)]
    size = np.array([group.sum() for group in groups])
    mean = np.array([share[group].mean() for group in groups])
    rate = np.array([came[group].mean() for group in groups])
    z2 = _NORMAL_95**2
    centre = (rate + z2 / (2 * size)) / (1 + z2 / size)
    half = _NORMAL_95 * np.sqrt(rate * (1 - rate) / size + z2 / (4 * size**2)) / (1 + z2 / size)
    low, high = np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
    return Calibration(mean, rate, low, high)


def confusion(y: np.ndarray, predicted: Prediction) -> np.ndarray:
    """Count the rows of each class (down) by the class predicted for them (across)."""
    n_classes = predicted.proba.shape[1]
    counts = np.bincount(y * n_classes + predicted.value, minlength=n_classes**2)
    return counts.reshape(n_classes, n_classes)
