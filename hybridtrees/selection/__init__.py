"""Choosing between models: cross-validation, search for parameters, and which rows are held out."""

from hybridtrees.selection.cross_validation import CrossValidation, cv
from hybridtrees.selection.splits import Split, split_rows
from hybridtrees.selection.tuned import Trial, Tuning
from hybridtrees.selection.tuning import tune

__all__ = ["CrossValidation", "Split", "Trial", "Tuning", "cv", "split_rows", "tune"]
