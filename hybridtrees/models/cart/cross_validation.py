"""Cost-complexity pruning by cross-validation (Breiman et al. 1984, chapters 3.4 and 8.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hybridtrees.core.base.criteria import CRITERIA
from hybridtrees.core.base.exact_sum import exact_sum, group_sums
from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.tree.pruning import collapse_alphas
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.core.tree.walk import find_leaves
from hybridtrees.models.shared.tree_parameters import TreeRecipe

CV_RULES = ("best", "1se")

# Alphas whose relative difference is below this differ by rounding only and count as one.
_TOLERANCE = 1e-10

# (targets of rows, values of the nodes they are in) -> loss of each row
RowLoss = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Curve(NamedTuple):
    """Validation error by alpha."""

    alphas: np.ndarray  # smallest alpha of every subtree of the tree on all rows, ascending
    scores: np.ndarray  # mean validation errors
    errors: np.ndarray  # standard errors of these means, from the spread over the folds

    def choose(self, rule: str) -> float:
        """Return the alpha of the smallest error, or the largest within one standard error of it.

        Of equal errors the larger alpha, hence the smaller tree, is taken.
        """
        best = len(self.scores) - 1 - int(np.argmin(self.scores[::-1]))
        if rule == "best":
            return float(self.alphas[best])
        limit = self.scores[best] + self.errors[best]
        return float(self.alphas[np.flatnonzero(self.scores <= limit)[-1]])


def _poisson_loss(target: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Half the Poisson deviance, mean over the outputs."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(target > 0, target * np.log(target / value), 0.0)
    return np.asarray((logs - target + value).mean(axis=1))


def _zero_one_loss(target: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.asarray((value.argmax(axis=1) != target).astype(np.float64))


# Losses in regression, by the criterion of the search; classes have the zero-one loss.
_REGRESSION_LOSSES: dict[str, RowLoss] = {
    "squares": lambda target, value: np.square(target - value).mean(axis=1),
    "absolute": lambda target, value: np.abs(target - value).mean(axis=1),
    "poisson": _poisson_loss,
}


def distinct_alphas(grown: Grown) -> np.ndarray:
    """Return the alphas at which pruning changes a tree, ascending; the first is 0."""
    alphas = collapse_alphas(grown.tree)
    alphas = np.unique(np.append(np.maximum(alphas[np.isfinite(alphas)], 0.0), 0.0))
    # Of alphas that differ by rounding the largest stays: there, all of their nodes collapse.
    last = np.append(np.diff(alphas) > _TOLERANCE * alphas[1:], True)
    return np.asarray(alphas[last])


def validation_errors(
    grown: Grown,
    leaves: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    loss: RowLoss,
    alphas: np.ndarray,
) -> np.ndarray:
    """Return the summed loss of rows, which end in `leaves`, under the subtree of each alpha.

    A split that a subtree keeps changes the loss of its rows by an amount that does not depend on
    the subtree, so that one walk of the rows up the tree serves every alpha.
    """
    tree = grown.tree
    nodes = tree.nodes
    cost = np.zeros(len(nodes))
    ended = None
    node, row = leaves, np.arange(len(leaves))
    while len(node):
        losses = weight[row] * loss(target[row], tree.values[node])
        added = group_sums(node, len(nodes), losses)
        ended = added if ended is None else ended
        cost += added
        node = nodes["parent"][node]
        on = node >= 0
        node, row = node[on], row[on]
    assert ended is not None
    inner = np.flatnonzero(nodes["left"] >= 0)
    split = nodes[inner]
    saved = cost[inner] - cost[split["left"]] - cost[split["right"]] - ended[inner]
    collapse = collapse_alphas(tree)[inner]
    order = np.argsort(collapse)
    # What the splits that collapse later than each place in the order save together.
    beyond = np.append(np.cumsum(saved[order][::-1])[::-1], 0.0)
    return np.asarray(cost[0] - beyond[np.searchsorted(collapse[order], alphas, side="right")])


def cross_validate(
    recipe: TreeRecipe,
    grown: Grown,
    values: Any,
    target: np.ndarray,
    weight: np.ndarray | None,
    folds: list[tuple[np.ndarray, np.ndarray]],
    seeds: np.random.SeedSequence,
    verbose: int = 0,
) -> Curve:
    """Return the validation error of the subtrees of a tree that was grown on all rows.

    A subtree is the best one for the alphas from its own to that of the next subtree; the trees of
    the folds are pruned with the geometric mean of both.
    """
    loss = _zero_one_loss if recipe.n_classes else _REGRESSION_LOSSES[CRITERIA[recipe.criterion]]
    alphas = distinct_alphas(grown)
    between = np.append(np.sqrt(alphas[:-1] * alphas[1:]), np.inf)
    if hasattr(values, "tocsr"):
        values = values.tocsr()
    row_weight = np.ones(len(target)) if weight is None else weight
    sums, totals = [], []
    for k, ((train, test), seed) in enumerate(zip(folds, seeds.spawn(len(folds)), strict=True)):
        w, number = None if weight is None else weight[train], seed.generate_state(1, np.uint64)[0]
        part = recipe.grow(values[train], target[train], w, int(number))
        ensemble = TreeEnsemble([part.tree], values.shape[1], part.tree.values.shape[1])
        leaves = find_leaves(ensemble, values[test], recipe.n_threads)
        rows = (leaves, target[test], row_weight[test])
        sums.append(validation_errors(part, *rows, loss, between))
        totals.append(exact_sum(row_weight[test]))
        if verbose:
            print(f"fold {k + 1} of {len(folds)}: {part.tree.n_leaves} leaves")
    share = np.array(totals) / np.sum(totals)
    means = np.array(sums) / np.array(totals)[:, None]
    scores = share @ means
    with np.errstate(invalid="ignore"):  # an infinite deviance has no spread
        spread = share @ np.square(means - scores)
    return Curve(alphas, scores, np.sqrt(spread / (len(folds) - 1)))
