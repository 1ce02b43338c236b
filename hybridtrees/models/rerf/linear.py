"""The regression of RERF: its columns, its fit for one penalty after another, its predictions.

Errors out of the bag need predictions of rows that the regression has not seen: it is fitted to
all rows, so that its own predictions of them flatter it, the more so the weaker its penalty.
Least squares and ridge have predictions without a row in closed form, from the diagonal h of the
hat matrix: the residual without row i is r_i / (1 - h_i). Other regressions are fitted to the rows
outside of each of a few folds.
"""

from __future__ import annotations

from collections.abc import Callable
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
from hybridtrees.input.validation import FeatureReader
from hybridtrees.linear.blas import sequential_blas
from hybridtrees.linear.classification import choose_classification_alpha, open_classification
from hybridtrees.linear.design import Design
from hybridtrees.linear.path import make_folds
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
# Rows of the overall mean that are added to those of a category.
_SMOOTHING = 1.0
# Folds where a row's own target must not be used.
N_FOLDS = 5
# Rows that nearly determine a coefficient by themselves have no prediction without them.
_MIN_FREEDOM = 1e-6
_BLOCK = 4096


def few_folds(
    n_rows: int, codes: NDArray | None = None, weight: Floats | None = None
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Training and test rows of a few folds, the same every time; none for a single row."""
    counted = n_rows if weight is None else int(np.count_nonzero(weight))
    number = min(N_FOLDS, counted)
    return make_folds(number, n_rows, codes, weight) if number > 1 else []


@register
class RegressionColumns(Checked):
    """From the features of a table to the columns of the regression."""

    def __init__(
        self, features: NDArray[np.int64], design: Design, means: list[Floats | None]
    ) -> None:
        self.features = features  # that take part
        self.design = design  # one-hot columns, or of a table whose categories are numbers already
        self.means = means  # of each feature, under "target_mean": (n_codes, n_means)

    def _check_state(self) -> None:
        check_type(self, "design", Design)
        n_features = check_arrays(self, {"features": ("i8", "n_features")})["n_features"]
        if len(check_type(self, "means", list)) != n_features:
            raise ValueError(f"{n_features} features have means of {len(self.means)}")
        for mean in self.means:
            if mean is not None:
                check_array(mean, "means of RegressionColumns", "f8", ["n_codes", "n_means"])

    def check_reader(self, reader: FeatureReader) -> None:
        """Refuse columns that are not made of the features of a reader."""
        check_numbers(self.features, "features of RegressionColumns", 0, reader.n_features_in)
        categories = [reader.categories[f] for f in self.features]
        widths = [1 if mean is None else mean.shape[1] for mean in self.means]
        for labels, mean in zip(categories, self.means, strict=True):
            if mean is not None and (labels is None or len(labels) != len(mean)):
                raise ValueError("the means of categories are about others")
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
        """Learn the columns of a table; `target` is what the means of categories are taken of."""
        given = reader.feature_names_in
        names = [f"x{f}" if given is None else str(given[f]) for f in features]
        categories = [reader.categories[f] for f in features]
        own = _take(values, features)
        means: list[Floats | None] = [None] * len(features)
        if encoding == "target_mean" and any(labels is not None for labels in categories):
            means = [
                None if labels is None else _category_means(own, j, len(labels), target, weight)
                for j, labels in enumerate(categories)
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
        return cls(features, design, means)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.design.names

    def make(self, values: Any) -> Any:
        """Return the columns of a table: dense, or CSR."""
        return self.design.expand(_encode(_take(values, self.features), self.means))

    def make_training(self, values: Any, target: Floats, weight: Floats | None) -> Any:
        """Return the columns of the table they were learned from.

        Means of categories are over the rows of other folds: with its own target among them, a
        row of a rare category would explain itself.
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
            # Drawn to the mean of all rows: those of the folds would tell the folds apart.
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


def _category_means(
    values: Any,
    j: int,
    n_codes: int,
    target: Floats,
    weight: Floats | None,
    overall: Floats | None = None,
) -> Floats:
    """Mean target of each category, with a little of the overall mean."""
    codes = values[:, [j]].toarray().ravel() if hasattr(values, "indptr") else values[:, j]
    known = ~np.isnan(codes)
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
    """Put mean targets in the place of categories."""
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
    fitted_with: dict[str, Any] = field(default_factory=dict)  # what the regression depends on


class LinearFits:
    """Regressions of one table for several penalties; what does not depend on them is kept."""

    def __init__(
        self,
        columns: Any,
        target: NDArray,
        weight: Floats | None,
        n_outputs: int,  # 0 for least squares, 1 for two classes, else their number
        rows: NDArray[np.int64] | None = None,  # that are fitted to, all by default
    ) -> None:
        self.columns, self.target, self.weight = columns, target, weight
        self.n_outputs, self.rows = n_outputs, rows
        self._model: Any = None
        self._key: tuple | None = None
        self._fits: dict[Any, FittedLine] = {}

    def open(self, options: Options) -> Any:
        """Return the problem; its sums over the rows are those of the last penalty, if any."""
        # Some problems divide their columns by their scales, or do not, when opened.
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
        """Fit for one penalty; one that has been fitted already is not fitted again."""
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
    """Predictions of the rows by regressions that have not seen them, (n_rows, n_values).

    They are kept with the `line` that was fitted to all rows; `level` turns scores to predictions.
    """
    if line.honest is None:
        found = _without_row(fits, line, options)
        line.honest = _by_folds(fits, line, options, level) if found is None else found
    return line.honest


def _without_row(fits: LinearFits, line: FittedLine, options: Options) -> Floats | None:
    """Leave-one-out predictions, None where there is no closed form."""
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
    """Predictions of the rows of each fold by the regression on the others."""
    found = level(line.line.predict(fits.columns, None, options.n_threads))
    codes = fits.target if fits.n_outputs else None
    for train, test in few_folds(len(fits.target), codes, fits.weight):
        part = LinearFits(fits.columns, fits.target, fits.weight, fits.n_outputs, train)
        other = part.fit(options, line.alpha)
        found[test] = level(other.line.predict(fits.columns, test, options.n_threads))
    return found


def probabilities(raw: Floats) -> Floats:
    """Probability of the second of two classes, (n_rows, 1), or of every class."""
    if raw.shape[1] == 1:
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + np.exp(-raw))
    shifted = np.exp(raw - raw.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)
