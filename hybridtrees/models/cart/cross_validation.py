"""The price of a leaf chosen by cross-validation (Breiman et al. 1984, chapters 3.4 and 8.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from hybridtrees._parameters import check_integer
from hybridtrees.core.base.exact_sum import exact_sum, group_sums
from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.tree.pruning import collapse_alphas
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.core.tree.walk import find_leaves
from hybridtrees.models.shared.tree_parameters import TreeRecipe

CV_RULES = ("best", "1se")

# Alphas that differ by rounding only are one.
_TOLERANCE = 1e-10

# (target rows, values of the nodes where they are) -> loss of each row
RowLoss = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Curve(NamedTuple):
    """Validation error by alpha."""

    alphas: np.ndarray  # smallest of every subtree of the tree on all rows, ascending
    scores: np.ndarray  # mean validation errors
    errors: np.ndarray  # standard errors of these means, from the spread over the folds

    def choose(self, rule: str) -> float:
        """Alpha of the minimum error, or the largest within one standard error of it.

        Equal errors go to the smaller tree.
        """
        best = len(self.scores) - 1 - int(np.argmin(self.scores[::-1]))
        if rule == "best":
            return float(self.alphas[best])
        limit = self.scores[best] + self.errors[best]
        return float(self.alphas[np.flatnonzero(self.scores <= limit)[-1]])


def _squared_loss(target: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.square(target - value).mean(axis=1)


def _poisson_loss(target: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Half the Poisson deviance, mean over the outputs."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(target > 0, target * np.log(target / value), 0.0)
    return (logs - target + value).mean(axis=1)


def _wrong(target: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return 1 for a row whose class is not the most probable one, else 0."""
    return (value.argmax(axis=1) != target).astype(np.float64)


ROW_LOSSES: dict[str, RowLoss] = {
    "squared_error": _squared_loss,
    "friedman_mse": _squared_loss,
    "absolute_error": lambda target, value: np.abs(target - value).mean(axis=1),
    "poisson": _poisson_loss,
    **dict.fromkeys(("gini", "entropy", "log_loss", "misclassification"), _wrong),
}


def check_cv(cv: Any) -> None:
    """Check `cv`, all but its relation to the table."""
    if isinstance(cv, Integral):
        check_integer("cv", cv, 2)
    elif (
        isinstance(cv, str | bytes)
        or (isinstance(cv, np.ndarray) and cv.ndim == 0)
        or not (hasattr(cv, "split") or isinstance(cv, Iterable))
    ):
        raise TypeError(
            "cv must be a number of folds, an object with a method split, or an iterable of "
            f"(train, test) pairs, got {cv!r}"
        )


def make_folds(
    cv: Any, target: np.ndarray, weight: np.ndarray | None, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and validation rows of every fold.

    Folds counted by a number are drawn at random, with equal shares of each class.
    """
    n_rows = len(target)
    used = np.arange(n_rows) if weight is None else np.flatnonzero(weight)
    if isinstance(cv, Integral):
        return _draw_folds(int(cv), used, target, rng)
    pairs = list(cv.split(np.zeros((n_rows, 1)), target) if hasattr(cv, "split") else cv)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise ValueError("cv must hold pairs (train, test)")
    folds = [(_rows(train, n_rows), _rows(test, n_rows)) for train, test in pairs]
    if len(folds) < 2:
        raise ValueError(f"cv must have at least two folds, got {len(folds)}")
    for rows in (rows for pair in folds for rows in pair):
        if not len(np.intersect1d(rows, used)):
            raise ValueError("cv has a part without rows of positive weight")
    return folds


def _draw_folds(
    n_folds: int, used: np.ndarray, target: np.ndarray, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Deal out the used rows at random, class by class where there are classes."""
    if n_folds > len(used):
        raise ValueError(
            f"cv={n_folds} folds need at least as many rows of positive weight, got {len(used)} "
            "sample(s)"
        )
    drawn = rng.permutation(used)
    if target.ndim == 1:
        drawn = drawn[np.argsort(target[drawn], kind="stable")]
    fold = np.full(len(target), -1)
    fold[drawn] = np.arange(len(drawn)) % n_folds
    return [
        (np.flatnonzero((fold >= 0) & (fold != k)), np.flatnonzero(fold == k))
        for k in range(n_folds)
    ]


def _rows(rows: Any, n_rows: int) -> np.ndarray:
    rows = np.asarray(rows)
    if rows.dtype == bool and rows.shape == (n_rows,):
        return np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows):
        raise ValueError("cv must give the rows of each part as an array of indices or a mask")
    if rows.min() < 0 or rows.max() >= n_rows:
        raise ValueError(f"cv names rows beyond the {n_rows} of X")
    return rows


def distinct_alphas(grown: Grown) -> np.ndarray:
    """Alphas at which a tree changes, ascending, each once; the first is that of the tree."""
    alphas = collapse_alphas(grown.tree, grown.impurity)
    alphas = np.unique(np.append(np.maximum(alphas[np.isfinite(alphas)], 0.0), 0.0))
    # Of a group that differs by rounding the last one stays, at which all have collapsed.
    last = np.append(np.diff(alphas) > _TOLERANCE * alphas[1:], True)
    return alphas[last]


def validation_errors(
    grown: Grown,
    leaves: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    loss: RowLoss,
    alphas: np.ndarray,
) -> np.ndarray:
    """Sum of the losses of rows, which end in `leaves`, under the subtrees of each alpha.

    Each split that a subtree keeps changes the losses of the rows that pass it by an amount of its
    own, so that one walk of the rows up the tree serves every alpha.
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
    collapse = collapse_alphas(tree, grown.impurity)[inner]
    order = np.argsort(collapse)
    # What the splits that outlive each place of the order save.
    beyond = np.append(np.cumsum(saved[order][::-1])[::-1], 0.0)
    return cost[0] - beyond[np.searchsorted(collapse[order], alphas, side="right")]


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

    A subtree is best for all alphas from its own to the next one's; the trees of the folds are
    pruned with the geometric mean of the two.
    """
    loss = ROW_LOSSES[recipe.criterion]
    alphas = distinct_alphas(grown)
    between = np.append(np.sqrt(alphas[:-1] * alphas[1:]), np.inf)
    if scipy.sparse.issparse(values):
        values = values.tocsr()
    row_weight = np.ones(len(target)) if weight is None else weight
    sums, totals = [], []
    for k, ((train, test), seed) in enumerate(zip(folds, seeds.spawn(len(folds)), strict=True)):
        part = recipe.grow(
            values[train],
            target[train],
            None if weight is None else weight[train],
            int(seed.generate_state(1, np.uint64)[0]),
        )
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
