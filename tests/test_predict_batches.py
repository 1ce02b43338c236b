"""Predictions batch by batch: those of the whole table, by every estimator, to every output."""

from __future__ import annotations

import csv
import inspect

import numpy as np
import pytest
from batch_tables import make_columns, write_parquet
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridtrees
from hybridtrees import cli, predict_batches

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3)).astype(np.float32)
X[rng.random(X.shape) < 0.1] = np.nan
Y = np.nan_to_num(X[:, 0]) + 2 * (np.nan_to_num(X[:, 1]) > 0) + rng.normal(size=120) / 10
CLASSES = {name: getattr(hybridtrees, name) for name in sorted(hybridtrees.__all__)}
MODELS = [name for name, c in CLASSES.items() if inspect.isclass(c) and hasattr(c, "predict")]
# Products of BLAS, whose last bits depend on the number of rows.
REGRESSIONS = ("Auto", "EBLR", "LinearRegressor", "Logistic", "Mixture", "RERF")
FEW = {"n_estimators": 5, "max_iter": 20, "time_limit": 1}


def fitted(name, table, target):
    """Return a model of a class, fitted in little time."""
    kind = CLASSES[name]
    known = kind().get_params()
    few = {key: value for key, value in FEW.items() if key in known}
    if name.startswith(("Voting", "Stacking", "ModelAverage", "Mixture", "Bagging", "Pasting")):
        few.pop("n_estimators", None)
    if name.startswith(("Voting", "Stacking", "ModelAverage")):
        tree = "CARTClassifier" if name.endswith("Classifier") else "CARTRegressor"
        few["estimators"] = [(k, CLASSES[tree](max_depth=2)) for k in "ab"]
    return kind(**few).fit(table, target)


@pytest.mark.parametrize("name", MODELS)
def test_every_estimator(name):
    target = (Y > 1).astype(int) if name.endswith("Classifier") else Y
    model = fitted(name, X, target)
    for method in ("predict", "predict_proba"):
        if hasattr(model, method):
            expected = getattr(model, method)(X)
            found = predict_batches(model, X, method=method, batch_rows=50)
            if name.startswith(REGRESSIONS) and expected.dtype.kind == "f":
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
            else:
                np.testing.assert_array_equal(found, expected)


@pytest.fixture(scope="module")
def words():
    """A table with texts as an Arrow table, and models of it."""
    pa = pytest.importorskip("pyarrow")
    table = pa.table(make_columns(500, 1))
    features = table.select(["real", "count", "word"])
    label = np.where(np.asarray(table["y"]) > 0, "up", "down")
    regressor = hybridtrees.PLGBRegressor(n_estimators=5, min_samples_leaf=20)
    classifier = hybridtrees.XGBClassifier(n_estimators=3)
    return table, regressor.fit(features, table["y"]), classifier.fit(features, label)


@settings(max_examples=10)
@given(
    batch_rows=st.integers(1, 600),
    row_group=st.integers(1, 300),
    cut=st.integers(1, 499),
    ending=st.sampled_from(["csv", "parquet"]),
    keep=st.sampled_from([[], ["y"], ["y", "word"]]),
)
def test_files_to_files(batch_rows, row_group, cut, ending, keep, words, tmp_path_factory):
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    table, regressor, classifier = words
    folder, out = tmp_path_factory.mktemp("in"), tmp_path_factory.mktemp("out") / f"out.{ending}"
    features = table.select(["real", "count", "word"])
    # Columns in another order, and some that no model knows.
    write_parquet(table.select(["w", "word", "y", "real", "count"]), folder,
                  [(0, cut), (cut, 500)], row_group)  # fmt: skip
    for model, method, names in (
        (regressor, "predict", ["prediction"]),
        (classifier, "predict", ["prediction"]),
        (classifier, "predict_proba", ["probability_down", "probability_up"]),
    ):
        given = {"method": method, "batch_rows": batch_rows}
        expected = getattr(model, method)(features)
        np.testing.assert_array_equal(predict_batches(model, folder, **given), expected)
        assert predict_batches(model, folder, out, keep=keep, **given) is None
        read = parquet.read_table if ending == "parquet" else arrow_csv.read_csv
        found = read(out)
        assert found.column_names == keep + names
        columns = np.column_stack([np.asarray(found[name]) for name in names])
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(columns, expected.reshape(columns.shape), rtol=1e-6)
            if ending == "parquet":
                np.testing.assert_array_equal(columns, expected.reshape(columns.shape))
        else:
            assert columns.ravel().tolist() == expected.tolist()
        for name in keep:
            assert found[name].to_pylist() == table[name].to_pylist() or ending == "csv"


def test_csv_in_the_types_of_the_model(tmp_path, words):
    path, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    path.write_text("word,count,real,id\n-,1,NA,7\n-,2,0.5,8\n")  # a text that also means missing
    _, regressor, _ = words
    known = {"real": [np.nan, 0.5], "count": [1.0, 2.0], "word": ["-", "-"]}
    expected = regressor.predict(known)
    np.testing.assert_array_equal(predict_batches(regressor, path), expected)
    predict_batches(regressor, path, out, keep=["id"], batch_rows=1)
    rows = list(csv.reader(out.open()))
    assert rows[0] == ["id", "prediction"] and [float(row[0]) for row in rows[1:]] == [7, 8]


def test_outputs_in_memory(tmp_path):
    model = hybridtrees.CARTRegressor().fit(X, Y)
    expected = model.predict(X)
    out = np.lib.format.open_memmap(tmp_path / "y.npy", "w+", np.float32, (120,))
    assert predict_batches(model, X, out, batch_rows=50) is out
    np.testing.assert_array_equal(out, expected.astype(np.float32))
    # Batches whose number of rows is not known.
    parts = [X[:70], X[70:]]
    np.testing.assert_array_equal(predict_batches(model, parts, batch_rows=33), expected)
    into = np.empty(120)
    assert predict_batches(model, lambda: iter(parts), into, batch_rows=33) is into
    np.testing.assert_array_equal(into, expected)


def test_the_command_streams_parquet(tmp_path, words, monkeypatch, capsys):
    from pyarrow import parquet

    from hybridtrees.input import batches

    monkeypatch.setattr(batches, "BATCH_ROWS", 64)
    table, _, classifier = words
    model, folder, out = tmp_path / "m.htree", tmp_path / "in", tmp_path / "out.parquet"
    folder.mkdir()
    classifier.save(model)
    write_parquet(table, folder, [(0, 300), (300, 500)], 70)
    for source in (folder, folder / "*.parquet"):
        command = ["predict", str(model), str(source), "-o", str(out), "--keep", "word"]
        assert cli.main(command) == 0
        assert "500 predictions" in capsys.readouterr().out
        found = parquet.read_table(out)
        assert found.column_names == ["word", "prediction", "probability_down", "probability_up"]
        assert found["word"].equals(table["word"])
        expected = classifier.predict_proba(table.select(["real", "count", "word"]))
        np.testing.assert_array_equal(found["probability_up"], expected[:, 1])
    old = out.read_bytes()
    (folder / "z.parquet").write_bytes(b"PAR1 no more")
    assert cli.main(["predict", str(model), str(folder), "-o", str(out)]) == 1
    assert "z.parquet cannot be read as Parquet" in capsys.readouterr().err
    assert out.read_bytes() == old


def test_an_error_in_a_late_batch_leaves_the_file_as_it_was(tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("old")
    model = hybridtrees.CARTRegressor().fit({"a": X[:, 0]}, Y)
    late = {"a": np.where(np.arange(120) == 110, np.inf, 0.0)}
    with pytest.raises(ValueError, match="source, rows 100 to 119: .* column 'a', row 10"):
        predict_batches(model, late, out, batch_rows=50)
    assert out.read_text() == "old" and list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("more", "kind", "message"),
    [
        ({"method": "fit"}, ValueError, "method must be one of predict, .* got 'fit'"),
        ({"method": "predict_proba"}, TypeError, "CARTRegressor, which has no method predict_pro"),
        ({"output": "out.xlsx"}, ValueError, "the file must end in .csv, .parquet or .pq"),
        ({"output": [0]}, TypeError, "output must be an array, a path or None, got list"),
        ({"output": np.empty(3)}, ValueError, r"output must have the shape \(120,\), got \(3,\)"),
        ({"output": np.empty(120, int)}, TypeError, "output is an array of int64, but the pred"),
        ({"keep": ["b"]}, ValueError, "keep names columns for a file, but output is none"),
        ({"keep": "b", "output": "o.csv"}, TypeError, "keep must be a list of columns"),
        ({"keep": ["z"], "output": "o.csv"}, ValueError, "keep names 'z', which source does not"),
        ({"keep": ["prediction"], "output": "o.csv"}, ValueError, "keep cannot keep 'prediction'"),
        ({"source": {"b": Y}}, ValueError, "source lacks columns that model needs: a"),
        ({"source": iter([X])}, TypeError, "source is a list_iterator, which can be read only"),
    ],
)
def test_errors(more, kind, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = hybridtrees.CARTRegressor().fit({"a": X[:, 0]}, Y)
    arguments = {"source": {"a": X[:, 0], "b": Y, "prediction": Y}, **more}
    with pytest.raises(kind, match=message):
        predict_batches(model, **arguments)
    assert list(tmp_path.iterdir()) == []
