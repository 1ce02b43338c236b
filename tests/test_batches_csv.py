"""CSV files in batches: types settled over all rows, by pyarrow and without it alike."""

from __future__ import annotations

import csv
import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from batch_tables import cut, make_columns
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees._compare.reading import read_table
from hybridtrees.input import batches_csv
from hybridtrees.input.batches import open_batches
from hybridtrees.input.batches_learning import survey
from hybridtrees.input.texts import MISSING, MISSING_NUMBERS
from hybridtrees.input.validation import FeatureReader

READERS = ["csv", "pyarrow"]


def use_reader(monkeypatch, reader: str) -> None:
    """Read by pyarrow, or as if it were not installed."""
    if reader == "pyarrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setattr(batches_csv, "find_spec", lambda name: None)


def values_of(source, batch_rows=7, **more):
    """Values of all rows, and the reader that has learned the features."""
    found = survey(open_batches(source, batch_rows=batch_rows, **more))
    return np.concatenate([values for values, _ in found.values()]), found.reader


@given(
    n_rows=st.integers(1, 120),
    seed=st.integers(0, 99),
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    batch_rows=st.integers(1, 50),
    reader=st.sampled_from(READERS),
)
def test_files_in_any_cuts_give_what_one_file_gives(n_rows, seed, sizes, batch_rows, reader):
    columns = make_columns(n_rows, seed)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        use_reader(patch, reader)
        patch.setattr(batches_csv, "_BLOCK_ROWS", 13)
        paths = [Path(name) / f"{k:03}.csv" for k in range(len(cut(n_rows, sizes)))]
        for path, (start, stop) in zip(paths, cut(n_rows, sizes), strict=True):
            part = {name: values[start:stop] for name, values in columns.items()}
            with path.open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(part)
                writer.writerows(zip(*part.values(), strict=True))
        batches = open_batches(paths, target="y", weight="w", batch_rows=batch_rows)
        assert batches.n_rows == n_rows and batches.names == ["real", "count", "word"]
        found = survey(batches)
        X = np.concatenate([values for values, _ in found.values()])
        np.testing.assert_array_equal(np.concatenate([b.y for b in batches]), columns["y"])
    known = {
        "real": np.array(columns["real"], dtype=float),
        "count": np.array(columns["count"], dtype=float),
        "word": np.array(columns["word"], dtype=object),
    }
    if all(word in (None, "-") for word in columns["word"]):
        known["word"] = np.full(n_rows, np.nan)  # a mark that columns of numbers have
    expected_reader, expected = FeatureReader.fit(known)
    np.testing.assert_array_equal(X, expected)
    for mine, own in zip(found.reader.categories, expected_reader.categories, strict=True):
        assert (mine is None) == (own is None)
        assert mine is None or mine.tolist() == own.tolist()


NUMBERS = ["1", " 2 ", "+3", "-4e-1", ".5", "6.", *sorted(MISSING_NUMBERS)]
TEXTS = ["a", " b ", "1", "true", *sorted(MISSING)]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_cells_mean_what_they_mean_when_the_whole_file_is_read(
    reader, delimiter, tmp_path, monkeypatch
):
    use_reader(monkeypatch, reader)
    rng = np.random.default_rng(0)
    rows = [
        [rng.choice(NUMBERS), rng.choice(NUMBERS[:4]), rng.choice(TEXTS), "2024-05-31"]
        for _ in range(300)
    ]
    path = tmp_path / "table.csv"
    text = "\n".join(delimiter.join(row) for row in [["loose", "plain", "text", "day"], *rows])
    path.write_text(text + "\n\n", encoding="utf-8-sig")
    packed = tmp_path / "table.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    known = read_table(path)
    for source in (path, packed):
        parts = [b.X for b in open_batches(source, batch_rows=70)]
        for name in ("loose", "plain", "text"):
            joined = np.concatenate([np.asarray(part[name]) for part in parts])
            np.testing.assert_array_equal(joined, known[name])
        days = np.concatenate([np.asarray(part["day"]) for part in parts])
        np.testing.assert_array_equal(days, known["day"])
    with pytest.raises(TypeError, match="column 'day' of X has the type .*DateFeatures"):
        survey(open_batches(path))


@pytest.mark.parametrize("reader", READERS)
def test_a_late_text_makes_the_column_text(reader, tmp_path, monkeypatch):
    use_reader(monkeypatch, reader)
    monkeypatch.setattr(batches_csv, "_BLOCK_ROWS", 10)
    path = tmp_path / "late.csv"
    cells = [str(k % 3) for k in range(99)] + ["x"]
    path.write_text("a,b\n" + "".join(f"{cell},{k}\n" for k, cell in enumerate(cells)))
    X, learned = values_of(path)
    assert learned.categories[0].tolist() == ["0", "1", "2", "x"] and X[-1].tolist() == [3, 99]
    # Text by the user's wish, in a file of numbers alone.
    path.write_text("a,b\n1,2\n03,4\n")
    X, learned = values_of(path, text=["a"])
    assert learned.categories[0].tolist() == ["03", "1"] and X[:, 1].tolist() == [2, 4]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a;b\n1,5;2\n2,5;3\n", "column 'a' holds numbers such as '1,5'"),
        ('a,b\n"1,234",2\n"2,000",3\n', "column 'a' holds numbers such as '1,234'"),
        ("a,b\n1,2\n3\n", "cannot be read as CSV"),
        ("a,b\n1,2\n3,4,5\n", "cannot be read as CSV"),
        ("a,a\n1,2\n", "names several columns alike: a"),
        ("a,b\n", "holds no rows"),
        ("\n\n", "has no line of column names"),
        ("PK\x03\x04", "a zip or Excel file"),
        ("a\0,b\n1,2\n", "it is no text"),
        ("a,b\n1,\udcff\n", "cannot be read as CSV"),
    ],
)
def test_hostile_files(reader, content, message, tmp_path, monkeypatch):
    use_reader(monkeypatch, reader)
    path = tmp_path / "bad.csv"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=rf"source.*{message}"):
        list(open_batches(path))


def test_truncated_and_differing_files(tmp_path):
    packed = tmp_path / "a.csv.gz"
    rows = "".join(f"{k},{k * 7919 % 1000}\n" for k in range(20_000))
    packed.write_bytes(gzip.compress(("a,b\n" + rows).encode())[:-2000])
    with pytest.raises((ValueError, OSError), match="cannot be read as CSV"):
        list(open_batches(packed))
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,c\n1,2\n")
    packed.unlink()
    with pytest.raises(ValueError, match=r"b\.csv has the columns a, c, but .*a\.csv has a, b"):
        open_batches(tmp_path)
