"""Tables from CSV and Parquet files."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from hybridtrees import CARTRegressor, LogisticClassifier
from hybridtrees._compare.files import load_file, predict_file
from hybridtrees._compare.reading import read_table, write_csv


def write(tmp_path, text, name="table.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def test_numbers_text_and_what_is_missing(tmp_path):
    path = write(
        tmp_path,
        'a,b,"c, d",e,f\n1,x,"say ""yes""",NA,True\n,NA,"two\nlines",?,False\n 3 ,?,z,7,True\n',
    )
    table = read_table(path)
    assert list(table) == ["a", "b", "c, d", "e", "f"]
    np.testing.assert_array_equal(table["a"], [1, np.nan, 3])
    assert table["b"].tolist() == ["x", None, "?"]
    assert table["c, d"].tolist() == ['say "yes"', "two\nlines", "z"]
    np.testing.assert_array_equal(table["e"], [np.nan, np.nan, 7])
    assert table["f"].tolist() == ["True", "False", "True"]
    assert read_table(path, text=["a"])["a"].tolist() == ["1", None, "3"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_and_line_ends(delimiter, end, tmp_path):
    lines = [delimiter.join(row) for row in (("x", "y"), ("1.5", "2"), ("-1e3", "0"))]
    for more in ("", end):
        table = read_table(write(tmp_path, end.join(lines) + more))
        np.testing.assert_array_equal(table["x"], [1.5, -1000])
        np.testing.assert_array_equal(table["y"], [2, 0])
    lines.append(delimiter.join(("word", "1")))
    assert read_table(write(tmp_path, end.join(lines)))["x"].tolist() == ["1.5", "-1e3", "word"]


def test_packed_marked_and_old_encodings(tmp_path):
    packed = tmp_path / "table.csv.gz"
    packed.write_bytes(gzip.compress(b"x,y\n1,2\n"))
    assert read_table(packed)["y"].tolist() == [2.0]
    assert list(read_table(write(tmp_path, "\ufeffx,y\n1,2\n"))) == ["x", "y"]
    old = read_table(write(tmp_path, "x,y\nn\u00e4h,2\n", encoding="latin-1"))
    assert old["x"].tolist() == ["n\u00e4h"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n", "holds no rows"),
        ("", "has no line of column names"),
        ("x,x\n1,2\n", "names several columns alike: x"),
        ("x,y\n1,2\n3\n", "row 3 has 1 values"),
        ("x,y\n1,2,3\n", "2 column names, but 3 values"),
    ],
)
def test_broken_files(text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_table(write(tmp_path, text))


def test_missing_files_name_their_neighbours(tmp_path):
    write(tmp_path, "x\n1\n", "prices.csv")
    with pytest.raises(FileNotFoundError, match="no such file: .*price.csv; there are prices.csv"):
        read_table(tmp_path / "price.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_table(tmp_path)


def parquet_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {
            "i": pa.array([1, None, 3]),
            "b": pa.array([True, False, None]),
            "t": pa.array(["a", None, "b"]),
            "d": pa.array(["u", "v", "u"]).dictionary_encode(),
            "w": pa.array(np.array(["2024-01-01", "2024-01-03", "2024-01-02"], "datetime64[us]")),
            "y": [1.0, 2.0, 3.0],
        }
    )
    parquet.write_table(table, tmp_path / "table.parquet")
    return tmp_path / "table.parquet"


@pytest.mark.parametrize("by_pandas", [False, True])
def test_parquet(by_pandas, tmp_path, monkeypatch):
    path = parquet_file(tmp_path)
    if by_pandas:
        pytest.importorskip("pandas")
        from hybridtrees._compare import reading

        monkeypatch.setattr(reading, "_read_parquet", reading._read_parquet_by_pandas)
    table = read_table(path)
    np.testing.assert_array_equal(table["i"], [1, np.nan, 3])
    assert table["b"][0] == 1.0 or table["b"].tolist()[:2] == ["True", "False"]
    assert table["t"].tolist() == ["a", None, "b"] and table["d"].tolist() == ["u", "v", "u"]
    assert table["w"].dtype.kind == "M"


def test_columns_that_cannot_be_used_are_left_out(tmp_path):
    rows = [f"name{i},{i % 7},c{i % 3},,{i}\n" for i in range(80)]
    path = write(tmp_path, "id,x,kind,empty,y\n" + "".join(rows))
    data = load_file(path, "y", drop=["x"])
    assert data.feature_names == ["kind", "empty"] and data.task == "regression"
    assert any("'id' is left out: 80 different texts" in note for note in data.notes)
    assert data.categorical == [0]


def test_rows_without_a_target_are_left_out(tmp_path):
    path = write(tmp_path, "x,y\n" + "".join(f"{i},{i % 2 if i else ''}\n" for i in range(30)))
    data = load_file(path, "y")
    assert data.shape == (29, 1) and data.classes.tolist() == [0, 1]
    assert any("1 rows without a value of 'y'" in note for note in data.notes)
    with pytest.raises(ValueError, match="no value in any row"):
        load_file(write(tmp_path, "x,y\n1,\n2,\n"), "y")


def test_time_by_dates(tmp_path):
    days = [f"2024-01-{day:02d}" for day in range(1, 31)]
    text = "".join(f"{d},{i},{i * 1.5}\n" for i, d in reversed(list(enumerate(days))))
    data = load_file(write(tmp_path, "day,x,y\n" + text), "y", time="day")
    assert data.feature_names == ["x"] and np.argmin(data.time) == 29
    kept = load_file(write(tmp_path, "day,x,y\n" + text), "y", time="x")
    assert kept.feature_names == ["day", "x"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"target": "z"}, "no column 'z' for the target; the columns are x, y"),
        ({"target": "y", "time": "t"}, "no column 't' for --time"),
        ({"target": "y", "drop": ["t"]}, "no column 't' for --drop"),
        ({"target": "y", "drop": ["y"]}, "both the target and dropped"),
        ({"target": "y", "time": "y"}, "both the target and the time"),
        ({"target": "y", "drop": ["x"]}, "no column left"),
    ],
)
def test_columns_must_be_there(more, message, tmp_path):
    path = write(tmp_path, "x,y\n1,2\n3,4\n")
    with pytest.raises(ValueError, match=message):
        load_file(path, **more)


def test_predictions_of_a_file(tmp_path):
    X = {"kind": np.array(["1", "b"] * 10, dtype=object), "x": np.arange(20.0)}
    labels = np.array(["no", "yes"], dtype=object)[(X["x"] > 9).astype(int)]
    model = LogisticClassifier().fit(X, labels)
    # The label 1 alone looks like a number; the model knows better. Columns may be in any order.
    path = write(tmp_path, "other,x,kind\nq,3,1\nr,15,1\n")
    columns = predict_file(model, path)
    expected = {"kind": np.array(["1", "1"], dtype=object), "x": np.array([3.0, 15.0])}
    assert columns["prediction"].tolist() == model.predict(expected).tolist() == ["no", "yes"]
    np.testing.assert_array_equal(columns["probability_yes"], model.predict_proba(expected)[:, 1])
    with pytest.raises(ValueError, match="lacks columns that the model needs: x"):
        predict_file(model, write(tmp_path, "kind\nb\n"))
    with pytest.raises(ValueError, match="column 'x' held numbers in fit and holds 'q' now"):
        predict_file(model, write(tmp_path, "kind,x\nb,q\n"))


def test_models_without_names_count_columns(tmp_path):
    model = CARTRegressor().fit(np.arange(10.0)[:, None], np.arange(10.0))
    assert predict_file(model, write(tmp_path, "a\n3\n"))["prediction"].tolist() == [3.0]
    with pytest.raises(ValueError, match="1 features without names, but .* has 2 columns"):
        predict_file(model, write(tmp_path, "a,b\n3,4\n"))


def test_written_files_are_read_again(tmp_path):
    columns = {"a, b": ["x", 'say "no"'], "c": [0.1, 2.0]}
    write_csv(tmp_path / "out.csv", columns)
    table = read_table(tmp_path / "out.csv")
    assert {name: column.tolist() for name, column in table.items()} == columns
