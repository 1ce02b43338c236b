"""``{results} name``: the chart and the table of stored results, docs/benchmarks/name.json.

The name ``fit_times`` is the first panel of the README's picture.
"""

from __future__ import annotations

from typing import Any

import make_charts
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def _cell(value: Any) -> str:
    return "-" if value is None else str(value)


def _markdown(results: make_charts.Results) -> list[str]:
    """Return the lines of the table."""
    rows = [results.columns, ["---"] * len(results.columns), *results.rows]
    return ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]


class StoredResults(SphinxDirective):
    """Draw stored results, with their figures in a table that unfolds."""

    required_arguments = 1
    option_spec = {"chart-only": directives.flag, "open": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Make the nodes."""
        name = self.arguments[0]
        if name == "fit_times":
            results = make_charts.fit_times()
        else:
            self.env.note_dependency(str(make_charts.HERE / "benchmarks" / f"{name}.json"))
            results = make_charts.read(name)
        self.env.note_dependency(make_charts.__file__)
        figure = f'<div class="ht-figure">{make_charts.chart(results)}</div>'
        shown: list[nodes.Node] = [nodes.raw("", figure, format="html")]
        if "chart-only" not in self.options:
            folded = nodes.container()
            lines = [f":::{{dropdown}} The figures: {results.title}", *_markdown(results), ":::"]
            if "open" in self.options:
                lines = _markdown(results)
            self.state.nested_parse(StringList(lines), 0, folded)
            shown += folded.children
        return shown


def setup(app: Sphinx) -> dict:
    """Register the directive."""
    app.add_directive("results", StoredResults)
    return {"parallel_read_safe": True}
