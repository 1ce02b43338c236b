"""How the report looks: its style sheet, and tables."""

from collections.abc import Collection, Sequence
from html import escape


def numbers(*cells: object) -> str:
    """Cells of a table that stand to the right."""
    return "".join(f"<td class='num'>{cell}</td>" for cell in cells)


def part(title: str, about: str, body: str) -> str:
    """Part of a section: its title, a line about it, and what it shows."""
    return f"<h3>{title}</h3><p class='muted'>{about}</p>{body}"


def wide(body: str) -> str:
    """Body that may be wider than the page."""
    return f"<div class='wide'>{body}</div>"


def html_table(heads: Sequence[str], rows: Sequence[str], text: Collection[int] = (0,)) -> str:
    """Table of ready rows; columns but those in `text` have numbers."""
    cells = "".join(
        f"<th{'' if k in text else ' class=num'}>{escape(head)}</th>"
        for k, head in enumerate(heads)
    )
    body = "".join(rows)
    return wide(f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>")


STYLE = """
:root { --ink: #1d2733; --muted: #5c6b7a; --line: #dde3ea; --paper: #ffffff; --back: #f4f6f9;
  --main: #1f6feb; --pale: #9ec5fe; --second: #d9730d; --bad: #b42318; --heat: 31, 111, 235; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf1; --muted: #9aa8b7; --line: #344150;
  --paper: #18212b; --back: #0f161e; --main: #6ea8fe; --pale: #35598c; --second: #f0a35e;
  --bad: #ff8a7a; --heat: 110, 168, 254; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 15px/1.5 system-ui,
  -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 16px 64px; }
section, footer { background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
  padding: 8px 24px 24px; margin-top: 24px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 20px; margin: 14px 0 2px; } h3 { font-size: 16px; margin: 28px 0 2px; }
p { margin: 4px 0 10px; } .muted { color: var(--muted); font-size: 13.5px; }
.lead { font-size: 16px; } .note { border-left: 3px solid var(--second); padding-left: 10px; }
.bad { color: var(--bad); }
nav a { margin-right: 14px; color: var(--main); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; }
th, td { padding: 4px 10px; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--muted); font-weight: 600; vertical-align: bottom; white-space: nowrap; }
tbody th { font-weight: 500; white-space: nowrap; }
.num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.params { color: var(--muted); min-width: 16em; } td.rule { min-width: 22em; }
.heat { background: rgba(var(--heat), calc(var(--share) * 0.65)); }
details { margin-top: 18px; } summary { cursor: pointer; font-weight: 600; }
pre { background: var(--back); border: 1px solid var(--line); border-radius: 6px; padding: 10px
  12px; overflow-x: auto; font: 12.5px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
svg { max-width: none; display: block; font: 12px system-ui, "DejaVu Sans", sans-serif; }
svg text { fill: var(--ink); } svg text.small { fill: var(--muted); font-size: 11px; }
svg text.strong { font-weight: 600; } svg text[fill] { fill: unset; }
svg .nodetext { font-size: 11.5px; }
.grid { stroke: var(--line); } .span { stroke: var(--pale); stroke-width: 2; }
.branch { stroke: var(--muted); } .node { stroke: #55606c; }
circle.full { fill: var(--main); } circle.pale { fill: var(--pale); }
circle.hollow { fill: var(--paper); stroke: var(--main); stroke-width: 1.6; }
.curve { fill: none; stroke-width: 2; } .curve.first { stroke: var(--main); }
.curve.second { stroke: var(--second); } circle.first { fill: var(--main); }
circle.second { fill: var(--second); }
.grid-of { display: grid; grid-template-columns: repeat(auto-fill, minmax(250px, 1fr)); gap: 12px; }
"""
