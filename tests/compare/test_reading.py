"""Tables from CSV and Parquet files."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest

from hybridtrees import CARTRegressor, LogisticClassifier
from hybridtrees._compare import reading
from hybridtrees._compare.files import load_file, predict_file
from hybridtrees._compare.reading import read_table
from hybridtrees._table_files import write_csv


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
    # In the code page of Windows an ellipsis is a byte that other codes take for a line end.
    old = read_table(write(tmp_path, "x,y\nand so on\u2026,2\n", encoding="cp1252"))
    assert old["x"].tolist() == ["and so on\u2026"]
    wide = read_table(write(tmp_path, "x,y\nn\u00e4h,2\n", encoding="utf-16"))
    assert wide["x"].tolist() == ["n\u00e4h"] and wide["y"].tolist() == [2.0]


def test_headers_of_all_kinds(tmp_path):
    table = read_table(write(tmp_path, '"a, b, c";"two\nlines";d\n1;2;3\n'))
    assert list(table) == ["a, b, c", "two\nlines", "d"]
    # Other programs write row numbers without a name.
    assert list(read_table(write(tmp_path, ",a\n0,5\n1,6\n"))) == ["column_1", "a"]
    assert read_table(write(tmp_path, "a,b\r1,2\r3,4\r"))["b"].tolist() == [2.0, 4.0]


class CountedName(str):
    """A column name that counts how often it is compared with another."""

    comparisons = 0

    def __eq__(self, other):
        CountedName.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__

    def strip(self):
        return self


def test_the_work_on_column_names_grows_in_proportion(tmp_path, monkeypatch):
    names = [f"c{number}" for number in range(300)]
    path = write(tmp_path, ",".join(names) + "\n" + ",".join(["1.5"] * 300) + "\n")
    monkeypatch.setattr(reading, "_cells_of", lambda *_: iter([list(map(CountedName, names))]))
    monkeypatch.setattr(CountedName, "comparisons", 0)
    assert list(read_table(path)) == names
    assert CountedName.comparisons <= 10 * len(names)  # each with each would be 90,000


def test_decimal_commas_where_the_comma_divides_nothing(tmp_path):
    table = read_table(write(tmp_path, "x;y;z\n1,5;2;a\n-,25;NA;1,5\n;-3e2;\n"))
    np.testing.assert_array_equal(table["x"], [1.5, -0.25, np.nan])
    np.testing.assert_array_equal(table["y"], [2, np.nan, -300])
    assert table["z"].tolist() == ["a", "1,5", None]
    # In a file with commas between the cells they may set thousands apart.
    notes = {}
    table = read_table(write(tmp_path, 'x,y\n"1,500",2\n"2,250",3\n'), notes=notes)
    assert table["x"].tolist() == [1500.0, 2250.0]
    assert notes == {"x": "is read as numbers, '1,500' as 1500 (--decimal , reads 1.5)"}
    table = read_table(write(tmp_path, 'x,y\n"1,500",2\n"2,250",3\n'), decimal=",")
    assert table["x"].tolist() == [1.5, 2.25]
    # Also where NumPy would read the whole file.
    assert read_table(write(tmp_path, "x\n1.500\n"), decimal=",")["x"].tolist() == [1500.0]


def test_dates_are_dates(tmp_path):
    text = "a,b,c\n2024-05-31,2024/01/02 10:30,2024-02-30\n,2024/01/03 11:00:05.5,2024-02-28\n"
    table = read_table(write(tmp_path, text))
    np.testing.assert_array_equal(table["a"], np.array(["2024-05-31", "NaT"], "datetime64[us]"))
    assert table["b"][1] == np.datetime64("2024-01-03T11:00:05.5")
    assert table["c"].tolist() == ["2024-02-30", "2024-02-28"]
    spelled = read_table(write(tmp_path, text), text=["a"])["a"]
    assert spelled.tolist() == ["2024-05-31", None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n", "holds no rows"),
        ("", "has no line of column names"),
        ("x,x\n1,2\n", "names several columns alike: x"),
        ("x,y\n1,2\n3\n", "row 3 has 1 values"),
        ("x,y\n1,2,3\n", "2 column names, but 3 values"),
        ("PK\x03\x04 and so on", "is a zip or Excel file; it must be a CSV or Parquet file"),
        ('{"x": [1, 2], "y": [3, 4]}', "is JSON; it must be a CSV or Parquet file"),
        ('\n[\n {"x": 1, "y": 3}]', "is JSON; it must be a CSV or Parquet file"),
        ("x,y\n1,\0\n", "is no text; it must be a CSV or Parquet file"),
        ('x,y\n"a' + "b" * 200_000 + '",1\n', "is no CSV file: field larger"),
    ],
)
def test_broken_files(text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_table(write(tmp_path, text))


@pytest.mark.parametrize("name", ["table.json", "table.JSONL", "table.ndjson"])
def test_json_is_not_read(name, tmp_path):
    with pytest.raises(ValueError, match="is a JSON file; it must be a CSV or Parquet file"):
        read_table(write(tmp_path, "[1, 2]\n[3, 4]\n", name))


def test_broken_parquet_files_are_named(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="table.parquet cannot be read as Parquet: "):
        read_table(write(tmp_path, "x,y\n1,2\n", "table.parquet"))


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="the system has no names of streams")
def test_pipes_are_read_from_their_start():
    reader, writer = os.pipe()
    try:
        with open(writer, "w") as stream:
            stream.write("first,second\n1,2\n")
        assert list(read_table(f"/dev/fd/{reader}")) == ["first", "second"]
    finally:
        os.close(reader)


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
        monkeypatch.setattr(reading, "_read_parquet", reading._read_parquet_by_pandas)
    table = read_table(path)
    np.testing.assert_array_equal(table["i"], [1, np.nan, 3])
    assert table["b"].tolist() == ["True", "False", None]
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
    made = ["day_day", "day_weekday", "day_day_of_year", "day_elapsed"]
    assert data.feature_names == ["x", *made] and np.argmin(data.time) == 29
    assert data.notes[0].startswith("'day' holds dates, whose features are day, weekday")
    other = load_file(write(tmp_path, "day,x,y\n" + text), "y", time="x")
    assert other.feature_names == ["x", *made]
    with pytest.raises(ValueError, match="the target 'day' holds dates"):
        load_file(write(tmp_path, "day,x,y\n" + text), "day")


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


def predicted(model, path):
    """Return the predictions of a file that has one part."""
    [columns] = predict_file(model, path)
    return columns["prediction"]


def test_predictions_of_a_file(tmp_path):
    X = {"kind": np.array(["1", "b"] * 10, dtype=object), "x": np.arange(20.0)}
    labels = np.array(["no", "yes"], dtype=object)[(X["x"] > 9).astype(int)]
    model = LogisticClassifier().fit(X, labels)
    # The label 1 alone looks like a number; the model knows better. Columns may be in any order.
    path = write(tmp_path, "other,x,kind\nq,3,1\nr,15,1\n")
    [columns] = predict_file(model, path)
    expected = {"kind": np.array(["1", "1"], dtype=object), "x": np.array([3.0, 15.0])}
    assert columns["prediction"].tolist() == model.predict(expected).tolist() == ["no", "yes"]
    np.testing.assert_array_equal(columns["probability_yes"], model.predict_proba(expected)[:, 1])
    with pytest.raises(ValueError, match="lacks columns that the model needs: x"):
        predicted(model, write(tmp_path, "kind\nb\n"))
    with pytest.raises(ValueError, match="column 'x' held numbers in fit and holds 'q' now"):
        predicted(model, write(tmp_path, "kind,x\nb,q\n"))


@pytest.mark.parametrize("by_model", ["file", "numbers", "text"])
def test_truth_values_are_the_same_in_every_file(by_model, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    truth, target = np.arange(40) % 2 == 0, np.arange(40) % 2 + np.arange(40) / 100
    other = np.arange(40) % 5
    parquet.write_table(pa.table({"t": truth, "x": other, "y": target}), tmp_path / "t.parquet")
    rows = zip(truth, other, target, strict=True)
    written = write(tmp_path, "t,x,y\n" + "".join(f"{t},{x},{y}\n" for t, x, y in rows))
    upper = write(tmp_path, written.read_text().replace("True", "TRUE"), "upper.csv")
    if by_model == "file":
        tables = [load_file(path, "y").columns.table for path in (written, tmp_path / "t.parquet")]
        for name in ("t", "x"):
            np.testing.assert_array_equal(tables[0][name], tables[1][name])
        np.testing.assert_array_equal(tables[0]["t"], truth)
        known = tables[0]
    else:
        column = truth if by_model == "numbers" else truth.astype(str).astype(object)
        known = {"t": column, "x": other.astype(float)}
    model = CARTRegressor(max_depth=3).fit(known, target)
    expected = model.predict(known)
    paths = [written, tmp_path / "t.parquet", *([] if by_model == "text" else [upper])]
    for path in paths:
        np.testing.assert_array_equal(predicted(model, path), expected)


def test_truth_as_a_target_keeps_its_spelling(tmp_path):
    path = write(tmp_path, "x,y\n" + "".join(f"{i},{i > 9}\n" for i in range(20)))
    data = load_file(path, "y")
    assert data.task == "classification" and data.classes.tolist() == ["False", "True"]


def test_notes_about_numbers_of_rows_and_guessed_classes(tmp_path):
    rows = "".join(f"{i},{7 * i % 101},{i % 3},{i % 4}\n" for i in range(40))
    path = write(tmp_path, "n,customer_id,x,y\n" + rows)
    notes = load_file(path, "y").notes
    assert [note.split()[0] for note in notes] == ["'y'", "'n'", "'customer_id'"]
    assert "4 different whole numbers" in notes[0] and "numbers the rows" in notes[1]
    assert len(load_file(path, "y", task="regression", time="n").notes) == 1


def test_numbers_of_rows_are_noted_though_rows_are_left_out(tmp_path):
    rows = "".join(f"{i},{i % 3},{'' if i % 5 == 0 else i % 7 / 2}\n" for i in range(40))
    notes = load_file(write(tmp_path, "n,x,y\n" + rows), "y").notes
    assert notes[0] == "8 rows without a value of 'y' are left out"
    assert notes[1].startswith("'n' numbers the rows")


def test_numbers_as_people_write_them_reach_the_comparison(tmp_path):
    rows = "".join(f'{i % 3},"${1000 + 7 * i:,.2f}",{i} %,t{i % 4}\n' for i in range(40))
    path = write(tmp_path, "x,price,share,kind\n" + rows)
    data = load_file(path, "price", drop=["kind"])
    assert data.task == "regression" and data.target[:3].tolist() == [1000.0, 1007.0, 1014.0]
    assert data.columns.table["share"].tolist()[:3] == [0.0, 1.0, 2.0]
    assert data.notes[:2] == [
        "'price' is read as numbers, '$1,000.00' as 1000",
        "'share' is read as numbers, '0 %' as 0",
    ]


def test_dates_of_a_file_are_predicted(tmp_path):
    days = [f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(60)]
    rows = "".join(f"{d},{i % 5},{1 + i % 12}\n" for i, d in enumerate(days))
    path = write(tmp_path, "day,x,y\n" + rows)
    data = load_file(path, "y", task="regression")
    model = data.on_raw_tables(CARTRegressor().fit(data.columns.table, data.target))
    np.testing.assert_array_equal(predicted(model, path), data.target)
    one = write(tmp_path, "x,day\n3,2024-06-06\n")
    assert predicted(model, one).tolist() == [6.0]
    with pytest.raises(ValueError, match="'day' of X must hold dates .*got 'June'"):
        predicted(model, write(tmp_path, "x,day\n3,June\n"))


def test_models_without_names_count_columns(tmp_path):
    model = CARTRegressor().fit(np.arange(10.0)[:, None], np.arange(10.0))
    assert predicted(model, write(tmp_path, "a\n3\n")).tolist() == [3.0]
    with pytest.raises(ValueError, match="1 features without names, but .* has 2 columns"):
        predicted(model, write(tmp_path, "a,b\n3,4\n"))


def test_written_files_are_read_again(tmp_path):
    columns = {"a, b": ["x", 'say "no"'], "c": [0.1, 2.0]}
    write_csv(tmp_path / "out.csv", columns)
    table = read_table(tmp_path / "out.csv")
    assert {name: column.tolist() for name, column in table.items()} == columns
