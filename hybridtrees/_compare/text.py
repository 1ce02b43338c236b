"""A comparison as text that is no wider than the terminal."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from hybridtrees._compare.resampling import UNKNOWN
from hybridtrees.input.labels_text import aligned

if TYPE_CHECKING:
    from hybridtrees._compare.result import Comparison, Result

# Where there is no terminal: about as wide as a cell of a notebook.
_NO_TERMINAL = (100, 24)
_NARROWEST = 40
TIED, OVERFITS = "~", "*"
# What is left out first if the table is too wide; parameters go below the table instead.
_LEAST_IMPORTANT = (
    "parameters", "size KB", "predict ms", "train", "delta %", "validation", "fit s", "interval",
)  # fmt: skip


def terminal_width() -> int:
    """Columns of the terminal, or those that other outputs are taken to have."""
    return max(_NARROWEST, shutil.get_terminal_size(_NO_TERMINAL).columns)


def number(value: float) -> str:
    """Write a score with four decimals, with five digits, or whole, by its size."""
    if not np.isfinite(value):
        return "-"
    if abs(value) < 10:
        return f"{value:.4f}"
    # Last zeros stay, so that a column of scores lines up.
    if abs(value) < 1e4:
        return f"{value:#.5g}".rstrip(".")
    return f"{value:.0f}" if abs(value) < 1e12 else f"{value:.4e}"


def number_range(interval: tuple[float, float]) -> str:
    """Write an interval."""
    if not np.isfinite(interval).all():
        return "-"
    return " .. ".join(map(number, interval))


def wrapped(line: str, width: int, indent: str = "") -> list[str]:
    """Break a line between words, the further ones behind an indent."""
    return textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False) or [""]


def table_text(comparison: Comparison, width: int) -> tuple[str, set[str]]:
    """Write the table; columns that do not fit are left out, parameters follow below.

    Also returns the marks that it shows.
    """
    rows = [_cells(comparison, k, result) for k, result in enumerate(comparison.results, start=1)]
    heads = list(rows[0])
    ranking = heads[2]
    for least in ("", *_LEAST_IMPORTANT):
        heads = [head for head in heads if head != least or head == ranking]
        cells = [heads, *([row[head] for head in heads] for row in rows)]
        left = {k for k, head in enumerate(heads) if head in ("model", "parameters")}
        lines = aligned(cells, left)
        if max(map(len, lines)) <= width:
            break
    marks = {row[head][-1] for row in rows for head in heads if head in (ranking, "delta %")}
    lines.insert(1, "-" * min(width, max(map(len, lines))))
    if "parameters" not in heads:
        lines += ["", "parameters"]
        for rank, result in enumerate(comparison.results, start=1):
            if result.error is None and result.setting:
                line = f"{rank:>4}  {result.family.name}: {result.describe_setting()}"
                lines += wrapped(line, width, " " * 8)
    return "\n".join(lines), marks


def _cells(comparison: Comparison, rank: int, result: Result) -> dict[str, str]:
    """Cells of one row by the heads of their columns, in the order in which they stand."""
    score, trial = comparison.score, result.trial
    mark = TIED if result.tied else " "
    overfits = OVERFITS if result.overfits else " "
    delta = score.delta(trial.train, trial.validation)
    cells = {
        "rank": str(rank),
        "model": result.family.name,
        comparison.chosen_by: number(result.choice) + mark,
        f"test {score.label}": number(result.test.get(score.name, np.nan)),
        "interval": number_range(result.test_intervals.get(score.name, UNKNOWN)),
        **({} if comparison.n_folds == 0 else {"validation": number(trial.validation)}),
        "train": number(trial.train),
        "delta %": f"{delta:+.1f}{overfits}" if np.isfinite(delta) else "-",
        "fit s": f"{result.fit_seconds:.3f}",
        "predict ms": f"{1e3 * result.predict_seconds:.2f}",
        "size KB": f"{result.size_bytes / 1024:.1f}",
        "parameters": result.describe_setting(),
    }
    if result.error is not None:
        cells = {**dict.fromkeys(cells, "-"), "model": result.family.name, "parameters": "failed"}
    return cells
