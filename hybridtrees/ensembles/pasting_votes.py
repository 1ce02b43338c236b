"""Members of pasting and their out-of-bag votes: packed trees, or estimators of any kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees.core.grow._leaf_passes import feature_gains
from hybridtrees.core.tree.packed import PackedTrees
from hybridtrees.core.tree.pruning import prune_at
from hybridtrees.ensembles.members import Rows, fit_member
from hybridtrees.models.shared.forest.growing import pack_grown
from hybridtrees.models.shared.tree_parameters import TreeRecipe

# Rows of which a second thread predicts its share in less time than it takes to wake it.
_FEW_ROWS = 256

# Rows that other members than trees predict at a time.
_BLOCK = 65536


class RunningVotes:
    """Sums of out-of-bag predictions, one for each row, that are brought up to date when needed."""

    def __init__(self, n_rows: int, n_values: int, n_classes: int) -> None:
        self.n_classes = n_classes  # 0 in regression
        # The memory of rows that are never drawn is not touched.
        self.sums = np.zeros((n_rows, n_values))
        self.counts = np.zeros(n_rows, dtype=np.int32)

    def losses(self, rows: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return wrong classes or absolute residuals of rows, and which of them have a vote."""
        counts = self.counts[rows]
        known = counts > 0
        mean = self.sums[rows] / np.maximum(counts, 1)[:, None]
        if not self.n_classes:
            return np.where(known, np.abs(target - mean[:, 0]), 0.0), known
        if self.n_classes == 1:
            best = np.zeros(len(rows), dtype=np.intp)
        elif mean.shape[1] == 1:
            best = (mean[:, 0] > 0.5).astype(np.intp)
        else:
            best = mean.argmax(axis=1)
        return (known & (best != target)).astype(np.float64), known


class TreeVotes:
    """Trees on the precincts of a table, which may be on disk."""

    def __init__(
        self,
        source: Any,  # gives rows: see `TableRows`
        model: Any,  # a CART model that knows features and classes
        recipe: TreeRecipe,
        n_rows: int,
        hard: bool,
        n_threads: int,
    ) -> None:
        self._source, self._model, self._recipe = source, model, recipe
        self._hard, self._n_threads = hard, n_threads
        n_classes = recipe.n_classes
        self._votes = RunningVotes(n_rows, n_classes if n_classes > 2 else 1, n_classes)
        self._seen = np.zeros(n_rows, dtype=np.int32)  # trees that are in the sums of each row
        # Pairs (row, tree) of the precincts, ordered by row, then by tree.
        self._held_row = np.zeros(0, dtype=np.int64)
        self._held_tree = np.zeros(0, dtype=np.int32)
        self.trees: Any = None
        self.importances = np.zeros(len(recipe.is_categorical))

    def fit(self, member: int, rows: np.ndarray, counts: np.ndarray, seed: int) -> None:
        """Grow a tree on a precinct."""
        recipe, alpha = self._recipe, float(self._model.ccp_alpha)
        values, target = self._source.take(member, rows)
        weight = None if np.all(counts == 1) else counts.astype(np.float64)
        weight = self._model._weigh_classes(target, weight)
        grown = recipe.grow(values, target, weight, seed)
        tree, _ = prune_at(grown.tree, alpha, grown.leaf)
        gains = np.zeros(len(self.importances))
        feature_gains(tree.nodes, gains)
        self.importances += gains / (gains.sum() or 1.0)
        packed = pack_grown(tree, recipe)[0]
        one = PackedTrees([packed], values.shape[1], recipe.criterion, recipe.n_classes)
        self.trees = one if self.trees is None else self.trees.extended(one)
        at = np.searchsorted(self._held_row, rows, side="right")
        self._held_row = np.insert(self._held_row, at, rows)
        self._held_tree = np.insert(self._held_tree, at, np.int32(member))

    def losses(self, member: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return losses of candidates, and which are known: see `Votes`."""
        distinct, back = np.unique(rows, return_inverse=True)
        values, target = self._source.take(member, distinct)
        first = self._seen[distinct]
        sums, counts = self._votes.sums[distinct], self._votes.counts[distinct]
        n_threads = self._n_threads if len(distinct) >= _FEW_ROWS else 1
        held = self._holders(distinct)
        self.trees.add_outside(values, held, first, sums, counts, n_threads, self._hard)
        self._votes.sums[distinct], self._votes.counts[distinct] = sums, counts
        self._seen[distinct] = len(self.trees)
        loss, known = self._votes.losses(distinct, target)
        return loss[back], known[back]

    def _holders(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the trees whose precincts hold each row: starts, and trees in ascending order."""
        low = np.searchsorted(self._held_row, rows, side="left")
        size = np.searchsorted(self._held_row, rows, side="right") - low
        start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        at = np.repeat(low - start[:-1], size) + np.arange(start[-1])
        return start, self._held_tree[at]


@dataclass
class MemberVotes:
    """Other members: each predicts the whole table once."""

    estimator: Any
    rows: Rows
    values_of: Callable[[Any, Any], np.ndarray]  # (member, table) -> votes, (n_rows, n_values)
    n_values: int
    n_threads: int

    def __post_init__(self) -> None:
        codes = self.rows.codes
        n_classes = 0 if codes is None else self.n_values
        self._votes = RunningVotes(len(self.rows), self.n_values, n_classes)
        self._target = self.rows.target if codes is None else codes
        self.members: list[Any] = []

    def fit(self, member: int, rows: np.ndarray, counts: np.ndarray, seed: int) -> None:
        """Fit a member to a precinct, and add its votes for all other rows."""
        # Repeated rows: not every estimator takes weights.
        sample = self.rows.weighted(None).take(np.repeat(rows, counts))
        made = fit_member(self.estimator, sample, self.n_threads, seed)
        self.members.append(made)
        inside = np.zeros(len(self.rows), dtype=bool)
        inside[rows] = True
        for first in range(0, len(self.rows), _BLOCK):
            part = np.arange(first, min(first + _BLOCK, len(self.rows)))
            part = part[~inside[part]]
            if len(part):
                table = self.rows.columns.take(part).table
                self._votes.sums[part] += self.values_of(made, table)
                self._votes.counts[part] += 1

    def losses(self, member: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return losses of candidates, and which are known: see `Votes`."""
        return self._votes.losses(rows, self._target[rows])
