"""Grown trees: storage, prediction, pruning, paths."""
