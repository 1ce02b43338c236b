"""A comparison as text: no wider than the terminal, and readable."""

from __future__ import annotations

import dataclasses

import pytest

import hybridtrees
from hybridtrees._compare.text import terminal_width
from hybridtrees.datasets import load_heart_failure


@pytest.fixture(scope="module")
def result():
    data = load_heart_failure()
    models = ["linear", "cart", "xgb", "linear_tree", "baseline"]
    return hybridtrees.compare(data.data, data.target, models=models, name="hearts")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 132, 200])
def test_no_line_is_wider_than_asked_for(width, result):
    lines = result.text(width).splitlines()
    if width >= 60:
        assert max(map(len, lines)) <= width
    head = next(line.split() for line in lines if line.startswith("rank"))
    assert head[:4] == ["rank", "model", "folds", "test"]


def test_at_80_columns_what_matters_is_there(result):
    text = result.text(80)
    assert "rank  model                           folds  test AUC" in text and "interval" in text
    assert "\nparameters\n" in text and "max_depth=" in text and "size KB" not in text
    for row in result.table:
        assert sum(row["model"] in line for line in text.splitlines()) >= 1


def test_wide_terminals_have_it_all(result):
    text = result.text(250)
    assert "\nparameters\n" not in text
    for head in ("validation", "train", "delta %", "fit s", "predict ms", "size KB", "parameters"):
        assert head in text


def test_the_width_is_that_of_the_terminal(result, monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    assert terminal_width() == 72 and str(result) == result.text(72)
    assert max(map(len, repr(result.table).splitlines())) <= 72
    monkeypatch.setenv("COLUMNS", "1")
    assert terminal_width() == 40
    monkeypatch.delenv("COLUMNS")
    assert terminal_width() >= 40


def test_models_that_cannot_be_told_apart_are_marked(result):
    lines = result.text(80).partition("parameters")[0].splitlines()
    rows = {line[6:34].strip(): line for line in lines if line[:4].strip().isdigit()}
    for r in result.results:
        score = rows[r.family.name][34:].split()[0]
        assert score.endswith("~") == r.tied
    assert "decide nothing" in result.text(200)


def test_only_marks_that_are_shown_are_explained(result):
    marked = dataclasses.replace(
        result, results=[dataclasses.replace(r, overfits=True, tied=True) for r in result.results]
    )
    for width in (60, 80, 100, 250):
        text = marked.text(width)
        assert ("\n* beyond the limit" in text) == ("delta %" in text)
        assert "\n~ the 5 folds do not show" in text
    assert "delta %" not in marked.text(80) and "delta %" in marked.text(250)
    plain = dataclasses.replace(
        result, results=[dataclasses.replace(r, overfits=False, tied=False) for r in result.results]
    )
    assert "\n*" not in plain.text(250) and "\n~" not in plain.text(250)
