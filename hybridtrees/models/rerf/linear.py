"""The regression of RERF: its columns, its fits for several penalties, its predictions.

Out-of-bag errors need predictions by regressions that were not fitted to the row; training errors
are too small, the more so the weaker the penalty. Least squares and ridge have leave-one-out
predictions in closed form, from the diagonal h of the hat matrix: the residual without row i is
r_i / (1 - h_i). Other regressions are cross-validated on a few folds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._persistence import register
from hybridtrees.core.base.checks import (
    Checked,
    check_array,
    check_arrays,
    check_numbers,
    check_type,
)
from hybridtrees.core.base.exact_sum import exact_mean, group_sums
from hybridtrees.core.tree.additive import Column
from hybridtrees.input.folds import Folds, make_folds
from hybridtrees.input.validation import FeatureReader
from hybridtrees.linear.blas import sequential_blas
from hybridtrees.linear.classification import choose_classification_alpha, open_classification
from hybridtrees.linear.design import Design, level_spread
from hybridtrees.linear.regression import (
    Line,
    NarrowRegression,
    Options,
    choose_regression_alpha,
    exact_least_squares,
    open_regression,
)

Floats = NDArray[np.float64]

ENCODINGS = ("onehot", "target_mean")
# Weight, in rows, of the overall mean in the mean of a category.
_SMOOTHING = 1.0
# Number of folds for predictions and means that must not use a row's own target.
N_FOLDS = 5
# Minimum 1 - h for leave-one-out: with less, a row determines a coefficient almost alone.
_MIN_FREEDOM = 1e-6
_BLOCK = 4096


def few_folds(
    n_rows: int, codes: NDArray[Any] | None = None, weight: Floats | None = None
) -> Folds:
    """Return training and test rows of a few fixed folds; none for a single row."""
    counted = n_rows if weight is None else int(np.count_nonzero(weight))
    number = min(N_FOLDS, counted)
    return make_folds(number, n_rows, codes, weight) if number > 1 else []


@register
@dataclass(eq=False)
class RegressionColumns(Checked):
    """Turns the features of a table into columns of the regression."""

    features: NDArray[np.int64]  # indices of the features used
    design: Design  # under "target_mean", of a table with means in place of categories
    means: list[Floats | None]  # (n_codes, n_means) of each feature under "target_mean", else None
    shares: list[Floats | None]  # of the weight, by code, for the same features

    def _check_state(self) -> None:
        check_type(self, "design", Design)
        n_features = check_arrays(self, {"features": ("i8", "n_features")})["n_features"]
        if len(check_type(self, "means", list)) != n_features:
            raise ValueError(f"{n_features} features have means of {len(self.means)}")
        # Missing in files of the first versions: all codes count the same.
        even = [None if mean is None else np.full(len(mean), 1 / len(mean)) for mean in self.means]
        if len(vars(self).setdefault("shares", even)) != n_features:
            raise ValueError(f"{n_features} features have shares of {len(self.shares)}")
        for mean, share in zip(self.means, self.shares, strict=True):
            if mean is not None:
                check_array(mean, "means of RegressionColumns", "f8", ["n_codes", "n_means"])
                check_array(share, "shares of RegressionColumns", "f8", [len(mean)])

    def check_reader(self, reader: FeatureReader) -> None:
        """Refuse columns that do not match the features of a reader."""
        check_numbers(self.features, "features of RegressionColumns", 0, reader.n_features_in)
        categories = [reader.coded[f] for f in self.features]
        widths = [1 if mean is None else mean.shape[1] for mean in self.means]
        for labels, mean in zip(categories, self.means, strict=True):
            if mean is not None and (labels is None or len(labels) != len(mean)):
                raise ValueError("the means belong to other categories")
        if any(mean is not None for mean in self.means):
            categories = [None] * sum(widths)
        self.design.check_reader(FeatureReader(len(categories), None, categories))

    @classmethod
    def learn(
        cls,
        reader: FeatureReader,
        values: Any,
        features: NDArray[np.int64],
        target: Floats,
        weight: Floats | None,
        *,
        encoding: str,
        drop_first: bool,
        indicators: bool,
    ) -> RegressionColumns:
        """Learn the columns of a table; `target` is for the means of categories."""
        given = reader.feature_names_in
        names = [f"x{f}" if given is None else str(given[f]) for f in features]
        categories = [reader.coded[f] for f in features]
        own = _take(values, features)
        means: list[Floats | None] = [None] * len(features)
        shares: list[Floats | None] = [None] * len(features)
        if encoding == "target_mean" and any(labels is not None for labels in categories):
            means = [
                None if labels is None else _category_means(own, j, len(labels), target, weight)
                for j, labels in enumerate(categories)
            ]
            shares = [
                None if mean is None else _category_shares(own, j, len(mean), weight)
                for j, mean in enumerate(means)
            ]
            own = _encode(own, means)
            n_means = target.shape[1]
            names = [
                text
                for name, mean in zip(names, means, strict=True)
                for text in ([name] if mean is None else _mean_names(name, n_means))
            ]
            categories = [None] * len(names)
        sub = FeatureReader(len(names), np.array(names, dtype=object), categories)
        design = Design(sub, own, drop_first=drop_first, indicators=indicators)
        return cls(features, design, means, shares)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.design.names

    def by_feature(self, coef: Floats, fill: Floats) -> Floats:
        """Return one number per output and feature of the regression: see `Design.by_feature`."""
        if all(mean is None for mean in self.means):
            return self.design.by_feature(coef, fill)
        found, start = np.zeros((coef.shape[1], len(self.means))), 0
        for f, (mean, share) in enumerate(zip(self.means, self.shares, strict=True)):
            if mean is None or share is None:  # a number
                found[:, f], start = coef[start], start + 1
                continue
            own = slice(start, start + mean.shape[1])
            found[:, f], start = level_spread(mean @ coef[own], share), own.stop
        return found

    def forms(self, columns: Sequence[Column]) -> list[Column]:
        """Return what the columns that `design` expands are made of, given those of the table."""
        made = []
        for f, mean in zip(self.features, self.means, strict=True):
            if mean is None:
                made.append(columns[f])
                continue
            for own in mean.T:
                made.append(Column(int(f), "table", table=np.append(np.nan, own)))
        return made

    def make(self, values: Any) -> Any:
        """Return the columns of a table: dense, or CSR."""
        return self.design.expand(_encode(_take(values, self.features), self.means))

    def make_training(self, values: Any, target: Floats, weight: Floats | None) -> Any:
        """Return the columns of the training table.

        Means of categories are over the rows of other folds: with its own target in the mean, a
        row of a rare category would predict itself.
        """
        if all(mean is None for mean in self.means):
            return self.make(values)
        own = _take(values, self.features)
        own = own.tocsr() if hasattr(own, "indptr") else own
        made = np.array(_encode(own, self.means))
        w = np.ones(len(target)) if weight is None else weight
        overall = exact_mean(target, w)
        for train, test in few_folds(len(target), None, weight):
            rest = np.zeros(len(target))
            rest[train] = w[train]
            # Shrunk to the mean of all rows: that of the fold would reveal the fold.
            means = [
                None if mean is None else _category_means(own, j, len(mean), target, rest, overall)
                for j, mean in enumerate(self.means)
            ]
            made[test] = _encode(own[test], means)
        return self.design.expand(made)


def _take(values: Any, features: NDArray[np.int64]) -> Any:
    return values if len(features) == values.shape[1] else values[:, features]


def _mean_names(name: str, n_means: int) -> list[str]:
    return [f"mean of {name}"] if n_means == 1 else [f"mean {k} of {name}" for k in range(n_means)]


def _codes(values: Any, j: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return a column of category codes, and where they are known."""
    codes = values[:, [j]].toarray().ravel() if hasattr(values, "indptr") else values[:, j]
    return codes, ~np.isnan(codes)


def _category_shares(values: Any, j: int, n_codes: int, weight: Floats | None) -> Floats:
    """Return the share of each category in the weight of the rows where it is known."""
    codes, known = _codes(values, j)
    w = np.ones(len(codes)) if weight is None else weight
    total = group_sums(codes[known].astype(np.int64), n_codes, w[known])
    return total / max(float(total.sum()), np.finfo(np.float64).tiny)


def _category_means(
    values: Any,
    j: int,
    n_codes: int,
    target: Floats,
    weight: Floats | None,
    overall: Floats | None = None,
) -> Floats:
    """Return the mean target of each category, shrunk towards the overall mean."""
    codes, known = _codes(values, j)
    w = np.ones(len(codes)) if weight is None else weight
    if overall is None:
        overall = exact_mean(target, w)
    at = codes[known].astype(np.int64)
    total = group_sums(at, n_codes, w[known])
    sums = np.column_stack(
        [group_sums(at, n_codes, w[known] * target[known, k]) for k in range(target.shape[1])]
    )
    return (sums + _SMOOTHING * overall) / (total + _SMOOTHING)[:, None]


def _encode(values: Any, means: list[Floats | None]) -> Any:
    """Replace categories by their mean targets."""
    if all(mean is None for mean in means):
        return values
    dense = values.toarray() if hasattr(values, "indptr") else values
    parts = []
    for j, mean in enumerate(means):
        if mean is None:
            parts.append(dense[:, [j]])
            continue
        missing = np.isnan(dense[:, j])
        found = mean[np.where(missing, 0, dense[:, j]).astype(np.int64)]
        found[missing] = np.nan
        parts.append(found)
    return np.hstack(parts).astype(dense.dtype, copy=False)


@dataclass
class FittedLine:
    """A fitted regression and how its solver ended."""

    line: Line
    alpha: float
    n_iter: int
    converged: bool
    honest: Floats | None = None  # see `honest_level`
    fitted_with: dict[str, Any] = field(default_factory=dict)  # see `RERFModel._growth`


@dataclass(eq=False)
class LinearFits:
    """Regressions on one table for several penalties, which share sums over the rows."""

    columns: Any
    target: NDArray[Any]
    weight: Floats | None
    n_outputs: int  # 0 for least squares, 1 for two classes, else their number
    rows: NDArray[np.int64] | None = None  # training rows, all by default
    _model: Any = field(default=None, init=False)
    _key: tuple[Any, ...] | None = field(default=None, init=False)
    _fits: dict[Any, FittedLine] = field(default_factory=dict, init=False)

    def open(self, options: Options) -> Any:
        """Return the problem; its sums over the rows are reused for the next penalty."""
        # Whether columns are scaled is fixed when some problems are opened.
        key = (options.fit_intercept, options.scaled)
        if self._key != key:
            data = self.columns, self.target, self.weight
            if self.n_outputs:
                self._model = open_classification(*data, self.rows, self.n_outputs, options)
            else:
                self._model = open_regression(*data, options, self.rows)
            self._key = key
        self._model.options = options
        return self._model

    def choose_alpha(self, options: Options) -> float:
        """Return the best alpha by cross-validation."""
        data, model = (self.columns, self.target, self.weight), self.open(options)
        if self.n_outputs:
            return choose_classification_alpha(*data, self.n_outputs, model).alpha
        return choose_regression_alpha(*data, model).alpha

    def fit(self, options: Options, alpha: float) -> FittedLine:
        """Return the regression of one penalty, fitted once."""
        key = options.penalty.l1_ratio, alpha, options.scaled, options.fit_intercept
        if key not in self._fits:
            self._fits[key] = self._solve(options, alpha)
        return self._fits[key]

    def _solve(self, options: Options, alpha: float) -> FittedLine:
        model = self.open(options)
        solution = model.solve(alpha)
        if alpha == 0 and isinstance(model, NarrowRegression) and solution.spectral:
            rows = slice(None) if self.rows is None else self.rows
            weight = None if self.weight is None else self.weight[rows]
            solution = exact_least_squares(
                self.columns[rows], self.target[rows], weight, model.moments
            )
        line = model.line(solution)
        return FittedLine(line, alpha, solution.n_iter, solution.converged)


def honest_level(
    fits: LinearFits, line: FittedLine, options: Options, level: Callable[[Floats], Floats]
) -> Floats:
    """Return out-of-sample predictions of the training rows, (n_rows, n_values).

    They are cached in `line`, the regression on all rows; `level` turns scores into predictions.
    """
    if line.honest is None:
        found = _without_row(fits, line, options)
        line.honest = _by_folds(fits, line, options, level) if found is None else found
    return line.honest


def _without_row(fits: LinearFits, line: FittedLine, options: Options) -> Floats | None:
    """Return leave-one-out predictions, None if there is no closed form."""
    from scipy.linalg import pinvh

    model = fits.open(options)
    if fits.n_outputs or options.penalty.has_l1 or not isinstance(model, NarrowRegression):
        return None
    m = model.moments
    varies = np.flatnonzero(m.scale > 0)
    n = len(fits.target)
    l2 = np.broadcast_to(model._penalties(line.alpha)[1], m.scale.shape)
    share = np.full(n, 1.0 / n) if fits.weight is None else fits.weight / fits.weight.sum()
    leverage = np.full(n, 1.0 if options.fit_intercept else 0.0)
    with sequential_blas():
        inverse = pinvh(m.corr[np.ix_(varies, varies)] + np.diag(l2[varies]))
        for start in range(0, n, _BLOCK):
            part = fits.columns[start : start + _BLOCK]
            part = part.toarray() if hasattr(part, "indptr") else part
            part = np.asarray(part, dtype=np.float64)[:, varies]
            part = np.where(np.isnan(part), m.fill[varies], part)
            z = (part - m.mean[varies]) / m.scale[varies]
            leverage[start : start + _BLOCK] += np.einsum("ij,ij->i", z @ inverse, z)
    free = 1.0 - share * leverage
    if not np.all(free[share > 0] > _MIN_FREEDOM):
        return None
    residual = fits.target - line.line.predict(fits.columns, None, options.n_threads)
    return fits.target - residual / np.where(share > 0, free, 1.0)[:, None]


def _by_folds(
    fits: LinearFits, line: FittedLine, options: Options, level: Callable[[Floats], Floats]
) -> Floats:
    """Return predictions of the rows of each fold by the regression on the others."""
    found = level(line.line.predict(fits.columns, None, options.n_threads))
    codes = fits.target if fits.n_outputs else None
    for train, test in few_folds(len(fits.target), codes, fits.weight):
        part = LinearFits(fits.columns, fits.target, fits.weight, fits.n_outputs, train)
        other = part.fit(options, line.alpha)
        found[test] = level(other.line.predict(fits.columns, test, options.n_threads))
    return found


def probabilities(raw: Floats) -> Floats:
    """Return the probability of the second of two classes, (n_rows, 1), or of every class."""
    if raw.shape[1] == 1:
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + np.exp(-raw))
    shifted = np.exp(raw - raw.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
