"""Growers of each kind, composed as the families do it, and trees grown on gradients."""

from __future__ import annotations

import numpy as np

from hybridtrees.core.grow.grower import Grower, NewtonLeaves, Statistics
from hybridtrees.core.grow.linear_leaves import linear_leaf_grower
from hybridtrees.core.grow.table import ProposedTable, Table


def newton_grower(binned, params, n_threads=1, category_to_bin=None):
    """Boosted trees along histograms."""
    return Grower(Table.of_bins(binned, category_to_bin), params, NewtonLeaves(params), n_threads)


def exact_grower(values, kinds, params, n_threads=1):
    """Boosted trees that try every threshold."""
    params = params.in_subtrees()
    if params.candidate_share == 0:
        params = params.pruned_afterwards()
    return Grower(Table(values, kinds), params, NewtonLeaves(params), n_threads)


def approx_grower(values, kinds, params, n_threads, max_bins):
    """Boosted trees on candidates proposed anew for every tree."""
    table = ProposedTable(values, kinds, max_bins, n_threads)
    return Grower(table, params, NewtonLeaves(params), n_threads)


def line_grower(binned, params, rules, columns, n_threads=1):
    """Trees with linear leaves."""
    return linear_leaf_grower(Table.of_bins(binned), params, rules, columns, n_threads)


def tree_of(grower, grad, hess, rows=None, seed=0, scale=1.0):
    """One tree on gradients and hessians."""
    statistics = Statistics(np.asarray(grad, dtype=np.float32), hess)
    return grower.grow(statistics, rows, seed, scale=scale).tree
