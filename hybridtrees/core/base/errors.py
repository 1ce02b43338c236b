"""Errors that the engine and the estimators share."""


class NotFittedError(ValueError, AttributeError):
    """Raised when something is asked for that `fit` has not learned yet.

    Where scikit-learn is loaded, estimators raise one that is a
    `sklearn.exceptions.NotFittedError` too.
    """
