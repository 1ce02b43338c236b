"""Several targets in EBLR: the rounds of each target on its own, then joined to one model.

Each target has its own rules. Rules are ordered by round, then by target, so that the rules of the
first rounds come first, as they do with one target.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hybridtrees.linear.regression import Line
from hybridtrees.models.eblr.growing import Rounds
from hybridtrees.models.eblr.rules import FoundRule


def join_rounds(parts: list[Rounds], n_columns: int) -> tuple[Rounds, NDArray[np.int64]]:
    """Return the rounds of all targets as one, and the target of each of its rules.

    Its lines have one output per target: line s has the rules of the first s rounds, with
    coefficients of 0 in the outputs that a rule does not belong to.
    """
    n_rounds = max(part.best for part in parts)
    places = [(s, k) for s in range(n_rounds) for k, part in enumerate(parts) if s < part.best]
    number = {place: r for r, place in enumerate(places)}
    joined = Rounds(
        rules=[_renumbered(parts[k].rules[s], k, number) for s, k in places],
        lines=[_join_lines(parts, s, n_columns, number) for s in range(n_rounds + 1)],
        losses=[loss for part in parts for loss in part.losses],
        best=len(places),
        converged=all(part.converged for part in parts),
        n_iter=max(part.n_iter for part in parts),
        spreads=parts[0].spreads,
    )
    return joined, np.array([k for _, k in places], dtype=np.int64)


def _renumbered(rule: FoundRule, target: int, number: dict[tuple[int, int], int]) -> FoundRule:
    """Return a rule whose conditions on earlier rules use their numbers in the joined model."""
    tree = rule.tree
    features = [
        f if f < tree.n_features else tree.n_features + number[f - tree.n_features, target]
        for f in tree.features.tolist()
    ]
    return replace(rule, tree=replace(tree, features=np.array(features, dtype=np.int64)))


def _join_lines(
    parts: list[Rounds], n_rounds: int, n_columns: int, number: dict[tuple[int, int], int]
) -> Line:
    """Return the lines of all targets with the rules of the first rounds as one line."""
    rules = [(place, r) for place, r in number.items() if place[0] < n_rounds]
    coef = np.zeros((n_columns + len(rules), len(parts)))
    lines = [part.lines[min(n_rounds, part.best)] for part in parts]
    mean, fill = np.zeros(len(coef)), np.zeros(len(coef))
    mean[:n_columns], fill[:n_columns] = lines[0].mean[:n_columns], lines[0].fill[:n_columns]
    for k, line in enumerate(lines):
        coef[:n_columns, k] = line.coef[:n_columns, 0]
    for (s, k), r in rules:
        own, joined = n_columns + s, n_columns + r
        coef[joined, k] = lines[k].coef[own, 0]
        mean[joined], fill[joined] = lines[k].mean[own], lines[k].fill[own]
    return Line(coef, mean, fill, np.array([line.base[0] for line in lines]))
