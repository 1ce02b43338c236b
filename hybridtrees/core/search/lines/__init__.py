"""Splits into two linear models: those of linear trees, and piece-wise lines of boosted trees."""
