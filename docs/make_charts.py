"""Charts of the benchmarks, drawn from the stored results in docs/benchmarks/*.json.

A file has a table (``columns`` and ``rows``) and says how to draw it (``chart``): which columns
name a row (``label``), which are drawn (``values``), and the ``kind``:

- ``speedup``: ratios of hybridtrees to a peer, drawn as "how many times better", on a log scale;
- ``value``: bars from zero; ``seconds``: points on a log scale.

The pages of the site draw them when they are built. The picture of the README is stored:

    python docs/make_charts.py            # writes docs/_static/hero.svg
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
WIDTH = 400
RIGHT = 40  # room for the number after a bar
LETTER = 6.5  # the width of a letter, about

NOTES = {
    "speedup": "times better than the peer, on a log scale; longer is better, 1× is equal",
    "seconds": "on a log scale; further left is better",
    "value": "",
}

# In a page the chart takes the colours of the theme; as a file of its own, those of the system.
STYLE = """
.ht-chart{--i:#24292f;--m:#656d76;--g:#d8dee4;--a:#3367c6;--b:#9db8ea;--p:#9aa1ab;--w:#e07b27;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif;font-size:12px}
@media (prefers-color-scheme:dark){.ht-chart{--i:#e6edf3;--m:#9aa4af;--g:#39414a;--a:#5b8def;
--b:#34568f;--p:#6e7681}}
html[data-theme] .ht-chart{--i:var(--pst-color-text-base);--m:var(--pst-color-text-muted);
--g:var(--pst-color-border)}
html[data-theme=light] .ht-chart{--a:#3367c6;--b:#9db8ea;--p:#9aa1ab}
html[data-theme=dark] .ht-chart{--a:#5b8def;--b:#34568f;--p:#6e7681}
.ht-chart text{fill:var(--i)}.ht-chart .m{fill:var(--m)}.ht-chart .h{font-weight:600}
.ht-chart .s{font-size:10.5px}.ht-chart line{stroke:var(--g)}.ht-chart .one{stroke:var(--m)}
.ht-chart .a{fill:var(--a)}.ht-chart .b{fill:var(--b)}.ht-chart .p{fill:var(--p)}
.ht-chart .w{fill:var(--w)}
"""


class Results(NamedTuple):
    """A stored table."""

    title: str
    columns: list[str]
    rows: list[list[Any]]
    chart: dict[str, Any]

    def column(self, name: str) -> list[Any]:
        """Give the cells of a column."""
        return [row[self.columns.index(name)] for row in self.rows]


def read(name: str) -> Results:
    """Read a file of stored results."""
    return Results(**json.loads((HERE / "benchmarks" / f"{name}.json").read_text()))


class Row(NamedTuple):
    """What is drawn of one row."""

    head: str  # above the bars, where it differs from the row before
    name: str  # left of the bars
    values: list[float | None]


def _rows(results: Results) -> list[Row]:
    labels = [results.column(name) for name in results.chart["label"]]
    values = [results.column(name) for name in results.chart["values"]]
    if len(labels) == 1:
        blank = [""] * len(results.rows)
        long = max(map(len, labels[0])) > 34
        labels = [labels[0], blank] if long else [blank, labels[0]]
    drawn = []
    for i in range(len(results.rows)):
        numbers = [c[i] if isinstance(c[i], float | int) else None for c in values]
        drawn.append(Row(*(label[i].replace("`", "") for label in labels), numbers))
    return drawn


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    kind = f' class="{style}"' if style else ""
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.4g}" y="{y:.4g}"{kind}{place}>{escape(text, quote=False)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<line x1="{x1:.4g}" y1="{y1:.4g}" x2="{x2:.4g}" y2="{y2:.4g}"{kind}/>'


class _Axis:
    """A scale from values to places, with the ticks it shows."""

    def __init__(self, rows: Sequence[Row], log: bool):
        self.log = log
        self.left = LETTER * max(len(row.name) for row in rows) + 12
        values = [v for row in rows for v in row.values if v is not None]
        if log:
            # Half a step of room at both ends, and 1 ("the same as the peer") always in sight.
            low, high = min(min(values), 1) / 1.1, max(max(values), 1) * 1.1
            steps = (m * 10.0**e for e in range(-2, 4) for m in (1, 2, 5))
            self.ticks = [t for t in steps if low <= t <= high]
            if len(self.ticks) > 7:
                self.ticks = [10.0**e for e in range(-2, 4) if low <= 10.0**e <= high]
        else:
            low, high = 0.0, max(values)
            self.ticks = []
        self.low, self.high = self._scale(low), self._scale(high)

    def _scale(self, value: float) -> float:
        return math.log(value) if self.log else value

    def __call__(self, value: float) -> float:
        share = (self._scale(value) - self.low) / (self.high - self.low)
        return self.left + share * (WIDTH - RIGHT - self.left)


def _number(value: float, kind: str) -> str:
    if kind == "speedup":
        return f"{value:.0f}×" if value >= 10 else f"{value:.1f}×"
    return f"{value:.3g}"


def _legend(names: Sequence[str], styles: Sequence[str], y: float) -> list[str]:
    parts, x = [], 0.0
    for name, style in zip(names, styles, strict=True):
        parts.append(f'<rect class="{style}" x="{x:.4g}" y="{y - 8}" width="9" height="9" rx="2"/>')
        parts.append(_text(x + 14, y, name, "m s"))
        x += 26 + 5.6 * len(name)
    return parts


def _styles(results: Results) -> list[str]:
    """Colours of the drawn columns: ours are blue, those of others grey."""
    names = results.chart["values"]
    if results.chart["kind"] == "seconds":
        return ["a", "p", "w"][: len(names)]
    return ["a"] if len(names) == 1 else ["b", "a", "p"][: len(names)]


def draw(results: Results) -> tuple[list[str], float]:
    """Draw a table; returns the parts of the picture, and its height."""
    kind = results.chart["kind"]
    rows = _rows(results)
    if kind == "speedup":
        rows = [r._replace(values=[None if v is None else 1 / v for v in r.values]) for r in rows]
    axis = _Axis(rows, log=kind != "value")
    styles = _styles(results)
    y = 14.0
    parts = [_text(0, y, results.chart.get("title", results.title), "h")]
    if note := NOTES[kind]:
        y += 16
        parts.append(_text(0, y, note, "m s"))
    if len(styles) > 1:
        y += 17
        parts += _legend(results.chart["values"], styles, y)
    head, y = "", y + 3
    for row in rows:
        if row.head and row.head != head:
            y += 9
            for line in textwrap.wrap(row.head, 60):
                y += 15
                parts.append(_text(0, y, line))
        head = row.head
        bars, end = _bars(row, axis, kind, y + 8, _colours(results, row, styles))
        parts += [*_grid(axis, y + 4, end + 4), *bars]
        y = end
    for tick in axis.ticks:
        mark = f"{tick:g}×" if kind == "speedup" else f"{tick:g} s"
        parts.append(_text(axis(tick), y + 18, mark, "m s", "middle"))
    return parts, y + (24 if axis.ticks else 6)


def _grid(axis: _Axis, top: float, bottom: float) -> list[str]:
    """Lines behind a row, at the ticks; 1, as good as the peer, is stronger."""
    return [
        _line(axis(tick), top, axis(tick), bottom, "one" if tick == 1 else "")
        for tick in axis.ticks
    ]


def _colours(results: Results, row: Row, styles: list[str]) -> list[str]:
    """Colours of a row: where rows are libraries, only ours is blue."""
    ours = results.chart.get("ours")
    return styles if ours is None or ours in row.name else ["p"] * len(styles)


def _bars(
    row: Row, axis: _Axis, kind: str, y: float, styles: Sequence[str]
) -> tuple[list[str], float]:
    """Draw one row below `y`; returns its parts, and where it ends."""
    given = [(v, s) for v, s in zip(row.values, styles, strict=True) if v is not None]
    size = 13 if len(given) == 1 or kind == "seconds" else 10
    height = size if kind == "seconds" else (size + 2) * len(given) - 2
    parts = []
    if row.name:
        parts.append(_text(axis.left - 8, y + height / 2 + 4, row.name, "m", "end"))
    if kind == "seconds":
        middle = y + size / 2
        ends = [axis(v) for v, _ in given]
        parts.append(_line(min(ends), middle, max(ends), middle))
        for value, style in reversed(given):
            parts.append(f'<circle class="{style}" cx="{axis(value):.4g}" cy="{middle}" r="5"/>')
        return parts, y + size
    base = axis(1 if axis.log else 0)
    for value, style in given:
        end = axis(value)
        worse = kind == "speedup" and value < 1
        parts.append(
            f'<rect class="{"w" if worse else style}" x="{min(base, end):.4g}" y="{y:.4g}" '
            f'width="{max(abs(end - base), 1):.4g}" height="{size}" rx="2"/>'
        )
        parts.append(_text(max(base, end) + 5, y + size / 2 + 4, _number(value, kind), "s"))
        y += size + 2
    return parts, y - 2


def picture(parts: Sequence[str], width: float, height: float, title: str) -> str:
    """Wrap parts as a picture of their own."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ht-chart" role="img" '
        f'viewBox="-4 0 {width + 8:.4g} {height:.4g}" aria-label="{escape(title)}">\n'
        f"<style>{STYLE.strip()}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def chart(results: Results) -> str:
    """Return the picture of stored results."""
    parts, height = draw(results)
    return picture(parts, WIDTH, height, results.chart.get("title", results.title))


def fit_times() -> Results:
    """Seconds of the first fit of the boosting table, for each library."""
    table = read("boosting")
    work, peer, seconds, ratio = (
        table.column(n) for n in ("work", "peer", "seconds, 2 threads", "2 threads")
    )
    rows: list[list[Any]] = [["hybridtrees", seconds[0]]]
    rows += [
        [p, round(s / r, 1)]
        for w, p, s, r in zip(work, peer, seconds, ratio, strict=True)
        if w == work[0]
    ]
    look = {"kind": "value", "label": ["library"], "values": ["seconds"], "ours": "hybridtrees"}
    title = "Seconds to fit 100 trees, 1M x 28, two threads"
    return Results(title, ["library", "seconds"], rows, look)


def hero() -> str:
    """Return the picture of the README: speed and accuracy beside the other libraries."""
    gap = 36
    pieces, x, height = [], 0.0, 0.0
    for results in (fit_times(), read("ranks")):
        parts, tall = draw(results)
        pieces.append(f'<g transform="translate({x:.4g} 0)">' + "\n".join(parts) + "</g>")
        x += WIDTH + gap
        height = max(height, tall)
    title = "hybridtrees beside LightGBM, XGBoost and scikit-learn: time to fit, and mean rank"
    return picture(pieces, x - gap, height, title)


if __name__ == "__main__":
    (HERE / "_static" / "hero.svg").write_text(hero())
