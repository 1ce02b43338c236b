"""Bagged CART trees: grown by the engine of random forests and stored as packed trees.

All that sets them apart from a random forest are trees that see some of the features only, and
trees that are pruned on the whole training set (Breiman 1996).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hybridtrees._parameters import is_classifier
from hybridtrees.core.base.exact_sum import exact_sum, group_sums
from hybridtrees.core.grow._leaf_passes import feature_gains
from hybridtrees.core.grow.cart import grow_cart
from hybridtrees.core.tree.pruning import collapse_alphas, prune_nodes
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.core.tree.walk import find_leaves
from hybridtrees.models.cart.estimators import CARTClassifier, CARTRegressor
from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor
from hybridtrees.models.shared.bagging import RowSampler
from hybridtrees.models.shared.forest.base import ForestData
from hybridtrees.models.shared.forest.growing import ForestTree, pack_grown
from hybridtrees.models.shared.forest.packed import PackedForest
from hybridtrees.models.shared.forest.reporting import in_c_order
from hybridtrees.models.shared.tree_parameters import TreeRecipe, count_features

# Parameters of CART that a forest does not have, or sets itself.
_OWN = ("cv", "cv_rule", "random_state", "n_jobs", "verbose")


def can_pack(estimator: Any) -> bool:
    """Whether bagged copies of an estimator are trees that a packed forest can hold."""
    # A class derived from CART may fit in its own way. A random state of its own would give all
    # members the same draws.
    is_cart = type(estimator) in (CARTRegressor, CARTClassifier)
    return is_cart and estimator.random_state is None


def draws_like_forest(estimator: Any) -> bool:
    """Whether the trees are those of a random forest."""
    return can_pack(estimator) and not isinstance(estimator.ccp_alpha, str)


def make_forest(estimator: Any, owner: Any, settings: FeatureDraws | None = None) -> PackedForest:
    """Return a forest of such trees, with the parameters of bagging of its owner."""
    if settings is None:
        cls: Any = RandomForestClassifier if is_classifier(owner) else RandomForestRegressor
    else:
        cls = _BaggedClassifier if is_classifier(owner) else _BaggedRegressor
    given = {k: v for k, v in estimator.get_params(deep=False).items() if k not in _OWN}
    if settings is not None:
        given["ccp_alpha"] = 0.0
    more: dict[str, Any] = {"voting": owner.voting} if is_classifier(owner) else {}
    forest: PackedForest = cls(
        **given,
        **more,
        n_estimators=owner.n_estimators,
        bootstrap=owner.bootstrap,
        max_samples=owner.max_samples,
        oob_score=owner._asks_oob(),
        keep_rows=False,
        random_state=owner.random_state,
        n_jobs=owner.n_jobs,
        verbose=owner.verbose,
    )
    if settings is not None:
        vars(forest)["_settings"] = settings
    return forest


def as_plain(forest: PackedForest) -> PackedForest:
    """Return a fitted forest as one of the public classes: only the fit of the others differs."""
    if not isinstance(forest, _BaggedForest):
        return forest
    cls: Any = RandomForestClassifier if is_classifier(forest) else RandomForestRegressor
    plain: PackedForest = cls(**forest.get_params(deep=False))
    vars(plain).update({k: v for k, v in vars(forest).items() if k != "_settings"})
    return plain


def one_tree(forest: PackedForest, index: int) -> PackedForest:
    """Return one tree of a fitted forest as a forest of its own."""
    alone: PackedForest = type(forest)(**{**forest.get_params(deep=False), "n_estimators": 1})
    kept = {k: v for k, v in vars(forest).items() if not k.startswith("oob_") and k[:5] != "_oob_"}
    vars(alone).update({k: v for k, v in kept.items() if k not in forest.get_params(deep=False)})
    alone._trees = forest._trees.single(index)
    alone._draw_seeds = forest._draw_seeds[index : index + 1]
    alone.n_estimators_ = 1
    gains = np.zeros(forest.n_features_in_)
    feature_gains(alone._trees[0].nodes, gains)
    share = gains / (gains.sum() or 1.0)
    alone._importance_moments = np.stack([share, share**2])
    alone._n_split_trees = int(share.any())
    return alone


@dataclass(frozen=True)
class FeatureDraws:
    """Features that each member sees, and whether its tree is pruned."""

    max_features: int  # number drawn
    replace: bool
    prune: bool = False

    def of(self, seed: int, n_features: int) -> np.ndarray:
        """Return the features drawn with the seed of a member's growth, ascending."""
        if not self.replace and self.max_features == n_features:
            return np.arange(n_features)
        # Another stream than that of the growth, which hashes (seed, number) too.
        rng = np.random.default_rng([seed, 1])
        return np.sort(rng.choice(n_features, self.max_features, replace=self.replace))


@dataclass
class _SubsetFit:
    """Grows trees on some rows and features of a table: see `bag`."""

    recipe: TreeRecipe
    values: Any
    target: np.ndarray
    weight: np.ndarray | None  # of the training rows
    sampler: RowSampler
    class_factor: Any
    watch_oob: bool
    settings: FeatureDraws
    keep_rows = False

    def open_grower(self) -> AbstractContextManager[None]:
        """Return nothing: the growers of such trees do not share a table."""
        return nullcontext()

    def grow(self, _: None, counts: np.ndarray, weight: np.ndarray | None, seed: int) -> ForestTree:
        """Grow one tree."""
        n_features = self.values.shape[1]
        features = np.unique(self.settings.of(seed, n_features))
        rows = np.flatnonzero(counts)
        weight = counts.astype(np.float64) if weight is None else weight
        if self.class_factor is not None:
            weight = weight * self.class_factor(counts)
        tree = self._grown(rows[weight[rows] > 0], features, weight, seed)
        packed, values = pack_grown(tree, self.recipe)
        oob_rows = oob_values = None
        if self.watch_oob:
            oob_rows = self.sampler.out_of_bag(counts)
            oob_values = values[packed.walk(self.values, oob_rows)]
        gains = np.zeros(n_features)
        feature_gains(tree.nodes, gains)
        return ForestTree(packed, gains, None, oob_rows, oob_values)

    def _grown(self, rows: np.ndarray, features: np.ndarray, weight: np.ndarray, seed: int) -> Tree:
        """Return a tree on the features of the whole table, pruned if asked for."""
        recipe = self.recipe
        part = _columns(self.values, features)[rows]
        own = weight[rows]
        monotonic = None if recipe.monotonic is None else recipe.monotonic[features]
        params = replace(recipe, monotonic=monotonic).grower_params(
            len(rows), len(features), float(exact_sum(own))
        )
        n_drawn = count_features(recipe.model.max_features, len(features))
        grown = grow_cart(
            part,
            self.target[rows],
            own,
            criterion=recipe.criterion,
            n_classes=recipe.n_classes,
            params=replace(params, max_features=0 if n_drawn == len(features) else n_drawn),
            is_categorical=recipe.is_categorical[features],
            splitter=recipe.splitter,
            max_bins=recipe.max_bins,
            seed=seed,
        )
        tree, inner = grown.tree, grown.tree.nodes["left"] >= 0
        tree.nodes["feature"][inner] = features[tree.nodes["feature"][inner]]
        if self.settings.prune:
            alphas = collapse_alphas(tree)
            alpha = self._best_alpha(tree, alphas)
            tree = prune_nodes(tree, alphas > alpha)[0]
        return tree

    def _best_alpha(self, tree: Tree, alphas: np.ndarray) -> float:
        """Return the alpha of the subtree with the smallest error on the training set."""
        ensemble = TreeEnsemble([tree], self.values.shape[1], tree.values.shape[1])
        ended = find_leaves(ensemble, self.values, 1)
        cost, own = node_costs(tree, ended, self.target, self.weight, self.recipe)
        return best_alpha(tree, alphas, cost, own)


def node_costs(
    tree: Tree, ended: np.ndarray, target: np.ndarray, weight: np.ndarray | None, recipe: TreeRecipe
) -> tuple[np.ndarray, np.ndarray]:
    """Return the error of the rows that pass each node, and of those that end there.

    It is what the rows would cost if the node predicted them: the number of wrong classes, or the
    sum of squared (absolute under that criterion) residuals.
    """
    nodes, n_nodes = tree.nodes, tree.n_nodes
    best = tree.values.argmax(axis=1)
    rows, at = np.arange(len(ended)), ended.astype(np.intp)
    if weight is not None:
        rows = np.flatnonzero(weight > 0)
        at = at[rows]
    cost, own = np.zeros(n_nodes), np.zeros(n_nodes)
    for level in range(int(nodes["depth"].max()) + 1):
        if recipe.n_classes:
            loss = (best[at] != target[rows]).astype(np.float64)
        else:
            gap = np.abs(tree.values[at] - target[rows])
            loss = (gap if recipe.criterion == "absolute_error" else gap * gap).mean(axis=1)
        if weight is not None:
            loss = loss * weight[rows]
        sums = group_sums(at, n_nodes, loss)
        cost += sums
        if level == 0:
            own = sums
        # All rows climb one node; those at the root are done.
        up = nodes["parent"][at]
        rows, at = rows[up >= 0], up[up >= 0].astype(np.intp)
    return cost, own


def best_alpha(tree: Tree, alphas: np.ndarray, cost: np.ndarray, own: np.ndarray) -> float:
    """Return the largest alpha whose subtree has the smallest cost."""
    inner = np.flatnonzero(tree.nodes["left"] >= 0)
    if not len(inner):
        return 0.0
    left, right = tree.nodes["left"][inner], tree.nodes["right"][inner]
    gain = cost[inner] - own[inner] - cost[left] - cost[right]
    # The subtree of an alpha has the splits of larger alphas, and costs the root less their gains.
    steps = np.unique(alphas[inner])
    by_step = group_sums(np.searchsorted(steps, alphas[inner]), len(steps), gain)
    kept = np.append(np.cumsum(by_step[::-1])[::-1], 0.0)  # of no pruning, then of each alpha
    tolerance = 1e-12 * max(1.0, abs(float(cost[0])))
    best = int(np.flatnonzero(kept >= kept.max() - tolerance)[-1])
    return -np.inf if best == 0 else float(steps[best - 1])


def _columns(values: Any, features: np.ndarray) -> Any:
    """Return some columns of a table, sparse ones in a form whose rows can be taken."""
    if len(features) < values.shape[1]:
        values = values[:, features]
    return values.tocsr() if hasattr(values, "tocsr") else values


class _BaggedForest(PackedForest):
    """A forest whose trees see some of the features, or are pruned."""

    def _prepare(self, recipe: TreeRecipe, data: ForestData, needs_oob: bool) -> Any:
        return _SubsetFit(
            recipe,
            in_c_order(data.table) if needs_oob else data.table,
            data.target,
            data.weight,
            data.sampler,
            data.factor,
            needs_oob,
            vars(self)["_settings"],
        )


class _BaggedRegressor(_BaggedForest, RandomForestRegressor):
    """The regressor."""


class _BaggedClassifier(_BaggedForest, RandomForestClassifier):
    """The classifier."""
