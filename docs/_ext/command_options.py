"""``.. command-options:: compare``: the options of a command, read from its argparse parser."""

from __future__ import annotations

import argparse
import os

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from hybridtrees.cli import make_parser


def _parser(command: str) -> argparse.ArgumentParser:
    """Return the parser of one command of ``hybridtrees``, such as ``store build``."""
    parser = make_parser()
    for name in command.split():
        groups = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        parser = next(groups).choices[name]
    return parser


def _name(action: argparse.Action) -> str:
    """How an argument is written: its options, and what they take."""
    value = "" if action.nargs == 0 else action.metavar or action.dest.upper()
    if action.choices and action.metavar is None:
        value = "{" + ",".join(action.choices) + "}"
    if action.nargs == "+":
        value += " ..."
    options = ", ".join(action.option_strings)
    return f"{options} {value}".strip() if options else value.lower()


class CommandOptions(SphinxDirective):
    """Show the usage of a command, and a list of its arguments."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Make the nodes."""
        os.environ["COLUMNS"] = "78"
        parser = _parser(self.arguments[0])
        usage = parser.format_usage().removeprefix("usage: ").rstrip()
        listed = nodes.definition_list()
        for action in parser._actions:
            if action.help and action.dest != "help":
                term = nodes.term("", "", nodes.literal(text=_name(action)))
                text = nodes.paragraph(text=action.help.replace("%%", "%"))
                listed += nodes.definition_list_item("", term, nodes.definition("", text))
        shown: list[nodes.Node] = [nodes.paragraph(text=parser.description.replace("%%", "%"))]
        shown.append(nodes.literal_block(usage, usage, language="text"))
        return [*shown, listed] if listed.children else shown


def setup(app: Sphinx) -> dict:
    """Register the directive."""
    app.add_directive("command-options", CommandOptions)
    return {"parallel_read_safe": True}
