"""A fitted model as a sum of trees: what SHAP values, exports and compiled predictors read.

The scores of almost every model are a constant plus the values of trees: those of boosting have the
learning rate in their values, those of a forest the share of a tree. A regression is a tree of a
single node with a linear leaf, and a rule is a small tree with the coefficient in some leaves. What
the trees read are columns made of the features, one by one. A model that averages probabilities
adds the linked scores of other forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.tree.tree import Tree, TreeEnsemble

Floats = NDArray[np.float64]
ColumnKind = Literal["value", "table", "indicator", "missing"]
LinkKind = Literal["identity", "exp", "logistic", "softmax", "shares", "sorted", "side"]

_LARGEST_LOG = 709.0  # of a float64


@dataclass(frozen=True, eq=False)
class Column:
    """A column that trees read, made of one feature.

    "value" is the number, or the code of the category. "table" has a number for each code, the
    first for missing values and codes beyond the table. "indicator" is 1 where the feature has the
    code `code`, NaN where it is missing. "missing" is 1 where the feature is missing, else 0.
    """

    feature: int
    kind: ColumnKind = "value"
    code: int = -1
    table: Floats | None = None

    def make(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the column for the values of its feature."""
        if self.kind == "value":
            return values
        gone = np.isnan(values)
        if self.kind == "missing":
            return gone.astype(np.float64)
        if self.kind == "indicator":
            return np.where(gone, np.nan, values == self.code)
        assert self.table is not None
        place = np.where(gone, -1, values).astype(np.intp) + 1
        return self.table[np.where(place < len(self.table), place, 0)]


@dataclass(frozen=True)
class Link:
    """From scores to predictions.

    "identity" and "exp" make numbers; "sorted" sorts the scores of a row in the order of `levels`.
    The others make probabilities of classes: "logistic" and "side" (the sign) of one score for two
    classes, or of one for each of several targets; "softmax" of one score for each class; "shares"
    are probabilities already, which are limited to [0, 1] and divided by their sum, of two classes
    perhaps only that of the second. With `of_numbers` one score makes one number, as a regression
    of shares does. Scores are multiplied by `scale` first.
    """

    kind: LinkKind = "identity"
    scale: float = 1.0
    levels: tuple[float, ...] = ()
    of_numbers: bool = False

    def apply(self, scores: Floats) -> Floats:
        """Return predictions, (n_rows, n_predictions), from scores (n_rows, n_scores)."""
        scores = scores * self.scale if self.scale != 1.0 else scores
        if self.kind == "exp":
            return np.asarray(np.exp(np.minimum(scores, _LARGEST_LOG)))
        if self.kind == "sorted":
            out = np.empty_like(scores)
            out[:, np.argsort(self.levels, kind="stable")] = np.sort(scores, axis=1)
            return out
        if self.kind == "softmax":
            proba = np.exp(scores - scores.max(axis=1, keepdims=True))
            return np.asarray(proba / proba.sum(axis=1, keepdims=True))
        if self.kind == "shares":
            scores = np.clip(scores, 0.0, 1.0)
            if scores.shape[1] > 1:
                return np.asarray(scores / scores.sum(axis=1, keepdims=True))
        elif self.kind == "side":
            scores = (scores > 0).astype(np.float64)
        elif self.kind == "logistic":
            with np.errstate(over="ignore"):
                scores = 1.0 / (1.0 + np.exp(-scores))
        else:
            return scores
        of_two = scores.shape[1] == 1 and not self.of_numbers
        return np.hstack([1.0 - scores, scores]) if of_two else scores


@dataclass(frozen=True, eq=False)
class AdditiveForm:
    """Scores of a model: `base`, plus the values of trees, plus the predictions of `inner` forms.

    Parameters
    ----------
    base : ndarray of shape (n_scores,)
    trees : TreeEnsemble or None
        Trees over `columns`, with one value each and an output, or a value for every output.
    columns : tuple of Column
    link : Link
    reader : FeatureReader
        Turns the user's table into the values of the features.
    classes : ndarray, optional
        The labels of a classifier.
    inner : tuple of pairs (weight, AdditiveForm)
        Their predictions, times the weight, are added to the scores; of two classes the probability
        of the second, if this form has a single score.
    """

    base: Floats
    trees: TreeEnsemble | None
    columns: tuple[Column, ...]
    link: Link
    reader: Any
    classes: NDArray[Any] | None = None
    inner: tuple[tuple[float, AdditiveForm], ...] = ()

    @property
    def n_scores(self) -> int:
        """Number of scores of a row."""
        return len(self.base)

    @property
    def n_predictions(self) -> int:
        """Number of predictions of a row: two probabilities for the score of two classes."""
        of_classes = self.link.kind in ("logistic", "shares", "side") and not self.link.of_numbers
        return 2 if of_classes and self.n_scores == 1 else self.n_scores

    def all_forms(self) -> Iterator[AdditiveForm]:
        """Yield this form and those within it, each before its own inner forms."""
        yield self
        for _, form in self.inner:
            yield from form.all_forms()

    def read(self, X: Any) -> NDArray[Any]:
        """Return the values of the features of a user's table: numbers, and codes of categories."""
        codes = self.reader.read_codes(X)
        return codes if isinstance(codes, np.ndarray) else np.asarray(codes.toarray())

    def make_columns(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return the columns for the values of the features."""
        kinds = [column.kind for column in self.columns]
        features = [column.feature for column in self.columns]
        if set(kinds) <= {"value"}:
            plain = features == list(range(codes.shape[1]))
            return codes if plain else codes[:, features]
        table = np.empty((len(codes), len(self.columns)))
        for k, column in enumerate(self.columns):
            made = column.make(codes[:, column.feature])
            # Statistics in place of categories have the precision of the table, as in prediction.
            table[:, k] = made.astype(codes.dtype) if k < codes.shape[1] else made
        return table

    def scores(self, codes: NDArray[Any], n_threads: int = 1) -> Floats:
        """Return the scores of rows, given the values of their features."""
        raw = np.tile(self.base, (len(codes), 1))
        if self.trees is not None:
            self.trees.add_raw(self.make_columns(codes), raw, n_threads)
        for weight, form in self.inner:
            found = form.link.apply(form.scores(codes, n_threads))
            raw += weight * (found[:, 1:] if found.shape[1] == 2 and self.n_scores == 1 else found)
        return raw

    def predictions(self, codes: NDArray[Any], n_threads: int = 1) -> Floats:
        """Return numbers or class probabilities, (n_rows, n_predictions)."""
        return self.link.apply(self.scores(codes, n_threads))


def additive_form(estimator: Any) -> AdditiveForm:
    """Return a fitted estimator as a sum of trees; TypeError if it is not one."""
    if isinstance(estimator, type) or not hasattr(estimator, "_check_is_fitted"):
        got = estimator if isinstance(estimator, type) else type(estimator).__name__
        raise TypeError(f"estimator must be a fitted hybridtrees estimator, got {got}")
    if not hasattr(estimator, "_additive_form"):
        message = f"{type(estimator).__name__} is not a sum of trees"
        if hasattr(estimator, "estimators_"):
            message += ": it combines several models, and those in estimators_ may be sums of trees"
        raise TypeError(message)
    estimator._check_is_fitted()
    form: AdditiveForm = estimator._additive_form()
    return form


# ---- Parts for families -----------------------------------------------------------------------


def feature_columns(reader: Any) -> tuple[Column, ...]:
    """Return the columns that `reader.read` makes: one for each feature."""
    columns = [Column(j) for j in range(reader.n_features_in)]
    statistics = reader.statistics
    if statistics is not None:
        for k, j in enumerate(statistics.features):
            own = statistics.table[statistics.start[k] : statistics.start[k + 1]]
            columns[j] = Column(int(j), "table", table=own)
    return tuple(columns)


def scaled(tree: Tree, factor: float) -> Tree:
    """Return a tree with its values and coefficients multiplied by a positive factor."""
    limits = None if tree.value_range is None else factor * tree.value_range
    return replace(tree, values=factor * tree.values, coef=factor * tree.coef, value_range=limits)


def with_values(tree: Tree, values: Floats) -> Tree:
    """Return a tree without linear leaves that has other values."""
    return Tree(tree.nodes, values, tree.categories)


def line_tree(coef: Floats, columns: Sequence[int], center: Floats) -> Tree:
    """Return the tree of one node whose value is ``(x - center) @ coef``.

    Parameters
    ----------
    coef : ndarray of shape (n_terms, n_outputs)
    columns : sequence of int
        The column of each term.
    center : ndarray of shape (n_terms,)
        A missing value counts as the centre.
    """
    from hybridtrees.core.base.dtypes import NODE_DTYPE

    node = np.zeros(1, dtype=NODE_DTYPE)
    for name in ("left", "right", "parent", "feature", "category_start"):
        node[name] = -1
    node["weight"] = node["n_samples"] = 1
    return Tree(
        node,
        np.zeros((1, coef.shape[1])),
        coef_ptr=np.array([0, len(coef)], dtype=np.int64),
        coef_feature=np.asarray(columns, dtype=np.int32),
        coef=coef,
        coef_center=center,
    )


def joined(trees: Sequence[Tree], n_columns: int, n_outputs: int) -> TreeEnsemble | None:
    """Return trees with a value for every output as an ensemble, None if there are none."""
    return TreeEnsemble(trees, n_columns, n_outputs) if trees else None
