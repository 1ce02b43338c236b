"""Predictions of boosted trees, which all boosting families share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import attribute, check_integer
from hybridtrees._predictor import CategoryPredictor
from hybridtrees.base import RawScoreMixin, ScoreClassifierMixin
from hybridtrees.core.base.threads import FEW_ROWS_TREES, predict_threads
from hybridtrees.core.tree.additive import AdditiveForm, feature_columns
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.input.validation import check_target_classification
from hybridtrees.losses import Loss
from hybridtrees.models.shared.importance import importance_lines


class BoostedTrees(RawScoreMixin, CategoryPredictor):
    """Base of all boosted models; a family adds the initial scores.

    Attributes
    ----------
    trees_ : TreeEnsemble
        The fitted trees, with values multiplied by the learning rate.
    n_iter_ : int
        Number of rounds that were run.
    feature_importances_ : ndarray of shape (n_features,)
        Importance of each feature, normalised to a sum of 1.
    """

    trees_: TreeEnsemble = attribute()
    n_iter_: int = attribute()
    _loss: Loss = attribute()

    # -- what families differ in ----------------------------------------------------------------

    def _start_raw(self, X: Any, n_rows: int, *, base_margin: Any = None) -> np.ndarray:
        """Return the scores before the first tree; users may pass others."""
        raise NotImplementedError

    def _best_round(self) -> int | None:
        """Return the last round that predictions use, None for all."""
        raise NotImplementedError

    def _constant_start(self) -> np.ndarray:
        """Return the scores before the first tree, (n_outputs,); TypeError if rows differ."""
        raise NotImplementedError

    def _from_raw(self, raw: np.ndarray) -> np.ndarray:
        """Turn scores into predictions."""
        return self._loss.predict(raw)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Importance of each feature."""
        raise NotImplementedError

    def _training_text(self) -> str:
        """Describe the loss and the training for `summary`."""
        raise NotImplementedError

    # -- scores ---------------------------------------------------------------------------------

    def _raw_scores(
        self, X: Any, iteration_range: tuple[int, int] | None = None, *, base_margin: Any = None
    ) -> np.ndarray:
        """Add up the trees of some rounds; by default of those that `predict` uses."""
        values = self._read_features(X)
        n_rows = values.shape[0]
        raw = self._start_raw(X, n_rows, base_margin=base_margin)
        trees = self._tree_range(iteration_range)
        self.trees_.add_raw(values, raw, self._predict_threads(n_rows), *trees)
        return raw

    def _staged_raw(
        self, X: Any, *, base_margin: Any = None, rounds: Iterable[int] | None = None
    ) -> Iterator[np.ndarray]:
        """Yield raw scores after every round that `predict` uses, all in the same array.

        With `rounds`, ascending numbers, only after these.
        """
        values = self._read_features(X)
        n_rows, width = values.shape[0], self._trees_of_round()
        raw = self._start_raw(X, n_rows, base_margin=base_margin)
        n_threads = self._predict_threads(n_rows)
        first = 0
        if rounds is None:
            rounds = range(1, self._tree_range(None)[1] // width + 1)
        for n_rounds in rounds:
            self.trees_.add_raw(values, raw, n_threads, first, n_rounds * width)
            first = n_rounds * width
            yield raw

    def _additive_form(self) -> AdditiveForm:
        trees, (_, last) = self.trees_, self._tree_range(None)
        if last < len(trees):
            used = [trees[k] for k in range(last)]
            trees = TreeEnsemble(used, trees.n_features, trees.n_outputs, trees.tree_output[:last])
        return AdditiveForm(
            np.array(self._constant_start(), dtype=np.float64),
            trees,
            feature_columns(self._reader),
            self._loss.output_link(),
            self._reader,
            vars(self).get("classes_"),
        )

    def _leaves(self, X: Any, iteration_range: tuple[int, int] | None = None) -> np.ndarray:
        """Return the leaf of each row in each tree that `predict` uses, (n_rows, n_trees)."""
        values = self._read_features(X)
        n_threads = self._predict_threads(values.shape[0])
        return self.trees_.apply(values, n_threads, *self._tree_range(iteration_range))

    def _predict_threads(self, n_rows: int) -> int:
        return predict_threads(self.n_jobs, n_rows, FEW_ROWS_TREES)

    def _tree_range(self, iteration_range: tuple[int, int] | None) -> tuple[int, int]:
        """Return the first tree of a range of rounds, and one past the last."""
        width = self._trees_of_round()
        if iteration_range is None:
            best = self._best_round()
            return 0, (self.n_iter_ if best is None else best + 1) * width
        if not isinstance(iteration_range, tuple | list) or len(iteration_range) != 2:
            raise ValueError(f"iteration_range must be a pair of rounds, got {iteration_range!r}")
        first, last = (
            check_integer("iteration_range", k, 0, self.n_iter_) for k in iteration_range
        )
        last = last or self.n_iter_
        if first > last:
            raise ValueError(f"iteration_range must not end before it starts, got {first}, {last}")
        return first * width, last * width

    def _trees_of_round(self) -> int:
        return len(self.trees_) // self.n_iter_

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predict after every round; with early stopping, up to the best round.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        prediction : ndarray
            As from `predict`, by the rounds so far.
        """
        return (self._from_raw(raw).copy() for raw in self._staged_raw(X))

    def summary(self) -> str:
        """Summarise the model: loss, rounds, sizes of the trees, importances.

        Returns
        -------
        text : str
        """
        self._check_is_fitted()
        trees = self.trees_
        starts = trees.tree_start[:-1]
        leaves = np.add.reduceat(trees.nodes["left"] < 0, starts)
        depths = np.maximum.reduceat(trees.nodes["depth"], starts)
        lines = [
            f"{type(self).__name__}: {self._training_text()}",
            f"rows {trees.nodes['n_samples'][0]}, features {self.n_features_in_}, outputs "
            f"{trees.n_outputs}",
            f"rounds {self.n_iter_}, trees {len(trees)}",
            f"leaves of a tree: min {leaves.min()}, median {np.median(leaves):g}, max "
            f"{leaves.max()}; maximum depth {depths.max()}",
        ]
        names = self._reader.feature_names_in
        return "\n".join(lines + importance_lines(self.feature_importances_, names))


class StagedClassifierMixin(ScoreClassifierMixin):
    """Classes and probabilities; goes before `BoostedTrees` among the bases.

    Attributes
    ----------
    n_classes_ : int
        Number of classes.
    """

    def _from_raw(self, raw: np.ndarray) -> np.ndarray:
        return np.asarray(self.classes_[self._raw_codes(raw)])

    def _encode_eval_target(self, y: Any, n_rows: int, name: str) -> np.ndarray:
        codes, _ = check_target_classification(
            y, n_rows, classes=self.classes_, name=name, estimator_name=type(self).__name__
        )
        return codes.astype(np.float64)

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Predict probabilities after every round; with early stopping, up to the best round.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        proba : ndarray of shape (n_rows, n_classes)
        """
        return (self._loss.predict(raw) for raw in self._staged_raw(X))  # type: ignore[attr-defined]
