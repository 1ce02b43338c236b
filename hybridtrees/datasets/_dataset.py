"""The data set object that loaders and generators return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, repr=False)
class Dataset:
    """A table with its target and description.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_features), dict of columns, or pandas.DataFrame
        The features, in a form that every estimator takes as `X`. A table with text columns
        comes as a dict from column name to a 1-D array; its missing values are NaN in number
        columns and None in text columns.
    target : ndarray of shape (n_samples,) or pandas.Series
        The values to predict.
    feature_names : tuple of str
        Names of the columns of `data`, in order.
    target_name : str
        Name of the target.
    task : {"regression", "classification"}
        Kind of the target.
    description : str
        Source, meaning of the columns, licence.
    categories : dict of str to tuple of str
        Levels of each text column; empty if all columns are numbers.
    """

    data: Any
    target: Any
    feature_names: tuple[str, ...]
    target_name: str
    task: str
    description: str
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of features."""
        return len(self.target), len(self.feature_names)

    @property
    def categorical_features(self) -> list[int]:
        """Positions of the columns that hold categories."""
        return [j for j, name in enumerate(self.feature_names) if name in self.categories]

    def to_array(self) -> np.ndarray:
        """Return the features as a float64 matrix.

        A category becomes its position in `categories`, a missing value becomes NaN.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            A new array.
        """
        if isinstance(self.data, np.ndarray):
            return self.data.astype(np.float64)
        matrix = np.empty(self.shape, dtype=np.float64)
        for j, name in enumerate(self.feature_names):
            column = self.data[name]
            if name in self.categories:
                position = {level: code for code, level in enumerate(self.categories[name])}
                # Anything but a string is missing: None, or NaN and pd.NA in pandas.
                matrix[:, j] = [
                    position.get(value, np.nan) if isinstance(value, str) else np.nan
                    for value in column
                ]
            else:
                matrix[:, j] = column
        return matrix

    def to_frame(self) -> Dataset:
        """Return a copy whose `data` is a pandas DataFrame and whose `target` is a Series.

        Text columns become pandas categories with the levels of `categories`.

        Returns
        -------
        Dataset
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "as_frame=True needs pandas, which is not installed; "
                "leave as_frame=False or install pandas"
            ) from error
        if isinstance(self.data, np.ndarray):
            frame = pd.DataFrame(self.data, columns=list(self.feature_names))
        else:
            frame = pd.DataFrame(
                {
                    name: pd.Categorical(column, categories=self.categories[name])
                    if name in self.categories
                    else column
                    for name, column in self.data.items()
                }
            )
        return replace(self, data=frame, target=pd.Series(self.target, name=self.target_name))

    def _present(self, as_frame: bool, return_X_y: bool) -> Any:
        """Return what a loader is asked for: itself or (data, target), as frames if wanted."""
        found = self.to_frame() if as_frame else self
        return (found.data, found.target) if return_X_y else found

    def __repr__(self) -> str:
        """Return a one-line summary without the arrays."""
        n_samples, n_features = self.shape
        return (
            f"Dataset(task={self.task!r}, n_samples={n_samples}, n_features={n_features}, "
            f"target_name={self.target_name!r})"
        )
