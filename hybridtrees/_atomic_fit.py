"""The decorator of every `fit`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def atomic_fit(method: Method) -> Method:
    """Decorate a `fit` so that an error leaves the estimator as it was.

    Attributes are restored by reference, so the method must replace objects and not modify them.
    An error about the arguments themselves names the class of the estimator.

    An estimator with a method `_begin_fit` is asked first. It may check the arguments, and returns
    a function that is called after the fit. X may be a table on disk, which says by `open_for` what
    the method gets in place of it; with ``target=``, a column of X, it may be any source of rows.
    Where `_none_is_default`, parameters that are None have the value of their class during the fit.
    """

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.__dict__.copy()
        try:
            unset = _hide_none(self)
            given: Any = args[0] if args else kwargs.get("X")
            with ExitStack() as opened:
                if hasattr(given, "open_for"):
                    args, kwargs = given.open_for(self, args[1:], kwargs)
                elif "target" in kwargs:
                    from hybridtrees.store.source_fit import arguments_of_source

                    source = arguments_of_source(self, given, args[1:], kwargs)
                    args, kwargs = opened.enter_context(source)
                begin = getattr(self, "_begin_fit", None)
                finish = None if begin is None else begin(method, args, kwargs)
                fitted = method(self, *args, **kwargs)
                if finish is not None:
                    finish()
            self.__dict__.update(unset)
            return fitted
        except BaseException as error:  # an interrupt, too, must not leave a half-fitted model
            self.__dict__.clear()
            self.__dict__.update(before)
            trace = error.__traceback__
            if isinstance(error, TypeError) and trace is not None and trace.tb_next is None:
                # Not raised within the method: Python names the base class that has it.
                own = f"{type(self).__name__}.{method.__name__}"
                raise TypeError(str(error).replace(method.__qualname__, own)) from None
            raise

    return guarded  # type: ignore[return-value]


def _hide_none(estimator: Any) -> dict[str, None]:
    """Remove parameters that are None, so that the default of the class shows; return them."""
    if not getattr(estimator, "_none_is_default", False):
        return {}
    own = vars(estimator)
    unset = {
        name: None
        for name, default in estimator._parameter_defaults().items()
        if default is not None and own.get(name, default) is None
    }
    for name in unset:
        del own[name]
    return unset
