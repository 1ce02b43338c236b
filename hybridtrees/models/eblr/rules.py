"""Rules of EBLR: leaves of small trees, as zero-one columns and as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._persistence import register
from hybridtrees.core.base._types import ALL_KEYS
from hybridtrees.core.base.checks import (
    MOST,
    Checked,
    check_arrays,
    check_count,
    check_numbers,
    check_type,
)
from hybridtrees.core.grow.cart import TargetLeaves, TargetStatistics, cart_params
from hybridtrees.core.grow.grower import Grower
from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.table import Table
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.input.labels_text import category_list, one_line
from hybridtrees.linear._base import check_line
from hybridtrees.linear.design import Design
from hybridtrees.models.shared.fitted_checks import check_categories

Floats = NDArray[np.float64]

# Relative difference up to which the means of leaves tie.
_TIE = 1e-12
# Maximum depth of the engine; no tree is as deep.
_DEEPEST = 2**15 - 1


class _EnrichedTable(Table):
    """A table of sorted lists, with space for zero-one columns after its own.

    Zero-one columns need no sorting. A column that is not added yet has the same key for all rows,
    so that it cannot be split.
    """

    def __init__(
        self, values: Any, is_categorical: NDArray[Any], n_more: int, n_threads: int
    ) -> None:
        super().__init__(values, is_categorical)
        self._n_own = self.n_features
        lists = self.lists(n_threads, n_more)
        lists["key"][self._n_own :] = 0
        lists["row"][self._n_own :] = np.arange(self.n_rows, dtype=np.uint32)
        self.n_features += n_more
        self.n_categories = np.concatenate([self.n_categories, np.zeros(n_more, dtype=np.int32)])

    def append(self, number: int, holds: NDArray[np.bool_]) -> None:
        """Write the list of the new column `number`."""
        assert self._lists is not None
        new = self._lists[self._n_own + number]
        zeros, ones = np.flatnonzero(~holds), np.flatnonzero(holds)
        new["row"] = np.concatenate([zeros, ones])
        new["key"][len(zeros) :] = 1 if len(zeros) else 0

    def thresholds(
        self,
        feature: NDArray[Any],
        low_row: NDArray[Any],
        high_row: NDArray[Any],
        key: NDArray[Any],
    ) -> Floats:
        """Return thresholds; 0.5 in the zero-one columns."""
        middle = np.full(len(feature), 0.5)
        own = feature < self._n_own
        middle[own] = super().thresholds(feature[own], low_row[own], high_row[own], key[own])
        return np.where(key == ALL_KEYS, np.inf, middle)


class RuleFinder:
    """Finds one rule per round, in small trees on residuals."""

    def __init__(
        self,
        values: Any,
        is_categorical: NDArray[Any],
        weight: Floats | None,
        params: GrowerParams,  # of all rounds, except the depth
        depths: tuple[int | None, ...],  # by round; the last holds for all further rounds
        n_rules: int,  # the maximum
        n_threads: int,
    ) -> None:
        self.n_features = values.shape[1]
        self._weight = weight
        self._table = _EnrichedTable(values, is_categorical, n_rules, n_threads)
        self._leaf_model = TargetLeaves(impurities=False)
        self._params = cart_params(params, "squared_error")
        self._depths = depths
        self._growers: dict[int, Grower] = {}
        self._n_threads = n_threads
        self._n_rules = 0

    def _grower(self) -> Grower:
        """Return the grower of this round; rounds of equal depth share one."""
        depth = self._depths[min(self._n_rules, len(self._depths) - 1)]
        depth = 0 if depth is None else min(depth, _DEEPEST)
        if depth not in self._growers:
            # Growth of a single split does not reorder the lists: no copy is needed.
            whole = self._weight is None or bool((self._weight > 0).all())
            params = replace(self._params, max_depth=depth)
            self._growers[depth] = Grower(
                self._table,
                params,
                self._leaf_model,
                self._n_threads,
                in_place=depth == 1 and whole,
            )
        return self._growers[depth]

    def find(self, residual: Floats) -> FoundRule | None:
        """Return the rule of the leaf whose mean is farthest from 0, None without a split."""
        grower, target = self._grower(), residual.reshape(len(residual), -1)
        statistics = TargetStatistics(target, self._weight, "squared_error")
        grown = grower.grow(statistics, statistics.rows)
        if grown.tree.n_leaves < 2:
            return None
        found = _best_leaves(grown, self.n_features)
        if found.holds.all():
            return None
        self._table.append(self._n_rules, found.holds)
        self._n_rules += 1
        return found


@dataclass
class FoundRule:
    """A rule, with the training rows where it holds and their mean residual."""

    tree: RuleTree
    holds: NDArray[np.bool_]
    residual: Floats
    n_conditions: int


def _best_leaves(grown: Grown, n_features: int) -> FoundRule:
    tree = grown.tree
    leaves = np.flatnonzero(tree.nodes["left"] < 0)
    # With one residual per class, the largest counts.
    far = np.abs(tree.values[leaves]).max(axis=1)
    chosen = leaves[far >= far.max() * (1 - _TIE)].astype(np.int32)
    weight = tree.nodes["weight"][chosen]
    mean = weight @ tree.values[chosen] / weight.sum()
    n_conditions = sum(map(len, _paths(tree, chosen, n_features)))
    rule, holds = RuleTree.of(tree, chosen, n_features), np.isin(grown.leaf, chosen)
    return FoundRule(rule, holds, np.asarray(mean), n_conditions)


@register
@dataclass(eq=False)
class RuleTree(Checked):
    """A small tree and those of its leaves where a rule holds."""

    ensemble: TreeEnsemble  # the tree, on the columns that it uses
    features: NDArray[np.int64]  # indices of these columns; rules come after the features
    leaves: NDArray[np.int32]  # where the rule holds
    n_features: int  # without rules

    def _check_state(self) -> None:
        """Refuse leaves or columns that the tree does not have."""
        ensemble = check_type(self, "ensemble", TreeEnsemble)
        if len(ensemble) != 1:
            raise ValueError(f"a rule has one tree, got {len(ensemble)}")
        check_count(self, "n_features", 1)
        sizes = check_arrays(
            self, {"features": ("i8", ensemble.n_features), "leaves": ("i4", "n_leaves")}
        )
        check_numbers(self.features, "features of RuleTree", 0, MOST)
        check_numbers(self.leaves, "leaves of RuleTree", 0, len(ensemble.nodes))
        if not sizes["n_leaves"] or np.any(ensemble.nodes["left"][self.leaves] >= 0):
            raise ValueError("a rule must hold in one or more leaves of its tree")

    def check_columns(self, n_rules: int, categories: Sequence[NDArray[Any] | None]) -> None:
        """Refuse columns beyond the features and `n_rules` earlier rules."""
        check_count(self, "n_features", len(categories), len(categories))
        check_numbers(self.features, "features of RuleTree", 0, len(categories) + n_rules)
        feature, words, limit = self.ensemble.category_sets()
        check_categories((self.features[feature], words, limit), categories)

    @classmethod
    def of(cls, tree: Tree, leaves: NDArray[np.int32], n_features: int) -> RuleTree:
        """Make a rule of leaves of a tree, reduced to the columns that the tree uses."""
        inner = tree.nodes["left"] >= 0
        used, number = np.unique(tree.nodes["feature"][inner], return_inverse=True)
        nodes = tree.nodes.copy()
        nodes["feature"][inner] = number
        ensemble = TreeEnsemble([Tree(nodes, tree.values, tree.categories)], len(used))
        ensemble.n_outputs = tree.values.shape[1]
        return cls(ensemble, used.astype(np.int64), leaves, n_features)

    @property
    def tree(self) -> Tree:
        """The tree, with the feature indices of the table and the earlier rules after it."""
        tree = self.ensemble[0]
        inner = tree.nodes["left"] >= 0
        tree.nodes["feature"][inner] = self.features[tree.nodes["feature"][inner]]
        return tree

    def holds(self, values: Any, earlier: NDArray[Any], n_threads: int) -> NDArray[np.bool_]:
        """Return whether the rule holds for each row; `earlier` holds the earlier rules."""
        table = np.empty((values.shape[0], len(self.features)), dtype=values.dtype)
        for j, f in enumerate(self.features):
            if f >= self.n_features:
                table[:, j] = earlier[:, f - self.n_features]
            elif hasattr(values, "indptr"):
                table[:, j] = values[:, [f]].toarray().ravel()
            else:
                table[:, j] = values[:, f]
        reached = self.ensemble.apply(table, n_threads)[:, 0]
        return np.isin(reached, self.leaves)

    def paths(self) -> list[list[Condition]]:
        """Return the conditions of each leaf; the rule holds if those of one leaf are met."""
        return _paths(self.tree, self.leaves, self.n_features)


def check_enriched(model: Any) -> None:
    """Refuse a fitted model with inconsistent rules or lines."""
    design, rules = check_type(model, "_design", Design), check_type(model, "_trees", list)
    design.check_reader(model._reader)
    n_rules = check_count(model, "n_rules_", len(rules), len(rules))
    for k, rule in enumerate(rules):
        if not isinstance(rule, RuleTree):
            raise ValueError(f"rule {k} is a {type(rule).__name__}")
        rule.check_columns(k, model._reader.coded)
    lists = model._support, model._share, model._rule_residual, model.rule_names_
    sizes = [len(own) for own in lists]
    # Missing in files of the first versions, where every round has one rule.
    stages = vars(model).setdefault("_stages", np.arange(n_rules + 1))
    check_arrays(model, {"_stages": ("i8", len(model._lines))})
    if sizes != [n_rules] * len(sizes) or len(model.train_losses_) != len(stages):
        raise ValueError(f"{n_rules} rules are described by lists of {sizes} entries")
    check_numbers(stages, "_stages", 0, n_rules + 1)
    if not len(stages) or stages[-1] != n_rules:
        raise ValueError("the last round must have all rules")
    widths = {
        check_line(line, design.n_columns + n) for line, n in zip(model._lines, stages, strict=True)
    }
    if len(widths) > 1:
        raise ValueError("the rounds have different numbers of outputs")
    classes = vars(model).get("classes_")
    if classes is not None and widths != {1 if len(classes) <= 2 else len(classes)}:
        raise ValueError(f"{len(classes)} classes cannot have {max(widths)} linear functions")
    if "_rule_target" in vars(model):
        check_arrays(model, {"_rule_target": ("i8", n_rules)})
        check_numbers(model._rule_target, "_rule_target", 0, max(widths))
        check_arrays(model, {"train_losses_": ("f8", len(stages), max(widths))})
    check_arrays(
        model,
        {"_with_missing": (bool, model.n_features_in_), "_column_spread": ("f8", design.n_columns)},
    )


@dataclass
class Condition:
    """A condition on one column: ``low < value <= high``, or a set of categories."""

    feature: int  # index of the column; from `n_features` on, an earlier rule
    low: float = -math.inf
    high: float = math.inf
    codes: frozenset[int] | None = None  # allowed categories, None for all
    excluded: frozenset[int] = field(default_factory=frozenset)  # categories not allowed
    missing: bool = True  # whether a missing value is allowed
    rule: int = -1  # index of the earlier rule, -1 for a feature

    def holds(self, column: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether values of the column meet the condition; NaN is missing."""
        gone = np.isnan(column)
        if self.codes is None and not self.excluded:
            inside = (column > self.low) & (column <= self.high)
        else:
            inside = ~np.isin(column, list(self.excluded))
            if self.codes is not None:
                inside &= np.isin(column, list(self.codes))
        return np.where(gone, self.missing, inside)

    def text(
        self,
        names: Sequence[str],
        rule_names: Sequence[str],
        labels: NDArray[Any] | None,
        show_missing: bool,
        digits: int | None,
    ) -> str:
        """Return the condition as text; with `digits` None, thresholds have all digits."""
        if self.rule >= 0:
            return ("" if self.low == 0.5 else "not ") + rule_names[self.rule]
        name = one_line(str(names[self.feature]))
        text = self._range(name, digits) if labels is None else self._categories(name, labels)
        if not text:
            return f"{name} is missing" if self.missing else f"{name} is not missing"
        return f"{text} or {name} is missing" if self.missing and show_missing else text

    def _range(self, name: str, digits: int | None) -> str:
        low, high = (
            repr(float(end)) if digits is None else f"{end:.{digits}g}"
            for end in (self.low, self.high)
        )
        if self.low == -math.inf:
            return "" if self.high == math.inf else f"{name} <= {high}"
        if self.high == math.inf:
            return "" if self.low == math.inf else f"{name} > {low}"
        return f"{low} < {name} <= {high}"

    def _categories(self, name: str, labels: NDArray[Any]) -> str:
        every = range(len(labels)) if self.codes is None else sorted(self.codes)
        allowed = [labels[k] for k in every if k < len(labels) and k not in self.excluded]
        if len(allowed) in (0, len(labels)):
            return ""
        return f"{name} in {category_list(allowed, None)}"


def _paths(tree: Tree, leaves: NDArray[np.int32], n_features: int) -> list[list[Condition]]:
    """Return the conditions of leaves of a tree; columns from `n_features` on are rules."""
    parent, found = tree.nodes["parent"], []
    for leaf in leaves:
        path: list[int] = [int(leaf)]
        while parent[path[-1]] >= 0:
            path.append(int(parent[path[-1]]))
        met: dict[int, Condition] = {}
        for node, child in zip(path[:0:-1], path[-2::-1], strict=True):
            _narrow(met, tree, node, child == tree.nodes["left"][node], n_features)
        found.append(list(met.values()))
    return found


def _narrow(met: dict[int, Condition], tree: Tree, node: int, left: bool, n_features: int) -> None:
    """Narrow the conditions by those for going left or right at a node."""
    fields = tree.nodes[node]
    feature = int(fields["feature"])
    own = met.setdefault(feature, Condition(feature, rule=max(-1, feature - n_features)))
    own.missing = own.missing and bool(fields["missing_left"]) == bool(left)
    if fields["category_start"] >= 0:
        codes = frozenset(tree.category_set(node).tolist())
        if left:
            own.codes = codes if own.codes is None else own.codes & codes
        else:
            own.excluded = own.excluded | codes
    elif left:
        own.high = min(own.high, float(fields["threshold"]))
    else:
        own.low = max(own.low, float(fields["threshold"]))


@dataclass(frozen=True)
class Rule:
    """One rule of a fitted model."""

    name: str  # of its column
    text: str  # the conditions under which it holds
    coef: Any  # coefficient of its column, or one per class
    support: int  # number of training rows, of positive weight, where it holds
    share: float  # their share of the total weight
    gain: float  # decrease of the training loss by the rule
    residual: Any  # their mean residual when the rule was found
    tree: RuleTree  # the tree that it is a leaf of
    target: int | None = None  # which of several targets it belongs to

    def __str__(self) -> str:
        coef = np.array2string(np.asarray(self.coef), precision=6, separator=", ")
        return f"{self.name}: {self.text} (coef {coef}, {self.support} rows, gain {self.gain:.6g})"


def rule_text(
    tree: RuleTree,
    names: Sequence[str],
    rule_names: Sequence[str],
    categories: Sequence[NDArray[Any] | None],
    with_missing: NDArray[np.bool_],
    digits: int | None = None,
) -> str:
    """Return a rule as text: leaves joined by "or", their conditions by "and".

    Missing values are mentioned only for features that have some in fit, `with_missing`.
    """
    parts = []
    for path in tree.paths():
        words = []
        for own in path:
            labels = None if own.rule >= 0 else categories[own.feature]
            shown = own.rule < 0 and bool(with_missing[own.feature])
            text = own.text(names, rule_names, labels, shown, digits)
            words.append(f"({text})" if " or " in text and len(path) > 1 else text)
        parts.append(" and ".join(words))
    return parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts)
