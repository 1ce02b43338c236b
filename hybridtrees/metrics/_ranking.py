"""Metrics of the order of scores: areas under curves."""

from __future__ import annotations

import math
import warnings
from itertools import combinations
from typing import Any

import numpy as np

from hybridtrees._parameters import check_option
from hybridtrees.core.base.exact_sum import exact_sum, group_sums
from hybridtrees.input.targets import (
    check_sample_weight,
    check_target_classification,
    check_target_regression,
)
from hybridtrees.metrics._checks import (
    LABELS,
    WEIGHT,
    check_n_columns,
    check_same_length,
    documented,
    known_classes,
)

_SCORES = """y_true : array-like of shape (n_rows,)
    Labels; the larger one of two is positive.
y_score : array-like of shape (n_rows,) or (n_rows, n_classes)
    Scores of the positive class, or of each class in sorted order."""
_ONE_CLASS = "NaN (with a warning) if only one class is present."


@documented(
    _SCORES,
    """average : {"macro", "weighted"} or None
    With several classes: "macro" is the mean, "weighted" the mean weighted by the shares of the
    classes, None an area for each class (only with "ovr").""",
    WEIGHT,
    """multi_class : {"raise", "ovr", "ovo"}
    With more than two classes: raise an error, each class against the rest, or each pair of
    classes.""",
    LABELS,
    returns=f"score : float or ndarray of shape (n_classes,)\n    {_ONE_CLASS}",
)
def roc_auc_score(
    y_true: Any,
    y_score: Any,
    *,
    average: str | None = "macro",
    sample_weight: Any = None,
    multi_class: str = "raise",
    labels: Any = None,
) -> Any:
    """Area under the ROC curve: probability that a positive row scores above a negative one.

    Ties count one half.
    """
    check_option("multi_class", multi_class, ("raise", "ovr", "ovo"))
    check_option("average", average, ("macro", "weighted", None))
    codes, classes, score, weight = _read(y_true, y_score, sample_weight, labels)
    if score.ndim == 2 and score.shape[1] == 2 and len(classes) <= 2:
        score = score[:, 1]
    if len(classes) > 2 or score.ndim == 2:
        if multi_class == "raise":
            raise ValueError(
                f"roc_auc_score needs two classes, y_true holds {len(classes)}; choose "
                "multi_class='ovr' or 'ovo' and give the scores of all classes"
            )
        if score.ndim == 1:
            raise ValueError("y_score must have a column for each class, got one column")
        check_n_columns(len(classes), score, "y_score")
        if multi_class == "ovo":
            if average is None:
                raise ValueError("average must be 'macro' or 'weighted' for multi_class='ovo'")
            return _one_vs_one(codes, score, weight, average)
        return _one_vs_rest(_area_under_roc, codes, score, weight, average)
    if len(classes) < 2:
        _warn_one_class("ROC")
        return math.nan
    return _area_under_roc(codes == 1, score, weight)


@documented(_SCORES, WEIGHT, LABELS, returns=f"score : float\n    {_ONE_CLASS}")
def pr_auc_score(
    y_true: Any, y_score: Any, *, sample_weight: Any = None, labels: Any = None
) -> float:
    """Area under the precision-recall curve, integrated exactly.

    Between two scores false positives grow in proportion to true ones (Davis and Goadrich 2006),
    as in XGBoost's "aucpr". With several classes it is the mean of each class against the rest.
    """
    codes, classes, score, weight = _read(y_true, y_score, sample_weight, labels)
    if score.ndim == 2 and score.shape[1] > 2:
        check_n_columns(len(classes), score, "y_score")
        return float(_one_vs_rest(_area_under_pr, codes, score, weight, "macro"))
    if score.ndim == 2:
        score = score[:, -1]
    if len(classes) > 2:
        raise ValueError("y_score must have a column for each class, got one column")
    if len(classes) < 2:
        _warn_one_class("precision-recall")
        return math.nan
    return _area_under_pr(codes == 1, score, weight)


def roc_curve(
    y_true: Any, y_score: Any, *, sample_weight: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of the ROC curve, from the highest threshold to the lowest.

    Points on a straight line between their neighbours are left out.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Labels of two classes; the larger one is positive.
    y_score : array-like of shape (n_rows,)
        Scores of the positive class.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    fpr, tpr : ndarray of shape (n_points,)
        Share of the negative and of the positive rows that score at least the threshold.
    thresholds : ndarray of shape (n_points,)
        Falling, infinite first.
    """
    codes, classes, score, weight = _read(y_true, y_score, sample_weight)
    if len(classes) != 2 or score.ndim != 1:
        raise ValueError(f"roc_curve needs two classes, y_true holds {len(classes)}")
    true, false = _counts(codes == 1, score, weight, descending=True)
    corner = np.ones(len(true), dtype=bool)
    corner[1:-1] = (np.diff(true, 2) != 0) | (np.diff(false, 2) != 0)
    thresholds = -np.unique(-score)
    tpr, fpr = (np.append(0.0, count[corner] / count[-1]) for count in (true, false))
    return fpr, tpr, np.append(np.inf, thresholds[corner])


@documented(
    """y_true : array-like of shape (n_rows,)
    Labels of two classes; the larger one is positive.
y_score : array-like of shape (n_rows,)
    Scores of the positive class.""",
    WEIGHT,
    returns="score : float",
)
def average_precision_score(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """Average precision: mean of the precision over the recall, without interpolation."""
    codes, classes, score, weight = _read(y_true, y_score, sample_weight)
    if len(classes) != 2 or score.ndim != 1:
        raise ValueError(f"average_precision_score needs two classes, y_true holds {len(classes)}")
    true, false = _counts(codes == 1, score, weight, descending=True)
    if not true[-1] > 0:
        return math.nan
    flagged = true + false
    precision = np.divide(true, flagged, out=np.zeros_like(true), where=flagged > 0)
    return float(exact_sum(np.diff(true, prepend=0.0), precision) / float(true[-1]))


def _read(
    y_true: Any, y_score: Any, sample_weight: Any, labels: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Return class codes, classes, scores and weights, checked."""
    codes, classes = check_target_classification(
        y_true, classes=known_classes(labels), name="y_true"
    )
    score = _scores(y_score, len(codes), "y_score")
    check_same_length(codes, score)
    return codes, classes, score, check_sample_weight(sample_weight, len(codes))


def _scores(y_score: Any, n_rows: int, name: str) -> np.ndarray:
    score = np.asarray(y_score)
    if score.dtype.kind != "f" or score.ndim not in (1, 2):
        score = check_target_regression(score, n_rows, multi_output=True, name=name)
    if score.ndim == 2 and score.shape[1] == 1:
        score = score[:, 0]
    if np.isnan(score).any():
        raise ValueError(f"Input {name} contains NaN")
    return score


def _warn_one_class(curve: str) -> None:
    warnings.warn(
        f"only one class is present: the area under the {curve} curve is not defined",
        UserWarning,
        stacklevel=3,
    )


def _counts(
    positive: np.ndarray, score: np.ndarray, weight: np.ndarray | None, descending: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weight of the positive and of the negative rows up to each distinct score."""
    order = np.argsort(-score if descending else score)
    score, positive = score[order], positive[order]
    weight = None if weight is None else weight[order]
    # Rank of each row's score among the distinct ones.
    run = np.append(0, np.cumsum(score[1:] != score[:-1]))
    true, false = (
        np.cumsum(group_sums(run[rows], run[-1] + 1, None if weight is None else weight[rows]))
        for rows in (positive, ~positive)
    )
    return true, false


def _area_under_roc(positive: np.ndarray, score: np.ndarray, weight: np.ndarray | None) -> float:
    yes, no = _counts(positive, score, weight)
    # Trapezoids: positives of a tie are above all earlier negatives and half of those tied.
    width = np.diff(yes, prepend=0.0)
    height = no - 0.5 * np.diff(no, prepend=0.0)
    total = yes[-1] * no[-1]
    return exact_sum(width, height) / float(total) if total > 0 else math.nan


def _area_under_pr(positive: np.ndarray, score: np.ndarray, weight: np.ndarray | None) -> float:
    """Integrate t / (t + f(t)) over the true positives t, with f linear between scores.

    With f(t) = f0 + s (t - t0) and c = f0 - s t0 the integrand is t / (c + (1 + s) t), whose
    integral is t / (1 + s) - c / (1 + s)^2 log(c + (1 + s) t).
    """
    true, false = _counts(positive, score, weight, descending=True)
    if not (true[-1] > 0 and false[-1] > 0):
        return math.nan
    true, false = np.append(0.0, true), np.append(0.0, false)
    rise = np.diff(true)
    part = rise > 0
    rise, t0, f0 = rise[part], true[:-1][part], false[:-1][part]
    slope = np.diff(false)[part] / rise
    area = rise / (1 + slope)
    curved = t0 + f0 > 0  # precision is constant on the first part, where c is 0
    c, steep = (f0 - slope * t0)[curved], (1 + slope)[curved]
    area[curved] -= c / steep**2 * np.log1p(steep * rise[curved] / (t0 + f0)[curved])
    return float(exact_sum(area) / float(true[-1]))


def _one_vs_rest(
    area: Any, codes: np.ndarray, score: np.ndarray, weight: np.ndarray | None, average: str | None
) -> Any:
    n_classes = score.shape[1]
    areas = np.array([area(codes == k, score[:, k], weight) for k in range(n_classes)])
    if average is None:
        return areas
    if average == "macro":
        return float(areas.mean())
    return float(np.average(areas, weights=group_sums(codes, n_classes, weight)))


def _one_vs_one(
    codes: np.ndarray, score: np.ndarray, weight: np.ndarray | None, average: str
) -> float:
    """Return the mean over pairs of classes, each positive once (Hand and Till 2001)."""
    areas, shares = [], []
    for one, other in combinations(range(score.shape[1]), 2):
        rows = (codes == one) | (codes == other)
        part = None if weight is None else weight[rows]
        shares.append(exact_sum(rows if part is None else part))
        areas.append(
            0.5 * _area_under_roc(codes[rows] == one, score[rows, one], part)
            + 0.5 * _area_under_roc(codes[rows] == other, score[rows, other], part)
            if rows.any()
            else math.nan
        )
    return float(np.average(areas, weights=shares if average == "weighted" else None))
