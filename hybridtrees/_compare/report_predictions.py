"""Figures of what a model predicted for the test rows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from hybridtrees._compare import svg
from hybridtrees._compare.insight import calibration, confusion, roc_curves, some
from hybridtrees._compare.report_data import cut
from hybridtrees._compare.report_style import color_class, figure, heat, html_table, part
from hybridtrees._compare.result import Comparison, Result
from hybridtrees._compare.scores import Prediction

_MOST_POINTS = 300
# Classes of a whole matrix; of more the most frequent mistakes are listed.
_MOST_CLASSES, _MOST_MISTAKES = 12, 10
_SHORT = 4  # letters of a label that is not turned
_DIAGONAL = (0.0, 1.0)


def prediction_figures(comparison: Comparison, result: Result) -> list[str]:
    """Figures about one model."""
    predicted = result.predicted
    assert predicted is not None
    if comparison.data.classes is None:
        return _of_numbers(comparison, predicted)
    y = comparison.data.target[comparison.plan.test]
    curves = roc_curves(y, predicted)
    drawings = []
    if curves:
        drawings.append(figure("ROC curve", _roc(curves)))
    drawings += [_calibration(y, predicted), _confusion(comparison, y, predicted)]
    return drawings


def roc_part(comparison: Comparison, anchor: str) -> str:
    """Return the part with the ROC curves of all models; empty for numbers."""
    data = comparison.data
    shown = [r for r in comparison.results if r.error is None and r.family.key != "baseline"]
    if data.classes is None or not shown:
        return ""
    y = data.target[comparison.plan.test]
    found = [(r, roc_curves(y, r.predicted)) for r in shown if r.predicted is not None]
    curves = [(result, own[-1]) for result, own in found if own]
    if not curves:
        return ""
    axes = _roc_axes((420, 330))
    for result, (false, true) in reversed(curves):  # the winner last, above all others
        best = " best" if result is comparison.winner else ""
        axes.line(false, true, f"bare {color_class(result.family)}{best}")
    names = "".join(
        f"<span class='swatch {color_class(r.family)}'>{escape(r.family.name)}</span>"
        for r, _ in curves
    )
    about = "test rows; the thick line is the winner's"
    if data.n_classes > 2:
        about += ". Each class against the rest, averaged by the classes' shares"
    drawing = axes.draw("ROC curves of all models")
    body = f"<div class='beside'><figure>{drawing}</figure><div class='names'>{names}</div></div>"
    return part("ROC curves", about, body, anchor)


def _roc_axes(size: tuple[float, float] = (300, 220)) -> svg.Axes:
    axes = svg.Axes(
        _DIAGONAL,
        _DIAGONAL,
        x_label="false positive rate",
        y_label="true positive rate",
        margin=0.0,
        size=size,
    )
    return axes.line(_DIAGONAL, _DIAGONAL, "bare guide")


def _roc(curves: Sequence[tuple[np.ndarray, np.ndarray]]) -> str:
    """Draw the last curve of a model and, faintly, those of single classes."""
    axes = _roc_axes()
    for curve in curves[:-1]:
        axes.line(*curve, "bare faint")
    return axes.line(*curves[-1], "bare best").draw("ROC curve")


def _calibration(y: np.ndarray, predicted: Prediction) -> str:
    found = calibration(y, predicted)
    axes = svg.Axes(
        _DIAGONAL, _DIAGONAL, x_label="predicted probability", y_label="observed share", margin=0.0
    )
    axes.line(_DIAGONAL, _DIAGONAL, "bare guide")
    axes.whiskers(found.predicted, found.low, found.high)
    axes.line(found.predicted, found.observed)
    return figure("Calibration", axes.draw("calibration, with 95 % intervals"))


def _confusion(comparison: Comparison, y: np.ndarray, predicted: Prediction) -> str:
    """Classes by predicted classes: a matrix, or the most frequent mistakes."""
    counts = confusion(y, predicted)
    assert comparison.data.classes is not None
    names = [escape(cut(str(label))) for label in comparison.data.classes]
    if len(names) > _MOST_CLASSES:
        return _mistakes(counts, names)
    total = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rows = [
        [name, *(heat(share, str(n)) for n, share in zip(line, shares, strict=True))]
        for name, line, shares in zip(names, counts, counts / total, strict=True)
    ]
    heads = ["actual \\ predicted", *(cut(str(label)) for label in comparison.data.classes)]
    kind = "matrix" if max(map(len, heads[1:])) > _SHORT else "matrix flat"
    table = html_table(heads, rows, kind=kind, title="confusion matrix")
    return figure("Confusion", table)


def _mistakes(counts: np.ndarray, names: Sequence[str]) -> str:
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    places = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_MISTAKES]
    rows = [
        [names[a], names[b], str(wrong[a, b])]
        for a, b in zip(*np.unravel_index(places, wrong.shape), strict=True)
        if wrong[a, b]
    ]
    table = html_table(["actual", "predicted", "rows"], rows, text=(1,), title="mistakes")
    return figure("Most frequent mistakes", table)


def _of_numbers(comparison: Comparison, predicted: Prediction) -> list[str]:
    """Predicted against actual numbers, and residuals."""
    shown = some(np.arange(len(comparison.plan.test)), _MOST_POINTS)
    y = comparison.data.target[comparison.plan.test][shown].astype(np.float64)
    value = predicted.value[shown]
    both = np.concatenate([y, value])
    ends = [both.min(), both.max()]
    against = svg.Axes(both, both, x_label="predicted", y_label="actual")
    against.line(ends, ends, "bare guide").dots(value, y, "many")
    residual = y - value
    around = svg.Axes(
        value, [*residual, 0.0], x_label="predicted", y_label="actual minus predicted"
    )
    around.line([value.min(), value.max()], [0.0, 0.0], "bare guide").dots(value, residual, "many")
    counts, edges = np.histogram(residual, 20)
    bars = svg.Axes(edges, [0, *counts], x_label="actual minus predicted", y_label="rows")
    return [
        figure("Predicted against actual", against.draw("predicted against actual")),
        figure("Residuals", around.draw("residuals against predictions")),
        figure("Distribution of residuals", bars.bars(edges, counts).draw("residuals")),
    ]
