"""Parameters of bagging: samples and the number of trees."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral
from typing import Literal

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, check_real
from hybridtrees.models.shared.bagging import RowSampler
from hybridtrees.models.shared.tree_parameters import GrowthParameters

# The maximum number of trees under n_estimators="auto".
MAX_TREES = 1000


class BaggingParameters(GrowthParameters):
    """Parameters of samples and of the number of trees.

    Parameters
    ----------
    n_estimators : int or "auto"
        Number of trees; "auto" stops when the out-of-bag error has settled, at 1000 trees at most.
    bootstrap : bool
        Whether rows are drawn with replacement. Otherwise `max_samples` rows are drawn without
        replacement; all rows if it is None.
    max_samples : int, float or None
        Number of rows drawn for each tree (at most 100 times those of the table), or their share,
        with `bootstrap` above 1 too; that of the table by default.
    oob_score : bool, str or callable
        Whether to compute the out-of-bag score: True for R2, or the name of a metric, or a function
        of (y, prediction).
    warm_start : bool
        Whether `fit` adds trees to the fitted ones. Data and parameters must be the same, except
        for `n_estimators`, `oob_score`, `n_jobs` and `verbose`.
    random_state : int, Generator, RandomState or None
        Seed of the samples and of the features drawn. The same seed gives the same forest for any
        `n_jobs`.
    n_jobs : int or None
        Number of threads, each of which grows trees; all usable CPUs by default.
    verbose : int
        Print a line every `verbose` trees.
    """

    _positional = ("n_estimators",)

    n_estimators: int | Literal["auto"] = 100
    bootstrap: bool = True
    max_samples: int | float | None = None
    oob_score: bool | str | Callable[..., float] = False
    warm_start: bool = False

    def _check_bagging(self) -> None:
        """Check what can be checked without the data, except `oob_score`."""
        if not isinstance(self.n_estimators, str):
            check_integer("n_estimators", self.n_estimators, 1)
        elif self.n_estimators != "auto":
            raise ValueError(
                "n_estimators must be an integer of at least 1 or 'auto', got "
                f"{self.n_estimators!r}"
            )
        check_boolean("bootstrap", self.bootstrap)
        check_boolean("warm_start", self.warm_start)
        if isinstance(self.max_samples, Integral) and not isinstance(self.max_samples, bool):
            check_integer("max_samples", self.max_samples, 1)
        elif self.max_samples is not None:
            most = math.inf if self.bootstrap else 1
            check_real("max_samples", self.max_samples, 0, most, closed="right")

    def _asks_oob(self) -> bool:
        """Whether `fit` makes out-of-bag predictions, for `oob_score` or for held-out rows."""
        return self._scores_oob() or bool(self._wants_oob())  # type: ignore[attr-defined]

    def _scores_oob(self) -> bool:
        """Whether `oob_score` is anything but False, of Python or NumPy."""
        return not isinstance(self.oob_score, bool | np.bool_) or bool(self.oob_score)

    def _oob_purpose(self) -> str:
        """Return the parameter that needs out-of-bag rows, for messages."""
        if self._scores_oob():
            return "oob_score"
        return "conformal='oob'" if self._asks_oob() else "n_estimators='auto'"

    def _n_trees(self, n_grown: int) -> tuple[int, bool]:
        """Return the number of trees to grow, and whether to stop when the error has settled."""
        if self.n_estimators == "auto":
            return max(0, MAX_TREES - n_grown), True
        n_trees = int(self.n_estimators) - n_grown
        if n_trees < 0:
            raise ValueError(
                f"n_estimators must be at least {n_grown}, the number of trees already grown, with "
                f"warm_start=True, got {self.n_estimators}"
            )
        return n_trees, False

    def _make_sampler(self, n_rows: int, weight: np.ndarray | None) -> RowSampler:
        n_used = n_rows if weight is None else int(np.count_nonzero(weight))
        if self.max_samples is None:
            n_drawn = n_used
        elif isinstance(self.max_samples, Integral):
            n_drawn = int(self.max_samples)
            if n_drawn > n_used and not self.bootstrap:
                raise ValueError(
                    f"max_samples must be at most {n_used}, the number of rows, with "
                    f"bootstrap=False, got {n_drawn}"
                )
        else:
            n_drawn = max(1, round(float(self.max_samples) * n_used))
        if weight is not None:
            # Equal weights must give the same samples as no weights.
            unit = weight[0] if self.bootstrap else 1.0
            weight = None if unit > 0 and np.all(weight == unit) else weight
        like = vars(self).get("_sampler") if self.warm_start else None
        return RowSampler(n_rows, n_drawn, bool(self.bootstrap), weight, like)
