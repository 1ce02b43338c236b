"""Permutation importance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from hybridtrees._parameters import check_integer, check_real
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.input._user_tables import Columns, open_columns
from hybridtrees.input.targets import check_sample_weight
from hybridtrees.inspection._result import Result
from hybridtrees.inspection._scoring import Predictions, make_scorers


@dataclass
class PermutationImportance(Result):
    """Permutation importance of features for one score.

    Attributes
    ----------
    importances_mean, importances_std : ndarray of shape (n_features,)
        Mean and standard deviation over the repeats.
    importances : ndarray of shape (n_features, n_repeats)
        Baseline score minus the score with the feature shuffled.
    baseline_score : float
        Score of the original table; losses are negated.
    feature_names : list of str
    """

    importances_mean: np.ndarray
    importances_std: np.ndarray
    importances: np.ndarray
    baseline_score: float
    feature_names: list[str]


def permutation_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    scoring: Any = None,
    n_repeats: int = 5,
    random_state: Any = None,
    sample_weight: Any = None,
    max_samples: int | float = 1.0,
    features: Sequence[int | str] | None = None,
) -> PermutationImportance | dict[str, PermutationImportance]:
    """Permutation importance of features (Breiman 2001).

    The importance of a feature is the decrease of the score when its values are shuffled. Use rows
    that were not used in fit to see what matters for prediction. Features that carry the same
    information share their importance.

    Parameters
    ----------
    estimator : fitted estimator
        Any with `predict`, and with `predict_proba` where a score needs it.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Table of the kind seen in fit.
    y : array-like of shape (n_rows,)
        The target.
    scoring : str, Metric, callable, or a list or dict of these, optional
        Names are those of `hybridtrees.metrics.METRICS`, "accuracy", or scikit-learn's such as
        "neg_mean_squared_error". A callable takes (estimator, X, y), and `sample_weight` if
        there are weights; larger values are better. By default R2 or the accuracy.
    n_repeats : int, default=5
        Number of times to shuffle each feature.
    random_state : int, Generator, RandomState or None
        Seed. Each feature has its own random stream, so that its result does not depend on the
        other `features`.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights of the scores.
    max_samples : int or float, default=1.0
        Number or share of the rows to score, drawn at random once.
    features : sequence of int or str, optional
        Columns to shuffle; all by default.

    Returns
    -------
    result : PermutationImportance, or dict of these by name if `scoring` is a list or dict

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import XGBRegressor
    >>> from hybridtrees.inspection import permutation_importance
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = XGBRegressor(n_estimators=20).fit(X, X[:, 1])
    >>> result = permutation_importance(model, X, X[:, 1], random_state=0)
    >>> result.importances_mean.argmax()
    np.int64(1)
    """
    n_repeats = int(check_integer("n_repeats", n_repeats, 1) or 0)
    columns = open_columns(X)
    n_rows, n_columns = columns.shape
    target = _as_vector(y, n_rows)
    weight = check_sample_weight(sample_weight, n_rows)
    scorers = make_scorers(scoring, estimator)
    chosen = range(n_columns) if features is None else _indices(columns, features)
    draw, *streams = seed_sequence(random_state).spawn(1 + n_columns)
    n_drawn = _sample_size(max_samples, n_rows)
    if n_drawn < n_rows:
        rows = np.sort(np.random.default_rng(draw).choice(n_rows, n_drawn, replace=False))
        columns, target = columns.take(rows), target[rows]
        weight = None if weight is None else weight[rows]

    def scores(table: Any) -> list[float]:
        predictions = Predictions(estimator, table)
        return [scorer(predictions, target, weight) for scorer in scorers.values()]

    baseline = np.array(scores(columns.table))
    losses = np.empty((len(scorers), len(chosen), n_repeats))
    for place, index in enumerate(chosen):
        rng = np.random.default_rng(streams[index])
        for repeat in range(n_repeats):
            shuffled = columns.permuted(index, rng.permutation(n_drawn))
            losses[:, place, repeat] = baseline - scores(shuffled)
    known = columns.feature_names(estimator)
    names = [known[index] for index in chosen]
    results = {
        name: PermutationImportance(
            part.mean(axis=1), part.std(axis=1), part, float(baseline[k]), names
        )
        for k, (name, part) in enumerate(zip(scorers, losses, strict=True))
    }
    is_many = isinstance(scoring, dict | list | set) or type(scoring) is tuple
    return results if is_many else next(iter(results.values()))


def _indices(columns: Columns, features: Sequence[int | str]) -> list[int]:
    if isinstance(features, int | str):
        features = [features]
    indices = [columns.index(feature) for feature in features]
    if not indices:
        raise ValueError("features must name at least one column, got an empty sequence")
    return indices


def _as_vector(y: Any, n_rows: int) -> np.ndarray:
    """Return targets as an array of any dtype."""
    values = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
    if values.ndim == 0 or len(values) != n_rows:
        raise ValueError(f"y must have one entry for each of the {n_rows} rows of X")
    return values


def _sample_size(max_samples: Any, n_rows: int) -> int:
    if isinstance(max_samples, Integral) and not isinstance(max_samples, bool | np.bool_):
        return int(check_integer("max_samples", max_samples, 1, n_rows) or 0)
    share = check_real("max_samples", max_samples, 0, 1, closed="right")
    return max(1, int((share or 0.0) * n_rows))
