"""Shapley values by their definition: the sum over all coalitions."""

from itertools import combinations
from math import factorial

import numpy as np

from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.tree.tree import Tree, pack_categories


def shapley(value, n_players):
    """Values and interaction matrix of a game, `value` of a frozenset -> array of outputs."""
    known = {
        frozenset(s): np.atleast_1d(value(frozenset(s)))
        for size in range(n_players + 1)
        for s in combinations(range(n_players), size)
    }
    n_outputs = len(known[frozenset()])
    single, pairs = np.zeros((n_players, n_outputs)), np.zeros((n_players, n_players, n_outputs))
    for s, v in known.items():
        for i in set(range(n_players)) - s:
            weight = factorial(len(s)) * factorial(n_players - len(s) - 1) / factorial(n_players)
            single[i] += weight * (known[s | {i}] - v)
            for j in set(range(n_players)) - s - {i}:
                weight = factorial(len(s)) * factorial(n_players - len(s) - 2)
                both = known[s | {i, j}] - known[s | {i}] - known[s | {j}] + v
                pairs[i, j] += 0.5 * weight / factorial(n_players - 1) * both
    for i in range(n_players):
        pairs[i, i] = single[i] - pairs[i].sum(axis=0)
    return single, pairs, known[frozenset()]


def side(tree, node, x):
    """Where a value goes: 1 left, 0 right, 2 nowhere."""
    fields = tree.nodes[node]
    value, missing = x[fields["feature"]], int(fields["missing_left"])
    if fields["category_start"] < 0:
        return missing if np.isnan(value) else int(value <= fields["threshold"])
    if np.isnan(value) or value < 0 or value >= tree.first_unknown(node):
        return missing
    return int(int(value) in tree.category_set(node))


def line_parts(tree, node, x):
    """Constant of a node and the contribution of each term, (n_terms, n_outputs)."""
    terms = slice(tree.coef_ptr[node], tree.coef_ptr[node + 1])
    at = x[tree.coef_feature[terms]]
    clipped = np.clip(at, tree.coef_low[terms], tree.coef_high[terms])
    moved = np.where(np.isnan(at), 0.0, clipped - tree.coef_center[terms])
    start, parts = tree.values[node].copy(), moved[:, None] * tree.coef[terms]
    if tree.value_range is None:
        return start, parts
    low, high = tree.value_range[node]
    end, first = np.clip(start + parts.sum(axis=0), low, high), np.clip(start, low, high)
    total = parts.sum(axis=0)
    inside = (first == start) & (end == start + total)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.where(total != 0, (end - first) / total, 0.0)
    return first, parts * np.where(inside, 1.0, scale)


def _leaf(tree, node, x, other, players, player):
    """Value of a node for a coalition; absent regressors are those of `other`, or add nothing."""
    start, parts = line_parts(tree, node, x)
    feature = tree.coef_feature[tree.coef_ptr[node] : tree.coef_ptr[node + 1]]
    here = np.array([player[f] in players for f in feature], dtype=bool)[:, None]
    absent = np.zeros_like(parts) if other is None else line_parts(tree, node, other)[1]
    return start + np.where(here, parts, absent).sum(axis=0)


def shares_of(tree, node):
    """Shares of the rows of a node that go right, left and stay."""
    fields = tree.nodes[node]
    for name in ("weight", "n_samples"):
        own = [float(tree.nodes[name][fields[side]]) for side in ("right", "left")]
        stay = float(fields[name]) - sum(own) if fields["missing_left"] == 2 else 0.0
        found = np.array([*own, max(stay, 0.0)])
        if found.sum() > 0:
            return found / found.sum()
    return np.array([0.5, 0.5, 0.0])


def path_game(tree, x, player):
    """The game whose absent features go both ways, by the shares of the training rows."""

    def value(players, node=0):
        fields = tree.nodes[node]
        if fields["left"] < 0:
            return _leaf(tree, node, x, None, players, player)
        ways = np.zeros(3)
        if player[fields["feature"]] in players:
            ways[side(tree, node, x)] = 1.0
        else:
            ways = shares_of(tree, node)
        total = ways[0] * value(players, fields["right"])
        total = total + ways[1] * value(players, fields["left"])
        return total + ways[2] * _leaf(tree, node, x, None, players, player)

    return value


def background_game(tree, x, background, player):
    """The game whose absent features have the values of the rows of a table."""

    def one(players, other):
        here = np.isin(player, list(players))
        mixed = np.where(here, x, other)
        node = 0
        while tree.nodes["left"][node] >= 0:
            way = side(tree, node, mixed)
            if way == 2:
                break
            node = tree.nodes["left" if way == 1 else "right"][node]
        return _leaf(tree, node, x, other, players, player)

    return lambda players: np.mean([one(players, other) for other in background], axis=0)


# ---- Random trees -------------------------------------------------------------------------------


def random_tree(rng, n_features, depth, *, n_values=1, lines=0, clipped=False, bounded=False,
                stays=False, weightless=False):  # fmt: skip
    """A tree of any form; the last feature holds the codes of 5 categories."""
    nodes, words = [], []

    def grow(level, parent, weight):
        at = len(nodes)
        node = np.zeros((), dtype=NODE_DTYPE)
        node["left"] = node["right"] = node["feature"] = node["category_start"] = -1
        node["parent"], node["depth"], node["weight"] = parent, level, weight
        node["n_samples"] = round(100 * weight)
        nodes.append(node)
        if level == depth or (level > 0 and rng.random() < 0.2):
            return at
        node["feature"] = rng.integers(n_features)
        node["missing_left"] = rng.integers(3 if stays else 2)
        node["threshold"] = rng.normal()
        if node["feature"] == n_features - 1:
            packed, limit = pack_categories(rng.random(5) < 0.5, bool(rng.integers(2)))
            node["category_start"] = sum(map(len, words))
            node["category_words"], node["category_limit"] = len(packed), limit
            words.append(packed)
        stay = rng.uniform(0, 0.3) if node["missing_left"] == 2 else 0.0
        left = rng.random() * (1 - stay)
        if weightless and rng.random() < 0.3:
            left = 0.0
        node["left"] = grow(level + 1, at, weight * left)
        node["right"] = grow(level + 1, at, weight * (1 - stay - left))
        return at

    grow(0, -1, 1.0)
    n = len(nodes)
    counts = rng.integers(0, lines + 1, size=n)
    feature = [np.sort(rng.choice(n_features - 1, min(c, n_features - 1), False)) for c in counts]
    n_terms = sum(map(len, feature))
    extra = {}
    if clipped:
        low = rng.normal(size=n_terms) - 0.5
        extra = {"coef_low": low, "coef_high": low + rng.random(n_terms)}
    values = rng.normal(size=(n, n_values))
    if bounded:
        low = values - rng.random((n, n_values)) + 0.2
        extra["value_range"] = np.stack([low, low + rng.random((n, n_values))], axis=1)
    return Tree(
        np.array(nodes), values, np.concatenate([np.zeros(0, np.uint32), *words]),
        np.concatenate([[0], np.cumsum([len(f) for f in feature])]),
        np.concatenate([np.zeros(0, int), *feature]), rng.normal(size=(n_terms, n_values)),
        rng.normal(size=n_terms), **extra,
    )  # fmt: skip


def random_rows(rng, n, n_features):
    X = rng.normal(size=(n, n_features))
    X[:, -1] = rng.integers(-1, 8, size=n)
    X[rng.random(X.shape) < 0.15] = np.nan
    return X
