"""The scripts under examples/ run, print what their texts promise, and save their plots."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fresh_python import run_python

pytest.importorskip("matplotlib")
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def output(script: str, *arguments: str) -> str:
    """What an example prints."""
    done = run_python(str(EXAMPLES / script), *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(text: str, name: str) -> list[float]:
    """The numbers on the line that begins with a name."""
    line = re.search(rf"^ *{re.escape(name)}:? +(.*)$", text, re.MULTILINE)
    return [float(number) for number in re.findall(r"-?\d+\.\d+", line[1])]


def test_regression_hybrids(tmp_path):
    text = output("regression_hybrids.py", "--out", str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 4
    alone = min(numbers(text, f"test RMSE, {part}")[0] for part in ("line", "forest"))
    assert numbers(text, "test RMSE, line + forest")[0] < alone
    # Beyond the training range, a forest alone stays where the trend was.
    assert 2 * numbers(text, "RMSE, line + forest")[0] < numbers(text, "RMSE, forest alone")[0]


def test_forest_importance_bias(tmp_path):
    plot = tmp_path / "plot.svg"
    text = output("forest_importance_bias.py", "--out", str(plot), "--repeats", "2")
    assert "<svg" in plot.read_text()
    useful, noise = (numbers(text, n) for n in ("informative, 2 values", "noise, all different"))
    assert useful[0] < noise[0]
    assert useful[1] > 4 * abs(noise[1])


def test_plgb_leaf_fits(tmp_path):
    plot = tmp_path / "plot.svg"
    sizes = ("--rows", "1500", "--repeats", "1")
    text = output("plgb_leaf_fits.py", "--out", str(plot), *sizes)
    assert "<svg" in plot.read_text()
    # Seconds and the training error, first of trees without and then with refitted leaves.
    errors = [float(line.split()[-1]) for line in text.splitlines()[1:7]]
    assert errors[2] < errors[1] < errors[0]
    assert errors[5] < errors[4] < errors[3]
