"""Methods that an estimator has only under some parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class available_if:  # noqa: N801 - a decorator
    """Decorator: the method is there only while a condition holds, so that `hasattr` tells it.

    The condition takes the estimator. It returns whether the method is there, or raises an error
    that says why it is not.
    """

    def __init__(self, condition: Callable[[Any], Any]) -> None:
        self.condition = condition
        self.method: Callable[..., Any]

    def __call__(self, method: Callable[..., Any]) -> Any:
        """Take the method that is decorated."""
        self.method = method
        functools.update_wrapper(self, method)
        return self

    def __get__(self, estimator: Any, owner: Any = None) -> Any:
        if estimator is None:
            return self.method
        missing = f"{type(estimator).__name__} has no {self.method.__name__}"
        try:
            there = self.condition(estimator)
        except AttributeError as error:
            raise AttributeError(f"{missing}: {error}") from error
        if not there:
            raise AttributeError(missing)
        return self.method.__get__(estimator, owner)
