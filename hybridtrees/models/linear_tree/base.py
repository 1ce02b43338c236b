"""What linear tree regressors and classifiers share: everything but the target."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse

from hybridtrees._parameters import check_boolean, check_integer, check_option, check_real
from hybridtrees.base import Estimator, atomic_fit
from hybridtrees.core.base._types import Limit
from hybridtrees.core.base.checks import check_type
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads, threads_for_table
from hybridtrees.core.tree.paths import decision_path
from hybridtrees.core.tree.pruning import impurity_decrease
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.models.linear_tree.columns import LinearColumns
from hybridtrees.models.linear_tree.reporting import LeafFacts
from hybridtrees.models.shared.fitted_checks import check_one_tree
from hybridtrees.models.shared.tree_parameters import check_max_features, check_rows, count_features

MAX_BINS = int(Limit.MAX_BINS)
SEARCHES = ("auto", "exact", "screened")
CANDIDATES = ("bins", "quantiles")
EXTRAPOLATE = ("linear", "clip", "bounded")
PRUNINGS = ("auto", "bic", "aic", None)


class LinearTreeParameters(Estimator):
    """Parameters of linear trees and of forests of them, checked and put into a recipe."""

    _criteria: tuple[str, ...] = ()
    _columns: LinearColumns

    def _check_tree_parameters(self: Any) -> None:
        """Check all that can be checked without the data."""
        from hybridtrees.linear.path import ALPHA_SCALINGS, check_penalty

        check_option("criterion", self.criterion, self._criteria)
        if isinstance(self.alpha, str):
            raise ValueError(f"alpha must be a real number of at least 0, got {self.alpha!r}")
        check_penalty(self.penalty, self.alpha, self.l1_ratio)
        check_boolean("standardize", self.standardize)
        check_option("alpha_scaling", self.alpha_scaling, ALPHA_SCALINGS)
        check_integer("max_depth", self.max_depth, 1, allow_none=True)
        check_rows("min_samples_split", self.min_samples_split, 2, closed="right")
        if not (isinstance(self.min_samples_leaf, str) and self.min_samples_leaf == "auto"):
            if isinstance(self.min_samples_leaf, str):
                raise ValueError(
                    "min_samples_leaf must be 'auto', an integer of at least 1 or a share of the "
                    f"rows between 0 and 1, got {self.min_samples_leaf!r}"
                )
            check_rows("min_samples_leaf", self.min_samples_leaf, 1, closed="neither")
        check_real("min_impurity_decrease", self.min_impurity_decrease, 0)
        check_integer("max_leaf_nodes", self.max_leaf_nodes, 2, allow_none=True)
        check_integer("max_bins", self.max_bins, 3, MAX_BINS)
        check_option("candidates", self.candidates, CANDIDATES)
        check_option("search", self.search, SEARCHES)
        check_boolean("categorical_effects", self.categorical_effects)
        check_max_features(self.max_features)
        check_option("extrapolate", self.extrapolate, EXTRAPOLATE)
        check_real("bound_factor", self.bound_factor, 0)
        check_real("smoothing", self.smoothing, 0)
        check_option("pruning", self.pruning, PRUNINGS)
        if not isinstance(self.verbose, bool):
            check_integer("verbose", self.verbose, 0)

    def _n_classes(self) -> int:
        return 0

    def _read_columns(self: Any) -> LinearColumns:
        return LinearColumns(
            self._reader,
            self.split_features,
            self.linear_features,
            bool(self.categorical_effects),
        )

    def _recipe(self: Any, n_threads: int) -> Any:
        from hybridtrees.linear.path import check_penalty
        from hybridtrees.models.linear_tree.growing import LinearRecipe

        columns, least = self._columns, self.min_samples_leaf
        drawn = count_features(self.max_features, len(columns.split))
        self.max_features_ = drawn
        if not isinstance(least, str):
            least = check_rows("min_samples_leaf", least, 1, closed="neither")
        return LinearRecipe(
            criterion=str(self.criterion),
            n_classes=self._n_classes(),
            penalty=check_penalty(self.penalty, self.alpha, self.l1_ratio),
            standardize=bool(self.standardize),
            alpha_scaling=str(self.alpha_scaling),
            max_depth=None if self.max_depth is None else min(int(self.max_depth), 2**15 - 1),
            min_samples_split=check_rows(
                "min_samples_split", self.min_samples_split, 2, closed="right"
            ),
            min_samples_leaf=least,
            min_impurity_decrease=float(self.min_impurity_decrease),
            max_leaf_nodes=None if self.max_leaf_nodes is None else int(self.max_leaf_nodes),
            max_bins=int(self.max_bins),
            candidates=str(self.candidates),
            search=str(self.search),
            split_features=columns.split,
            linear_features=columns.linear,
            is_categorical=columns.is_categorical,
            max_features=0 if drawn == len(columns.split) else drawn,
            n_threads=n_threads,
        )

    def _information(self: Any) -> str | None:
        """Return the information criterion to prune by.

        Trees that are averaged may be larger than one that stands alone.
        """
        return "aic" if self.pruning == "auto" else self.pruning

    def _check_columns(self: Any) -> tuple[LinearColumns, int]:
        """Return the columns and the number of outputs that the trees must have."""
        columns = check_type(self, "_columns", LinearColumns)
        reader, k = self._reader, self._n_classes()
        if columns.n_features != reader.n_features_in or not np.array_equal(
            columns.is_categorical[: columns.n_features], reader.is_categorical
        ):
            raise ValueError("the columns of the model are those of other features")
        return columns, (1 if k == 2 else k) or self.n_outputs_

    def _table_of(self, X: Any) -> Any:
        """Columns of a table to predict for."""
        values = self._read_features(X)
        return self._columns.expand(values)

    def _predict_threads(self: Any, n_rows: int) -> int:
        # A few rows are done before a second thread would have woken up.
        return 1 if n_rows < 512 else effective_threads(self.n_jobs)


class LinearTreeModel(LinearTreeParameters):
    """A single linear tree."""

    def __init__(
        self,
        *,
        criterion: str,
        penalty: str | None = "ridge",
        alpha: float = 1e-3,
        l1_ratio: float = 0.5,
        standardize: bool = True,
        alpha_scaling: str = "mean",
        max_depth: int | None = 5,
        min_samples_split: int | float = 6,
        min_samples_leaf: int | float | str = "auto",
        min_impurity_decrease: float = 0.0,
        max_leaf_nodes: int | None = None,
        max_bins: int = 64,
        candidates: str = "bins",
        search: str = "auto",
        linear_features: Any = None,
        split_features: Any = None,
        categorical_features: Any = None,
        categorical_effects: bool = False,
        max_features: int | float | str | None = None,
        extrapolate: str = "bounded",
        bound_factor: float = 1.0,
        smoothing: float = 0.0,
        pruning: str | None = "auto",
        ccp_alpha: float = 0.0,
        validation_fraction: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.criterion = criterion
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.standardize = standardize
        self.alpha_scaling = alpha_scaling
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_impurity_decrease = min_impurity_decrease
        self.max_leaf_nodes = max_leaf_nodes
        self.max_bins = max_bins
        self.candidates = candidates
        self.search = search
        self.linear_features = linear_features
        self.split_features = split_features
        self.categorical_features = categorical_features
        self.categorical_effects = categorical_effects
        self.max_features = max_features
        self.extrapolate = extrapolate
        self.bound_factor = bound_factor
        self.smoothing = smoothing
        self.pruning = pruning
        self.ccp_alpha = ccp_alpha
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- what the two differ in -----------------------------------------------------------------

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        raise AttributeError("the regressor and the classifier bring this")

    # -- fit ------------------------------------------------------------------------------------

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the tree, prune it, and fit its leaves.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            NaN means missing. String and category columns of a data frame are categories.
        y : array-like of shape (n_rows,)
            In regression also of shape (n_rows, n_outputs).
        sample_weight : array-like of shape (n_rows,), optional
            Rows of weight zero are left out.

        Returns
        -------
        self : estimator
        """
        self._check_tree_parameters()
        check_real("ccp_alpha", self.ccp_alpha, 0)
        if self.validation_fraction is not None:
            check_real("validation_fraction", self.validation_fraction, 0, 1, closed="neither")
        n_threads = effective_threads(self.n_jobs)
        seeds = seed_sequence(self.random_state)
        values = self._fit_features(X, categorical_features=self.categorical_features)
        n_rows = values.shape[0]
        # Threads wait for each other longer than they work on a small table.
        n_threads = threads_for_table(n_threads, n_rows, values.shape[1])
        target = self._encode_target(y, n_rows)
        weight = check_sample_weight(sample_weight, n_rows)
        self._columns = self._read_columns()
        self._grow(self._columns.expand(values), target, weight, seeds, n_threads)
        return self

    def _grow(
        self,
        values: Any,
        target: np.ndarray,
        weight: np.ndarray | None,
        seeds: np.random.SeedSequence,
        n_threads: int,
    ) -> None:
        from hybridtrees.linear.blas import sequential_blas
        from hybridtrees.models.linear_tree import leaves
        from hybridtrees.models.linear_tree.growing import LinearTable, LinearTreeGrower
        from hybridtrees.models.linear_tree.information import prune_by_information
        from hybridtrees.models.linear_tree.reporting import LeafFacts

        seed = int(seeds.generate_state(1, np.uint64)[0])
        with sequential_blas():
            table = LinearTable(values, weight, self._recipe(n_threads))
            grower = LinearTreeGrower(table, target, n_threads)
            if self.validation_fraction is None:
                grown = grower.grow(weight, seed)
            else:
                share = float(self.validation_fraction)
                grown = grower.grow_and_validate(values, weight, seed, share, seeds.spawn(1)[0])
            grown = leaves.prune_by_cost(grown, float(self.ccp_alpha))
            criterion = self._information()
            if criterion is not None:
                grown = prune_by_information(grown, grower, weight, criterion)
            theta = leaves.smooth(grown, float(self.smoothing))
            responses = None if self._n_classes() else target
            tree = leaves.make_tree(
                grown,
                theta,
                table,
                values,
                responses,
                str(self.extrapolate),
                float(self.bound_factor),
            )
            self._facts = LeafFacts.of(grown, theta, grower, weight)
        self._trees = TreeEnsemble([tree], self._columns.n_columns, tree.values.shape[1])
        self._impurity = grown.impurity

    def _information(self) -> str | None:
        """Return the information criterion to prune by; other ways to prune stand alone."""
        if self.pruning == "auto":
            return None if self.ccp_alpha or self.validation_fraction is not None else "bic"
        return self.pruning

    def _check_fitted(self) -> None:
        columns, n_outputs = self._check_columns()
        tree = check_one_tree(self, n_outputs, columns.n_columns)
        check_type(self, "_facts", LeafFacts).check_tree(tree, columns, self._n_classes())

    # -- predict --------------------------------------------------------------------------------

    def predict_raw(self, X: Any) -> np.ndarray:
        """Return the outputs of the leaves.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        raw : ndarray of shape (n_rows, n_outputs)
            Predictions in regression; scores of the second of two classes, or of every class.
        """
        values = self._table_of(X)
        raw = np.zeros((values.shape[0], self._trees.n_outputs))
        self._trees.add_raw(values, raw, self._predict_threads(values.shape[0]))
        return raw

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        leaves : ndarray of int32, shape (n_rows,)
            Numbers of nodes of `tree_`.
        """
        values = self._table_of(X)
        return self._trees.apply(values, self._predict_threads(values.shape[0]))[:, 0]

    def decision_path(self, X: Any) -> scipy.sparse.csr_matrix:
        """Nodes that each row comes through.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        indicator : csr_matrix of shape (n_rows, n_nodes)
            1 for every node on the way, the root and the leaf included.
        """
        return decision_path(self.tree_, self.apply(X))

    # -- reading the tree -----------------------------------------------------------------------

    @property
    def tree_(self) -> Tree:
        """The fitted tree."""
        self._check_is_fitted()
        tree = self._trees[0]
        tree.impurity = self._impurity
        return tree

    def get_depth(self) -> int:
        """Return the number of splits from the root to the deepest leaf."""
        return self.tree_.depth

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        return self.tree_.n_leaves

    @property
    def feature_importances_(self) -> np.ndarray:
        """Loss that the splits of each feature take off, summing to 1 (0 without splits).

        What the regressions in the leaves make of a feature is not part of it.
        """
        tree = self.tree_
        inner = tree.nodes["left"] >= 0
        importance = np.bincount(
            tree.nodes["feature"][inner],
            weights=impurity_decrease(tree)[inner],
            minlength=self.n_features_in_,
        )
        total = importance.sum()
        return importance / total if total > 0 else importance

    def leaf_table(self) -> Any:
        """Return the leaves with their paths, rows, coefficients and fits.

        Returns
        -------
        table : LeafTable
            One entry per leaf; print it, or take `to_dict` or `to_frame`.
        """
        from hybridtrees.models.linear_tree.reporting import leaf_table

        return leaf_table(self)

    def summary(
        self, feature_names: Any = None, only_leaves: bool = False, max_depth: int | None = None
    ) -> dict[int, dict[str, Any]]:
        """Return the nodes as dicts, in the structure that linear-tree's `summary` has.

        Programs that read that structure, such as OMLT, can read this one. Models are plain
        linear functions: what `extrapolate` does to predictions is not among them.

        Parameters
        ----------
        feature_names : list of str, optional
            Names that stand for the numbers of features.
        only_leaves : bool, default=False
        max_depth : int, optional
            Leave out deeper nodes.

        Returns
        -------
        summary : dict
            By node number: ``col``, ``th``, ``children`` of a split (and ``categories`` instead
            of a threshold), ``loss``, ``samples``, and ``models``: that of a leaf, or those of
            the two children; ``classes`` in leaves of a classifier.
        """
        from hybridtrees.models.linear_tree.reporting import summarise

        return summarise(self, feature_names, only_leaves, max_depth)

    def describe(self) -> str:
        """Return a short account of the tree in words.

        Returns
        -------
        text : str
        """
        from hybridtrees.models.linear_tree.reporting import describe

        return describe(self)
