"""The one bagging loop: samples, trees grown several at a time, out-of-bag error, when to stop."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from numbers import Integral
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, check_real
from hybridtrees._persistence import register
from hybridtrees.core.base._threads import StopFlag
from hybridtrees.core.base.checks import (
    Checked,
    check_arrays,
    check_count,
    check_numbers,
    check_type,
)
from hybridtrees.core.base.workers import start_workers
from hybridtrees.models.shared.row_draws import bootstrap_counts, draw_of, draw_some

# Trees of n_estimators="auto": at most so many, judged by the last of them.
MOST_TREES = 1000
SETTLED_TREES = 30
SETTLED_CHANGE = 0.003
SETTLED_RANGE = 0.02

# Draws of a bootstrap sample per row of the table. By then each row is in nearly every sample; the
# limit keeps the time and memory of a sample in proportion to the table.
MOST_DRAWS = 100

Made = TypeVar("Made")


def check_bagging(n_estimators: Any, bootstrap: Any, max_samples: Any, warm_start: Any) -> None:
    """Check the parameters of samples and of their number, as far as they need no data."""
    if isinstance(n_estimators, str):
        if n_estimators != "auto":
            raise ValueError(
                f"n_estimators must be an integer of at least 1 or 'auto', got {n_estimators!r}"
            )
    else:
        check_integer("n_estimators", n_estimators, 1)
    check_boolean("bootstrap", bootstrap)
    check_boolean("warm_start", warm_start)
    if isinstance(max_samples, Integral) and not isinstance(max_samples, bool):
        check_integer("max_samples", max_samples, 1)
    elif max_samples is not None:
        check_real("max_samples", max_samples, 0, 1, closed="right")


@register
class Sampler(Checked):
    """Draws the rows of each tree, and draws them again when asked later.

    Parameters
    ----------
    n_rows : int
    n_drawn : int
        Rows drawn for a tree.
    replace : bool
        With replacement: a bootstrap sample. The probability of a row is then proportional to its
        weight; otherwise rows of positive weight are drawn alike, and weights are kept.
    weight : ndarray of shape (n_rows,) or None
    like : Sampler, optional
        Of the forest that is continued: draws are made in its way.

    Attributes
    ----------
    keyed : bool
        Whether a draw depends on the seed and its number alone. Forests of files that do not say
        so drew from a generator, one number after the other, and draw so again.
    """

    keyed = False

    def __init__(
        self,
        n_rows: int,
        n_drawn: int,
        replace: bool,
        weight: np.ndarray | None = None,
        like: Sampler | None = None,
    ) -> None:
        if n_drawn > MOST_DRAWS * n_rows:
            raise ValueError(
                f"max_samples must be at most {MOST_DRAWS * n_rows}, {MOST_DRAWS} times the number "
                f"of rows, got {n_drawn}"
            )
        self.n_rows = n_rows
        self.n_drawn = n_drawn
        self.replace = replace
        self.weight = weight
        self.keyed = like is None or like.keyed

    def _check_state(self) -> None:
        """Refuse numbers of rows that cannot have been drawn."""
        n_rows = check_count(self, "n_rows", 1, 2**32)
        check_type(self, "replace", bool)
        check_type(self, "keyed", bool)
        check_count(self, "n_drawn", 1, MOST_DRAWS * n_rows if self.replace else n_rows)
        if self.weight is not None:
            check_arrays(self, {"weight": ("f8", n_rows)})
            check_numbers(self.weight, "weight of Sampler", 0, np.inf)
            if not self.weight.any():
                raise ValueError("weight of Sampler must not be 0 throughout")

    @property
    def leaves_out(self) -> bool:
        """Whether some rows of positive weight are out of the bag."""
        n_used = self.n_rows if self.weight is None else int(np.count_nonzero(self.weight))
        return self.replace or self.n_drawn < n_used

    def counts(self, seed: int) -> np.ndarray:
        """How often each row is in the sample of the tree with this seed, int64."""
        if not self.keyed:
            return self._generated_counts(seed)
        if self.replace:
            return bootstrap_counts(seed, self.n_rows, self.n_drawn, self.weight)
        counts = np.zeros(self.n_rows, dtype=np.int64)
        if self.weight is None:
            counts[draw_some(seed, self.n_rows, self.n_drawn)] = 1
        else:
            used = np.flatnonzero(self.weight)
            counts[draw_of(seed, used, min(self.n_drawn, len(used)))] = 1
        return counts

    def _generated_counts(self, seed: int) -> np.ndarray:
        """Draw the sample of a tree that was grown before draws were keyed."""
        rng = np.random.default_rng(seed)
        if self.replace:
            if self.weight is None:
                drawn = rng.integers(0, self.n_rows, self.n_drawn)
            else:
                bounds = np.cumsum(self.weight)
                at = rng.random(self.n_drawn) * bounds[-1]
                # Rounding may carry the last draw past the end.
                last = np.flatnonzero(self.weight)[-1]
                drawn = np.minimum(np.searchsorted(bounds, at, side="right"), last)
            return np.bincount(drawn, minlength=self.n_rows)
        used = np.arange(self.n_rows) if self.weight is None else np.flatnonzero(self.weight)
        counts = np.zeros(self.n_rows, dtype=np.int64)
        if self.n_drawn < len(used):
            used = rng.choice(used, self.n_drawn, replace=False, shuffle=False)
        counts[used] = 1
        return counts

    def row_weight(self, counts: np.ndarray) -> np.ndarray:
        """Weights under which a tree sees the rows, 0 for those not in its sample."""
        if self.replace or self.weight is None:
            return counts.astype(np.float64)
        return counts * self.weight

    def out_of_bag(self, counts: np.ndarray) -> np.ndarray:
        """Rows that have a weight and are not in a sample, uint32."""
        outside = counts == 0
        if self.weight is not None:
            outside &= self.weight > 0
        return np.flatnonzero(outside).astype(np.uint32)


class Grower(Protocol[Made]):
    """What the loop asks of a grower; each thread has one of its own."""

    def grow(self, counts: np.ndarray, seed: int) -> Made:
        """Grow a tree on a sample, given as the number of times that each row is in it."""
        ...


@dataclass
class BaggingPlan:
    """What the loop does, apart from the growth of single trees.

    Attributes
    ----------
    n_trees : int
        Trees to grow; at most so many where `settle`.
    settle : bool
        Whether to stop when the last errors that `watch` returned differ little.
    first : int
        Number of the first tree: seeds depend on it, so that a forest can be continued.
    verbose : int
        A line for every so many trees, 0 for none.
    grain : float
        Differences of the error up to this are no change: that of single rows among few.
    """

    n_trees: int
    settle: bool = False
    first: int = 0
    n_threads: int = 1
    verbose: int = 0
    grain: float = 0.0


@dataclass
class BaggingResult(Generic[Made]):
    """What the loop has made.

    Attributes
    ----------
    trees : list
        What the growers have made.
    draw_seeds : list of int
        Seeds of the samples.
    errors : list of float
        Error after each tree, where it was watched.
    """

    trees: list[Made] = field(default_factory=list)
    draw_seeds: list[int] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)


def tree_seeds(seeds: np.random.SeedSequence, index: int) -> tuple[int, int]:
    """Seeds of the sample and of the growth of one tree, whatever trees came before it."""
    own = np.random.SeedSequence(seeds.entropy, spawn_key=(*seeds.spawn_key, index))
    draw, grow = own.generate_state(2, np.uint64)
    return int(draw), int(grow)


def bag(
    open_grower: Callable[[], Any],
    sampler: Sampler,
    plan: BaggingPlan,
    seeds: np.random.SeedSequence,
    watch: Callable[[Any], float | None] | None = None,
    earlier: list[float] | None = None,
) -> BaggingResult:
    """Grow trees on samples of the rows.

    Parameters
    ----------
    open_grower : callable
        Returns a context manager that gives a `Grower`; called once per thread.
    sampler : Sampler
    plan : BaggingPlan
    seeds : SeedSequence
    watch : callable, optional
        Called with every tree, in order, by the calling thread; returns the error so far.
    earlier : list of float, optional
        Errors of the trees before the first.

    Returns
    -------
    result : BaggingResult
        The same for any number of threads.
    """
    result: BaggingResult = BaggingResult(errors=list(earlier or ()))
    progress = _Progress(plan, watch is not None)
    with ExitStack() as stack:
        made = _grown_trees(open_grower, sampler, plan, seeds, stack)
        for draw_seed, tree in made:
            result.trees.append(tree)
            result.draw_seeds.append(draw_seed)
            error = None if watch is None else watch(tree)
            if error is not None:
                result.errors.append(error)
            stops = plan.settle and has_settled(result.errors, plan.grain)
            progress.report(result, stops)
            if stops:
                break
    return result


def has_settled(errors: list[float], grain: float = 0.0) -> bool:
    """Whether the last errors vary little, and on average differ little from those before.

    Parameters
    ----------
    errors : list of float
    grain : float
        See `BaggingPlan`.
    """
    if len(errors) < 2 * SETTLED_TREES:
        return False
    before, last = np.array(errors[-2 * SETTLED_TREES :]).reshape(2, -1)
    if np.isnan(before).all() and np.isnan(last).all():
        return True  # no row is ever out of the bag: more trees will not help
    level = np.abs(last).max()
    change = abs(last.mean() - before.mean())
    most = max(SETTLED_CHANGE * level, SETTLED_CHANGE / SETTLED_RANGE * grain)
    # An error that is not a number yet has not settled: comparisons with it are false.
    return bool(change <= most and np.ptp(last) <= max(SETTLED_RANGE * level, grain))


def _grown_trees(
    open_grower: Callable[[], Any],
    sampler: Sampler,
    plan: BaggingPlan,
    seeds: np.random.SeedSequence,
    stack: ExitStack,
) -> Iterator[tuple[int, Any]]:
    """Yield the trees in their order; with several threads those next in turn are under way."""

    def grow(grower: Any, index: int) -> tuple[int, Any]:
        draw, growth = tree_seeds(seeds, index)
        return draw, grower.grow(sampler.counts(draw), growth)

    numbers = iter(range(plan.first, plan.first + plan.n_trees))
    pool, n_threads = start_workers(min(plan.n_threads, plan.n_trees))
    if pool is None:
        grower = stack.enter_context(open_grower())
        for index in numbers:
            yield grow(grower, index)
        return
    stop = StopFlag()
    # Closed in reverse: trees under way when the loop ends, by an interruption perhaps, are not
    # wanted any more, and the growers are closed when no thread works with them.
    growers = stack.enter_context(ExitStack())
    stack.callback(pool.shutdown, wait=True, cancel_futures=True)
    stack.callback(stop.set)
    idle: SimpleQueue[Any] = SimpleQueue()
    for _ in range(n_threads):
        idle.put(growers.enter_context(open_grower()))

    def job(index: int) -> tuple[int, Any]:
        grower = idle.get()
        try:
            with stop:
                return grow(grower, index)
        finally:
            idle.put(grower)

    waiting: deque[Any] = deque()
    # Few trees ahead: an early stop wastes what is under way.
    for index in numbers:
        waiting.append(pool.submit(job, index))
        if len(waiting) > n_threads:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


class _Progress:
    """A line every `verbose` trees, with the time gone and the time to come."""

    def __init__(self, plan: BaggingPlan, watched: bool):
        self.plan = plan
        self.watched = watched
        self.start = time.perf_counter()

    def report(self, result: BaggingResult, stops: bool) -> None:
        """Print the state of growth when its turn has come, and when it ends."""
        every, done, all_ = int(self.plan.verbose), len(result.trees), self.plan.n_trees
        if every <= 0 or (done % every and done != all_ and not stops):
            return
        elapsed = time.perf_counter() - self.start
        parts = [f"[{self.plan.first + done}]"]
        if self.watched and result.errors:
            parts.append(f"oob:{result.errors[-1]:.5f}")
        if stops:
            parts.append(f"{elapsed:.1f} s, the error has settled")
        else:
            remaining = elapsed / done * (all_ - done)
            parts.append(f"{elapsed:.1f} s, at most {remaining:.1f} s to go")
        print("  ".join(parts), file=sys.stdout, flush=True)
