"""What a report shows beyond scores: learning curves and importances."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees._compare.families import Family
from hybridtrees._compare.fitting import Fit, FitJob, Part, in_package
from hybridtrees._compare.helpers import Helpers
from hybridtrees._compare.result import Comparison
from hybridtrees._compare.splits import nested_parts
from hybridtrees.inspection import permutation_importance

_SHARES = (0.125, 0.25, 0.5, 1.0)
# Rows are bounded, because a drawing is not worth minutes.
_MOST_CURVE_ROWS, _MOST_TEST_ROWS = 20_000, 1000
_MOST_FEATURES = 40


@dataclass(frozen=True)
class Curve:
    """Scores of one family with more and more training rows."""

    family: Family
    n_rows: list[int]
    train: list[float]
    validation: list[float]


def learning_curves(comparison: Comparison, helpers: Helpers) -> list[Curve]:
    """Fit the chosen setting of every family to parts of the training rows.

    Families that failed, and the baseline, have no curve.
    """
    data, plan, limits = comparison.data, comparison.plan, comparison.limits
    fold = plan.folds[-1]
    most = min(len(fold.train), _MOST_CURVE_ROWS)
    sizes = sorted({max(10, math.ceil(share * most)) for share in _SHARES})
    subsets = nested_parts(fold.train, sizes, plan.by_time, data.strata, limits.seed)
    held_out = data.part(fold.validation)
    parts = [Part(*data.part(rows), *held_out) for rows in subsets]
    job = FitJob.on(data, parts, comparison.score.name, limits.seed, helpers.threads_each)
    wanted = [r for r in comparison.results if r.error is None and r.family.key != "baseline"]
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
    models: list[str]
    shares: np.ndarray  # (n_features, n_models)


def importances(comparison: Comparison, most: int = 12) -> Importances | None:
    """Permutation importances of all models on the test rows; None where all models failed."""
    data = comparison.data
    results = [r for r in comparison.results if r.model is not None and r.family.key != "baseline"]
    if not results:
        return None
    rows = comparison.plan.test
    if len(rows) > _MOST_TEST_ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, _MOST_TEST_ROWS).astype(int)]
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
        lost = np.maximum(found.importances_mean, 0.0)
        shares[features, k] = lost / lost.sum() if lost.sum() > 0 else 0.0
    order = np.argsort(-shares.mean(axis=1), kind="stable")[: min(most, len(features))]
    return Importances(
        [data.feature_names[j] for j in order],
        [result.family.name for result in results],
        shares[order],
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
    return np.sort(np.argsort(-total, kind="stable")[:_MOST_FEATURES]).tolist()
