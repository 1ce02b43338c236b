"""The boosting loop: sample rows, take a step, update validation scores, call the watchers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybridtrees.core.tree.tree import Tree
from hybridtrees.core.tree.walk import add_grown
from hybridtrees.models.shared.boosting_steps import BoostingSteps
from hybridtrees.models.shared.row_draws import draw_by_share, draw_some

# Steps of the generator from one round to the next: its period times 0.618, the golden ratio. It is
# odd, since rounds a power of two apart would share the low half of their state.
_STRIDE = 0x9E3779B97F4A7C15F39CC0605CEDC835

# Raw scores that exceed the target by this factor have diverged.
_DIVERGED = 1e6

# (seed, number of rows) -> sampled rows, None for all
RowDraw = Callable[[int, int], np.ndarray | None]


@dataclass
class EvalSet:
    """A validation table, with its raw scores so far."""

    name: str
    values: Any
    y: np.ndarray
    weight: np.ndarray | None
    raw: np.ndarray | None = None
    X: object = None  # as the user gave it


@dataclass
class Training:
    """State of the loop, as watchers see it."""

    steps: BoostingSteps
    rounds: range  # rounds to run at most; a continued training does not start with 0
    eval_sets: Sequence[EvalSet] = ()
    trees: list[Tree] = field(default_factory=list)
    tree_output: list[int] = field(default_factory=list)  # output of each tree
    round: int = 0  # current round
    n_done: int = 0  # rounds of this run
    rows: np.ndarray | None = None  # rows sampled for the current round, None for all
    stopped: bool = False  # by a watcher

    def keep(self, n_rounds: int) -> None:
        """Drop the trees after some rounds of this run."""
        n_trees = n_rounds * len(self.steps.outputs)
        del self.trees[n_trees:], self.tree_output[n_trees:]


class Watcher:
    """Base of the objects that the loop calls; any method may be left out."""

    def before_training(self, training: Training) -> None:
        """Run before the first round."""

    def before_round(self, training: Training) -> bool:
        """Run before a round, after its rows are sampled; True ends the training here."""
        return False

    def after_round(self, training: Training) -> bool:
        """Run after a round; True ends the training."""
        return False

    def after_training(self, training: Training) -> None:
        """Run after the last round."""


def boost(
    steps: BoostingSteps,
    rounds: range,
    *,
    sampler: RowDraw,
    seeds: np.random.SeedSequence,
    eval_sets: Sequence[EvalSet] = (),
    watchers: Sequence[Watcher] = (),
) -> Training:
    """Take one step per round, starting from the scores `steps.raw`.

    Random draws depend on `seeds` and the number of the round alone, so that a training in several
    parts is the same as a single one. A watcher that stops the training does not keep the others
    from seeing the round.
    """
    training = Training(steps, rounds, eval_sets)
    draws = RoundDraws(seeds)
    for watcher in watchers:
        watcher.before_training(training)
    for round_ in rounds:
        training.round = round_
        tree_seeds = draws.of(round_, len(steps.outputs))
        # The first tree has the same seed; its draws come from another stream.
        training.rows = sampler(int(tree_seeds[0]), len(steps.raw))
        if any([watcher.before_round(training) for watcher in watchers]):
            training.stopped = True
            break
        try:
            new = steps.take(training.rows, tree_seeds)
        except ValueError as error:
            _explain_divergence(training, error)
            raise
        training.trees += new
        training.tree_output += steps.outputs
        training.n_done += 1
        if eval_sets:
            _add_trees(new, eval_sets, steps.n_threads)
        for watcher in watchers:
            training.stopped |= bool(watcher.after_round(training))
        if training.stopped:
            break
    for watcher in watchers:
        watcher.after_training(training)
    return training


def _explain_divergence(training: Training, error: ValueError) -> None:
    """Raise a clearer error if a round failed because its raw scores have diverged."""
    largest = float(np.abs(training.steps.raw).max())
    if largest <= _DIVERGED * max(1.0, float(np.abs(training.steps.y).max())):
        return
    size = f"{largest:.3g}" if np.isfinite(largest) else "infinity"
    if training.n_done == 0:
        raise ValueError(
            f"the training starts from raw scores of up to {size}, too far from y to compute "
            "gradients: check the initial scores (base_score, base_margin, init)"
        ) from error
    raise ValueError(
        f"the raw scores have grown to {size} before round {training.round}, too large to "
        "compute gradients: lower learning_rate"
    ) from error


class RoundDraws:
    """Seeds of every round, by its number: distant parts of one generator's sequence."""

    def __init__(self, seeds: np.random.SeedSequence):
        self._bits = np.random.PCG64(seeds)
        self._place = 0  # of the next draw in the sequence

    def of(self, round_: int, n_trees: int = 1) -> np.ndarray:
        """Return the seeds of the trees of a round."""
        place = round_ * _STRIDE
        self._bits.advance((place - self._place) % 2**128)
        self._place = place + n_trees
        return self._bits.random_raw(n_trees)


def draw_each(share: float) -> RowDraw:
    """Return a sampler that takes each row with the probability `share`, at least one row."""
    return lambda seed, n: None if share >= 1 else draw_by_share(seed, n, share)


def draw_share(share: float) -> RowDraw:
    """Return a sampler that takes this share of the rows, at least one row."""
    return lambda seed, n: None if share >= 1 else draw_some(seed, n, max(1, int(share * n)))


def _add_trees(new: list[Tree], eval_sets: Sequence[EvalSet], n_threads: int) -> None:
    """Add the trees of a round to the raw scores of the validation tables."""
    for eval_set in eval_sets:
        assert eval_set.raw is not None
        n_parallel = len(new) // eval_set.raw.shape[1]
        for first in range(n_parallel):
            add_grown(new[first::n_parallel], eval_set.values, eval_set.raw, n_threads)
