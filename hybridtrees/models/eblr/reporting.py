"""Reports of a fitted EBLR model: its rules, its equation, and a drawing."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from hybridtrees._parameters import attribute, check_integer
from hybridtrees._predictor import CategoryPredictor
from hybridtrees.linear._base import TermCoefficients
from hybridtrees.linear.design import Design
from hybridtrees.models.eblr.rules import Rule, RuleTree, rule_text

_WIDTH = 96
# Significant digits of thresholds in equations and drawings.
_DIGITS = 4


class RuleReports(TermCoefficients, CategoryPredictor):
    """The rules of a fitted model as objects, text and bars."""

    rule_names_: list[str] = attribute()
    _stages: np.ndarray = attribute()
    train_losses_: np.ndarray = attribute()
    intercept_: float | np.ndarray = attribute()
    _design: Design = attribute()
    _trees: list[RuleTree] = attribute()
    _rule_residual: list[np.ndarray] = attribute()
    _support: list[int] = attribute()
    _share: list[float] = attribute()
    _column_spread: Any = attribute()
    _with_missing: np.ndarray = attribute()

    def _rule_texts(self, digits: int | None = None) -> list[str]:
        """Return the conditions of the rules; thresholds have all digits by default."""
        reader, given = self._reader, self._reader.feature_names_in
        names = [f"x{f}" for f in range(self.n_features_in_)] if given is None else list(given)
        about = names, self.rule_names_, reader.coded, self._with_missing, digits
        return [rule_text(tree, *about) for tree in self._trees]

    @property
    def rule_coef_(self) -> np.ndarray:
        """Coefficients of the rules."""
        coef: np.ndarray = self.term_coef_[..., self._design.n_columns :]
        return coef

    @property
    def rules_(self) -> list[Rule]:
        """The rules in the order in which they were found."""
        self._check_is_fitted()
        coefs, gains = np.atleast_2d(self.rule_coef_).T, -np.diff(self.train_losses_, axis=0)
        targets = vars(self).get("_rule_target")
        if targets is not None:  # only its own target has a coefficient for a rule
            rounds = np.searchsorted(self._stages, np.arange(len(coefs)), side="right") - 1
            gains = gains[rounds, targets]
            coefs = coefs[np.arange(len(coefs)), targets][:, None]
        found = []
        for k, (tree, words) in enumerate(zip(self._trees, self._rule_texts(), strict=True)):
            mean = self._rule_residual[k]
            found.append(
                Rule(
                    name=self.rule_names_[k],
                    text=words,
                    coef=float(coefs[k, 0]) if len(coefs[k]) == 1 else coefs[k].copy(),
                    support=self._support[k],
                    share=self._share[k],
                    gain=float(gains[k]),
                    residual=float(mean[0]) if len(mean) == 1 else mean,
                    tree=tree,
                    target=None if targets is None else int(targets[k]),
                )
            )
        return found

    def _equation(self, title: str, row: int, max_terms: int | None) -> str:
        """Write the regression of one output as an equation, `title` left of the equals sign.

        At most `max_terms` columns are written, those of the largest effect of a standard
        deviation.
        """
        found, coefs = self.rules_, np.atleast_2d(self.term_coef_)[row]
        check_integer("max_terms", max_terms, 0, allow_none=True)
        n_columns = len(coefs) - len(found)
        used = np.flatnonzero(coefs[:n_columns])
        n_left = 0 if max_terms is None else max(0, len(used) - max_terms)
        if n_left:
            effects = np.abs(coefs[used] * self._column_spread[used])
            used = np.sort(used[np.argsort(-effects, kind="stable")[:max_terms]])
        lines = [f"{title} = {float(np.ravel(self.intercept_)[row]):.6g}"]
        lines += [f"    {_signed(coefs[j])} * {self._design.names[j]}" for j in used]
        if n_left:
            lines.append(f"    + {_counted(n_left, 'more column')} of smaller effect")
        texts = self._rule_texts(_DIGITS)
        for rule, words, coef in zip(found, texts, coefs[n_columns:], strict=True):
            if rule.target not in (None, row):
                continue
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

    def _draw_rules(self, xlabel: str, row: int, ax: Any, width: int, colors: Any) -> Any:
        """Draw the coefficients of the rules of one output as bars, with their conditions."""
        texts = dict(zip(self.rule_names_, self._rule_texts(_DIGITS), strict=True))
        rules = [rule for rule in self.rules_ if rule.target in (None, row)]
        one = all(np.size(rule.coef) == 1 for rule in rules)
        coefs = np.array([float(np.ravel(rule.coef)[0 if one else row]) for rule in rules])
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=(9, 0.6 * max(2, len(rules)) + 1), layout="constrained")
        places = np.arange(len(rules))
        rising, falling = ("tab:blue", "tab:red") if colors is None else colors
        bars = ax.barh(places, coefs, color=[rising if c >= 0 else falling for c in coefs])
        labels = [textwrap.fill(f"{rule.name}: {texts[rule.name]}", width) for rule in rules]
        ax.set_yticks(places, labels, fontsize="small")
        ax.invert_yaxis()
        ax.axvline(0, color="black", linewidth=0.8)
        counts = [_counted(rule.support, "row") for rule in rules]
        ax.bar_label(bars, counts, padding=3, fontsize="small")
        ax.margins(x=0.2)
        ax.set_xlabel(xlabel)
        return ax


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'} {abs(value):.6g}"
