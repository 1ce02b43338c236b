"""The files that the command line reads and writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import hybridtrees
from hybridtrees import cli
from hybridtrees._compare import report
from hybridtrees._compare.result import Comparison

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


@pytest.mark.parametrize("name", ["model.htree", "data.csv", "link.csv"])
def test_predictions_do_not_overwrite_what_is_read(name, data, model, capsys):
    before = data.read_bytes(), model.read_bytes()
    (data.parent / "link.csv").symlink_to(model)
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
