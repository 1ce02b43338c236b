"""Random forests for regression: predictions, quantiles and intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees._parameters import check_real
from hybridtrees.input.validation import check_target_regression
from hybridtrees.models.shared.forest.leaves import quantiles, sizes_of_branches
from hybridtrees.models.shared.forest.packed import PackedForest
from hybridtrees.models.shared.forest.targets import RegressionForest


class PackedRegressionForest(RegressionForest, PackedForest):
    """A random forest for regression, with quantiles from the training rows of its leaves."""

    _criteria = ("squared_error", "friedman_mse", "absolute_error", "poisson")
    _metric_names = (
        "mse", "rmse", "mae", "mape", "rmsle", "r2", "mphe", "quantile", "expectile",
        "poisson-nloglik", "gamma-nloglik", "gamma-deviance", "tweedie-nloglik",
    )  # fmt: skip

    criterion: str = "squared_error"

    def _known_target(self, y: Any, n_rows: int) -> np.ndarray:
        target = check_target_regression(
            y, n_rows, multi_output=True, estimator_name=type(self).__name__
        ).reshape(n_rows, -1)
        if target.shape[1] != self.n_outputs_:
            raise ValueError(f"y must have {self.n_outputs_} outputs, got {target.shape[1]}")
        return target

    def _tree_error(
        self, target: np.ndarray, predicted: np.ndarray, weight: np.ndarray | None
    ) -> float:
        gap = np.abs(target - predicted)
        if self._trees.criterion != "absolute_error":
            gap = gap * gap
        return float(np.average(gap.mean(axis=1), weights=weight))

    def predict_quantiles(self, X: Any, q: Any = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Predict quantiles of the target (Meinshausen 2006).

        They are those of the training targets under the weights that `leaf_weights` gives: the
        smallest target at which the weights up to it reach the level.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        q : float or array-like of shape (n_levels,)
            Levels between 0 and 1.

        Returns
        -------
        quantiles : ndarray of shape (n_rows, n_levels), or (n_rows,) for a single number
            With several outputs (n_rows, n_levels, n_outputs) or (n_rows, n_outputs).
        """
        self._check_is_fitted()
        try:
            levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        except (TypeError, ValueError):
            levels = np.empty(0)
        if levels.ndim != 1 or not len(levels) or not np.all((levels >= 0) & (levels <= 1)):
            raise ValueError(f"q must be a number or numbers from 0 to 1, got {q!r}")
        groups, weight = self._kept_groups("predict_quantiles")
        leaves = self.apply(X)
        sizes = sizes_of_branches(self._trees)
        n_threads = self._predict_threads(len(leaves))
        columns = [
            quantiles(
                groups, weight, np.ascontiguousarray(column), leaves, sizes, levels, n_threads
            )
            for column in self._train_target.T
        ]
        found = np.stack(columns, axis=-1)
        if found.shape[-1] == 1:
            found = found[..., 0]
        return found[:, 0] if np.ndim(q) == 0 else found

    def predict_interval(self, X: Any, level: float = 0.9) -> np.ndarray:
        """Predict an interval that holds the target of a row with a given probability.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        level : float, default=0.9
            The probability.

        Returns
        -------
        interval : ndarray of shape (n_rows, 2), or (n_rows, 2, n_outputs)
            Quantiles that leave half of the rest on each side.
        """
        check_real("level", level, 0, 1, closed="neither")
        rest = (1.0 - float(level)) / 2.0
        return self.predict_quantiles(X, (rest, 1.0 - rest))
