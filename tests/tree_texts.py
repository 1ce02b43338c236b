"""Random trees, models that hold one, and readers of what the exports have written."""

from __future__ import annotations

import html
import json
import math
import re

import numpy as np

from hybridtrees.base import Estimator
from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.tree.tree import Tree

LABELS = [
    "red",
    "deep blue",
    "a, b",
    'say "no"',
    "{x}",
    "naïve",
    " lead",
    "back\\slash",
    "or missing",
]


class TreeModel(Estimator):
    """A tree made by hand; predicts by walking it row by row."""

    def __init__(self, tree=None, classes=None, criterion="gini"):
        self.tree = tree
        self.classes = classes
        self.criterion = criterion

    def fit(self, X, y=None):
        self._fit_features(X)
        self.tree_ = self.tree
        if self.classes is not None:
            self.classes_ = np.asarray(self.classes)
        return self

    def predict_raw(self, X):
        return walk(self.tree_, self._read_features(X))

    def predict(self, X):
        raw = self.predict_raw(X)
        if self.classes is not None:
            return self.classes_[raw.argmax(axis=1)]
        return raw[:, 0]


def walk(tree: Tree, values: np.ndarray) -> np.ndarray:
    """Values of the nodes at which rows end, with their linear parts."""
    out = np.empty((len(values), tree.values.shape[1]))
    for i, row in enumerate(values):
        k = 0
        while tree.nodes["left"][k] >= 0:
            node = tree.nodes[k]
            x = row[node["feature"]]
            is_set = node["category_start"] >= 0
            if math.isnan(x) or (is_set and x >= tree.first_unknown(k)):
                if node["missing_left"] == 2:
                    break
                left = node["missing_left"] == 1
            else:
                left = x in tree.category_set(k) if is_set else x <= node["threshold"]
            k = node["left"] if left else node["right"]
        out[i] = tree.values[k]
        for t in range(tree.coef_ptr[k], tree.coef_ptr[k + 1]):
            x = row[tree.coef_feature[t]]
            if not math.isnan(x):
                out[i] += tree.coef[t] * (x - tree.coef_center[t])
    return out


def random_tree(rng, n_categories, *, n_splits=12, n_values=1, shares=False, linear=False) -> Tree:
    """Tree that splits random leaves; `n_categories` holds None for numeric features."""
    nodes = np.zeros(2 * n_splits + 1, dtype=NODE_DTYPE)
    for name in ("left", "right", "parent", "feature", "category_start"):
        nodes[name] = -1
    words = []
    leaves, n_nodes = [0], 1
    for _ in range(n_splits):
        k = leaves.pop(rng.integers(len(leaves)))
        node = nodes[k]
        node["feature"] = rng.integers(len(n_categories))
        node["missing_left"] = rng.integers(3)
        n = n_categories[node["feature"]]
        if n is None:
            node["threshold"] = rng.normal()
        else:
            # Fewer words than it takes for all codes: those past the end count as missing.
            n_words = int(rng.integers(1, (n - 1) // 32 + 2))
            node["category_start"], node["category_words"] = len(words), n_words
            words += rng.integers(0, 2**32, node["category_words"], dtype=np.uint64).tolist()
        for side in ("left", "right"):
            node[side] = n_nodes
            nodes[n_nodes]["parent"], nodes[n_nodes]["depth"] = k, node["depth"] + 1
            leaves.append(n_nodes)
            n_nodes += 1
    nodes["n_samples"] = rng.integers(1, 100, n_nodes)
    nodes["weight"] = rng.random(n_nodes) * 50
    values = rng.normal(size=(n_nodes, n_values)) * 3
    if shares:
        values = rng.dirichlet(np.ones(n_values), size=n_nodes)
    tree = Tree(nodes, values, np.array(words, dtype=np.uint32))
    numeric = [j for j, n in enumerate(n_categories) if n is None]
    if linear:
        counts = np.where(rng.random(n_nodes) < 0.8, rng.integers(1, 4, n_nodes), 0)
        tree.coef_ptr = np.concatenate([[0], np.cumsum(counts)])
        tree.coef_feature = rng.choice(numeric, counts.sum()).astype(np.int32)
        tree.coef = rng.normal(size=counts.sum())
        tree.coef_center = rng.normal(size=counts.sum()) * (rng.random(counts.sum()) < 0.7)
    return tree


def from_sklearn(theirs) -> Tree:
    """Tree with the arrays of a scikit-learn tree."""
    nodes = np.zeros(theirs.node_count, dtype=NODE_DTYPE)
    nodes["left"], nodes["right"] = theirs.children_left, theirs.children_right
    nodes["feature"] = np.maximum(theirs.feature, -1)
    nodes["threshold"] = theirs.threshold
    nodes["n_samples"], nodes["weight"] = theirs.n_node_samples, theirs.weighted_n_node_samples
    nodes["category_start"] = nodes["parent"] = -1
    for k in np.flatnonzero(nodes["left"] >= 0):
        children = [nodes["left"][k], nodes["right"][k]]
        nodes["parent"][children], nodes["depth"][children] = k, nodes["depth"][k] + 1
    tree = Tree(nodes, theirs.value.reshape(theirs.node_count, -1))
    tree.impurity = theirs.impurity.copy()
    return tree


def chain(n_levels: int) -> Tree:
    """Tree whose right children split on and on."""
    nodes = np.zeros(2 * n_levels + 1, dtype=NODE_DTYPE)
    nodes["left"] = nodes["right"] = nodes["parent"] = nodes["category_start"] = -1
    for k in range(n_levels):
        node = nodes[2 * k]
        node["left"], node["right"], node["threshold"] = 2 * k + 1, 2 * k + 2, k
        nodes["parent"][[2 * k + 1, 2 * k + 2]] = 2 * k
        nodes["depth"][[2 * k + 1, 2 * k + 2]] = k + 1
    nodes["n_samples"] = 1
    return Tree(nodes, np.arange(2.0 * n_levels + 1))


# -- reading text ---------------------------------------------------------------------------------

_LINE = re.compile(r"((?:\|   )*)\|--- (.*)")
_CONDITION = re.compile(r"(\w+) (<=|> |in|not in|is) (.*?)( or missing)?")
_ITEM = re.compile(r'"(?:[^"\\]|\\.)*"|[^,{}"]+')


def parse_text(text: str) -> list[tuple[int, str]]:
    """Lines as (level, rest)."""
    lines = []
    for line in text.rstrip("\n").split("\n"):
        indent, rest = _LINE.fullmatch(line).groups()
        lines.append((len(indent) // 4, rest))
    return lines


def predict_text(lines, row: dict):
    """What the lines say of a row: a class name, or a list of numbers."""
    k = 0
    while True:
        level, rest = lines[k]
        if re.match(r"class: |weights: ", rest):
            return re.search(r"class: (.*)", rest)[1]
        if rest.startswith("value: "):
            return [float(v) for v in re.match(r"value: \[(.*?)\]", rest)[1].split(",")]
        if rest.startswith("y = "):
            return [evaluate(rest, row)]
        if holds(rest, row):
            k += 1
        else:
            k += 1
            while lines[k][0] > level:
                k += 1
            assert lines[k][0] == level, "no branch is meant for the row"


def holds(condition: str, row: dict) -> bool:
    name, operator, rest, or_missing = _CONDITION.fullmatch(condition).groups()
    x = row[name]
    if x is None or x != x:
        return operator == "is" or or_missing is not None
    if operator == "is":
        return rest != "missing" and x in parse_set(rest.removeprefix("missing or in "))
    if operator in ("in", "not in"):
        return (x in parse_set(rest)) == (operator == "in")
    return x <= float(rest) if operator == "<=" else x > float(rest)


def parse_set(text: str) -> list[str]:
    assert text[0] == "{" and text[-1] == "}"
    items = [item.strip() for item in _ITEM.findall(text[1:-1])]
    return [json.loads(item) if item[0] == '"' else item for item in items if item]


def evaluate(equation: str, row: dict) -> float:
    constant, *terms = re.split(r" (?=[+-] [\d.e+-]+\*)", equation[4:])
    total = float(constant)
    for term in terms:
        sign, size, name, center = re.fullmatch(
            r"([+-]) ([^*]+)\*\(?(\w+)(?: ([+-] [^)]+)\))?", term
        ).groups()
        x = row[name]
        if x == x:
            shift = float(center.replace(" ", "")) if center else 0.0
            total += float(sign + size) * (x + shift)
    return total


# -- reading Graphviz -----------------------------------------------------------------------------

_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([\w.#-]+(?<!-))|(->)|(.))', re.DOTALL)


def parse_dot(source: str):
    """Nodes (id to attributes) and edges of a digraph; anything out of place raises."""
    tokens = []
    rest = source.strip()
    while rest:
        match = _TOKEN.match(rest)
        tokens.append(match[0].strip())
        rest = rest[match.end() :].lstrip()
    assert tokens[:3] == ["digraph", "Tree", "{"] and tokens[-1] == "}"
    nodes, edges, statement, braces = {}, [], [], 0
    for token in tokens[3:-1]:
        braces += (token == "{") - (token == "}")
        if token != ";" or braces:
            statement.append(token)
            continue
        if statement[0].isdigit() and statement[1:2] == ["->"]:
            edges.append((int(statement[0]), int(statement[2])))
        elif statement[0].isdigit():
            nodes[int(statement[0])] = _attributes(statement[1:])
        else:
            assert statement[0] in ("node", "edge", "graph", "rankdir", "{"), statement
        statement = []
    assert not statement
    return nodes, edges


def _attributes(tokens: list[str]) -> dict[str, str]:
    assert tokens[0] == "[" and tokens[-1] == "]", tokens
    found = {}
    inner = tokens[1:-1]
    for k in range(0, len(inner), 4):
        assert inner[k + 1] == "=" and inner[k + 3 : k + 4] in ([","], []), inner
        found[inner[k]] = inner[k + 2]
    return found


def shown(quoted: str) -> str:
    """Text that Graphviz shows for a quoted label."""
    assert quoted[0] == quoted[-1] == '"'
    text = re.sub(
        r"\\(.)", lambda m: {"n": "\n", "\\": "\\", '"': '"'}[m[1]], quoted[1:-1], flags=re.DOTALL
    )
    return html.unescape(text)
