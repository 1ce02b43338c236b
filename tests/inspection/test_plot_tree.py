"""Drawings of trees: where the boxes stand and what is in them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_texts import TreeModel, chain, random_tree

from hybridtrees.inspection import plot_tree
from hybridtrees.inspection._drawing import tidy_positions


@pytest.fixture
def plt():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


@given(seed=st.integers(0, 10**6), n_splits=st.integers(0, 60))
def test_layout_is_tidy(seed, n_splits):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, [None], n_splits=n_splits)
    left, right = tree.nodes["left"].tolist(), tree.nodes["right"].tolist()
    widths = rng.random(tree.n_nodes) + 0.2
    x = tidy_positions(left, right, widths.tolist(), 0.5)
    assert np.isclose((x - widths / 2).min(), 0)
    inner = tree.nodes["left"] >= 0
    children = x[tree.nodes["left"][inner]], x[tree.nodes["right"][inner]]
    np.testing.assert_allclose(x[inner], (children[0] + children[1]) / 2)
    assert np.all(children[0] < children[1])
    for depth in range(tree.depth + 1):
        level = np.flatnonzero(tree.nodes["depth"] == depth)
        order = level[np.argsort(x[level])]
        room = x[order[1:]] - x[order[:-1]] - (widths[order[1:]] + widths[order[:-1]]) / 2
        assert np.all(room > 0.5 - 1e-9), "boxes of one level overlap"


def test_layout_is_as_narrow_as_it_can_be():
    # A root with two leaves: they touch, but for the gap.
    np.testing.assert_allclose(tidy_positions([1, -1, -1], [2, -1, -1], [1, 2, 4], 1.0), [3, 1, 5])


def test_layout_of_long_chains():
    tree = chain(5000)
    x = tidy_positions(tree.nodes["left"].tolist(), tree.nodes["right"].tolist(), [1.0] * 10001, 1)
    assert np.all(np.diff(x[::2]) > 0)


def boxes(figure, artists, n_nodes):
    figure.canvas.draw()
    return [artist.get_bbox_patch().get_window_extent() for artist in artists[:n_nodes]]


@pytest.mark.parametrize("n_splits", [0, 1, 5, 20])
def test_boxes_fit_the_axes_and_do_not_overlap(plt, rng, n_splits):
    tree = random_tree(rng, [None] * 3, n_splits=n_splits)
    figure, ax = plt.subplots(figsize=(12, 8))
    artists = plot_tree(tree, ax=ax, filled=True, rounded=True)
    found = boxes(figure, artists, tree.n_nodes)
    area = ax.get_window_extent()
    for k, one in enumerate(found):
        assert area.x0 - 2 <= one.x0 and one.x1 <= area.x1 + 2
        assert area.y0 - 2 <= one.y0 and one.y1 <= area.y1 + 2
        assert not any(one.overlaps(other) for other in found[:k])
    for k in np.flatnonzero(tree.nodes["left"] >= 0):
        left, right = found[tree.nodes["left"][k]], found[tree.nodes["right"][k]]
        assert left.x1 < right.x0 and max(left.y1, right.y1) < found[k].y0
    assert [artist.arrow_patch is None for artist in artists[: tree.n_nodes]] == [
        k == 0 for k in range(tree.n_nodes)
    ]
    words = [artist.get_text().strip() for artist in artists[tree.n_nodes :]]
    assert words == (["True", "False"] if n_splits else [])


def test_text_and_colour(plt, rng):
    tree = random_tree(rng, [None] * 2, n_splits=6, n_values=2, shares=True)
    tree.impurity = rng.random(tree.n_nodes)
    model = TreeModel(tree, ["no $x^2$", "yes"]).fit(rng.normal(size=(4, 2)))
    artists = plot_tree(model, feature_names=["$a_1$", "b"], filled=True, node_ids=True)
    lines = artists[0].get_text().split("\n")
    assert lines[0] == "node #0" and lines[2].startswith("gini = ")
    assert lines[-1] in ("class = no $x^2$", "class = yes")
    plt.gcf().canvas.draw()  # dollars are no formulas, so nothing can fail to be set
    fills = {artist.get_bbox_patch().get_facecolor() for artist in artists[: tree.n_nodes]}
    assert len(fills) == tree.n_nodes
    cut = plot_tree(model, max_depth=1)
    shown = [
        artist.get_text() for artist in cut if artist.get_text().strip() not in ("True", "False")
    ]
    assert len(shown) == np.count_nonzero(tree.nodes["depth"] <= 2)
    assert shown.count("(...)") == np.count_nonzero(tree.nodes["depth"] == 2)


def test_arguments(plt):
    artists = plot_tree(chain(2), fontsize=7)
    assert {artist.get_fontsize() for artist in artists} == {7}
    with pytest.raises(ValueError, match="fontsize must be a real number greater than 0 or None"):
        plot_tree(chain(2), fontsize=0)
    with pytest.raises(TypeError, match="rounded"):
        plot_tree(chain(2), rounded=None)


def test_without_matplotlib():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from hybridtrees.inspection import plot_tree, export_text\n"
        "import tree_texts\n"
        "export_text(tree_texts.chain(1))\n"
        "try: plot_tree(tree_texts.chain(1))\n"
        "except ImportError as error: print(error)\n"
    )
    path = [p for p in sys.path if p]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"],
        capture_output=True,
        text=True,
    )
    assert "drawing needs matplotlib" in done.stdout, done.stderr
