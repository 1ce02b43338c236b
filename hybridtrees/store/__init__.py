"""Binned tables on disk."""
