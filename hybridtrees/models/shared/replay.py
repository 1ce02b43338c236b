"""Replay of a boosted model: the same splits, with leaves fitted to other rows.

Early stopping holds rows out, which the trees then have not seen. A replay runs through the rounds
once more, on all rows: gradients are those of the replayed trees so far, and each tree keeps its
splits. It costs a fraction of growing the trees, and wastes no rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees.core.base.threads import table_threads
from hybridtrees.core.grow.grower import Statistics
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.models.shared.boosted_model import BoostedModel
from hybridtrees.models.shared.boosting_steps import NewtonSteps

# Trees whose leaves are looked up at a time: 32 numbers a row.
_BLOCK = 32


def replay(model: BoostedModel, X: Any, y: Any, sample_weight: Any = None) -> None:
    """Fit the leaves of a model to other rows; the rounds after its best one are dropped.

    Takes XGB and PLGB without constraints, with a loss that has second derivatives. `X` is an array
    or a sparse matrix.
    """
    params = model._check_parameters()
    n_rows = X.shape[0]
    loss, old = model._loss, model.trees_
    params = params.grouped_in(n_rows)
    target = model._encode_eval_target(y, n_rows, "y")
    weight = model._weigh_classes(target, check_sample_weight(sample_weight, n_rows))
    # Statistics of categories are learned again: a row must not know its own target here either.
    n_classes = len(vars(model).get("classes_", ()))
    reader, values = model._reader.learn_again(X, target, n_classes, weight)
    n_threads = table_threads(model.n_jobs, n_rows, values.shape[1])
    best = model._best_round()
    n_rounds = model.n_iter_ if best is None else best + 1
    base_raw = model._base_raw(loss, target, weight)
    raw = np.tile(base_raw, (n_rows, 1))
    n_outputs = loss.n_outputs
    grad = np.empty((n_outputs, n_rows), dtype=np.float32)
    constant = loss.constant_hessian and weight is None
    hess = None if constant else np.empty((n_outputs, n_rows), dtype=np.float32)
    trees = []
    with model._open_grower(values, weight, params, n_threads) as grower:
        rate = float(model.learning_rate)
        steps = model._steps(grower, loss, target, weight, raw, rate, n_threads, None)
        if type(steps) is not NewtonSteps or model.monotone_constraints is not None:
            raise ValueError("a replay needs Newton steps without monotone constraints")
        leaf_model = grower.leaf_model
        for index in range(n_rounds * n_outputs):
            k, at = index % n_outputs, index % _BLOCK
            if at == 0:
                leaves = old.apply(values, n_threads, index, min(index + _BLOCK, len(old)))
            if k == 0:
                loss.statistics(target, raw, weight, grad, hess, n_threads)
            statistics = Statistics(grad[k], 1.0 if hess is None else hess[k])
            leaf = np.ascontiguousarray(leaves[:, at])
            tree = leaf_model.replay(old[index], leaf, statistics, rate)
            leaf_model.add_replayed(tree, leaf, raw[:, k])
            trees.append(tree)
    outputs = old.tree_output[: len(trees)]
    model.trees_ = TreeEnsemble(trees, old.n_features, n_outputs, outputs)
    model._reader = reader
    model.n_iter_, model._base_raw_, model._evals_result = n_rounds, base_raw, {}
