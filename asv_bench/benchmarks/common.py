"""What the suites share: sizes, cached data, and one base class per kind of measurement.

``HYBRIDTREES_BENCH`` is the only switch: ``quick`` (the default) takes seconds, ``full`` takes
the sizes that the project is judged by.

The models are the rows of `estimators.RECIPES`, and a parameter of every suite, so that each has a
history of its own.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from .datasets import Data, make_data

MODES = ("quick", "full")
MODE = os.environ.get("HYBRIDTREES_BENCH", "quick")
if MODE not in MODES:
    raise ValueError(f"HYBRIDTREES_BENCH must be one of {MODES}, got {MODE!r}")

N_ROWS = {"quick": [10_000], "full": [10_000, 100_000, 1_000_000]}[MODE]
N_TREES = {"quick": 20, "full": 100}[MODE]
N_FEATURES = 28
TASKS = ["regression", "binary", "multiclass"]
N_JOBS = [1, 2]


def write_tables(tasks: list[str]) -> None:
    """Write every table once, into the folder that asv gives to the suite.

    Files rather than a return value: asv would unpickle all of them for every benchmark.
    """
    for n in N_ROWS:
        for task in tasks:
            for name, array in make_data(n, N_FEATURES, task)._asdict().items():
                np.save(f"{task}-{n}-{name}.npy", array)


def read_table(n: int, task: str) -> Data:
    """Table of one size and task."""
    return Data(*(np.load(Path(f"{task}-{n}-{name}.npy")) for name in Data._fields))


def predict(estimator, X, task: str) -> np.ndarray:
    """Values or probabilities."""
    return estimator.predict(X) if task == "regression" else estimator.predict_proba(X)
