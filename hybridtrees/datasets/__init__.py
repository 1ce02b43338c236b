"""Small data sets for examples, tests and the command line.

Two bundled tables (:func:`load_breast_cancer`, :func:`load_heart_failure`) and two seeded
generators (:func:`make_house_prices`, :func:`make_seasonal_series`). They need NumPy alone;
``as_frame=True`` asks for pandas, and only then is pandas imported.
"""

from hybridtrees.datasets._dataset import Dataset
from hybridtrees.datasets._synthetic import make_house_prices, make_seasonal_series
from hybridtrees.datasets._tables import load_breast_cancer, load_heart_failure

__all__ = [
    "Dataset",
    "load_breast_cancer",
    "load_heart_failure",
    "make_house_prices",
    "make_seasonal_series",
]
