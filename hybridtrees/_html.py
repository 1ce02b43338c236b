"""Estimators as notebooks show them: small tables that fit light and dark pages.

All that a user may have named is escaped. Loaded only when a notebook asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from hybridtrees._parameters import differs, short_repr

# Colours come from the notebook, so that they fit its theme. A style sheet would apply to the whole
# notebook, so each rule names a class that nobody else has.
STYLE = """<style>
.hybridtrees { display: inline-block; max-width: 100%; overflow-x: auto; font: 13px/1.5 system-ui,
  sans-serif; border: 1px solid rgba(128,128,128,.4); border-radius: 8px; padding: 8px 14px; }
.hybridtrees table { border-collapse: collapse; margin: 4px 0; background: none; }
.hybridtrees th, .hybridtrees td { padding: 1px 14px 1px 0; text-align: left; border: 0;
  background: none; font-weight: normal; vertical-align: top; overflow-wrap: anywhere; }
.hybridtrees td { font-variant-numeric: tabular-nums; } .hybridtrees thead th { font-weight: 600; }
.hybridtrees tbody th { opacity: .75; } .hybridtrees .about { opacity: .75; }
.hybridtrees summary { cursor: pointer; opacity: .75; }
.hybridtrees code { background: none; color: inherit; }
</style>"""
_MOST_CLASSES = 6


def box(title: str, about: str, body: str) -> str:
    """Return a titled box; `about` is text, `body` is HTML."""
    return (
        f"{STYLE}<div class='hybridtrees'><b>{escape(title)}</b> "
        f"<span class='about'>{escape(about)}</span>{body}</div>"
    )


def two_columns(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values, both text."""
    lines = "".join(
        f"<tr><th scope='row'>{escape(name)}</th><td><code>{escape(value)}</code></td></tr>"
        for name, value in rows
    )
    return f"<table><tbody>{lines}</tbody></table>" if lines else ""


def estimator_html(estimator: Any) -> str:
    """Return the name of an estimator, the parameters that were set, and what fit has found."""
    defaults = estimator._parameter_defaults()
    values = {name: getattr(estimator, name, default) for name, default in defaults.items()}
    shown = [(n, short_repr(v)) for n, v in values.items() if differs(v, defaults[n])]
    rest = [(n, short_repr(v)) for n, v in values.items() if not differs(v, defaults[n])]
    fitted = estimator.__sklearn_is_fitted__()
    body = two_columns(shown)
    if fitted:
        body += two_columns(_facts(estimator))
    if rest:
        body += f"<details><summary>{len(rest)} defaults</summary>{two_columns(rest)}</details>"
    return box(type(estimator).__name__, "fitted" if fitted else "not fitted", body)


def _facts(estimator: Any) -> list[tuple[str, str]]:
    """List what fit has found, as far as the estimator has it."""
    known = vars(estimator)
    facts = [("features", str(known.get("n_features_in_", "")))]
    if "classes_" in known:
        facts.append(("classes", _classes(known["classes_"])))
    if "n_estimators_" in known:
        facts.append(("trees", str(known["n_estimators_"])))
    elif "trees_" in known:
        facts.append(("rounds", str(known.get("n_iter_", ""))))
    if known.get("_best_iteration") is not None:
        facts.append(("best round", str(known["_best_iteration"])))
    if hasattr(estimator, "get_depth"):
        facts.append(("depth", str(estimator.get_depth())))
        facts.append(("leaves", str(estimator.get_n_leaves())))
    if "n_rules_" in known:
        facts.append(("rules", str(known["n_rules_"])))
    for name, label in (("alpha_", "alpha"), ("oob_score_", "out-of-bag score")):
        if np.ndim(known.get(name, ())) == 0:
            facts.append((label, f"{float(known[name]):.6g}"))
    return [fact for fact in facts if fact[1]]


def _classes(classes: np.ndarray) -> str:
    names = ", ".join(str(label) for label in classes[:_MOST_CLASSES].tolist())
    return f"{len(classes)}: {names}" + (", …" if len(classes) > _MOST_CLASSES else "")
