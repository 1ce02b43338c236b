"""Accumulated local effects (Apley and Zhu 2020), and plots of them and of learning curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import check_integer
from hybridtrees.input._user_tables import is_missing, open_columns
from hybridtrees.input.targets import check_sample_weight
from hybridtrees.inspection._result import Result
from hybridtrees.inspection.partial_dependence import _output_names, response, weighted_quantiles
from hybridtrees.inspection.plots import pyplot


@dataclass
class AccumulatedLocalEffects(Result):
    """Accumulated local effects of a model on one numeric feature.

    Attributes
    ----------
    grid_values : ndarray of shape (n_values,)
        Edges of the intervals of the feature.
    effects : ndarray of shape (n_outputs, n_values)
        Effect at each edge; its mean over the rows is 0.
    weights : ndarray of shape (n_values - 1,)
        Number of rows, or their weight, in each interval.
    feature_name : str
    output_names : list of str
    """

    grid_values: NDArray[np.float64]
    effects: NDArray[np.float64]
    weights: NDArray[np.float64]
    feature_name: str
    output_names: list[str]


def accumulated_local_effects(
    estimator: Any,
    X: Any,
    feature: int | str,
    *,
    sample_weight: Any = None,
    response_method: str = "auto",
    n_intervals: int = 40,
) -> AccumulatedLocalEffects:
    """Accumulated local effects of the predictions on one numeric feature.

    The range of the feature is divided into intervals of equally many rows. In each interval the
    rows that lie in it are predicted with the feature at both ends; the mean differences are added
    up. Unlike partial dependence, no row is moved to where there is no data, so that correlated
    features do not mislead.

    Parameters
    ----------
    estimator : fitted estimator
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Rows, of the kind seen in fit. Those where the feature is missing are left out.
    feature : int or str
        The feature, by number or name. It must hold numbers: categories have no order.
    sample_weight : array-like of shape (n_rows,), optional
    response_method : {"auto", "predict_proba", "decision_function", "predict_raw", "predict"}
        Method to call, as for `partial_dependence`.
    n_intervals : int, default=40
        Number of intervals; fewer if values repeat.

    Returns
    -------
    result : AccumulatedLocalEffects

    References
    ----------
    Apley, D. and Zhu, J. (2020). Visualizing the effects of predictor variables in black box
    supervised learning models. Journal of the Royal Statistical Society B 82(4).

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import LinearRegressor
    >>> from hybridtrees.inspection import accumulated_local_effects
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> model = LinearRegressor().fit(X, 3 * X[:, 0])
    >>> result = accumulated_local_effects(model, X, 0, n_intervals=2)
    >>> bool(np.ptp(result.effects) > 0)
    True
    """
    count = int(check_integer("n_intervals", n_intervals, 1) or 1)
    respond = response(estimator, response_method)
    columns = open_columns(X)
    index = columns.index(feature, "feature")
    if columns.is_category(index):
        raise ValueError(
            f"feature must hold numbers, but column {feature!r} holds categories, which have no "
            "order: use partial_dependence"
        )
    weight = check_sample_weight(sample_weight, columns.shape[0])
    weight = np.ones(columns.shape[0]) if weight is None else weight
    values = columns.column(index)
    known = np.flatnonzero(~is_missing(values) & (weight > 0))
    if not len(known):
        raise ValueError(f"column {feature!r} of X holds no value at all in rows with a weight")
    at, weight = values[known].astype(np.float64), weight[known]
    shares = np.linspace(0.0, 1.0, count + 1)
    edges = np.unique(weighted_quantiles(at, weight, shares))
    names = columns.feature_names(estimator)
    if len(edges) < 2:
        raise ValueError(f"column {feature!r} of X has a single value, {edges[0]}: no effect")
    place = np.clip(np.searchsorted(edges, at, side="left"), 1, len(edges) - 1)
    rows = columns.take(known)
    ends = [respond(rows.replaced({index: edges[place - k]})) for k in (1, 0)]
    moved = weight[:, None] * (ends[1] - ends[0])
    total = np.bincount(place - 1, weight, len(edges) - 1).astype(np.float64, copy=False)
    sums = np.stack([np.bincount(place - 1, column, len(edges) - 1) for column in moved.T])
    steps = np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)
    effects = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
    middle = (effects[:, 1:] + effects[:, :-1]) / 2
    effects -= (middle @ total / total.sum())[:, None]
    return AccumulatedLocalEffects(
        edges, effects, total, names[index], _output_names(estimator, len(effects))
    )


def plot_accumulated_local_effects(
    estimator: Any, X: Any, feature: int | str, *, ax: Any = None, **options: Any
) -> Any:
    """Plot the accumulated local effects of a model on a feature.

    Parameters
    ----------
    estimator : fitted estimator
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
    feature : int or str
    ax : matplotlib Axes, optional
        By default the current ones.
    **options
        Arguments of `accumulated_local_effects`.

    Returns
    -------
    ax : matplotlib Axes
    """
    result = accumulated_local_effects(estimator, X, feature, **options)
    ax = pyplot().gca() if ax is None else ax
    for name, effect in zip(result.output_names, result.effects, strict=True):
        ax.plot(result.grid_values, effect, label=name)
    ax.axhline(0.0, color="grey", linewidth=1, zorder=0)
    if len(result.output_names) > 1:
        ax.legend(fontsize="small")
    ax.set_xlabel(result.feature_name)
    ax.set_ylabel("accumulated local effect")
    return ax


def plot_metric(estimator: Any, metric: str | None = None, *, ax: Any = None) -> Any:
    """Plot the learning curves of a model: its scores after every round.

    Parameters
    ----------
    estimator : fitted estimator
        A boosted model fitted with validation tables, or one that keeps the losses or out-of-bag
        errors of its rounds.
    metric : str, optional
        Name of the metric; needed if there are several.
    ax : matplotlib Axes, optional
        By default the current ones.

    Returns
    -------
    ax : matplotlib Axes
    """
    curves = _curves(estimator)
    names = sorted({name for own in curves.values() for name in own})
    if metric is None and len(names) == 1:
        metric = names[0]
    if metric not in names:
        raise ValueError(f"metric must be one of {names}, got {metric!r}")
    ax = pyplot().gca() if ax is None else ax
    for table, own in curves.items():
        if metric in own:
            scores = np.asarray(own[metric], dtype=np.float64)
            ax.plot(np.arange(1, len(scores) + 1), scores, label=table)
    best = getattr(estimator, "_best_round", lambda: None)()
    if best is not None:
        ax.axvline(best + 1, color="grey", linestyle=":", linewidth=1, label="best round")
    ax.set_xlabel("round")
    ax.set_ylabel(metric)
    ax.legend(fontsize="small")
    return ax


def _curves(estimator: Any) -> dict[str, dict[str, Any]]:
    """Scores by table and metric."""
    if hasattr(estimator, "_check_is_fitted") and not isinstance(estimator, type):
        estimator._check_is_fitted()
    known = vars(estimator) if hasattr(estimator, "__dict__") else {}
    given = known.get("_evals_result") or known.get("evals_result_") or {}
    curves = {str(table): dict(own) for table, own in given.items()}
    if "train_score_" in known:
        curves.setdefault("training", {})["loss"] = known["train_score_"]
    for name, table, metric in (
        ("oob_scores_", "out of bag", "loss"),
        ("oob_curve_", "out of bag", "error"),
        ("train_losses_", "training", "loss"),
    ):
        if known.get(name) is not None and np.ndim(known[name]) == 1:
            curves.setdefault(table, {})[metric] = known[name]
    if not curves:
        raise ValueError(
            f"this {type(estimator).__name__} has no scores of rounds: fit it with validation "
            "tables (eval_set, or X_val and y_val)"
        )
    return curves
