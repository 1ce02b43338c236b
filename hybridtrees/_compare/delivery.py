"""What the command ``compare`` hands out: text for people, and files."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from hybridtrees._compare.helpers import Helpers
from hybridtrees._compare.result import Comparison
from hybridtrees._outputs import STREAM, discard, report_error, write_text
from hybridtrees._version import __version__


@dataclass
class Delivery:
    """Prints and writes the results of comparisons, each on its own.

    Where one fails this is reported, and the others are still written.
    """

    # Paths of the best model, of all results and of the report. A `json` of ``-`` is the standard
    # output, which then belongs to a program, and people have the error stream
    save: str | None
    json: str | None
    html: str | None
    seed: int
    complete: bool = True  # Whether all went well so far

    def say(self, text: str) -> None:
        """Print for people."""
        self._print(text, sys.stderr if self.json == STREAM else sys.stdout)

    def write(self, comparisons: Sequence[Comparison], helpers: Helpers) -> None:
        """Write all files, the model first: it takes longest to compute again."""
        for option, path, write in (
            ("--save", self.save, self._write_model),
            ("--json", self.json, self._write_json),
            ("--html", self.html, self._write_html),
        ):
            if path is None:
                continue
            try:
                write(path, comparisons, helpers)
            except Exception as error:
                self._report(f"{option} {path}", error)

    def _write_model(self, path: str, comparisons: Sequence[Comparison], helpers: Any) -> None:
        best = comparisons[0].best_
        best.save(path)
        self.say(f"best model, {type(best).__name__}: {path}")

    def _write_json(self, path: str, comparisons: Sequence[Comparison], helpers: Any) -> None:
        content = {
            "hybridtrees": __version__,
            "seed": self.seed,
            "comparisons": [comparison.to_dict() for comparison in comparisons],
        }
        text = json.dumps(content, indent=1)
        if path == STREAM:
            self._print(text, sys.stdout)
        else:
            write_text(path, text + "\n")
            self.say(f"results: {path}")

    def _write_html(self, path: str, comparisons: Sequence[Comparison], helpers: Helpers) -> None:
        from hybridtrees._compare.report import write_report

        write_report(comparisons, path, helpers)
        self.say(f"report: {path}")

    def _print(self, text: str, stream: TextIO) -> None:
        try:
            print(text, flush=True, file=stream)
        except OSError as error:
            if self.save is self.json is self.html is None:
                raise
            discard(stream)
            # A reader that went away, as `head` does, has seen enough.
            if not isinstance(error, BrokenPipeError):
                self._report("printing", error)

    def _report(self, where: str, error: Exception) -> None:
        self.complete = False
        report_error(error, where)
