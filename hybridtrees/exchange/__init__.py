"""Models of other libraries, taken over: they predict, are read, saved and loaded like our own."""

from hybridtrees.exchange.models import ImportedClassifier, ImportedRegressor

__all__ = ["ImportedClassifier", "ImportedRegressor"]
