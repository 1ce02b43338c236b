"""Means, scales and correlations of a table: the sufficient statistics of least squares.

They are small, and those of other rows or columns can be added, so that a model can be refitted
without another pass over known rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import CONSTANT_SCALED
from hybridtrees.linear.blas import sequential_blas
from hybridtrees.linear.sparse_products import is_mostly_zero, sparse_gram

Floats = NDArray[np.float64]

# A column that deviates from its mean by less is constant: 1 / this is about the largest float64.
_SMALLEST = float(np.finfo(np.float64).tiny)
_SAMPLE_ROWS = 512
# Sums are computed again if a guessed mean is off by more than this many standard deviations.
_MAX_DRIFT = 10.0


@dataclass
class CrossProducts:
    """Standardised second moments of columns and targets."""

    n_rows: int  # Rows of positive weight
    weight: float  # Sum of the weights
    # (p,): means of the columns (0 if not centred) and root mean square deviations from them, 0 for
    # a constant column
    mean: Floats
    scale: Floats
    # (p, p): mean products of standardised columns; rows and columns of constants are 0
    corr: Floats
    # (k,): the same of the targets
    y_mean: Floats
    y_scale: Floats
    xy: Floats  # (p, k): mean products of standardised columns and standardised targets
    fill: Floats  # (p,): replacements of missing entries
    centred: bool = True  # Whether means were subtracted
    varies: NDArray[np.bool_] = field(init=False)  # Which columns are not constant

    def __post_init__(self) -> None:
        self.varies = self.scale > 0

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.mean)

    def append(self, other: CrossProducts, cross: Floats) -> CrossProducts:
        """Append the columns of `other`, of the same rows; `cross` are correlations with them."""
        if self.weight != other.weight or self.centred != other.centred:
            raise ValueError("the moments to append must be of the same rows and weights")
        return replace(
            self,
            mean=np.concatenate([self.mean, other.mean]),
            scale=np.concatenate([self.scale, other.scale]),
            corr=np.block([[self.corr, cross], [cross.T, other.corr]]),
            xy=np.concatenate([self.xy, other.xy]),
            fill=np.concatenate([self.fill, other.fill]),
        )


def merge_products(parts: Sequence[CrossProducts]) -> CrossProducts:
    """Return the cross products of all rows from those of parts (Chan, Golub, LeVeque 1983).

    The parts must have been collected with the same `fill`.
    """
    first = parts[0]
    weight = float(sum(part.weight for part in parts))
    shares = [part.weight / weight for part in parts]
    mean = sum((s * p.mean for s, p in zip(shares, parts, strict=True)), np.zeros(first.n_columns))
    y_mean = sum((s * p.y_mean for s, p in zip(shares, parts, strict=True)), 0 * first.y_mean)
    # Units that keep squares in the range of float64.
    unit = _unit(np.max([p.scale for p in parts] + [abs(p.mean - mean) for p in parts], axis=0))
    y_all = [p.y_scale for p in parts] + [abs(p.y_mean - y_mean) for p in parts]
    y_unit = _unit(np.max(y_all, axis=0))
    gram = np.zeros_like(first.corr)
    xy, yy = np.zeros_like(first.xy), np.zeros_like(first.y_mean)
    for share, part in zip(shares, parts, strict=True):
        s, ys = part.scale / unit, part.y_scale / y_unit
        d, yd = (part.mean - mean) / unit, (part.y_mean - y_mean) / y_unit
        gram += share * (part.corr * np.outer(s, s) + np.outer(d, d))
        xy += share * (part.xy * np.outer(s, ys) + np.outer(d, yd))
        yy += share * (ys * ys + yd * yd)
    n_rows = sum(part.n_rows for part in parts)
    return _standardise(
        gram, xy, yy, n_rows, weight, (mean, unit), (y_mean, y_unit), first.fill, first.centred
    )


def collect_products(
    values: Any,
    y: Floats,
    weight: Floats | None = None,
    *,
    centred: bool = True,
    rows: NDArray[np.int64] | None = None,
    fill: Floats | None = None,
    n_threads: int = 1,
) -> CrossProducts:
    """Return the cross products of the columns of a table and of targets.

    It takes one pass over the rows, without a copy of the table; two if values are missing or the
    means of a sample of rows are far from those of all rows. The result does not depend on
    `n_threads`. `y` is (n_rows, k), k may be 0. Missing entries become `fill`, by default means.
    """
    from hybridtrees.linear import _passes

    p = values.shape[1]
    w, total = _weights(values, weight, rows)
    n_rows = int(total) if w is None else int(np.count_nonzero(w))
    y_mean, y_unit = _target_units(y if rows is None else y[rows], w, centred)
    targets = np.ascontiguousarray((y - y_mean) / y_unit)

    mostly_zero = is_mostly_zero(values)

    def products(center: Floats, inverse: Floats, fill: Floats) -> tuple[Floats, Floats, Floats]:
        if mostly_zero:
            found = sparse_gram(values, (center, inverse, fill), targets, weight, rows)
        else:
            table = _passes.Table(values, center, inverse, fill, rows)
            found = _passes.gram(table, targets, weight, n_threads)
        found /= total
        return found, found[:p, -1], np.diag(found)[:p]

    with sequential_blas():
        found, drift, center, unit, fill = _sums_about_means(
            products, values, weight, rows, centred, fill
        )
    gram, xy, yy = found[:p, :p], found[:p, p:-1], np.diag(found)[p:-1]
    mean = center + unit * drift
    if centred:
        gram = gram - np.outer(drift, drift)
        xy = xy - np.outer(drift, found[p:-1, -1])
        yy = yy - found[p:-1, -1] ** 2
    fill = mean if fill is None else fill
    columns = (mean if centred else np.zeros(p), unit)
    return _standardise(gram, xy, yy, n_rows, total, columns, (y_mean, y_unit), fill, centred)


def column_scales(
    values: Any,
    weight: Floats | None = None,
    *,
    centred: bool = True,
    rows: NDArray[np.int64] | None = None,
    n_threads: int = 1,
) -> tuple[Floats, Floats, Floats]:
    """Return means, scales and fills of the columns, as in `CrossProducts`."""
    from hybridtrees.linear import _passes

    _, total = _weights(values, weight, rows)

    def sums(center: Floats, inverse: Floats, fill: Floats) -> tuple[Floats, Floats, Floats]:
        table = _passes.Table(values, center, inverse, fill, rows)
        found = _passes.column_sums(table, weight, n_threads) / total
        return found, found[0], found[1]

    found, drift, center, unit, fill = _sums_about_means(sums, values, weight, rows, centred, None)
    mean = center + unit * drift
    spread = np.sqrt(np.maximum(found[1] - (drift**2 if centred else 0.0), 0.0)) * unit
    fill = mean if fill is None else fill
    mean = mean if centred else np.zeros(len(mean))
    return mean, np.where(_deviates(spread, mean), spread, 0.0), fill


def _weights(
    values: Any, weight: Floats | None, rows: NDArray[np.int64] | None
) -> tuple[Floats | None, float]:
    """Return the weights of the chosen rows and their sum."""
    w = weight if rows is None or weight is None else weight[rows]
    if w is not None:
        return w, float(w.sum())
    return w, float(values.shape[0] if rows is None else len(rows))


def _sums_about_means(
    sums: Callable[[Floats, Floats, Floats], tuple[Floats, Floats, Floats]],
    values: Any,
    weight: Floats | None,
    rows: NDArray[np.int64] | None,
    centred: bool,
    fill: Floats | None,
) -> tuple[Floats, Floats, Floats, Floats, Floats | None]:
    """Return sums over a table, drifts from guessed means, and centers, units and fills.

    `sums` takes the center, the inverse unit and the fill of each column. It is called again if a
    guess is too far off or a value is missing.
    """
    center, unit = _guess(values, rows, centred)
    empty = np.full(values.shape[1], np.nan)
    found, drift, square = sums(center, 1.0 / unit, empty if fill is None else fill)
    if not np.isfinite(found).all():
        center, unit, fill = _careful_units(values, weight, rows, centred, fill)
    elif centred and (drift**2 > _MAX_DRIFT**2 * (square - drift**2)).any():
        center = center + unit * drift
    else:
        return found, drift, center, unit, fill
    found, drift, _ = sums(center, 1.0 / unit, empty if fill is None else fill)
    return found, drift, center, unit, fill


def _careful_units(
    values: Any,
    weight: Floats | None,
    rows: NDArray[np.int64] | None,
    centred: bool,
    fill: Floats | None,
) -> tuple[Floats, Floats, Floats]:
    """Return center, unit and fill if some entries are missing or too large to be squared."""
    mean, low, high, _ = column_ranges(values, weight, rows)
    fill = mean if fill is None else fill
    center = mean if centred else np.zeros(len(mean))
    with np.errstate(over="ignore"):
        unit = np.maximum(high - center, center - low)
        wide = ~np.isfinite(high - low) | ~np.isfinite(unit)
    if wide.any():
        j = int(np.argmax(wide))
        raise ValueError(
            f"column {j} of X ranges from {low[j]:g} to {high[j]:g}, too far apart for float64"
        )
    return center, np.where(_deviates(unit, center), unit, 1.0), fill


def standardised(
    values: Any, mean: Floats, scale: Floats, fill: Floats, rows: NDArray[np.int64] | None = None
) -> Any:
    """Return the compiled view of a table with (x - mean) / scale, 0 for constant columns."""
    from hybridtrees.linear._passes import Table

    with np.errstate(divide="ignore"):
        inverse = np.where(scale > 0, 1.0 / scale, 0.0)
    return Table(values, mean, inverse, fill, rows)


def column_ranges(
    values: Any, weight: Floats | None, rows: NDArray[np.int64] | None = None
) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
    """Return means, minima, maxima and numbers of missing entries; 0 for an empty column."""
    from hybridtrees.linear import _passes
    from hybridtrees.linear._passes import Table

    p = values.shape[1]
    plain = Table(values, np.zeros(p), np.ones(p), np.full(p, np.nan), rows)
    mean, low, high, n_missing = _passes.column_ranges(plain, weight)
    return np.nan_to_num(mean), np.nan_to_num(low), np.nan_to_num(high), n_missing


def _deviates(deviation: Floats, mean: Floats) -> NDArray[np.bool_]:
    """Whether columns deviate from their means by more than rounding."""
    return (deviation > CONSTANT_SCALED * np.abs(mean)) & (deviation >= _SMALLEST)


def _unit(largest: Floats) -> Floats:
    return np.where(largest > 0, largest, 1.0)


def _target_units(y: Floats, w: Floats | None, centred: bool) -> tuple[Floats, Floats]:
    """Return means and largest deviations of the targets."""
    largest = np.abs(y).max(axis=0, initial=0.0)
    with np.errstate(over="ignore"):
        scaled = y / _unit(largest)
        # `np.average` without weights fails if there are no targets.
        mean = scaled.mean(axis=0) if w is None else np.average(scaled, axis=0, weights=w)
        mean = mean * largest
    mean = mean if centred else np.zeros(y.shape[1])
    spread = np.abs(y - mean).max(axis=0, initial=0.0)
    return mean, np.where(spread > CONSTANT_SCALED * np.abs(mean), spread, 1.0)


def _guess(values: Any, rows: NDArray[np.int64] | None, centred: bool) -> tuple[Floats, Floats]:
    """Guess center and unit of each column from a few rows spread over the table."""
    n = values.shape[0] if rows is None else len(rows)
    chosen = np.unique(np.linspace(0, n - 1, min(n, _SAMPLE_ROWS)).astype(np.int64))
    sample = values[chosen if rows is None else rows[chosen]]
    sample = sample.toarray() if hasattr(sample, "toarray") else sample
    sample = sample.astype(np.float64)
    found = np.isfinite(sample)
    count = np.maximum(found.sum(axis=0), 1)
    sample = np.where(found, sample, 0.0)
    center = (sample / count).sum(axis=0) if centred else np.zeros(values.shape[1])
    with np.errstate(over="ignore"):  # detected when all rows are summed
        unit = np.where(found, np.abs(sample - center), 0.0).max(axis=0)
    return center, np.where(_deviates(unit, center), unit, 1.0)


def _standardise(
    gram: Floats,
    xy: Floats,
    yy: Floats,
    n_rows: int,
    weight: float,
    columns: tuple[Floats, Floats],
    targets: tuple[Floats, Floats],
    fill: Floats,
    centred: bool,
) -> CrossProducts:
    """Return the cross products for mean products in given units."""
    (mean, unit), (y_mean, y_unit) = columns, targets
    spread = np.sqrt(np.maximum(np.diag(gram), 0.0))
    varies = _deviates(spread * unit, mean if centred else np.zeros(len(mean)))
    spread = np.where(varies, spread, 0.0)
    y_spread = np.sqrt(np.maximum(yy, 0.0))
    y_spread = np.where(y_spread * y_unit <= CONSTANT_SCALED * np.abs(y_mean), 0.0, y_spread)
    with np.errstate(divide="ignore"):
        inverse = np.where(spread > 0, 1.0 / spread, 0.0)
        y_inverse = np.where(y_spread > 0, 1.0 / y_spread, 0.0)
    corr = gram * np.outer(inverse, inverse)
    np.fill_diagonal(corr, (spread > 0).astype(np.float64))
    xy = xy * np.outer(inverse, y_inverse)
    scale, y_scale = spread * unit, y_spread * y_unit
    return CrossProducts(
        n_rows, weight, mean, scale, corr, y_mean, y_scale, xy, fill=fill, centred=centred
    )
