"""Searches for splits, and the contract that they share."""
