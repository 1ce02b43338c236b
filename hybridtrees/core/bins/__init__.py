"""Binning: sketches, cuts, the mapper and the binned table."""
