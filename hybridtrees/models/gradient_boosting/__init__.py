"""Gradient boosting in scikit-learn's dialect."""
