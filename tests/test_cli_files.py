"""The files that the command line reads and writes."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import hybridtrees
from hybridtrees import cli
from hybridtrees._compare import report
from hybridtrees._compare.reading import read_table
from hybridtrees._compare.result import Comparison
from hybridtrees._table_files import appending, readable

QUICK = ["--models", "cart", "baseline", "--jobs", "1", "--budget", "0.001"]


@pytest.fixture
def data(tmp_path):
    """A file of numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)).round(3)
    path = tmp_path / "data.csv"
    table = np.c_[x, (x[:, 0] + 0.1 * rng.normal(size=60)).round(3)]
    np.savetxt(path, table, "%.3f", delimiter=",", header="a,b,y", comments="")
    return path


@pytest.fixture
def model(data, tmp_path):
    """A file with a model that was fitted to the data."""
    a, b, y = np.loadtxt(data, delimiter=",", skiprows=1).T
    path = tmp_path / "model.htree"
    hybridtrees.CARTRegressor(max_depth=3).fit({"a": a, "b": b}, y).save(path)
    return path


def compare(data, *more):
    return cli.main(["compare", str(data), "--target", "y", *QUICK, *map(str, more)])


def refused(capsys, *arguments):
    """Return the message about arguments that make no sense."""
    with pytest.raises(SystemExit) as stopped:
        cli.main(list(map(str, arguments)))
    assert stopped.value.code == 2
    return capsys.readouterr().err


# ---------------------------------------------------------------------------------------------
# What must not be overwritten


@pytest.mark.parametrize("option", ["--save", "--json", "--html"])
@pytest.mark.parametrize("name", ["data.csv", "symlink", "hard_link"])
def test_a_comparison_does_not_overwrite_its_data(option, name, data, capsys):
    before = data.read_bytes()
    (data.parent / "symlink").symlink_to(data)
    (data.parent / "hard_link").hardlink_to(data)
    output = data.parent / name
    err = refused(capsys, "compare", data, "--target", "y", *QUICK, option, output)
    assert f"{option} {output} would overwrite the data file {data}" in err
    assert data.read_bytes() == before


@pytest.mark.parametrize("name", ["data.csv", "symlink.csv", "hard_link.csv"])
def test_predictions_do_not_overwrite_what_is_read(name, data, model, capsys):
    before = data.read_bytes(), model.read_bytes()
    (data.parent / "symlink.csv").symlink_to(model)
    (data.parent / "hard_link.csv").hardlink_to(model)
    err = refused(capsys, "predict", model, data, "-o", data.parent / name)
    what = f"the data file {data}" if name == "data.csv" else f"the model {model}"
    assert f"would overwrite {what}" in err
    assert (data.read_bytes(), model.read_bytes()) == before


def test_one_path_for_two_outputs_is_refused(data, capsys):
    out = data.parent / "out"
    command = ["compare", data, "--target", "y", *QUICK, "--json", out]
    for option in ("--html", "--save"):
        assert "is the same file as" in refused(capsys, *command, option, out)
    assert not out.exists()
    for option in ("--html", "--save"):
        assert f"{option} needs a file" in refused(capsys, *command, option, "-")


# ---------------------------------------------------------------------------------------------
# Each output on its own


def fail(*_, **__):
    raise OSError("no space left")


@pytest.mark.parametrize(
    ("option", "owner", "name"),
    [
        ("--save", hybridtrees.CARTRegressor, "save"),
        ("--json", Comparison, "to_dict"),
        ("--html", report, "make_report"),
    ],
)
def test_an_output_that_fails_does_not_lose_the_others(
    option, owner, name, data, capsys, monkeypatch
):
    monkeypatch.setattr(owner, name, fail)
    paths = {key: data.parent / f"out{key}" for key in ("--save", "--json", "--html")}
    code = compare(data, *(text for pair in paths.items() for text in pair))
    out, err = capsys.readouterr()
    assert code == 1
    assert err == f"hybridtrees: {option} {paths[option]}: no space left\n"
    for key, path in paths.items():
        assert path.exists() == (key != option)
        assert (f": {path}\n" in out) == (key != option)
    if option != "--save":
        assert isinstance(hybridtrees.load(paths["--save"]), hybridtrees.CARTRegressor)


def test_the_model_is_written_first(data, capsys, monkeypatch):
    """So that whoever stops the rest by Ctrl-C has it."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Comparison, "to_dict", interrupt)
    model, page = data.parent / "model", data.parent / "page"
    assert compare(data, "--json", data.parent / "json", "--html", page, "--save", model) == 1
    assert capsys.readouterr().err == "hybridtrees: interrupted\n"
    assert model.exists() and not page.exists()


@pytest.mark.parametrize("stdout", ["closed pipe", "full disk"])
def test_files_are_written_though_nothing_can_be_printed(stdout, data):
    if stdout == "full disk" and not os.path.exists("/dev/full"):
        pytest.skip("the system has no device that is always full")
    model, result = data.parent / "model", data.parent / "result"
    command = [sys.executable, "-m", "hybridtrees", "compare", str(data), "--target", "y", *QUICK]
    command += ["--save", str(model), "--json", str(result)]
    if stdout == "closed pipe":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open("/dev/full", os.O_WRONLY)
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writer)
    hybridtrees.load(model)
    assert json.loads(result.read_text())["comparisons"]
    if stdout == "closed pipe":  # as after `| head`, which is no fault
        assert done.returncode == 0 and done.stderr == ""
    else:
        assert done.returncode == 1
        assert done.stderr.startswith("hybridtrees: printing: ") and done.stderr.count("\n") == 1


# ---------------------------------------------------------------------------------------------
# Formats and streams


def predicted(model, data):
    a, b, _ = np.loadtxt(data, delimiter=",", skiprows=1).T
    return hybridtrees.load(model).predict({"a": a, "b": b})


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "OUT.PQ"])
def test_predictions_are_in_the_format_of_their_name(name, data, model):
    if name != "out.csv":
        pytest.importorskip("pyarrow")
    out = data.parent / name
    assert cli.main(["predict", str(model), str(data), "-o", str(out)]) == 0
    assert out.read_bytes().startswith(b"prediction\n" if name == "out.csv" else b"PAR1")
    found = read_table(out)["prediction"]
    if name == "out.csv":  # seven digits
        np.testing.assert_allclose(found, predicted(model, data), rtol=1e-6)
    else:
        np.testing.assert_array_equal(found, predicted(model, data))


def test_printed_numbers_have_few_digits(data, model, capsys):
    assert cli.main(["predict", str(model), str(data)]) == 0
    cells = capsys.readouterr().out.splitlines()[1:]
    assert len(cells) == 60 and max(len(cell.strip("-0.").replace(".", "")) for cell in cells) == 7
    values = np.array([0.1, 1 / 3, 2e6 + 0.4, 123456.789, 1e-7, 1e20, 5.0, np.nan])
    said = ["0.1", "0.3333333", "2000000", "123456.8", "1e-07", "1e+20", "5", ""]
    shown = readable({"v": values, "k": np.array([1, 2])})
    assert shown["v"] == said and shown["k"] == [1, 2]


def test_decimal_commas_are_read(data, model, capsys):
    path = data.parent / "commas.csv"
    lines = data.read_text().splitlines()
    commas = [line.replace(",", ";").replace(".", ",") for line in lines]
    path.write_text("\n".join(commas))
    for more in ([], ["--decimal", ","]):
        assert cli.main(["predict", str(model), str(path), *more]) == 0
        out, err = capsys.readouterr()
        found = [float(line) for line in out.splitlines()[1:]]
        np.testing.assert_allclose(found, predicted(model, data), rtol=1e-6)
        assert "hybridtrees: 'a' is read as numbers, " in err and "'y'" not in err


def test_classes_and_their_shares_go_to_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    labels, x = np.array(["no", "yes", "no", "yes"], dtype=object), np.array([1.0, 2, 3, 4])
    model = hybridtrees.CARTClassifier(max_depth=1, min_samples_leaf=1).fit({"x": x}, labels)
    model.save(tmp_path / "model.htree")
    np.savetxt(tmp_path / "x.csv", x, header="x", comments="")
    paths = [str(tmp_path / name) for name in ("model.htree", "x.csv", "out.parquet")]
    assert cli.main(["predict", *paths[:2], "-o", paths[2]]) == 0
    table = read_table(paths[2])
    assert table["prediction"].tolist() == model.predict({"x": x}).tolist()
    shares = np.c_[table["probability_no"], table["probability_yes"]]
    np.testing.assert_array_equal(shares, model.predict_proba({"x": x}))


@pytest.mark.parametrize("name", ["out.xlsx", "out", "out.csv.gz", ".csv"])
def test_other_endings_are_refused(name, data, model, capsys):
    out = data.parent / name
    message = refused(capsys, "predict", model, data, "-o", out)
    assert f"must end in .csv, .parquet or .pq, got '{out}'" in message and not out.exists()


def test_parquet_without_its_package_is_refused(data, model, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    message = refused(capsys, "predict", model, data, "-o", data.parent / "out.parquet")
    assert "needs pyarrow: pip install pyarrow" in message


def test_predictions_are_printed(data, model, capsys, monkeypatch):
    monkeypatch.chdir(data.parent)
    printed = []
    for more in ([], ["-o", "-"]):
        assert cli.main(["predict", str(model), str(data), *more]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] and not os.path.exists("-")
    found = [float(line) for line in printed[0].splitlines()[1:]]
    np.testing.assert_allclose(found, predicted(model, data), rtol=1e-6)


def give(monkeypatch, content):
    """Let the standard input hold some bytes."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("kind", ["csv", "gzip", "parquet"])
def test_the_standard_input_is_read(kind, data, model, capsys, monkeypatch):
    content = data.read_bytes()
    if kind == "gzip":
        content = gzip.compress(content)
    elif kind == "parquet":
        pytest.importorskip("pyarrow")
        with appending(data.parent / "data.parquet") as append:
            append(read_table(data))
        content = (data.parent / "data.parquet").read_bytes()
    out = data.parent / "out.csv"
    give(monkeypatch, content)
    assert cli.main(["predict", str(model), "-", "-o", str(out)]) == 0
    found = read_table(out)["prediction"]
    np.testing.assert_allclose(found, predicted(model, data), rtol=1e-6)
    monkeypatch.setenv("COLUMNS", "200")  # no heading is folded
    printed = []
    for source in (data, "-"):
        give(monkeypatch, content)
        capsys.readouterr()
        assert compare(source, "--seed", "1") == 0
        printed.append(capsys.readouterr().out)
    headings = [text.splitlines()[0].split(":", 1) for text in printed]
    assert [heading[0] for heading in headings] == ["data.csv", "the standard input"]
    assert headings[0][1] == headings[1][1]


def test_what_is_wrong_with_the_standard_input(model, capsys, monkeypatch):
    for content, message in (
        (b'{"a": [1]}', "the standard input is JSON; it must be a CSV or Parquet file"),
        (b"a\n1\n", "the standard input lacks columns that the model needs: b"),
        (b"", "the standard input has no line of column names"),
    ):
        give(monkeypatch, content)
        assert cli.main(["predict", str(model), "-"]) == 1
        assert capsys.readouterr().err == f"hybridtrees: {message}\n"
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main(["predict", str(model), "-"]) == 1
    assert capsys.readouterr().err == "hybridtrees: the standard input is closed\n"


def test_data_from_the_standard_input_are_not_overwritten(data):
    before = data.read_bytes()
    command = [sys.executable, "-m", "hybridtrees", "compare", "-", "--target", "y", *QUICK]
    with open(data) as stdin:
        done = subprocess.run(
            [*command, "--json", str(data)], stdin=stdin, capture_output=True, text=True
        )
    assert done.returncode == 2 and "would overwrite the data file -" in done.stderr
    assert data.read_bytes() == before


def test_several_targets_have_a_column_each(data, tmp_path, capsys):
    table = read_table(data)
    X = {name: table[name] for name in ("a", "b")}
    y = np.column_stack([X["a"], -X["b"]])
    model = tmp_path / "two.htree"
    fitted = hybridtrees.CARTRegressor(max_depth=2).fit(X, y)
    fitted.save(model)
    out = tmp_path / "out.csv"
    assert cli.main(["predict", str(model), str(data), "-o", str(out)]) == 0
    assert f"{len(y)} predictions" in capsys.readouterr().out
    found = read_table(out)
    assert list(found) == ["prediction_0", "prediction_1"]
    both = np.column_stack(list(found.values()))
    np.testing.assert_allclose(both, fitted.predict(X), rtol=1e-6)
