"""Fits to a store that does not fit into memory: the models of the table in memory, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import make_rows, write_store

from hybridtrees import (
    CARTRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    PLGBRegressor,
    RandomForestRegressor,
    XGBClassifier,
    XGBRegressor,
)
from hybridtrees.store.errors import StoreError
from hybridtrees.store.fitting import decoded_bytes
from hybridtrees.store.layout import BLOCK_ROWS
from hybridtrees.store.reader import BinnedStore

HOW = {"random_state": 0, "categorical_statistics": False}
FEW = {"n_estimators": 2, **HOW}
MODELS = {
    "xgb": XGBRegressor(**FEW),
    "xgb, drawn": XGBRegressor(**FEW, subsample=0.4, colsample_bytree=0.6),
    "xgb, gradients": XGBRegressor(**FEW, subsample=0.2, sampling_method="gradient_based"),
    "xgb, lossguide": XGBRegressor(**FEW, grow_policy="lossguide", max_leaves=20, max_depth=0),
    "xgb, quantiles": XGBRegressor(
        **FEW, objective="reg:quantileerror", quantile_alpha=[0.1, 0.9], max_depth=3
    ),
    "gb": GradientBoostingRegressor(**FEW, subsample=0.5),
    "gb, absolute": GradientBoostingRegressor(**FEW, loss="absolute_error", max_leaf_nodes=6),
    "gb, pruned": GradientBoostingRegressor(**FEW, ccp_alpha=0.01),
    "plgb, constant": PLGBRegressor(**FEW, max_leaf_features=0),
}


def check_same(model, path, rows, memory_limit=1):
    """Fit to the table and to the store with little memory, and compare the trees."""
    own, mine = (type(model)(**model.get_params()) for _ in range(2))
    own.set_params(categorical_features=list(rows.categorical)).fit(rows.X, rows.y, rows.weight)
    with BinnedStore(path, memory_limit=memory_limit) as store:
        mine.fit(store)
    assert mine.trees_.nodes.tobytes() == own.trees_.nodes.tobytes()
    np.testing.assert_array_equal(mine.trees_.values, own.trees_.values)
    np.testing.assert_array_equal(mine.predict(rows.X[:500]), own.predict(rows.X[:500]))


@pytest.fixture(scope="module")
def long_table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    tables = {}
    for weighted in (False, True):
        rows = make_rows(BLOCK_ROWS + 20_000, p=7, weighted=weighted)
        write_store(folder / str(weighted), rows).close()
        tables[weighted] = folder / str(weighted), rows
    return tables


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_models_are_those_of_the_table(long_table, name, weighted):
    check_same(MODELS[name], *long_table[weighted])


@pytest.mark.parametrize("name", ["xgb, drawn", "xgb, gradients", "gb"])
def test_samples_are_grown_in_memory_if_they_fit(long_table, name):
    path, rows = long_table[False]
    limit = decoded_bytes(*rows.X.shape) * 3 // 4
    check_same(MODELS[name], path, rows, limit)


def test_a_sampled_round_reads_the_store_twice(long_table):
    path, rows = long_table[False]
    model = XGBRegressor(n_estimators=4, subsample=0.3, **HOW)
    with BinnedStore(path, memory_limit=decoded_bytes(*rows.X.shape) // 2) as store:
        assert store.y is not None
        before = store.bytes_read
        model.fit(store)
        codes = store._layout.chunks["length"][:, : store.n_features].sum()
        assert store.bytes_read - before <= 2 * 4 * codes


@pytest.mark.parametrize("family", [XGBClassifier, GradientBoostingClassifier])
def test_classifiers_are_those_of_the_table(tmp_path, family):
    rows = make_rows(BLOCK_ROWS + 5000)
    rows.y = np.digitize(rows.y, [-1.0, 1.5])
    write_store(tmp_path / "s", rows, classes=np.arange(3)).close()
    check_same(family(**FEW, max_depth=3), tmp_path / "s", rows)


@settings(max_examples=6)
@given(
    n=st.sampled_from([300, BLOCK_ROWS, 2 * BLOCK_ROWS + 1]),
    pieces=st.integers(1, 6),
    compression=st.sampled_from(["auto", None, "bits"]),
    n_parts=st.integers(1, 3),
    n_jobs=st.integers(1, 3),
)
def test_files_and_codecs_do_not_matter(tmp_path_factory, n, pieces, compression, n_parts, n_jobs):
    folder = tmp_path_factory.mktemp("store")
    rows = make_rows(n, weighted=True)
    paths = [folder / str(k) for k in range(n_parts)]
    write_store(paths, rows, pieces=pieces, compression=compression).close()
    check_same(XGBRegressor(**FEW, n_jobs=n_jobs), paths, rows)


def test_early_stopping_is_that_of_the_table(long_table):
    path, rows = long_table[False]
    held = make_rows(2000, p=7, seed=3)
    own, mine = (
        XGBRegressor(n_estimators=6, learning_rate=1.0, early_stopping_rounds=2, **HOW)
        for _ in range(2)
    )
    own.set_params(categorical_features=[3]).fit(rows.X, rows.y, X_val=held.X, y_val=held.y)
    mine.fit(BinnedStore(path, memory_limit=1), X_val=held.X, y_val=held.y)
    assert mine.evals_result() == own.evals_result()
    assert mine.best_iteration == own.best_iteration


def test_what_needs_all_codes_is_refused_by_name(tmp_path):
    rows = make_rows(12_000)
    write_store(tmp_path / "s", rows, raw_features=range(6))
    store = BinnedStore(tmp_path / "s", memory_limit=1000)
    for model in (
        RandomForestRegressor(n_estimators=1),
        CARTRegressor(splitter="hist"),
        CARTRegressor(splitter="hist", criterion="absolute_error"),
        PLGBRegressor(n_estimators=1),
    ):
        message = f"{type(model).__name__} needs the codes of all rows in memory, .* allows 1,000"
        with pytest.raises(MemoryError, match=message):
            model.fit(store)
        assert not hasattr(model, "n_features_in_")
    model = GradientBoostingRegressor(n_estimators=1, splitter="hist", n_iter_no_change=2)
    for limit in (1000, None):
        store = BinnedStore(tmp_path / "s", memory_limit=limit)
        with pytest.raises(ValueError, match="n_iter_no_change=2 of GradientBoostingRegressor"):
            model.fit(store)


def test_a_damaged_block_ends_the_fit(tmp_path):
    rows = make_rows(BLOCK_ROWS + 100)
    write_store(tmp_path / "s", rows)
    store = BinnedStore(tmp_path / "s", memory_limit=1)
    model = XGBRegressor(n_estimators=1).fit(store)
    before = model.predict(rows.X[:100])
    with open(tmp_path / "s" / "blocks.bin", "r+b") as file:
        file.seek(int(store._layout.blocks["offset"][1]) + 3)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(StoreError, match="damaged in column 0 of block 1: its checksum differs"):
        model.fit(store)
    np.testing.assert_array_equal(model.predict(rows.X[:100]), before)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of resident memory")
def test_resident_memory_follows_the_limit(tmp_path):
    """200 million codes; in memory they take 400 MB and more."""
    code = f"""
    import re
    import numpy as np
    from hybridtrees import XGBRegressor
    from hybridtrees.core.bins.mapper import BinMapper
    from hybridtrees.store.reader import BinnedStore
    from hybridtrees.store.schema import Schema
    from hybridtrees.store.writer import StoreWriter

    rng = np.random.default_rng(0)
    mapper = BinMapper(max_bins=255).fit(rng.normal(size=(2000, 200)))
    codes = rng.integers(0, 250, (50_000, 200)).astype(np.uint8)
    with StoreWriter({str(tmp_path / "s")!r}, Schema(mapper), n_jobs=2) as writer:
        for part in range(20):
            writer.append(codes, codes[:, part] + 0.0)
    # Not getrusage, which starts at the peak of the process that this one was forked from.
    status = lambda: open("/proc/self/status").read()
    peak = lambda: 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", status())[1])
    model = XGBRegressor(n_estimators=1, max_depth=2, n_jobs=2)
    before = peak()
    model.fit(BinnedStore({str(tmp_path / "s")!r}, memory_limit=100_000_000))
    print(peak() - before)
    model.fit(BinnedStore({str(tmp_path / "s")!r}, memory_limit=1_000_000_000))
    print(peak() - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    small, large = (int(line) for line in done.stdout.split())
    assert small < 150_000_000
    assert large > 200_000_000  # the codes alone: the measure can tell
