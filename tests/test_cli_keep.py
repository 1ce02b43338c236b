"""Columns that ``hybridtrees predict`` keeps."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import hybridtrees
from hybridtrees import cli
from hybridtrees._compare.reading import read_table
from hybridtrees._table_files import cells_to_write


@pytest.fixture
def model(tmp_path):
    """A saved model of the features id and x."""
    x = np.arange(6.0)
    path = tmp_path / "model.htree"
    hybridtrees.CARTRegressor().fit({"id": x, "x": x}, x).save(path)
    return path


def read_arrow(path):
    """Return a Parquet file as an Arrow table."""
    from pyarrow import parquet

    return parquet.read_table(path)


@pytest.mark.parametrize("output", ["csv", "parquet"])
def test_columns_are_kept_beside_the_predictions(output, tmp_path, model, capsys):
    path, out = tmp_path / "named.csv", tmp_path / f"out.{output}"
    x = [f"{k}.50" for k in range(6)]
    path.write_text("\n".join(["id,x,y", *(f"{k:04d},{x[k]},0" for k in range(6))]))
    if output == "parquet":
        pytest.importorskip("pyarrow")
    command = ["predict", str(model), str(path), "-o", str(out), "--keep"]
    assert cli.main([*command, "y", "x"]) == 0
    table = read_table(out, text=["y", "x"])
    assert list(table) == ["y", "x", "prediction"]
    assert table["y"].tolist() == ["0"] * 6 and table["x"].tolist() == x
    expected = hybridtrees.load(model).predict({"id": np.arange(6.0), "x": np.arange(6) + 0.5})
    np.testing.assert_allclose(table["prediction"], expected, rtol=1e-6)
    assert cli.main([*command, "name"]) == 1
    assert "no column 'name' for --keep; the columns are id, x, y" in capsys.readouterr().err
    path.write_text(path.read_text().replace("y", "prediction", 1))
    assert cli.main([*command, "prediction"]) == 1
    assert "--keep cannot keep 'prediction'" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["csv", "parquet"])
def test_features_are_kept_as_they_are_written(output, tmp_path, model):
    if output == "parquet":
        pytest.importorskip("pyarrow")
    ids = ["00123", " 7", "1,250.50", "1.23456789012345678", "NA", ""]
    rows = [f'"{cell}",{k}' for k, cell in enumerate(ids)]
    (tmp_path / "data.csv").write_text("\n".join(["id,x", *rows]))
    out = tmp_path / f"out.{output}"
    paths = [str(model), str(tmp_path / "data.csv"), "-o", str(out)]
    assert cli.main(["predict", *paths, "--keep", "id"]) == 0
    if output == "csv":
        with open(out, newline="") as file:
            assert [row["id"] for row in csv.DictReader(file)] == ids
    else:
        assert read_arrow(out)["id"].to_pylist() == ids


def test_columns_of_parquet_are_kept_exactly(tmp_path, model, capsys):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    day, hour = 1_717_113_600_000_000_000, 3_600_000_000_000
    kept = {
        "id": pa.array([2**53 + 1, None, 2**62 + 1]),
        "part": pa.array([0.1, 1 / 3, 1e15 + 0.5]),
        "single": pa.array([0.1, 0.2, None], pa.float32()),
        "when": pa.array([day, day + hour, day + 1], pa.timestamp("ns")),
        "label": pa.array(["a", None, "b"]).dictionary_encode(),
        "some": pa.array([[1], [2, 3], None]),
    }
    parquet.write_table(pa.table({**kept, "x": [1.0, 2.0, 3.0]}), tmp_path / "data.parquet")
    paths = [str(model), str(tmp_path / "data.parquet")]
    out = tmp_path / "out.parquet"
    assert cli.main(["predict", *paths, "-o", str(out), "--keep", *kept]) == 0
    assert read_arrow(out).select(list(kept)).equals(pa.table(kept))
    capsys.readouterr()
    assert cli.main(["predict", *paths, "--keep", *kept]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["id"] for row in rows] == [str(2**53 + 1), "", str(2**62 + 1)]
    assert [float(row["part"]) for row in rows] == [0.1, 1 / 3, 1e15 + 0.5]
    assert [row["single"] for row in rows] == ["0.1", "0.2", ""]
    whens = ["2024-05-31", "2024-05-31 01:00:00", "2024-05-31 00:00:00.000000001"]
    assert [row["when"] for row in rows] == whens
    assert [row["label"] for row in rows] == ["a", "", "b"]
    assert [row["some"] for row in rows] == ["[1]", "[2, 3]", ""]


def test_pandas_keeps_columns_exactly_too():
    pd = pytest.importorskip("pandas")
    column = pd.Series([2**53 + 1, None, 2**62 + 1], dtype="Int64")
    assert cells_to_write(column) == [2**53 + 1, None, 2**62 + 1]


def test_models_without_names_keep_columns(tmp_path, capsys):
    path = tmp_path / "model.htree"
    hybridtrees.CARTRegressor().fit(np.arange(10.0)[:, None], np.arange(10.0)).save(path)
    (tmp_path / "data.csv").write_text("key,x\nu,3\nv,5\n")
    assert cli.main(["predict", str(path), str(tmp_path / "data.csv"), "--keep", "key"]) == 0
    assert capsys.readouterr().out == "key,prediction\nu,3\nv,5\n"
