"""The one boosting loop: draw rows, take a step, bring validation tables up to date, look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.models.shared.boosting_steps import BoostingSteps
from hybridtrees.models.shared.row_draws import draw_by_share, draw_some

# Draws from one round to the next: an odd part of the period near the golden ratio, as rounds
# that lie powers of two apart would share the low half of their state.
_STRIDE = 0x9E3779B97F4A7C15F39CC0605CEDC835

# Raw scores this many times as large as the target are no fit to it any more.
_RUNAWAY = 1e6

# From a seed and the number of rows to the rows drawn, None for all.
Sampler = Callable[[int, int], np.ndarray | None]


@dataclass
class EvalSet:
    """A table to watch the training on, with its running raw scores."""

    name: str
    values: object
    y: np.ndarray
    weight: np.ndarray | None
    raw: np.ndarray | None = None
    X: object = None  # as the user gave it


@dataclass
class Training:
    """A run of the loop, as its watchers see it."""

    steps: BoostingSteps
    rounds: range  # to be run at most; a continued training does not start with 0
    eval_sets: Sequence[EvalSet] = ()
    trees: list[Tree] = field(default_factory=list)
    tree_output: list[int] = field(default_factory=list)  # output of each tree
    round: int = 0  # the present one
    n_done: int = 0  # rounds of this run
    rows: np.ndarray | None = None  # drawn for the present round, None for all
    stopped: bool = False  # by a watcher


class Watcher:
    """Base of what looks on; each method may be left out."""

    def before_training(self, training: Training) -> None:
        """Look before the first round."""

    def before_round(self, training: Training) -> bool:
        """Look before a round, its rows drawn; True ends the training without it."""
        return False

    def after_round(self, training: Training) -> bool:
        """Look after a round; True ends the training."""
        return False

    def after_training(self, training: Training) -> None:
        """Look after the last round."""


def boost(
    steps: BoostingSteps,
    rounds: range,
    *,
    sampler: Sampler,
    seeds: np.random.SeedSequence,
    eval_sets: Sequence[EvalSet] = (),
    watchers: Sequence[Watcher] = (),
) -> Training:
    """Take one step per round, from `steps.raw` on.

    What is drawn in a round depends on its number and `seeds` alone, so that a training in several
    parts draws what a single one draws. All watchers see a round, though the first may end it.
    """
    training = Training(steps, rounds, eval_sets)
    draws = RoundDraws(seeds)
    n_outputs = steps.n_outputs
    for watcher in watchers:
        watcher.before_training(training)
    for round_ in rounds:
        training.round = round_
        tree_seeds = draws.of(round_, n_outputs)
        # Rows have a stream of their own, apart from what the first tree draws by this seed.
        training.rows = sampler(int(tree_seeds[0]), len(steps.raw))
        if any([watcher.before_round(training) for watcher in watchers]):
            training.stopped = True
            break
        try:
            new = steps.take(training.rows, tree_seeds)
        except ValueError as error:
            _blame_scores(training, error)
            raise
        training.trees += new
        training.tree_output += range(n_outputs)
        training.n_done += 1
        if eval_sets:
            _follow(new, eval_sets, steps.n_threads)
        # Of every watcher, whatever those before it say: each keeps a record of all rounds.
        for watcher in watchers:
            training.stopped |= bool(watcher.after_round(training))
        if training.stopped:
            break
    for watcher in watchers:
        watcher.after_training(training)
    return training


def _blame_scores(training: Training, error: ValueError) -> None:
    """Raise an error that says so where a round failed for its raw scores and not for the data."""
    largest = float(np.abs(training.steps.raw).max())
    if largest <= _RUNAWAY * max(1.0, float(np.abs(training.steps.y).max())):
        return
    size = f"{largest:.3g}" if np.isfinite(largest) else "infinity"
    if training.n_done == 0:
        raise ValueError(
            f"the training starts from raw scores of up to {size}, too far from y to take "
            "gradients there: check the scores to start from (base_score, base_margin, init)"
        ) from error
    raise ValueError(
        f"the raw scores have grown to {size} before round {training.round}, too large to "
        "take gradients there: the steps are too long, lower learning_rate"
    ) from error


class RoundDraws:
    """A source of seeds for every round, far from those of the other rounds."""

    def __init__(self, seeds: np.random.SeedSequence):
        self._bits = np.random.PCG64(seeds)
        self._start = self._bits.state
        self._generator = np.random.Generator(self._bits)

    def of(self, round_: int, n_trees: int = 1) -> np.ndarray:
        """Return the seeds of the trees of a round."""
        self._bits.state = self._start
        self._bits.advance(round_ * _STRIDE % 2**128)
        return self._generator.integers(0, 2**64, size=n_trees, dtype=np.uint64)


def draw_each(share: float) -> Sampler:
    """Draw each row with the probability `share`, one row at least."""
    return lambda seed, n: None if share >= 1 else draw_by_share(seed, n, share)


def draw_share(share: float) -> Sampler:
    """Draw the number of rows that is this share of all, one row at least."""
    return lambda seed, n: None if share >= 1 else draw_some(seed, n, max(1, int(share * n)))


def _follow(new: list[Tree], eval_sets: Sequence[EvalSet], n_threads: int) -> None:
    """Add the trees of a round to the raw scores of the validation tables."""
    n_features = eval_sets[0].values.shape[1]  # type: ignore[attr-defined]
    ensemble = TreeEnsemble(new, n_features, len(new), range(len(new)))
    for eval_set in eval_sets:
        assert eval_set.raw is not None
        ensemble.add_raw(eval_set.values, eval_set.raw, n_threads)
