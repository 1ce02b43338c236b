"""How the report looks: colours, style sheet, tables and figures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

import numpy as np

from hybridtrees._compare.families import Family
from hybridtrees._compare.result import number
from hybridtrees.inspection._drawing import class_colors

# The colour of each family on light and on dark pages, the same in every chart.
COLORS = {
    "linear": ("#2563eb", "#7aa8ff"),
    "cart": ("#b45309", "#f3a54a"),
    "forest": ("#15803d", "#4cc774"),
    "gb": ("#dc2626", "#ff8080"),
    "xgb": ("#7c3aed", "#b795ff"),
    "linear_tree": ("#0e7c86", "#3fc5d0"),
    "linear_forest": ("#5f7a0a", "#b5cc4a"),
    "rerf": ("#c0269b", "#f47fd8"),
    "eblr": ("#7a4a2b", "#d0a184"),
    "plgb": ("#1e3a8a", "#a9bdfb"),
    "adaboost": ("#ea580c", "#e7e35c"),
    "ensemble": ("#0f172a", "#cbd5e1"),
    "baseline": ("#64707d", "#98a5b3"),
}
# For families of users, in turn.
_OTHERS = (("#0b7a5c", "#2ee0ad"), ("#8f1d4f", "#ff6fa3"), ("#4b5320", "#d9e08a"))
# The colours of low and high values of a feature; those between are mixed.
SHADES = (("#b86a00", "#f2b84b"), ("#5a3fc0", "#a99bff"))
N_SHADES = 5
# Classes that charts tell apart by colour.
N_CLASS_COLORS = 12


def color_class(family: Family) -> str:
    """Return the class that sets the colour of a family."""
    if family.key in COLORS:
        return f"m-{family.key}"
    return f"m-other{sum(family.key.encode()) % len(_OTHERS)}"


def color_rules() -> str:
    """Return the rules that set the colours of families, values of features, and classes."""
    both = {**COLORS, **{f"other{k}": pair for k, pair in enumerate(_OTHERS)}}
    light = "".join(f".m-{name}{{--c:{pair[0]}}}" for name, pair in both.items())
    dark = "".join(f".m-{name}{{--c:{pair[1]}}}" for name, pair in both.items())
    (low, low_dark), (high, high_dark) = SHADES
    for k in range(N_SHADES):
        share = 100 * k // (N_SHADES - 1)
        light += f".v{k}{{--c:color-mix(in srgb,{high} {share}%,{low})}}"
        dark += f".v{k}{{--c:color-mix(in srgb,{high_dark} {share}%,{low_dark})}}"
    # Towards black or white, for a line must stand out more than the box of a node.
    for k in range(N_CLASS_COLORS):
        light += f".k{k}{{--c:color-mix(in srgb,var(--k{k}) 78%,black)}}"
        dark += f".k{k}{{--c:color-mix(in srgb,var(--k{k}) 80%,white)}}"
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{{dark}}}\n"


def class_variables(n_classes: int) -> str:
    """Return the colours of classes as variables: the hues that they have in drawn trees."""
    hexes = ("".join(f"{round(255 * v):02x}" for v in color) for color in class_colors(n_classes))
    return "".join(f"--k{k}:#{value};" for k, value in enumerate(hexes) if k < N_CLASS_COLORS)


def part(title: str, about: str, body: str, anchor: str = "") -> str:
    """Part of a section: its title, a line about it, and what it shows."""
    name = f" id='{anchor}'" if anchor else ""
    line = f"<p class='muted'>{about}</p>" if about else ""
    return f"<h3{name}>{title}</h3>{line}{body}"


def wide(body: str, title: str, style: str = "") -> str:
    """Body that may be wider than the page; the keyboard can scroll it."""
    return (
        f"<div class='wide {style}' tabindex='0' role='region' aria-label='{escape(title)}'>{body}"
        "</div>"
    )


def folded(summary: str, body: str, name: str = "") -> str:
    """Body that opens on demand."""
    return f"<details class='{name}'><summary>{summary}</summary>{body}</details>"


def figure(title: str, drawing: str, style: str = "") -> str:
    """Drawing under its title."""
    return f"<figure class='{style}'><figcaption>{escape(title)}</figcaption>{drawing}</figure>"


def figures(drawings: Iterable[str]) -> str:
    """Several figures side by side, as many as fit."""
    return f"<div class='figures'>{''.join(drawings)}</div>"


def html_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    text: Collection[int] = (),
    name: int = 0,
    long: Collection[int] = (),
    extra: Collection[int] = (),
    kind: str = "cards",
    title: str = "",
) -> str:
    """Table of cells that are HTML.

    The column `name` names the row; all others but those in `text` and `long` hold numbers. Those
    in `extra` are left out where the page is of middle width. On a narrow screen the rows of
    ``kind="cards"`` become cards, in which a `long` cell has a line of its own. Roles are written
    out, for cards would lose them.
    """
    words = {name, *text, *long}
    style = []
    for k in range(len(heads)):
        classes = {"num": k not in words, "long": k in long, "extra": k in extra}
        names = " ".join(word for word, applies in classes.items() if applies)
        style.append(f" class='{names}'" if names else "")
    top = "".join(
        f"<th role='columnheader' scope='col'{style[k]}>"
        + (f"<span>{escape(head)}</span></th>" if "matrix" in kind else f"{escape(head)}</th>")
        for k, head in enumerate(heads)
    )
    labels = [f" data-label='{escape(head)}'" if "cards" in kind else "" for head in heads]
    lines = []
    for row in rows:
        cells = ""
        for k, cell in enumerate(row):
            if k == name:
                cells += f"<th role='rowheader' scope='row'>{cell}</th>"
            elif cell.startswith("<td"):  # with a class of its own
                cells += cell
            else:
                cells += f"<td role='cell'{labels[k]}{style[k]}>{cell}</td>"
        lines.append(f"<tr role='row'>{cells}</tr>")
    alt = f" aria-label='{escape(title)}'" if title else ""
    return (
        f"<table role='table' class='{kind}'{alt}><thead role='rowgroup'><tr role='row'>{top}</tr>"
        f"</thead><tbody role='rowgroup'>{''.join(lines)}</tbody></table>"
    )


def interval_words(interval: tuple[float, float] | None, what: str = "") -> str:
    """Write an interval in brackets; nothing if there is none."""
    if interval is None or not np.isfinite(interval).all():
        return ""
    return f" ({what}{number(interval[0])} to {number(interval[1])})"


def heat(share: float, content: str, style: str = "") -> str:
    """Cell of a matrix, the stronger in colour the larger its share."""
    strength = f"--share:{min(1.0, share):.2f}"
    return f"<td role='cell' class='num heat {style}' style='{strength}'>{content}</td>"


LIGHT = {
    "ink": "#1b2430",
    "muted": "#536070",
    "line": "#dde3ea",
    "paper": "#ffffff",
    "back": "#f3f5f8",
    "link": "#1a56c4",
    "bad": "#b42318",
    "note": "#b45309",
    "heat": "50%",  # Of the colour in the strongest cell of a matrix
}
DARK = {
    "ink": "#e6ebf1",
    "muted": "#a3b0be",
    "line": "#344150",
    "paper": "#18212b",
    "back": "#0f161e",
    "link": "#8ab8ff",
    "bad": "#ff9385",
    "note": "#f3a54a",
    "heat": "38%",
}


def _variables(colors: dict[str, str]) -> str:
    return ":root {" + "".join(f"--{name}:{color};" for name, color in colors.items()) + "}"


_LAYOUT = """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-padding-top: 12px; }
body { margin: 0; background: var(--back); color: var(--ink); font: 15px/1.5 system-ui,
  -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; --c: var(--link); }
main { max-width: 1180px; margin: 0 auto; padding: 24px 16px 64px; }
section, footer { background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
  padding: 8px 24px 24px; margin-top: 24px; }
h1, h2, h3, h4, p, tbody th, td, li, summary, figcaption { overflow-wrap: anywhere; }
h1 { font-size: 26px; line-height: 1.25; margin: 0; } h2 { font-size: 21px; margin: 14px 0 2px; }
h3 { font-size: 17px; margin: 32px 0 2px; } h4 { font-size: 14px; margin: 18px 0 2px; }
p { margin: 4px 0 10px; } .muted { color: var(--muted); font-size: 13.5px; }
.lead { font-size: 16px; } .note { border-left: 3px solid var(--note); padding-left: 10px; }
.bad { color: var(--bad); } a { color: var(--link); }
nav { margin: 6px 0 0; display: flex; flex-wrap: wrap; gap: 4px 18px; } nav a { padding: 4px 0; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; width: 100%; }
th, td { padding: 4px 8px; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--muted); font-weight: 600; vertical-align: bottom; }
tbody th { font-weight: 500; min-width: 8em; } .matrix tbody th { min-width: 0; }
.num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.long { color: var(--muted); min-width: 14em; }
.range { display: block; color: var(--muted); font-size: 12px; }
.chip::before, .swatch::before { content: ""; display: inline-block; width: 10px;
  height: 10px; border-radius: 3px; background: var(--c); margin-right: 7px; }
table.matrix { width: auto; max-width: 100%; } .matrix th, .matrix td { padding: 3px 5px; }
.matrix thead th.num span { writing-mode: vertical-rl; transform: rotate(180deg);
  white-space: nowrap; font-weight: 500; max-height: 15em; overflow: hidden; }
.matrix.flat thead th.num span { writing-mode: horizontal-tb; transform: none; }
.matrix td { min-width: 30px; border: 1px solid var(--paper); }
.heat { background: color-mix(in srgb, var(--c) calc(var(--share) * var(--heat)), transparent); }
details.model { border-top: 1px solid var(--line); margin: 0; padding: 8px 0; }
.model > summary .muted { font-weight: 400; margin-left: 8px; }
.model > summary::before { content: none; } .model > summary .chip { font-size: 16px; }
.model:target::details-content { content-visibility: visible; height: auto; }
details { margin-top: 10px; } summary { cursor: pointer; font-weight: 600; padding: 3px 0; }
pre { background: var(--back); border: 1px solid var(--line); border-radius: 6px; padding: 10px
  12px; margin: 6px 0; font: 12.5px/1.45 ui-monospace, "DejaVu Sans Mono", monospace;
  overflow-x: auto; }
pre.code { user-select: all; }
ul.outline, ul.outline ul { list-style: none; margin: 0; padding-left: 14px;
  border-left: 2px solid var(--line); } ul.outline { display: none; font-size: 13.5px; }
"""

_CHARTS = """
svg { display: block; font: 12px system-ui, "DejaVu Sans", sans-serif; overflow: visible; }
svg text { fill: var(--ink); } svg text.small { fill: var(--muted); font-size: 11px; }
svg text[fill] { fill: unset; } svg .nodetext { font-size: 11.5px; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(260px, 1fr));
  gap: 18px 22px; margin-top: 8px; align-items: start; }
figure { margin: 0; min-width: 0; } figure > svg { width: 100%; height: auto; max-width: 380px; }
.beside { display: flex; flex-wrap: wrap; gap: 10px 32px; align-items: center; }
.beside figure { flex: 0 1 500px; } .beside figure svg { max-width: none; }
.names { display: flex; flex-direction: column; gap: 3px; }
figcaption { font-size: 13.5px; font-weight: 600; margin-bottom: 4px; }
.grid { stroke: var(--line); } .branch { stroke: var(--muted); } .node { stroke: #55606c; }
.curve { fill: none; stroke: var(--c); stroke-width: 1.6; stroke-linejoin: round; }
.points { fill: none; stroke: var(--c); stroke-width: 5; stroke-linecap: round; }
.points.many { opacity: .55; stroke-width: 4.4; } .curve.best { stroke-width: 3.2; }
.curve.faint { opacity: .4; stroke-width: 1; } .points.faint { opacity: .55; }
.curve.guide { stroke: var(--muted); stroke-dasharray: 4 4; stroke-width: 1; }
.curve.dashed { stroke-dasharray: 5 4; opacity: .75; } .points.dashed { opacity: .75; }
.bars { fill: var(--c); opacity: .85; } .whisker { stroke: var(--c); opacity: .45; }
.dots { max-width: 860px; } .small .dots { font-size: 13px; }
.dots .row { display: grid; grid-template-columns: 14em 1fr 5em; gap: 0 14px; align-items: center; }
figure.small .dots .row { grid-template-columns: 7em 1fr 4em; gap: 0 10px; }
.dots .row.axis svg { grid-column: 2; } .dots svg { width: 100%; } .dots .name { min-width: 0;
  overflow-wrap: anywhere; line-height: 1.25; }
.bar { stroke: var(--c); stroke-width: 13; } circle.dot { fill: var(--c); }
.span { stroke: var(--c); opacity: .3; stroke-width: 2; }
.interval { stroke: var(--c); stroke-width: 5; opacity: .35; stroke-linecap: round; }
figure + figure:has(> .swarm) { margin-top: 14px; }
.swarm path { vector-effect: non-scaling-stroke; } .swarm .zero { stroke: var(--muted); }
.swarm .points { opacity: .8; stroke-width: 4.6; } .points.plain { --c: var(--muted); }
circle.full { fill: var(--c); } circle.hollow { fill: var(--paper); }
circle.hollow, circle.pale { stroke: var(--c); stroke-width: 1.6; }
circle.pale { fill: color-mix(in srgb, var(--c) 35%, var(--paper)); }
.key { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 13px; color: var(--muted);
  --c: var(--muted); margin: 4px 0; } .key i { display: inline-block; margin-right: 6px; }
i.dot { width: 11px; height: 11px; border-radius: 50%; border: 1.6px solid var(--c);
  vertical-align: -1px; } i.full { background: var(--c); }
.key .plain { --c: var(--muted); }
i.pale { background: color-mix(in srgb, var(--c) 35%, var(--paper)); }
i.band { border: 0; width: 18px; height: 5px; border-radius: 3px; background: var(--c);
  opacity: .5; vertical-align: 3px; }
i.stroke { width: 18px; border-top: 2px solid var(--c); vertical-align: 4px; }
i.stroke.dashed { border-top-style: dashed; }
td svg { width: 120px; height: 28px; }
"""

# A tablet, and paper: what the page tells elsewhere too is left out of tables.
_MIDDLE = """
@media print, screen and (min-width: 641px) and (max-width: 1000px) {
  th, td { padding: 4px 5px; } .extra { display: none; }
  .profile tbody th { min-width: 9.5em; } .profile td:not(.long) { overflow-wrap: normal; }
  .names { flex-flow: row wrap; gap: 3px 16px; }
}
"""

# A phone: rows of tables become cards, labels of dots stand above them, a tree is an outline.
_NARROW = """
@media screen and (max-width: 640px) {
  main { padding: 16px 10px 48px; } section, footer { padding: 4px 14px 18px; }
  h1 { font-size: 22px; }
  table.cards, .cards tbody, .cards tr, .cards th, .cards td { display: block; width: auto; }
  .cards thead { position: absolute; width: 1px; height: 1px; overflow: hidden;
    clip-path: inset(50%); }
  .cards tr { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr);
    gap: 0 14px; padding: 8px 0;
    border-bottom: 1px solid var(--line); }
  .cards th, .cards td { border: 0; padding: 1px 0; }
  .cards tbody th { grid-column: 1 / -1; font-size: 15px; font-weight: 600; }
  .cards td { display: flex; justify-content: space-between; gap: 6px; white-space: normal; }
  .cards td::before { content: attr(data-label); color: var(--muted); text-align: left;
    overflow-wrap: normal; } .cards .range { font-size: 11px; white-space: nowrap; }
  .cards td.long { grid-column: 1 / -1; display: block; min-width: 0; }
  .cards td.long::before { content: attr(data-label) ": "; }
  .cards td:empty { display: none; } .cards tbody th { order: -2; }
  .profile tbody th { grid-column: 1; } .cards td.chart { grid-column: 2; order: -1; }
  .cards td.chart::before { content: none; }
  table.matrix { font-size: 12px; } .matrix th, .matrix td { padding: 2px; }
  .matrix td { min-width: 20px; } .matrix tbody th { max-width: 9.5em; }
  .names { flex-flow: row wrap; gap: 3px 16px; }
  .dots .row, figure.small .dots .row { grid-template-columns: 1fr auto; gap: 0 10px; }
  .dots .row svg { grid-column: 1 / -1; grid-row: 2; } .dots .row.axis svg { grid-column: 1 / -1; }
  .figures { grid-template-columns: 1fr; } figure > svg { max-width: none; }
  ul.outline { display: block; } .wide.tree { display: none; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; }
}
"""

# Paper cannot scroll or open: what is cut or folded on the screen is whole here.
_PRINT = """
@page { margin: 14mm 12mm; }
@media print {
  :root { color-scheme: light; } * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { background: none; font-size: 10.5pt; } main { max-width: none; padding: 0; }
  section, footer { border: 0; padding: 0; margin-top: 14px; } section + section {
    break-before: page; }
  nav, .back, details.tried { display: none; }
  h2, h3, h4, h3 + .muted, h4 + .muted, figcaption, summary, .key { break-after: avoid; }
  figure, tr, .matrix, .dots .row, .dots, svg, pre.code { break-inside: avoid; }
  .wide { overflow: visible; } .wide svg { max-width: 100%; height: auto; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 7.5pt; padding: 5px 8px; }
  .figures { grid-template-columns: repeat(3, 1fr); gap: 12px; }
  table { font-size: 8.5pt; } th, td { padding: 2px 5px; } .long { min-width: 10em; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
  a { color: inherit; text-decoration: none; }
}
"""

STYLE = (
    _variables(LIGHT)
    + ":root { color-scheme: light dark; }"
    + f"@media screen and (prefers-color-scheme: dark) {{ {_variables(DARK)} }}"
    + color_rules()
    + _LAYOUT
    + _CHARTS
    + _MIDDLE
    + _NARROW
    + _PRINT
)
