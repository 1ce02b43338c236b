"""Random forests, and the imputer by proximities."""
