"""Pasting of small votes (Breiman 1999): draws of precincts, the running error, stopping.

The candidates of a precinct are hashes of (seed, number), so that they do not depend on how many
of them are looked at together, nor on where the rows are stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from hybridtrees.core.base._threads import bootstrap_draws, row_bits
from hybridtrees.core.base.exact_sum import exact_sum
from hybridtrees.models.shared.progress import Progress

# After so many candidates per row of a precinct, all further ones are accepted: where hardly a row
# is predicted wrongly, the search for such rows must end.
MOST_CANDIDATES = 64

# In regression a row without a residual is accepted with this probability.
LEAST_CHANCE = 0.25


class Draws:
    """Candidates for precincts, drawn with replacement in proportion to the weights of rows."""

    def __init__(
        self, seeds: np.random.SeedSequence, n_rows: int, weight: np.ndarray | None = None
    ) -> None:
        self._seeds = seeds
        self.n_rows = n_rows
        self.expected = 1  # candidates that a precinct will probably need
        self._bounds: np.ndarray | None = None
        if weight is not None and not np.all(weight == weight[0]):
            # Weights are rounded to integers, whose sums do not depend on the order.
            bits = 62 - int(n_rows).bit_length()
            steps = np.rint(np.ldexp(weight / weight.max(), bits)).astype(np.int64)
            self._bounds = np.cumsum(steps)

    def seed(self, member: int) -> int:
        """Return the seed of a member's growth."""
        return int(self._words(member)[1])

    def rows(self, member: int, first: int, stop: int) -> np.ndarray:
        """Return some candidates for the precinct of a member."""
        seed = int(self._words(member)[0])
        if self._bounds is None:
            return bootstrap_draws(seed, first, stop, self.n_rows).astype(np.int64)
        at = bootstrap_draws(seed, first, stop, int(self._bounds[-1]))
        return np.searchsorted(self._bounds, at, side="right")

    def chances(self, member: int, first: int, stop: int) -> np.ndarray:
        """Return a number from [0, 1) for each candidate, which decides whether it is accepted."""
        seed = int(self._words(member)[2])
        bits = row_bits(seed, np.arange(first, stop, dtype=np.uint32))
        return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def ahead(self, member: int, n_candidates: int) -> np.ndarray:
        """Return the first candidates of a member and of those after it, about so many in all."""
        n_members = max(1, n_candidates // self.expected)
        parts = [self.rows(k, 0, self.expected) for k in range(member, member + n_members)]
        return np.unique(np.concatenate(parts))

    def _words(self, member: int) -> np.ndarray:
        key = (*self._seeds.spawn_key, member)
        own = np.random.SeedSequence(self._seeds.entropy, spawn_key=key)
        return own.generate_state(3, np.uint64)


class Votes(Protocol):
    """Members so far, and their predictions of rows that they have not seen."""

    def fit(self, member: int, rows: np.ndarray, counts: np.ndarray, seed: int) -> None:
        """Fit a member to distinct rows, each of which counts several times."""

    def losses(self, member: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the losses of candidates for a member's precinct, and which of them are known."""


@dataclass(frozen=True)
class Rule:
    """The probability that a candidate is accepted."""

    importance: bool  # else all are accepted
    regression: bool

    def __call__(self, loss: np.ndarray, known: np.ndarray, error: float | None) -> np.ndarray:
        """Return probabilities, given losses and the error so far, None at the beginning."""
        if not self.importance or error is None:
            return np.ones(len(loss))
        if self.regression:
            share = np.divide(loss, 4.0 * error, out=np.zeros(len(loss)), where=known & (error > 0))
            return np.asarray(np.minimum(1.0, LEAST_CHANCE + share))
        other = 1.0 if error >= 0.5 else error / (1.0 - error)
        return np.asarray(np.where(known & (loss > 0), 1.0, other))

    def rate(self, error: float | None) -> float:
        """Return about which share of the candidates is accepted."""
        if not self.importance or error is None:
            return 1.0
        return 0.5 if self.regression else min(1.0, max(2.0 * error, 1.0 / MOST_CANDIDATES))


class Precinct(NamedTuple):
    """The rows drawn for a member, and the mean loss of the candidates looked at."""

    rows: np.ndarray  # with repetitions, in the order of the draws
    loss: float | None  # None if no candidate has a vote of a member that has not seen it


def draw_precinct(
    draws: Draws, member: int, size: int, rule: Rule, votes: Votes, error: float | None
) -> Precinct:
    """Draw candidates until `size` of them are accepted."""
    taken: list[np.ndarray] = []
    losses: list[np.ndarray] = []
    first, n_missing = 0, size
    draws.expected = int(1.2 * size / rule.rate(error)) + 16
    while n_missing:
        step = min(int(1.1 * n_missing / rule.rate(error)) + 16, 16 * size)
        rows = draws.rows(member, first, first + step)
        loss, known = votes.losses(member, rows)
        chance = rule(loss, known, error)
        chance[max(0, MOST_CANDIDATES * size - first) :] = 1.0
        accepted = np.flatnonzero(draws.chances(member, first, first + step) < chance)[:n_missing]
        n_missing -= len(accepted)
        # Candidates after the last one needed have not been looked at.
        end = step if n_missing else int(accepted[-1]) + 1
        taken.append(rows[accepted])
        losses.append(loss[:end][known[:end]])
        first += step
    seen = np.concatenate(losses)
    mean = float(exact_sum(seen)) / len(seen) if len(seen) else None
    return Precinct(np.concatenate(taken), mean)


@dataclass
class PastingSettings:
    """Settings of the loop."""

    n_members: int
    size: int  # rows of a precinct
    rule: Rule
    smoothing: float
    n_iter_no_change: int | None
    tol: float
    verbose: int = 0


@dataclass
class Pasted:
    """The running errors e(1), e(2), ... and the precincts of the members."""

    curve: list[float] = field(default_factory=list)
    precincts: list[np.ndarray] = field(default_factory=list)


def paste(settings: PastingSettings, draws: Draws, votes: Votes) -> Pasted:
    """Fit members to precincts, each drawn by the out-of-bag errors of those before it.

    After member k, the candidates for the next precinct are scored by the members so far that have
    not seen them. Their error rate r(k) gives e(k) = p e(k - 1) + (1 - p) r(k), with e(1) = r(1).
    They are accepted by e(k - 1), the last estimate; all of them are for the first two precincts.
    """
    result = Pasted()
    report = Progress(settings.verbose, settings.n_members)
    rows = draws.rows(0, 0, settings.size)
    draws.expected = settings.size
    error: float | None = None
    for member in range(settings.n_members):
        result.precincts.append(rows)
        distinct, counts = np.unique(rows, return_counts=True)
        votes.fit(member, distinct, counts, draws.seed(member))
        rows, loss = draw_precinct(draws, member + 1, settings.size, settings.rule, votes, error)
        if loss is not None:
            p = settings.smoothing
            error = loss if error is None else p * error + (1.0 - p) * loss
        result.curve.append(float("nan") if error is None else error)
        stops = no_longer_falls(result.curve, settings.n_iter_no_change, settings.tol)
        report(f"oob:{result.curve[-1]:.5f}", "the error no longer falls" if stops else "")
        if stops:
            break
    return result


def no_longer_falls(curve: list[float], n_rounds: int | None, tol: float) -> bool:
    """Whether the last errors are not below (1 - tol) times the smallest one before them."""
    if n_rounds is None or len(curve) <= n_rounds:
        return False
    before, last = np.array(curve[:-n_rounds]), np.array(curve[-n_rounds:])
    if np.isnan(before).all():
        return False
    # A comparison with NaN is false: such an error has not fallen.
    return not bool(np.any(last < (1.0 - tol) * np.nanmin(before)))
