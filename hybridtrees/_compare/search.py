"""Choosing the setting of each family: every one, or by successive halving."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from hybridtrees._compare.data import Data
from hybridtrees._compare.families import Family, Setting
from hybridtrees._compare.fitting import Fit, FitJob, Fitted, Part, in_package
from hybridtrees._compare.helpers import Helpers
from hybridtrees._compare.progress import Progress
from hybridtrees._compare.scores import Prediction, Score
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.selection.halving import n_survivors, rung_shrinks
from hybridtrees.selection.splits import Split, nested_parts

SEARCHES = ("halving", "grid")
# A score on fewer rows is too noisy; a class should have some of them.
_FEWEST_ROWS = 1000
# Below so many entries a fit is too small for several threads: fits run side by side instead.
SMALL_TABLE = 2_000_000


@dataclass
class Trial:
    """One setting of one family, and how it did."""

    family: Family
    setting: Setting
    # Scores, means over the folds
    train: float = math.nan
    validation: float = math.nan
    rounds: int | None = None  # What early stopping found, the mean over folds
    seconds: float = 0.0  # Of the fits
    n_rows: int = 0  # Training rows of the (largest) fold
    error: str | None = None  # Why it failed
    # Predictions of the validation rows of each fold; kept of the best trial of a family only
    held_out: list[Prediction] | None = field(default=None, repr=False)

    def overfits(self, score: Score, limit: float | None) -> bool:
        """Whether it is to be set aside."""
        return score.overfits(self.train, self.validation, limit)

    def final_setting(self) -> Setting:
        """Return the parameters of the final fit: the rounds that were found are put in."""
        stopping = self.family.stopping
        if stopping is None or self.rounds is None:
            return dict(self.setting)
        return {**self.setting, stopping.parameter: self.rounds}


@dataclass(frozen=True)
class Limits:
    """What bounds a search."""

    search: str = "halving"
    # Seconds for everything; the first setting of each family is tried in any case
    budget: float | None = None
    # Largest relative difference between validation and training; None is the score's own
    overfit: float | None = None
    n_jobs: int | None = None  # Threads as users ask for them; `n_threads` is their number
    seed: int = 0

    @property
    def n_threads(self) -> int:
        """Number of threads."""
        return effective_threads(self.n_jobs)

    def end(self, start: float, share: float) -> float | None:
        """When a share of the budget is spent."""
        return None if self.budget is None else start + share * self.budget


@dataclass
class Search:
    """The search over all families on one data set."""

    data: Data
    plan: Split
    score: Score
    limits: Limits
    progress: Progress
    helpers: Helpers
    trials: list[Trial] = field(default_factory=list)  # All that ended, rung after rung
    n_skipped: int = 0  # Settings that the budget did not allow

    def run(self, families: Iterable[Family], end: float | None = None) -> dict[str, Trial]:
        """Return the best trial of each family; one that failed has an `error`.

        After `end` only the first setting of each family is tried.
        """
        self._end = end
        standing = {
            family.key: [Trial(family, s) for s in family.settings(self.data.task)]
            for family in families
        }
        rungs = self._rungs(max(map(len, standing.values())))
        self.progress.expect(self._expected(standing, len(rungs)))
        for rung, parts in enumerate(rungs):
            ended = self._try_all(_in_turn(standing, rung), parts, must=rung == 0)
            self.trials += ended
            for key in standing:
                # A family that the budget cut off stands as it stood.
                tried = [trial for trial in ended if trial.family.key == key]
                standing[key] = sorted(tried or standing[key], key=self._order)
        return {key: found[0] for key, found in standing.items()}

    def _order(self, trial: Trial) -> tuple[bool, bool, float]:
        """Sort key: what failed last, what overfits behind what does not, then the score."""
        overfits = trial.overfits(self.score, self.limits.overfit)
        return trial.error is not None, overfits, self.score.key(trial.validation)

    def _try_all(self, trials: list[Trial], parts: list[Part], must: bool) -> list[Trial]:
        """Evaluate trials, side by side where they are small, and return those that ran."""
        first = {trial.family.key: id(trial) for trial in reversed(trials)} if must else {}
        small = parts[-1].X.shape[0] * parts[-1].X.shape[1] < SMALL_TABLE
        n_threads = self.helpers.threads_each if small else self.limits.n_threads
        job = FitJob.on(self.data, parts, self.score.name, self.limits.seed, n_threads)
        best = _Best(self._order)

        def attempt(trial: Trial, run: Callable[[Fit], Fitted]) -> Trial | None:
            late = self._end is not None and time.perf_counter() > self._end
            if late and first.get(trial.family.key) != id(trial):
                self.progress.done(trial.family.key)
                return None
            start = time.perf_counter()
            fitted = run(Fit(trial.family, trial.setting))
            self.progress.done(trial.family.key, time.perf_counter() - start)
            return best.among(dataclasses.replace(trial, **fitted))

        order = list(range(len(trials)))
        if self._end is None:
            # What took longest on fewer rows comes first, so that nothing waits for it in the end.
            order.sort(key=lambda k: -trials[k].seconds)
        found = self.helpers.map(
            job,
            [trials[k] for k in order],
            attempt,
            lambda trial: in_package(trial.family),
            alone=not small,
        )
        self.n_skipped += sum(trial is None for trial in found)
        in_turn = sorted(zip(order, found, strict=True), key=lambda pair: pair[0])
        return [trial for _, trial in in_turn if trial is not None]

    def _rungs(self, most_settings: int) -> list[list[Part]]:
        """Rows of each rung, the last of which has them all."""
        shrink = [1]
        if self.limits.search == "halving":
            least = min(len(fold.train) for fold in self.plan.folds)
            shrink = rung_shrinks(least, _FEWEST_ROWS, most_settings)
        rungs: list[list[Part]] = [[] for _ in shrink]
        for fold in self.plan.folds:
            sizes = [math.ceil(len(fold.train) / factor) for factor in shrink]
            subsets = [fold.train]
            if len(shrink) > 1:
                plan, strata = self.plan, self.data.strata
                subsets = nested_parts(fold.train, sizes, plan.by_time, strata, self.limits.seed)
            held_out = self.data.part(fold.validation)
            for rung, rows in zip(rungs, subsets, strict=True):
                rung.append(Part(*self.data.part(rows), *held_out))
        return rungs

    def _expected(self, alive: dict[str, list[Trial]], n_rungs: int) -> dict[str, float]:
        """Fits of each family to come, those on few rows as parts of one."""
        expected = {}
        for key, trials in alive.items():
            left, total = len(trials), 0.0
            for rung in range(n_rungs):
                total += left
                left = n_survivors(left) if rung + 1 < n_rungs else left
            expected[key] = total
        return expected


class _Best:
    """Lets the best trial of each family keep its predictions; those of all would take memory."""

    def __init__(self, order: Callable[[Trial], Any]) -> None:
        self._order, self._lock = order, threading.Lock()
        self._found: dict[str, list[Trial]] = {}

    def among(self, trial: Trial) -> Trial:
        """Compare a trial with those before it; equal ones stay, for the first is taken later."""
        with self._lock:
            rivals = self._found.setdefault(trial.family.key, [])
            if rivals and self._order(trial) > self._order(rivals[0]):
                trial.held_out = None
                return trial
            if rivals and self._order(trial) < self._order(rivals[0]):
                for rival in rivals:
                    rival.held_out = None
                rivals.clear()
            rivals.append(trial)
            return trial


def _in_turn(standing: dict[str, list[Trial]], rung: int) -> list[Trial]:
    """Return the settings to try: first ones of all families, then second ones, and so on.

    On the first rung all of them, later the best third of those that were tried last, with the
    seconds that they took.
    """
    chosen = {
        key: trials if rung == 0 else trials[: n_survivors(len(trials))]
        for key, trials in standing.items()
    }
    return [
        Trial(trials[k].family, trials[k].setting, seconds=trials[k].seconds)
        for k in range(max(map(len, chosen.values())))
        for trials in chosen.values()
        if k < len(trials) and trials[k].error is None
    ]
