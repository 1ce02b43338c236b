"""The kernels alone, one class per stage, so that a slow-down has an address.

They go through the engine's own entry points rather than the estimators. A kernel without an
entry point of its own, the split scan, is timed by work in which it takes nearly all the time.
"""

from __future__ import annotations

import numpy as np

from hybridtrees import BinMapper, QuantileSketch, XGBRegressor
from hybridtrees.core.grow.grower import Grower, NewtonLeaves, Statistics
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.table import Table
from hybridtrees.core.search import _histogram, _split
from hybridtrees.losses import Logistic, SquaredError

from .common import MODE, N_FEATURES, N_JOBS
from .datasets import SEED, make_features

N_ROWS = {"quick": [100_000], "full": [100_000, 1_000_000]}[MODE]


def make_table(n: int, zero_inflated: bool = False) -> np.ndarray:
    """The float32 table of the other suites."""
    return make_features(n, N_FEATURES, np.random.default_rng(SEED), zero_inflated)[0]


def make_gradients(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Gradients and hessians as of a logistic loss."""
    rng = np.random.default_rng(SEED)
    probability = rng.random(n)
    grad = probability - (rng.random(n) < 0.5)
    return grad.astype(np.float32), (probability * (1 - probability)).astype(np.float32)


class Sketch:
    """One column into a quantile sketch, and the union of two sketches."""

    params = (N_ROWS, ["plain", "weighted"])
    param_names = ["n", "weights"]

    def setup(self, n: int, weights: str) -> None:
        rng = np.random.default_rng(SEED)
        self.values = rng.lognormal(size=n)
        self.weights = rng.random(n) if weights == "weighted" else None
        half = n // 2
        self.first = QuantileSketch().update(self.values[:half])
        self.second = QuantileSketch().update(self.values[half:])

    def time_update(self, n: int, weights: str) -> None:
        QuantileSketch().update(self.values, self.weights)

    def time_merge(self, n: int, weights: str) -> None:
        self.first.copy().merge(self.second)

    def time_quantiles(self, n: int, weights: str) -> None:
        self.first.quantiles(np.linspace(0, 1, 256))


class Binning:
    """Edges from values, and codes from edges."""

    params = (N_ROWS, ["mixed", "zero-inflated"], N_JOBS)
    param_names = ["n", "columns", "n_jobs"]

    def setup(self, n: int, columns: str, n_jobs: int) -> None:
        self.X = make_table(n, columns == "zero-inflated")
        self.mapper = BinMapper(n_jobs=n_jobs).fit(self.X)

    def time_fit(self, n: int, columns: str, n_jobs: int) -> None:
        BinMapper(n_jobs=n_jobs).fit(self.X)

    def time_transform(self, n: int, columns: str, n_jobs: int) -> None:
        self.mapper.transform(self.X)


class Histogram:
    """Sums over all rows, and over a sixteenth of them scattered through the table.

    Zero-inflated columns put most rows into one bin, where stores wait for loads of an address
    that differs by a multiple of 4096 bytes unless the layout avoids it.
    """

    params = (N_ROWS, ["mixed", "zero-inflated"], ["constant", "varying"], N_JOBS)
    param_names = ["n", "columns", "hessian", "n_jobs"]

    def setup(self, n: int, columns: str, hessian: str, n_jobs: int) -> None:
        X = make_table(n, columns == "zero-inflated")
        self.bins = _histogram.BinnedView(BinMapper().fit_transform(X))
        self.statistics = _histogram.RowStatistics(self.bins, True)
        self.grad, hess = make_gradients(n)
        self.hess = 1.0 if hessian == "constant" else hess
        self.statistics.fill(self.grad, self.hess, n, False, n_jobs)
        chosen = np.random.default_rng(SEED).random(n) < 1 / 16
        self.rows = np.flatnonzero(chosen).astype(np.uint32)

    def time_quantise(self, n: int, columns: str, hessian: str, n_jobs: int) -> None:
        self.statistics.fill(self.grad, self.hess, n, False, n_jobs)

    def time_all_rows(self, n: int, columns: str, hessian: str, n_jobs: int) -> None:
        _histogram.histogram(self.bins, self.statistics, None, None, n_jobs)

    def time_some_rows(self, n: int, columns: str, hessian: str, n_jobs: int) -> None:
        _histogram.histogram(self.bins, self.statistics, self.rows, None, n_jobs)


class SplitScan:
    """One split of few rows with many features: nearly all of it is the scan over bins."""

    params = ([200, 2000], ["complete", "with missing"], N_JOBS)
    param_names = ["n_features", "values", "n_jobs"]
    n = 1000

    def setup(self, n_features: int, values: str, n_jobs: int) -> None:
        rng = np.random.default_rng(SEED)
        X = rng.standard_normal((self.n, n_features), dtype=np.float32)
        if values == "with missing":
            X[rng.random(X.shape) < 0.1] = np.nan
        self.grad, self.hess = make_gradients(self.n)
        params = GrowerParams(max_depth=1, min_child_weight=0.0)
        table = Table.of_bins(BinMapper().fit_transform(X))
        self.grower = Grower(table, params, NewtonLeaves(params), n_jobs)
        self.grower.__enter__()

    def teardown(self, n_features: int, values: str, n_jobs: int) -> None:
        self.grower.__exit__(None, None, None)

    def time_stump(self, n_features: int, values: str, n_jobs: int) -> None:
        self.grower.grow(Statistics(self.grad, self.hess))


class Partition:
    """Stable split of row ids by a column of codes; copying the ids is part of the time."""

    params = (N_ROWS, ["all", "sixteenth"], N_JOBS)
    param_names = ["n", "rows", "n_jobs"]

    def setup(self, n: int, rows: str, n_jobs: int) -> None:
        rng = np.random.default_rng(SEED)
        self.codes = rng.integers(0, 255, n, dtype=np.uint8)
        chosen = rng.random(n) < (1.0 if rows == "all" else 1 / 16)
        self.rows = np.flatnonzero(chosen).astype(np.uint32)
        self.goes_left = (np.arange(256) < 100).astype(np.uint8)

    def time_partition(self, n: int, rows: str, n_jobs: int) -> None:
        _split.partition_rows(self.codes, self.goes_left, self.rows.copy(), n_jobs)


class Losses:
    """Gradients and hessians of all rows."""

    params = (N_ROWS, ["squared", "logistic"], N_JOBS)
    param_names = ["n", "loss", "n_jobs"]

    def setup(self, n: int, loss: str, n_jobs: int) -> None:
        rng = np.random.default_rng(SEED)
        self.loss = SquaredError() if loss == "squared" else Logistic()
        self.y = (rng.random(n) < 0.5).astype(np.float64)
        self.raw = rng.standard_normal((n, 1))
        self.grad = np.empty((1, n), dtype=np.float32)
        # The hessian of the squared error is 1 and is not written.
        self.hess = None if loss == "squared" else np.empty((1, n), dtype=np.float32)

    def time_statistics(self, n: int, loss: str, n_jobs: int) -> None:
        self.loss.statistics(self.y, self.raw, None, self.grad, self.hess, n_jobs)


class Prediction:
    """The two ways to predict: bit masks for trees of few leaves, a walk for larger ones."""

    params = (N_ROWS, [31, 255], ["float32", "float64"], N_JOBS)
    param_names = ["n", "leaves", "dtype", "n_jobs"]
    n_trees = 50

    def setup(self, n: int, leaves: int, dtype: str, n_jobs: int) -> None:
        X = make_table(n)
        rows = slice(0, 20_000)
        y = X[rows, 0] * X[rows, 5] + X[rows, 10]
        model = XGBRegressor(
            n_estimators=self.n_trees, max_depth=0, max_leaves=leaves, grow_policy="lossguide"
        )
        self.trees = model.fit(X[rows], y).trees_
        self.X = X.astype(dtype)
        self.raw = np.zeros((n, 1))
        self.trees.add_raw(self.X[:10], self.raw[:10], 1)  # lays the trees out

    def time_add_raw(self, n: int, leaves: int, dtype: str, n_jobs: int) -> None:
        self.trees.add_raw(self.X, self.raw, n_jobs)

    def time_apply(self, n: int, leaves: int, dtype: str, n_jobs: int) -> None:
        self.trees.apply(self.X, n_jobs)
