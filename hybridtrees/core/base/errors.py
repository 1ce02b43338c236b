"""Errors that the engine and the estimators share."""


class NotFittedError(ValueError, AttributeError):
    """Raised when an estimator is used before `fit`.

    If scikit-learn is loaded, estimators raise a subclass that is also a
    `sklearn.exceptions.NotFittedError`.
    """
