"""Out-of-bag predictions and their error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees.metrics import Metric


@dataclass
class OutOfBag:
    """Predictions of rows by the trees whose samples do not contain them, and their error."""

    target: np.ndarray  # (n_rows, n_outputs), or int32 class codes
    weight: np.ndarray | None
    metric: Metric
    n_values: int  # per row and tree; 1 for two classes
    n_classes: int
    votes: bool

    def __post_init__(self) -> None:
        self.sums = np.zeros((len(self.target), self.n_values))
        self.counts = np.zeros(len(self.target), dtype=np.int32)

    @property
    def grain(self) -> float:
        """Smallest difference of an error rate that counts, 1.5 rows; 0 for other metrics."""
        return 1.5 / len(self.target) if self.metric.name in ("error", "merror") else 0.0

    def add(self, tree: Any) -> float:
        """Add the predictions of a tree and return the error of all trees so far."""
        return self.add_values(tree.oob_rows, tree.oob_values)

    def add_values(self, rows: np.ndarray, values: np.ndarray) -> float:
        """Add the predictions of a tree for its out-of-bag rows; see `add`."""
        self.sums[rows] += as_votes(values) if self.votes else values
        self.counts[rows] += 1
        return self.error()

    def prediction(self) -> np.ndarray:
        """Return means over the trees, NaN for rows that are in every sample."""
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self.sums / self.counts[:, None]
        return two_columns(mean) if self.n_classes == 2 else mean

    def score_input(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return targets, predictions and weights of the rows that have a prediction."""
        rows = self.counts > 0
        mean = self.sums[rows] / self.counts[rows, None]
        if mean.shape[1] == 1 and self.n_classes != 1:
            mean = mean[:, 0]
        target = self.target[rows]
        if target.ndim == 2 and target.shape[1] == 1:
            target = target[:, 0]
        return target, mean, None if self.weight is None else self.weight[rows]

    def error(self, metric: Metric | None = None) -> float:
        """Return the value of the metric, NaN while no row has a prediction."""
        target, mean, weight = self.score_input()
        if not len(target):
            return float("nan")
        return float((metric or self.metric).function(target, mean, sample_weight=weight))


def as_votes(values: np.ndarray) -> np.ndarray:
    """Return 1 for the most probable class, else 0; of two classes, for the second alone."""
    if values.shape[1] == 1:
        return (values > 0.5).astype(np.float64)
    votes = np.zeros_like(values)
    votes[np.arange(len(values)), values.argmax(axis=1)] = 1.0
    return votes


def most_probable(mean: np.ndarray) -> np.ndarray:
    """Return codes of the most probable classes; of two, `mean` is that of the second."""
    return (mean > 0.5).astype(np.intp) if mean.ndim == 1 else mean.argmax(axis=1)


def of_classes(metric: Metric) -> Metric:
    """Turn a metric of predicted classes into one of their probabilities."""

    def function(target: np.ndarray, mean: np.ndarray, *, sample_weight: Any = None) -> float:
        return metric.function(target, most_probable(mean), sample_weight=sample_weight)

    return metric._replace(function=function)


def two_columns(second: np.ndarray) -> np.ndarray:
    """Return the probabilities of both classes from those of the second."""
    return np.hstack([1.0 - second, second])
