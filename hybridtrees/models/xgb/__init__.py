"""Gradient boosting in XGBoost's dialect."""
