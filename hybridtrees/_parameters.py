"""Declaration and validation of the parameters of estimators.

A class declares a parameter as an annotated attribute with a default, like a dataclass::

    class Tree(Estimator):
        max_depth: int | None = None

Parameters of base classes come first; declaring one again changes its default, not its position.
The constructor is generated from the declarations (`make_init`), so that every parameter is written
once. ClassVars and names that begin or end with an underscore are not parameters. Type checkers
take every other annotated attribute for one, unless its value is `attribute()`::

        trees_: TreeEnsemble = attribute()

Each check returns a plain Python value, so that NumPy scalars are accepted but go no further.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
import reprlib
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, Literal, cast, overload

import numpy as np

from hybridtrees._aliases import own_names, unknown_name


class _Nothing:
    """A value that removes itself from the class that it is assigned in."""

    def __set_name__(self, owner: type, name: str) -> None:
        delattr(owner, name)


def attribute(*, init: Literal[False] = False) -> Any:
    """Declare an attribute that is no parameter here: it is learned, or a subclass has a default.

    Only type checkers see it, which know it as a field without `init`.
    """
    return _Nothing()


# What `random_state` may be.
Seed = (
    int
    | np.integer[Any]
    | np.random.Generator
    | np.random.RandomState
    | np.random.SeedSequence
    | None
)


def declared_parameters(cls: type) -> dict[str, tuple[Any, Any]]:
    """Return the parameters of a class in order, from name to (default, annotation)."""
    found: dict[str, tuple[Any, Any]] = {}
    for base in reversed(cls.__mro__):
        for name, annotation in inspect.get_annotations(base).items():
            shared = "ClassVar" in str(annotation)
            if name in base.__dict__ and not (name.startswith("_") or name.endswith("_") or shared):
                found[name] = (base.__dict__[name], annotation)
    return found


def make_init(cls: type, positional: tuple[str, ...] = ()) -> Callable[..., None]:
    """Make the constructor that assigns each declared parameter to its attribute.

    It is compiled from source, like that of a dataclass, so that it has a proper signature and
    Python's own error messages. Only `positional` parameters can be passed by position. Names that
    are not declared are those of other libraries (`hybridtrees._aliases`), or errors.
    """
    parameters = declared_parameters(cls)
    ordered = [*positional, *(name for name in parameters if name not in positional)]
    arguments = [f"{name}=defaults[{name!r}]" for name in ordered]
    if len(ordered) > len(positional):
        arguments.insert(len(positional), "*")
    body = "".join(f"    self.{name} = {name}\n" for name in ordered)
    space: dict[str, Any] = {"defaults": {name: parameters[name][0] for name in ordered}}
    exec(f"def __init__(self, {', '.join(arguments)}):\n{body}", space)
    assign: Any = space["__init__"]
    assign.__qualname__, assign.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    assign.__annotations__ = {name: parameters[name][1] for name in ordered}

    @functools.wraps(assign)
    def init(self: Any, *values: Any, **given: Any) -> None:
        first = type(self)._positional_alias
        if first and values and hasattr(values[0], "get_params"):
            given, values = {first: values[0], **given}, values[1:]
        if type(self)._dialects or not given.keys() <= parameters.keys():
            given = own_names(type(self), given, ordered)
            for name in given.keys() - parameters.keys():
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                    f"{name!r}{unknown_name(type(self), name, ordered)}"
                )
        assign(self, *values, **given)

    init.declared = True  # type: ignore[attr-defined]
    return cast(Callable[..., None], init)


def clone(estimator: Any) -> Any:
    """Return an unfitted copy of an estimator with the same parameters, as scikit-learn does.

    Estimators in lists and tuples among the parameters are cloned too.
    """
    params = estimator.get_params(deep=False)
    return type(estimator)(**{name: _copy(value) for name, value in params.items()})


def _copy(value: Any) -> Any:
    if hasattr(value, "get_params") and not isinstance(value, type):
        return clone(value)
    if type(value) in (list, tuple):
        return type(value)(map(_copy, value))
    return copy.deepcopy(value)


def is_classifier(estimator: Any) -> bool:
    """Whether an estimator, ours or another library's, predicts classes."""
    if hasattr(estimator, "predict_proba"):
        return True
    kind = getattr(estimator, "_estimator_type", None)
    if kind is None and hasattr(estimator, "__sklearn_tags__"):
        kind = estimator.__sklearn_tags__().estimator_type
    return kind == "classifier"


# Longest repr of an estimator on one line.
_LINE = 88

_BRACKETS = {"both": "[]", "left": "[)", "right": "(]", "neither": "()"}


@overload
def check_real(
    name: str,
    value: Any,
    low: float = ...,
    high: float = ...,
    *,
    closed: str = ...,
    allow_none: Literal[False] = ...,
) -> float: ...
@overload
def check_real(
    name: str,
    value: Any,
    low: float = ...,
    high: float = ...,
    *,
    closed: str = ...,
    allow_none: Literal[True],
) -> float | None: ...
def check_real(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    closed: str = "both",
    allow_none: bool = False,
) -> float | None:
    """Check a finite number; `closed` ("both", "left", ...) says which ends are allowed."""
    if value is None and allow_none:
        return None
    wanted = f"a real number{_range(low, high, closed)}{' or None' if allow_none else ''}"
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be {wanted}, got {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all floats
        number = math.inf
    if not math.isfinite(number) or not _inside(number, low, high, closed):
        raise ValueError(f"{name} must be {wanted}, got {_shown(value)}")
    return number


@overload
def check_integer(
    name: str, value: Any, low: float = ..., high: float = ..., *, allow_none: Literal[False] = ...
) -> int: ...
@overload
def check_integer(
    name: str, value: Any, low: float = ..., high: float = ..., *, allow_none: Literal[True]
) -> int | None: ...
def check_integer(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    allow_none: bool = False,
) -> int | None:
    """Check an integer from `low` to `high`; booleans are refused."""
    if value is None and allow_none:
        return None
    wanted = f"an integer{_range(low, high, 'both')}{' or None' if allow_none else ''}"
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be {wanted}, got {_shown(value)}")
    if not low <= int(value) <= high:
        raise ValueError(f"{name} must be {wanted}, got {_shown(value)}")
    return int(value)


def check_boolean(name: str, value: Any) -> bool:
    """Check a boolean; 0 and 1 are refused."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_boolean_or_auto(name: str, value: Any) -> bool | Literal["auto"]:
    """Check a boolean or "auto"."""
    if isinstance(value, str) and value == "auto":
        return "auto"
    if isinstance(value, bool | np.bool_):
        return bool(value)
    error = ValueError if isinstance(value, str) else TypeError
    raise error(f"{name} must be True, False or 'auto', got {value!r}")


def check_verbose(value: Any) -> None:
    """Check a number of steps between two lines of progress; a boolean is allowed."""
    if not isinstance(value, bool | np.bool_):
        check_integer("verbose", value, 0)


def check_option(name: str, value: Any, options: Iterable[Any]) -> Any:
    """Check that a value is one of several options."""
    options = tuple(options)
    for option in options:
        # Types are compared too, so that 1 is not True; by isinstance, as a NumPy string is a str.
        if option is value or (isinstance(value, type(option)) and _equal(option, value)):
            return option
    allowed = ", ".join(repr(option) for option in options)
    raise ValueError(f"{name} must be one of {allowed}, got {value!r}")


def check_rows(
    name: str, value: Any, low: int, *, closed: str, auto: bool = False
) -> int | float | str:
    """Check a number of rows: an integer of at least `low`, or a share of the rows."""
    if auto and isinstance(value, str) and value == "auto":
        return value
    if isinstance(value, Integral):
        return check_integer(name, value, low)
    if isinstance(value, Real):
        return check_real(name, value, 0, 1, closed=closed)
    error = ValueError if auto and isinstance(value, str) else TypeError
    first = "'auto', " if auto else ""
    raise error(
        f"{name} must be {first}an integer of at least {low} or a share of the rows between 0 "
        f"and 1, got {value!r}"
    )


def check_max_features(value: Any) -> None:
    """Check `max_features` without looking at the table."""
    if value is None:
        return
    if isinstance(value, str):
        check_option("max_features", value, ("sqrt", "log2", "third"))
    elif isinstance(value, Integral):
        check_integer("max_features", value, 1)
    elif isinstance(value, Real):
        check_real("max_features", value, 0, 1, closed="right")
    else:
        raise TypeError(
            "max_features must be None, 'sqrt', 'log2', 'third', an integer of at least 1 or a "
            f"share in (0, 1], got {value!r}"
        )


def count_rows(value: int | float, n_rows: int) -> int:
    """Return a number of rows given as an integer or as a share."""
    # Any number above `n_rows` has the same effect, and this one fits the engine's integers.
    if isinstance(value, Integral):
        return min(int(value), n_rows + 1)
    return math.ceil(float(value) * n_rows)


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python refuses to print integers of more than some thousand digits
        return f"an integer of about {int(value).bit_length() * 30103 // 100000} digits"


def _equal(option: Any, value: Any) -> bool:
    if isinstance(value, bool) != isinstance(option, bool):
        return False
    try:
        return bool(option == value)
    except (TypeError, ValueError):
        return False


def _inside(value: float, low: float, high: float, closed: str) -> bool:
    above = value >= low if closed in ("both", "left") else value > low
    below = value <= high if closed in ("both", "right") else value < high
    return above and below


def _range(low: float, high: float, closed: str) -> str:
    """Return a description of the range, empty if there is no limit."""
    if closed not in _BRACKETS:
        raise ValueError(f"closed must be one of {', '.join(_BRACKETS)}, got {closed!r}")
    if math.isinf(low) and math.isinf(high):
        return ""
    if math.isinf(high):
        return f" of at least {low}" if closed in ("both", "left") else f" greater than {low}"
    if math.isinf(low):
        return f" of at most {high}" if closed in ("both", "right") else f" less than {high}"
    left, right = _BRACKETS[closed][0], _BRACKETS[closed][1]
    return f" in {left}{low}, {high}{right}"


def estimator_repr(estimator: Any, defaults: dict[str, Any]) -> str:
    """Return the call that makes an estimator, with the parameters that are not the defaults."""
    changed = [
        f"{name}={short_repr(getattr(estimator, name, default))}"
        for name, default in defaults.items()
        if differs(getattr(estimator, name, default), default)
    ]
    line = f"{type(estimator).__name__}({', '.join(changed)})"
    if len(line) <= _LINE:
        return line
    return f"{type(estimator).__name__}(\n    " + ",\n    ".join(changed) + ",\n)"


def short_repr(value: Any) -> str:
    """Return the shortened repr of a parameter."""
    if isinstance(value, np.ndarray):
        return reprlib.repr(value.tolist())
    return repr(value) if hasattr(value, "get_params") else _short.repr(value)


_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlist = _short.maxtuple = _short.maxdict = 8


def differs(value: Any, default: Any) -> bool:
    """Whether a parameter differs from its default; `!=` fails for arrays and NaN."""
    if value is default:
        return False
    if type(value) is not type(default):
        return True
    return repr(value) != repr(default)
