"""What the suites share: sizes, cached data, and one base class per kind of measurement.

``HYBRIDTREES_BENCH`` is the only switch: ``quick`` (the default) takes seconds, ``full`` takes
the sizes that the project is judged by.

A suite derives from `TimeFit`, `TimePredict`, `PeakMemory` or `TrackScore` and says in
`make_estimator` what to measure. The bases are abstract, which is how asv knows to leave them
alone.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np

from .datasets import Data, make_data, score

MODES = ("quick", "full")
MODE = os.environ.get("HYBRIDTREES_BENCH", "quick")
if MODE not in MODES:
    raise ValueError(f"HYBRIDTREES_BENCH must be one of {MODES}, got {MODE!r}")

N_ROWS = {"quick": [10_000], "full": [10_000, 100_000, 1_000_000]}[MODE]
N_TREES = {"quick": 20, "full": 100}[MODE]
N_FEATURES = 28
TASKS = ["regression", "binary", "multiclass"]
N_JOBS = [1, 2]


class Suite(ABC):
    """Parameters and data of a suite."""

    params: tuple[list, ...] = (N_ROWS, TASKS, N_JOBS)
    param_names = ["n", "task", "n_jobs"]
    timeout = 600
    data: Data

    def setup_cache(self) -> None:
        """Write every table once, into the folder that asv gives to the suite.

        Files rather than a return value: asv would unpickle all of them for every benchmark.
        """
        for n in N_ROWS:
            for task in TASKS:
                for name, array in self.make_data(n, task)._asdict().items():
                    np.save(f"{task}-{n}-{name}.npy", array)

    def setup(self, n: int, task: str, n_jobs: int) -> None:
        """Load the table of these parameters and build a fresh estimator."""
        self.data = Data(*(np.load(Path(f"{task}-{n}-{name}.npy")) for name in Data._fields))
        self.estimator = self.make_estimator(task, n_jobs)

    def make_data(self, n: int, task: str) -> Data:
        """Table of one size and task."""
        return make_data(n, N_FEATURES, task)

    @abstractmethod
    def make_estimator(self, task: str, n_jobs: int):
        """Build the unfitted estimator to measure."""

    def predict(self, X: np.ndarray, task: str) -> np.ndarray:
        """Values or probabilities."""
        return (
            self.estimator.predict(X) if task == "regression" else self.estimator.predict_proba(X)
        )


class TimeFit(Suite):
    """Time of a fit, binning included."""

    def time_fit(self, n: int, task: str, n_jobs: int) -> None:
        self.estimator.fit(self.data.X, self.data.y)


class TimePredict(Suite):
    """Time of prediction on the training table, and on one row."""

    def setup(self, n: int, task: str, n_jobs: int) -> None:
        super().setup(n, task, n_jobs)
        # Prediction does not care how many rows the trees were grown on.
        rows = slice(0, 20_000)
        self.estimator.fit(self.data.X[rows], self.data.y[rows])
        self.row = self.data.X[:1].copy()

    def time_predict(self, n: int, task: str, n_jobs: int) -> None:
        self.predict(self.data.X, task)

    def time_predict_one_row(self, n: int, task: str, n_jobs: int) -> None:
        self.predict(self.row, task)


class PeakMemory(Suite):
    """Peak resident memory of the process, its table included."""

    def peakmem_fit(self, n: int, task: str, n_jobs: int) -> None:
        self.estimator.fit(self.data.X, self.data.y)


class TrackScore(Suite):
    """RMSE or log loss on unseen rows: a speed-up that loses score must show."""

    params = (N_ROWS, TASKS, [2])
    unit = "RMSE or log loss"

    def track_score(self, n: int, task: str, n_jobs: int) -> float:
        self.estimator.fit(self.data.X, self.data.y)
        return score(task, self.data.y_test, self.predict(self.data.X_test, task))
