"""The scripts under examples/, the gallery of the site, run and print what their texts promise."""

from __future__ import annotations

import functools
import re

import pytest
from fresh_python import run_python
from source_tree import ROOT

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

# Without a screen, and with nothing but the figures that a script itself has drawn at its end. A
# deprecated call is an error where an example or this package makes it, not in other packages.
RUN = """
import runpy, sys, warnings
import matplotlib
warnings.filterwarnings("error", category=DeprecationWarning, module="__main__|hybridtrees")
matplotlib.use("Agg")
from matplotlib import pyplot
pyplot.show = lambda: print(f"figures: {len(pyplot.get_fignums())}")
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@functools.cache
def output(name: str) -> str:
    """What an example prints, and a line for each time that it shows figures."""
    done = run_python("-c", RUN, str(ROOT / "examples" / name))
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(name: str, start: str) -> list[float]:
    """The numbers on the line that begins so."""
    line = re.search(rf"^ *{re.escape(start)}:? +(.*)$", output(name), re.MULTILINE)
    return [float(number) for number in re.findall(r"-?\d+\.\d+", line[1])]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_a_page_with_a_plot(path):
    assert path.name.startswith("plot_")
    title, line = path.read_text().splitlines()[1:3]
    assert line == "=" * len(title)
    assert re.search("^figures: [1-9]", output(path.name), re.MULTILINE)


def test_hybrids_go_on_beyond_the_training_range():
    script, start = "plot_extrapolation.py", "RMSE beyond the training range, "
    forest, boosted = (numbers(script, start + n)[0] for n in ("forest", "boosted trees"))
    for name in ("line + forest (RERF)", "linear tree"):
        assert 2 * numbers(script, start + name)[0] < min(forest, boosted)


def test_a_forest_helps_a_line():
    rmse = {n: numbers("plot_rerf.py", f"test RMSE, {n}")[0] for n in ("line", "forest")}
    assert numbers("plot_rerf.py", "test RMSE, line + forest")[0] < min(rmse.values())


def test_rules_help():
    script = "plot_eblr_rules.py"
    alone = numbers(script, "test RMSE, line alone")[0]
    assert float(re.search(r"test RMSE, line and \d+ rules: (\S+)", output(script))[1]) < alone
    scores = numbers(script, "test AUC with 0, 1, 2, 3 rules")
    assert scores[-1] > scores[0] > 0.7


def test_lines_in_leaves_need_fewer_trees():
    constants, lines = (numbers("plot_plgb.py", name) for name in ("XGB", "PLGB"))
    assert lines[0] < constants[0] and lines[1] < constants[1]


def test_freer_leaf_fits_have_smaller_training_errors():
    rows = output("plot_plgb_leaf_fits.py").splitlines()[1:7]
    errors = [float(line.split()[-1]) for line in rows]  # first without refitted leaves, then with
    assert errors[2] < errors[1] < errors[0]
    assert errors[5] < errors[4] < errors[3]


def test_permutation_is_not_misled():
    script = "plot_forest_importance_bias.py"
    useful, noise = (numbers(script, n) for n in ("informative, 2 values", "noise, all different"))
    assert useful[0] < noise[0]
    assert useful[1] > 4 * abs(noise[1])


def test_intervals_cover_what_they_promise():
    for level, inside in re.findall(
        r"^ *(\d+)% +([\d.]+)%", output("plot_forest_intervals.py"), re.M
    ):
        assert abs(float(inside) - float(level)) < 4


def test_a_committee_is_no_worse_than_its_mean_member():
    name = "plot_committee.py"
    accuracy, loss = numbers(name, "accuracy and log-loss, committee")
    mean_accuracy, mean_loss = numbers(name, "mean of the members")
    assert loss < mean_loss and accuracy > mean_accuracy - 0.005
    alone, together = numbers(name, "variance of 1 and of 40 members")
    assert together < 0.6 * alone
    (correlation,) = numbers(name, "correlation of two members")
    assert together == pytest.approx(alone * (correlation + (1 - correlation) / 40), rel=0.1)


def test_ensembles_beat_one_tree_on_heart_failure():
    script = "plot_heart_failure_ensembles.py"
    tree, *others = (
        numbers(script, name)[0]
        for name in ("tree", "AdaBoost", "gradient boosting", "XGB", "forest")
    )
    assert 0.7 < tree < max(others) < 0.95
