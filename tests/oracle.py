"""Slow, obvious versions of the kernels, which the tests compare the engine with.

Nothing here shares code with the engine, and nothing is clever: sums run over boolean masks of
rows, a split is found by trying every candidate, a tree is walked row by row. Candidates are
listed in the order in which they win ties: missing values right, then left; lower bins first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

# ---- statistics and histograms ------------------------------------------------------------------


def power_of_two_step(largest: float, bits: int) -> float:
    """Smallest power of two of which `largest` is less than 2**bits steps."""
    if largest == 0:
        return 1.0
    step = 2.0**-400
    while largest / step >= 2.0**bits:
        step *= 2.0
    return step


def quantise(values, unit: float, limit: int | None = None) -> np.ndarray:
    """Whole steps, halves away from zero, cut off at +-limit."""
    steps = np.asarray(values, dtype=np.float64) / unit
    whole = (np.sign(steps) * np.floor(np.abs(steps) + 0.5)).astype(np.int64)
    return whole if limit is None else np.clip(whole, -limit, limit)


def histogram(binned, grad, hess, rows=None) -> list[np.ndarray]:
    """For each feature an array (n_bins + 1, 3): sum of grad, sum of hess, number of rows."""
    rows = np.arange(binned.n_rows) if rows is None else np.asarray(rows)
    tables = []
    for feature in range(binned.n_features):
        table = np.zeros((binned.n_bins[feature] + 1, 3), dtype=np.asarray(grad).dtype)
        codes = binned.columns[feature, rows]
        np.add.at(table[:, 0], codes, grad[rows])
        np.add.at(table[:, 1], codes, hess[rows])
        np.add.at(table[:, 2], codes, 1)
        tables.append(table)
    return tables


# ---- scores -------------------------------------------------------------------------------------


def soft_threshold(value: float, alpha: float) -> float:
    return max(value - alpha, 0.0) + min(value + alpha, 0.0)


def leaf_value(grad: float, hess: float, params) -> float:
    """Minimiser of G w + (H + lambda) w^2 / 2 + alpha |w| over |w| <= max_delta_step."""
    if hess + params.reg_lambda <= 0:
        return 0.0
    value = -soft_threshold(grad, params.reg_alpha) / (hess + params.reg_lambda)
    limit = params.max_delta_step
    return float(np.clip(value, -limit, limit)) if limit > 0 else value


def score(grad: float, hess: float, params) -> float:
    """Twice what the best leaf value takes off the penalised loss."""
    if hess + params.reg_lambda <= 0:
        return 0.0
    if params.max_delta_step <= 0:
        return soft_threshold(grad, params.reg_alpha) ** 2 / (hess + params.reg_lambda)
    w = leaf_value(grad, hess, params)
    return -(2 * grad * w + (hess + params.reg_lambda) * w * w + 2 * params.reg_alpha * np.abs(w))


# ---- split search -------------------------------------------------------------------------------


@dataclass
class Split:
    """A candidate: what it is, which rows of the node go left, what it gains."""

    feature: int
    name: object  # last bin on the left, or the set of categories there
    missing_left: bool
    goes_left: np.ndarray
    gain: float = -np.inf


def numeric_candidates(codes, feature: int, n_bins: int) -> list[Split]:
    missing = codes == n_bins
    # Beyond the last value bin there is only the missing bin: a cut there parts values from it.
    last = n_bins if missing.any() else n_bins - 1
    found = [Split(feature, b, False, (codes <= b) & ~missing) for b in range(last)]
    if missing.any():
        found += [Split(feature, b, True, (codes <= b) | missing) for b in range(n_bins - 1)]
    return found


def is_smoothed(n_bins: int, params) -> bool:
    """Whether sets of so many categories have groups of a least size and a penalty."""
    return n_bins > 4 and n_bins > params.max_cat_to_onehot


def group_ends(cuts, codes, hess, params, known) -> list[set]:
    """The cuts between which there are enough known rows, by their hessians."""
    found, before = [], 0.0
    rows, need = len(codes) / hess.sum(), params.min_data_per_group * (1 - 1e-9)
    for cut in cuts:
        left = hess[np.isin(codes, list(cut))].sum() * rows
        if need < 1 or (left - before >= need and hess[known].sum() * rows - left >= need):
            found.append(cut)
            before = left
    return found


def category_candidates(codes, feature: int, n_bins: int, grad, hess, params) -> list[Split]:
    missing = codes == n_bins
    present = [c for c in range(n_bins) if (codes == c).any()]
    smoothed = is_smoothed(n_bins, params)
    share = params.cat_smooth / len(codes) if smoothed else 0.0
    more, more_hess = share * grad.sum(), share * hess.sum()
    weight = {
        c: leaf_value(grad[codes == c].sum() + more, hess[codes == c].sum() + more_hess, params)
        for c in present
    }
    order = sorted(present, key=lambda c: (weight[c], c))
    if n_bins <= params.max_cat_to_onehot:
        # Each category alone; and where there are missing rows, all categories against those.
        with_rest, with_them = [{c} for c in order], [{c} for c in order]
        last = [set(order)] if missing.any() and order else []
    else:
        cuts = [set(order[: k + 1]) for k in range(len(order))]
        with_rest, with_them = cuts if missing.any() else cuts[:-1], cuts[:-1]
        last = []
    if smoothed:
        whole = [set(order)] if missing.any() and order else []
        with_rest = [*group_ends(with_them, codes, hess, params, ~missing), *whole]
        with_them = group_ends(with_them, codes, hess, params, ~missing)
    found = [Split(feature, s, False, np.isin(codes, list(s))) for s in with_rest]
    if missing.any():
        found += [Split(feature, s, True, np.isin(codes, list(s)) | missing) for s in with_them]
    return found + [Split(feature, s, False, np.isin(codes, list(s))) for s in last]


def all_subsets_score(codes, grad, hess, params) -> float:
    """Best sum of child scores over every division of the codes; missing is one of them."""
    groups = np.unique(codes)
    best = -np.inf
    for size in range(1, len(groups)):
        for chosen in combinations(groups, size):
            left = np.isin(codes, chosen)
            both = [score(grad[side].sum(), hess[side].sum(), params) for side in (left, ~left)]
            best = max(best, sum(both))
    return best


def admissible(split: Split, hess, params) -> bool:
    for side in (split.goes_left, ~split.goes_left):
        if side.sum() < params.min_samples_leaf:
            return False
        if hess[side].sum() <= 0 or hess[side].sum() < params.min_child_weight:
            return False
    return True


def candidates(binned, feature: int, rows, grad, hess, params) -> list[Split]:
    """All admissible splits of a node on one feature, with their gains."""
    codes, grad, hess = binned.columns[feature, rows], grad[rows], hess[rows]
    n_bins = int(binned.n_bins[feature])
    if binned.is_categorical[feature]:
        found = category_candidates(codes, feature, n_bins, grad, hess, params)
    else:
        found = numeric_candidates(codes, feature, n_bins)
    found = [split for split in found if admissible(split, hess, params)]
    sides = params
    if binned.is_categorical[feature] and is_smoothed(n_bins, params):
        sides = replace(params, reg_lambda=params.reg_lambda + params.cat_l2)
    for split in found:
        left_grad, left_hess = grad[split.goes_left].sum(), hess[split.goes_left].sum()
        split.gain = (
            score(left_grad, left_hess, sides)
            + score(grad.sum() - left_grad, hess.sum() - left_hess, sides)
            - score(grad.sum(), hess.sum(), params)
        )
        if not (codes == n_bins).any():
            # Nothing to learn the direction from: the heavier child.
            split.missing_left = bool(2 * left_hess > hess.sum())
    return found


# ---- trees --------------------------------------------------------------------------------------

# Gains closer than this share of the scores are a tie between features; the lower one has it.
TIE = 1e-7


@dataclass
class Options:
    """What the oracle knows about one node."""

    rows: np.ndarray
    node_score: float
    by_feature: dict[int, list[Split]]
    best: Split | None = None

    def slack(self, rtol: float) -> float:
        return rtol * (self.node_score + (self.best.gain if self.best else 0.0))


def options(binned, grad, hess, rows, params, features=None) -> Options:
    """Try everything at one node. `grad` and `hess` are float64 of all rows."""
    features = range(binned.n_features) if features is None else features
    node_score = score(grad[rows].sum(), hess[rows].sum(), params)
    found = {f: candidates(binned, f, rows, grad, hess, params) for f in features}
    result = Options(rows, node_score, found)
    # What rounding alone could bring is no gain.
    least = max(params.min_gain, 1e-12 * node_score)
    for splits in found.values():
        best = max(splits, key=lambda split: split.gain, default=None)
        if best is None or best.gain <= 0 or best.gain < least:
            continue
        now = result.best
        if now is None or best.gain > now.gain + TIE * (node_score + now.gain):
            result.best = best
    return result


def may_split(rows, depth: int, hess, params) -> bool:
    return (
        (params.max_depth <= 0 or depth < params.max_depth)
        and len(rows) >= max(2, params.min_samples_split)
        and len(rows) >= 2 * params.min_samples_leaf
        and hess[rows].sum() >= 2 * params.min_child_weight
    )


def known_categories(tree, k: int, n_bins: int) -> set[int]:
    """Categories on the left, those that the table does not have left out."""
    return {int(c) for c in tree.category_set(k) if c < n_bins}


def check_split(tree, k: int, node: Options, binned, rtol: float) -> np.ndarray:
    """Assert that a node's split is a best one; return which of its rows go left."""
    record = tree.nodes[k]
    feature = int(record["feature"])
    if feature != node.best.feature:
        assert rtol > TIE, f"node {k} is split on {feature}, not on {node.best.feature}"
    n_bins = int(binned.n_bins[feature])
    if binned.is_categorical[feature]:
        left = known_categories(tree, k, n_bins)
        seen = {int(c) for c in binned.columns[feature][node.rows] if c < n_bins}
        name = left & seen
        # Categories that the node has not seen go one way, that of its heavier child.
        assert left - seen in (set(), set(range(n_bins)) - seen), k
        if len(seen) < n_bins:
            children = tree.nodes["weight"][[record["left"], record["right"]]]
            clear = abs(children[0] - children[1]) > 1e-6 * children.sum()
            assert not clear or bool(left - seen) == (children[0] > children[1]), k
    else:
        name = int(record["bin"])
        edges = np.append(binned.bin_edges[feature], np.inf)
        assert (record["threshold"], record["category_start"]) == (edges[name], -1), k
    own = node.by_feature[feature]
    chosen = [s for s in own if (s.name, s.missing_left) == (name, bool(record["missing_left"]))]
    assert chosen, f"node {k}: {name} with missing_left {record['missing_left']} is no candidate"
    split = chosen[0]
    # Within a feature a true tie may fall either way by rounding, but not between candidates that
    # divide the rows alike.
    assert split.gain >= node.best.gain - node.slack(rtol), f"node {k} could gain more"
    twins = [s for s in own if np.array_equal(s.goes_left, split.goes_left)]
    assert twins[0] is split, f"node {k}: {twins[0].name} divides the rows alike and comes first"
    np.testing.assert_allclose(record["gain"], split.gain, rtol=rtol, atol=node.slack(rtol))
    return split.goes_left


def check_tree(
    tree, binned, grad, hess, params, *, rows=None, features=None, scale=1.0, rtol=1e-9
) -> dict[int, np.ndarray]:
    """Assert that a tree is one that the rules lead to, node by node, in their order.

    Returns the rows of every node. `rtol` is what the integers of the engine may differ from
    `grad` and `hess`.
    """
    grad = np.asarray(grad, dtype=np.float64)
    hess = np.broadcast_to(np.asarray(hess, dtype=np.float64), grad.shape)
    rows_of = {0: np.arange(binned.n_rows) if rows is None else np.asarray(rows)}
    depth, open_nodes, n_leaves = {0: 0}, {}, 1

    def evaluate(k: int) -> None:
        if may_split(rows_of[k], depth[k], hess, params):
            found = options(binned, grad, hess, rows_of[k], params, features)
            if found.best is not None:
                open_nodes[k] = found

    evaluate(0)
    for left in range(1, tree.n_nodes, 2):
        k = int(tree.nodes["parent"][left])
        assert tree.nodes["parent"][left + 1] == k
        assert (tree.nodes["left"][k], tree.nodes["right"][k]) == (left, left + 1)
        assert k in open_nodes, f"node {k} should not have been split"
        if params.frontier == "best-first":
            best = max(found.best.gain for found in open_nodes.values())
            assert open_nodes[k].best.gain >= best - open_nodes[k].slack(rtol), k
        else:
            assert k == (min if params.frontier == "depth-wise" else max)(open_nodes)
        goes_left = check_split(tree, k, open_nodes.pop(k), binned, rtol)
        for child, side in ((left, goes_left), (left + 1, ~goes_left)):
            rows_of[child], depth[child] = rows_of[k][side], depth[k] + 1
            evaluate(child)
        n_leaves += 1
    assert not open_nodes or n_leaves == params.max_leaves, f"{list(open_nodes)} can be split"
    for k, own in rows_of.items():
        node = tree.nodes[k]
        assert (node["depth"], node["n_samples"]) == (depth[k], len(own)), k
        if node["left"] < 0:
            assert (node["right"], node["feature"], node["gain"]) == (-1, -1, 0.0), k
            assert node["category_start"] == -1
        np.testing.assert_allclose(node["weight"], hess[own].sum(), rtol=1e-12)
        value = scale * leaf_value(grad[own].sum(), hess[own].sum(), params)
        np.testing.assert_allclose(tree.values[k, 0], value, rtol=1e-9, atol=1e-12)
    assert tree.nodes["parent"][0] == -1
    return rows_of


# ---- prediction ---------------------------------------------------------------------------------


def goes_left(tree, node: int, value: float) -> int:
    record = tree.nodes[node]
    if np.isnan(value):
        return int(record["missing_left"])
    if record["category_start"] >= 0:
        # A code that the set does not know counts as missing.
        if not 0 <= value < tree.first_unknown(node):
            return int(record["missing_left"])
        return int(value) in set(tree.category_set(node))
    return float(value) <= float(record["threshold"])


def leaf_of(tree, x) -> int:
    node = 0
    while tree.nodes["left"][node] >= 0:
        left = goes_left(tree, node, float(x[tree.nodes["feature"][node]]))
        if left == 2:  # rows without a value stay here
            break
        node = int(tree.nodes["left" if left else "right"][node])
    return node


def leaves(trees, X) -> np.ndarray:
    """Leaf of every row in every tree."""
    return np.array([[leaf_of(tree, x) for tree in trees] for x in X], dtype=np.int32).reshape(
        len(X), len(trees)
    )


def predict(trees, X, n_outputs: int = 1, tree_output=None) -> np.ndarray:
    """Sum over the trees, tree by tree in their order, from 0."""
    raw = np.zeros((len(X), n_outputs))
    for i, x in enumerate(X):
        for k, tree in enumerate(trees):
            leaf = leaf_of(tree, x)
            value = node_output(tree, leaf, x)
            if len(value) > 1:
                raw[i] += value
            else:
                raw[i, 0 if tree_output is None else tree_output[k]] += value[0]
    return raw


def node_output(tree, node: int, x) -> np.ndarray:
    """What a node says of a row: its value and linear part, within its range."""
    n_values = tree.values.shape[1]
    coef = tree.coef.reshape(-1, n_values)
    linear = np.zeros(n_values)
    for term in range(tree.coef_ptr[node], tree.coef_ptr[node + 1]):
        value = float(x[tree.coef_feature[term]])
        if not np.isnan(value):
            if len(tree.coef_low):
                value = min(max(value, tree.coef_low[term]), tree.coef_high[term])
            linear += coef[term] * (value - tree.coef_center[term])
    output = tree.values[node] + linear
    if tree.value_range is not None:
        output = np.clip(output, *tree.value_range[node])
    return output
