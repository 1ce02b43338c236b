"""The report: one page of HTML that needs nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from os import PathLike

import numpy as np

from hybridtrees._compare import svg
from hybridtrees._compare.families import ENSEMBLE
from hybridtrees._compare.helpers import Helpers, helping
from hybridtrees._compare.insight import Curve, Importances, importances, learning_curves
from hybridtrees._compare.report_data import cut, data_part
from hybridtrees._compare.report_models import model_anchor, models_part
from hybridtrees._compare.report_predictions import roc_part
from hybridtrees._compare.report_style import (
    STYLE,
    class_variables,
    color_class,
    figure,
    figures,
    folded,
    heat,
    html_table,
    interval_words,
    part,
)
from hybridtrees._compare.result import Comparison, Result, number
from hybridtrees._compare.scores import SCORES
from hybridtrees._compare.svg import Mark, Row
from hybridtrees._html import box
from hybridtrees._outputs import write_text
from hybridtrees._version import __version__

_TRAIN, _VALIDATION = Mark("train", "hollow"), Mark("validation", "pale")
_TEST = Mark("test", "full")


def write_report(
    comparisons: Sequence[Comparison], path: str | PathLike[str], helpers: Helpers | None = None
) -> None:
    """Write a report about one or several data sets."""
    write_text(path, make_report(comparisons, helpers))


def make_report(comparisons: Sequence[Comparison], helpers: Helpers | None = None) -> str:
    """Return the text of the page."""
    names = ", ".join(comparison.data.name for comparison in comparisons)
    anchors = _anchors(comparisons)
    links = [(f"#{a}", c.data.name) for a, c in zip(anchors, comparisons, strict=True)]
    body = [
        f"<header><h1>Models compared: {escape(names)}</h1>",
        f"<p class='muted'>hybridtrees {__version__}, seed {comparisons[0].limits.seed}</p>",
        _links(links) if len(links) > 1 else "",
        "</header>",
    ]
    if len(comparisons) > 1:
        body.append(_overview(comparisons))
    with helping(helpers, comparisons[0].limits.n_threads) as helpers:
        for comparison, anchor in zip(comparisons, anchors, strict=True):
            body.append(_section(comparison, anchor, helpers))
    body.append(_footer(comparisons))
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>hybridtrees: {escape(names)}</title><style>{STYLE}</style></head>\n"
        "<body><main>" + "\n".join(body) + "</main></body></html>\n"
    )


def _anchors(comparisons: Sequence[Comparison]) -> list[str]:
    """Names of the sections, each another even if data sets are called the same."""
    names = (re.sub("[^a-z0-9]+", "-", c.data.name.lower()).strip("-") for c in comparisons)
    return [f"{name or 'data'}-{k}" for k, name in enumerate(names, start=1)]


def _links(links: Sequence[tuple[str, str]]) -> str:
    items = (f"<a href='{target}'>{escape(name)}</a>" for target, name in links)
    return f"<nav aria-label='on this page'>{''.join(items)}</nav>"


def _overview(comparisons: Sequence[Comparison]) -> str:
    """Ranks of all models on all data sets, and the mean of them."""
    ranks: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    chips = {}
    for k, comparison in enumerate(comparisons):
        for rank, result in enumerate(comparison.results, start=1):
            name = result.family.name
            empty = [np.nan] * len(comparisons)
            # The ensemble stands first or last, whatever its score.
            if result.error is None and result.family.key != ENSEMBLE:
                chips[name] = _chip(result)
                ranks.setdefault(name, list(empty))[k] = rank
                times.setdefault(name, list(empty))[k] = result.fit_seconds
    rows = []
    for name in sorted(ranks, key=lambda name: float(np.nanmean(ranks[name]))):
        mean, total = np.nanmean(ranks[name]), svg.seconds_text(float(np.nansum(times[name])))
        each = ["-" if np.isnan(rank) else f"{rank:.0f}" for rank in ranks[name]]
        rows.append([chips[name], f"<b>{mean:.2f}</b>", *each, total])
    heads = ["model", "mean rank", *(c.data.name for c in comparisons), "fit, sum"]
    return f"<section><h2>All data sets</h2>{html_table(heads, rows, title='mean ranks')}</section>"


def _section(comparison: Comparison, anchor: str, helpers: Helpers) -> str:
    data = comparison.data
    heading = comparison.heading().split(": ", 1)[1]
    colors = f" style='{class_variables(data.n_classes)}'" if data.n_classes else ""
    parts = [f"<section id='{anchor}'{colors}><h2>{escape(data.name)}</h2>"]
    parts.append(f"<p class='muted'>{escape(heading)}; target: {escape(data.target_name)}</p>")
    parts.append(_lead(comparison, anchor))
    parts += [f"<p class='note'>{escape(note)}</p>" for note in comparison.notes]
    found = importances(comparison)
    shown = [
        ("board", "Leaderboard", _board(comparison, anchor)),
        ("data", "Data", data_part(data, f"{anchor}-data")),
        ("roc", "ROC curves", roc_part(comparison, f"{anchor}-roc")),
        ("features", "Importances", _importances(found, f"{anchor}-features")),
        ("curves", "Learning curves", _curves(comparison, helpers, f"{anchor}-curves")),
        ("times", "Times", _times(comparison, anchor)),
        ("models", "Model by model", models_part(comparison, found, anchor)),
        ("more", "All scores", _all_scores(comparison, anchor) + _trials(comparison)),
    ]
    parts.append(_links([(f"#{anchor}-{name}", title) for name, title, body in shown if body]))
    parts += [body for _, _, body in shown]
    return "\n".join([*parts, "</section>"])


def _lead(comparison: Comparison, anchor: str) -> str:
    """Return the sentence that most readers came for."""
    if all(result.error is not None for result in comparison.results):
        return ""
    winner, score = comparison.winner, comparison.score
    sure = interval_words(winner.test_intervals.get(score.name), "95 % interval ")
    tied = [r.family.name for r in comparison.results if r.tied]
    close = ""
    if tied:
        close = f" Not to be told apart from it on these rows: {escape(', '.join(tied))}."
    return (
        f"<p class='lead'>Chosen: {_link(winner, anchor)}, with a test "
        f"{escape(score.label)} of <b>{number(winner.test[score.name])}</b>{sure}.{close}</p>"
    )


def _chip(result: Result, content: str = "") -> str:
    """Name of a model with its colour."""
    name = content or escape(result.family.name)
    return f"<span class='chip {color_class(result.family)}'>{name}</span>"


def _link(result: Result, anchor: str) -> str:
    """Name of a model that leads to its place."""
    if result.error is not None:
        return _chip(result)
    target, name = model_anchor(anchor, result), escape(result.family.name)
    return _chip(result, f"<a href='#{target}'>{name}</a>")


# ---- The leaderboard ----------------------------------------------------------------------------


def _board(comparison: Comparison, anchor: str) -> str:
    label, by_folds = comparison.score.label, comparison.chosen_by == "folds"
    heads = ["rank", "model", *(["folds"] if by_folds else []), f"test {label}", "validation"]
    heads += ["train", "delta %", "fit", "predict", "size KB", "parameters"]
    rows = []
    for row, result in zip(comparison.table, comparison.results, strict=True):
        if result.error is not None:
            failed = f"<span class='bad'>failed: {escape(result.error)}</span>"
            rows.append(["-", _link(result, anchor), *[""] * (len(heads) - 3), failed])
            continue
        delta = f"{row['delta']:+.1f}" if np.isfinite(row["delta"]) else "-"
        if row["overfits"]:
            delta = f"<span class='bad' title='beyond the limit of overfitting'>{delta} *</span>"
        tied = " <span title='not to be told apart from the first'>≈</span>" if row["tied"] else ""
        choice = [_ranged(row["choice"], row["choice_interval"], tied)] if by_folds else []
        cells = [
            *choice,
            _ranged(row["test"], row["test_interval"], strong=True),
            _ranged(row["validation"], (np.nan, np.nan), "" if by_folds else tied),
            number(row["train"]),
            delta,
            svg.seconds_text(row["fit_seconds"]),
            svg.seconds_text(row["predict_seconds"]),
            f"{row['size_bytes'] / 1024:.1f}",
            escape(result.describe_setting()),
        ]
        rows.append([str(row["rank"]), _link(result, anchor), *cells])
    last = len(heads) - 1
    table = html_table(
        heads, rows, name=1, long=(last,), extra=(last - 2, last), title="leaderboard"
    )
    basis = (
        f"the mean over {comparison.n_folds} folds of the other rows"
        + (f", {comparison.n_repeats} times" if comparison.n_repeats > 1 else "")
        if by_folds
        else "the validation rows"
    )
    notes = (
        "<p class='muted'>Below a score: its 95 % interval. ≈ not to be told apart from the first. "
        "Validation and train: the scores by which the parameters were chosen; delta is their "
        "relative difference. Parameters that are not named are the defaults of the family.</p>"
    )
    about = f"Ranked by {basis}; the test rows decide nothing."
    if by_folds and comparison.results[0].family.key == ENSEMBLE:
        about += " The ensemble is first unless a model is better by more than one standard error."
    return part(
        "Leaderboard", about, _ranking(comparison, anchor) + table + notes, f"{anchor}-board"
    )


def _ranged(
    value: float, interval: tuple[float, float], mark: str = "", strong: bool = False
) -> str:
    """Write a score and, in a line below, its interval."""
    text = f"<b>{number(value)}</b>" if strong else number(value)
    below = ""
    if np.isfinite(interval).all():
        below = f"<span class='range'>{number(interval[0])} – {number(interval[1])}</span>"
    return f"<span>{text}{mark}{below}</span>"


def _ranking(comparison: Comparison, anchor: str) -> str:
    # The baseline, far behind the others, would press them together.
    shown = [r for r in comparison.results if r.error is None and r.family.key != "baseline"]
    score = comparison.score
    rows = [
        Row(
            r.family.name,
            [r.trial.train, r.trial.validation, r.test[score.name]],
            color_class(r.family),
            r.test_intervals.get(score.name),
            model_anchor(anchor, r),
        )
        for r in shown
    ]
    if not rows:
        return ""
    title = f"{score.label}, better towards the {'right' if score.maximize else 'left'}"
    marks = [_TRAIN, _VALIDATION, _TEST]
    return figure(title, svg.dot_rows(f"{score.label} of all models", rows, marks))


def _times(comparison: Comparison, anchor: str) -> str:
    shown = [r for r in comparison.results if r.error is None]
    rows = [
        Row(
            r.family.name,
            [r.predict_seconds, r.fit_seconds],
            color_class(r.family),
            link=model_anchor(anchor, r),
        )
        for r in sorted(shown, key=lambda r: r.fit_seconds)
    ]
    if not rows:
        return ""
    marks = [Mark(f"predict {len(comparison.plan.test)} rows", "hollow"), Mark("fit", "full")]
    drawing = svg.dot_rows("times to fit and to predict", rows, marks, log=True, seconds=True)
    n_threads = comparison.limits.n_threads
    threads = "1 thread" if n_threads == 1 else f"{n_threads} threads"
    about = f"logarithmic; the fit of the final model alone, on {threads}"
    return part("Times", about, drawing, f"{anchor}-times")


def _curves(comparison: Comparison, helpers: Helpers, anchor: str) -> str:
    curves = learning_curves(comparison, helpers)
    if not curves:
        return ""
    shown = [v for curve in curves for v in (*curve.train, *curve.validation) if np.isfinite(v)]
    # A model that is hopeless on few rows must not flatten all others.
    ends = np.quantile(shown, [0.02, 0.98]).tolist() if shown else [0.0, 1.0]
    label = escape(comparison.score.label)
    about = f"{label} of the chosen setting with more and more training rows"
    legend = svg.key([Mark("train", "dashed"), Mark("validation", "")], lines=True)
    body = figures(_curve(curve, ends) for curve in curves)
    return part("Learning curves", about, legend + body, anchor)


def _curve(curve: Curve, ends: list[float]) -> str:
    axes = svg.Axes([0, *curve.n_rows], ends, x_label="training rows", size=(300, 180))
    axes.line(curve.n_rows, curve.train, "dashed").line(curve.n_rows, curve.validation)
    drawing = axes.draw(f"learning curve of {curve.family.name}")
    return figure(curve.family.name, drawing, color_class(curve.family))


def _importances(found: Importances | None, anchor: str) -> str:
    if found is None:
        return ""
    rows = []
    for name, shares in zip(found.features, found.shares, strict=True):
        # What rounds to nothing is left empty, so that the rest stands out.
        cells = [
            heat(1.6 * share, f"{100 * share:.0f}" if share >= 0.005 else "", color_class(family))
            for family, share in zip(found.families, shares, strict=True)
        ]
        rows.append([escape(cut(name)), *cells])
    about = (
        "what each model's test score loses when a feature is shuffled, in per cent of the model's "
        "total"
    )
    heads = ["feature", *(family.name for family in found.families)]
    table = html_table(heads, rows, kind="matrix", title="importances")
    return part("Importances", about, table, anchor)


# ---- Tables for those who want everything -------------------------------------------------------


def _all_scores(comparison: Comparison, anchor: str) -> str:
    results = [r for r in comparison.results if r.error is None]
    if not results:
        return ""
    names = list(results[0].test)
    rows = [
        [_link(r, anchor), *(_ranged(r.test[n], r.test_intervals[n]) for n in names)]
        for r in results
    ]
    heads = ["model", *(SCORES[name].label for name in names)]
    table = html_table(heads, rows, title="all scores")
    title = part("All scores", "on the test rows", "", f"{anchor}-more")
    return title + table


def _trials(comparison: Comparison) -> str:
    score = comparison.score
    rows = []
    for trial in sorted(comparison.trials, key=lambda t: t.family.name):
        setting = ", ".join(f"{k}={v}" for k, v in trial.final_setting().items())
        aside = trial.overfits(score, comparison.limits.overfit)
        verdict = trial.error or ("set aside: overfits" if aside else "")
        cells = [
            escape(trial.family.name),
            escape(setting),
            str(trial.n_rows),
            number(trial.validation),
            number(trial.train),
            f"{score.delta(trial.train, trial.validation):+.1f}",
            f"<span class='bad'>{escape(verdict)}</span>" if verdict else "",
        ]
        rows.append(cells)
    heads = ["model", "parameters", "rows", "validation", "train", "delta %", "remark"]
    table = html_table(heads, rows, long=(1,), text=(6,), title="all settings")
    return folded(f"All {len(rows)} settings that were tried", table, "tried")


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
        f"limit ({limits}) were set aside, unless all of a family were. The best on validation "
        "stands for its family. Families are ranked by folds of all rows but those of the test, "
        "the same folds for all, or by the validation rows where there are many; among folds an "
        "ensemble of them is first unless a family is better by more than one standard error. "
        "Each was then fitted anew on these rows and scored once on the test rows, which decided "
        "nothing. "
        "Intervals cover 95 % of bootstrap resamples of the rows.</p></footer>"
    )


def comparison_html(comparison: Comparison) -> str:
    """Return the leaderboard as notebooks show it."""
    label = comparison.score.label
    heads = ("rank", "model", f"test {label}", "95 % interval", "fit", "")
    top = "".join(f"<th scope='col'>{escape(head)}</th>" for head in heads)
    lines = []
    for rank, result in enumerate(comparison.results, start=1):
        if result.error is not None:
            cells = ["-", result.family.name, "failed", "", "", result.error]
        else:
            found = result.test_intervals.get(comparison.score.name)
            cells = [
                str(rank),
                result.family.name,
                number(result.test[comparison.score.name]),
                interval_words(found).strip(" ()"),
                svg.seconds_text(result.fit_seconds),
                "≈ first" if result.tied else "",
            ]
        lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    notes = "".join(f"<div class='about'>{escape(note)}</div>" for note in comparison.notes)
    name, _, about = comparison.heading().partition(": ")
    return box(name, about, table + notes)
