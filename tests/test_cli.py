"""The console script: whole runs in a process of their own, arguments, errors."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from fresh_python import check_python, run_python

import hybridtrees
from hybridtrees import cli
from hybridtrees._compare import run as running
from hybridtrees._compare.families import choose_families
from hybridtrees._compare.files import DATASETS, load_bundled
from hybridtrees._compare.reading import read_table
from hybridtrees._compare.search import Limits
from hybridtrees._table_files import write_csv
from hybridtrees.datasets import make_house_prices, make_seasonal_series

SCORE = re.compile(r"^\s*(\d+)\s+(.+?)\s{2,}(-?[\d.]+)~?\s+(-?[\d.]+)\s+(-?[\d.]+ \.\. -?[\d.]+)")
# The first setting of few families.
QUICK = ["--models", "linear", "cart", "baseline", "--jobs", "1", "--budget", "0.001"]


def run_in_process(capsys, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(list(arguments))
    return code, *capsys.readouterr()


def table(text: str) -> list[tuple[int, str, float, float]]:
    """Rank, model, score that ranks and test score of each line of a printed table."""
    found = filter(None, map(SCORE.match, text.splitlines()))
    return [(int(m[1]), m[2], float(m[3]), float(m[4])) for m in found]


def house_file(folder, n=160):
    houses = make_house_prices(n, random_state=2)
    columns = {
        name: ["" if v is None or v != v else v for v in column.tolist()]
        for name, column in houses.data.items()
    }
    path = folder / "houses.csv"
    write_csv(path, {**columns, "price": houses.target.tolist()})
    return path


def class_file(folder, labels, n=180):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 3)).round(4)
    cuts = np.linspace(-0.7, 0.7, len(labels) - 1) if len(labels) > 2 else [0.0]
    kind = np.digitize(X[:, 0] + 0.4 * rng.normal(size=n), cuts)
    path = folder / "classes.csv"
    write_csv(path, {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "kind": [labels[k] for k in kind]})
    return path


def series_file(folder):
    series = make_seasonal_series(200, random_state=1)
    columns = dict(zip(series.feature_names, series.data.T, strict=True))
    order = np.random.default_rng(0).permutation(200)
    dates = (np.datetime64("2024-01-01") + np.arange(200)).astype(str)
    path = folder / "series.csv"
    shuffled = {name: column[order].tolist() for name, column in columns.items()}
    write_csv(path, {"day": dates[order], **shuffled, "value": series.target[order]})
    return path


# ---------------------------------------------------------------------------------------------
# Whole runs


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass", "time"])
def test_the_whole_command(task, tmp_path):
    """A file in; a table, a page, JSON and a model out; and predictions of the model."""
    path, target, more = {
        "regression": lambda: (house_file(tmp_path), "price", []),
        "binary": lambda: (class_file(tmp_path, ["no", "yes"]), "kind", []),
        "multiclass": lambda: (class_file(tmp_path, ["low", "mid", "top"]), "kind", []),
        "time": lambda: (series_file(tmp_path), "value", ["--time", "day", "--drop", "phase"]),
    }[task]()
    model, result = str(tmp_path / "best.htree"), str(tmp_path / "result.json")
    flags = ["--json", result, "--save", model]
    if task in ("regression", "time"):
        flags += ["--html", str(tmp_path / "report.html")]
    command = ["-m", "hybridtrees", "compare", str(path), "--target", target, *more, *flags]
    # Every family, each with its first setting.
    done = run_python(*command, "--budget", "0.001", "--jobs", "2", "--seed", "1")
    assert (done.returncode, done.stderr) == (0, "")
    rows = table(done.stdout)
    names = {family.name for family in choose_families(None)}
    assert {row[1] for row in rows} == names and "failed" not in done.stdout
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    scores = [row[2] for row in rows if row[1] != "ensemble of the others"]  # may be first
    assert scores == sorted(scores, reverse=task in ("binary", "multiclass"))
    if "--html" in flags:
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        names.discard("ensemble of the others")  # what it needs is said by its members
        assert all(re.search(rf"<th[^>]*>{re.escape(name)}</th>", page) for name in names)
    content = json.loads(Path(result).read_text())["comparisons"][0]
    assert [one["model"] for one in content["models"]] == [row[1] for row in rows]
    assert content["by_time"] == (task == "time")
    out = tmp_path / "out.csv"
    done = run_python("-m", "hybridtrees", "predict", model, str(path), "-o", str(out))
    assert done.returncode == 0, done.stderr
    said, truth = read_table(out), read_table(path)[target]
    assert len(said["prediction"]) == len(truth)
    if truth.dtype == object:
        assert np.mean(said["prediction"] == truth) > 0.7
        assert {f"probability_{label}" for label in set(truth)} < set(said)
    else:
        assert np.corrcoef(said["prediction"], truth)[0, 1] > 0.7


@pytest.mark.parametrize("name", list(DATASETS))
def test_bundled_data_rank_real_models_above_the_baseline(name, capsys):
    code, out, err = run_in_process(capsys, "compare", "--data", name, *QUICK)
    assert code == 0 and err == ""
    rows = table(out)
    assert len(rows) == 3 and rows[-1][1] == "baseline (constant)"
    best = rows[0][3]
    assert {
        "breast_cancer": best > 0.97,
        "heart_failure": best > 0.8,
        "house_prices": best < 32,
        "seasonal_series": best < 1.3,
    }[name]
    data = load_bundled(name, 0)
    assert f"{name}: {data.task}, {data.shape[0]} rows, {data.shape[1]} features" in out


def test_the_seed_decides_and_threads_do_not(capsys):
    def run(*more):
        out = run_in_process(capsys, "compare", "--data", "heart_failure", *QUICK, *more)[1]
        return table(out)

    first = run("--seed", "3")
    assert first == run("--seed", "3", "--jobs", "2")
    assert first != run("--seed", "4")


def test_several_data_sets_once_each(capsys, tmp_path):
    names = ("heart_failure", "breast_cancer", "heart_failure")
    options = [x for name in names for x in ("--data", name)]
    code, out, err = run_in_process(
        capsys, "compare", *options, "--models", "cart", "--score", "logloss", "--json", "-"
    )
    # What a program reads is JSON alone.
    found = json.loads(out)["comparisons"]
    assert code == 0 and [one["data"] for one in found] == ["heart_failure", "breast_cancer"]
    assert found[0]["score"] == "logloss"
    headings = [line.split(":")[0] for line in err.splitlines() if " rows, " in line]
    assert headings == ["heart_failure", "breast_cancer"] and "test log-loss" in err


def test_every_option_reaches_the_comparison(tmp_path, capsys, monkeypatch):
    seen = []

    def record(*arguments, **more):
        seen.append((arguments, more))
        raise ValueError("seen")

    monkeypatch.setattr(running, "compare_data", record)
    options = {
        "--target": ["value"], "--task": ["regression"], "--time": ["day"], "--drop": ["phase"],
        "--models": ["xgb", "cart"], "--score": ["mae"], "--search": ["grid"], "--folds": ["4"],
        "--budget": ["7"], "--overfit-limit": ["0.25"], "--seed": ["5"], "--jobs": ["1"],
        "--decimal": ["."],
    }  # fmt: skip
    given = [text for option, values in options.items() for text in (option, *values)]
    code, _, err = run_in_process(capsys, "compare", str(series_file(tmp_path)), *given)
    assert code == 1 and err == "hybridtrees: seen\n"
    (((data, families, score, limits), more),) = seen
    assert data.task == "regression" and data.target_name == "value"
    assert data.time.min() == np.datetime64("2024-01-01") and "phase" not in data.feature_names
    assert "day_weekday" in data.feature_names
    assert [family.key for family in families] == ["xgb", "cart"] and score == "mae"
    assert limits == Limits(search="grid", budget=7, overfit=0.25, n_jobs=1, seed=5)
    assert more["folds"] == 4


def test_folds_validate(capsys):
    command = ["compare", "--data", "heart_failure", *QUICK, "--json", "-"]
    one, three = (
        json.loads(run_in_process(capsys, *command, *more)[1])["comparisons"][0]["models"]
        for more in ([], ["--folds", "3"])
    )
    # The final models are the same, those that were validated are not.
    for key in ("test", "validation"):
        scores = [{m["model"]: m[key] for m in found} for found in (one, three)]
        assert (scores[0] == scores[1]) == (key == "test")


def test_a_model_is_saved_though_a_constant_leads(tmp_path, capsys):
    noise = np.random.default_rng(5).normal(size=(2, 90))
    write_csv(tmp_path / "noise.csv", dict(zip("xy", noise, strict=True)))
    models = ["--target", "y", "--models", "cart", "baseline", "--budget", "0.001"]
    models += ["--save", str(tmp_path / "m.htree")]
    code, out, err = run_in_process(capsys, "compare", str(tmp_path / "noise.csv"), *models)
    assert code == 0 and err == "" and table(out)[0][1] == "baseline (constant)"
    assert isinstance(hybridtrees.load(tmp_path / "m.htree"), hybridtrees.CARTRegressor)


def test_predictions_are_printed_without_a_file(tmp_path, capsys):
    path = class_file(tmp_path, ["no", "yes"], n=40)
    model = hybridtrees.CARTClassifier(max_depth=2)
    columns = read_table(path)
    kind = columns.pop("kind")
    model.fit(columns, kind).save(tmp_path / "model.htree")
    code, out, err = run_in_process(capsys, "predict", str(tmp_path / "model.htree"), str(path))
    assert code == 0 and err == ""
    rows = list(csv.reader(out.splitlines()))
    assert rows[0] == ["prediction", "probability_no", "probability_yes"]
    assert [row[0] for row in rows[1:]] == model.predict(columns).tolist()


# ---------------------------------------------------------------------------------------------
# What goes wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["comparison"], "invalid choice: 'comparison'"),
        (["compare", "--seed", "-1"], "must be an integer, 0 or greater, got '-1'"),
        (["compare", "--seed", "x"], "must be an integer, 0 or greater, got 'x'"),
        (["compare", "--jobs", "0"], "must be a number of threads"),
        (["compare", "--jobs", "two"], "must be a number of threads"),
        (["compare", "--folds", "1"], "must be a number of folds, 2 or more"),
        (["compare", "--budget", "0"], "must be a positive number, got '0'"),
        (["compare", "--data", "iris"], "must be one of breast_cancer, heart_failure"),
        (["compare", "--models", "svm"], "must be one of linear, cart"),
        (["compare", "--score", "loss"], "must be one of rmse, mae"),
        (["compare", "--search", "random"], "invalid choice: 'random'"),
        (["compare", "--target", "y"], "--target needs a file"),
        (["compare", "--decimal", ","], "--decimal needs a file"),
        (["compare", "--decimal", ";"], "invalid choice: ';'"),
        (["compare", "a.csv"], "a file needs --target"),
        (["compare", "a.csv", "--target", "y", "--data", "heart_failure"], "does not go with"),
        (["compare", "--save", "best.htree"], "--save needs one data set"),
        (
            ["compare", "a.csv", "--target", "y", "--models", "baseline", "--save", "m"],
            "--save needs a model besides the baseline",
        ),
        (["predict", "model"], "required: file"),
        (["info", "--seed", "1"], "unrecognized arguments"),
    ],
)
def test_argument_errors_exit_with_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error and "usage: hybridtrees" in error


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (None, [], "no such file: "),
        ("x,price\n1,2\n", ["--target", "cost"], "no column 'cost' for the target; the columns"),
        ("x,y\n" + "1,5\n" * 20, [], "the target 'y' is constant"),
        ("x,y\n" + "1,a\n2,b\n" * 9, ["--task", "regression"], "holds text, such as 'a'"),
        ("x,y\n1,2\n", [], "the target 'y' is constant"),
        ("x,y\n1,2\n3,4.5\n", [], "needs at least 10 rows, got 2"),
        ("x,y\n" + "1,2.5\n2,3\n" * 9, ["--score", "auc"], "score must be one of rmse"),
        (
            "x,y\n" + "1,2.5\n2,3\n" * 9,
            ["--html", "no/such/folder.html"],
            "no such folder: no/such",
        ),
        ("x,y\n" + "1,2.5\n2,3\n" * 9, ["--html", "."], ". is a folder"),
    ],
)
def test_wrong_files_are_explained(text, more, message, tmp_path, capsys):
    path = tmp_path / "data.csv"
    if text is not None:
        path.write_text(text)
    target = [] if "--target" in more else ["--target", "y"]
    code, _, err = run_in_process(capsys, "compare", str(path), *target, *more)
    assert code == 1 and err.startswith("hybridtrees: ") and message in err
    assert "Traceback" not in err


def test_wrong_models_are_explained(tmp_path, capsys):
    code, _, err = run_in_process(capsys, "predict", "no.htree", "no.csv")
    assert code == 1 and "no such file: no.htree" in err
    code, _, err = run_in_process(capsys, "predict", "no.htree", "no.csv", "-o", "no/out.csv")
    assert code == 1 and "no such folder: no" in err
    (tmp_path / "text.htree").write_text("this is no model")
    code, _, err = run_in_process(capsys, "predict", str(tmp_path / "text.htree"), "no.csv")
    assert code == 1 and err.startswith("hybridtrees: ")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("no luck"), "hybridtrees: RuntimeError: no luck"),
        (ValueError("y is odd"), "hybridtrees: y is odd"),
        (KeyboardInterrupt(), "hybridtrees: interrupted"),
    ],
)
def test_a_failed_run_exits_with_1(error, message, capsys, monkeypatch):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(running, "compare_data", fail)
    code, _, err = run_in_process(capsys, "compare")
    assert code == 1 and err.strip() == message


# ---------------------------------------------------------------------------------------------
# Information, and the program as such


def test_info_names_versions_and_threads(capsys):
    code, out, err = run_in_process(capsys, "info")
    assert code == 0 and err == ""
    facts = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in out.splitlines())
    assert facts["hybridtrees"] == hybridtrees.__version__
    assert facts["numpy"] == metadata.version("numpy")
    assert facts["OpenMP"].startswith(("yes", "no"))
    assert int(facts["threads by default"]) >= 1
    assert int(facts["vector width"].removesuffix(" bits")) in (64, 128, 256, 512)
    assert facts["scikit-learn (optional)"]


def test_info_says_what_is_not_installed(capsys, monkeypatch):
    monkeypatch.setattr(cli, "OPTIONAL_PACKAGES", ("no-such-package",))
    assert re.search(r"no-such-package \(optional\)\s+not ins", run_in_process(capsys, "info")[1])


def test_nothing_imports_optional_packages(tmp_path):
    path = class_file(tmp_path, ["no", "yes"], n=60)
    code = (
        "import sys; from hybridtrees.cli import main; assert main(['info']) == 0; "
        f"assert main(['compare', {str(path)!r}, '--target', 'kind', '--models', 'cart', "
        f"'--html', {str(tmp_path / 'report.html')!r}]) == 0; "
        "found = {'sklearn', 'pandas', 'polars', 'pyarrow', 'matplotlib'} & set(sys.modules); "
        "assert not found, found"
    )
    check_python(code)


def test_help_is_text_for_people(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["compare", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert stopped.value.code == 0 and "15 % choose the settings, folds of both rank" in out


def test_the_table_is_as_wide_as_the_terminal(capsys, monkeypatch):
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        out = run_in_process(capsys, "compare", "--data", "heart_failure", *QUICK)[1]
        assert max(map(len, out.splitlines())) <= width


def test_the_winner_is_saved_whatever_the_test_rows_say(tmp_path, capsys):
    """On the last rows a constant would do best; the folds before them know better."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = np.where(np.arange(200) < 170, 3 * x, 0.0) + 0.1 * rng.normal(size=200)
    path, model = tmp_path / "data.csv", str(tmp_path / "m.htree")
    write_csv(path, {"t": np.arange(200), "x": x, "z": rng.normal(size=200), "y": y})
    command = ["compare", str(path), "--target", "y", "--time", "t", "--save", model]
    code, out, _ = run_in_process(capsys, *command, "--models", "cart", "linear", "baseline")
    rows = table(out)
    assert code == 0 and rows[0][1].startswith("linear") and rows[-1][1].startswith("baseline")
    assert rows[-1][3] < rows[0][3]  # by the test rows it would be the other way round
    assert isinstance(hybridtrees.load(model), hybridtrees.LinearRegressor)


def test_a_bar_is_drawn_when_asked_for(capsys):
    arguments = ("compare", "--data", "heart_failure", "--models", "cart", "--progress")
    code, _, err = run_in_process(capsys, *arguments)
    assert code == 0 and "heart_failure [" in err and "left  cart" in err
    assert err.endswith("\r")


def test_package_runs_as_a_program_and_survives_a_closed_pipe():
    done = run_python("-m", "hybridtrees", "--version")
    assert done.returncode == 0 and done.stdout == f"hybridtrees {hybridtrees.__version__}\n"
    done = run_python("-m", "hybridtrees", "compare", "--jobs", "0")
    assert done.returncode == 2 and done.stderr.startswith("usage: hybridtrees compare")
    command = [sys.executable, "-m", "hybridtrees"]
    program = subprocess.Popen(
        [*command, "info"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    program.stdout.close()
    assert program.wait(timeout=60) == 0
    assert program.stderr.read() == ""
    program.stderr.close()
