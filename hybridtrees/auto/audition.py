"""Candidates fitted to folds, stopped early by the rows held out, which they then predict.

The first fold is the audition: candidates that are far behind there are fitted to no other.
"""

from __future__ import annotations

import math
import sys
import time as clock
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybridtrees._parameters import clone
from hybridtrees.auto.blend import row_losses
from hybridtrees.auto.candidates import Candidate
from hybridtrees.core.base.exact_sum import exact_mean
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.bins.shared import sharing_bins
from hybridtrees.ensembles.members import ConstantClassifier, member_probabilities, run_members
from hybridtrees.input.folds import Folds

# A candidate whose error is larger than the best one's by this share would have next to no weight
# in the end: errors of models that learn the same table are correlated. The difference must also be
# larger than so many of its standard errors, since one fold of a small table tells little.
_FAR_BEHIND = 0.1
_SURE = 2.0

# Rounds of a fold without rows to stop it by.
_BLIND_ROUNDS = 100


class Deadline:
    """The time limit; it is also a callback that ends boosting."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._start = clock.perf_counter()
        self.was_met = True  # whether nothing was cut so far

    def is_over(self) -> bool:
        """Whether the time is up, which is remembered."""
        if self.seconds is None or clock.perf_counter() - self._start < self.seconds:
            return False
        self.was_met = False
        return True

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """End a training."""
        return self.is_over()


@dataclass
class Table:
    """The rows of a fit, features as numbers and codes."""

    values: Any
    target: np.ndarray  # numbers, or codes of classes
    weight: np.ndarray | None
    n_classes: int = 0  # 0 for numbers

    @property
    def classify(self) -> bool:
        """Whether the target is a class."""
        return self.n_classes > 0

    def take(self, rows: np.ndarray) -> Table:
        """Return some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        values = self.values[rows]
        if isinstance(values, np.ndarray):
            values.flags.writeable = False  # the cache of bins need not copy it
        return Table(values, self.target[rows], weight, self.n_classes)

    def ask(self, member: Any, values: Any) -> np.ndarray:
        """Return what a member predicts: numbers, or probabilities of all classes."""
        if self.classify:
            return member_probabilities(member, values, np.arange(self.n_classes))
        return np.asarray(member.predict(values), dtype=np.float64)


@dataclass
class Bag:
    """A candidate with its models, one for each fold, and their predictions of held-out rows."""

    candidate: Candidate
    models: list[Any]
    answers: list[np.ndarray] = field(default_factory=list)


def fit_fold(
    candidate: Candidate, part: Table, held: Table, seed: int, n_threads: int, deadline: Deadline
) -> Any:
    """Return a model fitted to a part of the rows, stopped early by the others."""
    if part.classify and len(np.unique(part.target)) == 1:
        return ConstantClassifier().fit(part.values, part.target)
    member = clone(candidate.estimator)
    own = member.get_params()
    member.set_params(n_jobs=n_threads)
    if "random_state" in own:
        member.set_params(random_state=seed)
    arguments: dict[str, Any] = {}
    if part.weight is not None:
        arguments["sample_weight"] = part.weight
    if candidate.boosted:
        # Rows of a class that the part lacks cannot be scored.
        known = np.isin(held.target, part.target) if part.classify else np.ones(1, dtype=bool)
        judge = held if known.all() else held.take(np.flatnonzero(known))
        if len(judge.target):
            arguments |= {"X_val": judge.values, "y_val": judge.target}
            arguments["sample_weight_val"] = judge.weight
        else:
            member.set_params(early_stopping_rounds=None, n_estimators=_BLIND_ROUNDS)
        if deadline.seconds is not None:
            member.set_params(callbacks=[deadline])
    member.fit(part.values, part.target, **arguments)
    member.set_params(n_jobs=None)
    if candidate.boosted:
        member.set_params(callbacks=None)
    return member


@dataclass
class Audition:
    """Fits the candidates fold by fold."""

    table: Table
    folds: Folds
    seeds: np.random.SeedSequence
    n_jobs: int | None
    deadline: Deadline
    verbose: bool = False

    def run(self, candidates: list[Candidate]) -> list[Bag]:
        """Return the bags of the candidates that stay; all have the same folds."""
        seeds = self.seeds.generate_state(len(self.folds) * len(candidates), np.uint32)
        self._seed = seeds.reshape(len(self.folds), len(candidates)) & 0x7FFFFFFF
        self._candidates = candidates
        first = self._fold(0, list(range(len(candidates))), effective_threads(self.n_jobs))
        bags = {
            k: Bag(candidates[k], [made[0]], [made[1]])
            for k, made in enumerate(first)
            if made is not None
        }
        self._dismiss(bags)
        others = run_members(
            lambda fold, n_threads: self._fold(fold, list(bags), n_threads),
            range(1, len(self.folds)),
            self.n_jobs,
        )
        for results in others:
            if any(result is None for result in results):
                break  # the time limit: the bags keep the folds that all of them have
            for bag, result in zip(bags.values(), results, strict=True):
                assert result is not None
                bag.models.append(result[0])
                bag.answers.append(result[1])
        return list(bags.values())

    def _dismiss(self, bags: dict[int, Bag]) -> None:
        """Drop the candidates that are far behind the best on the first fold."""
        held = self.folds[0][1]
        target, classify = self.table.target[held], self.table.classify
        weight = None if self.table.weight is None else self.table.weight[held]
        by_row = {k: row_losses(bag.answers[0], target, classify) for k, bag in bags.items()}
        mean = {k: float(exact_mean(losses, weight)) for k, losses in by_row.items()}
        best = min(mean, key=lambda k: mean[k])
        # The limit is on the RMSE, or on the log-loss.
        limit = mean[best] * (1 + _FAR_BEHIND) ** (1 if classify else 2)
        for k in [k for k in bags if mean[k] > limit]:
            behind = by_row[k] - by_row[best]
            shift = mean[k] - mean[best]
            error = math.sqrt(float(exact_mean(np.square(behind - shift), weight)) / len(held))
            if shift > _SURE * error:
                self._tell(bags[k].candidate, "dismissed, loss", mean[k])
                del bags[k]

    def _fold(
        self, fold: int, which: list[int], n_threads: int
    ) -> list[tuple[Any, np.ndarray] | None]:
        """Fit candidates to one fold; None for those that the time limit cuts."""
        train, test = self.folds[fold]
        part, held = self.table.take(train), self.table.take(test)
        made: list[tuple[Any, np.ndarray] | None] = []
        with sharing_bins():  # one table for all candidates
            for k in which:
                # The first candidate is fitted in any case.
                if (fold or k) and self.deadline.is_over():
                    made.append(None)
                    continue
                start, candidate = clock.perf_counter(), self._candidates[k]
                seed = int(self._seed[fold, k])
                model = fit_fold(candidate, part, held, seed, n_threads, self.deadline)
                made.append((model, self.table.ask(model, held.values)))
                self._tell(candidate, f"fold {fold + 1}, seconds", clock.perf_counter() - start)
        return made

    def _tell(self, candidate: Candidate, what: str, number: float) -> None:
        if self.verbose:
            print(f"[{candidate.name}]  {what}, {number:.4g}", file=sys.stdout, flush=True)
