"""Cells of text as numbers, dates or text: what people write in tables.

A column is read as numbers if all its cells are numbers in one and the same style: with a decimal
point (``2,169.09``) or a decimal comma (``2.169,09``). Thousands may be set apart by commas or
points, by spaces of any width or by apostrophes. Around a number there may be a currency or a per
cent sign, which is dropped (``45 %`` is 45), and brackets for a negative one.

``1,234`` fits both styles. It is read in the style that the rest of the file shows. If that shows
none, it is 1234 where commas delimit cells, and 1.234 otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from hybridtrees.input.texts import MISSING, MISSING_NUMBERS, parse_dates

_SPACES = " \u00a0\u2007\u2009\u202f"
_CURRENCY = r"[$\u20ac\u00a3\u00a5\u20b9]|USD|EUR|GBP|CHF|JPY|CNY|INR"
_AROUND = re.compile(
    rf"(?P<open>\()?\s*(?P<sign>[+\-\u2212])?\s*(?P<before>{_CURRENCY})?\s*(?P<inner>[-\u2212])?"
    rf"(?P<digits>[\d.,][\d.,'\u2019{_SPACES}]*?(?:[eE][+-]?\d+)?)"
    rf"\s*(?P<after>%|{_CURRENCY})?\s*(?P<close>\))?"
)
_LIKE_DATES = re.compile(r"\d{1,2}([./-])\d{1,2}\1(\d\d|\d{4})")
# A column with at least this share of numbers was probably meant to be numeric.
_NEARLY = 0.8

Style = dict[str, float]  # From cells to numbers


def _style(point: str, apart: str) -> re.Pattern[str]:
    """Digits with a sign for fractions and one that sets thousands apart."""
    apart = rf"[{apart}'\u2019{_SPACES}]"
    groups = rf"[1-9]\d{{0,2}}(?P<apart>{apart})\d{{3}}(?:(?P=apart)\d{{3}})*"
    return re.compile(rf"(?:(?:{groups}|\d+)(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?")


_STYLES = {".": _style(r"\.", ","), ",": _style(",", ".")}
# What is left out of digits in either style.
_DROPPED = {
    ".": str.maketrans("", "", f",'\u2019{_SPACES}"),
    ",": str.maketrans(",", ".", f".'\u2019{_SPACES}"),
}


def typed_columns(
    columns: dict[str, list[str]],
    notes: dict[str, str],
    *,
    text: Collection[str] = (),
    decimal: str | None = None,
    comma_is_free: bool = False,
) -> dict[str, np.ndarray]:
    """Read columns of cells; those in `text` stay text.

    `decimal` is the style of all numbers where it is known. `comma_is_free` says that no
    commas delimit cells. What users should know of a column is put into `notes`.
    """
    columns = {name: [cell.strip() for cell in cells] for name, cells in columns.items()}
    made: dict[str, np.ndarray] = {}
    found: dict[str, dict[str, Style]] = {}
    for name, cells in columns.items():
        plain = None if name in text else _plain_numbers(cells)
        if plain is not None:
            made[name] = plain
            continue
        known = _known(cells)
        if name not in text and (dates := _dates(cells, known)) is not None:
            made[name] = dates
        elif name not in text and (styles := _styles_of(known)):
            found[name] = styles
        else:
            made[name] = np.array([None if c in MISSING else c for c in cells], dtype=object)
            if name not in text and (note := _why_text(known)):
                notes[name] = note
    style = decimal or _common_style(columns, made, found, comma_is_free)
    for name, styles in found.items():
        made[name] = _numbers(columns[name], styles.get(style) or next(iter(styles.values())))
        notes[name] = _how_read(columns[name], styles, style)
    if style == ",":
        for name in [name for name in made if name not in text and made[name].dtype.kind == "f"]:
            thousands = _thousands(columns[name])
            if thousands:
                made[name] = _numbers(columns[name], thousands[","])
                notes[name] = _how_read(columns[name], thousands, style)
    return {name: made[name] for name in columns}


def _plain_numbers(cells: list[str]) -> np.ndarray | None:
    """Numbers as computers write them."""
    try:
        return np.array(["nan" if c in MISSING_NUMBERS else c for c in cells]).astype(np.float64)
    except ValueError:
        return None


def _known(cells: list[str]) -> dict[str, None]:
    """Different cells in their order, missing ones left out."""
    return {cell: None for cell in dict.fromkeys(cells) if cell not in MISSING_NUMBERS}


def _numbers(cells: list[str], values: Style) -> np.ndarray:
    return np.array([values.get(cell, np.nan) for cell in cells])


def _dates(cells: list[str], known: Collection[str]) -> np.ndarray | None:
    return parse_dates(cell if cell in known else None for cell in cells) if known else None


def _styles_of(known: Collection[str]) -> dict[str, Style]:
    """Return the numbers of different cells in each style that fits them all."""
    matches = {cell: match for cell in known if (match := _AROUND.fullmatch(cell))}
    if len(matches) < len(known):
        return {}
    marks = {(match["before"] or match["after"]) for match in matches.values()}
    # Of two currencies the amounts are not comparable, nor are shares and per cents.
    if len(marks - {None}) > 1 or ("%" in marks and None in marks):
        return {}
    styles = {}
    for style in _STYLES:
        found = {cell: _value(match, style) for cell, match in matches.items()}
        values = {cell: value for cell, value in found.items() if value is not None}
        if len(values) == len(found):
            styles[style] = values
    return styles


def _value(match: re.Match[str], style: str) -> float | None:
    """Return a cell as a number in a style, None if it is none."""
    if bool(match["open"]) != bool(match["close"]):
        return None
    digits = match["digits"].strip()
    if not _STYLES[style].fullmatch(digits):
        return None
    value = float(digits.translate(_DROPPED[style]))
    signs = (match["open"], match["sign"] not in (None, "+"), match["inner"])
    return -value if sum(map(bool, signs)) % 2 else value


def _common_style(
    columns: dict[str, list[str]],
    made: dict[str, np.ndarray],
    found: dict[str, dict[str, Style]],
    comma_is_free: bool,
) -> str:
    """Return the style that the file shows, for columns that fit both."""
    shown = {style for styles in found.values() if len(styles) == 1 for style in styles}
    if not shown and any(map(_is_ambiguous, found.values())):
        numbers = (name for name, column in made.items() if column.dtype.kind == "f")
        if any(any("." in c for c in columns[n]) and not _thousands(columns[n]) for n in numbers):
            shown = {"."}
    if len(shown) == 1:
        return shown.pop()
    return "," if comma_is_free else "."


def _thousands(cells: list[str]) -> dict[str, Style]:
    """Return both readings of numbers whose only points might set thousands apart, or nothing."""
    known = _known(cells)
    if not any("." in cell for cell in known):
        return {}
    styles = _styles_of(known)
    return styles if len(styles) == 2 else {}


def _is_ambiguous(styles: dict[str, Style]) -> bool:
    return len(styles) == 2 and styles["."] != styles[","]


def _how_read(cells: list[str], styles: dict[str, Style], style: str) -> str:
    """Note about a column in which numbers are not as computers write them."""
    style = style if style in styles else next(iter(styles))
    values = styles[style]
    # A cell that shows most of the style: the first with a sign other than digits.
    cell = next((c for c in cells if c in values and not c.isdigit()), next(iter(values)))
    note = f"is read as numbers, {cell!r} as {values[cell]:.12g}"
    if _is_ambiguous(styles):
        other = "," if style == "." else "."
        cell = next(c for c in values if values[c] != styles[other][c])
        note = f"is read as numbers, {cell!r} as {values[cell]:.12g}"
        note += f" (--decimal {other} reads {styles[other][cell]:.12g})"
    return note


def _why_text(known: Collection[str]) -> str:
    """Note about a column that is nearly one of numbers or dates, or an empty text."""
    if not known:
        return ""
    if all(map(_LIKE_DATES.fullmatch, known)):
        return f"is text: dates such as {min(known)!r} are not read, write them as 2024-12-31"
    fits = {cell: list(_styles_of([cell])) for cell in known}
    odd = sorted(cell for cell, styles in fits.items() if not styles)
    if len(odd) > (1 - _NEARLY) * len(known):
        return ""
    if odd:
        count = f"{len(odd)} of {len(known)} different values"
        return f"is text: {count} are not numbers, such as {odd[0]!r}"
    only = {style: sorted(c for c, own in fits.items() if own == [style]) for style in _STYLES}
    if all(only.values()):
        point, comma = (only[style][0] for style in _STYLES)
        return (
            f"is text: it has decimal points, as in {point!r}, and decimal commas, as in {comma!r}"
        )
    return (
        "is text: its numbers have different signs of a currency, or per cent signs here and there"
    )
