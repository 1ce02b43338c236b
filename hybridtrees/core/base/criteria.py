"""Criteria of classification and regression trees: from their names to those of the search."""

REGRESSION_CRITERIA = {
    "squared_error": "squares",
    "friedman_mse": "squares",
    "absolute_error": "absolute",
    "poisson": "poisson",
}
CLASSIFICATION_CRITERIA = {
    "gini": "squares",
    "entropy": "entropy",
    "log_loss": "entropy",
    "misclassification": "misclassified",
}
CRITERIA = REGRESSION_CRITERIA | CLASSIFICATION_CRITERIA
