"""The one boosting loop: statistics, trees, raw scores, validation, early stopping."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hybridtrees.core.bins import BinnedMatrix
from hybridtrees.core.grow import Grower, GrowerParams
from hybridtrees.core.tree import Tree, TreeEnsemble
from hybridtrees.losses import Loss
from hybridtrees.metrics import Metric


@dataclass
class EvalSet:
    """A table to watch the training on, with its running raw scores."""

    name: str
    values: object
    y: np.ndarray
    weight: np.ndarray | None
    raw: np.ndarray | None = None


@dataclass
class BoostingPlan:
    """What the loop does, apart from the growth of single trees."""

    loss: Loss
    grower: GrowerParams
    n_rounds: int
    learning_rate: float
    subsample: float = 1.0
    metrics: Sequence[Metric] = ()
    early_stopping_rounds: int | None = None
    verbose: int = 0
    n_threads: int = 1


@dataclass
class BoostingResult:
    """What the loop has made."""

    trees: list[Tree] = field(default_factory=list)
    tree_output: list[int] = field(default_factory=list)
    evals_result: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    n_rounds: int = 0
    best_round: int | None = None
    best_score: float | None = None


def boost(
    binned: BinnedMatrix,
    y: np.ndarray,
    weight: np.ndarray | None,
    base_raw: np.ndarray,
    plan: BoostingPlan,
    *,
    eval_sets: Sequence[EvalSet] = (),
    category_to_bin: Sequence[np.ndarray | None] | None = None,
    seeds: np.random.SeedSequence,
) -> BoostingResult:
    """Fit `plan.n_rounds` rounds of one tree per output.

    Parameters
    ----------
    binned : BinnedMatrix
    y : float64 array of shape (n_rows,)
    weight : float64 array of shape (n_rows,) or None
    base_raw : float64 array of shape (n_outputs,)
        Raw score that all rows start from.
    plan : BoostingPlan
    eval_sets : sequence of EvalSet
        Early stopping looks at the last metric on the last of them.
    category_to_bin : sequence, optional
        See `Grower`.
    seeds : SeedSequence

    Returns
    -------
    result : BoostingResult
    """
    loss, n_outputs = plan.loss, plan.loss.n_outputs
    n = binned.n_rows
    raw = np.tile(base_raw, (n, 1))
    for eval_set in eval_sets:
        eval_set.raw = np.tile(base_raw, (len(eval_set.y), 1))
    grad = np.empty((n_outputs, n), dtype=np.float32)
    constant = loss.constant_hessian and weight is None
    hess = None if constant else np.empty((n_outputs, n), dtype=np.float32)
    result = BoostingResult(evals_result={e.name: {} for e in eval_sets})
    progress = _Progress(plan)
    rng = np.random.Generator(np.random.PCG64(seeds))
    with Grower(binned, plan.grower, plan.n_threads, category_to_bin) as grower:
        for round_ in range(plan.n_rounds):
            loss.statistics(y, raw, weight, grad, hess, plan.n_threads)
            rows = _sample_rows(rng, n, plan.subsample)
            tree_seeds = rng.integers(0, 2**64, size=n_outputs, dtype=np.uint64)
            new = []
            for k in range(n_outputs):
                tree = grower.grow(
                    grad[k],
                    1.0 if hess is None else hess[k],
                    rows=rows,
                    seed=int(tree_seeds[k]),
                    scale=plan.learning_rate,
                )
                grower.update_raw(tree, raw[:, k])
                new.append(tree)
            result.trees += new
            result.tree_output += range(n_outputs)
            result.n_rounds = round_ + 1
            if eval_sets:
                _evaluate(new, eval_sets, plan, result)
            stops = _stops(plan, result)
            progress.report(result, stops)
            if stops:
                break
    return result


def _sample_rows(rng: np.random.Generator, n: int, subsample: float) -> np.ndarray | None:
    """Each row with probability `subsample`, one row at least."""
    if subsample >= 1:
        return None
    rows = np.flatnonzero(rng.random(n, dtype=np.float32) < subsample)
    if len(rows) == 0:
        rows = rng.integers(0, n, size=1)
    return rows.astype(np.uint32)


def _evaluate(
    new: list[Tree], eval_sets: Sequence[EvalSet], plan: BoostingPlan, result: BoostingResult
) -> None:
    """Bring the raw scores of the validation tables up to date and score them."""
    n_features = eval_sets[0].values.shape[1]
    ensemble = TreeEnsemble(new, n_features, len(new), range(len(new)))
    for eval_set in eval_sets:
        ensemble.add_raw(eval_set.values, eval_set.raw, plan.n_threads)
        prediction = plan.loss.score_input(eval_set.raw)
        curves = result.evals_result[eval_set.name]
        for metric in plan.metrics:
            score = metric.function(eval_set.y, prediction, sample_weight=eval_set.weight)
            curves.setdefault(metric.name, []).append(float(score))
    metric, curves = plan.metrics[-1], result.evals_result[eval_sets[-1].name]
    score = curves[metric.name][-1]
    if math.isnan(score):
        # Undefined on this table, as the AUC of a single class is: no round would be the best.
        if plan.early_stopping_rounds is not None:
            raise ValueError(
                f"early stopping needs a score, but {metric.name} is not defined on "
                f"{eval_sets[-1].name}"
            )
        return
    if result.best_score is None or (
        score > result.best_score if metric.maximize else score < result.best_score
    ):
        result.best_score = score
        result.best_round = result.n_rounds - 1


def _stops(plan: BoostingPlan, result: BoostingResult) -> bool:
    if plan.early_stopping_rounds is None or result.best_round is None:
        return False
    return result.n_rounds - 1 - result.best_round >= plan.early_stopping_rounds


class _Progress:
    """A line every `verbose` rounds, with the time gone and the time to come."""

    def __init__(self, plan: BoostingPlan):
        self.plan = plan
        self.start = time.perf_counter()

    def report(self, result: BoostingResult, stops: bool) -> None:
        """Print the state of training when its turn has come, and when it ends."""
        every, done, all_ = self.plan.verbose, result.n_rounds, self.plan.n_rounds
        if every <= 0 or ((done - 1) % every and done != all_ and not stops):
            return
        elapsed = time.perf_counter() - self.start
        scores = [
            f"{name}-{metric}:{curve[-1]:.5f}"
            for name, curves in result.evals_result.items()
            for metric, curve in curves.items()
        ]
        remaining = elapsed / done * (all_ - done)
        end = f"{elapsed:.1f} s, at most {remaining:.1f} s to go"
        if stops:
            end = f"{elapsed:.1f} s, stopped early: round {result.best_round} was the best"
        print("  ".join([f"[{done - 1}]", *scores, end]), file=sys.stdout, flush=True)
