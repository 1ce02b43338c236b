"""What regressors and classifiers have in common: methods, class weights, category statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hybridtrees._exports import ModelExports
from hybridtrees.base import Estimator
from hybridtrees.input.target_statistics import StatisticsChoice

if TYPE_CHECKING:
    from hybridtrees.inspection.shap_values import ShapValues


class Predictor(ModelExports, Estimator):
    """An estimator that predicts a target; families and mixins define the methods."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model."""
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """Predict the target of each row."""
        raise NotImplementedError

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R2 of a regressor, the accuracy of a classifier."""
        raise NotImplementedError

    def _weigh_classes(self, target: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        """Return row weights with those of the classes, which `ClassWeightMixin` multiplies."""
        return weight

    # -- explanations -----------------------------------------------------------------------------

    def shap_values(
        self, X: Any, *, background: Any = None, interactions: bool = False
    ) -> ShapValues:
        """Return Shapley values of the features: see `hybridtrees.inspection.shap_values`.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        background : table of shape (n_background, n_features), optional
            Rows that absent features take their values from.
        interactions : bool, default=False
            Return the interactions of all pairs of features instead.

        Returns
        -------
        result : ShapValues
            With `values`, `base_values`, `data` and `feature_names`.
        """
        from hybridtrees.inspection.shap_values import shap_values

        return shap_values(self, X, background=background, interactions=interactions)

    def to_dataframe(self) -> Any:
        """Return the nodes of all trees, and the terms of a regression, as a table.

        Returns
        -------
        table : pandas DataFrame, or a dict of lists if pandas is not installed
            See `hybridtrees.inspection.to_dataframe`.
        """
        from hybridtrees.inspection.tables import to_dataframe

        return to_dataframe(self)

    def to_shap(self) -> dict[str, Any]:
        """Return the dictionary that ``shap.TreeExplainer`` takes.

        Returns
        -------
        model : dict
            For models with constant leaves and splits of numbers; others raise TypeError.
        """
        from hybridtrees.inspection.shap_values import to_shap

        return to_shap(self)


class CategoryPredictor(Predictor):
    """A predictor whose categories may become statistics of the target.

    Parameters
    ----------
    categorical_statistics : bool or "auto"
        Replace the categories of a column by the mean response of their rows, with one row of the
        mean of all rows added. With several classes or targets, it is the combination of means that
        differs most between the categories. A training row gets the mean of those rows of its
        category that come before it in a random order, so that its own target does not enter. A row
        to predict gets the mean of all. Missing values are a category of their own, and
        values that `fit` has not seen are treated as missing. "auto" does so for columns of more
        than 30 categories, unless the means are known almost without noise (a reliability of 0.98).
        Sparse tables are left as they are under "auto" and become dense under True.
    """

    categorical_statistics: StatisticsChoice = "auto"

    def _order_categories(
        self, values: Any, target: np.ndarray, weight: np.ndarray | None, again: bool = False
    ) -> Any:
        """Return the training table with statistics in place of categories; the reader keeps them.

        `target` holds the codes of `classes_`, or numbers. A model that is trained further
        (`again`) keeps its statistics, and its rows get ordered ones of their own target.
        """
        given = self.categorical_statistics
        choice: StatisticsChoice = "auto" if isinstance(given, str) else bool(given)
        n_classes = len(vars(self).get("classes_", ()))
        if again:
            return self._reader.order_again(values, target, n_classes, weight)
        return self._reader.add_statistics(values, target, n_classes, weight, choice)
