"""Predictions of RERF, and the contributions of its two parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hybridtrees._parameters import attribute
from hybridtrees._predictor import Predictor
from hybridtrees.base import RawScoreMixin
from hybridtrees.core.base.checks import check_type
from hybridtrees.core.base.threads import predict_threads
from hybridtrees.core.tree.additive import AdditiveForm, Link, feature_columns, joined
from hybridtrees.linear._base import PenaltyName, TermCoefficients, check_line
from hybridtrees.linear.regression import Line
from hybridtrees.linear.terms import design_terms, terms_tree
from hybridtrees.models.rerf.forest import ReadTable, ResidualForest
from hybridtrees.models.rerf.linear import RegressionColumns
from hybridtrees.models.shared.fitted_checks import check_categories


class Parts(NamedTuple):
    """Predictions of the two parts of the model; their sum is the prediction."""

    linear: np.ndarray
    forest: np.ndarray


class VarianceShares(NamedTuple):
    """Covariance of each part with the sum, over the variance of the sum; the shares sum to 1."""

    linear: float
    forest: float


class RERFState:
    """What the methods below read; annotated in an `Estimator` these would be parameters."""

    penalty: PenaltyName | None
    tune_results_: list[dict[str, Any]]
    best_params_: dict[str, Any]
    best_score_: float
    oob_score_: float


class RERFPredictions(RERFState, TermCoefficients, RawScoreMixin, Predictor):
    """Methods of a fitted RERF model."""

    alpha_: float = attribute()
    forest_: ResidualForest = attribute()
    _line: tuple[np.ndarray, ...] = attribute()
    _columns: RegressionColumns = attribute()

    def _level(self, raw: np.ndarray) -> np.ndarray:
        """Turn scores of the regression into predictions in the units of `_indicators`."""
        raise NotImplementedError

    def _check_fitted(self) -> None:
        self._take_old_coef()
        columns = check_type(self, "_columns", RegressionColumns)
        columns.check_reader(self._reader)
        check_line(self._line, columns.design.n_columns)
        forest = check_type(self, "forest_", ResidualForest)
        if forest.n_features_in_ != self.n_features_in_:
            raise ValueError("the forest of the model has other features")
        check_categories(forest._trees.category_sets(), self._reader.coded)

    # -- predict --------------------------------------------------------------------------------

    def _both(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the predictions of the regression and of the forest, (n_rows, n_values) each."""
        self._check_is_fitted()
        values = self._read_features(X)
        n_threads = predict_threads(self.n_jobs, values.shape[0])
        raw = Line(*self._line).predict(self._columns.make(values), None, n_threads)
        return self._level(raw), self.forest_._predict_values(ReadTable(values, self._reader))

    def _raw_scores(self, X: Any) -> np.ndarray:
        """Return the sum of both parts; in classification it may be below 0 or above 1."""
        linear, forest = self._both(X)
        return np.asarray(linear + forest)

    def _additive_form(self) -> AdditiveForm:
        forest, columns = self.forest_._additive_form(), list(feature_columns(self._reader))
        own = self._columns.forms(columns)
        constant, terms = design_terms(self._columns.design, Line(*self._line), own)
        line = terms_tree(terms, columns, len(constant))
        classes = vars(self).get("classes_")
        assert forest.trees is not None
        if classes is None:
            trees = joined([*forest.trees, line], len(columns), len(constant))
            return replace(
                forest, base=constant, trees=trees, columns=tuple(columns), reader=self._reader
            )
        link = Link("softmax" if len(constant) > 1 else "logistic")
        trees = joined([line], len(columns), len(constant))
        levels = AdditiveForm(constant, trees, tuple(columns), link, self._reader)
        shares = Link("shares")
        return replace(
            forest, link=shares, reader=self._reader, classes=classes, inner=((1.0, levels),)
        )

    def apply(self, X: Any) -> np.ndarray:
        """Return the leaf of each row in every tree of the forest.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        leaves : ndarray of int32, shape (n_rows, n_trees)
        """
        self._check_is_fitted()
        return self.forest_.apply(ReadTable(self._read_features(X), self._reader))

    def decision_path(self, X: Any) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
        """Return the nodes on the path of each row, in all trees of the forest.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        indicator : csr_matrix of shape (n_rows, n_nodes)
            1 for every node on the path, the trees side by side.
        n_nodes_ptr : ndarray of shape (n_trees + 1,)
            First column of each tree.
        """
        self._check_is_fitted()
        return self.forest_.decision_path(ReadTable(self._read_features(X), self._reader))

    def partial(self, X: Any) -> Parts:
        """Return the contributions of the regression and of the forest.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        parts : Parts
            `linear` and `forest`, of shape (n_rows,) or (n_rows, n_outputs or n_classes). In
            classification `linear` is a probability; of two classes, both are for the second.
        """
        linear, forest = self._both(X)
        return Parts(*((a[:, 0] if a.shape[1] == 1 else a) for a in (linear, forest)))

    def variance_shares(self, X: Any) -> VarianceShares:
        """Return the shares of the two parts in the variance of the predictions.

        On training rows the share of the forest is too large, since it has fitted their noise.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        shares : VarianceShares
            NaN if all predictions are equal.
        """
        linear, forest = self._both(X)
        total = linear + forest
        total = total - total.mean(axis=0)
        whole = float((total * total).sum())
        if not whole > 0:
            return VarianceShares(float("nan"), float("nan"))
        own = float((total * (forest - forest.mean(axis=0))).sum()) / whole
        return VarianceShares(1.0 - own, own)

    # -- reading the model ----------------------------------------------------------------------

    @property
    def term_coef_(self) -> np.ndarray:  # type: ignore[override]  # stored in linear models
        """Coefficients of the columns of the regression."""
        self._check_is_fitted()
        coef = self._line[0]
        one = vars(self).get("_single", False)
        return coef[:, 0].copy() if one else np.ascontiguousarray(coef.T)

    @property
    def term_names_(self) -> np.ndarray:
        """Names of the columns of the regression."""
        self._check_is_fitted()
        return np.array(self._columns.names, dtype=object)

    def _by_feature(self, coef: np.ndarray) -> np.ndarray:
        found = np.zeros((coef.shape[1], self.n_features_in_))
        found[:, self._columns.features] = self._columns.by_feature(coef, self._line[2])
        return found

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Importances of the features in the forest, for the residuals of the regression."""
        self._check_is_fitted()
        return self.forest_.feature_importances_

    def _penalty_text(self) -> str:
        penalty = {"penalty": self.penalty, **vars(self).get("best_params_", {})}["penalty"]
        return "no penalty" if penalty is None else f"{penalty} penalty, alpha {self.alpha_:.6g}"

    def summary(self) -> str:
        """Summarise the regression and the forest.

        Returns
        -------
        text : str
        """
        self._check_is_fitted()
        coef = self._line[0]
        used = int(np.count_nonzero(coef.any(axis=1)))
        lines = [
            f"{type(self).__name__}: a regression and a forest on its residuals",
            f"regression: {len(coef)} columns, {used} with a coefficient, {self._penalty_text()}",
        ]
        if "best_params_" in vars(self):
            lines.append(
                f"best of {len(self.tune_results_)} settings: {self.best_params_}, "
                f"error {self.best_score_:.6g}"
            )
        if "oob_score_" in vars(self):
            lines.append(f"out-of-bag score of the sum {self.oob_score_:.6g}")
        # The forest's out-of-bag score is that of residuals: it would be misleading here.
        about = self.forest_.summary().replace(type(self.forest_).__name__, "forest", 1)
        own = [text for text in about.splitlines() if not text.startswith("out-of-bag")]
        return "\n".join([*lines, *own])
