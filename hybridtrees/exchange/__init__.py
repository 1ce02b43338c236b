"""Models in and out of the house."""
