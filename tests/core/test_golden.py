"""Tiny trees that were worked out on paper; `golden/trees.json` shows the working.

They check the engine and the oracle alike, and are never written by either.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import oracle
import pytest
from strategies import grow_tree, make_binned, values_of

from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.tree.tree import Tree, TreeEnsemble

CASES = json.loads(Path(__file__).parents[1].joinpath("golden", "trees.json").read_text())
LEAF = {"feature": -1, "threshold": "0", "missing_left": 0, "left": -1, "right": -1, "gain": "0"}


def number(text: str) -> float:
    return float("inf") if text == "inf" else float(Fraction(text))


def load(case):
    binned = make_binned(case["codes"], case["n_bins"], case["categorical"])
    grad = np.array(case["grad"], dtype=np.float32)
    hess = case["hess"]
    hess = np.array(hess, dtype=np.float32) if isinstance(hess, list) else float(hess)
    return binned, grad, hess, GrowerParams(**case["params"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_engine(case, n_threads):
    binned, grad, hess, params = load(case)
    tree = grow_tree(binned, grad, hess, params, n_threads=n_threads)
    assert tree.n_nodes == len(case["nodes"])
    for k, expected in enumerate(case["nodes"]):
        node, expected = tree.nodes[k], LEAF | expected
        for name in ("feature", "missing_left", "left", "right"):
            assert node[name] == expected[name], (k, name)
        assert node["n_samples"] == expected["n"]
        np.testing.assert_allclose(node["gain"], number(expected["gain"]), rtol=1e-12)
        np.testing.assert_allclose(tree.values[k, 0], number(expected["value"]), rtol=1e-12)
        if "categories" in expected:
            known = oracle.known_categories(tree, k, case["n_bins"][expected["feature"]])
            assert sorted(known) == expected["categories"]
        else:
            assert node["threshold"] == number(expected["threshold"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_oracle_takes_the_golden_tree_for_right(case):
    binned, grad, hess, params = load(case)
    oracle.check_tree(golden_tree(case, binned, hess), binned, grad, hess, params)


@pytest.mark.parametrize("case", [c for c in CASES if len(c["nodes"]) > 1], ids=lambda c: c["name"])
def test_oracle_takes_other_trees_for_wrong(case):
    binned, grad, hess, params = load(case)
    for field, change in [("gain", 0.01), ("missing_left", 1), ("depth", 1), ("n_samples", 1)]:
        tree = golden_tree(case, binned, hess)
        tree.nodes[field][0] = (
            1 - tree.nodes[field][0] if change == 1 else tree.nodes[field][0] + change
        )
        with pytest.raises(AssertionError):
            oracle.check_tree(tree, binned, grad, hess, params)
    tree = golden_tree(case, binned, hess)
    tree.values[-1] += 0.01
    with pytest.raises(AssertionError):
        oracle.check_tree(tree, binned, grad, hess, params)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_prediction(case):
    # The value of a row is that of the only leaf on whose side it stands all the way.
    binned, grad, hess, params = load(case)
    tree = grow_tree(binned, grad, hess, params)
    X = values_of(binned)
    leaf = TreeEnsemble([tree], X.shape[1]).apply(X, 1)[:, 0]
    np.testing.assert_array_equal(leaf, oracle.leaves([tree], X)[:, 0])
    counts = np.bincount(leaf, minlength=tree.n_nodes)
    for k, expected in enumerate(case["nodes"]):
        assert counts[k] == (0 if "left" in expected else expected["n"])


def golden_tree(case, binned, hess):
    """The tree of the file as arrays, with what follows from it filled in."""
    tree = TreeEnsemble([_tree(case)], binned.n_features)[0]
    leaves = oracle.leaves([tree], values_of(binned))[:, 0]
    weights = np.broadcast_to(np.asarray(hess, dtype=np.float64), len(leaves))
    tree.nodes["weight"] = np.bincount(leaves, weights, minlength=tree.n_nodes)
    for k in range(tree.n_nodes - 1, 0, -1):
        tree.nodes["weight"][tree.nodes["parent"][k]] += tree.nodes["weight"][k]
    return tree


def _tree(case):
    nodes = np.zeros(len(case["nodes"]), dtype=NODE_DTYPE)
    nodes["category_start"] = nodes["parent"] = -1
    words = []
    for k, expected in enumerate(LEAF | node for node in case["nodes"]):
        for name in ("feature", "missing_left", "left", "right"):
            nodes[name][k] = expected[name]
        nodes["n_samples"][k] = expected["n"]
        nodes["gain"][k] = number(expected["gain"])
        nodes["threshold"][k] = number(expected["threshold"])
        if expected["left"] < 0:
            continue
        children = [expected["left"], expected["right"]]
        nodes["parent"][children] = k
        nodes["depth"][children] = nodes["depth"][k] + 1
        if "categories" in expected:
            nodes["category_start"][k], nodes["category_words"][k] = len(words), 1
            words.append(sum(1 << c for c in expected["categories"]))
        else:
            nodes["bin"][k] = (
                min(nodes["threshold"][k] + 0.5, case["n_bins"][expected["feature"]]) - 1
            )
    values = [number(node["value"]) for node in case["nodes"]]
    return Tree(nodes, values, np.array(words, dtype=np.uint32))
