"""A model together with the transformer that turns dates into its features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from hybridtrees._parameters import clone
from hybridtrees.base import ClassifierMixin, Estimator, RegressorMixin, atomic_fit
from hybridtrees.core.base.checks import check_type
from hybridtrees.prepare.dates import DateFeatures


class _Prepared(Estimator):
    """What both kinds share."""

    dates: Any = None
    estimator: Any = None

    @classmethod
    def of(cls, dates: DateFeatures, estimator: Any) -> Self:
        """Join a transformer and a model that are fitted already."""
        made = cls(dates=clone(dates), estimator=clone(estimator))
        made._keep(dates, estimator)
        return made

    def _keep(self, dates: DateFeatures, estimator: Any) -> None:
        self.dates_, self.estimator_ = dates, estimator
        self.n_features_in_ = dates.n_features_in_
        if hasattr(dates, "feature_names_in_"):
            self.feature_names_in_ = dates.feature_names_in_
        if hasattr(estimator, "classes_"):
            self.classes_ = estimator.classes_

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the dates of a table, and fit the model to their features.

        Parameters
        ----------
        X : data frame, dict of columns or array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self : estimator
        """
        if not isinstance(self.dates, DateFeatures) or not hasattr(self.estimator, "fit"):
            raise TypeError(
                "dates must be a DateFeatures and estimator a model, got "
                f"{self.dates!r} and {self.estimator!r}"
            )
        dates = clone(self.dates)
        more = {} if sample_weight is None else {"sample_weight": sample_weight}
        model = clone(self.estimator).fit(dates.fit_transform(X), y, **more)
        for name in ("feature_names_in_", "classes_"):
            self.__dict__.pop(name, None)
        self._keep(dates, model)
        return self

    def _call(self, method: str, X: Any) -> np.ndarray:
        """Return what a method of the model returns for a table with dates."""
        self._check_is_fitted()
        found: np.ndarray = getattr(self.estimator_, method)(self.dates_.transform(X))
        return found

    @property
    def feature_importances_(self) -> np.ndarray:
        """Importances of the columns of `fit`: that of a date is the sum over its features.

        Only defined if the model has importances.
        """
        self._check_is_fitted()
        places = [j for j, _ in self.dates_._columns_out()]
        found = np.zeros(self.n_features_in_)
        np.add.at(found, places, self.estimator_.feature_importances_)
        return found

    def summary(self, *args: Any, **kwargs: Any) -> Any:
        """Return the model's own account of itself; see its `summary`."""
        self._check_is_fitted()
        return self.estimator_.summary(*args, **kwargs)

    def _check_fitted(self) -> None:
        dates = check_type(self, "dates_", DateFeatures)
        model = check_type(self, "estimator_", Estimator)
        n_features = len(dates.get_feature_names_out())
        if self.n_features_in_ != dates.n_features_in_ or n_features != model.n_features_in_:
            raise ValueError("the model is about other features than its dates make")


class PreparedRegressor(RegressorMixin, _Prepared):
    """A regressor for tables with dates: `DateFeatures` and a model in one.

    It is fitted, used and saved as one model, which is what ``best_`` of a comparison is if the
    table has dates.

    Parameters
    ----------
    dates : DateFeatures
        What makes features of the dates.
    estimator : regressor
        Fitted to these and to the other columns.

    Attributes
    ----------
    dates_, estimator_
        Both, fitted.
    feature_importances_ : ndarray of shape (n_features,)
        Importance of each column of the table; that of a date is the sum over its parts. Only if
        `estimator` has importances.

    See Also
    --------
    hybridtrees.DateFeatures : The parts that a date is made into.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import CARTRegressor, DateFeatures
    >>> from hybridtrees.prepare import PreparedRegressor
    >>> days = np.arange("2024-01-01", "2024-07-01", dtype="datetime64[D]")
    >>> X = {"day": days, "x": np.arange(len(days)) % 5}
    >>> y = days.astype("datetime64[M]").astype(int) % 12 + 1
    >>> model = PreparedRegressor(dates=DateFeatures(), estimator=CARTRegressor()).fit(X, y)
    >>> model.predict(X)[[0, -1]]
    array([1., 6.])
    >>> model.feature_importances_
    array([1., 0.])
    """

    def _predictions(self, X: Any) -> np.ndarray:
        return self._call("predict", X)

    def _spread_table(self, X: Any) -> Any:
        return self.dates_.transform(X)

    def _spread_width(self) -> int:
        return int(self.estimator_.n_features_in_)


class PreparedClassifier(ClassifierMixin, _Prepared):
    """A classifier for tables with dates: `DateFeatures` and a model in one.

    Parameters
    ----------
    dates : DateFeatures
        What makes features of the dates.
    estimator : classifier
        Fitted to these and to the other columns.

    Attributes
    ----------
    dates_, estimator_
        Both, fitted.
    classes_ : ndarray
        The classes of the model.
    feature_importances_ : ndarray of shape (n_features,)
        Importance of each column of the table; that of a date is the sum over its parts. Only if
        `estimator` has importances.

    See Also
    --------
    PreparedRegressor : The same for numbers, with an example.
    """

    def _probabilities(self, X: Any) -> np.ndarray:
        return self._call("predict_proba", X)

    def _class_codes(self, X: Any) -> np.ndarray:
        labels = self._call("predict", X)
        return np.searchsorted(self.classes_, labels)
