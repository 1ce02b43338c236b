"""The report: one page of HTML that needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from os import PathLike

import numpy as np

from hybridtrees._compare import svg
from hybridtrees._compare.helpers import Helpers, helping
from hybridtrees._compare.insight import Curve, Importances, importances, learning_curves
from hybridtrees._compare.report_models import model_sections
from hybridtrees._compare.report_style import STYLE, html_table, numbers, part, wide
from hybridtrees._compare.result import Comparison, number
from hybridtrees._compare.scores import SCORES
from hybridtrees._compare.svg import Series
from hybridtrees._outputs import write_text
from hybridtrees._version import __version__


def write_report(
    comparisons: Sequence[Comparison], path: str | PathLike[str], helpers: Helpers | None = None
) -> None:
    """Write a report about one or several data sets."""
    write_text(path, make_report(comparisons, helpers))


def make_report(comparisons: Sequence[Comparison], helpers: Helpers | None = None) -> str:
    """Return the text of the page."""
    names = ", ".join(comparison.data.name for comparison in comparisons)
    body = [
        f"<header><h1>Models compared: {escape(names)}</h1>",
        f"<p class='muted'>hybridtrees {__version__}, seed {comparisons[0].limits.seed}</p>",
    ]
    if len(comparisons) > 1:
        links = [f"<a href='#{_anchor(c)}'>{escape(c.data.name)}</a>" for c in comparisons]
        body.append(f"<nav>{' '.join(links)}</nav>")
    body.append("</header>")
    if len(comparisons) > 1:
        body.append(_overview(comparisons))
    with helping(helpers, comparisons[0].limits.n_threads) as helpers:
        body += [_section(comparison, helpers) for comparison in comparisons]
    body.append(_footer(comparisons))
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>hybridtrees: {escape(names)}</title><style>{STYLE}</style></head>\n"
        "<body><main>" + "\n".join(body) + "</main></body></html>\n"
    )


def _anchor(comparison: Comparison) -> str:
    return "".join(c if c.isalnum() else "-" for c in comparison.data.name)


def _overview(comparisons: Sequence[Comparison]) -> str:
    """Ranks of all models on all data sets, and the mean of them."""
    ranks: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    for k, comparison in enumerate(comparisons):
        for rank, result in enumerate(comparison.results, start=1):
            name = result.family.name
            empty = [np.nan] * len(comparisons)
            if result.error is None:
                ranks.setdefault(name, list(empty))[k] = rank
                times.setdefault(name, list(empty))[k] = result.fit_seconds
    order = sorted(ranks, key=lambda name: float(np.nanmean(ranks[name])))
    rows = []
    for name in order:
        mean, total = np.nanmean(ranks[name]), svg.seconds_text(float(np.nansum(times[name])))
        each = ["-" if np.isnan(rank) else f"{rank:.0f}" for rank in ranks[name]]
        rows.append(
            f"<tr><th>{escape(name)}</th>{numbers(f'<b>{mean:.2f}</b>', *each, total)}</tr>"
        )
    heads = ["model", "mean rank", *(c.data.name for c in comparisons), "fit, sum"]
    return f"<section><h2>All data sets</h2>{html_table(heads, rows)}</section>"


def _section(comparison: Comparison, helpers: Helpers) -> str:
    data, score = comparison.data, comparison.score
    heading = comparison.heading().split(": ", 1)[1]
    best = comparison.results[0]
    parts = [f"<section id='{_anchor(comparison)}'><h2>{escape(data.name)}</h2>"]
    parts.append(f"<p class='muted'>{escape(heading)}; target: {escape(data.target_name)}</p>")
    if best.error is None:
        parts.append(
            f"<p class='lead'>Best on the test rows: <b>{escape(best.family.name)}</b> with "
            f"{escape(score.label)} {number(best.test[score.name])}.</p>"
        )
    parts += [f"<p class='note'>{escape(note)}</p>" for note in comparison.notes]
    parts.append(_table(comparison))
    parts.append(_ranking(comparison))
    parts.append(_times(comparison))
    curves = learning_curves(comparison, helpers)
    if curves:
        parts.append(_curves(comparison, curves))
    found = importances(comparison)
    if found is not None:
        parts.append(_importances(found))
    parts += model_sections(comparison)
    parts.append(_all_scores(comparison))
    parts.append(_trials(comparison))
    return "\n".join([*parts, "</section>"])


def _table(comparison: Comparison) -> str:
    heads = ["rank", "model", f"test {comparison.score.label}", "validation", "train", "delta %"]
    heads += ["fit", "predict", "size KB", "parameters"]
    rows = []
    for row, result in zip(comparison.table, comparison.results, strict=True):
        if result.error is not None:
            rows.append(
                f"<tr><td class='num'>-</td><th>{escape(row['model'])}</th>"
                f"<td colspan='8' class='bad'>failed: {escape(result.error)}</td></tr>"
            )
            continue
        delta = f"{row['delta']:+.1f}"
        if row["overfits"]:
            delta = f"<span class='bad' title='beyond the limit of overfitting'>{delta} *</span>"
        cells = [
            f"<b>{number(row['test'])}</b>",
            number(row["validation"]),
            number(row["train"]),
            delta,
            svg.seconds_text(row["fit_seconds"]),
            svg.seconds_text(row["predict_seconds"]),
            f"{row['size_bytes'] / 1024:.1f}",
        ]
        rows.append(
            f"<tr>{numbers(row['rank'])}<th>{escape(row['model'])}</th>{numbers(*cells)}"
            f"<td class='params'>{escape(result.describe_setting())}</td></tr>"
        )
    return (
        html_table(heads, rows, text=(1, 9))
        + "<p class='muted'>Test: the chosen setting fitted to training and validation rows. "
        "Validation and train: the scores by which it was chosen; delta is their relative "
        "difference. Parameters that are not named are the defaults of the family.</p>"
    )


def _ranking(comparison: Comparison) -> str:
    # The baseline, far behind the others, would press them together.
    shown = [r.error is None and r.family.key != "baseline" for r in comparison.results]
    rows = [row for row, is_shown in zip(comparison.table, shown, strict=True) if is_shown]
    if not rows:
        return ""
    drawing = svg.dot_rows(
        f"{comparison.score.label} of all models",
        [row["model"] for row in rows],
        [
            Series("train", [row["train"] for row in rows], "hollow"),
            Series("validation", [row["validation"] for row in rows], "pale"),
            Series("test", [row["test"] for row in rows], "full"),
        ],
    )
    better = "right" if comparison.score.maximize else "left"
    label = escape(comparison.score.label)
    about = f"{label}: better towards the {better}; the numbers are those of the test"
    return part("Ranking", about, wide(drawing))


def _times(comparison: Comparison) -> str:
    rows = sorted(
        (row for row in comparison.table if row["error"] is None),
        key=lambda row: row["fit_seconds"],
    )
    if not rows:
        return ""
    drawing = svg.dot_rows(
        "times to fit and to predict",
        [row["model"] for row in rows],
        [
            Series(
                f"predict {len(comparison.plan.test)} rows",
                [row["predict_seconds"] for row in rows],
                "hollow",
            ),
            Series("fit", [row["fit_seconds"] for row in rows], "full"),
        ],
        log=True,
        seconds=True,
    )
    n_threads = comparison.limits.n_threads
    about = f"logarithmic; the fit of the final model alone, on {n_threads} thread(s)"
    return part("Times", about, wide(drawing))


def _curves(comparison: Comparison, curves: Sequence[Curve]) -> str:
    shown = [v for curve in curves for v in (*curve.train, *curve.validation) if np.isfinite(v)]
    # A model that is hopeless on few rows must not flatten all others.
    low, high = np.quantile(shown, [0.02, 0.98]) if shown else (0.0, 1.0)
    drawings = [
        svg.curves(
            curve.family.name,
            curve.n_rows,
            [
                Series("train", curve.train, "first"),
                Series("validation", curve.validation, "second"),
            ],
            x_label="training rows",
            y_range=(float(low), float(high)),
        )
        for curve in curves
    ]
    key = svg.legend(
        [Series("train", [], "first"), Series("validation", [], "second")], 0, 14, True
    )
    label = escape(comparison.score.label)
    about = f"{label} of the chosen setting with more and more training rows"
    legend = svg.page(220, 20, "legend", key)
    return part("Learning curves", about, f"{legend}<div class='grid-of'>{''.join(drawings)}</div>")


def _importances(found: Importances) -> str:
    rows = []
    for name, shares in zip(found.features, found.shares, strict=True):
        cells = "".join(
            f"<td class='num heat' style='--share:{min(1.0, 1.6 * share):.3f}'>"
            # What rounds to nothing is left empty, so that the rest stands out.
            f"{f'{share:.0%}' if share >= 0.005 else ''}</td>"
            for share in shares
        )
        rows.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    about = (
        "what each model's test score loses when a feature is shuffled, in shares of the model's "
        "total"
    )
    return part("Importances", about, html_table(["feature", *found.models], rows))


def _all_scores(comparison: Comparison) -> str:
    results = [r for r in comparison.results if r.error is None]
    if not results:
        return ""
    names = list(results[0].test)
    rows = []
    for result in results:
        cells = numbers(*(number(result.test[name]) for name in names))
        rows.append(f"<tr><th>{escape(result.family.name)}</th>{cells}</tr>")
    table = html_table(["model", *(SCORES[name].label for name in names)], rows)
    return f"<details><summary>All scores on the test rows</summary>{table}</details>"


def _trials(comparison: Comparison) -> str:
    score = comparison.score
    rows = []
    for trial in sorted(comparison.trials, key=lambda t: t.family.name):
        setting = ", ".join(f"{k}={v}" for k, v in trial.final_setting().items())
        aside = trial.overfits(score, comparison.limits.overfit)
        verdict = trial.error or ("set aside: overfits" if aside else "")
        delta = f"{score.delta(trial.train, trial.validation):+.1f}"
        cells = numbers(trial.n_rows, number(trial.validation), number(trial.train), delta)
        rows.append(
            f"<tr><th>{escape(trial.family.name)}</th><td class='params'>{escape(setting)}</td>"
            f"{cells}<td class='bad'>{escape(verdict)}</td></tr>"
        )
    heads = ["model", "parameters", "rows", "validation", "train", "delta %", ""]
    table = html_table(heads, rows, text=(0, 1, 6))
    return f"<details><summary>All {len(rows)} settings that were tried</summary>{table}</details>"


def _footer(comparisons: Sequence[Comparison]) -> str:
    bounds = {}
    for comparison in comparisons:
        limit = comparison.limits.overfit
        bounds[comparison.score.label] = comparison.score.limit if limit is None else limit
    limits = ", ".join(f"{bound:.0%} for {escape(label)}" for label, bound in bounds.items())
    divided = "70 % training, 15 % validation and 15 % test"
    n_folds = len(comparisons[0].plan.folds)
    if n_folds > 1:
        divided = (
            f"15 % test and {n_folds} folds of the others, each to validate what the rest train"
        )
    return (
        f"<footer><h2>How it was done</h2><p>Rows were divided into {divided}: at random, class by "
        "class, or in the order of time. Every setting was fitted on the training rows and scored "
        "on both; those whose validation score was worse than the training score by more than a "
        f"limit ({limits}) were set aside, unless all of a family were. The best on validation was "
        "fitted anew on all rows but those of the test, and scored once on the latter. The score "
        "of the best of several models is a little too good on average.</p></footer>"
    )
