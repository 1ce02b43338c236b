"""Stores come back as they were written, whatever the pieces, codecs, threads and folders."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import make_rows, write_store

from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.store.layout import BLOCK_ROWS
from hybridtrees.store.reader import BinnedStore
from hybridtrees.store.schema import Schema
from hybridtrees.store.writer import StoreWriter


def check_equal(store: BinnedStore, rows) -> None:
    mapper = BinMapper(categorical_features=list(rows.categorical))
    binned = mapper.fit_transform(rows.X, rows.weight)
    np.testing.assert_array_equal(store.read(), binned.columns)
    np.testing.assert_array_equal(store.y, rows.y)
    np.testing.assert_array_equal(store.has_missing, binned.has_missing)
    if rows.weight is None:
        assert store.weight is None
    else:
        np.testing.assert_array_equal(store.weight, rows.weight)
    assert store.shape == rows.X.shape
    for own, other in (
        (store.mapper.bin_edges_, mapper.bin_edges_),
        (store.mapper.category_to_bin_, mapper.category_to_bin_),
    ):
        for a, b in zip(own, other, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(store.mapper.transform(rows.X).columns, binned.columns)


@settings(max_examples=12)
@given(
    n=st.sampled_from([1, 2, 1000, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 150_000]),
    pieces=st.integers(1, 9),
    compression=st.sampled_from(["auto", None, "bits"]),
    n_parts=st.integers(1, 3),
    n_jobs=st.integers(1, 3),
    weighted=st.booleans(),
)
def test_a_store_comes_back(tmp_path_factory, n, pieces, compression, n_parts, n_jobs, weighted):
    folder = tmp_path_factory.mktemp("store")
    paths = [folder / f"disk{k}" for k in range(n_parts)]
    rows = make_rows(n, seed=n, weighted=weighted)
    with write_store(paths, rows, pieces=pieces, compression=compression, n_jobs=n_jobs) as store:
        check_equal(store, rows)
    with BinnedStore(paths[0]) as again:
        check_equal(again, rows)
        again.verify()


def test_blocks_columns_and_values(tmp_path):
    rows = make_rows(BLOCK_ROWS + 500, p=7)
    store = write_store(tmp_path / "s", rows, raw_features=[0, 6])
    codes = BinMapper(categorical_features=[3]).fit_transform(rows.X).columns
    assert store.n_blocks == 2
    np.testing.assert_array_equal(store.block(1), codes[:, BLOCK_ROWS:])
    np.testing.assert_array_equal(store.block(0, [5, 0]), codes[[5, 0], :BLOCK_ROWS])
    np.testing.assert_array_equal(np.hstack(list(store.blocks([4]))), codes[[4]])
    np.testing.assert_array_equal(store.read([6, 1], n_jobs=2), codes[[6, 1]])
    np.testing.assert_array_equal(store.values_of([6, 0]), rows.X[:, [6, 0]])
    with pytest.raises(ValueError, match="no values of feature 1"):
        store.values_of([1])


def test_bytes_read_are_those_of_the_chunks(tmp_path):
    store = write_store(tmp_path / "s", make_rows(BLOCK_ROWS * 2, p=60), compression=None)
    assert store.bytes_read == 0
    store.block(0)
    assert store.bytes_read == 60 * BLOCK_ROWS
    store.block(1, [0])
    assert store.bytes_read == 61 * BLOCK_ROWS
    store.block(1, [0, 40])  # far apart: not what lies between
    assert store.bytes_read == 63 * BLOCK_ROWS


def test_ends_of_bins_are_those_of_the_table(tmp_path):
    rows = make_rows(3000, weighted=True)
    rows.weight[::7] = 0
    store = write_store(tmp_path / "s", rows)
    least, largest = store.bin_ends
    codes = store.read()
    for f in (0, 1, 4):
        for code in range(store.mapper.n_bins_[f]):
            inside = rows.X[(codes[f] == code) & (rows.weight > 0), f]
            if len(inside):
                assert (least[f, code], largest[f, code]) == (inside.min(), inside.max())
            else:
                assert least[f, code] == np.inf


def test_classes_and_names_come_back(tmp_path):
    mapper = BinMapper().fit([[1.0, 2.0], [3.0, 4.0]])
    classes = np.array(["no", "yes"], dtype=object)
    schema = Schema(mapper, ["a", "b"], target="classes", classes=classes)
    with StoreWriter(tmp_path / "s", schema) as writer:
        writer.append(np.array([[0, 1], [1, 0]], np.uint8), [1, 0])
    with BinnedStore(tmp_path / "s") as store:
        assert store.schema.feature_names == ["a", "b"]
        np.testing.assert_array_equal(store.schema.classes, classes)
        np.testing.assert_array_equal(store.y, [1, 0])
        assert store.bin_ends is None


@pytest.mark.parametrize("n_first", [1000, BLOCK_ROWS, BLOCK_ROWS + 1000])
def test_rows_are_appended_with_the_same_cuts(tmp_path, n_first):
    rows = make_rows(BLOCK_ROWS + 3000, weighted=True)
    whole = write_store(tmp_path / "whole", rows)
    mapper, codes = whole.mapper, whole.read().T
    paths = [tmp_path / "a", tmp_path / "b"]
    with StoreWriter(paths, whole.schema) as writer:
        writer.append(codes[:n_first], rows.y[:n_first], rows.weight[:n_first], rows.X[:n_first])
    reader = BinnedStore(paths)
    with StoreWriter.extending(paths) as writer:
        assert writer.n_rows == n_first
        new = mapper.transform(rows.X[n_first:]).columns.T
        writer.append(new, rows.y[n_first:], rows.weight[n_first:], rows.X[n_first:])
    np.testing.assert_array_equal(reader.read(), codes[:n_first].T)  # opened before
    longer = BinnedStore(paths)
    check_equal(longer, rows)
    for own, other in zip(longer.bin_ends, whole.bin_ends, strict=True):
        np.testing.assert_array_equal(own, other)


def test_a_store_that_is_there_is_replaced_only_if_asked(tmp_path):
    rows = make_rows(100)
    store = write_store(tmp_path / "s", rows)
    with pytest.raises(FileExistsError, match="holds a store"):
        StoreWriter(tmp_path / "s", store.schema)
    write_store(tmp_path / "s", make_rows(50), overwrite=True)
    assert BinnedStore(tmp_path / "s").n_rows == 50
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="no store"):
        StoreWriter(tmp_path / "other", store.schema)


def bad_rows():
    codes, y = np.zeros((2, 6), np.uint8), np.zeros(2)
    yield "codes must be uint8", (codes.astype(int), y)
    yield "codes must be uint8", (codes[:, :5], y)
    yield "y must be given", (codes, None)
    yield "y must have 1 numbers", (codes, np.zeros(3))
    yield "y must be finite", (codes, [np.nan, 1])
    yield "weight must be given", (codes, y, np.ones(2))
    yield "values must be numbers", (codes, y, None, np.zeros((2, 5)))
    yield "codes of feature 1 must be at most 4, got 9", (np.full((2, 6), 9, np.uint8), y)


@pytest.mark.parametrize(("message", "given_rows"), list(bad_rows()))
def test_bad_rows_are_refused(tmp_path, message, given_rows):
    schema = write_store(tmp_path / "s", make_rows(1000)).schema
    if "feature 1" in message:
        given_rows[0][:, 0] = 0
    with pytest.raises(ValueError, match=message), StoreWriter(tmp_path / "t", schema) as writer:
        writer.append(*given_rows)


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("target must be one of", {"target": "text"}),
        ("classes must be given", {"target": "classes"}),
        ("classes must be given", {"classes": [1, 2]}),
        ("feature_names must have one entry", {"feature_names": ["a"]}),
        ("categories must have one entry", {"categories": [None]}),
        ("raw_features must lie within", {"raw_features": [7]}),
        ("n_targets must be at least 1", {"n_targets": 0}),
    ],
)
def test_bad_schemas_are_refused(message, options):
    with pytest.raises(ValueError, match=message):
        Schema(BinMapper().fit(make_rows(20).X), **options)


def sums_of(path: str) -> int:
    with BinnedStore(path) as store:
        return sum(int(block.sum()) for block in store.blocks())


def test_processes_read_one_store(tmp_path):
    store = write_store(tmp_path / "s", make_rows(BLOCK_ROWS + 10))
    expected = int(store.read().sum(dtype=np.int64))
    assert pickle.loads(pickle.dumps(store)).read().sum(dtype=np.int64) == expected
    with ProcessPoolExecutor(2) as pool:
        assert list(pool.map(sums_of, [str(tmp_path / "s")] * 4)) == [expected] * 4


def test_a_module_of_a_codec_is_imported_when_used():
    code = (
        "import sys, hybridtrees, hybridtrees.store.reader\n"
        "assert not {'zstandard', 'lz4', 'backports.zstd'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
