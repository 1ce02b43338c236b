"""Errors that the engine and the estimators share."""

from __future__ import annotations

import sys
from typing import cast


class NotFittedError(ValueError, AttributeError):
    """Raised when an estimator is used before `fit`.

    If scikit-learn is loaded, estimators raise a subclass that is also a
    `sklearn.exceptions.NotFittedError`.
    """


def not_fitted_error(message: str) -> NotFittedError:
    """Return an error that is also scikit-learn's NotFittedError, if scikit-learn is loaded."""
    theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
    if theirs is None:
        return NotFittedError(message)
    both = type(
        "NotFittedError",
        (NotFittedError, theirs),
        # pickle cannot find this class by name: it is created again when unpickled.
        {"__module__": __name__, "__reduce__": lambda error: (not_fitted_error, error.args)},
    )
    return cast(NotFittedError, both(message))
