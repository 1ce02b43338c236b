"""Models of single nodes for losses other than the squared error, for `LinearTreeSearch`.

The search ranks candidates by a quadratic approximation at the node's model; the best few are
fitted here in full.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import TINY
from hybridtrees.core.search.lines._linear_tree_fit import LogLossNodes
from hybridtrees.linear.cross_products import standardised
from hybridtrees.linear.newton import LogLoss, fit_log_loss
from hybridtrees.models.linear_tree.solutions import CONSTANT_SPREAD, NodePenalty

Floats = NDArray[np.float64]
Rows = NDArray[Any]

# Minimum curvature: working targets, which are divided by it, would otherwise be mostly noise.
_MIN_CURVATURE = 1e-4
# Tolerances of the fits of candidates, and of the final models.
_CANDIDATE_TOL, _FINAL_TOL = 1e-4, 1e-10
# Candidates are left after a step that was expected to lower the mean loss by half of this.
_ROUGH_GAIN = 0.01
_MAX_ITER = 60
# A small L2 penalty: separable classes would otherwise have no finite fit.
_JITTER = 1e-8
_MIN_DECREASE = 1e-10


@dataclass
class NodeFit:
    """Model of a node."""

    theta: Floats  # (n_outputs, p + 1), intercept first
    loss: float  # the criterion, summed over the rows


@dataclass(eq=False)
class NodeFitter:
    """Base of the fitters: compares candidates, and caches the models of their sides."""

    regressors: Floats
    weight: Floats | None
    columns: NDArray[np.uint8]  # codes of the features to split on
    penalty: NodePenalty
    min_rows: int  # nodes with fewer rows get a constant
    min_gain: float  # of the summed criterion
    n_threads: int
    _known: dict[bytes, NodeFit] = field(default_factory=dict, init=False)
    _node: NodeFit | None = field(default=None, init=False)

    def fit(self, rows: Rows, start: Floats | None = None, *, final: bool = False) -> NodeFit:
        """Fit some rows."""
        raise NotImplementedError

    def working(self, rows: Rows, fit: NodeFit) -> tuple[Floats, Floats]:
        """Return curvatures and working targets at a model."""
        raise NotImplementedError

    def prepare(self, rows: Rows) -> tuple[Floats, Floats] | None:
        """Fit a node; None if its loss is below the minimum gain."""
        fit = self._known.get(_key(rows))
        self._node = self.fit(rows) if fit is None else fit
        self._known[_key(rows)] = self._node
        if self._node.loss <= self._min_gain_of(rows):
            return None
        return self.working(rows, self._node)

    def finish(self, rows: Rows) -> NodeFit:
        """Fit a node of the finished tree, starting from the model of the search."""
        known = self._known.get(_key(rows))
        return self.fit(rows, None if known is None else known.theta, final=True)

    def choose(self, rows: Rows, candidates: list[tuple[int, NDArray[Any]]]) -> Any:
        """Fit both sides of every candidate; return index and gain of the best one, or None."""
        assert self._node is not None
        start = self._node.theta
        best: Any = None
        for number, (feature, table) in enumerate(candidates):
            goes_left = table[self.columns[feature][rows]] == 1
            sides = rows[goes_left], rows[~goes_left]
            fits = [self.fit(side, start) for side in sides]
            gain = self._node.loss - fits[0].loss - fits[1].loss
            if gain > self._min_gain_of(rows) and (best is None or gain > best[1]):
                best = number, gain, sides, fits
        if best is None:
            return None
        for side, fit in zip(best[2], best[3], strict=True):
            self._known[_key(side)] = fit
        return best[:2]

    def _min_gain_of(self, rows: Rows) -> float:
        return float(max(self.min_gain, _MIN_DECREASE * self._weights(rows).sum()))

    def _weights(self, rows: Rows) -> Floats:
        return np.ones(len(rows)) if self.weight is None else self.weight[rows]

    def _scores(self, rows: Rows, theta: Floats) -> Floats:
        return self.regressors[rows] @ theta[:, 1:].T + theta[:, 0]

    def _spread(self, part: Floats, weight: Floats) -> Floats:
        """Return the standard deviations of the regressors."""
        share = weight / weight.sum()
        mean = share @ part
        return np.asarray(np.sqrt(share @ (part - mean) ** 2))


class LogLossFitter(NodeFitter):
    """Logistic and multinomial regression."""

    def __init__(self, codes: NDArray[np.int32], n_classes: int, criterion: str, **shared: Any):
        super().__init__(**shared)
        self.codes = codes
        self.n_classes = n_classes
        self.criterion = criterion
        self.n_outputs = 1 if n_classes == 2 else n_classes
        p = self.regressors.shape[1]
        self._plain = (np.zeros(p), np.ones(p), np.zeros(p))
        self._small: LogLossNodes | None = None
        if p and not self.penalty.l1:
            penalty = self.penalty
            self._small = LogLossNodes(
                self.regressors,
                codes,
                self.weight,
                n_classes,
                criterion,
                penalty.l2,
                penalty.scale,
                penalty.by_sum,
                _JITTER,
                CONSTANT_SPREAD,
            )

    def fit(self, rows: Rows, start: Floats | None = None, *, final: bool = False) -> NodeFit:
        """Fit some rows."""
        if self._small is not None and len(rows) >= self.min_rows:
            how = (_FINAL_TOL, _MAX_ITER) if final else (_CANDIDATE_TOL, _MAX_ITER, _ROUGH_GAIN)
            found = self._small.fit(rows, start, *how)
            if found is not None:
                return NodeFit(*found)
        weight = self._weights(rows)
        codes = self.codes[rows]
        shares = np.bincount(codes, weight, self.n_classes).astype(np.float64, copy=False)
        present = np.flatnonzero(shares > 0)
        theta = self._constant(shares)
        if len(present) > 1 and len(rows) >= self.min_rows and self.regressors.shape[1]:
            theta = self._regression(rows, weight, present, theta, start, final)
        loss = criterion_loss(self.criterion, self._scores(rows, theta), codes, weight)
        return NodeFit(theta, loss)

    def _constant(self, shares: Floats) -> Floats:
        """Return a constant model with the shares of the classes, half a row added to each."""
        logs = np.log(shares + 0.5)
        theta = np.zeros((self.n_outputs, self.regressors.shape[1] + 1))
        theta[:, 0] = logs[1] - logs[0] if self.n_outputs == 1 else logs - logs.mean()
        return theta

    def _regression(
        self,
        rows: Rows,
        weight: Floats,
        present: NDArray[Any],
        constant: Floats,
        start: Floats | None,
        final: bool,
    ) -> Floats:
        """Fit the classes that are present; the others keep their constant score."""
        part = np.ascontiguousarray(self.regressors[rows])
        spread = self._spread(part, weight)
        l1, l2 = self.penalty.parts(spread, float(weight.sum()))
        pair = len(present) == 2
        n_outputs = 1 if pair else len(present)
        codes = np.searchsorted(present, self.codes[rows]).astype(np.int32)
        problem = LogLoss(
            lambda chosen: standardised(part, *self._plain, chosen),
            codes,
            weight,
            None,
            n_outputs,
            l1,
            l2 + _JITTER,
            True,
            self.n_threads,
        )
        begin = None
        if start is not None and len(present) == self.n_classes:
            begin = np.roll(start, -1, axis=1)
        tol = _FINAL_TOL if final else _CANDIDATE_TOL
        fit = fit_log_loss(problem, begin, tol=tol, max_iter=_MAX_ITER)
        found = np.roll(fit.theta, 1, axis=1)
        _drop_constants(found, part[0], spread)
        if self.n_outputs == 1:
            return found
        theta = constant.copy()
        level = theta[present, 0].mean()
        # The score of a pair of classes is split evenly, around their common level.
        theta[present] = np.vstack([-found[0], found[0]]) / 2 if pair else found
        theta[present, 0] += level
        return theta

    def working(self, rows: Rows, fit: NodeFit) -> tuple[Floats, Floats]:
        """Return curvatures and working targets; several classes share one curvature."""
        scores = self._scores(rows, fit.theta)
        proba = probabilities(scores)
        truth = np.zeros_like(proba)
        truth[np.arange(len(rows)), self.codes[rows]] = 1.0
        if self.n_outputs == 1:
            curve = proba[:, 0] * proba[:, 1]
            slope = (truth - proba)[:, 1:]
        else:
            # The mean of the positive eigenvalues of diag(p) - p p'.
            curve = (1.0 - (proba**2).sum(axis=1)) / (self.n_classes - 1)
            slope = truth - proba
        curve = np.maximum(curve, _MIN_CURVATURE)
        return self._weights(rows) * curve, np.ascontiguousarray(scores + slope / curve[:, None])


class AbsoluteFitter(NodeFitter):
    """Least absolute deviations by reweighted least squares (Schlossmacher 1973)."""

    def __init__(self, target: Floats, **shared: Any):
        super().__init__(**shared)
        self.target = target

    def fit(self, rows: Rows, start: Floats | None = None, *, final: bool = False) -> NodeFit:
        """Fit some rows."""
        weight, y = self._weights(rows), self.target[rows]
        p = self.regressors.shape[1]
        theta = np.zeros((1, p + 1))
        theta[0, 0] = weighted_median(y, weight)
        best = NodeFit(theta, float(weight @ np.abs(y - theta[0, 0])))
        if len(rows) < self.min_rows or not p or best.loss == 0:
            return best
        part = self.regressors[rows]
        total = float(weight.sum())
        l1, l2 = self.penalty.parts(self._spread(part, weight), total)
        columns = np.column_stack([np.ones(len(rows)), part])
        # Residuals are bounded from below: a residual of 0 would have an infinite weight.
        smallest = 1e-5 * best.loss / total
        curve = weight
        b = None if start is None else start[0].copy()
        last = np.inf
        for _ in range(50 if final else 12):
            if b is not None:
                curve = weight / np.maximum(np.abs(y - columns @ b), smallest)
            ridge = np.append(0.0, total * l2)
            if l1.any():
                size = np.full(p, smallest) if b is None else np.maximum(np.abs(b[1:]), 1e-9)
                ridge[1:] += total * l1 / size
            b = _weighted_ridge(columns, y, curve, ridge, by_rows=final)
            b[0] += weighted_median(y - columns @ b, weight)
            loss = float(weight @ np.abs(y - columns @ b))
            if loss < best.loss:
                best = NodeFit(b[None, :].copy(), loss)
            if loss > (1.0 - (1e-9 if final else 1e-5)) * last:
                break
            last = loss
        spread = self._spread(part, weight)
        if l1.any() and final:
            small = np.abs(best.theta[0, 1:]) * spread < 1e-6 * best.loss / total
            best.theta[0, 1:][small] = 0.0
        _drop_constants(best.theta, part[0], spread)
        return best

    def working(self, rows: Rows, fit: NodeFit) -> tuple[Floats, Floats]:
        """Return curvatures and working targets at a model."""
        y, weight = self.target[rows], self._weights(rows)
        away = np.abs(y - self._scores(rows, fit.theta)[:, 0])
        # Rows with residuals near 0 must not dominate the ranking.
        smallest = 0.1 * fit.loss / float(weight.sum())
        return weight / np.maximum(away, smallest), np.ascontiguousarray(y[:, None])


def _drop_constants(theta: Floats, row: Floats, spread: Floats) -> None:
    """Move the effects of constant regressors into the intercept."""
    still = np.append(False, spread <= CONSTANT_SPREAD)
    theta[:, 0] += theta[:, still] @ row[still[1:]]
    theta[:, still] = 0.0


def criterion_loss(criterion: str, scores: Floats, codes: NDArray[Any], weight: Floats) -> float:
    """Return the log-loss, squared distance or number of errors, summed over rows."""
    proba = probabilities(scores)
    own = proba[np.arange(len(codes)), codes]
    if criterion == "log_loss":
        return float(-weight @ np.log(np.maximum(own, TINY)))
    if criterion == "gini":
        return float(weight @ (1.0 - 2.0 * own + (proba**2).sum(axis=1)))
    return float(weight @ (proba.argmax(axis=1) != codes))


def probabilities(scores: Floats) -> Floats:
    """Return class probabilities, (n_rows, n_classes), from scores of one or more outputs."""
    if scores.shape[1] == 1:
        raw = scores[:, 0]
        small = np.exp(-np.abs(raw))
        small, large = small / (1.0 + small), 1.0 / (1.0 + small)
        up = raw > 0
        return np.column_stack([np.where(up, small, large), np.where(up, large, small)])
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _weighted_ridge(
    columns: Floats, y: Floats, curve: Floats, ridge: Floats, *, by_rows: bool
) -> Floats:
    """Solve weighted ridge regression, from the rows (accurate) or from their products (fast)."""
    if by_rows:
        root = np.sqrt(curve)
        table = np.vstack([columns * root[:, None], np.diag(np.sqrt(ridge))])
        found: Floats = np.linalg.lstsq(
            table, np.append(root * y, np.zeros(len(ridge))), rcond=None
        )[0]
        return found
    scaled = columns * curve[:, None]
    gram = scaled.T @ columns
    gram[np.diag_indices_from(gram)] += ridge + 1e-12 * np.diag(gram)
    return np.linalg.lstsq(gram, scaled.T @ y, rcond=1e-13)[0].astype(np.float64, copy=False)


def weighted_median(y: Floats, weight: Floats) -> float:
    """Return the lower weighted median."""
    order = np.argsort(y, kind="stable")
    below = np.cumsum(weight[order])
    return float(y[order[np.searchsorted(below, 0.5 * below[-1])]])


def _key(rows: Rows) -> bytes:
    """Return a hash of a set of rows, whose order does not change from split to split."""
    return hashlib.blake2b(np.ascontiguousarray(rows).tobytes(), digest_size=16).digest()
