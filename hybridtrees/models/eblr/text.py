"""A fitted EBLR model in words and as a drawing."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridtrees._parameters import check_integer
from hybridtrees.models.eblr.rules import Rule

_WIDTH = 96
# Digits of thresholds in an account for people.
DIGITS = 4


def equation(
    title: str,
    intercept: float,
    names: Sequence[str],
    coefs: np.ndarray,
    effects: np.ndarray,
    rules: Sequence[tuple[Rule, str, float]],
    max_terms: int | None,
) -> str:
    """Write a regression with rules as a person would, `title` left of the equals sign.

    At most `max_terms` columns are written, those of the largest `effects` of a standard deviation.
    """
    check_integer("max_terms", max_terms, 0, allow_none=True)
    used = np.flatnonzero(coefs)
    if max_terms is not None and len(used) > max_terms:
        used = np.sort(used[np.argsort(-np.abs(effects[used]), kind="stable")[:max_terms]])
    lines = [f"{title} = {_number(intercept)}"]
    lines += [f"    {_signed(coefs[j])} * {names[j]}" for j in used]
    left = int(np.count_nonzero(coefs)) - len(used)
    if left:
        lines.append(f"    + {_counted(left, 'more column')} of smaller effect")
    for rule, words, coef in rules:
        lines += textwrap.wrap(
            f"{_signed(coef)} if {words}",
            _WIDTH,
            initial_indent="    ",
            subsequent_indent=" " * 12,
            break_long_words=False,
            break_on_hyphens=False,
        )
        share = f"{100 * rule.share:.3g} % of the weight"
        lines.append(
            f"            [{rule.name}: {_counted(rule.support, 'row')}, {share}, "
            f"gain {rule.gain:.4g}]"
        )
    return "\n".join(lines)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _number(value: float) -> str:
    return f"{value:.6g}"


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'} {_number(abs(value))}"


def draw_rules(
    rules: Sequence[Rule],
    texts: Sequence[str],
    coefs: np.ndarray,
    xlabel: str,
    ax: Any,
    width: int,
    colors: Any,
) -> Any:
    """Draw the coefficients of rules as bars, with the rules beside them."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(9, 0.6 * max(2, len(rules)) + 1), layout="constrained")
    places = np.arange(len(rules))
    rising, falling = ("tab:blue", "tab:red") if colors is None else colors
    bars = ax.barh(places, coefs, color=[rising if c >= 0 else falling for c in coefs])
    labels = [
        textwrap.fill(f"{rule.name}: {words}", width)
        for rule, words in zip(rules, texts, strict=True)
    ]
    ax.set_yticks(places, labels, fontsize="small")
    ax.invert_yaxis()
    ax.axvline(0, color="black", linewidth=0.8)
    counts = [_counted(rule.support, "row") for rule in rules]
    ax.bar_label(bars, counts, padding=3, fontsize="small")
    ax.margins(x=0.2)
    ax.set_xlabel(xlabel)
    return ax
