"""Small data sets for examples, tests and the command line.

Three bundled tables (:func:`load_breast_cancer`, :func:`load_heart_failure`, :func:`load_iris`)
and two seeded generators (:func:`make_house_prices`, :func:`make_seasonal_series`), of which
:func:`load_house_prices` and :func:`load_seasonal_series` return one fixed draw. Only
``as_frame=True`` imports pandas.
"""

from hybridtrees.datasets._dataset import Dataset
from hybridtrees.datasets._synthetic import (
    load_house_prices,
    load_seasonal_series,
    make_house_prices,
    make_seasonal_series,
)
from hybridtrees.datasets._tables import load_breast_cancer, load_heart_failure, load_iris

__all__ = [
    "Dataset",
    "load_breast_cancer",
    "load_heart_failure",
    "load_house_prices",
    "load_iris",
    "load_seasonal_series",
    "make_house_prices",
    "make_seasonal_series",
]
