"""Columns made ready for models."""

from hybridtrees.prepare.dates import DateFeatures
from hybridtrees.prepare.prepared import PreparedClassifier, PreparedRegressor

__all__ = ["DateFeatures", "PreparedClassifier", "PreparedRegressor"]
