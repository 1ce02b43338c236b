"""Choosing the setting of each family: every one, or by successive halving."""

from __future__ import annotations

import contextvars
import math
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybridtrees._compare.data import Data
from hybridtrees._compare.families import Family, Setting
from hybridtrees._compare.progress import Progress
from hybridtrees._compare.scores import Score, ask
from hybridtrees._compare.splits import Plan, nested_parts
from hybridtrees._threads import effective_threads
from hybridtrees.core.shared_bins import sharing_bins
from hybridtrees.linear.blas import sequential_blas

SEARCHES = ("halving", "grid")
# A rung of halving has a third of the next one's rows and hands on a third of its settings.
_FACTOR = 3
# Fewer rows than this say too little about a setting; a class should have some of them.
_FEWEST_ROWS = 1000
# Below so many entries a fit is too small for several threads: fits run side by side instead.
_SMALL_TABLE = 2_000_000
# Share of a budget that is kept for the final fits.
_RESERVE = 0.25


@dataclass
class Trial:
    """One setting of one family, and how it did.

    Attributes
    ----------
    family : Family
    setting : dict
    train, validation : float
        Scores, means over the folds.
    rounds : int or None
        What early stopping found, the mean over folds.
    seconds : float
        Of the fits.
    n_rows : int
        Training rows of the (largest) fold.
    error : str or None
        Why it failed.
    """

    family: Family
    setting: Setting
    train: float = math.nan
    validation: float = math.nan
    rounds: int | None = None
    seconds: float = 0.0
    n_rows: int = 0
    error: str | None = None

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
    """What bounds a search.

    Attributes
    ----------
    search : {"halving", "grid"}
    budget : float or None
        Seconds for everything; the first setting of each family is tried in any case.
    overfit : float or None
        Largest relative difference between validation and training; None is the score's own.
    n_jobs : int or None
        Threads as users ask for them; `n_threads` is their number.
    seed : int
    """

    search: str = "halving"
    budget: float | None = None
    overfit: float | None = None
    n_jobs: int | None = None
    seed: int = 0

    @property
    def n_threads(self) -> int:
        """Number of threads."""
        return effective_threads(self.n_jobs)


@dataclass
class _Part:
    """Rows of one fold, as arrays that all fits share."""

    X: Any
    y: np.ndarray
    X_val: Any
    y_val: np.ndarray


@dataclass
class Search:
    """The search over all families on one data set.

    Attributes
    ----------
    data : Data
    plan : Plan
    score : Score
    limits : Limits
    progress : Progress
    trials : list of Trial
        All that ended, rung after rung.
    n_skipped : int
        Settings that the budget did not allow.
    """

    data: Data
    plan: Plan
    score: Score
    limits: Limits
    progress: Progress
    trials: list[Trial] = field(default_factory=list)
    n_skipped: int = 0

    def run(self, families: Iterable[Family]) -> dict[str, Trial]:
        """Return the best trial of each family; one that failed has an `error`."""
        start = time.perf_counter()
        budget = self.limits.budget
        self._end = None if budget is None else start + (1 - _RESERVE) * budget
        standing = {
            family.key: [Trial(family, s) for s in family.settings()] for family in families
        }
        rungs = self._rungs(max(map(len, standing.values())))
        self.progress.expect(self._expected(standing, len(rungs)))
        with sharing_bins():
            for rung, parts in enumerate(rungs):
                ended = self._try_all(_in_turn(standing, rung), parts, must=rung == 0)
                self.trials += ended
                for key in standing:
                    # A family that the budget cut off stands as it stood.
                    tried = [trial for trial in ended if trial.family.key == key]
                    standing[key] = sorted(tried or standing[key], key=self._order)
        return {key: found[0] for key, found in standing.items()}

    def evaluate(self, trial: Trial, parts: list[_Part], n_threads: int) -> Trial:
        """Fit one setting on each fold and score it there.

        Parameters
        ----------
        trial : Trial
            Its results are filled in.
        parts : list of _Part
        n_threads : int

        Returns
        -------
        trial : Trial
        """
        scores, rounds = [], []
        for part in parts:
            n_classes = self.data.n_classes
            try:
                model, seconds = fit_setting(
                    trial.family, trial.setting, self.data, part, self.limits.seed, n_threads
                )
                said = [ask(model, rows, n_classes) for rows in (part.X, part.X_val)]
            except Exception as error:  # one family that fails must not end the comparison
                trial.error = f"{type(error).__name__}: {error}"
                return trial
            trial.seconds += seconds
            scores.append((self.score(part.y, said[0]), self.score(part.y_val, said[1])))
            if trial.family.stopping is not None:
                rounds.append(trial.family.stopping.rounds(model))
        trial.train, trial.validation = map(float, np.mean(scores, axis=0))
        trial.rounds = round(float(np.mean(rounds))) if rounds else None
        trial.n_rows = max(len(part.y) for part in parts)
        return trial

    def _order(self, trial: Trial) -> tuple[bool, bool, float]:
        """Sort key: what failed last, what overfits behind what does not, then the score."""
        overfits = trial.overfits(self.score, self.limits.overfit)
        return trial.error is not None, overfits, self.score.key(trial.validation)

    def _try_all(self, trials: list[Trial], parts: list[_Part], must: bool) -> list[Trial]:
        """Evaluate trials, side by side where they are small, and return those that ran."""
        first = {trial.family.key: id(trial) for trial in reversed(trials)} if must else {}
        small = parts[-1].X.shape[0] * parts[-1].X.shape[1] < _SMALL_TABLE
        workers = self.limits.n_threads if small else 1
        inner = 1 if small else self.limits.n_threads

        def attempt(trial: Trial) -> Trial | None:
            late = self._end is not None and time.perf_counter() > self._end
            if late and first.get(trial.family.key) != id(trial):
                self.progress.skip(trial.family.key)
                return None
            start = time.perf_counter()
            self.evaluate(trial, parts, inner)
            self.progress.done(trial.family.key, time.perf_counter() - start)
            return trial

        # Threads start and end limits on BLAS in any order; one around them all is left intact.
        # Warnings (of a solver that stops early, say) tell little about a setting of many.
        with sequential_blas(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = map_threads(attempt, trials, workers)
        self.n_skipped += sum(trial is None for trial in found)
        return [trial for trial in found if trial is not None]

    def _rungs(self, most_settings: int) -> list[list[_Part]]:
        """Rows of each rung, the last of which has them all."""
        n_rungs = 1
        if self.limits.search == "halving":
            rows = min(len(fold.train) for fold in self.plan.folds)
            while (
                _FACTOR**n_rungs <= rows / _FEWEST_ROWS and _FACTOR ** (n_rungs - 1) < most_settings
            ):
                n_rungs += 1
        shrink = [_FACTOR**k for k in reversed(range(n_rungs))]
        rungs: list[list[_Part]] = [[] for _ in shrink]
        for fold in self.plan.folds:
            sizes = [math.ceil(len(fold.train) / factor) for factor in shrink]
            subsets = [fold.train]
            if n_rungs > 1:
                plan, strata = self.plan, self.data.strata
                subsets = nested_parts(fold.train, sizes, plan.by_time, strata, self.limits.seed)
            held_out = self.data.part(fold.validation)
            for rung, rows in zip(rungs, subsets, strict=True):
                rung.append(_Part(*self.data.part(rows), *held_out))
        return rungs

    def _expected(self, alive: dict[str, list[Trial]], n_rungs: int) -> dict[str, float]:
        """Fits of each family to come, those on few rows as parts of one."""
        expected = {}
        for key, trials in alive.items():
            left, total = len(trials), 0.0
            for rung in range(n_rungs):
                total += left
                left = math.ceil(left / _FACTOR) if rung + 1 < n_rungs else left
            expected[key] = total
        return expected


def fit_setting(
    family: Family, setting: Setting, data: Data, part: Any, seed: int, n_threads: int
) -> tuple[Any, float]:
    """Fit one setting to the training rows of a part.

    Parameters
    ----------
    family : Family
    setting : dict
    data : Data
    part : object with X, y, X_val and y_val
        The latter two are given to families that stop early, and to no others.
    seed, n_threads : int

    Returns
    -------
    model : estimator
    seconds : float
    """
    stopping = family.stopping
    stop = {} if stopping is None else stopping.arguments
    more = {} if stopping is None else stopping.fit_arguments(part.X_val, part.y_val)
    model = family.make(
        data.task,
        {**stop, **setting},
        random_state=seed,
        n_jobs=n_threads,
        categorical_features=data.categorical or None,
    )
    start = time.perf_counter()
    model.fit(part.X, part.y, **more)
    return model, time.perf_counter() - start


def _in_turn(standing: dict[str, list[Trial]], rung: int) -> list[Trial]:
    """Return the settings to try: first ones of all families, then second ones, and so on.

    On the first rung all of them, later the best third of those that were tried last.
    """
    chosen = {
        key: trials if rung == 0 else trials[: math.ceil(len(trials) / _FACTOR)]
        for key, trials in standing.items()
    }
    return [
        Trial(trials[k].family, trials[k].setting)
        for k in range(max(map(len, chosen.values())))
        for trials in chosen.values()
        if k < len(trials) and trials[k].error is None
    ]


def map_threads(function: Callable[[Any], Any], items: list[Any], n_threads: int) -> list[Any]:
    """Results in the order of the items; each call sees the context of the caller."""
    if n_threads == 1 or len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        waiting = [pool.submit(contextvars.copy_context().run, function, item) for item in items]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            for future in waiting:
                future.cancel()
            raise
