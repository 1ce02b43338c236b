"""Metadata routing of scikit-learn, which is imported on first use.

scikit-learn's meta-estimators ask each estimator which extra arguments (such as `sample_weight`)
its methods want. Users set that by `set_fit_request` and similar methods, and it is stored in
scikit-learn's `MetadataRequest`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

_METHODS = (
    "fit",
    "partial_fit",
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "score",
    "transform",
)
_DATA = frozenset(("X", "y"))


def _request_setter(method: str, keys: tuple[str, ...]) -> Callable[..., Any]:
    """Make the method `set_<method>_request` of an estimator."""

    def set_request(self: Any, **requests: Any) -> Any:
        routing = _import_routing()
        import sklearn

        if not sklearn.get_config().get("enable_metadata_routing", False):
            raise RuntimeError(
                f"set_{method}_request has an effect only when metadata routing is enabled: call "
                "sklearn.set_config(enable_metadata_routing=True) first."
            )
        unknown = sorted(set(requests) - set(keys))
        if unknown:
            raise TypeError(
                f"set_{method}_request got {', '.join(unknown)}; {method} of "
                f"{type(self).__name__} takes {', '.join(keys)}"
            )
        request = self.get_metadata_routing()
        for key, alias in requests.items():
            if alias != routing.UNCHANGED:
                getattr(request, method).add_request(param=key, alias=alias)
        self._metadata_request = request
        return self

    set_request.__name__ = f"set_{method}_request"
    set_request.__doc__ = (
        f"Choose the extra arguments of `{method}` that a meta-estimator passes on.\n\n"
        "Each argument is True (pass it), False (do not), None (raise if it is given) or a str "
        "(the name under which the meta-estimator gets it). Needs "
        "``sklearn.set_config(enable_metadata_routing=True)``."
    )
    kinds = inspect.Parameter
    set_request.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            kinds("self", kinds.POSITIONAL_OR_KEYWORD),
            *(kinds(key, kinds.KEYWORD_ONLY, default="$UNCHANGED$") for key in keys),
        ]
    )
    return set_request


class RoutingMixin:
    """Adds `get_metadata_routing`, and `set_<method>_request` for methods with extra arguments."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for method, keys in metadata_arguments(cls).items():
            setattr(cls, f"set_{method}_request", _request_setter(method, keys))

    def get_metadata_routing(self) -> Any:
        """Return the metadata routing of this estimator."""
        routing = _import_routing()
        kept = self.__dict__.get("_metadata_request")
        if kept is not None:
            return routing.get_routing_for_object(kept)
        # The owner is used in messages only; its name keeps no reference to the estimator.
        request = routing.MetadataRequest(owner=type(self).__name__)
        for method, keys in metadata_arguments(type(self)).items():
            for key in keys:
                getattr(request, method).add_request(param=key, alias=None)
        return request

    # The name that scikit-learn itself uses.
    _get_metadata_request = get_metadata_routing


def metadata_arguments(cls: type) -> dict[str, tuple[str, ...]]:
    """Return the arguments beside X and y that the methods of a class take, by method."""
    found = {}
    for method in _METHODS:
        function = getattr(cls, method, None)
        if not inspect.isfunction(function):
            continue
        parameters = list(inspect.signature(function).parameters.values())[1:]
        keys = tuple(
            parameter.name
            for parameter in parameters
            if parameter.name not in _DATA
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        )
        if keys:
            found[method] = keys
    return found


def _import_routing() -> Any:
    try:
        from sklearn.utils import metadata_routing
    except ImportError as error:
        raise ImportError("metadata routing needs scikit-learn, which is not installed") from error
    return metadata_routing
