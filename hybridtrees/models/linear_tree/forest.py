"""Linear forests: bagged linear trees, with features drawn for every split."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from hybridtrees.core.tree.additive import AdditiveForm, Link
from hybridtrees.models.linear_tree.base import LinearClassTarget, LinearRegressionTarget
from hybridtrees.models.linear_tree.forest_base import LinearForestModel
from hybridtrees.models.linear_tree.node_fitters import probabilities
from hybridtrees.models.shared.forest.base import ClassificationForest, RegressionForest


class LinearForestRegressor(LinearRegressionTarget, RegressionForest, LinearForestModel):
    """A random forest whose trees have linear regressions in their leaves.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import LinearForestRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(X[:, 0] > 0, 3 * X[:, 1], -X[:, 1])
    >>> model = LinearForestRegressor(20, max_features=None, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _metric_names: ClassVar[tuple[str, ...]] = ("mse", "rmse", "mae", "mape", "r2", "mphe")


class LinearForestClassifier(LinearClassTarget, ClassificationForest, LinearForestModel):
    """A random forest whose trees have logistic regressions in their leaves.

    The probabilities of the trees are averaged.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import LinearForestClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = LinearForestClassifier(10, random_state=0).fit(X, y)
    >>> model.predict([[2.0, 2.0], [2.0, -2.0]])
    array(['same', 'other'], dtype='<U5')
    """

    def _add_trees(
        self, trees: Any, table: Any, raw: np.ndarray, n_threads: int, first: int, last: int
    ) -> None:
        for tree in range(first, last):
            scores = np.zeros((len(raw), trees.n_outputs))
            trees.add_raw(table, scores, n_threads, tree, tree + 1)
            proba = probabilities(scores)
            raw += proba[:, 1:] if proba.shape[1] == 2 else proba

    def _additive_form(self) -> AdditiveForm:
        share = 1.0 / len(self._trees)
        inner = tuple((share, self._form_of([tree])) for tree in self._trees)
        n_scores = inner[0][1].n_scores
        return replace(
            inner[0][1], base=np.zeros(n_scores), trees=None, link=Link("shares"), inner=inner
        )
