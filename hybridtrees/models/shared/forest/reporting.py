"""Reports of a fitted random forest: importance, standard errors, proximities, prototypes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from hybridtrees._parameters import attribute, check_boolean, check_integer, check_option
from hybridtrees.core.base._types import PackedFlag
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.base.workers import run_threads
from hybridtrees.models.shared.fitted_checks import check_packed_model
from hybridtrees.models.shared.forest.base import Forest
from hybridtrees.models.shared.forest.leaves import (
    LeafGroups,
    Proximities,
    blocks,
    cached,
    sample_products,
    sizes_of_branches,
)
from hybridtrees.models.shared.forest.prototypes import (
    Prototypes,
    dense_places,
    group_rows,
    nearest_rows,
    neighbour_counts,
)
from hybridtrees.models.shared.forest.warm_start import checksum

OUTPUTS = ("sparse", "dense")


@dataclass
class OOBImportance:
    """Permutation importance on out-of-bag rows."""

    importances_mean: np.ndarray  # increase of the error, mean over the trees
    importances_std: np.ndarray  # its standard deviation over the trees
    importances: np.ndarray  # increase of the error of every tree, (n_features, n_trees)


def in_c_order(values: Any) -> Any:
    """Return a table in C order, or as CSR."""
    return values.tocsr() if hasattr(values, "tocsr") else np.ascontiguousarray(values)


class ForestReports(Forest):
    """Methods of random forests that use leaves, samples and proximities."""

    _digest: int = attribute()
    _leaf_rows: np.ndarray | None = attribute()
    _train_target: np.ndarray | None = attribute()

    def _known_target(self, y: Any, n_rows: int) -> np.ndarray:
        """Return the target of rows to score, with the outputs or classes of `fit`."""
        raise NotImplementedError

    def _tree_error(
        self, target: np.ndarray, predicted: np.ndarray, weight: np.ndarray | None
    ) -> float:
        """Return the error of the predictions of one tree."""
        raise NotImplementedError

    def _check_fitted(self) -> None:
        check_packed_model(self)

    # -- the training rows ----------------------------------------------------------------------

    def _tree_counts(self, tree: int) -> np.ndarray:
        """Return how often each training row is in the sample of a tree."""
        return self._sampler.counts(int(self._draw_seeds[tree]))

    def _tree_weight(self, tree: int) -> np.ndarray:
        """Return the weights of the training rows that a tree was grown with."""
        counts = self._tree_counts(tree)
        weight = self._sampler.row_weight(counts)
        factor = self._kept_factor()
        return weight if factor is None else weight * factor(counts)

    def _kept_factor(self) -> Any:
        return None

    def _out_of_bag(self) -> np.ndarray:
        """Return a mask of the out-of-bag rows of each tree, (n_rows, n_trees)."""
        n_trees = len(self._draw_seeds)
        mask = np.empty((self._sampler.n_rows, n_trees), dtype=bool)
        for tree in range(n_trees):
            mask[:, tree] = self._tree_counts(tree) == 0
        return mask

    def _read_training(self, X: Any, purpose: str) -> Any:
        """Read a table in C order, and refuse any but that of `fit`."""
        values = self._read_features(X)
        if values.shape[0] != self._sampler.n_rows or checksum(values) != self._digest:
            raise ValueError(f"{purpose} needs the table X that the forest was fitted with")
        return in_c_order(values)

    def _check_leaves_out(self, purpose: str) -> None:
        if not self._sampler.leaves_out:
            raise ValueError(
                f"{purpose} needs out-of-bag rows: fit with bootstrap=True, or max_samples "
                "below the number of rows"
            )

    def _kept_groups(self, what: str) -> tuple[LeafGroups, np.ndarray]:
        """Return the training rows leaf by leaf, and their weights in the same order."""
        self._check_is_fitted()
        if self._leaf_rows is None:
            raise ValueError(
                f"{what} needs the training rows of the leaves: fit with keep_rows=True"
            )
        return cached(
            self._trees,
            "groups",
            self._weighted_groups,
            lambda found: found[0].nbytes + found[1].nbytes,
        )

    def _weighted_groups(self) -> tuple[LeafGroups, np.ndarray]:
        assert self._leaf_rows is not None
        groups = LeafGroups.of_training(self._trees, self._leaf_rows)
        weight = np.zeros(len(groups.rows), dtype=np.float32)
        for tree, start in enumerate(groups.starts):
            part = slice(int(start[0]), int(start[-1]))
            seen = self._tree_weight(tree)[groups.rows[part]]
            weight[part] = seen
            # float32 holds counts exactly; other weights need float64.
            if weight.dtype == np.float32 and not np.array_equal(weight[part], seen):
                weight = weight.astype(np.float64)
                weight[part] = seen
        return groups, weight

    def leaf_weights(self, X: Any) -> scipy.sparse.csr_array:
        """Return the weights of the training rows in the predictions.

        Their product with the target of `fit` is the prediction, and with the indicators of the
        classes the averaged probabilities. See `CARTRegressor.leaf_weights` for exceptions.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        weights : csr_array of shape (n_rows, n_train)
            Each row sums to 1.
        """
        groups, weight = self._kept_groups("leaf_weights")
        trees = self._trees
        leaves = self.apply(X)
        sizes = sizes_of_branches(trees)
        parts = []
        for block in blocks(len(leaves)):
            first, last = groups.segments(leaves[block], sizes)
            counts = (last - first).ravel()
            ends = np.cumsum(counts)
            place = np.repeat(first.ravel() - (ends - counts), counts) + np.arange(ends[-1])
            seen = weight[place].astype(np.float64)
            total = np.add.reduceat(seen, ends - counts)
            data = seen / np.repeat(total * len(trees), counts)
            pointers = np.concatenate([[0], ends[len(trees) - 1 :: len(trees)]])
            shape = (len(first), self._sampler.n_rows)
            part = scipy.sparse.csr_array(
                (data, groups.rows[place].astype(np.int64), pointers), shape
            )
            part.sum_duplicates()
            parts.append(part)
        return scipy.sparse.vstack(parts).tocsr()

    # -- importance -----------------------------------------------------------------------------

    def oob_permutation_importance(
        self, X: Any, y: Any, *, random_state: Any = None
    ) -> OOBImportance:
        """Compute the permutation importance of features on out-of-bag rows (Breiman 2001).

        A column is permuted among the out-of-bag rows of a tree, and the tree predicts them again.
        The importance is the increase of the error: the squared error in regression (the absolute
        one under ``criterion="absolute_error"``), the error rate in classification.

        Parameters
        ----------
        X, y
            The table and the target of `fit`.
        random_state : int, Generator, RandomState or None
            Seed of the permutations.

        Returns
        -------
        result : OOBImportance
        """
        self._check_is_fitted()
        values = self._read_training(X, "oob_permutation_importance")
        self._check_leaves_out("oob_permutation_importance")
        target = self._known_target(y, values.shape[0])
        seeds = seed_sequence(random_state).spawn(len(self._trees))
        n_threads = effective_threads(self.n_jobs)
        columns = run_threads(
            lambda tree: self._error_increase(tree, values, target, seeds[tree]),
            range(len(seeds)),
            min(len(seeds), n_threads),
        )
        importances = np.stack(columns, axis=1)
        return OOBImportance(importances.mean(axis=1), importances.std(axis=1), importances)

    def _error_increase(
        self, tree: int, values: Any, target: np.ndarray, seed: np.random.SeedSequence
    ) -> np.ndarray:
        """Return the increase of one tree's out-of-bag error when each feature is permuted."""
        trees, sampler = self._trees, self._sampler
        increase = np.zeros(values.shape[1])
        rows = sampler.out_of_bag(self._tree_counts(tree))
        if not len(rows):
            return increase
        rng = np.random.default_rng(seed)
        node_values = trees.node_values(tree)
        truth = target[rows]
        weight = None if sampler.weight is None else sampler.weight[rows]

        def error(**how: Any) -> float:
            ended = trees.walk(tree, values, rows, **how)
            return self._tree_error(truth, node_values[ended], weight)

        base = error()
        feature = trees.part(tree)["feature"]
        for column in np.unique(feature[feature >= 0] & PackedFlag.FEATURE_MASK):
            shuffled = error(swapped=int(column), others=rng.permutation(rows))
            increase[column] = shuffled - base
        return increase

    # -- standard errors ------------------------------------------------------------------------

    def standard_errors(self, X: Any) -> np.ndarray:
        """Return standard errors of the predictions by the infinitesimal jackknife.

        The variance of a prediction is estimated from the covariances, over the trees, of their
        predictions with how often each row is in their samples, corrected for the bias of a finite
        number of trees (Wager, Hastie and Efron 2014). It needs many trees: a negative estimate is
        reported as 0, with a warning, and the errors of a single tree are NaN.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        errors : ndarray of shape (n_rows,), or (n_rows, n_outputs or n_classes)
            In the shape of the predictions, or of the probabilities.
        """
        self._check_is_fitted()
        self._check_leaves_out("standard_errors")
        sampler, trees = self._sampler, self._trees
        n_trees, n_train = len(trees), sampler.n_rows
        products, variance = cached(
            trees,
            "products",
            lambda: sample_products(self._tree_counts, n_trees, n_train),
            lambda found: found[0].nbytes,
        )
        scale = 1.0
        if not sampler.replace:
            # Samples without replacement vary less than a bootstrap would (Wager and Athey 2018).
            n_used = n_train if sampler.weight is None else np.count_nonzero(sampler.weight)
            scale = (n_used - 1) / n_used * (n_used / (n_used - sampler.n_drawn)) ** 2
        values = self._read_features(X)
        n_threads = self._predict_threads(values.shape[0])
        found = np.empty((values.shape[0], trees.n_values))
        if n_trees < 2:
            scale = np.nan
        n_negative = 0
        for block in blocks(values.shape[0]):
            centred = self._tree_values(values[block], n_threads)
            centred -= centred.mean(axis=0)
            for k in range(trees.n_values):
                output = centred[:, :, k]
                squared = np.einsum("bi,bi->i", products @ output, output) / n_trees**2
                bias = variance / n_trees * np.square(output).mean(axis=0)
                n_negative += int(np.count_nonzero(squared < bias))
                found[block, k] = np.sqrt(np.maximum(scale * (squared - bias), 0.0))
        if n_negative:
            warnings.warn(
                f"{n_negative} of {found.size} variances came out negative and are reported as 0: "
                "grow more trees",
                stacklevel=2,
            )
        if trees.n_classes == 2:
            return np.hstack([found, found])
        return found[:, 0] if trees.n_values == 1 and not trees.n_classes else found

    def _tree_values(self, values: Any, n_threads: int) -> np.ndarray:
        """Return the predictions of every tree, (n_trees, n_rows, n_values)."""
        trees = self._trees
        raw = np.zeros((len(trees), values.shape[0], trees.n_values))
        votes = self._votes()
        for tree in range(len(trees)):
            trees.add_raw(values, raw[tree], n_threads, tree, tree + 1, votes=votes)
        return raw

    # -- proximities ----------------------------------------------------------------------------

    def proximity(
        self, X: Any, Y: Any = None, oob: bool = True, *, output: str = "sparse"
    ) -> scipy.sparse.csr_array | np.ndarray:
        """Return the share of trees in which two rows are in the same leaf.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Y : table of shape (n_others, n_features), optional
            Rows to compare with; those of `X` by default.
        oob : bool, default=True
            For a training row, use only the trees that it is out of bag for. `Y`, or `X` without
            a `Y`, must then be the table of `fit`; with a `Y`, the rows of `X` count as new.
        output : {"sparse", "dense"}, default="sparse"
            Form of the result. A sparse one has entries for pairs that share some leaf.

        Returns
        -------
        proximity : csr_array or ndarray of shape (n_rows, n_others)
        """
        self._check_is_fitted()
        check_boolean("oob", oob)
        check_option("output", output, OUTPUTS)
        near, leaves, own = self._proximities(X, Y, oob)
        n_rows = len(leaves)
        if output == "sparse":
            return scipy.sparse.vstack([part for _, part in near.rows(leaves, own)]).tocsr()
        dense = np.empty((n_rows, near.n_others))
        for block, part in near.rows(leaves, own):
            dense[block] = part.toarray()
        return dense

    def _proximities(
        self, X: Any, Y: Any, oob: bool
    ) -> tuple[Proximities, np.ndarray, np.ndarray | None]:
        """Return proximities to Y, the leaves of X, and a mask of the trees that count for X."""
        outside = None
        if oob:
            purpose = "proximity with oob=True"
            self._read_training(X if Y is None else Y, purpose)
            self._check_leaves_out(purpose)
            outside = self._out_of_bag()
        leaves = self.apply(X)
        others = leaves if Y is None else self.apply(Y)
        n_nodes = np.diff(self._trees.tree_start)
        n_threads = effective_threads(self.n_jobs)
        near = Proximities(others, n_nodes, outside, n_threads)
        return near, leaves, outside if Y is None else None

    def outlier_scores(self, X: Any, y: Any = None, oob: bool = True) -> np.ndarray:
        """Score rows as outliers by their proximities to the rows of their class.

        The raw score of a row is the size of its group over the sum of its squared proximities to
        the others of the group. The median of the group is subtracted, and the result is divided
        by the mean absolute deviation from it (Breiman 2001). Scores above 10 suggest outliers.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            The table of `fit` if `oob`.
        y : array-like of shape (n_rows,), optional
            Groups, such as classes. One group by default.
        oob : bool, default=True
            For a training row, use only the trees that it is out of bag for.

        Returns
        -------
        scores : ndarray of shape (n_rows,)
        """
        self._check_is_fitted()
        near, leaves, own = self._proximities(X, None, check_boolean("oob", oob))
        group, _ = group_rows(y, len(leaves))
        raw = np.empty(len(leaves))
        for block, part in near.rows(leaves, own):
            row = np.repeat(np.arange(block.start, block.stop), np.diff(part.indptr))
            same = (group[row] == group[part.indices]) & (row != part.indices)
            squares = np.where(same, part.data**2, 0.0)
            raw[block] = np.bincount(
                row - block.start, weights=squares, minlength=block.stop - block.start
            )
        size = np.bincount(group)[group]
        with np.errstate(divide="ignore"):
            raw = size / raw
        scores = np.empty(len(raw))
        for label in np.unique(group):
            rows = group == label
            # A row without neighbours gets twice the largest finite score.
            known = raw[rows][np.isfinite(raw[rows])]
            farthest = known.max() if len(known) else 1.0
            own_raw = np.where(np.isfinite(raw[rows]), raw[rows], 2.0 * farthest)
            centre = np.median(own_raw)
            spread = np.mean(np.abs(own_raw - centre))
            scores[rows] = (own_raw - centre) / spread if spread > 0 else 0.0
        return scores

    def prototypes(
        self,
        X: Any,
        y: Any = None,
        *,
        n_neighbors: int | None = None,
        n_prototypes: int = 1,
        oob: bool = True,
    ) -> Prototypes:
        """Find typical rows of each class (Breiman and Cutler).

        For each class the row with most neighbours of that class, by proximity, is found; the
        medians of these neighbours are the prototype. Further prototypes use rows that earlier
        ones have not used.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            The table of `fit` if `oob`.
        y : array-like of shape (n_rows,), optional
            Classes; one group by default.
        n_neighbors : int, optional
            Number of neighbours; by default half of the rows of the class, at most 50.
        n_prototypes : int, default=1
            Number of prototypes of each class.
        oob : bool, default=True
            For a training row, use only the trees that it is out of bag for.

        Returns
        -------
        prototypes : Prototypes
        """
        self._check_is_fitted()
        check_integer("n_neighbors", n_neighbors, 1, allow_none=True)
        check_integer("n_prototypes", n_prototypes, 1)
        near, leaves, own = self._proximities(X, None, check_boolean("oob", oob))
        group, classes = group_rows(y, len(leaves))
        counts = neighbour_counts(group, n_neighbors)
        nearest = np.full((len(leaves), counts.max()), -1)
        for block, part in near.rows(leaves, own):
            nearest[block] = nearest_rows(part, counts.max(), block.start)
        values = self._read_features(X)
        chosen, found = [], []
        for label, count in enumerate(counts):
            for row, members in dense_places(nearest[:, :count], group, label, n_prototypes):
                chosen.append((row, label))
                part = values[members]
                found.append(
                    self._quartiles(part.toarray() if scipy.sparse.issparse(part) else part)
                )
        rows = np.array([row for row, _ in chosen])
        lower, middle, upper = np.stack(found, axis=1)
        labels = None if classes is None else classes[[label for _, label in chosen]]
        return Prototypes(rows, middle, lower, upper, labels, list(self._reader.coded))

    def _quartiles(self, values: np.ndarray) -> np.ndarray:
        """Return quartiles of the columns, (3, n_features); for categories, the mode."""
        found = np.full((3, values.shape[1]), np.nan)
        for j, column in enumerate(np.asarray(values, dtype=np.float64).T):
            known = column[~np.isnan(column)]
            if not len(known):
                continue
            if self._reader.is_categorical[j]:
                found[1, j] = np.bincount(known.astype(np.intp)).argmax()
            else:
                found[:, j] = np.quantile(known, [0.25, 0.5, 0.75])
        return found
