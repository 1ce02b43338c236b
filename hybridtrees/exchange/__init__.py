"""Models in and out of the house.

Models of other libraries are taken over (`from_*`): they predict, are read, saved and loaded like
our own. Our models are written for other programs (`to_*`, `compiled.py`).
"""

from hybridtrees.exchange.models import ImportedClassifier, ImportedRegressor

__all__ = ["ImportedClassifier", "ImportedRegressor"]
