"""What families share: the boosting loop, the bagging loop, constraints."""
