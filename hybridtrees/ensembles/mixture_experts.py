"""The experts of a mixture: linear and logistic regressions, and members of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridtrees.ensembles.members import (
    Rows,
    fit_member,
    member_numbers,
    member_probabilities,
    run_members,
)
from hybridtrees.ensembles.mixture_em import (
    Blocks,
    log_softmax,
    penalty_of,
    ridge_terms,
    softmax_step,
    solve_definite,
)

Floats = NDArray[np.float64]

# Probabilities of members are mixed with this share of equal ones: a leaf may have the probability
# 0 for a class, and then no row of the class could ever belong to the expert.
EVEN_SHARE = 1e-3
# An expert with a smaller share of the weight stays as it is.
_SMALLEST_SHARE = 1e-12


def smoothed(proba: Floats) -> Floats:
    """Return probabilities of members that are all positive."""
    return np.asarray((1.0 - EVEN_SHARE) * proba + EVEN_SHARE / proba.shape[-1])


def gaussian_log_density(error: Floats, variance: Floats) -> Floats:
    """Return log-densities of errors (n_experts, n_rows) with a variance per expert."""
    scaled = error / np.sqrt(2.0 * variance)[:, None]  # not squared first: that might overflow
    return np.asarray(-0.5 * np.log(2.0 * np.pi * variance)[:, None] - scaled * scaled)


class LinearState(NamedTuple):
    """Linear experts: coefficients of standardised columns, and variances."""

    coef: Floats  # (n_experts, width)
    variance: Floats  # (n_experts,)


class LinearExperts:
    """Ridge regressions with normal errors, each with a variance of its own.

    An expert's penalty is ``strength * |b|^2 / (2 variance)``. So the best coefficients do not
    depend on the variance, and a mixture of one expert is a ridge regression.
    """

    def __init__(
        self, blocks: Blocks, target: Floats, weight: Floats, n_experts: int, strength: float,
        floor: float,
    ) -> None:  # fmt: skip
        self.blocks, self.target, self.weight = blocks, target, weight
        self.strength, self.floor = strength, floor
        self.state = LinearState(np.zeros((n_experts, blocks.width)), np.ones(n_experts))

    def log_density(self, rows: slice, block: Floats) -> Floats:
        """Return normal log-densities."""
        coef, variance = self.state
        return gaussian_log_density(self.target[rows] - coef @ block.T, variance)

    def _moments(self, shares: Floats) -> Floats:
        """Return weighted products of columns and target for each expert."""
        width = self.blocks.width + 1

        def part(rows: slice, block: Floats) -> tuple[Floats]:
            both = np.column_stack([block, self.target[rows]])
            w = shares[:, rows] * self.weight[rows]
            found = np.empty((len(shares), width, width))
            for k, own in enumerate(w):
                found[k] = (both * own[:, None]).T @ both
            return (found,)

        return np.asarray(self.blocks.total(part, len(shares) * width**2)[0])

    def update(self, shares: Floats) -> None:
        """Solve the weighted ridge regressions."""
        coef, variance = self.state.coef.copy(), self.state.variance.copy()
        ridge = np.append(np.full(self.blocks.width - 1, self.strength), 0.0)
        total = float(self.weight.sum())
        for k, moments in enumerate(self._moments(shares)):
            gram, xy, yy = moments[:-1, :-1], moments[:-1, -1], moments[-1, -1]
            size = gram[-1, -1]
            if not size > _SMALLEST_SHARE * total:
                continue
            matrix = gram.copy()
            matrix.flat[:: len(matrix) + 1] += ridge
            coef[k] = b = solve_definite(matrix, xy)
            # The sum of squares, with the penalty.
            left = float(yy - 2.0 * b @ xy + b @ matrix @ b)
            variance[k] = max(self.floor, left / size)
        self.state = LinearState(coef, variance)

    def penalty(self) -> float:
        """Return the penalty on the coefficients."""
        coef, variance = self.state
        return float(0.5 * self.strength * ((coef[:, :-1] ** 2).sum(axis=1) / variance).sum())


class LogisticExperts:
    """Multinomial logistic regressions with a ridge penalty; two classes have one score."""

    def __init__(
        self, blocks: Blocks, codes: NDArray[Any], n_classes: int, weight: Floats, n_experts: int,
        strength: float,
    ) -> None:  # fmt: skip
        self.blocks, self.codes, self.weight = blocks, codes, weight
        self.ridge = ridge_terms(blocks.width, strength)
        self.truth = (codes == np.arange(n_classes)[:, None]).astype(np.float64)
        self.state = np.zeros((n_experts, n_classes, blocks.width))

    def log_density(self, rows: slice, block: Floats) -> Floats:
        """Return the log-probabilities of the rows' classes."""
        codes = self.codes[rows]
        chosen = np.arange(len(codes))
        logs = (log_softmax(coef @ block.T) for coef in self.state)
        return np.stack([own[codes, chosen] for own in logs])

    def update(self, shares: Floats) -> None:
        """Take a Newton step for each expert."""
        single = len(self.truth) == 2
        new = []
        for coef, own in zip(self.state, shares, strict=True):
            weight = own * self.weight
            step = softmax_step(self.blocks, coef, self.truth, weight, self.ridge, single)
            new.append(step)
        self.state = np.stack(new)

    def penalty(self) -> float:
        """Return the penalty on the coefficients."""
        return penalty_of(self.state, self.ridge)


class MemberState(NamedTuple):
    """Fitted members."""

    members: tuple[Any, ...]
    output: Floats  # (n_experts, n_rows): predictions, or log-probabilities of the rows' classes
    variance: Floats  # (n_experts,)


class MemberExperts:
    """Estimators that are fitted with the responsibilities as weights.

    A new member replaces the old one of an expert only if it raises the expected log-likelihood.
    """

    def __init__(
        self, estimator: Any, rows: Rows, weight: Floats, n_experts: int, seed: int,
        n_threads: int, target: Floats | None, to_target: Callable[[Floats], Floats], floor: float,
        classes: NDArray[Any] | None,
    ) -> None:  # fmt: skip
        self.estimator, self.rows, self.weight = estimator, rows, weight
        self.seed, self.n_threads, self.floor = seed, n_threads, floor
        # In regression, densities are those of the standardised target.
        self.target, self.to_target, self.classes = target, to_target, classes
        empty = np.zeros((n_experts, len(rows)))
        self.state = MemberState((None,) * n_experts, empty, np.ones(n_experts))

    def log_density(self, rows: slice, block: Floats) -> Floats:
        """Return normal log-densities, or log-probabilities of the rows' classes."""
        output = self.state.output[:, rows]
        if self.target is None:
            return output
        return gaussian_log_density(self.target[rows] - output, self.state.variance)

    def _fit(self, weight: Floats, number: int, n_threads: int) -> tuple[Any, Floats]:
        rows = self.rows.weighted(weight)
        member = fit_member(self.estimator, rows, n_threads, self.seed + number, "expert")
        table = self.rows.columns.table
        if self.classes is None:
            return member, self.to_target(member_numbers(member, table))
        proba = smoothed(member_probabilities(member, table, self.classes))
        return member, np.log(proba[np.arange(len(proba)), self.rows.codes])

    def _quality(self, output: Floats, weight: Floats, size: float) -> tuple[float, float]:
        """Return the expected log-likelihood of an expert up to a constant, and its variance."""
        if self.target is None:
            return float(weight @ output), 1.0
        squares = float(weight @ (self.target - output) ** 2)
        variance = max(self.floor, squares / size)
        return -0.5 * (size * np.log(variance) + squares / variance), variance

    def update(self, shares: Floats) -> None:
        """Fit new members, and keep those that are better."""
        members, output = list(self.state.members), self.state.output.copy()
        variance = self.state.variance.copy()
        weights = shares * self.weight
        sizes = weights.sum(axis=1)
        large = np.flatnonzero(sizes > _SMALLEST_SHARE * self.weight.sum())

        def job(k: int, n_threads: int) -> tuple[Any, Floats]:
            return self._fit(weights[k], k, n_threads)

        made = run_members(job, large.tolist(), self.n_threads)
        for k, (member, found) in zip(large, made, strict=True):
            weight, size = weights[k], float(sizes[k])
            quality, best = self._quality(found, weight, size)
            if members[k] is not None:
                old_quality, old = self._quality(output[k], weight, size)
                if not quality > old_quality:
                    variance[k] = old
                    continue
            members[k], output[k], variance[k] = member, found, best
        self.state = MemberState(tuple(members), output, variance)

    def penalty(self) -> float:
        """Return 0: members have penalties of their own."""
        return 0.0
