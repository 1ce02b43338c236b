"""Drawings as SVG text, without any library.

Colours are classes of the page's style sheet, so that a dark page can change them. Small charts
have a view box and grow with their column. Rows of dots have no view box: their places are per
cents of the width, so that they fit a phone while their text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from numbers import Integral


def text(x: float | str, y: float, content: str, style: str = "", anchor: str = "start") -> str:
    """Return a text element; `x` is a number, or a text such as ``12%``."""
    name = f' class="{style}"' if style else ""
    place = x if isinstance(x, str) else f"{x:.1f}"
    return f'<text x="{place}" y="{y:.1f}"{name} text-anchor="{anchor}">{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    """Return a line element."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'


def page(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """Return a whole drawing; `title` is for people who cannot see it."""
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'role="img" aria-label="{escape(title, quote=True)}">' + "".join(parts) + "</svg>"
    )


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from `low` to `high`, at most so many."""
    if not high > low:
        return [low]
    raw = (high - low) / most
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * k for k in (1, 2, 2.5, 5, 10) if size * k >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_text(value: float) -> str:
    """Write the number of a tick."""
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        # Years and the like stay whole.
        if abs(value) >= max(factor, 1e4) and abs(value) < 1e12:
            return f"{value / factor:.6g}{unit}"
    return f"{value:.10g}" if abs(value) < 1e12 else f"{value:.3g}"


def seconds_text(value: float) -> str:
    """Write a time in the unit that suits it."""
    if value >= 1000:
        return f"{value:.0f} s"
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= factor or unit == "µs":
            return f"{value / factor:.3g} {unit}"
    raise AssertionError


class Scale:
    """From numbers to places, linear or logarithmic."""

    def __init__(
        self,
        values: Iterable[float],
        start: float,
        stop: float,
        log: bool = False,
        margin: float = 0.05,
    ):
        self.log, self.start, self.stop = log, start, stop
        finite = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
        low, high = min(finite), max(finite)
        if log:
            low, high = math.floor(math.log10(low)), math.ceil(math.log10(high))
            self.low, self.high = float(low), float(max(high, low + 1))
        else:
            pad = (high - low) * margin if high > low else abs(high) * 0.05 or 1.0
            self.low, self.high = low - pad, high + pad

    def __call__(self, value: float) -> float:
        """Return the place of a number."""
        place = math.log10(max(value, 1e-300)) if self.log else value
        share = (place - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.stop - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Numbers to mark."""
        if self.log:
            return [10.0**k for k in range(int(self.low), int(self.high) + 1)]
        return nice_ticks(self.low, self.high, most)


# ---- Rows of dots -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One row of `dot_rows`."""

    label: str
    values: Sequence[float]  # One for each kind of mark; NaN draws nothing
    style: str = ""  # Class of its colour
    interval: tuple[float, float] | None = None  # Of the last value
    link: str = ""  # Where on the page its label leads to


@dataclass(frozen=True)
class Mark:
    """A kind of mark: what the legend calls it, and its class."""

    label: str
    style: str


_BAND = Mark("95 % interval", "band")


def key(marks: Sequence[Mark], lines: bool = False) -> str:
    """Return the legend of some marks, as HTML."""
    shape = "stroke" if lines else "dot"
    items = (f"<span><i class='{shape} {m.style}'></i>{escape(m.label)}</span>" for m in marks)
    return f"<p class='key'>{''.join(items)}</p>"


def dot_rows(
    title: str,
    rows: Sequence[Row],
    marks: Sequence[Mark],
    *,
    log: bool = False,
    seconds: bool = False,
    bars: bool = False,
    numbers: bool = True,
    most_ticks: int = 5,
) -> str:
    """Draw a row of dots for each label, all on one axis, as HTML.

    The last kind of mark is drawn above the others, and its `numbers` are written at the right.
    With `bars` the only kind of mark is a bar from 0.
    """
    ends = [end for row in rows if row.interval for end in row.interval]
    values = [v for row in rows for v in row.values] + ends + ([0.0] if bars else [])
    scale = Scale(values, 0, 100, log, margin=0.0 if bars else 0.05)
    write = seconds_text if seconds else tick_text
    ticks = [(scale(tick), write(tick)) for tick in scale.ticks(most_ticks)]
    grid = "".join(
        f'<line x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="26" class="grid"/>' for x, _ in ticks
    )
    drawn = []
    for row in rows:
        last = row.values[-1]
        shown = _number(last, seconds) if numbers and math.isfinite(last) else ""
        drawn.append(
            f"<div class='row {row.style}'><span class='name'>{_label(row)}</span>"
            f"{_dots(row, marks, scale, grid, seconds, bars)}<span class='num'>{shown}</span></div>"
        )
    axis = "".join(text(f"{x:.2f}%", 13, label, "small", "middle") for x, label in ticks)
    legend = key([*marks, *([_BAND] if ends else [])]) if len(marks) > 1 else ""
    return (
        f"<div class='dots' role='group' aria-label='{escape(title)}'>{legend}{''.join(drawn)}"
        f"<div class='row axis' aria-hidden='true'><svg height='18'>{axis}</svg></div></div>"
    )


def _number(value: float, seconds: bool) -> str:
    if seconds:
        return seconds_text(value)
    # Scores keep their last zeros, so that a column of them lines up; counts have none.
    return f"{value:.4g}" if isinstance(value, Integral) else f"{value:#.4g}".rstrip(".")


def breakable(name: str) -> str:
    """Write a name as HTML that may go on in another line after each underscore."""
    return escape(name).replace("_", "_<wbr>")


def _label(row: Row) -> str:
    label = breakable(row.label)
    return f"<a href='#{row.link}'>{label}</a>" if row.link else label


def _dots(
    row: Row, marks: Sequence[Mark], scale: Scale, grid: str, seconds: bool, bars: bool
) -> str:
    """Draw one row of `dot_rows`."""
    shown = [(m, v) for m, v in zip(marks, row.values, strict=True) if math.isfinite(v)]
    parts = [grid]
    if bars:
        parts.append(_bar(scale(0.0), scale(row.values[0]), "bar"))
    elif shown:
        places = [scale(value) for _, value in shown]
        parts.append(_bar(min(places), max(places), "span"))
    words = [f"{mark.label} {_number(value, seconds)}" for mark, value in shown]
    if row.interval is not None and all(map(math.isfinite, row.interval)):
        parts.append(_bar(scale(row.interval[0]), scale(row.interval[1]), "interval"))
        words.append("interval " + " to ".join(_number(end, seconds) for end in row.interval))
    for mark, value in () if bars else shown:
        tip = escape(f"{mark.label}: {value:.6g}")
        parts.append(
            f'<circle cx="{scale(value):.2f}%" cy="13" r="5" class="{mark.style}">'
            f"<title>{tip}</title></circle>"
        )
    alt = escape(f"{row.label}: {', '.join(words)}", quote=True)
    return f"<svg height='26' role='img' aria-label='{alt}'>{''.join(parts)}</svg>"


def _bar(start: float, stop: float, style: str) -> str:
    return f'<line x1="{start:.2f}%" x2="{stop:.2f}%" y1="13" y2="13" class="{style}"/>'


# ---- Rows of swarms -----------------------------------------------------------------------------

_SWARM_WIDTH, _SWARM_HEIGHT = 1000, 34


@dataclass(frozen=True)
class Swarm:
    """One row of `swarm_rows`: a point for each value."""

    label: str
    values: Sequence[float]
    heights: Sequence[float]  # From the middle of the row, within half of it
    styles: Sequence[str]  # Class of the colour of each point
    about: str  # For people who cannot see the points


def swarm_rows(title: str, rows: Sequence[Swarm], *, most_ticks: int = 5) -> str:
    """Draw a row of many points for each label, all on one axis with a line at 0, as HTML.

    The drawing of a row is stretched to its column, its points are not.
    """
    scale = Scale([0.0, *(v for row in rows for v in row.values)], 0, _SWARM_WIDTH, margin=0.03)
    ticks = [(scale(tick), tick) for tick in scale.ticks(most_ticks)]
    middle = _SWARM_HEIGHT / 2
    grid = "".join(f"M{x:.0f} 0v{_SWARM_HEIGHT}" for x, _ in ticks)
    behind = (
        f'<path d="{grid}" class="grid"/>'
        f'<path d="M{scale(0.0):.0f} 0v{_SWARM_HEIGHT}" class="zero"/>'
    )
    drawn = []
    for row in rows:
        paths: dict[str, str] = {}
        for value, height, style in zip(row.values, row.heights, row.styles, strict=True):
            place = f"M{scale(value):.0f} {middle - height * _SWARM_HEIGHT:.1f}h0"
            paths[style] = paths.get(style, "") + place
        points = "".join(f'<path d="{d}" class="points {s}"/>' for s, d in sorted(paths.items()))
        alt = escape(f"{row.label}: {row.about}", quote=True)
        drawn.append(
            f"<div class='row'><span class='name'>{escape(row.label)}</span>"
            f'<svg viewBox="0 0 {_SWARM_WIDTH} {_SWARM_HEIGHT}" width="{_SWARM_WIDTH}" '
            f'height="{_SWARM_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{alt}">'
            f"{behind}{points}</svg></div>"
        )
    share = 100 / _SWARM_WIDTH
    axis = "".join(text(f"{share * x:.2f}%", 13, tick_text(t), "small", "middle") for x, t in ticks)
    return (
        f"<div class='dots swarm' role='group' aria-label='{escape(title)}'>{''.join(drawn)}"
        f"<div class='row axis' aria-hidden='true'><svg height='18'>{axis}</svg></div></div>"
    )


# ---- Small charts -------------------------------------------------------------------------------


class Axes:
    """A small chart: two axes, to which lines, dots and bars are added."""

    def __init__(
        self,
        x: Iterable[float],
        y: Iterable[float],
        *,
        x_label: str,
        y_label: str = "",
        margin: float = 0.04,
        size: tuple[float, float] = (300, 220),
    ) -> None:
        self.width, self.height = size
        left, right, top, bottom = 48, self.width - 10, 18 if y_label else 8, self.height - 36
        self.x = Scale(x, left, right, margin=margin)
        self.y = Scale(y, bottom, top, margin=margin)
        self.parts = [text(2, 11, y_label, "small")] if y_label else []
        grid = ""  # one path, a fifth as long as so many lines
        for tick in self.y.ticks(5):
            grid += f"M{left} {self.y(tick):.1f}H{right:.0f}"
            self.parts.append(text(left - 6, self.y(tick) + 4, tick_text(tick), "small", "end"))
        for tick in self.x.ticks(5):
            place = self.x(tick)
            grid += f"M{place:.1f} {bottom:.0f}v4"
            self.parts.append(text(place, bottom + 16, tick_text(tick), "small", "middle"))
        self.parts.append(f'<path d="{grid}" class="grid"/>')
        self.parts.append(text((left + right) / 2, self.height - 4, x_label, "small", "middle"))

    def _places(self, x: Iterable[float], y: Iterable[float]) -> list[tuple[float, float]]:
        """Places of the points, without those that are not numbers."""
        pairs = zip(x, y, strict=True)
        return [(self.x(a), self.y(b)) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]

    def line(self, x: Iterable[float], y: Iterable[float], style: str = "") -> Axes:
        """Add a line; a few points of it are marked."""
        points = self._places(x, y)
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        self.parts.append(f'<polyline points="{path}" class="curve {style}"/>')
        return self.dots(x, y, style) if len(points) <= 12 and "bare" not in style else self

    def dots(self, x: Iterable[float], y: Iterable[float], style: str = "") -> Axes:
        """Add dots: one path, which is a third as long as so many circles; many are on pixels."""
        digits = 0 if style == "many" else 1
        path = "".join(f"M{a:.{digits}f} {b:.{digits}f}h0" for a, b in self._places(x, y))
        if path:
            self.parts.append(f'<path d="{path}" class="points {style}"/>')
        return self

    def bars(self, edges: Iterable[float], heights: Iterable[float], style: str = "") -> Axes:
        """Add bars between edges, from 0."""
        floor, path = self.y(0.0), ""
        for (left, right), height in zip(pairwise(edges), heights, strict=True):
            if not height:
                continue
            a, b = self.x(left) + 0.5, self.x(right) - 0.5
            path += f"M{a:.1f} {floor:.1f}V{self.y(height):.1f}H{b:.1f}V{floor:.1f}Z"
        self.parts.append(f'<path d="{path}" class="bars {style}"/>')
        return self

    def whiskers(self, x: Iterable[float], low: Iterable[float], high: Iterable[float]) -> Axes:
        """Add vertical lines from low to high."""
        for a, b, c in zip(x, low, high, strict=True):
            self.parts.append(line(self.x(a), self.y(b), self.x(a), self.y(c), "whisker"))
        return self

    def draw(self, title: str) -> str:
        """Return the drawing."""
        return page(self.width, self.height, title, self.parts)


def spark(counts: Sequence[float], title: str) -> str:
    """Draw a small histogram for a cell of a table."""
    top, width = max([*counts, 1]), 120 / max(len(counts), 1)
    path = "".join(
        f"M{k * width + 0.5:.1f} 28V{28 - 26 * count / top:.1f}H{(k + 1) * width - 0.5:.1f}V28Z"
        for k, count in enumerate(counts)
        if count
    )
    return page(120, 28, title, [f'<path d="{path}" class="bars"/>'])
