"""Comparing all the models on one data set: ``hybridtrees compare`` and `hybridtrees.compare`."""

from hybridtrees._compare.result import Comparison
from hybridtrees._compare.run import compare

__all__ = ["Comparison", "compare"]
