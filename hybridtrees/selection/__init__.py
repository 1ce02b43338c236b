"""Choosing between models: cross-validation, and which rows are held out."""

from hybridtrees.selection.cross_validation import CrossValidation, cv
from hybridtrees.selection.splits import Split, split_rows

__all__ = ["CrossValidation", "Split", "cv", "split_rows"]
