"""Choosing the best family by repeated folds, none of which holds a row of the test.

One validation split of a small table is mostly luck. Here the setting that was found for each
family is fitted again on every fold, the same folds for all families, and scored on the rows
held out. The mean score ranks the families. Resampling the rows tells how sure the ranks are:
families that are shown to be worse than the best take no part in further repeats.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hybridtrees._compare.data import Data
from hybridtrees._compare.fitting import Fit, FitJob, Fitted, Part, in_package
from hybridtrees._compare.helpers import Helpers
from hybridtrees._compare.progress import Progress
from hybridtrees._compare.resampling import UNKNOWN, Interval, interval, resamples
from hybridtrees._compare.scores import Prediction, Score, predict
from hybridtrees._compare.search import SMALL_TABLE, Limits, Trial
from hybridtrees.selection.splits import Fold, Split, repeated_folds

FOLDS = 5
# In the order of time the first folds train on few rows.
_FOLDS_IN_TIME = 3
_MOST_REPEATS = 3
# Held-out rows of all repeats together: a limit on the cost of choosing.
_HELD_OUT = 600
# Beyond so many rows one validation split has enough of them.
_MOST_ROWS = 20_000


@dataclass(frozen=True)
class _FoldJob(FitJob):
    """Fits whose predictions of the held-out rows are wanted."""

    def run(self, item: Fit) -> Fitted:
        """Fit one setting to one part."""
        part = self.parts[item.part or 0]
        try:
            model, _ = self._fit(item, part)
            return {"predicted": predict(model, part.X_val, self.n_classes)}
        except Exception as error:  # one family that fails must not end the comparison
            return {"error": f"{type(error).__name__}: {error}"}


@dataclass
class Standing:
    """How one family did on the folds."""

    scores: list[float] = field(default_factory=list)  # On each fold of each repeat
    interval: Interval = UNKNOWN  # Of their mean
    leads: bool = False  # The best of all families, or not shown to be worse
    error: str | None = None
    predicted: list[Prediction] = field(default_factory=list)  # Of each fold
    resampled: np.ndarray | None = None  # The mean score on each resample of the rows

    @property
    def mean(self) -> float:
        """The score that ranks the family."""
        return _mean(np.array(self.scores)[:, None])[0] if self.scores else np.nan


def count_folds(data: Data, plan: Split, folds: int | None) -> tuple[int, int]:
    """Return the number of folds and of repeats; (0, 0) if the table is large.

    Nor are there folds if a class has a single row, without which no fold could train.
    """
    n_rows, n_features = len(plan.rest), data.shape[1]
    if n_rows > _MOST_ROWS or n_rows * n_features > SMALL_TABLE:
        return 0, 0
    if data.n_classes and np.bincount(data.target[plan.rest], minlength=data.n_classes).min() < 2:
        return 0, 0
    if plan.by_time:
        return folds or _FOLDS_IN_TIME, 1
    return folds or FOLDS, int(np.clip(_HELD_OUT // n_rows, 1, _MOST_REPEATS))


@dataclass
class Choice:
    """Fits the families on the folds, and ranks them."""

    data: Data
    plan: Split
    score: Score
    limits: Limits
    progress: Progress
    helpers: Helpers
    n_folds: int
    n_repeats: int  # Those that were done, after `run`
    folds: list[Fold] = field(default_factory=list)  # Those that were done, repeat after repeat

    def run(self, trials: Sequence[Trial], end: float | None) -> dict[str, Standing]:
        """Standings by the keys of families; none if `end` leaves no time for a repeat."""
        strata, seed = self.data.strata, self.limits.seed
        repeats = repeated_folds(self.plan, self.n_folds, self.n_repeats, strata, seed)
        folds: list[Fold] = []
        fitted: dict[str, list[Fitted]] = {trial.family.key: [] for trial in trials}
        standings: dict[str, Standing] = {}
        seconds = self.n_folds * sum(trial.seconds for trial in trials) / self.helpers.n_workers
        for repeat in repeats:
            start = time.perf_counter()
            if len(trials) < 2 or (end is not None and start + seconds > end):
                break
            folds += repeat
            for trial, new in zip(trials, self._fit(trials, repeat), strict=True):
                fitted[trial.family.key] += new
            standings |= self._standings(
                folds, {t.family.key: fitted[t.family.key] for t in trials}
            )
            trials = [trial for trial in trials if standings[trial.family.key].leads]
            seconds = time.perf_counter() - start
        self.n_repeats, self.folds = len(folds) // self.n_folds, folds
        return standings

    def _fit(self, trials: Sequence[Trial], folds: list[Fold]) -> list[list[Fitted]]:
        """For each family what came of each fold."""
        self.progress.expect({trial.family.key: float(len(folds)) for trial in trials})
        parts = [Part(*self.data.part(f.train), *self.data.part(f.validation)) for f in folds]
        n_threads = self.helpers.threads_each
        job = _FoldJob.on(self.data, parts, self.score.name, self.limits.seed, n_threads)

        def attempt(fit: Fit, run: Callable[[Fit], Fitted]) -> Fitted:
            start = time.perf_counter()
            found = run(fit)
            self.progress.done(fit.family.key, time.perf_counter() - start)
            return found

        # The slow ones first, so that nothing waits for them in the end.
        order = sorted(range(len(trials)), key=lambda k: -trials[k].seconds)
        fits = [
            Fit(trials[k].family, trials[k].final_setting(), part, stop=False)
            for k in order
            for part in range(len(parts))
        ]
        done = self.helpers.map(job, fits, attempt, lambda fit: in_package(fit.family))
        found = {k: done[i * len(parts) :][: len(parts)] for i, k in enumerate(order)}
        return [found[k] for k in range(len(trials))]

    def _standings(self, folds: list[Fold], fitted: dict[str, list[Fitted]]) -> dict[str, Standing]:
        """Score the predictions, and resamples of them."""
        standings, predicted = {}, {}
        for key, found in fitted.items():
            error = next((one["error"] for one in found if "error" in one), None)
            standings[key] = Standing(error=error)
            if error is None:
                predicted[key] = [one["predicted"] for one in found]
                standings[key].scores = self.scores_of(folds, predicted[key])
                standings[key].predicted = predicted[key]
        if not predicted:
            return standings
        best = min(predicted, key=lambda key: self.score.key(standings[key].mean))
        means = dict(zip(predicted, self.resampled(folds, list(predicted.values())), strict=True))
        for key, values in means.items():
            standings[key].interval, standings[key].resampled = interval(values), values
            standings[key].leads = key == best or not is_worse(self.score, values, means[best])
        return standings

    def scores_of(self, folds: list[Fold], predicted: list[Prediction]) -> list[float]:
        """Score of each fold."""
        target = self.data.target
        return [
            self.score(target[fold.validation], one)
            for fold, one in zip(folds, predicted, strict=True)
        ]

    def resampled(
        self, folds: list[Fold], predicted: Sequence[list[Prediction]]
    ) -> list[np.ndarray]:
        """Mean score over the folds on each resample of the rows that do not test, by model."""
        rest, target = self.plan.rest, self.data.target
        place = np.zeros(len(target), dtype=np.intp)
        place[rest] = np.arange(len(rest))
        blocks: list[list[np.ndarray]] = [[] for _ in predicted]
        for counts in resamples(len(rest), self.limits.seed, self.plan.by_time):
            by_row = np.ascontiguousarray(counts.T)
            # Picking the rows of a fold takes longer than scoring them: once for all models.
            scores: list[list[np.ndarray]] = [[] for _ in predicted]
            for k, (_, rows) in enumerate(folds):
                drawn = by_row[place[rows]].T
                for own, found in zip(scores, predicted, strict=True):
                    own.append(self.score.resampled(target[rows], found[k], drawn))
            for block, own in zip(blocks, scores, strict=True):
                block.append(_mean(np.array(own)))
        return [np.concatenate(block) for block in blocks]


def is_worse(score: Score, values: np.ndarray, best: np.ndarray) -> bool:
    """Whether a model does worse than the best on nearly all resamples of the same rows."""
    gap = best - values if score.maximize else values - best
    low, _ = interval(gap)
    return low > 0


def _mean(scores: np.ndarray) -> np.ndarray:
    """Mean of the finite scores over the first axis: a class may have no rows in a fold."""
    known = np.isfinite(scores)
    with np.errstate(invalid="ignore"):
        mean: np.ndarray = np.where(known, scores, 0.0).sum(axis=0) / known.sum(axis=0)
    return mean
