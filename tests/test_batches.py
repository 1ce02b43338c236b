"""Sources of rows: each gives the rows of its table, in batches of equal length."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from batch_tables import cut, make_columns, write_parquet
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.input import batches_files
from hybridtrees.input.batches import open_batches
from hybridtrees.input.batches_learning import survey
from hybridtrees.input.validation import FeatureReader

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
dataset = pytest.importorskip("pyarrow.dataset")
parquet = pytest.importorskip("pyarrow.parquet")

SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=4)


def read_all(batches, reader):
    """Values, target and weights of all batches, and the lengths of these."""
    parts = [(reader.read(b.X), b.y, b.weight) for b in batches]
    X, y, weight = (
        None if column[0] is None else np.concatenate(column) for column in zip(*parts, strict=True)
    )
    return X, y, weight, [len(part[0]) for part in parts]


def check_source(source, table, batch_rows, *, by_name=True):
    """The batches of a source are the rows of `table`, a table of the same library in memory."""
    columns = make_columns_of(table)
    names = ["real", "count", "word"]
    features = table.select(names) if hasattr(table, "select") else table[names]
    reader, expected = FeatureReader.fit(features)
    named = {"target": "y", "weight": "w"} if by_name else {}
    batches = open_batches(source, batch_rows=batch_rows, **named)
    assert batches.names == names and batches.has_target and batches.has_weight
    found = survey(batches)
    n_rows = len(columns["y"])
    assert (found.n_rows, found.n_usable) == (n_rows, np.count_nonzero(columns["w"]))
    for mine, known in zip(found.reader.categories, reader.categories, strict=True):
        assert (mine is None) == (known is None)
        if mine is not None:
            assert mine.dtype == known.dtype and mine.tolist() == known.tolist()
    for _ in range(2):  # any number of times
        X, y, weight, sizes = read_all(batches, found.reader)
        np.testing.assert_array_equal(X, expected)
        np.testing.assert_array_equal(y, columns["y"])
        np.testing.assert_array_equal(weight, columns["w"])
        assert sizes[:-1] == [batch_rows] * (len(sizes) - 1) and 0 < sizes[-1] <= batch_rows


def make_columns_of(table):
    """Target and weights of a table of any library."""
    return {name: np.asarray(table[name]) for name in ("y", "w")}


@given(
    n_rows=st.integers(1, 150),
    seed=st.integers(0, 99),
    sizes=SIZES,
    row_group=st.integers(1, 50),
    batch_rows=st.integers(1, 80),
    coded=st.booleans(),
)
def test_parquet_files_in_any_cuts(n_rows, seed, sizes, row_group, batch_rows, coded):
    table = pa.table(make_columns(n_rows, seed))
    if coded:
        table = table.set_column(2, "word", table["word"].dictionary_encode())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_parquet(table, folder, cut(n_rows, sizes), row_group)
        files = sorted(folder.iterdir())
        # As pyarrow reads them: a dictionary has the labels in the order of the files.
        whole = pa.concat_tables([parquet.read_table(file) for file in files])
        assert whole["real"].equals(pa.chunked_array(table["real"]))
        for source in (folder, str(folder / "*.parquet"), files, tuple(map(str, files))):
            check_source(source, whole, batch_rows)
        check_source(dataset.dataset(folder), whole, batch_rows)


@given(n_rows=st.integers(1, 150), seed=st.integers(0, 99), batch_rows=st.integers(1, 80))
def test_frames_in_memory_and_lazy_frames(n_rows, seed, batch_rows):
    columns = make_columns(n_rows, seed)
    frame = pl.DataFrame(columns, schema_overrides={"word": pl.String, "real": pl.Float64})
    check_source(frame, frame, batch_rows)
    check_source(frame.lazy(), frame, batch_rows)
    check_source(frame.to_arrow(), frame.to_arrow(), batch_rows)
    for table in (frame.to_pandas(), frame.to_pandas().astype({"word": "category"})):
        check_source(table, table, batch_rows)


@given(
    n_rows=st.integers(1, 150),
    seed=st.integers(0, 99),
    sizes=SIZES,
    batch_rows=st.integers(1, 80),
    kind=st.sampled_from(["pandas", "polars", "arrow", "dict"]),
)
def test_batches_of_the_user(n_rows, seed, sizes, batch_rows, kind):
    frame = pd.DataFrame(make_columns(n_rows, seed)).astype({"real": float, "word": object})
    make = {"pandas": lambda part: part, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas,
            "dict": lambda part: {name: part[name].to_numpy() for name in part}}[kind]  # fmt: skip
    parts = [frame.iloc[start:stop] for start, stop in cut(n_rows, sizes)]
    names = ["real", "count", "word"]

    def triples():
        for part in parts:
            X = (
                pa.Table.from_pandas(part[names], preserve_index=False)
                if kind == "arrow"
                else (make(part[names]))
            )
            yield X, part["y"], part["w"].to_numpy()

    if frame["word"].isna().all() and kind in ("polars", "arrow"):
        return  # a column of no type
    if kind in ("polars", "arrow") and any(part["word"].isna().all() for part in parts):
        return
    check_source(triples, frame, batch_rows, by_name=False)
    check_source(list(triples()), frame, batch_rows, by_name=False)


def test_arrays_and_memory_maps(tmp_path):
    X = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    for source in (X, np.load(tmp_path / "x.npy", mmap_mode="r"), [X[:7], X[7:]], [(X, X[:, 3])]):
        given = {} if source is not X else {"target": -1}
        batches = open_batches(source, batch_rows=300, columns=[2, 0], **given)
        assert batches.names is None
        np.testing.assert_array_equal(np.concatenate([b.X for b in batches]), X[:, [2, 0]])
        assert [b.n_rows for b in batches] == [300, 300, 300, 100]
        if batches.has_target:
            np.testing.assert_array_equal(np.concatenate([b.y for b in batches]), X[:, 3])
    apart = open_batches(X, target=X[:, 1], weight=np.arange(1000), batch_rows=300)
    assert apart.n_rows == 1000
    np.testing.assert_array_equal(np.concatenate([b.X for b in apart]), X)
    np.testing.assert_array_equal(np.concatenate([b.y for b in apart]), X[:, 1])
    np.testing.assert_array_equal(np.concatenate([b.weight for b in apart]), np.arange(1000))


def test_large_row_groups_are_read_in_parts(tmp_path, monkeypatch):
    table = pa.table(make_columns(5000, 0))
    write_parquet(table, tmp_path, [(0, 3000), (3000, 5000)], 1500)
    monkeypatch.setattr(batches_files, "_AHEAD_BYTES", 1500 * 8 * 5 + 1000)
    few_ahead = read_all(open_batches(tmp_path, columns=["real"]), FeatureReader.fit(
        table.select(["real"]))[0])[0]  # fmt: skip
    monkeypatch.setattr(batches_files, "_AHEAD_BYTES", 100)
    monkeypatch.setattr(batches_files, "_PART_ROWS", 170)
    check_source(tmp_path, table, 400)
    np.testing.assert_array_equal(few_ahead[:, 0], table["real"].to_numpy())


def test_types_of_several_files_are_joined(tmp_path):
    for k, column in enumerate((pa.array([1, 2], pa.int16()), pa.array([0.5, None]), pa.nulls(2))):
        table = pa.table({"a": column, "b": ["x", "y"]})
        parquet.write_table(table if k else table.select(["b", "a"]), tmp_path / f"{k}.parquet")
    found = survey(open_batches(tmp_path, batch_rows=4))
    values = np.concatenate([v for v, _ in found.values()])
    assert open_batches(tmp_path).names == ["b", "a"]
    np.testing.assert_array_equal(values[:, 1], [1, 2, 0.5, np.nan, np.nan, np.nan])


def test_hostile_files(tmp_path):
    table = pa.table(make_columns(50, 0))
    good, bad = tmp_path / "a.parquet", tmp_path / "b.parquet"
    parquet.write_table(table, good)
    content = good.read_bytes()
    for damage in (content[:100], content[:-30], b"", b"PAR1", content[:-4] + b"PAR2"):
        bad.write_bytes(damage)
        with pytest.raises((ValueError, OSError), match=r"source: .*b\.parquet"):
            list(open_batches([good, bad]))
    middle = bytearray(content)
    middle[4:200] = bytes(196)
    bad.write_bytes(middle)
    with pytest.raises((ValueError, OSError), match=r"source: .*b\.parquet"):
        list(open_batches(bad))
    parquet.write_table(table.rename_columns(["real", "count", "word", "y", "v"]), bad)
    with pytest.raises(ValueError, match=r"b\.parquet has the columns real, .* v, but "):
        open_batches(tmp_path)
    bad.unlink()
    (tmp_path / "b.csv").write_text("x\n1\n")
    with pytest.raises(ValueError, match="files of both kinds"):
        open_batches(tmp_path)
    (tmp_path / "year=2024").mkdir()
    parquet.write_table(table, tmp_path / "year=2024" / "a.parquet")
    with pytest.raises(ValueError, match="partitioning"):
        open_batches(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no Parquet or CSV files"):
        open_batches(tmp_path / "empty")
    gone = open_batches(good)
    good.unlink()
    with pytest.raises((ValueError, OSError), match=r"source: .*a\.parquet"):
        list(gone)


X, Y = np.zeros((4, 2)), np.zeros(4)


@pytest.mark.parametrize(
    ("source", "more", "kind", "message"),
    [
        ((x for x in [X]), {}, TypeError, "source is a generator, which can be read only once"),
        (iter([X]), {}, TypeError, "pass an object that can be iterated over again"),
        (3, {}, TypeError, "source must be a path, .* got int"),
        ("no/such.parquet", {}, FileNotFoundError, "source: no such file"),
        ("no/such*.parquet", {}, FileNotFoundError, "source: no file matches"),
        ("s3://bucket/a.parquet", {}, ValueError, "pyarrow.dataset"),
        ([3, "a.csv"], {}, TypeError, "source must list paths only, got 3"),
        ([], {}, ValueError, "source must hold at least one batch"),
        ([np.zeros((0, 2))], {}, ValueError, "source must hold at least one batch"),
        ([(X, Y, Y, Y)], {}, ValueError, "each batch of source must be X, "),
        ([(X, Y), X], {}, ValueError, "of one kind, .* but batch 1 differs"),
        ([X, np.zeros((4, 3))], {}, ValueError, "the columns of the first, 2, but batch 1 has 3"),
        ([X, {"a": Y, "b": Y}], {}, ValueError, "the columns of the first"),
        ([(X, Y[:3])], {}, ValueError, "has 4 rows, but its target has 3 entries"),
        ([(X, Y, -1 - Y)], {}, ValueError, "rows 0 to 3: weight must not be negative"),
        ([(X, Y)], {"target": 0}, ValueError, "target must be None"),
        (X, {"target": 2}, ValueError, "target holds the index 2, but source has 2 features"),
        (X, {"target": "a"}, ValueError, "target names 'a', but the columns of source have no"),
        ({"a": Y}, {"target": "b"}, ValueError, "target names 'b', which source does not have"),
        ({"a": Y}, {"target": "a"}, ValueError, "no column left"),
        (X, {"target": 1, "weight": 1}, ValueError, "target and weight are the same column"),
        (X, {"target": 1, "columns": [1]}, ValueError, "columns holds column 1, which is the"),
        (X, {"target": Y[:2]}, ValueError, "target has 2 entries, but source has 4 rows"),
        ([X], {"target": Y[:2]}, ValueError, "target has 2 entries, but source has more rows"),
        (X, {"weight": [1, np.nan, 1, 1]}, ValueError, "Input weight contains NaN in row 1"),
        (X, {"columns": "a"}, TypeError, "columns must be a list"),
        (X, {"batch_rows": 0}, ValueError, "batch_rows must be a positive integer, got 0"),
    ],
)
def test_errors_name_what_is_wrong(source, more, kind, message):
    with pytest.raises(kind, match=message):
        list(open_batches(source, **more))


def test_a_source_that_changes_is_noticed():
    parts = [X, X]
    batches = open_batches(parts)
    assert [b.n_rows for b in batches] == [8] and batches.n_rows == 8
    parts.append(X)
    with pytest.raises(ValueError, match="it had 8 rows and has 12 now"):
        list(batches)


def test_errors_of_values_say_which_rows():
    columns = {"a": np.arange(10.0)}
    columns["a"][7] = np.inf
    found = survey(open_batches(columns, batch_rows=5))
    with pytest.raises(ValueError, match="source, rows 5 to 9: .* column 'a', row 2"):
        list(found.values())
    days = pa.table({"a": [1.0], "day": pa.array([0], pa.timestamp("s"))})
    with pytest.raises(TypeError, match=r"'day' of X has the type timestamp.*DateFeatures"):
        survey(open_batches(days))
    mixed = [{"a": np.array(["u"], dtype=object)}, {"a": np.array([1.0])}]
    with pytest.raises(ValueError, match="fitted with text as categories .* holds numbers now"):
        list(survey(open_batches(mixed, batch_rows=1)).values())
