"""The console script and the comparison behind it."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest
from fresh_python import check_python, run_python

import hybridtrees
from hybridtrees import _compare, cli
from hybridtrees.datasets import load_heart_failure, make_house_prices

SCORE = re.compile(r"^\s*(\d+)\s+(.+?)\s+(-?\d\.\d{4})\s+(-?\d\.\d{4})\s")


def run_in_process(capsys, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def table(text: str) -> list[tuple[int, str, float, float]]:
    """Rank, model, test score and train score of each line of a printed table."""
    found = filter(None, map(SCORE.match, text.splitlines()))
    return [(int(m[1]), m[2], float(m[3]), float(m[4])) for m in found]


@pytest.mark.parametrize("name", list(_compare.DATASETS))
def test_compare_ranks_real_models_above_the_baseline(name, capsys):
    code, out, err = run_in_process(capsys, "compare", "--data", name, "--jobs", "1")
    assert code == 0 and err == ""
    rows = table(out)
    assert [row[0] for row in rows] == list(range(1, len(_compare.FAMILIES) + 1))
    assert {row[1] for row in rows} == {family.name for family in _compare.FAMILIES}
    scores = [row[2] for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert rows[-1][1] == "baseline (constant)"
    assert all(row[3] > 0.8 for row in rows[:-1])
    floor = {"breast_cancer": 0.97, "heart_failure": 0.75, "house_prices": 0.75}
    assert scores[0] > floor[name]


def test_compare_depends_on_the_seed_and_not_on_the_threads(capsys):
    runs = [
        table(run_in_process(capsys, "compare", "--data", "heart_failure", *more)[1])
        for more in (
            ("--seed", "3", "--jobs", "1"),
            ("--seed", "3", "--jobs", "2"),
            ("--seed", "4", "--jobs", "1"),
        )
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_compare_takes_several_data_sets_once_each(capsys):
    names = ("heart_failure", "breast_cancer", "heart_failure")
    options = [x for name in names for x in ("--data", name)]
    code, out, _ = run_in_process(capsys, "compare", *options, "--jobs", "1")
    headings = [line.split(":")[0] for line in out.splitlines() if " rows, " in line]
    assert code == 0 and headings == ["heart_failure", "breast_cancer"]


def test_table_lines_up():
    dataset = load_heart_failure()
    split = _compare.split_rows(dataset, 0)
    results = [
        _compare.Result("short", 0.9, 1.0, 0.5, 0.0123, 2048),
        _compare.Result("a much longer name", 0.5, 0.5, 12.0, 1.5, 10),
    ]
    comparison = _compare.Comparison("heart_failure", dataset, split, "ROC AUC", results)
    heading, _, *lines = _compare.format_comparison(comparison).splitlines()
    assert heading.startswith("heart_failure: classification, 299 rows, 12 features, ")
    assert heading.endswith("train / validation / test 209 / 46 / 44")
    assert len({len(line) for line in lines}) == 1
    assert table("\n".join(lines)) == [
        (1, "short", 0.9, 1.0),
        (2, "a much longer name", 0.5, 0.5),
    ]
    assert lines[2].split()[-3:] == ["500.0", "12.30", "2.0"]


@pytest.mark.parametrize("dataset", [load_heart_failure(), make_house_prices(1000, 0)])
def test_split_is_a_seeded_stratified_partition(dataset):
    split = _compare.split_rows(dataset, 7)
    rows = np.concatenate(split)
    np.testing.assert_array_equal(np.sort(rows), np.arange(dataset.shape[0]))
    shares = [len(part) / len(rows) for part in split]
    np.testing.assert_allclose(shares, [0.70, 0.15, 0.15], atol=0.01)
    for one, same in zip(split, _compare.split_rows(dataset, 7), strict=True):
        np.testing.assert_array_equal(one, same)
    assert not np.array_equal(split.test, _compare.split_rows(dataset, 8).test)
    if dataset.task == "classification":
        share = dataset.target.mean()
        assert all(abs(dataset.target[part].mean() - share) < 0.02 for part in split)


def test_compare_rejects_an_unknown_data_set():
    with pytest.raises(ValueError, match="data must be among breast_cancer.*got 'iris'"):
        _compare.compare(["iris"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["comparison"], "invalid choice: 'comparison'"),
        (["compare", "--seed", "-1"], "must be an integer, 0 or greater, got '-1'"),
        (["compare", "--seed", "x"], "must be an integer, 0 or greater, got 'x'"),
        (["compare", "--jobs", "0"], "must be a number of threads"),
        (["compare", "--jobs", "two"], "must be a number of threads"),
        (["compare", "--data", "iris"], "must be one of breast_cancer, heart_failure"),
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
    ("error", "message"),
    [
        (RuntimeError("no luck"), "hybridtrees: RuntimeError: no luck"),
        (KeyboardInterrupt(), "hybridtrees: interrupted"),
    ],
)
def test_a_failed_run_exits_with_1(error, message, capsys, monkeypatch):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(_compare, "compare", fail)
    code, _, err = run_in_process(capsys, "compare")
    assert code == 1 and err.strip() == message


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
    out = run_in_process(capsys, "info")[1]
    assert re.search(r"no-such-package \(optional\)\s+not installed", out)


def test_info_imports_no_optional_package():
    code = (
        "import sys; from hybridtrees.cli import main; assert main(['info']) == 0; "
        "found = {'sklearn', 'pandas', 'polars', 'pyarrow'} & set(sys.modules); "
        "assert not found, found"
    )
    check_python(code)


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
