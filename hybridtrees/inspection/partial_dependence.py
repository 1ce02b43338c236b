"""Partial dependence and individual conditional expectation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from hybridtrees._parameters import check_integer, check_option
from hybridtrees.input._user_tables import Columns, is_missing, open_columns
from hybridtrees.input.targets import check_sample_weight
from hybridtrees.inspection._recursion import known_scores
from hybridtrees.inspection._result import Result

GRIDS = ("linear", "quantile")
KINDS = ("average", "individual", "both")
METHODS = ("brute", "recursion")
RESPONSES = ("auto", "predict_proba", "decision_function", "predict_raw", "predict")
# Rows per call of predict: enough to make calls cheap, few enough to bound the memory.
BATCH_ROWS = 1 << 15


@dataclass
class PartialDependence(Result):
    """Partial dependence of a model on one or two features.

    Attributes
    ----------
    grid_values : list of ndarray
        The values of each feature.
    average : ndarray of shape (n_outputs, n_values, ...) or None
        Mean prediction, one axis per feature.
    individual : ndarray of shape (n_outputs, n_rows, n_values, ...) or None
        Prediction of every row.
    feature_indices : list of int
    feature_names : list of str
    is_categorical : list of bool
        Whether each feature is categorical.
    output_names : list of str
        Class of each output; two classes have one output, that of the second class. In regression
        "y", or "y[0]" and so on.
    """

    grid_values: list[np.ndarray]
    average: np.ndarray | None
    individual: np.ndarray | None
    feature_indices: list[int]
    feature_names: list[str]
    is_categorical: list[bool]
    output_names: list[str]


def partial_dependence(
    estimator: Any,
    X: Any,
    features: int | str | Sequence[int | str],
    *,
    sample_weight: Any = None,
    kind: str = "average",
    response_method: str = "auto",
    method: str = "brute",
    grid: str = "linear",
    grid_resolution: int = 100,
    percentiles: tuple[float, float] = (0.05, 0.95),
    custom_values: Mapping[int | str, Any] | None = None,
) -> PartialDependence:
    """Partial dependence of the predictions on one or two features.

    At every point of the grid the features are set to its values in all rows of `X`, and the
    predictions of the rows are averaged (Friedman 2001) or kept apart (individual conditional
    expectation, Goldstein et al. 2015).

    Parameters
    ----------
    estimator : fitted estimator
        Any with `predict`, or one of the other methods of `response_method`.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Rows to average over, of the kind seen in fit.
    features : int, str, or a sequence of one or two of these
        Features to vary.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights of the averages and of the quantiles of the grid.
    kind : {"average", "individual", "both"}, default="average"
        What to return.
    response_method : {"auto", "predict_proba", "decision_function", "predict_raw", "predict"}
        Method to call. "auto" is `predict` for regressors, and `predict_proba` for classifiers, or
        `decision_function` if they have no probabilities.
    method : {"brute", "recursion"}, default="brute"
        "recursion" takes the average from the trees, at a small part of the time: a row goes both
        ways at a split on another feature, in the proportions of the training rows. `X` gives only
        the grid. What is averaged are the scores that `shap_values` explains: predictions of
        regressors, log-odds or shares of the classes. Other models than sums of trees or lines
        raise TypeError.
    grid : {"linear", "quantile"}, default="linear"
        Whether the points of a numeric feature are equally spaced or at quantiles of the rows.
    grid_resolution : int, default=100
        Points per feature. A feature with fewer distinct values has these as its grid.
    percentiles : pair of float, default=(0.05, 0.95)
        Lower and upper end of the grid, as shares of the rows.
    custom_values : dict, optional
        Grids given by the user, by feature.

    Returns
    -------
    result : PartialDependence
        Missing values are not in the grid; the grid of a category has the levels found in `X`.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import XGBRegressor
    >>> from hybridtrees.inspection import partial_dependence
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = XGBRegressor(n_estimators=50).fit(X, 3 * X[:, 0])
    >>> result = partial_dependence(model, X, 0, custom_values={0: [-1.0, 1.0]})
    >>> result.average.round()
    array([[-3.,  3.]])
    """
    check_option("kind", kind, KINDS)
    check_option("grid", grid, GRIDS)
    resolution = int(check_integer("grid_resolution", grid_resolution, 2) or 0)
    percentiles = _check_percentiles(percentiles)
    check_option("method", method, METHODS)
    respond = response(estimator, response_method)
    if method == "recursion":
        _check_recursion(kind, response_method, sample_weight)
    columns = open_columns(X)
    weight = check_sample_weight(sample_weight, columns.shape[0])
    indices = _feature_indices(columns, features)
    given = _custom_grids(columns, custom_values)
    labels = [_labels(estimator, columns, index) for index in indices]
    grids = [
        given[index]
        if index in given
        else _feature_grid(columns, index, known, weight, resolution, percentiles, grid)
        for index, known in zip(indices, labels, strict=True)
    ]
    average: np.ndarray | None
    individual: np.ndarray | None = None
    if method == "recursion":
        average = _by_recursion(estimator, columns, indices, grids)
    else:
        average, individual = _evaluate(respond, columns, indices, grids, kind, weight)
    names = columns.feature_names(estimator)
    n_outputs = len(average if average is not None else individual)  # type: ignore[arg-type]
    return PartialDependence(
        grids,
        average,
        individual,
        indices,
        [names[j] for j in indices],
        [known is not None for known in labels],
        _output_names(estimator, n_outputs),
    )


def _check_recursion(kind: str, response_method: str, sample_weight: Any) -> None:
    for name, fits, wanted in (
        ("kind='average'", kind == "average", "there are no predictions of single rows"),
        ("response_method='auto'", response_method == "auto", "it averages scores"),
        ("sample_weight=None", sample_weight is None, "it uses the weights of the training rows"),
    ):
        if not fits:
            raise ValueError(f"method='recursion' needs {name}: {wanted}")


def _by_recursion(
    estimator: Any, columns: Columns, indices: list[int], grids: list[np.ndarray]
) -> np.ndarray:
    """Return the mean scores at all points of the grid, from the trees alone."""
    shape = tuple(len(values) for values in grids)
    places = [place.ravel() for place in np.indices(shape)]
    table = columns.take(np.zeros(len(places[0]), dtype=np.intp)).replaced(
        {j: values[place] for j, values, place in zip(indices, grids, places, strict=True)}
    )
    return known_scores(estimator, table, indices).T.reshape(-1, *shape)


def response(estimator: Any, method: str) -> Any:
    """Return a function from a table to predictions of shape (n_rows, n_outputs)."""
    check_option("response_method", method, RESPONSES)
    is_classifier = hasattr(estimator, "classes_")
    order = ("predict_proba", "decision_function") if is_classifier else ("predict",)
    names = order if method == "auto" else (method,)
    name = next((name for name in names if hasattr(estimator, name)), None)
    if name is None:
        raise ValueError(
            f"response_method={method!r} needs {' or '.join(names)}, which "
            f"{type(estimator).__name__} does not have"
        )
    if is_classifier and name == "predict":
        raise ValueError("response_method='predict' gives labels, which have no mean")

    def respond(table: Any) -> np.ndarray:
        values = np.asarray(getattr(estimator, name)(table), dtype=np.float64)
        values = values[:, None] if values.ndim == 1 else values
        # Of two probabilities one is enough.
        return values[:, 1:] if name == "predict_proba" and values.shape[1] == 2 else values

    return respond


def _evaluate(
    respond: Any,
    columns: Columns,
    indices: list[int],
    grids: list[np.ndarray],
    kind: str,
    weight: np.ndarray | None,
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Predict at all points of the grid, several points per call."""
    n_rows = columns.shape[0]
    shape = tuple(len(values) for values in grids)
    places = [place.ravel() for place in np.indices(shape)]
    n_points = len(places[0])
    n_at_once = max(1, min(n_points, BATCH_ROWS // n_rows))
    averages, individuals = [], []
    repeated = columns
    for start in range(0, n_points, n_at_once):
        stop = min(start + n_at_once, n_points)
        if stop - start > 1 and repeated.shape[0] != (stop - start) * n_rows:
            repeated = columns.take(np.tile(np.arange(n_rows), stop - start))
        elif stop - start == 1:
            repeated = columns
        table = repeated.replaced(
            {
                index: np.repeat(values[place[start:stop]], n_rows)
                for index, values, place in zip(indices, grids, places, strict=True)
            }
        )
        predictions = respond(table).reshape(stop - start, n_rows, -1)
        if kind != "individual":
            averages.append(np.average(predictions, axis=1, weights=weight))
        if kind != "average":
            individuals.append(predictions)
    average = individual = None
    if averages:
        average = np.concatenate(averages).T.reshape(-1, *shape)
    if individuals:
        individual = np.concatenate(individuals).transpose(2, 1, 0).reshape(-1, n_rows, *shape)
    return average, individual


def _feature_indices(columns: Columns, features: Any) -> list[int]:
    if isinstance(features, str) or np.ndim(features) == 0:
        features = [features]
    features = list(features)
    if len(features) not in (1, 2):
        raise ValueError(f"features must hold one or two columns, got {len(features)}")
    indices = [columns.index(feature) for feature in features]
    if len(set(indices)) < len(indices):
        raise ValueError(f"features must hold different columns, got {features!r}")
    return indices


def _labels(estimator: Any, columns: Columns, index: int) -> np.ndarray | None:
    """Return the labels of a categorical column in the order of fit; None for numbers."""
    reader = getattr(estimator, "_reader", None)
    categories = getattr(reader, "categories", None)
    if categories is not None and len(categories) == columns.shape[1]:
        return cast(np.ndarray | None, categories[index])
    return np.array([], dtype=object) if columns.is_category(index) else None


def _check_percentiles(percentiles: Any) -> tuple[float, float]:
    values = np.asarray(percentiles, dtype=np.float64)
    if values.shape != (2,) or not 0 <= values[0] < values[1] <= 1:
        raise ValueError(
            f"percentiles must be two numbers from 0 to 1, the lower first, got {percentiles!r}"
        )
    return float(values[0]), float(values[1])


def _output_names(estimator: Any, n_outputs: int) -> list[str]:
    classes = getattr(estimator, "classes_", None)
    if classes is not None and len(classes) == 2 and n_outputs == 1:
        return [str(classes[1])]
    if classes is not None and len(classes) == n_outputs:
        return [str(label) for label in classes]
    return ["y"] if n_outputs == 1 else [f"y[{k}]" for k in range(n_outputs)]


# ---- Grids ------------------------------------------------------------------------------------


def weighted_quantiles(
    values: np.ndarray, weight: np.ndarray | None, shares: np.ndarray
) -> np.ndarray:
    """Return the smallest values up to which the weight reaches the given shares of the total.

    If a share falls exactly between two values it is their mean, so that a weight of 2 is the same
    as a repeated row.
    """
    shares = np.asarray(shares, dtype=np.float64)
    slack = 1e-12  # the sums are rounded
    if weight is None:
        n = len(values)
        low = np.ceil(n * (shares - slack)).astype(np.intp) - 1
        high = np.floor(n * (shares + slack)).astype(np.intp)
        low, high = np.clip(low, 0, n - 1), np.clip(high, 0, n - 1)
        values = np.sort(values)  # by vectors: quicker than to partition at several places
    else:
        order = np.argsort(values, kind="stable")
        order = order[weight[order] > 0]
        values, total = values[order], np.cumsum(weight[order], dtype=np.float64)
        low = np.searchsorted(total, total[-1] * (shares - slack), side="left")
        high = np.searchsorted(total, total[-1] * (shares + slack), side="right")
        low, high = np.minimum(low, len(values) - 1), np.minimum(high, len(values) - 1)
    middle: np.ndarray = (values[low] + values[high]) / 2
    return middle


def _feature_grid(
    columns: Columns,
    index: int,
    labels: np.ndarray | None,
    weight: np.ndarray | None,
    resolution: int,
    percentiles: tuple[float, float],
    grid: str,
) -> np.ndarray:
    """Return the grid of one feature: its levels, its distinct values if few, or a range."""
    values = np.ascontiguousarray(columns.column(index))
    known = ~is_missing(values)
    if not known.any():
        raise ValueError(f"column {index} of X holds no value at all: give its custom_values")
    values = values if known.all() else values[known]
    if labels is not None:
        return _levels(values, labels)
    values = values.astype(np.float64) if values.dtype.kind == "O" else values
    # The first rows tell of most features that they have many values.
    if len(np.unique(values[: 10 * resolution])) < resolution:
        distinct = np.unique(values)
        if len(distinct) < resolution:
            return distinct
    weight = None if weight is None else weight[known]
    if weight is not None and not (weight > 0).any():
        weight = None
    shares = np.array(percentiles)
    if grid == "quantile":
        shares = np.linspace(*percentiles, resolution)
        return np.unique(weighted_quantiles(values.astype(np.float64, copy=False), weight, shares))
    low, high = weighted_quantiles(values.astype(np.float64, copy=False), weight, shares)
    if low == high:
        raise ValueError(
            f"percentiles {percentiles} of column {index} of X are equal ({low}): choose others, "
            'grid="quantile", or custom_values'
        )
    return np.linspace(low, high, resolution)


def _levels(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the levels that occur, those known to the model first and in its order."""
    place = {str(label): k for k, label in enumerate(labels.tolist())}

    def rank(level: Any) -> tuple[int, str]:
        text = str(float(level)) if labels.dtype.kind == "f" else str(level)
        return place.get(text, len(place)), text

    levels = sorted(dict.fromkeys(values.tolist()), key=rank)
    if any(isinstance(level, str) for level in levels):
        return np.array(levels, dtype=object)
    return np.array(levels)


def _custom_grids(columns: Columns, given: Mapping[Any, Any] | None) -> dict[int, np.ndarray]:
    """Return the grids given by the user, by column number."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(
            f"custom_values must be a dict from features to values, got {type(given).__name__}"
        )
    grids = {}
    for feature, points in given.items():
        values = np.asarray(points)
        if values.dtype.kind in "UST":
            values = values.astype(object)
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(
                f"custom_values[{feature!r}] must be a sequence of at least one value, got the "
                f"shape {values.shape}"
            )
        grids[columns.index(feature, "custom_values")] = values
    return grids
