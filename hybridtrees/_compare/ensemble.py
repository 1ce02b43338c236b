"""The ensemble of the compared models: an average by greedy selection, without further fits.

Weights come from predictions that the comparison has made already of rows that the models had
not seen. The rows that give the weights cannot also rank the ensemble. So each part of these rows
is predicted with the weights of the other parts, or of the earlier parts if rows are in the order
of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hybridtrees._compare.choice import Choice, Standing
from hybridtrees._compare.data import Data
from hybridtrees._compare.families import BASELINE
from hybridtrees._compare.resampling import interval
from hybridtrees._compare.scores import Prediction, Score
from hybridtrees._compare.search import Trial
from hybridtrees.ensembles.greedy import (
    Losses,
    absolute_losses,
    greedy_weights,
    log_losses,
    squared_losses,
)
from hybridtrees.selection.splits import Split

_ROUNDS = 25
# One validation part is divided into so many.
_PARTS = 5
# More rows do not change the weights, but take time.
_MOST_ROWS = 20_000


@dataclass
class Blend:
    """An ensemble of final models that are still to be fitted, and how it did."""

    weights: dict[str, float]  # By the keys of families
    standing: Standing = field(default_factory=Standing)
    validation: float = np.nan
    # Whether no model alone is better by more than one standard error of the difference. The best
    # of many models owes its score partly to luck; the ensemble, which is one candidate, does not
    leads: bool = False


@dataclass(frozen=True)
class Blender:
    """Finds the weights on one data set."""

    data: Data
    plan: Split
    score: Score
    seed: int

    def run(
        self, trials: Sequence[Trial], standings: dict[str, Standing], choice: Choice
    ) -> Blend | None:
        """Return the ensemble, or None if there are fewer than two models to choose from."""
        tried = {
            trial.family.key: trial.held_out
            for trial in trials
            if trial.held_out is not None and trial.family.key != BASELINE
        }
        if not standings:
            return self._by_validation(tried)
        folds = choice.folds
        found = {
            key: standing.predicted
            for key, standing in standings.items()
            if len(standing.predicted) == len(folds) and key != BASELINE
        }
        if len(found) < 2:
            return None
        repeats = [list(range(k, k + choice.n_folds)) for k in range(0, len(folds), choice.n_folds)]
        rows = [fold.validation for fold in folds]
        weights, predicted = self._cross_fitted(found, rows, repeats)
        standing = Standing(choice.scores_of(folds, predicted), predicted=predicted)
        standing.resampled = choice.resampled(folds, [predicted])[0]
        standing.interval = interval(standing.resampled)
        blend = Blend(dict(zip(found, weights.tolist(), strict=True)), standing)
        best = min((standings[key] for key in found), key=lambda one: self.score.key(one.mean))
        assert best.resampled is not None
        behind = self.score.key(standing.mean) - self.score.key(best.mean)
        spread = np.nanstd(best.resampled - standing.resampled)
        # All the weight on one model is that model.
        blend.leads = bool(behind <= spread and np.count_nonzero(weights) > 1)
        by_validation = self._by_validation(tried)
        blend.validation = np.nan if by_validation is None else by_validation.validation
        return blend

    def _by_validation(self, tried: dict[str, list[Prediction]]) -> Blend | None:
        """Return the ensemble by predictions of validation rows alone, and its score on these."""
        if len(tried) < 2:
            return None
        rows = [fold.validation for fold in self.plan.folds]
        cut = self._cut(rows[0]) if len(rows) == 1 else [np.arange(len(r)) for r in rows]
        if len(rows) == 1:
            found = {k: [_rows(one[0], part) for part in cut] for k, one in tried.items()}
            parts = [rows[0][part] for part in cut]
        else:
            found, parts = tried, rows
        weights, predicted = self._cross_fitted(found, parts, [list(range(len(parts)))])
        if len(rows) == 1:
            predicted = [_joined(predicted, cut)]
        blend = Blend(dict(zip(found, weights.tolist(), strict=True)))
        target = self.data.target
        scores = [self.score(target[r], one) for r, one in zip(rows, predicted, strict=True)]
        blend.validation = float(np.mean(scores))
        return blend

    def _cut(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return the positions of each part of the validation rows; runs in the order of time."""
        n_parts = min(_PARTS, len(rows))
        if self.plan.by_time:
            return list(np.array_split(np.arange(len(rows)), n_parts))
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, 2]))
        strata = self.data.strata
        classes = np.zeros(len(rows), dtype=int) if strata is None else strata[rows]
        dealt = np.lexsort((rng.permutation(len(rows)), classes))
        part_of = np.empty(len(rows), dtype=int)
        part_of[dealt] = np.arange(len(rows)) % n_parts
        return [np.flatnonzero(part_of == k) for k in range(n_parts)]

    def _cross_fitted(
        self,
        found: dict[str, list[Prediction]],
        parts: Sequence[np.ndarray],
        repeats: Sequence[Sequence[int]],
    ) -> tuple[np.ndarray, list[Prediction]]:
        """Return the weights by all parts, and what weights by the others predict of each part."""
        predicted: list[Prediction] = []
        for numbers in repeats:
            for k in numbers:
                others = [j for j in numbers if (j < k if self.plan.by_time else j != k)]
                weights = self._weights(found, parts, others)
                predicted.append(_average([one[k] for one in found.values()], weights))
        return self._weights(found, parts, range(len(parts))), predicted

    def _weights(
        self, found: dict[str, list[Prediction]], parts: Sequence[np.ndarray], used: Sequence[int]
    ) -> np.ndarray:
        """Return the weights that some parts give; equal ones if there are no parts."""
        if not len(used):
            return np.full(len(found), 1.0 / len(found))
        y = self.data.target[np.concatenate([parts[k] for k in used])]
        step = -(-len(y) // _MOST_ROWS)
        told = np.stack(
            [np.concatenate([_told(one[k]) for k in used])[::step] for one in found.values()]
        )
        y = y[::step]
        losses: Losses
        if self.data.n_classes:
            # By the log-loss, whatever the score: it knows how sure a model is of each row, so
            # that few rows mislead it less than they do the share of right classes.
            told, losses = told[:, np.arange(len(y)), y], log_losses()
        else:
            kind = absolute_losses if self.score.name in ("mae", "mape") else squared_losses
            losses = kind(y)
        return greedy_weights(told, losses, _ROUNDS)


def _told(predicted: Prediction) -> np.ndarray:
    """Return what is averaged: numbers or probabilities."""
    told: np.ndarray = predicted.value if predicted.proba is None else predicted.proba
    return told


def _average(predicted: Sequence[Prediction], weights: np.ndarray) -> Prediction:
    """Return the prediction of an ensemble."""
    parts = zip(predicted, weights, strict=True)
    total = np.sum([weight * _told(one) for one, weight in parts], axis=0)
    if predicted[0].proba is None:
        return Prediction(total)
    return Prediction(total.argmax(axis=1), total, total[:, -1])


def _rows(predicted: Prediction, rows: np.ndarray) -> Prediction:
    """Return a prediction of some of the rows."""
    if predicted.proba is None:
        return Prediction(predicted.value[rows])
    return Prediction(predicted.value[rows], predicted.proba[rows], predicted.rank[rows])


def _joined(predicted: Sequence[Prediction], places: Sequence[np.ndarray]) -> Prediction:
    """Return the prediction of all rows from those of parts."""
    order = np.argsort(np.concatenate(places))
    told = np.concatenate([_told(one) for one in predicted])[order]
    if predicted[0].proba is None:
        return Prediction(told)
    return Prediction(told.argmax(axis=1), told, told[:, -1])
