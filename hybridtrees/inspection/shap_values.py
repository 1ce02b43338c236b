"""Shapley values of the features for the predictions of a model (Lundberg and Lee 2017)."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import check_boolean
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.tree._shap import ShapTrees, add_background_values, add_path_values
from hybridtrees.core.tree.additive import AdditiveForm, additive_form
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.input._user_tables import open_columns
from hybridtrees.inspection._result import Result

Floats = NDArray[np.float64]

# What the scores of a form are, by its link.
_EXPLAINED = {
    "identity": "prediction",
    "exp": "logarithm of the prediction",
    "logistic": "score (log-odds)",
    "softmax": "scores of the classes",
    "shares": "probability",
    "sorted": "prediction, before quantiles are sorted",
    "side": "score",
}


@dataclass
class ShapValues(Result):
    """Shapley values: ``shap.Explanation(**result)`` goes into the plots of the package shap.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features), or (n_rows, n_features, n_outputs)
        The part of each feature in the score of each row. Interactions have one more axis of
        features: entry (i, j) is half of the interaction of i and j, the diagonal is what remains
        of the values.
    base_values : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        The score without any feature; with the values of a row it adds up to its score.
    data : ndarray of shape (n_rows, n_features)
        The rows: numbers, and codes of categories.
    feature_names : list of str
    display_data : ndarray of objects, optional
        The rows with the labels of categories, if there are categories.
    output_names : list of str, optional
        The classes or targets, if there are several outputs.
    explained : str
        What the values add up to. Not among the items of the result.
    """

    values: Floats
    base_values: Floats
    data: NDArray[Any]
    feature_names: list[str]
    display_data: NDArray[Any] | None = None
    output_names: list[str] | None = None
    explained: str = "prediction"

    def keys(self) -> list[str]:
        """Return the names of the arguments of ``shap.Explanation``."""
        names = super().keys()
        return [name for name in names if name != "explained"]


def shap_values(
    estimator: Any,
    X: Any,
    *,
    background: Any = None,
    interactions: bool = False,
    n_jobs: int | None = None,
) -> ShapValues:
    """Shapley values of the features for the score of each row.

    The score of a row is shared out among its features: each gets the mean change of the score when
    it joins the features before it, over all orders of the features. The values and the base add
    up to the score. They are exact: trees by quadrature along their paths, lines in the leaves
    included.

    Parameters
    ----------
    estimator : fitted estimator of hybridtrees
        A model whose scores are sums of trees or lines: trees, forests, boosting, linear trees and
        forests, RERF, EBLR, linear models, and averages of these. Others raise TypeError.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Rows to explain, of the kind seen in fit.
    background : table of shape (n_background, n_features), optional
        Rows that stand for absent features: an absent feature takes its value from each of them in
        turn. Some hundred rows are enough. Without them absent features go both ways at a split,
        in the proportions of the training rows, and regressors of lines count as missing.
    interactions : bool, default=False
        Return the interactions of all pairs of features instead.
    n_jobs : int or None
        Number of threads; that of the model by default. The result does not depend on it.

    Returns
    -------
    result : ShapValues

    Notes
    -----
    What is explained depends on the model (``ShapValues.explained``). For a regressor it is the
    prediction, or its logarithm under a log link. Classifiers by boosting and logistic regression
    have scores (log-odds for two classes), trees and forests have shares of the classes (for two
    classes that of the second).

    References
    ----------
    Lundberg, S. and Lee, S.-I. (2017). A unified approach to interpreting model predictions.
    NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import XGBRegressor
    >>> from hybridtrees.inspection import shap_values
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = XGBRegressor(n_estimators=50).fit(X, 3 * X[:, 0])
    >>> found = shap_values(model, X)
    >>> bool(np.allclose(found.values.sum(axis=1) + found.base_values, model.predict(X)))
    True
    """
    interactions = check_boolean("interactions", interactions)
    if n_jobs is None:
        n_jobs = getattr(estimator, "n_jobs", None)
    how = _How(interactions, effective_threads(n_jobs))
    found = _explain(estimator, X, background, how)
    names = open_columns(X).feature_names(estimator)
    values = found.values if found.pairs is None else found.pairs
    base = np.tile(found.base, (len(values), 1))
    outputs: list[str] | None = _output_names(estimator, len(found.base))
    values = np.moveaxis(values, 1, -1)
    if len(found.base) == 1:
        values, base, outputs = values[..., 0], base[:, 0], None
    data, display = _rows(estimator, X, found.codes)
    return ShapValues(
        np.ascontiguousarray(values), base, data, names, display, outputs, found.explained
    )


@dataclass
class _How:
    interactions: bool
    n_threads: int


@dataclass
class _Explained:
    """Values (n_rows, n_outputs, n_features), interactions, and what they add up to."""

    values: Floats
    pairs: Floats | None
    base: Floats
    explained: str
    codes: NDArray[Any] | None = None

    def plus(self, weight: float, other: _Explained) -> None:
        self.values += weight * other.values
        self.base = self.base + weight * other.base
        if self.pairs is not None and other.pairs is not None:
            self.pairs += weight * other.pairs


def _explain(estimator: Any, X: Any, background: Any, how: _How) -> _Explained:
    if hasattr(estimator, "_explained_members") and not isinstance(estimator, type):
        estimator._check_is_fitted()
        members = estimator._explained_members()
        if members is not None:
            return _explain_members(estimator, members, X, background, how)
    form = linear_form(estimator, "exact Shapley values")
    codes = form.read(X)
    others = None if background is None else _read_background(form, background)
    found = _explain_form(form, codes, others, how)
    found.codes = codes
    return found


def linear_form(estimator: Any, what: str) -> AdditiveForm:
    """Return a model whose scores are linear in its trees; others have no `what`: TypeError."""
    form = additive_form(estimator)
    for _, inner in form.inner:
        if inner.link.kind != "identity":
            raise TypeError(
                f"{type(estimator).__name__} adds up probabilities that are not linear in its "
                f"trees ({inner.link.kind} link): it has no {what}"
            )
    return form


def _read_background(form: AdditiveForm, background: Any) -> NDArray[Any]:
    try:
        return form.read(background)
    except (TypeError, ValueError) as error:  # its message names X
        raise type(error)(f"background: {error}") from error


def _explain_form(
    form: AdditiveForm, codes: NDArray[Any], others: NDArray[Any] | None, how: _How
) -> _Explained:
    n_features = codes.shape[1]
    base, trees = explained_part(form)
    values = np.zeros((len(codes), len(base), n_features))
    pairs = np.zeros((*values.shape, n_features)) if how.interactions else None
    found = _Explained(values, pairs, base.copy(), _EXPLAINED[form.link.kind])
    if trees is not None:
        player = [column.feature for column in form.columns]
        laid = ShapTrees(trees, np.array(player), n_features)
        table = _floats(form.make_columns(codes))
        if others is None:
            add_path_values(laid, table, values, pairs, how.n_threads)
            found.base = base + laid.base
        else:
            rows = _floats(form.make_columns(others))
            add_background_values(laid, table, rows, values, pairs, how.n_threads)
            raw = np.zeros((len(rows), len(base)))
            trees.add_raw(rows, raw, how.n_threads)
            found.base = base + raw.mean(axis=0)
    for weight, inner in form.inner:
        found.plus(weight, _explain_form(inner, codes, others, how))
    return found


def explained_part(form: AdditiveForm) -> tuple[Floats, TreeEnsemble | None]:
    """Return the base and trees of a form; of the shares of two classes those of the second."""
    base, trees = form.base, form.trees
    if form.link.kind == "shares" and len(base) == 2:
        return base[1:], None if trees is None else second_output(trees)
    return base, trees


def second_output(trees: TreeEnsemble) -> TreeEnsemble:
    """Return trees of two classes with the values of the second alone."""
    own = copy.copy(trees)
    own._layout = None
    own.n_outputs = 1
    own.values = np.ascontiguousarray(trees.values[:, 1:])
    own.coef = np.ascontiguousarray(trees.coef[:, 1:])
    if trees.value_range is not None:
        own.value_range = np.ascontiguousarray(trees.value_range[:, :, 1:])
    return own


def _floats(table: NDArray[Any]) -> NDArray[Any]:
    return table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)


def _explain_members(estimator: Any, parts: Any, X: Any, background: Any, how: _How) -> _Explained:
    """Explain a weighted sum of the predictions or probabilities of other models."""
    name = type(estimator).__name__
    base, members, read = parts
    table = read(X)
    others = None if background is None else read(background)
    classes = getattr(estimator, "classes_", None)
    n_outputs = 1 if classes is None or len(classes) == 2 else len(classes)
    columns = open_columns(table)
    total: _Explained | None = None
    for weight, member, features in members:
        part, part_of = table, others
        if features is not None:
            part = columns.select(features).table
            part_of = None if others is None else open_columns(others).select(features).table
        own = _explain(member, part, part_of, how)
        wanted = "prediction" if classes is None else "probability"
        if (
            own.explained != wanted
            or own.values.shape[1] != n_outputs
            or (classes is not None and len(member.classes_) != len(classes))
        ):
            raise TypeError(
                f"the {name} averages a {wanted} of its {type(member).__name__}, whose values "
                f"explain its {own.explained}: they do not add up; explain those in estimators_"
            )
        if features is not None:
            own = _spread(own, features, columns.shape[1])
        if total is None:
            total = _Explained(
                np.zeros_like(own.values),
                None if own.pairs is None else np.zeros_like(own.pairs),
                np.zeros_like(own.base),
                wanted,
            )
        total.plus(float(weight), own)
    if total is None:
        raise TypeError(f"the {name} has no members with a weight")
    total.base = total.base + base
    return total


def _spread(own: _Explained, features: NDArray[Any], n_features: int) -> _Explained:
    """Return the values of some features with zeros for all others."""
    values = np.zeros((*own.values.shape[:2], n_features))
    values[:, :, features] = own.values
    pairs = None
    if own.pairs is not None:
        pairs = np.zeros((*values.shape, n_features))
        pairs[:, :, features[:, None], features] = own.pairs
    return _Explained(values, pairs, own.base, own.explained)


def _output_names(estimator: Any, n_outputs: int) -> list[str]:
    classes = getattr(estimator, "classes_", None)
    if classes is not None and len(classes) == n_outputs:
        return [str(label) for label in classes]
    return [f"y[{k}]" for k in range(n_outputs)]


def _rows(
    estimator: Any, X: Any, codes: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return the rows as numbers, and with the labels of categories."""
    reader = getattr(estimator, "_reader", None)
    if codes is None:
        if reader is not None:
            codes = reader.read_codes(X)
            codes = codes if isinstance(codes, np.ndarray) else codes.toarray()
        else:
            codes, labels = _plain_rows(X)
            return codes, labels
    if reader is None or all(labels is None for labels in reader.categories):
        return codes, None
    display = codes.astype(object)
    for j, labels in enumerate(reader.categories):
        if labels is not None:
            # Codes beyond the labels stand for categories that an imported model does not know.
            known = (codes[:, j] >= 0) & (codes[:, j] < len(labels))
            display[known, j] = np.asarray(labels, dtype=object)[codes[known, j].astype(np.intp)]
            display[~known, j] = None
    return codes, display


def _plain_rows(X: Any) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return the rows of a table that no reader knows; categories are numbered as they come."""
    columns = open_columns(X)
    n_rows, n_features = columns.shape
    data, display, labelled = np.empty((n_rows, n_features)), None, False
    shown = np.empty((n_rows, n_features), dtype=object)
    for j in range(n_features):
        own = columns.column(j)
        shown[:, j] = own
        if columns.is_category(j):
            labelled = True
            _, place = np.unique([str(value) for value in own], return_inverse=True)
            data[:, j] = place
        else:
            data[:, j] = np.asarray(own, dtype=np.float64)
    if labelled:
        display = shown
    return data, display


# ---- For the package shap ---------------------------------------------------------------------


def to_shap(estimator: Any) -> dict[str, Any]:
    """Return a model as the dictionary that ``shap.TreeExplainer`` takes.

    Parameters
    ----------
    estimator : fitted estimator of hybridtrees
        With constant leaves and splits of numbers. Others raise TypeError: shap cannot represent
        them, `shap_values` explains them.

    Returns
    -------
    model : dict
        Trees, offset and types, in the form documented by shap.
    """
    form, name = additive_form(estimator), type(estimator).__name__
    trees = form.trees
    if form.inner or trees is None or any(column.kind != "value" for column in form.columns):
        raise TypeError(f"shap has no form for {name}: use shap_values")
    base = form.base
    if form.link.kind == "shares" and len(base) == 2:
        base, trees = base[1:], second_output(trees)
    nodes = trees.nodes
    inner = nodes["left"] >= 0
    for there, what in (
        (len(trees.coef_feature) > 0 or trees.value_range is not None, "linear leaves"),
        (bool((nodes["category_start"] >= 0).any()), "splits of categories"),
        (bool((nodes["missing_left"][inner] > 1).any()), "rows that end at inner nodes"),
    ):
        if there:
            raise TypeError(f"shap has no {what}, which this {name} has: use shap_values")
    return {
        "trees": [_shap_tree(trees, k) for k in range(trees.n_trees)],
        "base_offset": float(base[0]) if len(base) == 1 else base.copy(),
        "tree_output": "raw_value",
        "internal_dtype": np.float64,
        "input_dtype": np.float64,
    }


def _shap_tree(trees: TreeEnsemble, index: int) -> dict[str, Any]:
    tree = trees[index]
    nodes, inner = tree.nodes, tree.nodes["left"] >= 0
    values = tree.values
    if values.shape[1] < trees.n_outputs:
        values = np.zeros((len(nodes), trees.n_outputs))
        values[:, trees.tree_output[index]] = tree.values[:, 0]
    to_left = nodes["missing_left"] == 1
    weight = nodes["weight"] if nodes["weight"][0] > 0 else nodes["n_samples"]
    return {
        "children_left": np.where(inner, nodes["left"], -1),
        "children_right": np.where(inner, nodes["right"], -1),
        "children_default": np.where(inner, np.where(to_left, nodes["left"], nodes["right"]), -1),
        "features": np.where(inner, nodes["feature"], -2),
        "thresholds": np.where(inner, nodes["threshold"], -2.0),
        "values": values,
        "node_sample_weight": weight.astype(np.float64),
    }
