"""Stores built from any source: codes, target and models of the table in memory, bit for bit."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from batch_tables import cut, make_columns, write_parquet
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridtrees.store.building as building
from hybridtrees import (
    BinMapper,
    BinnedStore,
    CARTRegressor,
    GradientBoostingRegressor,
    PLGBRegressor,
    RandomForestClassifier,
    XGBClassifier,
    bin_to_disk,
)
from hybridtrees.input.validation import FeatureReader
from hybridtrees.store.errors import StoreError

FEATURES = ["real", "count", "word"]


def check_store(store, X, columns, categorical=None, label=None):
    """A store holds the codes that a mapper makes of the table in memory."""
    reader, values = FeatureReader.fit(X, categorical_features=categorical)
    mapper = BinMapper(categorical_features=reader.is_categorical)
    weight = None if "w" not in columns else np.asarray(columns["w"])
    codes = mapper.fit(values, weight).transform(values).columns
    np.testing.assert_array_equal(store.read(), codes)
    for mine, own in zip(store.mapper.bin_edges_, mapper.bin_edges_, strict=True):
        assert (mine is None) == (own is None) and (mine is None or mine.tobytes() == own.tobytes())
    y = store.y if store.schema.classes is None else store.schema.classes[store.y]
    np.testing.assert_array_equal(y, columns["y"] if label is None else label)
    if weight is None:
        assert store.weight is None
    else:
        np.testing.assert_array_equal(store.weight, weight)
    assert store.schema.feature_names == list(FEATURES)


@settings(max_examples=12)
@given(
    n_rows=st.integers(1, 300),
    seed=st.integers(0, 99),
    sizes=st.lists(st.integers(1, 200), min_size=1, max_size=3),
    row_group=st.integers(1, 90),
    batch_rows=st.integers(1, 120),
    declared=st.booleans(),
    weighted=st.booleans(),
    disks=st.integers(1, 2),
)
def test_files_in_any_cuts(n_rows, seed, sizes, row_group, batch_rows, declared, weighted, disks):
    pa = pytest.importorskip("pyarrow")
    columns = make_columns(n_rows, seed)
    if not weighted:
        del columns["w"]
    table = pa.table(columns)
    categorical = ["count"] if declared else None
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        patch.setattr(building, "BATCH_ROWS", batch_rows)
        folder = Path(name)
        (folder / "in").mkdir()
        write_parquet(table, folder / "in", cut(n_rows, sizes), row_group)
        how = {"target": "y", "weight": "w" if weighted else None}
        paths = [folder / f"out{k}" for k in range(disks)]
        with bin_to_disk(folder / "in", paths, categorical_features=categorical, **how) as store:
            check_store(store, table.select(FEATURES), columns, categorical)


SOURCES = ["csv", "dataset", "lazy", "pandas", "batches", "arrays", "memmap"]


@pytest.mark.parametrize("source", SOURCES)
def test_every_source(source, tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    monkeypatch.setattr(building, "BATCH_ROWS", 70)
    columns = make_columns(500, 3)
    if source in ("csv", "batches"):
        columns["word"] = [None if word == "-" else word for word in columns["word"]]
    table = pa.table(columns)
    frame, named = pl.from_arrow(table), {"target": "y", "weight": "w"}
    X = table.select(FEATURES)
    if source == "csv":
        frame.write_csv(tmp_path / "t.csv")
        given = tmp_path / "t.csv"
    elif source == "dataset":
        from pyarrow import dataset

        write_parquet(table, tmp_path, [(0, 200), (200, 500)], 90)
        given = dataset.dataset(tmp_path, format="parquet")
    elif source == "lazy":
        given, X = frame.lazy(), frame.select(FEATURES)
    elif source == "pandas":
        given = table.to_pandas()
        X = given[FEATURES]
    elif source == "batches":
        parts = [table.slice(start, stop - start) for start, stop in cut(500, [130])]
        given, named = [(p.select(FEATURES), p["y"], p["w"]) for p in parts], {}
    else:
        return check_arrays(source, tmp_path)
    with bin_to_disk(given, tmp_path / "store", **named) as store:
        check_store(store, X, columns)
    return None


def check_arrays(source, folder):
    """Arrays and memory maps, with targets and weights beside them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)).astype(np.float32)
    columns = {"y": rng.integers(0, 3, 500), "w": rng.random(500)}
    if source == "memmap":
        np.save(folder / "x.npy", X)
        X = np.load(folder / "x.npy", mmap_mode="r")
    given = {"target": columns["y"], "weight": columns["w"]}
    with bin_to_disk(X, folder / "store", **given) as store:
        np.testing.assert_array_equal(
            store.read(), BinMapper().fit(X, columns["w"]).transform(X).columns
        )
        assert store.schema.classes.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "model",
    [
        XGBClassifier(n_estimators=4),
        RandomForestClassifier(n_estimators=3, random_state=0),
        GradientBoostingRegressor(n_estimators=4, splitter="hist"),
        CARTRegressor(splitter="hist"),
        PLGBRegressor(n_estimators=4),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_are_those_of_the_table(model, tmp_path):
    pa = pytest.importorskip("pyarrow")
    columns = make_columns(1500, 5)
    # Values that are float32, as they are stored for linear leaves.
    columns["real"] = np.array(columns["real"], dtype=np.float32)
    columns["count"] = np.array(columns["count"], dtype=np.int8)
    if hasattr(model, "predict_proba"):
        columns["y"] = ["up" if y > 0 else "down" for y in columns["y"]]
    table = pa.table(columns)
    write_parquet(table, tmp_path, [(0, 1000), (1000, 1500)], 300)
    X, rows = table.select(FEATURES), {"sample_weight": table["w"].to_numpy()}
    own = type(model)(**model.get_params()).fit(X, table["y"], **rows)
    how = {"target": "y", "weight": "w", "raw_features": True}
    with bin_to_disk(tmp_path / "*.parquet", tmp_path / "store", **how) as store:
        mine = model.fit(store)
    for method in ("predict", "predict_proba"):
        if hasattr(own, method):
            expected = getattr(own, method)(X)
            np.testing.assert_array_equal(getattr(mine, method)(X), expected)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([True, False, True], [False, True]),
        ([3, -1, 3], [-1, 3]),
        ([1.0, 2.0, 1.0], None),
        ([1.5, 2.0, 1.0], None),
    ],
)
def test_what_the_target_is(y, classes, tmp_path):
    with bin_to_disk({"x": [1.0, 2.0, 3.0]}, tmp_path / "s", target=np.array(y)) as store:
        if classes is None:
            assert store.schema.classes is None and store.y.tolist() == y
        else:
            assert store.schema.classes.tolist() == classes
            assert store.schema.classes[store.y].tolist() == y


def test_many_whole_numbers_are_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(building, "_MOST_CLASSES", 50)
    y = np.arange(60)
    with bin_to_disk(y[:, None], tmp_path / "s", target=y) as store:
        assert store.schema.classes is None and store.y.tolist() == y.tolist()


def test_progress_and_replacing(tmp_path, capsys):
    X = np.arange(10.0)[:, None]
    bin_to_disk(X, tmp_path / "s", progress=True).close()
    lines = capsys.readouterr().err.splitlines()
    assert [line[: line.index(" rows")] for line in lines[-1:]] == ["written 10 of 10"]
    with pytest.raises(FileExistsError, match="holds a store"):
        bin_to_disk(X, tmp_path / "s")
    with bin_to_disk(X[:5], tmp_path / "s", overwrite=True) as store:
        assert store.n_rows == 5 and store.y is None and store.schema.target == "none"
    assert capsys.readouterr().err == ""


X, Y = np.arange(8.0).reshape(4, 2), np.arange(4.0)


@pytest.mark.parametrize(
    ("source", "more", "kind", "message"),
    [
        ((x for x in [X]), {}, TypeError, "source is a generator"),
        ("no.parquet", {}, FileNotFoundError, "source: no such file"),
        (X, {"target": [1.0, np.nan, 1.0, 2.0]}, ValueError, "target contains NaN in row 1"),
        (X, {"target": np.array(["a", None, "b", "c"], object)}, ValueError, "target contains NaN"),
        ([(X, Y), (X, ["a"] * 4)], {}, ValueError, "target holds text in some rows and numbers"),
        (X, {"weight": np.zeros(4)}, ValueError, "weight is zero for every row"),
        (X, {"weight": [1, -1, 1, 1]}, ValueError, "weight must not be negative"),
        (X, {"categorical_features": ["a"]}, ValueError, "categorical_features names 'a'"),
        (X, {"raw_features": [2]}, ValueError, "raw_features holds the index 2"),
        ({"a": ["u"] * 4}, {"raw_features": ["a"]}, ValueError, "feature 0, which has categories"),
        (X, {"max_bins": 256}, ValueError, "max_bins must be an integer, 2 to 255"),
        (X, {"compression": "gzip"}, ValueError, "compression"),
        (X + np.inf, {}, ValueError, "contains infinity"),
        ({"d": np.array(["2024-05-31"] * 4, "datetime64[D]")}, {}, TypeError, "DateFeatures"),
    ],
)
def test_errors_leave_no_store(source, more, kind, message, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "BATCH_ROWS", 4)
    with pytest.raises(kind, match=message):
        bin_to_disk(source, tmp_path / "s", **more)
    assert not (tmp_path / "s").exists()


def test_a_source_that_breaks_off_leaves_no_store_that_can_be_read(tmp_path):
    passes = 0

    def batches():
        nonlocal passes
        passes += 1
        yield X
        if passes > 4:  # the one that writes
            raise OSError("the disk is gone")
        yield X

    with pytest.raises(OSError, match="the disk is gone"):
        bin_to_disk(batches, tmp_path / "s")
    with pytest.raises(StoreError):
        BinnedStore(tmp_path / "s")
    with bin_to_disk(X, tmp_path / "s") as store:  # a half-written one is replaced
        assert store.n_rows == 4
