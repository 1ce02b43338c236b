"""Validation of X, y and sample_weight: from any supported input to clean arrays."""
