"""Plot fences in Markdown pages.

Matplotlib's plot directive feeds its output back to the reStructuredText parser, which a Markdown
page has not. A fence ``{plot}`` is therefore rewritten to ``{eval-rst}`` before a page is parsed.
Each of these is a document of its own, where the directive would count plots from 1 again: they are
numbered here, so that no two plots of the site share a file name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

# Longer fences come first: what they hold is an example of Markdown, and stays as it is.
_FENCES = re.compile(
    r"^(?P<long>````+)\w*\n.*?^(?P=long)$"
    r"|^```\{plot\}\n(?P<options>(?::[\w-]+:[^\n]*\n)*)\n?(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def plot_codes(page: str) -> Iterator[str]:
    """Give the code of every plot fence of a page."""
    return (match["code"] for match in _FENCES.finditer(page) if match["long"] is None)


def to_rst(page: str, prefix: str) -> str:
    """Rewrite the plot fences of a page; the file of its first plot is ``<prefix>-1``."""
    numbers = itertools.count(1)

    def rewrite(match: re.Match[str]) -> str:
        if match["long"] is not None:
            return match[0]
        name = f":filename-prefix: {prefix}-{next(numbers)}\n"
        body = name + match["options"] + "\n" + match["code"]
        lines = (f"   {line}".rstrip() for line in body.splitlines())
        return "```{eval-rst}\n.. plot::\n" + "\n".join(lines) + "\n```"

    return _FENCES.sub(rewrite, page)


def _rewrite(app: Any, name: str, source: list[str]) -> None:
    if str(app.env.doc2path(name)).endswith(".md"):
        source[0] = to_rst(source[0], name.replace("/", "-"))


def setup(app: Any) -> dict[str, bool]:
    """Rewrite pages when they are read."""
    app.connect("source-read", _rewrite)
    return {"parallel_read_safe": True}
