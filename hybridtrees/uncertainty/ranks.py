"""Quantiles of held-out scores, with the place of one more row counted.

A new row, exchangeable with m held-out rows, falls into each of the m + 1 gaps between their scores
with the same probability. A bound may leave out as many gaps as the coverage allows (Vovk,
Gammerman and Shafer 2005). A row of weight w counts w times, the new row with the mean weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Rounding of levels and cumulative weights must not cost a gap.
_SLACK = 1e-9

# Halvings of the bracket around a bound: below the spacing of floats.
_STEPS = 80


@dataclass
class Scores:
    """Held-out scores, sorted, of the models that made them: one, or that of each fold."""

    values: list[np.ndarray]  # ascending, of each model
    mass: list[np.ndarray]  # cumulative weights, with a 0 in front
    own: float  # weight of a new row
    equal: bool  # whether all weights are equal

    @classmethod
    def of(cls, scores: np.ndarray, weight: np.ndarray | None, model: np.ndarray | None) -> Scores:
        """Sort the scores of each model; rows of weight 0 do not count."""
        used = slice(None) if weight is None else weight > 0
        scores, model = scores[used], None if model is None else model[used]
        weight = np.ones(len(scores)) if weight is None else weight[used]
        values, mass = [], []
        for number in range(1 if model is None else int(model.max()) + 1):
            part = slice(None) if model is None else model == number
            order = np.argsort(scores[part], kind="stable")
            values.append(scores[part][order])
            mass.append(np.append(0.0, np.cumsum(weight[part][order])))
        own = sum(float(m[-1]) for m in mass) / len(scores)
        return cls(values, mass, own, bool(np.all(weight == weight[0])))

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return sum(float(mass[-1]) for mass in self.mass)

    def budget(self, coverage: float) -> float:
        """Return the weight of the gaps that an interval may leave out."""
        gaps = (1.0 - coverage) * (self.total / self.own + 1.0) + _SLACK
        return self.own * (np.floor(gaps) if self.equal else gaps)

    def sides(self, coverage: float) -> tuple[float, float]:
        """Divide the budget between the two sides."""
        whole = self.budget(coverage)
        half = whole / 2.0
        if self.equal:
            half = self.own * np.floor(half / self.own + _SLACK)
        return half, whole - half

    def upper(self, budget: float, level: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return for each row the least `level + scale * score` that leaves out no more.

        `level` is (n_rows, n_models). Infinite if not even one gap may be left out.
        """
        spare = budget - self.own * (1.0 - _SLACK)
        if spare < 0:
            return np.full(len(level), np.inf)
        if len(self.values) == 1:
            values, mass = self.values[0], self.mass[0]
            place = int(np.searchsorted(mass[1:], mass[-1] - spare - self.own * _SLACK))
            return np.asarray(level[:, 0] + scale * values[min(place, len(values) - 1)])
        return self._upper_of_several(spare, level, scale)

    def _upper_of_several(self, spare: float, level: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Search the bound of each row by bisection: each model's scores are shifted by its own."""
        high = np.full(len(level), -np.inf)
        low = np.full(len(level), np.inf)
        for k, values in enumerate(self.values):
            if len(values):
                high = np.maximum(high, level[:, k] + scale * values[-1])
                low = np.minimum(low, level[:, k] + scale * values[0])
        low = np.nextafter(low, -np.inf)
        for _ in range(_STEPS):
            middle = low + (high - low) / 2.0
            beyond = np.zeros(len(level))
            for k, values in enumerate(self.values):
                place = np.searchsorted(values, (middle - level[:, k]) / scale, side="right")
                beyond += self.mass[k][-1] - self.mass[k][place]
            enough = beyond <= spare + self.own * _SLACK
            high, low = np.where(enough, middle, high), np.where(enough, low, middle)
        return high

    def plausible(self, scores: np.ndarray, coverage: float) -> np.ndarray:
        """Whether new scores, (n_rows, n_models, n_choices), are among the less extreme ones."""
        beyond = np.full((scores.shape[0], scores.shape[2]), self.own)
        for k, values in enumerate(self.values):
            place = np.searchsorted(values, scores[:, k, :], side="left")
            beyond += self.mass[k][-1] - self.mass[k][place]
        return np.asarray(beyond > self.budget(coverage) + self.own * _SLACK)
