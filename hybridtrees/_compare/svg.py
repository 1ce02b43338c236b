"""Drawings as SVG text, without any library.

Coordinates are pixels. Colours are classes of the page's style sheet where they mean something,
so that a dark page can change them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_CHAR = 6.6  # mean width of a character of 12 px
_ROW = 26
_TOP, _BOTTOM = 30, 34
_RIGHT = 76


@dataclass(frozen=True)
class Series:
    """Numbers of one kind, a place per row; NaN draws nothing."""

    label: str  # For the legend
    values: Sequence[float]
    style: str  # Class of the style sheet


def text(x: float, y: float, content: str, style: str = "", anchor: str = "start") -> str:
    """Return a text element."""
    name = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{name} text-anchor="{anchor}">{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    """Return a line element."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'


def page(width: float, height: float, title: str, parts: Sequence[str]) -> str:
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
    return f"{value:.10g}" if abs(value) < 1e5 else f"{value:.0e}"


def seconds_text(value: float) -> str:
    """Write a time in the unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= factor or unit == "µs":
            return f"{value / factor:.3g} {unit}"
    raise AssertionError


class Scale:
    """From numbers to pixels, linear or logarithmic."""

    def __init__(
        self,
        values: Sequence[float],
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
            pad = (high - low) * margin or abs(high) * 0.05 or 1.0
            self.low, self.high = low - pad, high + pad

    def __call__(self, value: float) -> float:
        """Return the place of a number."""
        place = math.log10(max(value, 1e-300)) if self.log else value
        share = (place - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.stop - self.start)

    def ticks(self) -> list[float]:
        """Numbers to mark."""
        if self.log:
            return [10.0**k for k in range(int(self.low), int(self.high) + 1)]
        return nice_ticks(self.low, self.high)


def legend(series: Sequence[Series], x: float, y: float, lines: bool = False) -> list[str]:
    """Return marks and names of series, one behind the other."""
    parts = []
    for one in series:
        if lines:
            parts.append(line(x, y - 4, x + 16, y - 4, f"curve {one.style}"))
        else:
            parts.append(f'<circle cx="{x + 8:.1f}" cy="{y - 4:.1f}" r="5" class="{one.style}"/>')
        parts.append(text(x + 22, y, one.label, "small"))
        x += 34 + _CHAR * len(one.label)
    return parts


def dot_rows(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    log: bool = False,
    seconds: bool = False,
    width: float = 760,
) -> str:
    """Draw a row of dots for each label: its numbers of all series on one axis.

    The last series is drawn above the others, and its numbers are written at the right.
    """
    left = 16 + _CHAR * max(map(len, labels))
    bottom = _TOP + _ROW * len(labels)
    everything = [value for one in series for value in one.values]
    scale = Scale(everything, left, width - _RIGHT, log)
    write = seconds_text if seconds else tick_text
    parts = legend(series, left, 14)
    for tick in scale.ticks():
        x = scale(tick)
        parts.append(line(x, _TOP, x, bottom, "grid"))
        parts.append(text(x, bottom + 18, write(tick), "small", "middle"))
    for row, label in enumerate(labels):
        y = _TOP + _ROW * (row + 0.5)
        places = [scale(one.values[row]) for one in series if math.isfinite(one.values[row])]
        parts.append(text(left - 10, y + 4, label, "", "end"))
        if places:
            parts.append(line(min(places), y, max(places), y, "span"))
        for one in series:
            value = one.values[row]
            if math.isfinite(value):
                tip = f"<title>{escape(f'{label}, {one.label}: {value:.6g}')}</title>"
                parts.append(
                    f'<circle cx="{scale(value):.1f}" cy="{y:.1f}" r="5.5" class="{one.style}">'
                    f"{tip}</circle>"
                )
        last = series[-1].values[row]
        if math.isfinite(last):
            shown = seconds_text(last) if seconds else f"{last:.4g}"
            parts.append(text(width - _RIGHT + 12, y + 4, shown))
    return page(width, bottom + _BOTTOM, title, parts)


def curves(
    title: str,
    x: Sequence[float],
    series: Sequence[Series],
    *,
    x_label: str,
    width: float = 250,
    height: float = 180,
    y_range: tuple[float, float] | None = None,
) -> str:
    """Draw lines over common places."""
    left, top, bottom = 52, 26, height - 36
    across = Scale(x, left, width - 14, margin=0.02)
    values = [v for one in series for v in one.values] if y_range is None else list(y_range)
    up = Scale(values, bottom, top)
    parts = [text(left, 16, title, "strong")]
    for tick in nice_ticks(up.low, up.high, 4):
        parts.append(line(left, up(tick), width - 14, up(tick), "grid"))
        parts.append(text(left - 6, up(tick) + 4, tick_text(tick), "small", "end"))
    for tick in nice_ticks(across.low, across.high, 3):
        if tick >= 0:
            parts.append(text(across(tick), bottom + 15, tick_text(tick), "small", "middle"))
    parts.append(text((left + width - 14) / 2, height - 4, x_label, "small", "middle"))
    for one in series:
        points = [
            (across(a), up(b)) for a, b in zip(x, one.values, strict=True) if math.isfinite(b)
        ]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{path}" class="curve {one.style}"/>')
        if len(points) <= 12:
            parts += [
                f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" class="{one.style}"/>' for a, b in points
            ]
    return page(width, height, title, parts)
