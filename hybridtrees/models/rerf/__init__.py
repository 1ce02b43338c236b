"""Regression-enhanced random forests."""
