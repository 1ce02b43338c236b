"""Methods that an estimator has only under some parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hybridtrees.base import ClassifierMixin


class available_if:  # noqa: N801 - a decorator
    """Decorator: the method exists, for `hasattr` too, only while a condition holds.

    The condition takes the estimator. It returns whether the method exists, or raises an error
    that says why it does not.
    """

    def __init__(self, condition: Callable[[Any], Any]) -> None:
        self.condition = condition
        self.method: Callable[..., Any]

    def __call__(self, method: Callable[..., Any]) -> Any:
        """Take the method that is decorated."""
        self.method = method
        functools.update_wrapper(self, method)
        return self

    def __get__(self, estimator: Any, owner: Any = None) -> Any:
        if estimator is None:
            return self.method
        missing = f"{type(estimator).__name__} has no {self.method.__name__}"
        try:
            there = self.condition(estimator)
        except AttributeError as error:
            raise AttributeError(f"{missing}: {error}") from error
        if not there:
            raise AttributeError(missing)
        return self.method.__get__(estimator, owner)


class OptionalProbabilities(ClassifierMixin):
    """A classifier that has probabilities only if its members or parameters give them."""

    def _has_probabilities(self) -> bool:
        raise NotImplementedError

    @available_if(lambda self: self._has_probabilities())
    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict class probabilities: only with ``voting="soft"``, or a final model that has them.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`.
        """
        return self._calibrated(self._probabilities(X))

    @available_if(lambda self: self._has_probabilities())
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Predict the logarithms of the probabilities, where `predict_proba` is there.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_rows, n_classes)
            -inf for a probability of 0.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._calibrated(self._probabilities(X))))
