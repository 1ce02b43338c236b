"""The rounds of EBLR: fit a regression, find a rule in its residuals, add a column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.linear.regression import Line, Options
from hybridtrees.models.eblr.lines import GrowingLine, open_line
from hybridtrees.models.eblr.residuals import deviance
from hybridtrees.models.eblr.rules import FoundRule, RuleFinder, RuleTree

Floats = NDArray[np.float64]

# A loss below this share of the mean square of the target is rounding error: the fit is perfect.
_NOTHING_LEFT = 1e-28


@dataclass(frozen=True)
class Sample:
    """Rows as the trees and the regression read them."""

    values: Any  # features, for the trees
    columns: Any  # columns of the regression
    target: NDArray[Any]  # float64, or int32 class codes
    weight: Floats | None

    def of_target(self, k: int) -> Sample:
        """Return the rows with one of several targets."""
        return replace(self, target=np.ascontiguousarray(self.target[:, k]))

    def take(self, rows: NDArray[np.int64]) -> Sample:
        """Return some rows."""
        weight = None if self.weight is None else self.weight[rows]
        values = self.values.tocsr() if hasattr(self.values, "indptr") else self.values
        return Sample(values[rows], self.columns[rows], self.target[rows], weight)


@dataclass(frozen=True)
class Job:
    """Settings of the rounds."""

    n_rules: int  # the maximum
    n_outputs: int  # 0 for regression, 1 for two classes, else the number of classes
    options: Options  # of the regression
    params: Callable[[int, float], GrowerParams]  # (number of rows, total weight) -> parameters
    depths: tuple[int | None, ...]  # see `RuleFinder`
    is_categorical: NDArray[Any]
    residual: Callable[[NDArray[Any], Floats], Floats]  # (target, scores) -> residuals
    criterion: str | None  # "validation", "aic", "bic" or None, to choose the number of rules
    patience: int  # rounds without improvement after which to stop
    verbose: int = 0


@dataclass
class Rounds:
    """The result: regressions with 0, 1, 2, ... rules, with their losses and scores."""

    rules: list[FoundRule] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # on the training rows
    scores: list[float] = field(default_factory=list)  # by the criterion
    best: int = 0  # number of rules to keep
    converged: bool = True  # whether all regressions have converged
    n_iter: int = 0
    spreads: Floats | None = None  # standard deviations of the columns without rules


def grow_rules(job: Job, train: Sample, validation: Sample | None = None) -> Rounds:
    """Run the rounds; `validation` rows are for ``criterion="validation"``."""
    line = open_line(
        train.columns, train.target, train.weight, job.n_outputs, job.options, job.n_rules
    )
    grower = None
    watch = None if validation is None else _ValidationLoss(validation, job)
    rounds = Rounds()
    for number in range(job.n_rules + 1):
        fitted, raw = line.fit_round()
        loss, raw = _mean_loss(job, train, raw)
        rounds.lines.append(fitted)
        rounds.losses.append(loss)
        if _score(job, rounds, line, watch, train) or number == job.n_rules:
            break
        if not loss > _NOTHING_LEFT * _spread(train, job):
            break
        if grower is None:
            grower = _open_grower(job, train)
        found = grower.find(np.asarray(job.residual(train.target, raw), dtype=np.float64))
        if found is None:
            break
        rounds.rules.append(found)
        line.append(found.holds.astype(np.float64))
        if watch is not None:
            watch.append(found.tree)
    rounds.converged, rounds.n_iter = line.converged, line.n_iter
    rounds.spreads = line.spreads
    if job.criterion is None:
        rounds.best = len(rounds.rules)
    return rounds


def _mean_loss(job: Job, sample: Sample, raw: Floats) -> tuple[float, Floats]:
    """Return the mean squared error or log-loss, and scores in the shape that residuals take."""
    if job.n_outputs:
        losses = deviance(sample.target, raw)
    else:
        raw = raw[:, 0]
        losses = (sample.target - raw) ** 2
    return float(np.average(losses, weights=sample.weight)), raw


def _open_grower(job: Job, train: Sample) -> RuleFinder:
    n = len(train.target)
    total = float(n) if train.weight is None else float(train.weight.sum())
    table, params = (train.values, job.is_categorical, train.weight), job.params(n, total)
    return RuleFinder(*table, params, job.depths, job.n_rules, job.options.n_threads)


def _spread(train: Sample, job: Job) -> float:
    """Return the scale of the loss: the mean square of the target, 1 for the log-loss."""
    if job.n_outputs:
        return 1.0
    return float(np.average(train.target**2, weights=train.weight))


def _score(
    job: Job, rounds: Rounds, line: GrowingLine, watch: _ValidationLoss | None, train: Sample
) -> bool:
    """Score the regression of this round; return whether to stop."""
    if job.verbose:
        print(f"[{len(rounds.rules)}] loss {rounds.losses[-1]:.6g}", end="")
    if job.criterion is None:
        if job.verbose:
            print()
        return False
    if watch is not None:
        score = watch.loss(rounds.lines[-1])
    else:
        score = _information(job, rounds, line, train)
    rounds.scores.append(score)
    if score < min(rounds.scores[:-1], default=np.inf):
        rounds.best = len(rounds.rules)
    if job.verbose:
        print(f", {job.criterion} {score:.6g}")
    return len(rounds.rules) - rounds.best >= job.patience


def _information(job: Job, rounds: Rounds, line: GrowingLine, train: Sample) -> float:
    """Return the criterion of Akaike or Schwarz.

    The conditions of a rule were searched for, hence each counts as one more parameter. Weights
    are relative: the sample size is the number of rows of positive weight, not their sum.
    """
    total = len(train.target) if train.weight is None else int(np.count_nonzero(train.weight))
    searched = sum([found.n_conditions for found in rounds.rules])
    n_free = max(1, job.n_outputs - 1) if job.n_outputs else 1
    intercepts = n_free if job.options.fit_intercept else 0
    price = 2.0 if job.criterion == "aic" else np.log(total)
    loss = rounds.losses[-1]
    if job.n_outputs:
        fit = 2.0 * total * loss
    else:
        fit = total * float(np.log(max(loss, np.finfo(np.float64).tiny)))
    return fit + price * (line.degrees() + intercepts + searched)


class _ValidationLoss:
    """Validation rows, with columns of the rules found so far."""

    def __init__(self, sample: Sample, job: Job) -> None:
        self._sample, self._job = sample, job
        self._rules = np.zeros((len(sample.target), 0))

    def append(self, tree: RuleTree) -> None:
        """Add the column of a rule."""
        holds = tree.holds(self._sample.values, self._rules, self._job.options.n_threads)
        self._rules = np.column_stack([self._rules, holds])

    def loss(self, line: Line) -> float:
        """Return the mean loss of a regression."""
        columns, n_threads = self._sample.columns, self._job.options.n_threads
        raw = enriched_scores(line, columns, self._rules, n_threads)
        return _mean_loss(self._job, self._sample, raw)[0]


def enriched_scores(line: Line, columns: Any, rules: NDArray[Any], n_threads: int) -> Floats:
    """Return the scores of the columns of the regression, dense or CSR, and of its rules.

    They are passed apart, since to join them would copy the columns.
    """
    p = columns.shape[1]
    own = Line(line.coef[:p], line.mean[:p], line.fill[:p], line.base)
    raw = own.predict(columns, None, n_threads)
    if len(line.coef) > p:
        raw = raw + (rules - line.mean[p:]) @ line.coef[p:]
    return raw


def split_rows(
    n_rows: int,
    fraction: float,
    how: str,
    weight: Floats | None,
    codes: NDArray[Any] | None,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return training and validation rows, without those of weight 0.

    A `fraction` is for validation: the last rows, or random ones, stratified by class `codes`.
    """
    rows = np.arange(n_rows) if weight is None else np.flatnonzero(weight > 0)
    n_val = int(np.ceil(fraction * len(rows)))
    if how == "last":
        train, val = rows[: len(rows) - n_val], rows[len(rows) - n_val :]
    else:
        order = rng.permutation(rows)
        if codes is not None:
            order = order[np.argsort(codes[order], kind="stable")]
        # Rows at equal distances in this order keep the shares of the classes.
        place = np.arange(len(order))
        chosen = np.floor((place + 1) * fraction) > np.floor(place * fraction)
        train, val = np.sort(order[~chosen]), np.sort(order[chosen])
    few = len(train) == 0 or len(val) == 0
    if few or (codes is not None and len(np.unique(codes[train])) < len(np.unique(codes[rows]))):
        raise ValueError(
            f"validation_fraction={fraction!r} leaves too few of {len(rows)} sample(s): training "
            "needs a row (of each class), and so does validation"
        )
    return train, val
