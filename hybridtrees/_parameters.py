"""Parameters of estimators: how a class declares them, and how their values are checked.

A class declares a parameter as an annotated attribute with a default, as a dataclass does::

    class Tree(Estimator):
        max_depth: int | None = None

Bases come first, and a class that declares a parameter again changes its default and keeps its
place. The constructor is made from these declarations (`make_init`), so that every parameter is
written once. Names that begin or end with an underscore are no parameters, nor are ClassVars.

Each check returns the value as a plain Python number (or the value itself), so that NumPy
scalars are welcome and do not travel further.
"""

from __future__ import annotations

import inspect
import math
import reprlib
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np


def declared_parameters(cls: type) -> dict[str, tuple[Any, Any]]:
    """Return the parameters of a class in order: name to (default, annotation)."""
    found: dict[str, tuple[Any, Any]] = {}
    for base in reversed(cls.__mro__):
        for name, annotation in inspect.get_annotations(base).items():
            shared = "ClassVar" in str(annotation)
            if name in base.__dict__ and not (name.startswith("_") or name.endswith("_") or shared):
                found[name] = (base.__dict__[name], annotation)
    return found


def make_init(cls: type, positional: tuple[str, ...] = ()) -> Callable[..., None]:
    """Make the constructor that assigns each declared parameter to its attribute.

    It is compiled from source, as dataclasses do, for Python's own messages about wrong arguments
    and a signature that scikit-learn and editors can read. Only the `positional` parameters can
    be given without a name.
    """
    parameters = declared_parameters(cls)
    ordered = [*positional, *(name for name in parameters if name not in positional)]
    arguments = [f"{name}=defaults[{name!r}]" for name in ordered]
    arguments.insert(len(positional), "*")
    body = "".join(f"    self.{name} = {name}\n" for name in ordered)
    space: dict[str, Any] = {"defaults": {name: parameters[name][0] for name in ordered}}
    exec(f"def __init__(self, {', '.join(arguments)}):\n{body}", space)
    init = space["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {name: parameters[name][1] for name in ordered}
    init.declared = True
    return init


_BRACKETS = {"both": "[]", "left": "[)", "right": "(]", "neither": "()"}


def check_real(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    closed: str = "both",
    allow_none: bool = False,
) -> float | None:
    """Check a finite number; `closed` ("both", "left", ...) says which ends are in the range."""
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


def check_integer(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    allow_none: bool = False,
) -> int | None:
    """Check an integer between `low` and `high`, both allowed; booleans are no integers."""
    if value is None and allow_none:
        return None
    wanted = f"an integer{_range(low, high, 'both')}{' or None' if allow_none else ''}"
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be {wanted}, got {_shown(value)}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be {wanted}, got {_shown(value)}")
    return int(value)


def check_boolean(name: str, value: Any) -> bool:
    """Check a boolean; 0, 1 and other stand-ins are refused."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_option(name: str, value: Any, options: Iterable[Any]) -> Any:
    """Return the one of several options that equals a value."""
    options = tuple(options)
    for option in options:
        # The types are compared as well, so that 1 is not taken for True; a NumPy string is a
        # str, hence isinstance.
        if option is value or (isinstance(value, type(option)) and _equal(option, value)):
            return option
    allowed = ", ".join(repr(option) for option in options)
    raise ValueError(f"{name} must be one of {allowed}, got {value!r}")


def check_rows(
    name: str, value: Any, low: int, *, closed: str, auto: bool = False
) -> int | float | str:
    """Check a number of rows: an integer from `low` on, or a share, 1 if closed on the right."""
    if auto and isinstance(value, str) and value == "auto":
        return value
    if isinstance(value, Integral):
        return check_integer(name, value, low)  # type: ignore[return-value]
    if isinstance(value, Real):
        return check_real(name, value, 0, 1, closed=closed)  # type: ignore[return-value]
    error = ValueError if auto and isinstance(value, str) else TypeError
    first = "'auto', " if auto else ""
    raise error(
        f"{name} must be {first}an integer of at least {low} or a share of the rows between 0 "
        f"and 1, got {value!r}"
    )


def check_max_features(value: Any) -> None:
    """Check `max_features`, all but its relation to the table."""
    if value is None:
        return
    if isinstance(value, str):
        check_option("max_features", value, ("sqrt", "log2"))
    elif isinstance(value, Integral):
        check_integer("max_features", value, 1)
    elif isinstance(value, Real):
        check_real("max_features", value, 0, 1, closed="right")
    else:
        raise TypeError(
            "max_features must be None, 'sqrt', 'log2', an integer of at least 1 or a share in "
            f"(0, 1], got {value!r}"
        )


def count_rows(value: int | float, n_rows: int) -> int:
    """Return a number of rows that is given as such or as a share of all."""
    # More rows than there are is as good as any larger number, and fits the engine.
    if isinstance(value, Integral):
        return min(int(value), n_rows + 1)
    return math.ceil(float(value) * n_rows)


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes no integer of more than some thousand digits
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
    """Return the range in words, or nothing if there is no limit."""
    if closed not in _BRACKETS:
        raise ValueError(f"closed must be one of {', '.join(_BRACKETS)}, got {closed!r}")
    if math.isinf(low) and math.isinf(high):
        return ""
    if math.isinf(high):
        return f" of at least {low}" if closed in ("both", "left") else f" greater than {low}"
    if math.isinf(low):
        return f" of at most {high}" if closed in ("both", "right") else f" less than {high}"
    left, right = _BRACKETS[closed]
    return f" in {left}{low}, {high}{right}"


def short_repr(value: Any) -> str:
    """Return the value of a parameter as an estimator shows it, long ones cut."""
    if isinstance(value, np.ndarray):
        return reprlib.repr(value.tolist())
    return repr(value) if hasattr(value, "get_params") else _short.repr(value)


_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlist = _short.maxtuple = _short.maxdict = 8


def differs(value: Any, default: Any) -> bool:
    """Whether a parameter is to be shown; arrays and NaN make `!=` alone unfit."""
    if value is default:
        return False
    if type(value) is not type(default):
        return True
    return repr(value) != repr(default)
