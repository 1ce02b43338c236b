"""The last step, which uses all rows: bags are replayed on them, or fitted to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees._parameters import clone
from hybridtrees.auto.audition import Bag, Deadline, Table
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.bins.shared import sharing_bins
from hybridtrees.ensembles.members import run_members
from hybridtrees.models.shared.boosted_model import BoostedModel
from hybridtrees.models.shared.replay import replay


def replay_bags(bags: list[Bag], table: Table, n_jobs: int | None, deadline: Deadline) -> None:
    """Fit the leaves of all boosted models to all rows."""
    classes = np.arange(table.n_classes)

    def job(model: Any, n_threads: int) -> None:
        # A model that lacks a class has no scores for it.
        complete = not table.classify or np.array_equal(model.classes_, classes)
        if isinstance(model, BoostedModel) and complete and not deadline.is_over():
            model.set_params(n_jobs=n_threads)
            replay(model, table.values, table.target, table.weight)
            model.set_params(n_jobs=None)

    with sharing_bins():
        run_members(job, [model for bag in bags for model in bag.models], n_jobs)


def refit_bags(
    bags: list[Bag], table: Table, seeds: np.random.SeedSequence, n_jobs: int | None,
    deadline: Deadline,
) -> None:  # fmt: skip
    """Fit each candidate to all rows once, with the rounds that its folds have found.

    Later folds have more rows and are nearer to the rows to come: the last one counts most.
    """
    n_threads = effective_threads(n_jobs)
    seed = seeds.generate_state(len(bags), np.uint32) & 0x7FFFFFFF
    with sharing_bins():
        for k, bag in enumerate(bags):
            if deadline.is_over():  # the model that has seen the most rows
                bag.models = bag.models[-1:]
                continue
            member = clone(bag.candidate.estimator)
            if "random_state" in member.get_params():
                member.set_params(random_state=int(seed[k]))
            if bag.candidate.boosted:
                rounds = n_rounds_of(bag.models)
                member.set_params(early_stopping_rounds=None, n_estimators=rounds)
            weight = {} if table.weight is None else {"sample_weight": table.weight}
            member.set_params(n_jobs=n_threads).fit(table.values, table.target, **weight)
            bag.models = [member.set_params(n_jobs=None)]


def _best(models: list[Any]) -> list[int]:
    """Best round of each boosted model, counted from 1."""
    boosted = [model for model in models if isinstance(model, BoostedModel)]
    best = [model._best_round() for model in boosted]
    return [m.n_iter_ if b is None else b + 1 for m, b in zip(boosted, best, strict=True)]


def best_rounds(models: list[Any]) -> float:
    """Return the mean of the best rounds of a bag, 0 if it is not boosted."""
    return float(np.mean(_best(models) or [0]))


def n_rounds_of(models: list[Any]) -> int:
    """Return the mean of the best rounds of a bag, weighted by 1, 2, 3, ... in time order."""
    found = _best(models)
    if not found:
        return 100
    share = np.arange(1.0, len(found) + 1.0)
    return max(1, round(float(np.dot(share, found)) / float(share.sum())))
