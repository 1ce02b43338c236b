"""Choosing between models: cross-validation."""

from hybridtrees.selection.cross_validation import CrossValidation, cv

__all__ = ["CrossValidation", "cv"]
