"""What families share: parameters, targets, the boosting and bagging loops, constraints."""
