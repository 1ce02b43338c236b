"""Kernels that are given up before they are done."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from hybridtrees.core.base._threads import StopFlag
from hybridtrees.core.base.dtypes import SORTED_ENTRY_DTYPE
from hybridtrees.core.grow.cart import grow_cart
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.search._sorted import sort_columns

# Enough for a kernel to ask whether it is to stop.
SHAPE = (30_000, 8)


def table(rng):
    X = rng.normal(size=SHAPE)
    return X, (X[:, 0] + rng.normal(size=SHAPE[0]))[:, None]


def grow(X, y, criterion="squared_error", **how):
    how = {"splitter": "exact", "n_threads": 1, **how}
    params = GrowerParams(max_depth=6, min_samples_leaf=5)
    flags = np.zeros(X.shape[1], dtype=bool)
    return grow_cart(X, y, None, criterion=criterion, params=params, is_categorical=flags, **how)


def sort(X):
    # One thread: of several, one that does not ask might do it all.
    lists = np.empty(X.shape[::-1], dtype=SORTED_ENTRY_DTYPE)
    sort_columns(X, np.zeros(X.shape[1], dtype=np.uint8), lists, 0, 1)
    return lists


def test_columns_are_not_sorted(rng):
    X, _ = table(rng)
    flag = StopFlag()
    with flag:
        before = sort(X)
        flag.set()
        with pytest.raises(KeyboardInterrupt):
            sort(X)
    np.testing.assert_array_equal(sort(X), before)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("criterion", ["squared_error", "absolute_error", "poisson"])
def test_a_tree_is_not_grown(rng, criterion, splitter, n_threads):
    X, y = table(rng)
    y = np.abs(y)
    how = {"criterion": criterion, "splitter": splitter, "n_threads": n_threads}
    flag = StopFlag()
    with flag:
        before = grow(X, y, **how).tree.nodes
        flag.set()
        with pytest.raises(KeyboardInterrupt):
            grow(X, y, **how)
    np.testing.assert_array_equal(grow(X, y, **how).tree.nodes, before)


def test_a_flag_stops_only_the_threads_within_it(rng):
    X, y = table(rng)
    flag, raised = StopFlag(), []

    def work():
        with flag:
            try:
                while True:
                    grow(X, y)
            except KeyboardInterrupt:
                raised.append(True)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    flag.set()
    for worker in workers:
        worker.join()
    assert raised == [True, True]
    grow(X, y)
