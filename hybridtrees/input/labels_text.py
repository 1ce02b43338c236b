"""Names, category labels and tables in reports and exports."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

# Characters that would break a line or be invisible.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# Labels that need no quotes in a set.
_PLAIN_LABEL = re.compile(r"[^\s,{}\"'\\](?:[^,{}\"'\\]*[^\s,{}\"'\\])?")


def one_line(text: str) -> str:
    """Return a name with unprintable characters escaped."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def category(label: Any) -> str:
    """Write one label of a set, quoted where the set could not be parsed otherwise."""
    if isinstance(label, int | float):
        return repr(int(label)) if float(label).is_integer() else repr(float(label))
    text = str(label)
    if _UNPRINTABLE.search(text) is None and _PLAIN_LABEL.fullmatch(text):
        return text
    return one_line(json.dumps(text, ensure_ascii=False))


def category_list(labels: Sequence[Any], limit: int | None) -> str:
    """Write a set of categories; those beyond `limit` are only counted."""
    shown = [category(label) for label in (labels if limit is None else labels[:limit])]
    if len(shown) < len(labels):
        shown.append(f"... {len(labels) - len(shown)} more")
    return "{" + ", ".join(shown) + "}"


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Format a table of text as lines; the columns in `left` are left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if j in left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
