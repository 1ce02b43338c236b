"""Targets of trees and forests: what sets their regressors and classifiers apart."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from hybridtrees._parameters import attribute
from hybridtrees.base import ClassifierMixin, RegressorMixin, atomic_fit
from hybridtrees.input.validation import check_target_classification, check_target_regression

# Squares of targets up to this one, and sums of many such squares, are finite.
LARGEST_TARGET = 1e100


def read_regression_target(
    y: Any, n_rows: int, estimator_name: str, *, several: bool = True, name: str = "y"
) -> np.ndarray:
    """Return the target of a regression, (n_rows,) or (n_rows, n_outputs)."""
    target = check_target_regression(
        y, n_rows, multi_output=several, name=name, estimator_name=estimator_name
    )
    if not target.size:
        raise ValueError("y must have at least one output, got an array without columns")
    largest = np.abs(target).max()
    if largest > LARGEST_TARGET:
        raise ValueError(f"{name} must not exceed {LARGEST_TARGET} in magnitude, got {largest:.3g}")
    return target


class SeveralTargets(RegressorMixin):
    """A boosted regressor of one or more targets, with trees for each; goes before the family."""

    _n_targets: int = attribute()

    def _read_targets(self, y: Any, n_rows: int, limit: float) -> np.ndarray:
        """Return the target of `fit`, whose magnitude is limited, and count its columns."""
        target = self._read_target(y, n_rows)
        self._n_targets = n_targets = 1 if target.ndim == 1 else target.shape[1]
        if n_targets == 0:
            raise ValueError("y must have at least one target, got an array without columns")
        largest = np.abs(target).max()
        if largest > limit:
            raise ValueError(f"y must not exceed {limit:.3g} in magnitude, got {largest:.3g}")
        return target

    def _encode_eval_target(self, y: Any, n_rows: int, name: str) -> np.ndarray:
        target = self._read_target(y, n_rows, name=name)
        n_targets = 1 if target.ndim == 1 else target.shape[1]
        if n_targets != self._n_targets:
            raise ValueError(f"{name} must have {self._n_targets} targets, got {n_targets}")
        return target

    def _read_target(self, y: Any, n_rows: int, **how: Any) -> np.ndarray:
        """Return y as a vector, or as a matrix of several targets."""
        name = type(self).__name__
        return check_target_regression(y, n_rows, multi_output=True, estimator_name=name, **how)

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a regressor for one or more targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class SupervisedFit:
    """The public `fit` of trees, forests and RERF; a family adds `_fit`."""

    @atomic_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or BinnedStore of shape (n_rows, n_features)
            NaN means missing. String and category columns of a data frame are categories. A
            `BinnedStore` needs a model that grows trees from bins (``splitter="hist"``).
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Numbers or class labels; several outputs in regression only. Not given with a
            `BinnedStore`, which has the target and the weights.
        sample_weight : array-like of shape (n_rows,), optional
            Rows of weight zero are left out. Bootstrap samples of a forest are drawn with
            probabilities proportional to the weights; with ``bootstrap=False`` trees use them.

        Returns
        -------
        self : estimator
        """
        self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        raise NotImplementedError

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        """Return the target as an array of numbers or class codes."""
        raise NotImplementedError


class RegressionTarget(RegressorMixin):
    """A target of numbers; goes before the family, which has `_predict_values`, among the bases.

    Attributes
    ----------
    n_outputs_ : int
        Number of targets.
    """

    n_outputs_: int = attribute()
    criterion: Any = attribute()

    def _takes_several(self) -> bool:
        """Whether `y` may have several columns."""
        return True

    def _n_classes(self) -> int:
        return 0

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        several = self._takes_several()
        target = read_regression_target(y, n_rows, type(self).__name__, several=several)
        target = target.reshape(n_rows, -1)
        if self.criterion == "poisson":
            if target.min() < 0:
                raise ValueError(
                    f"y must not be negative under criterion='poisson', got {target.min()}"
                )
            if np.any(target.sum(axis=0) <= 0):
                raise ValueError("y must have a positive sum under criterion='poisson'")
        self.n_outputs_ = target.shape[1]
        return target

    def _check_one_response(self) -> None:
        if self.n_outputs_ > 1:
            raise ValueError(f"monotonic_cst needs a single output, but y has {self.n_outputs_}")

    def _squeeze(self, values: np.ndarray) -> np.ndarray:
        """Return predictions in the shape of the target of `fit`."""
        return values[:, 0] if self.n_outputs_ == 1 else values

    def _predictions(self, X: Any) -> np.ndarray:
        return self._squeeze(self._predict_values(X))  # type: ignore[attr-defined]

    def _outputs(self) -> str:
        return f"outputs {self.n_outputs_}"

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a regressor for one or more outputs."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._takes_several()
        return tags


class ClassTarget(ClassifierMixin):
    """A target of class labels; goes before the family among the bases.

    Parameters
    ----------
    monotonic_cst : array-like, dict or None
        1 or -1 for features with which the probability of the second of two classes may only
        increase or decrease, else 0; a dict gives them by name.

    Attributes
    ----------
    n_classes_ : int
        Number of classes.
    n_outputs_ : int
        Always 1.
    """

    classes_: np.ndarray = attribute()
    n_classes_: int = attribute()

    def _n_classes(self) -> int:
        return self.n_classes_

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        codes, self.classes_ = check_target_classification(
            y, n_rows, estimator_name=type(self).__name__
        )
        self.n_classes_ = len(self.classes_)
        self.n_outputs_ = 1
        return codes

    def _check_one_response(self) -> None:
        if self.n_classes_ > 2:
            raise ValueError(
                f"monotonic_cst needs two classes at most, but y has {self.n_classes_}"
            )

    def _outputs(self) -> str:
        return f"classes {self.n_classes_}"
