"""What linear trees and forests of them share, and what linear tree models share."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees._parameters import check_boolean, check_option, check_real
from hybridtrees.base import RawScoreMixin
from hybridtrees.core.base.checks import check_type
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import table_threads
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.linear.blas import sequential_blas
from hybridtrees.linear.path import ALPHA_SCALINGS, check_penalty
from hybridtrees.models.linear_tree import leaves
from hybridtrees.models.linear_tree.columns import LinearColumns
from hybridtrees.models.linear_tree.growing import LinearRecipe, LinearTable, LinearTreeGrower
from hybridtrees.models.linear_tree.information import prune_by_information
from hybridtrees.models.linear_tree.leaf_quality import leaf_facts
from hybridtrees.models.linear_tree.reporting import LeafFacts, describe, leaf_table, summarise
from hybridtrees.models.shared.fitted_checks import check_one_tree
from hybridtrees.models.shared.targets import ClassTarget, RegressionTarget
from hybridtrees.models.shared.tree_models import SingleTree
from hybridtrees.models.shared.tree_parameters import GrowthParameters, count_features

SEARCHES = ("auto", "exact", "screened")
CANDIDATES = ("bins", "quantiles")
EXTRAPOLATE = ("linear", "clip", "bounded")
PRUNINGS = ("auto", "bic", "aic", None)


class LinearTreeParameters(GrowthParameters):
    """Parameters of linear trees and of forests of them, checked and put into a recipe."""

    _criteria: tuple[str, ...] = ()
    _columns: LinearColumns

    criterion: str
    penalty: str | None = "ridge"
    alpha: float = 1e-3
    l1_ratio: float = 0.5
    standardize: bool = True
    alpha_scaling: str = "mean"
    max_depth: int | None = 5
    min_samples_split: int | float = 6
    min_samples_leaf: int | float | str = "auto"
    max_bins: int = 64
    candidates: str = "bins"
    search: str = "auto"
    linear_features: Any = None
    split_features: Any = None
    categorical_effects: bool = False
    extrapolate: str = "bounded"
    bound_factor: float = 1.0
    smoothing: float = 0.0
    pruning: str | None = "auto"

    def _check_tree_parameters(self) -> None:
        """Check all that can be checked without the data."""
        check_option("criterion", self.criterion, self._criteria)
        if isinstance(self.alpha, str):
            raise ValueError(f"alpha must be a real number of at least 0, got {self.alpha!r}")
        check_penalty(self.penalty, self.alpha, self.l1_ratio)
        check_boolean("standardize", self.standardize)
        check_option("alpha_scaling", self.alpha_scaling, ALPHA_SCALINGS)
        self._check_growth(min_bins=3, auto_leaf=True)
        check_option("candidates", self.candidates, CANDIDATES)
        check_option("search", self.search, SEARCHES)
        check_boolean("categorical_effects", self.categorical_effects)
        check_option("extrapolate", self.extrapolate, EXTRAPOLATE)
        check_real("bound_factor", self.bound_factor, 0)
        check_real("smoothing", self.smoothing, 0)
        check_option("pruning", self.pruning, PRUNINGS)

    def _n_classes(self) -> int:
        """Return the number of classes, 0 in regression."""
        raise NotImplementedError

    def _read_columns(self) -> LinearColumns:
        return LinearColumns(
            self._reader, self.split_features, self.linear_features, bool(self.categorical_effects)
        )

    def _recipe(self, n_threads: int) -> Any:
        columns = self._columns
        self.max_features_ = drawn = count_features(self.max_features, len(columns.split))
        return LinearRecipe(
            criterion=str(self.criterion),
            n_classes=self._n_classes(),
            penalty=check_penalty(self.penalty, self.alpha, self.l1_ratio),
            standardize=bool(self.standardize),
            alpha_scaling=str(self.alpha_scaling),
            candidates=str(self.candidates),
            search=str(self.search),
            split_features=columns.split,
            linear_features=columns.linear,
            is_categorical=columns.is_categorical,
            max_features=0 if drawn == len(columns.split) else drawn,
            n_threads=n_threads,
            **self._limits(),
        )

    def _information(self) -> str | None:
        """Return the criterion to prune by: averaged trees may be larger than a single one."""
        return "aic" if self.pruning == "auto" else self.pruning

    def _check_columns(self) -> tuple[LinearColumns, int]:
        """Return the columns and the number of outputs that the trees must have."""
        columns = check_type(self, "_columns", LinearColumns)
        reader, k = self._reader, self._n_classes()
        if columns.n_features != reader.n_features_in or not np.array_equal(
            columns.is_categorical[: columns.n_features], reader.is_categorical
        ):
            raise ValueError("the columns of the model are those of other features")
        return columns, (1 if k == 2 else k) or self.n_outputs_

    def _read_table(self, X: Any) -> Any:
        """Return the table that the trees read, of rows to predict for."""
        values = self._read_features(X)
        return self._columns.expand(values)


class LinearRegressionTarget(RegressionTarget):
    """The target of a linear tree or forest for regression."""

    _criteria = ("squared_error", "absolute_error")

    criterion: str = "squared_error"

    def _takes_several(self) -> bool:
        return self.criterion != "absolute_error"


class LinearClassTarget(ClassTarget):
    """The target of a linear tree or forest for classification."""

    _criteria = ("log_loss", "gini", "misclassification")

    criterion: str = "log_loss"

    def _n_classes(self) -> int:
        return max(2, self.n_classes_)


class LinearTreeModel(RawScoreMixin, SingleTree, LinearTreeParameters):
    """A single linear tree: everything but the target."""

    ccp_alpha: float = 0.0
    validation_fraction: float | None = None

    # -- fit ------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Grow the tree, prune it, and fit its leaves."""
        self._check_tree_parameters()
        check_real("ccp_alpha", self.ccp_alpha, 0)
        if self.validation_fraction is not None:
            check_real("validation_fraction", self.validation_fraction, 0, 1, closed="neither")
        seeds = seed_sequence(self.random_state)
        values = self._fit_features(X, categorical_features=self.categorical_features)
        n_rows = values.shape[0]
        n_threads = table_threads(self.n_jobs, *values.shape)
        target = self._encode_target(y, n_rows)
        weight = check_sample_weight(sample_weight, n_rows)
        self._columns = self._read_columns()
        self._grow(self._columns.expand(values), target, weight, seeds, n_threads)

    def _grow(
        self,
        values: Any,
        target: np.ndarray,
        weight: np.ndarray | None,
        seeds: np.random.SeedSequence,
        n_threads: int,
    ) -> None:
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
            self._facts = LeafFacts(*leaf_facts(grown, theta, grower, weight))
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

    def _raw_scores(self, X: Any) -> np.ndarray:
        """Predictions in regression; scores of the second of two classes, or of every class."""
        table = self._read_table(X)
        raw = np.zeros((table.shape[0], self._trees.n_outputs))
        self._trees.add_raw(table, raw, self._predict_threads(len(raw)))
        return raw

    _predict_values = _raw_scores

    # -- reading the tree -----------------------------------------------------------------------

    def leaf_table(self) -> Any:
        """Return the leaves with their paths, rows, coefficients and fits.

        Returns
        -------
        table : LeafTable
            One entry per leaf; print it, or take `to_dict` or `to_frame`.
        """
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
        return summarise(self, feature_names, only_leaves, max_depth)

    def describe(self) -> str:
        """Return a short account of the tree in words.

        Returns
        -------
        text : str
        """
        return describe(self)
