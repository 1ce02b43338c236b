"""The bagging loop: samples, trees grown in parallel, out-of-bag error, stopping."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import numpy as np

from hybridtrees._persistence import register, register_former_name
from hybridtrees.core.base._threads import StopFlag, bootstrap_draws
from hybridtrees.core.base.checks import (
    Checked,
    check_arrays,
    check_count,
    check_numbers,
    check_type,
)
from hybridtrees.core.base.workers import start_workers
from hybridtrees.models.shared.progress import Progress
from hybridtrees.models.shared.row_draws import draw_of, draw_some

# The error has settled when, over so many trees, its mean changed by no more than this share and
# its range is no more than that share of it; see `has_settled`.
SETTLED_TREES = 30
SETTLED_CHANGE = 0.003
SETTLED_RANGE = 0.02

# Maximum size of a bootstrap sample, in multiples of the number of rows. It bounds time and memory;
# nearly every row is in such a sample.
MAX_DRAWS = 100


@register
class RowSampler(Checked):
    """Draws the rows of each tree; the same seed draws the same rows again."""

    # Whether samples are drawn by a counter-based generator. Older model files lack this entry;
    # their samples came from a sequential generator and are reproduced with it.
    keyed = False

    def __init__(
        self,
        n_rows: int,
        n_drawn: int,  # rows per tree
        replace: bool,  # a bootstrap sample drawn by weight; else uniform, and trees weigh rows
        weight: np.ndarray | None = None,
        like: RowSampler | None = None,  # the sampler of the forest that a warm start continues
    ) -> None:
        if n_drawn > MAX_DRAWS * n_rows:
            raise ValueError(
                f"max_samples must be at most {MAX_DRAWS * n_rows}, {MAX_DRAWS} times the number "
                f"of rows, got {n_drawn}"
            )
        self.n_rows = n_rows
        self.n_drawn = n_drawn
        self.replace = replace
        self.weight = weight
        self.keyed = like is None or like.keyed

    def _check_state(self) -> None:
        """Refuse sample sizes that are not possible."""
        n_rows = check_count(self, "n_rows", 1, 2**32)
        check_type(self, "replace", bool)
        check_type(self, "keyed", bool)
        check_count(self, "n_drawn", 1, MAX_DRAWS * n_rows if self.replace else n_rows)
        if self.weight is not None:
            check_arrays(self, {"weight": ("f8", n_rows)})
            check_numbers(self.weight, "weight of RowSampler", 0, np.inf)
            if not self.weight.any():
                raise ValueError("weight of RowSampler must have a positive entry")

    @property
    def leaves_out(self) -> bool:
        """Whether a sample may leave out rows of positive weight."""
        n_used = self.n_rows if self.weight is None else int(np.count_nonzero(self.weight))
        return self.replace or self.n_drawn < n_used

    def counts(self, seed: int) -> np.ndarray:
        """Return how often each row is in the sample of this seed, int64."""
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
        """Draw as forests of older model files did."""
        rng = np.random.default_rng(seed)
        if self.replace:
            if self.weight is None:
                drawn = rng.integers(0, self.n_rows, self.n_drawn)
            else:
                bounds = np.cumsum(self.weight)
                at = rng.random(self.n_drawn) * bounds[-1]
                # Rounding may put a draw past the last row of positive weight.
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
        """Return the weights that a tree is grown with, 0 for rows that are not in its sample."""
        if self.replace or self.weight is None:
            return counts.astype(np.float64)
        return np.asarray(counts * self.weight)

    def out_of_bag(self, counts: np.ndarray) -> np.ndarray:
        """Return the rows of positive weight that are not in a sample, uint32."""
        outside = counts == 0
        if self.weight is not None:
            outside &= self.weight > 0
        return np.flatnonzero(outside).astype(np.uint32)


register_former_name("Sampler", RowSampler)


def bootstrap_counts(
    seed: int, n_rows: int, n_drawn: int, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return how often each row is drawn with replacement, by its weight; int64.

    Weights are rounded to integers, whose sums do not depend on the order of summation.
    """
    if weight is None:
        return np.bincount(bootstrap_draws(seed, 0, n_drawn, n_rows), minlength=n_rows)
    bits = 62 - int(n_rows).bit_length()
    steps = np.rint(np.ldexp(weight / weight.max(), bits)).astype(np.int64)
    bounds = np.cumsum(steps)
    drawn = np.sort(bootstrap_draws(seed, 0, n_drawn, int(bounds[-1])))
    return np.diff(np.searchsorted(drawn, bounds), prepend=0)


@dataclass
class BaggingSettings:
    """Settings of the loop."""

    n_trees: int  # the maximum if `settle`
    settle: bool = False  # stop when the error has settled
    first: int = 0  # index of the first tree: seeds depend on it, so that a forest can be continued
    n_threads: int = 1
    verbose: int = 0  # print a line every `verbose` trees
    grain: float = 0.0  # differences of the error up to this do not count


@dataclass
class BaggingResult:
    """The grown trees, with the seeds of their samples and the errors after each tree."""

    trees: list[Any] = field(default_factory=list)
    draw_seeds: list[int] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)


def tree_seeds(seeds: np.random.SeedSequence, index: int) -> tuple[int, int]:
    """Return the seeds of the sample and of the growth of one tree, by its index alone."""
    own = np.random.SeedSequence(seeds.entropy, spawn_key=(*seeds.spawn_key, index))
    draw, grow = own.generate_state(2, np.uint64)
    return int(draw), int(grow)


def bag(
    open_grower: Callable[[], Any],
    grow: Callable[[Any, np.ndarray, np.ndarray | None, int], Any],
    sampler: RowSampler,
    settings: BaggingSettings,
    seeds: np.random.SeedSequence,
    watch: Callable[[Any], float | None] | None = None,
    earlier: list[float] | None = None,
) -> BaggingResult:
    """Grow trees on samples of the rows; the result is the same for any number of threads.

    `open_grower` returns a context manager that gives a grower, once per thread. A sample is passed
    to ``grow(grower, counts, weight, seed)`` as the number of times that each row is in it, and the
    weights that follow, None if all are equal. The calling thread passes the trees in order to
    `watch`, which returns the error so far; `earlier` holds the errors of an earlier fit.
    """
    result = BaggingResult(errors=list(earlier or ()))
    report = None
    if settings.verbose:
        report = Progress(settings.verbose, settings.n_trees, settings.first)
    with ExitStack() as stack:
        made = _grown_trees(open_grower, grow, sampler, settings, seeds, stack)
        for draw_seed, tree in made:
            result.trees.append(tree)
            result.draw_seeds.append(draw_seed)
            error = None if watch is None else watch(tree)
            if error is not None:
                result.errors.append(error)
            stops = settings.settle and has_settled(result.errors, settings.grain)
            if report is not None:
                fact = f"oob:{result.errors[-1]:.5f}" if result.errors else ""
                report(fact, "the error has settled" if stops else "")
            if stops:
                break
    return result


def has_settled(errors: list[float], grain: float = 0.0) -> bool:
    """Whether the last errors vary little, or by no more than `grain`, around those before."""
    if len(errors) < 2 * SETTLED_TREES:
        return False
    before, last = np.array(errors[-2 * SETTLED_TREES :]).reshape(2, -1)
    if np.isnan(before).all() and np.isnan(last).all():
        return True  # no row is ever out of the bag: more trees will not help
    level = np.abs(last).max()
    change = abs(last.mean() - before.mean())
    limit = max(SETTLED_CHANGE * level, SETTLED_CHANGE / SETTLED_RANGE * grain)
    # An error of NaN has not settled: comparisons with it are false.
    return bool(change <= limit and np.ptp(last) <= max(SETTLED_RANGE * level, grain))


def _grown_trees(
    open_grower: Callable[[], Any],
    grow: Callable[[Any, np.ndarray, np.ndarray | None, int], Any],
    sampler: RowSampler,
    settings: BaggingSettings,
    seeds: np.random.SeedSequence,
    stack: ExitStack,
) -> Iterator[tuple[int, Any]]:
    """Yield the trees in order of their index; other threads grow the next ones meanwhile."""
    weighted = sampler.weight is not None or sampler.leaves_out

    def grow_next(grower: Any, index: int) -> tuple[int, Any]:
        draw, growth = tree_seeds(seeds, index)
        counts = sampler.counts(draw)
        weight = sampler.row_weight(counts) if weighted else None
        return draw, grow(grower, counts, weight, growth)

    numbers = iter(range(settings.first, settings.first + settings.n_trees))
    pool, n_threads = start_workers(min(settings.n_threads, settings.n_trees))
    if pool is None:
        grower = stack.enter_context(open_grower())
        for index in numbers:
            yield grow_next(grower, index)
        return
    stop = StopFlag()
    # The stack unwinds in reverse when the loop ends, also by an exception: trees in progress are
    # stopped, then the pool is shut down, and only then are the growers closed.
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
                return grow_next(grower, index)
        finally:
            idle.put(grower)

    waiting: deque[Any] = deque()
    # Only a few trees are grown ahead: an early stop discards them.
    for index in numbers:
        waiting.append(pool.submit(job, index))
        if len(waiting) > n_threads:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
