"""Importances, ROC curves and decision surfaces by matplotlib, which is imported when needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridtrees._parameters import check_integer
from hybridtrees.input._user_tables import Columns, is_missing, open_columns
from hybridtrees.input.targets import check_target_classification
from hybridtrees.inspection.importance import PermutationImportance
from hybridtrees.inspection.partial_dependence import partial_dependence
from hybridtrees.inspection.plots import pyplot
from hybridtrees.metrics import roc_auc_score, roc_curve

_POINTS = 1000  # rows that a decision surface shows at most


def plot_importance(
    model: Any,
    X: Any = None,
    *,
    max_features: int | None = 20,
    feature_names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the importance of features as bars, the largest on top.

    Parameters
    ----------
    model : fitted estimator or PermutationImportance
        A model with `feature_importances_`, or with `coef_`, whose absolute values are drawn; or
        the result of `permutation_importance`, drawn with the standard deviations of its repeats.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features), optional
        Rows, such as those of `fit`, for models with `coef_`: coefficients are multiplied by the
        standard deviations of the features, so that they can be compared. Without rows they
        depend on units: a coefficient per metre is a thousand times that per millimetre. Other
        models do not need them.
    max_features : int or None, default=20
        Number of features to draw; None draws all.
    feature_names : sequence of str, optional
        By default those that the model knows.
    ax : matplotlib Axes, optional
        By default the current ones.

    Returns
    -------
    ax : matplotlib Axes
    """
    count = check_integer("max_features", max_features, 1, allow_none=True)
    spread = None
    known: Sequence[str] | None
    if isinstance(model, PermutationImportance):
        values, spread, known = model.importances_mean, model.importances_std, model.feature_names
        label = "loss of score when shuffled"
    else:
        values, label = _importance_of(model, X)
        known = getattr(model, "feature_names_in_", None)
    given = known if feature_names is None else feature_names
    names = [f"feature_{j}" for j in range(len(values))] if given is None else list(given)
    if len(names) != len(values):
        raise ValueError(
            f"feature_names must have one name for each of the {len(values)} features, "
            f"got {len(names)}"
        )
    order = np.argsort(-values, kind="stable")[:count][::-1]
    ax = pyplot().gca() if ax is None else ax
    ax.barh(np.arange(len(order)), values[order], xerr=None if spread is None else spread[order])
    ax.set_yticks(np.arange(len(order)), [str(names[j]) for j in order])
    ax.set_xlabel(label)
    return ax


def _importance_of(model: Any, X: Any) -> tuple[np.ndarray, str]:
    """One number for each feature, and what it is."""
    if hasattr(model, "feature_importances_"):
        return np.asarray(model.feature_importances_, dtype=float), "importance"
    if hasattr(model, "coef_"):
        size = np.abs(np.asarray(model.coef_, dtype=float))
        size = size if size.ndim == 1 else size.mean(axis=0)
        if X is None:
            return size, "absolute coefficient, per unit of each feature"
        return size * _deviations(model, X, len(size)), "absolute coefficient x standard deviation"
    raise ValueError(
        "model must be fitted and have feature_importances_ or coef_, or be the result of "
        f"permutation_importance, got {type(model).__name__}"
    )


def _deviations(model: Any, X: Any, n_features: int) -> np.ndarray:
    """Return the standard deviations of the features; 1 for categories.

    The coefficient of a category is the standard deviation of the effects of its levels already.
    """
    columns = open_columns(X)
    if columns.shape[1] != n_features:
        raise ValueError(f"X must have {n_features} columns, got {columns.shape[1]}")
    reader = getattr(model, "_reader", None)
    found = np.ones(n_features)
    statistics = None if reader is None else reader.statistics
    for j in range(n_features):
        if reader is not None and statistics is not None and j in statistics.features:
            found[j] = reader.read(X)[:, j].std()
        elif not (columns.is_category(j) if reader is None else reader.is_categorical[j]):
            values = np.asarray(columns.column(j), dtype=float)
            found[j] = values[~np.isnan(values)].std() if not np.isnan(values).all() else 0.0
    return found


def plot_roc_curve(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    label: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw the ROC curve of a classifier, or one for each of more than two classes.

    Parameters
    ----------
    estimator : fitted classifier
        With `predict_proba` or `decision_function`.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Rows that were not used in fit.
    y : array-like of shape (n_rows,)
        Their classes.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.
    label : str, optional
        What the legend calls the model; its class by default. The area is added.
    ax : matplotlib Axes, optional
        By default the current ones, so that curves of several models share them.

    Returns
    -------
    ax : matplotlib Axes
    """
    if not hasattr(estimator, "classes_"):
        raise ValueError(f"estimator must be a fitted classifier, got {type(estimator).__name__}")
    classes = estimator.classes_
    codes, _ = check_target_classification(y, classes=classes)
    method = "predict_proba" if hasattr(estimator, "predict_proba") else "decision_function"
    scores = np.asarray(getattr(estimator, method)(X), dtype=float)
    title = type(estimator).__name__ if label is None else label
    ax = pyplot().gca() if ax is None else ax
    shown = [1] if len(classes) == 2 else range(len(classes))
    for k in shown:
        score = scores if scores.ndim == 1 else scores[:, k]
        hit = codes == k
        if hit.all() or not hit.any():
            continue  # without rows of both kinds there is no curve
        rate = roc_curve(hit, score, sample_weight=sample_weight)
        area = roc_auc_score(hit, score, sample_weight=sample_weight)
        name = title if len(classes) == 2 else f"{title}, {classes[k]}"
        ax.plot(rate[0], rate[1], label=f"{name} ({area:.3f})")
    ax.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1)
    ax.set_xlabel("false positive rate")
    ax.set_ylabel("true positive rate")
    ax.set_aspect("equal")
    ax.legend(loc="lower right", fontsize="small")
    return ax


def plot_decision_surface(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    features: tuple[int | str, int | str] = (0, 1),
    grid_resolution: int = 100,
    ax: Any = None,
) -> Any:
    """Draw what a model predicts over the plane of two numeric features.

    The other features stay at the median of the rows, categories at the most frequent one.
    Regressors and classifiers of two classes give a map of the prediction or the probability of
    the second class; for more classes the colour is that of the most probable one.

    Parameters
    ----------
    estimator : fitted estimator
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Rows, which give the range of the axes and are drawn as points (at most 1000 of them).
    y : array-like of shape (n_rows,), optional
        Target, for the colour of the points.
    features : pair of int or str, default=(0, 1)
        The features of the horizontal and the vertical axis.
    grid_resolution : int, default=100
        Points of each axis.
    ax : matplotlib Axes, optional
        By default the current ones.

    Returns
    -------
    ax : matplotlib Axes
    """
    resolution = check_integer("grid_resolution", grid_resolution, 2)
    columns = open_columns(X)
    if isinstance(features, str) or len(features) != 2:
        raise ValueError(f"features must be a pair of columns, got {features!r}")
    pair = [columns.index(feature) for feature in features]
    values = []
    for index in pair:
        if columns.is_category(index):
            raise ValueError(f"features must be numeric, but {features} holds categories")
        values.append(np.asarray(columns.column(index), dtype=float))
    ends = [_range_of(v) for v in values]
    grids: dict[int | str, np.ndarray] = {
        j: np.linspace(*end, resolution) for j, end in zip(pair, ends, strict=True)
    }
    result = partial_dependence(estimator, _typical_row(columns, pair), pair, custom_values=grids)
    assert result.average is not None
    classes = getattr(estimator, "classes_", None)
    surface = result.average[0] if len(result.average) == 1 else result.average.argmax(axis=0)
    ax = pyplot().gca() if ax is None else ax
    several = len(result.average) > 1
    if several and classes is None:
        raise ValueError("a decision surface shows one output, but the model has several")
    mesh = ax.pcolormesh(
        *grids.values(), surface.T, shading="nearest", alpha=0.6, rasterized=True,
        cmap="tab10" if several else "viridis" if classes is None else "coolwarm",
        vmin=None if classes is None else 0, vmax=9 if several else None if classes is None else 1,
    )  # fmt: skip
    if not several:
        ax.figure.colorbar(mesh, ax=ax, label=_surface_label(classes))
    step = max(1, -(-len(values[0]) // _POINTS))
    points = [v[::step] for v in values]
    if y is None:
        ax.scatter(*points, s=8, color="black", alpha=0.5)
    elif classes is None:
        ax.scatter(*points, s=10, c=np.asarray(y)[::step], cmap="viridis", edgecolor="black",
                   linewidth=0.3, vmin=mesh.norm.vmin, vmax=mesh.norm.vmax)  # fmt: skip
    else:
        codes = check_target_classification(y, classes=classes)[0][::step]
        for k, name in enumerate(classes):
            color = f"C{k}" if several else mesh.cmap(k * 0.999)
            ax.scatter(points[0][codes == k], points[1][codes == k], s=10, color=color,
                       edgecolor="black", linewidth=0.3, label=str(name))  # fmt: skip
        ax.legend(fontsize="small")
    ax.set_xlabel(result.feature_names[0])
    ax.set_ylabel(result.feature_names[1])
    return ax


def _surface_label(classes: Any) -> str:
    return "prediction" if classes is None else f"probability of {classes[1]}"


def _range_of(values: np.ndarray) -> tuple[float, float]:
    """Return the range of the values with a twentieth on each side."""
    known = values[np.isfinite(values)]
    if not len(known):
        raise ValueError("features must have a value in some row")
    low, high = float(known.min()), float(known.max())
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def _typical_row(columns: Columns, moved: list[int]) -> Any:
    """One row: medians of the numbers, and the most frequent categories."""
    row = columns.take(np.array([0]))
    typical = {}
    for index in range(columns.shape[1]):
        values = columns.column(index)
        values = values[~is_missing(values)]
        if index in moved or not len(values):
            continue
        if columns.is_category(index):
            levels, counts = np.unique(values.astype(str), return_counts=True)
            wanted = levels[np.argmax(counts)]
            typical[index] = np.array([v for v in values if str(v) == wanted][:1], dtype=object)
        else:
            typical[index] = np.array([np.median(values.astype(float))])
    return row.replaced(typical) if typical else row.table
