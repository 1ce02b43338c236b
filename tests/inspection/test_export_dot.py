"""Graphviz source is read back: its boxes and lines are those of the tree."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_texts import TreeModel, chain, holds, parse_dot, parse_set, random_tree, shown

from hybridtrees.inspection import export_dot

HOSTILE = [
    'a"b',
    "back\\slash",
    "new\nline",
    "naïve ☃",
    "\\N",
    "&lt;",
    "<b>",
    "]; x -> y",
    "\\",
    "{}|",
]


def predict_dot(nodes, edges, row: dict) -> float:
    """Follow the boxes of a tree of numbers, whose left child is drawn first."""
    children: dict[int, list[int]] = {}
    for parent, child in edges:
        children.setdefault(parent, []).append(child)
    k = 0
    while True:
        lines = shown(nodes[k]["label"]).split("\n")
        value = float(re.fullmatch(r"value = (.*)", lines[-1])[1])
        x = row[re.match(r"\w+", lines[0])[0]] if k in children else None
        if x is None or (x != x and "missing: stops here" in lines):
            return value
        k = children[k][0 if holds(lines[0], row) else 1]


@given(seed=st.integers(0, 10**6))
def test_dot_predicts_as_the_tree(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    tree = random_tree(rng, [None] * 3)
    model = TreeModel(tree).fit(X)
    nodes, edges = parse_dot(export_dot(model, precision=None, feature_names=["f0", "f1", "f2"]))
    assert len(nodes) == tree.n_nodes
    said = [predict_dot(nodes, edges, {f"f{j}": x for j, x in enumerate(row)}) for row in X]
    np.testing.assert_array_equal(said, model.predict(X))


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("filled", [False, True])
def test_hostile_names_are_shown_as_they_are(name, filled, rng):
    tree = random_tree(rng, [None] * 2, n_values=2, shares=True)
    model = TreeModel(tree, ["yes", "no"]).fit(rng.normal(size=(5, 2)))
    source = export_dot(
        model, feature_names=[name, "b"], class_names=[name, "c"], fontname=name, filled=filled
    )
    nodes, edges = parse_dot(source)
    assert len(nodes) == tree.n_nodes and len(edges) == tree.n_nodes - 1
    plain = name.replace("\n", "\\n")  # a line break in a name is spelt out
    for k, attributes in nodes.items():
        assert ("fillcolor" in attributes) == filled
        lines = shown(attributes["label"]).split("\n")
        assert lines[-1] == f"class = {[plain, 'c'][tree.values[k].argmax()]}"
        if tree.nodes["left"][k] >= 0:
            assert lines[0].startswith([plain, "b"][tree.nodes["feature"][k]] + " <= ")


@given(name=st.text(min_size=1), label=st.text(min_size=1))
def test_any_text_can_be_a_name(name, label):
    tree = chain(1)
    model = TreeModel(tree, criterion=None).fit(np.zeros((1, 1)))
    model._reader.categories = [np.array([label, "other"], dtype=object)]
    tree.nodes["category_start"][0], tree.nodes["category_words"][0] = 0, 1
    tree.categories = np.array([1], dtype=np.uint32)
    source = export_dot(model, feature_names=[name], show_missing=False)
    source.encode("utf-8")
    nodes, edges = parse_dot(source)
    assert edges == [(0, 1), (0, 2)] and len(nodes) == 3
    text = shown(nodes[0]["label"])
    if name.isprintable() and label.isprintable() and len(name + label) < 20:
        condition = text.split("\n")[0]
        assert condition.startswith(f"{name} in ")
        assert parse_set(condition[len(name) + 4 :]) == [label]


def test_contents_of_a_node(rng):
    tree = random_tree(rng, [None], n_splits=1, n_values=3, shares=True)
    tree.impurity = np.array([0.5, 0.25, 0.125])
    tree.nodes["n_samples"], tree.nodes["weight"] = [8, 6, 2], [8.0, 6.0, 2.0]
    tree.values[:] = [[0.25, 0.5, 0.25], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    tree.nodes["threshold"][0], tree.nodes["missing_left"][0] = 1.5, 1
    model = TreeModel(tree, ["a", "b", "c"]).fit(np.zeros((2, 1)))
    nodes, _ = parse_dot(export_dot(model, feature_names=["age"], node_ids=True))
    assert shown(nodes[0]["label"]).split("\n") == [
        "node #0",
        "age <= 1.5 or missing",
        "gini = 0.5",
        "samples = 8",
        "value = [2, 4, 2]",
        "class = b",
    ]
    options = {
        "label": "root",
        "impurity": False,
        "proportion": True,
        "class_names": ["x", "y", "z"],
    }
    nodes, _ = parse_dot(export_dot(model, **options))
    assert shown(nodes[0]["label"]).split("\n")[1:] == [
        "samples = 100%",
        "value = [0.25, 0.5, 0.25]",
        "class = y",
    ]
    assert shown(nodes[2]["label"]).split("\n") == ["25%", "[0, 0, 1]", "z"]
    tree.nodes["missing_left"][0] = 2
    nodes, _ = parse_dot(export_dot(model))
    assert "missing: stops here" in shown(nodes[0]["label"])


def test_looks_and_cut_branches(rng):
    tree = random_tree(rng, [None] * 2, n_splits=20)
    source = export_dot(
        tree, max_depth=2, filled=True, rounded=True, rotate=True, leaves_parallel=True
    )
    nodes, edges = parse_dot(source)
    depths = tree.nodes["depth"]
    assert set(nodes) == set(np.flatnonzero(depths <= 3))
    assert sorted(child for _, child in edges) == sorted(set(nodes) - {0})
    for k, attributes in nodes.items():
        assert (shown(attributes["label"]) == "(...)") == (depths[k] == 3)
    assert 'style="filled, rounded"' in source and "rankdir=LR" in source
    assert "rank=same" in source and 'headlabel="True"' in source


def test_colours_tell_classes_and_values(rng):
    tree = chain(2)
    colors = [parse_dot(export_dot(tree, filled=True))[0][k]["fillcolor"] for k in range(5)]
    assert colors[0] == '"#ffffff"' and len(set(colors)) == 5
    shares = random_tree(rng, [None], n_splits=2, n_values=3, shares=True)
    shares.values[:] = [[0.4, 0.4, 0.2], [1, 0, 0], [0.6, 0.4, 0], [0, 0.1, 0.9], [0, 0, 1]]
    model = TreeModel(shares, [0, 1, 2]).fit(np.zeros((2, 1)))
    nodes, _ = parse_dot(export_dot(model, filled=True))
    assert nodes[0]["fillcolor"] == '"#ffffff"'  # a tie is sure of nothing
    assert nodes[1]["fillcolor"] != nodes[2]["fillcolor"] != nodes[4]["fillcolor"]
    assert nodes[4]["fontcolor"] == '"white"' and nodes[1]["fontcolor"] == '"black"'


def test_files(tmp_path):
    source = export_dot(chain(1), feature_names=["☃"])
    path = tmp_path / "tree.dot"
    assert export_dot(chain(1), path, feature_names=["☃"]) is None
    assert path.read_text(encoding="utf-8") == source
    stream = io.StringIO()
    assert export_dot(chain(1), stream, feature_names=["☃"]) is None
    assert stream.getvalue() == source


def test_long_chains_and_bad_arguments():
    assert len(parse_dot(export_dot(chain(3000), max_depth=50))[0]) == 103
    assert export_dot(chain(3000)).count("->") == 6000
    with pytest.raises(ValueError, match="label must be one of 'all', 'root', 'none'"):
        export_dot(chain(1), label="some")
    with pytest.raises(TypeError, match="filled must be True or False"):
        export_dot(chain(1), filled=2)
    with pytest.raises(TypeError, match="fontname"):
        export_dot(chain(1), fontname=3)
