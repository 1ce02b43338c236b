"""Bins that several fits share are those that each would have made."""

from __future__ import annotations

import contextvars
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hybridtrees import (
    BinMapper,
    GradientBoostingRegressor,
    RandomForestRegressor,
    RERFRegressor,
    XGBRegressor,
)
from hybridtrees.core.bins.shared import sharing_bins


@pytest.fixture
def table(rng):
    X = rng.normal(size=(500, 4))
    X[::9, 1] = np.nan
    X[:, 3] = rng.integers(0, 6, 500)
    return X, X[:, 0] + np.nan_to_num(X[:, 1]) + rng.normal(size=500)


MODELS = (
    XGBRegressor(n_estimators=3, random_state=0, categorical_features=[3]),
    GradientBoostingRegressor(
        n_estimators=3, splitter="hist", random_state=0, categorical_features=[3]
    ),
    RandomForestRegressor(3, random_state=0, categorical_features=[3]),
    RERFRegressor(3, random_state=0, categorical_features=[3]),
)


def test_models_do_not_change(table):
    X, y = table
    alone = [type(m)(**m.get_params()).fit(X, y).predict(X) for m in MODELS]
    with sharing_bins() as store:
        shared = [type(m)(**m.get_params()).fit(X, y).predict(X) for m in MODELS]
        assert (store.n_made, store.n_found) == (1, len(MODELS) - 1)
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_differs_is_not_shared(table):
    X, _ = table
    weight = np.linspace(0.5, 2, len(X))
    with sharing_bins() as store:
        for change in ({}, {"max_bins": 9}, {"categorical_features": [3]}, {"subsample": 100}):
            options = {k: np.asarray(v) if isinstance(v, list) else v for k, v in change.items()}
            BinMapper(**options).fit_transform(X)
        BinMapper().fit_transform(X, weight)
        BinMapper().fit_transform(X[:400])
        BinMapper().fit_transform(X.astype(np.float32))
        changed = X.copy()
        changed[-1, 0] += 1
        BinMapper().fit_transform(changed)
        assert (store.n_made, store.n_found) == (8, 0)
        mapper = BinMapper(n_jobs=1)
        binned = mapper.fit_transform(X, weight.tolist())
        assert (store.n_made, store.n_found) == (8, 1)
    fresh = BinMapper().fit(X, weight)
    assert mapper.n_jobs == 1
    np.testing.assert_array_equal(binned.columns, fresh.transform(X).columns)
    np.testing.assert_array_equal(mapper.bin_edges_[0], fresh.bin_edges_[0])


def test_a_table_changed_in_place_is_another_table(table):
    X, _ = table
    view = X[:]
    view.flags.writeable = False  # but its owner can still write
    with sharing_bins() as store:
        BinMapper().fit_transform(view)
        X[:, 0] *= X[:, 0]
        edges = BinMapper().fit(X).bin_edges_[0]
        mapper = BinMapper()
        mapper.fit_transform(view)
        assert store.n_found == 0
    np.testing.assert_array_equal(mapper.bin_edges_[0], edges)


def test_nothing_is_shared_outside_or_from_a_random_source(table):
    X, _ = table
    with sharing_bins() as store:
        for _ in range(2):
            BinMapper(random_state=np.random.default_rng(0)).fit_transform(X)
        assert store.n_made == 0
    BinMapper().fit_transform(X)
    assert store.n_made == store.n_found == 0


def test_threads_share(table):
    X, y = table

    def fit(seed):
        model = XGBRegressor(n_estimators=5, subsample=0.5, random_state=seed, n_jobs=1)
        return model.fit(X, y).predict(X)

    with sharing_bins() as store, ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(contextvars.copy_context().run, fit, seed) for seed in range(8)]
        shared = [future.result() for future in waiting]
        assert (store.n_made, store.n_found) == (1, 7)
    for seed, prediction in enumerate(shared):
        np.testing.assert_array_equal(prediction, fit(seed))
