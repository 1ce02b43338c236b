"""Expectation and maximisation for mixtures of experts (Jacobs, Jordan, Nowlan and Hinton 1991).

All sums over rows are products of blocks of rows, whose bounds depend on the shape of the table
alone, and are added in the order of the blocks: a model does not depend on the number of threads.
Arrays have a row per expert, (n_experts, n_rows), so that operations run along rows of the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base.workers import start_workers

Floats = NDArray[np.float64]
Made = TypeVar("Made")

_BLOCK_CELLS = 1 << 16
# Partial sums, and how many cells they may have together.
_MOST_PARTS = 32
_PART_CELLS = 1 << 24
# Tables with more cells are standardised anew in each pass.
_KEPT_CELLS = 1 << 26
# Intercepts have this share of the ridge penalty: it has no visible effect, except that the share
# of an expert or class that no row belongs to stays positive.
INTERCEPT_SHARE = 1e-6
_MOST_HALVINGS = 30
# Scores beyond this have no effect on probabilities, but their differences may be NaN.
_LARGEST = 1e300


class Blocks:
    """Standardised rows with a column of ones at the end, in blocks; a context with threads."""

    def __init__(self, table: Any, n_threads: int) -> None:
        self.n_rows = int(table.n_rows)
        self.width = int(table.n_columns) + 1
        step = max(256, min(8192, _BLOCK_CELLS // self.width))
        starts = range(0, self.n_rows, step)
        self.slices = [slice(start, min(start + step, self.n_rows)) for start in starts]
        self._table = table
        self._n_threads = min(n_threads, len(self.slices) // 2)
        self._pool: Any = None
        self._kept: list[Floats] | None = None
        if self.n_rows * self.width <= _KEPT_CELLS:
            self._kept = [self._load(rows) for rows in self.slices]

    def __enter__(self) -> Self:
        if self._n_threads > 1:
            self._pool, _ = start_workers(self._n_threads)
        return self

    def __exit__(self, *details: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _load(self, rows: slice) -> Floats:
        block = np.ones((rows.stop - rows.start, self.width))
        block[:, :-1] = self._table.load(rows.start, rows.stop)
        return block

    def run(self, function: Callable[[slice, Floats], Made]) -> list[Made]:
        """Return ``function(rows, block)`` of each block, in order."""

        def one(number: int) -> Made:
            rows = self.slices[number]
            return function(rows, self._load(rows) if self._kept is None else self._kept[number])

        return self._map(one, len(self.slices))

    def total(self, function: Callable[[slice, Floats], tuple[Any, ...]], cells: int) -> list[Any]:
        """Return the sums over all blocks of tuples of numbers or arrays with `cells` entries.

        They are summed in parts, whose number depends on the shape of the table alone, so that the
        sums of many columns do not fill the memory.
        """
        n_blocks = len(self.slices)
        n_parts = max(1, min(n_blocks, _MOST_PARTS, _PART_CELLS // cells))

        def one(part: int) -> list[Any]:
            found: list[Any] = []
            for number in range(part * n_blocks // n_parts, (part + 1) * n_blocks // n_parts):
                rows = self.slices[number]
                block = self._load(rows) if self._kept is None else self._kept[number]
                _add(found, function(rows, block))
            return found

        sums: list[Any] = []
        for part in self._map(one, n_parts):
            _add(sums, part)
        return sums

    def _map(self, function: Callable[[int], Made], n_items: int) -> list[Made]:
        items = range(n_items)
        return list(map(function, items) if self._pool is None else self._pool.map(function, items))


def _add(sums: list[Any], more: Sequence[Any]) -> None:
    """Add numbers or arrays to sums, which are empty at first."""
    if not sums:
        sums.extend(more)
        return
    for place, value in enumerate(more):
        sums[place] += value


def log_softmax(scores: Floats) -> Floats:
    """Turn (n_outputs, n_rows) scores into the logarithms of probabilities, in place."""
    np.nan_to_num(scores, copy=False, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)
    scores -= scores.max(axis=0)
    scores -= np.log(np.exp(scores).sum(axis=0))
    return scores


def solve_definite(matrix: Floats, right: Floats) -> Floats:
    """Solve equations of a positive definite matrix, with the minimum norm if it is singular."""
    diagonal = np.sqrt(np.diag(matrix))
    inverse = np.where(diagonal > 0, 1.0 / np.where(diagonal > 0, diagonal, 1.0), 0.0)
    scaled = matrix * inverse * inverse[:, None]
    try:
        np.linalg.cholesky(scaled)
        return np.asarray(np.linalg.solve(scaled, right * inverse) * inverse)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])


def softmax_value(blocks: Blocks, coef: Floats, targets: Floats, weight: Floats) -> float:
    """Return the weighted sum of the targets' log-probabilities under a softmax regression."""

    def part(rows: slice, block: Floats) -> tuple[float]:
        logs = log_softmax(coef @ block.T)
        logs *= targets[:, rows]
        return (float(weight[rows] @ logs.sum(axis=0)),)

    return float(blocks.total(part, 1)[0])


def softmax_slopes(
    blocks: Blocks, coef: Floats, targets: Floats, weight: Floats
) -> tuple[float, Floats, Floats]:
    """Return `softmax_value`, its gradient (k, width) and minus its hessian (k, width, k, width).

    The targets of a row must sum to 1.
    """
    k, width = coef.shape

    def part(rows: slice, block: Floats) -> tuple[float, Floats, Floats]:
        logs = log_softmax(coef @ block.T)
        w, t = weight[rows], targets[:, rows]
        p = np.exp(logs)
        logs *= t
        hess = np.zeros((k, width, k, width))
        for a in range(k):
            for b in range(a):
                cross = (block * (w * p[a] * p[b])[:, None]).T @ block
                # A row's curvatures sum to 0 over the outputs.
                hess[a, :, b] = hess[b, :, a] = -cross
                hess[a, :, a] += cross
                hess[b, :, b] += cross
        return float(w @ logs.sum(axis=0)), ((t - p) * w) @ block, hess

    value, grad, hess = blocks.total(part, (k * width) ** 2)
    return value, grad, hess


def ridge_terms(width: int, strength: float) -> Floats:
    """Return the penalties of the coefficients of one output, the intercept last."""
    return np.append(np.full(width - 1, strength), strength * INTERCEPT_SHARE)


def penalty_of(coef: Floats, ridge: Floats) -> float:
    """Return the ridge penalty on coefficients (..., width)."""
    return float(0.5 * (ridge * coef**2).sum())


def softmax_step(
    blocks: Blocks, coef: Floats, targets: Floats, weight: Floats, ridge: Floats,
    single: bool = False,
) -> Floats:  # fmt: skip
    """Return coefficients after one Newton step, halved until the penalised sum does not fall.

    With `single` there are two outputs, and the coefficients of the first stay 0.
    """
    k, width = coef.shape
    free = slice(1, 2) if single else slice(0, k)
    value, grad, hess = softmax_slopes(blocks, coef, targets, weight)
    value -= penalty_of(coef, ridge)
    n_free = 1 if single else k
    matrix = hess[free, :, free].reshape(n_free * width, -1)
    matrix.flat[:: len(matrix) + 1] += np.tile(ridge, n_free)
    slope = (grad - ridge * coef)[free]
    step = np.zeros_like(coef)
    step[free] = solve_definite(matrix, slope.ravel()).reshape(n_free, width)
    for _ in range(_MOST_HALVINGS):
        trial = coef + step
        if not single:
            trial -= trial.mean(axis=0)  # no effect on probabilities, and a smaller penalty
        if softmax_value(blocks, trial, targets, weight) - penalty_of(trial, ridge) >= value:
            return trial
        step *= 0.5
    return coef


class Experts(Protocol):
    """The experts of a mixture while it is fitted."""

    state: Any  # What the last update learned; replaced, never modified

    def log_density(self, rows: slice, block: Floats) -> Floats:
        """Return the log-density of the target under each expert, (n_experts, n_rows)."""

    def update(self, shares: Floats) -> None:
        """Raise the expected log-likelihood for responsibilities (n_experts, n_rows)."""

    def penalty(self) -> float:
        """Return the penalty on the experts."""


@dataclass
class Fitted:
    """Result of EM."""

    gate: Floats  # (n_experts, width), for standardised columns
    state: Any  # of the experts
    shares: Floats  # (n_experts,): total responsibilities
    log_likelihood: float  # without penalties
    curve: list[float]  # penalised log-likelihoods
    converged: bool


@dataclass
class Schedule:
    """When EM stops, and what it prints."""

    max_iter: int
    tol: float  # smallest rise per unit of weight
    verbose: int = 0
    name: str = ""


def expectation(
    blocks: Blocks, gate: Floats, experts: Experts, weight: Floats, shares: Floats
) -> float:
    """Write the responsibilities to `shares`, and return the log-likelihood."""

    def part(rows: slice, block: Floats) -> tuple[float]:
        joint = log_softmax(gate @ block.T)
        joint += np.maximum(experts.log_density(rows, block), -_LARGEST)
        top = joint.max(axis=0)
        joint -= top
        np.exp(joint, out=joint)
        total = joint.sum(axis=0)
        np.divide(joint, total, out=shares[:, rows])
        return (float(weight[rows] @ (top + np.log(total))),)

    return float(blocks.total(part, 1)[0])


def maximise(
    blocks: Blocks,
    experts: Experts,
    weight: Floats,
    shares: Floats,
    ridge: Floats,
    schedule: Schedule,
) -> Fitted:
    """Run EM from given responsibilities until the penalised log-likelihood settles.

    It never falls: the experts' updates and the gate's halved Newton steps raise the expected
    log-likelihood, and an iteration that loses by rounding is undone.
    """
    k = len(shares)
    gate = np.zeros((k, blocks.width))
    curve: list[float] = []
    likelihood, spare = -np.inf, np.empty_like(shares)
    converged, started = False, time.perf_counter()
    while not converged and len(curve) < schedule.max_iter:
        before = gate, experts.state
        experts.update(shares)
        if k > 1:
            gate = softmax_step(blocks, gate, shares, weight, ridge)
        found = expectation(blocks, gate, experts, weight, spare)
        value = found - penalty_of(gate, ridge) - experts.penalty()
        if curve and not value >= curve[-1]:
            gate, experts.state = before
            converged = True
            break
        converged = bool(curve) and value - curve[-1] <= schedule.tol * float(weight.sum())
        likelihood = found
        curve.append(value)
        shares, spare = spare, shares
        if schedule.verbose and (len(curve) % schedule.verbose == 0 or converged):
            elapsed = time.perf_counter() - started
            print(f"{schedule.name}  [{len(curve)}] {value:.6g}  {elapsed:.1f} s", flush=True)
    return Fitted(gate, experts.state, shares @ weight, likelihood, curve, converged)


def starting_shares(
    blocks: Blocks, n_experts: int, seed: int, extra: Floats | None = None
) -> Floats:
    """Return responsibilities that depend softly on random directions in the space of the rows.

    They are drawn per expert and column, not per row, so that a row of weight 2 is two rows.
    `extra` is one more column, such as the standardised target.
    """
    rng = np.random.default_rng(seed)
    n_columns = blocks.width - 1
    directions = rng.standard_normal((n_experts, n_columns + 1)) * 3.0
    directions[:, :-1] /= np.sqrt(n_columns)
    shares = np.empty((n_experts, blocks.n_rows))

    def part(rows: slice, block: Floats) -> None:
        scores = directions[:, :-1] @ block[:, :-1].T
        if extra is not None:
            scores += np.multiply.outer(directions[:, -1], extra[rows])
        shares[:, rows] = 0.9 * np.exp(log_softmax(scores)) + 0.1 / n_experts

    blocks.run(part)
    return shares
