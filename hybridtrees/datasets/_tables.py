"""Bundled tables."""

from __future__ import annotations

import gzip
from importlib import resources
from typing import Any, Literal, overload

import numpy as np

from hybridtrees.datasets._dataset import Dataset

BREAST_CANCER = """\
Breast Cancer Wisconsin (Diagnostic): 569 breast masses, 212 of them malignant.

Ten properties of the cell nuclei in a digitised image of a fine needle aspirate (radius, texture,
perimeter, area, smoothness, compactness, concavity, concave points, symmetry, fractal dimension),
each as the mean over the nuclei, its standard error ("se"), and the mean of the three largest
values ("worst").

Target: 1 = malignant, 0 = benign. No missing values.

Source: W. Wolberg, O. Mangasarian, N. Street, W. Street (1993), UCI Machine Learning Repository,
https://doi.org/10.24432/C5DW2B, CC BY 4.0. The patient number is left out and the rows are in a
different order.
"""

HEART_FAILURE = """\
Heart failure clinical records: 299 patients, 96 of whom died during the follow-up.

Age, five yes/no findings (anaemia, diabetes, high blood pressure, sex with 1 = man, smoking),
five laboratory values (creatinine phosphokinase, ejection fraction, platelets, serum creatinine,
serum sodium) and the days of follow-up ("time", which is known only afterwards).

Target: 1 = died during the follow-up. No missing values.

Source: UCI Machine Learning Repository, https://doi.org/10.24432/C5Z89R, CC BY 4.0; D. Chicco,
G. Jurman (2020), https://doi.org/10.1186/s12911-020-1023-5.
"""

IRIS = """\
Iris: 150 flowers, 50 of each of three species.

Length and width of sepals and petals in centimetres.

Target: 0 = setosa, 1 = versicolor, 2 = virginica. No missing values.

Source: R. A. Fisher (1936), The use of multiple measurements in taxonomic problems, Annals of
Eugenics 7, https://doi.org/10.1111/j.1469-1809.1936.tb02137.x. In the public domain.
"""


def _read_table(file_name: str, description: str, as_frame: bool, return_X_y: bool) -> Any:
    """Read a bundled CSV file whose last column is a target 0, 1, ..."""
    packed = resources.files("hybridtrees.datasets").joinpath(file_name).read_bytes()
    header, *rows = gzip.decompress(packed).decode("ascii").splitlines()
    names = header.split(",")
    table = np.array([row.split(",") for row in rows], dtype=np.float64)
    dataset = Dataset(
        data=np.ascontiguousarray(table[:, :-1]),
        target=table[:, -1].astype(np.int64),
        feature_names=tuple(names[:-1]),
        target_name=names[-1],
        task="classification",
        description=description,
    )
    return dataset._present(as_frame, return_X_y)


@overload
def load_breast_cancer(*, as_frame: bool = ..., return_X_y: Literal[False] = ...) -> Dataset: ...
@overload
def load_breast_cancer(*, as_frame: bool = ..., return_X_y: Literal[True]) -> tuple[Any, Any]: ...
def load_breast_cancer(*, as_frame: bool = False, return_X_y: bool = False) -> Any:
    """Load Breast Cancer Wisconsin (Diagnostic): 569 rows, 30 features, two classes.

    Parameters
    ----------
    as_frame : bool, default=False
        Return a pandas DataFrame and Series instead of NumPy arrays.
    return_X_y : bool, default=False
        Return the pair ``(data, target)`` instead of a `Dataset`.

    Returns
    -------
    Dataset, or (data, target)
        Class 1 is malignant (212 rows), class 0 benign (357 rows).

    Examples
    --------
    >>> from hybridtrees.datasets import load_breast_cancer
    >>> load_breast_cancer()
    Dataset(task='classification', n_samples=569, n_features=30, target_name='diagnosis')
    """
    return _read_table("breast_cancer.csv.gz", BREAST_CANCER, as_frame, return_X_y)


@overload
def load_heart_failure(*, as_frame: bool = ..., return_X_y: Literal[False] = ...) -> Dataset: ...
@overload
def load_heart_failure(*, as_frame: bool = ..., return_X_y: Literal[True]) -> tuple[Any, Any]: ...
def load_heart_failure(*, as_frame: bool = False, return_X_y: bool = False) -> Any:
    """Load the heart failure clinical records: 299 rows, 12 features, two classes.

    Parameters
    ----------
    as_frame : bool, default=False
        Return a pandas DataFrame and Series instead of NumPy arrays.
    return_X_y : bool, default=False
        Return the pair ``(data, target)`` instead of a `Dataset`.

    Returns
    -------
    Dataset, or (data, target)
        Class 1 died during the follow-up (96 rows), class 0 survived it (203 rows).

    Examples
    --------
    >>> from hybridtrees.datasets import load_heart_failure
    >>> load_heart_failure()
    Dataset(task='classification', n_samples=299, n_features=12, target_name='death_event')
    """
    return _read_table("heart_failure.csv.gz", HEART_FAILURE, as_frame, return_X_y)


@overload
def load_iris(*, as_frame: bool = ..., return_X_y: Literal[False] = ...) -> Dataset: ...
@overload
def load_iris(*, as_frame: bool = ..., return_X_y: Literal[True]) -> tuple[Any, Any]: ...
def load_iris(*, as_frame: bool = False, return_X_y: bool = False) -> Any:
    """Load Fisher's iris flowers: 150 rows, 4 features, three classes.

    Parameters
    ----------
    as_frame : bool, default=False
        Return a pandas DataFrame and Series instead of NumPy arrays.
    return_X_y : bool, default=False
        Return the pair ``(data, target)`` instead of a `Dataset`.

    Returns
    -------
    Dataset, or (data, target)
        Class 0 is setosa, 1 versicolor, 2 virginica, with 50 rows each.

    Examples
    --------
    >>> from hybridtrees.datasets import load_iris
    >>> load_iris()
    Dataset(task='classification', n_samples=150, n_features=4, target_name='species')
    """
    return _read_table("iris.csv.gz", IRIS, as_frame, return_X_y)
