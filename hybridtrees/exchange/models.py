"""Imported models as estimators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hybridtrees._parameters import attribute
from hybridtrees._predictor import Predictor
from hybridtrees.base import RawScoreMixin, RegressorMixin, ScoreClassifierMixin
from hybridtrees.core.base.checks import check_arrays, check_count, check_type
from hybridtrees.core.base.threads import FEW_ROWS_TREES, predict_threads
from hybridtrees.core.tree.additive import AdditiveForm, feature_columns
from hybridtrees.core.tree.tree import SPARSE_BLOCK, TreeEnsemble
from hybridtrees.exchange.links import Link
from hybridtrees.exchange.reader import ImportedReader
from hybridtrees.models.shared.fitted_checks import check_categories
from hybridtrees.models.shared.importance import (
    ImportanceType,
    importance_lines,
    shares,
    split_importance,
)


class ImportedModel(RawScoreMixin, Predictor):
    """Trees of another library: the sum of their leaves, and a link.

    Made by `from_xgboost`, `from_lightgbm`, `from_sklearn` and `from_catboost`; it cannot be
    fitted.

    Parameters
    ----------
    importance_type : {"gain", "weight", "cover", "total_gain", "total_cover"}
        What `feature_importances_` measures.
    n_jobs : int or None
        Number of threads; all usable CPUs by default.

    Attributes
    ----------
    trees_ : TreeEnsemble
        The trees. Their leaves add up to the raw scores: factors that the library applies to a
        tree, such as the weights of dart or the mean of a forest, are part of the leaves.
    n_iter_ : int
        Number of boosting rounds, or of trees of a forest.
    source_ : str
        Library that the model is from, with its version if the model tells it.
    objective_ : str
        What the model was trained for, as that library names it.
    """

    importance_type: ImportanceType = "total_gain"
    n_jobs: int | None = None

    trees_: TreeEnsemble = attribute()
    n_iter_: int = attribute()
    source_: str = attribute()
    objective_: str = attribute()
    _base_raw_: np.ndarray = attribute()
    _loss: Link = attribute()
    _task: Literal["regression", "classification"] = attribute()

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Raise an error: imported models cannot be fitted."""
        raise NotImplementedError(
            f"{type(self).__name__} holds a model of another library and cannot be fitted: fit an "
            "estimator of hybridtrees, such as XGBRegressor or XGBClassifier"
        )

    def _take_over(
        self, trees: TreeEnsemble, reader: ImportedReader, link: Link, base: np.ndarray
    ) -> None:
        """Set the fitted state."""
        self.trees_, self._reader, self._loss = trees, reader, link
        self._base_raw_ = np.ascontiguousarray(base, dtype=np.float64)
        self.n_features_in_ = reader.n_features_in
        reader.estimator_name = type(self).__name__
        if reader.feature_names_in is not None:
            self.feature_names_in_ = reader.feature_names_in

    def _check_fitted(self) -> None:
        reader = check_type(self, "_reader", ImportedReader)
        link = check_type(self, "_loss", Link)
        if link.task != self._task:
            raise ValueError(f"a link for {link.task} in a {type(self).__name__}")
        trees = check_type(self, "trees_", TreeEnsemble)
        if (trees.n_features, trees.n_outputs) != (self.n_features_in_, link.n_outputs):
            raise ValueError("the trees have other columns or outputs than the model")
        check_categories(trees.category_sets(), reader.known_codes)
        if not np.isfinite(trees.values).all():
            raise ValueError("a value of an imported tree is not a finite number")
        check_arrays(self, {"_base_raw_": ("f8", link.n_outputs)})
        check_count(self, "n_iter_", 0, len(trees))
        for name in ("source_", "objective_"):
            check_type(self, name, str)

    # -- predictions ----------------------------------------------------------------------------

    def _start_raw(self, X: Any, n_rows: int) -> np.ndarray:
        raw = np.empty((n_rows, len(self._base_raw_)))
        raw[:] = self._base_raw_
        return raw

    def _additive_form(self) -> AdditiveForm:
        return AdditiveForm(
            self._base_raw_,
            self.trees_,
            feature_columns(self._reader),
            self._loss.output_link(),
            self._reader,
            vars(self).get("classes_"),
        )

    def _blocks(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the values of a table; those of a sparse table in blocks of rows."""
        self._check_is_fitted()
        if not scipy.sparse.issparse(X):
            yield self._read_features(X)
            return
        table: Any = X
        n_rows, rows = table.shape[0], table.tocsr()
        for start in range(0, max(n_rows, 1), SPARSE_BLOCK):
            yield self._read_features(rows[start : start + SPARSE_BLOCK])

    def _raw_scores(self, X: Any) -> np.ndarray:
        parts = []
        for values in self._blocks(X):
            raw = self._start_raw(X, len(values))
            self.trees_.add_raw(values, raw, self._predict_threads(len(values)))
            parts.append(raw)
        return np.concatenate(parts) if len(parts) != 1 else parts[0]

    def _predict_threads(self, n_rows: int) -> int:
        return predict_threads(self.n_jobs, n_rows, FEW_ROWS_TREES)

    def apply(self, X: Any) -> np.ndarray:
        """Return the leaf of each row in each tree.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        leaves : ndarray of int32, shape (n_rows, n_trees)
            Indices of nodes in `trees_`, which are numbered level by level.
        """
        parts = [
            self.trees_.apply(values, self._predict_threads(len(values)))
            for values in self._blocks(X)
        ]
        return np.concatenate(parts) if len(parts) != 1 else parts[0]

    # -- reading the model ----------------------------------------------------------------------

    def get_score(self, importance_type: str | None = None) -> np.ndarray:
        """Return the importance of every feature, not normalised.

        Parameters
        ----------
        importance_type : {"weight", "gain", "cover", "total_gain", "total_cover"}, optional
            Number of splits; mean gain or cover of a split; their totals. The constructor's
            `importance_type` by default.

        Returns
        -------
        importance : ndarray of shape (n_features,)
        """
        self._check_is_fitted()
        return split_importance(self.trees_, importance_type or self.importance_type)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Importances of `importance_type`, summing to 1 (all 0 where no tree has a split)."""
        return shares(np.maximum(self.get_score(), 0.0))

    def summary(self) -> str:
        """Summarise the model: where it is from, sizes of the trees, importances.

        Returns
        -------
        text : str
        """
        self._check_is_fitted()
        trees, starts = self.trees_, self.trees_.tree_start[:-1]
        leaves = np.add.reduceat(trees.nodes["left"] < 0, starts)
        depths = np.maximum.reduceat(trees.nodes["depth"], starts)
        lines = [
            f"{type(self).__name__}: {self.source_}, {self.objective_}",
            f"features {self.n_features_in_}, outputs {trees.n_outputs}",
            f"rounds {self.n_iter_}, trees {len(trees)}",
            f"leaves of a tree: min {leaves.min()}, median {np.median(leaves):g}, max "
            f"{leaves.max()}; maximum depth {depths.max()}",
        ]
        names = self._reader.feature_names_in
        return "\n".join(lines + importance_lines(self.feature_importances_, names))


class ImportedRegressor(RegressorMixin, ImportedModel):
    """A regression model of another library.

    Made by `from_xgboost`, `from_lightgbm`, `from_sklearn` and `from_catboost`; it cannot be
    fitted.
    """

    _task = "regression"

    def _predictions(self, X: Any) -> np.ndarray:
        return self._loss.predict(self._raw_scores(X))


class ImportedClassifier(ScoreClassifierMixin, ImportedModel):
    """A classifier of another library.

    Made by `from_xgboost`, `from_lightgbm`, `from_sklearn` and `from_catboost`; it cannot be
    fitted.
    Labels are those of the foreign model, or 0, 1, ... if it does not tell them.

    Attributes
    ----------
    n_classes_ : int
        Number of classes.
    """

    _task = "classification"
    n_classes_: int = attribute()

    def _check_fitted(self) -> None:
        super()._check_fitted()
        n_classes = max(2, self._loss.n_outputs)
        check_count(self, "n_classes_", n_classes, n_classes)
        if len(check_type(self, "classes_", np.ndarray)) != n_classes:
            raise ValueError(f"{n_classes} scores or classes, but {len(self.classes_)} labels")


def imported(
    trees: TreeEnsemble,
    reader: ImportedReader,
    link: Link,
    base: np.ndarray,
    *,
    n_iter: int,
    source: str,
    objective: str,
    classes: np.ndarray | None = None,
) -> ImportedRegressor | ImportedClassifier:
    """Return the estimator of an imported model; classes are 0, 1, ... by default."""
    model: ImportedRegressor | ImportedClassifier
    model = ImportedClassifier() if link.task == "classification" else ImportedRegressor()
    model._take_over(trees, reader, link, base)
    model.n_iter_, model.source_, model.objective_ = int(n_iter), source, objective
    if isinstance(model, ImportedClassifier):
        n_classes = max(2, link.n_outputs)
        model.classes_ = np.arange(n_classes) if classes is None else np.asarray(classes)
        model.n_classes_ = n_classes
    model._check_state()
    return model
