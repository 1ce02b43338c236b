"""Intervals and prediction sets by conformal methods, and calibrated probabilities."""
