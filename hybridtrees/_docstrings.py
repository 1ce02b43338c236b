"""Docstrings of estimators, composed of those of their base classes.

The text of a parameter or attribute stands once, in the docstring of the class that declares it,
without the default. Classes below inherit the text, or replace it by their own.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterable
from typing import Any

_TITLE = re.compile(r"^([A-Z][\w ]+)\n---+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def compose(cls: type, defaults: dict[str, Any]) -> str | None:
    """Return the docstring of a class with all of its parameters and attributes.

    Parameters come in the order of `defaults`, those of the constructor. A class without a
    docstring, as under ``python -OO``, stays without.
    """
    if not cls.__dict__.get("__doc__"):
        return None
    head, _, _, tail = _read(cls)
    parameters: dict[str, str] = {}
    attributes: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        _, own_parameters, own_attributes, _ = _read(base)
        parameters.update(own_parameters)
        attributes.update(own_attributes)
    known = _once(parameters[name] for name in defaults if name in parameters)
    sections = [
        ("Parameters", [_with_default(entry, defaults) for entry in known]),
        ("Attributes", _once(attributes.values())),
    ]
    parts = [
        f"{title}\n{'-' * len(title)}\n" + "".join(texts) for title, texts in sections if texts
    ]
    return "\n".join([head, *parts, tail]).rstrip() + "\n"


@functools.cache  # read before the composed docstring replaces the one in the source
def _read(cls: type) -> tuple[str, dict[str, str], dict[str, str], str]:
    """Return the text before the sections, the entries of the two, and the other sections."""
    head, *rest = _TITLE.split(inspect.cleandoc(cls.__dict__.get("__doc__") or ""))
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    parameters, attributes = (_entries(sections.pop(t, "")) for t in ("Parameters", "Attributes"))
    tail = "\n".join(f"{t}\n{'-' * len(t)}\n{text.rstrip()}\n" for t, text in sections.items())
    return head.rstrip() + "\n", parameters, attributes, tail


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by name; an entry may describe several names."""
    found = {}
    for entry in _ENTRY.split(section)[1:]:
        for name in _names(entry):
            found[name] = entry.rstrip() + "\n"
    return found


def _names(entry: str) -> list[str]:
    return entry.partition("\n")[0].partition(" : ")[0].split(", ")


def _once(entries: Iterable[str]) -> list[str]:
    """Return the entries, one that describes several names once."""
    return list(dict.fromkeys(entries))


def _with_default(entry: str, defaults: dict[str, Any]) -> str:
    """Return an entry with the default after the type, unless it is there."""
    header, line, text = entry.partition("\n")
    if "default=" in header:
        return entry
    values = [_shown(defaults[name]) for name in _names(entry) if name in defaults]
    several = ", ".join(values) if len(set(values)) > 1 else values[0]
    return f"{header}, default={several}{line}{text}"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return repr(value).removesuffix(".0") if isinstance(value, float) else repr(value)
