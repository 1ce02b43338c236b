"""Parameters of linear trees and linear forests, and the fit of a single tree."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees._parameters import attribute, check_boolean, check_option, check_real
from hybridtrees._predictor import Predictor
from hybridtrees._tree_drawings import TreeDrawings
from hybridtrees.base import RawScoreMixin
from hybridtrees.core.base.checks import check_arrays, check_type
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import table_threads
from hybridtrees.core.tree.additive import AdditiveForm, Link, LinkKind, joined
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.linear._base import PenaltyName
from hybridtrees.linear.blas import sequential_blas
from hybridtrees.linear.path import ALPHA_SCALINGS, check_penalty
from hybridtrees.models.linear_tree import leaves
from hybridtrees.models.linear_tree.columns import LinearColumns
from hybridtrees.models.linear_tree.growing import (
    GrownTree,
    LinearRecipe,
    LinearTable,
    LinearTreeGrower,
)
from hybridtrees.models.linear_tree.information import prune_by_information
from hybridtrees.models.linear_tree.leaf_quality import leaf_facts
from hybridtrees.models.linear_tree.reporting import LeafFacts, LinearTreeReports
from hybridtrees.models.shared.bagging import RowSampler
from hybridtrees.models.shared.fitted_checks import check_one_tree
from hybridtrees.models.shared.targets import ClassTarget, RegressionTarget
from hybridtrees.models.shared.tree_parameters import GrowthParameters, count_features

SEARCHES = ("auto", "exact", "screened")
CANDIDATES = ("bins", "quantiles")
EXTRAPOLATE = ("linear", "clip", "bounded")
PRUNINGS = ("auto", "bic", "aic", None)


class LinearTreeParameters(GrowthParameters):
    """Parameters of linear trees and linear forests.

    Parameters
    ----------
    penalty : {None, "ridge", "lasso", "elasticnet"}
        Penalty of the regressions in the leaves: none, L2, L1, or both.
    alpha : float
        Strength of the penalty, per row: a leaf is a `LinearRegressor`, in classification a
        `LogisticClassifier`, fitted to its rows. Splits are compared by the loss without the
        penalty.
    l1_ratio : float
        Share of the L1 penalty under "elasticnet".
    standardize : bool
        Whether the penalty is on coefficients of regressors that are standardised in the leaf.
    alpha_scaling : {"mean", "sum"}
        Whether the penalty is added to the mean loss of the rows (half the squared error, or the
        log-loss) or to its sum. With "sum" and ``standardize=False``, "ridge" is scikit-learn's
        ``Ridge(alpha)``, and alpha the 1/C of its ``LogisticRegression``.
    min_samples_leaf : int, float or "auto"
        Minimum number of rows of a leaf, or their share of all rows. "auto" is twice the number of
        coefficients, at least 10.
    min_impurity_decrease : float
        Minimum decrease in loss by a split, weighted by the share of rows that reach it.
    candidates : {"bins", "quantiles"}
        Candidate thresholds: between bins of about equal weight, or at ``max_bins - 2``
        interpolated quantiles of the whole table, like the package linear-tree.
    search : {"auto", "exact", "screened"}
        Try the candidates of all features in every node ("exact"), or only those of a tenth of the
        features, at least 8, whose splits correlate best with the residuals of the node's model
        ("screened"). "auto" screens with more than 40 regressors.
    linear_features, split_features : array-like or None
        Regressors, and features to split on: names, indices or masks; all by default.
    categorical_features : array-like or None
        Categorical columns (names, indices or a mask), in addition to the string and category
        columns of a data frame. Categories are ordered by mean residual and split like numbers.
    categorical_effects : bool or "auto"
        Whether indicators of categories are regressors as well. "auto" takes those of the features
        of fewest categories, as long as there are 20 rows for each regressor, and at most 40
        regressors; features named in `linear_features` are taken in any case.
    extrapolate : {"bounded", "clip", "linear"}
        Predictions outside the data of a leaf. "bounded" limits its line to the range of its
        targets (in classification, of the scores of its rows), widened by `bound_factor`; "clip"
        clips regressors to their ranges in the leaf; "linear" sets no limits.
    bound_factor : float
        Share of the range by which "bounded" widens it on either side.
    smoothing : float
        Weight, in rows, of the model of each node when predictions are smoothed along the path to
        the root; 15 in M5.
    """

    _criteria: ClassVar[tuple[str, ...]] = ()
    _dialects: ClassVar[tuple[str, ...]] = ("linear-tree", "trees of linear-tree")
    _positional_alias = "base_estimator"
    n_outputs_: int = attribute()
    _columns: LinearColumns = attribute()

    criterion: Any = attribute()  # each target has its own
    penalty: PenaltyName | None = "ridge"
    alpha: float = 1e-3
    l1_ratio: float = 0.5
    standardize: bool = True
    alpha_scaling: Literal["mean", "sum"] = "mean"
    max_depth: int | None = 5
    min_samples_split: int | float = 6
    min_samples_leaf: int | float | Literal["auto"] = "auto"
    max_bins: int = 64
    candidates: Literal["bins", "quantiles"] = "bins"
    search: Literal["auto", "exact", "screened"] = "auto"
    linear_features: Any = None
    split_features: Any = None
    categorical_effects: bool | Literal["auto"] = "auto"
    extrapolate: Literal["bounded", "clip", "linear"] = "bounded"
    bound_factor: float = 1.0
    smoothing: float = 0.0
    pruning: Literal["auto", "bic", "aic"] | None = "auto"

    def _check_tree_parameters(self) -> None:
        """Check what can be checked without the data."""
        check_option("criterion", self.criterion, self._criteria)
        if isinstance(self.alpha, str):
            raise ValueError(f"alpha must be a real number of at least 0, got {self.alpha!r}")
        check_penalty(self.penalty, self.alpha, self.l1_ratio)
        check_boolean("standardize", self.standardize)
        check_option("alpha_scaling", self.alpha_scaling, ALPHA_SCALINGS)
        self._check_growth(min_bins=3, auto_leaf=True)
        check_option("candidates", self.candidates, CANDIDATES)
        check_option("search", self.search, SEARCHES)
        if self.categorical_effects != "auto":
            check_boolean("categorical_effects", self.categorical_effects)
        check_option("extrapolate", self.extrapolate, EXTRAPOLATE)
        check_real("bound_factor", self.bound_factor, 0)
        check_real("smoothing", self.smoothing, 0)
        check_option("pruning", self.pruning, PRUNINGS)

    def _n_classes(self) -> int:
        """Return the number of classes, 0 in regression."""
        raise NotImplementedError

    def _read_columns(self, n_rows: int) -> LinearColumns:
        given = self.categorical_effects
        effects: Any = given if isinstance(given, str) else bool(given)
        return LinearColumns(
            self._reader, self.split_features, self.linear_features, effects, n_rows
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
        """Return the information criterion to prune by; "auto" is that of a forest."""
        return "aic" if self.pruning == "auto" else self.pruning

    def _finish_tree(
        self,
        grown: GrownTree,
        grower: LinearTreeGrower,
        values: Any,
        weight: np.ndarray | None,
        sampler: RowSampler | None = None,
    ) -> tuple[GrownTree, np.ndarray, Tree]:
        """Prune and smooth a tree; return it with its models, and as the tree that predicts.

        A forest passes its `sampler`. It has no use for the models of inner nodes.
        """
        criterion = self._information()
        if criterion is not None:
            resampled = sampler is not None and sampler.replace
            grown = prune_by_information(grown, grower, weight, criterion, resampled=resampled)
        theta = leaves.smooth(grown, float(self.smoothing))
        if sampler is not None:
            theta[grown.grown.nodes["left"] >= 0, :, 1:] = 0.0
        responses = None if self._n_classes() else grower.target
        limits = str(self.extrapolate), float(self.bound_factor)
        tree = leaves.make_tree(grown, theta, grower.table, values, responses, *limits)
        return grown, theta, tree

    def _check_columns(self) -> tuple[LinearColumns, int]:
        """Return the columns of a loaded model, and the number of outputs of its trees."""
        columns = check_type(self, "_columns", LinearColumns)
        reader, k = self._reader, self._n_classes()
        if columns.n_features != reader.n_features_in or not np.array_equal(
            columns.is_categorical[: columns.n_features], reader.is_categorical
        ):
            raise ValueError("the columns of the model belong to other features")
        return columns, (1 if k == 2 else k) or self.n_outputs_

    def _form_of(self, trees: list[Tree]) -> AdditiveForm:
        """Return trees whose values are added up, with the link of a single tree."""
        n_outputs, n_classes = trees[0].values.shape[1], self._n_classes()
        several: LinkKind = "softmax" if n_outputs > 1 else "logistic"
        return AdditiveForm(
            np.zeros(n_outputs),
            joined(trees, self._columns.n_columns, n_outputs),
            self._columns.forms(self._reader),
            Link(several if n_classes else "identity"),
            self._reader,
            vars(self).get("classes_"),
        )

    def _read_table(self, X: Any) -> Any:
        """Return the table that the trees read, for rows to predict."""
        values = self._read_features(X)  # first: it refuses a model that is not fitted
        return self._columns.expand(values)


class LinearRegressionTarget(RegressionTarget, Predictor):
    """The target of a linear tree or linear forest for regression.

    Parameters
    ----------
    criterion : {"squared_error", "absolute_error"}
        Loss of the regressions and of the splits. Under "absolute_error" candidates are ranked by a
        weighted squared error, and the best five of a node are fitted in full.
    """

    _criteria: ClassVar[tuple[str, ...]] = ("squared_error", "absolute_error")

    criterion: Literal["squared_error", "absolute_error"] = "squared_error"

    def _takes_several(self) -> bool:
        return self.criterion != "absolute_error"


class LinearClassTarget(ClassWeightMixin, ClassTarget, Predictor):
    """The target of a linear tree or linear forest for classification.

    Parameters
    ----------
    criterion : {"log_loss", "gini", "misclassification"}
        Loss that decides among the best candidates: the log-loss, the squared distance of
        probabilities from class indicators (the Gini index, for constant leaves), or the error
        rate.
    search : {"auto", "exact", "screened"}
        "exact" ranks the candidates of all features in every node, and fits all of them in full.
        "screened" ranks those of a tenth of the features, at least 8, whose splits correlate best
        with the residuals of the node's model, and fits the best five. "auto" also fits the best
        five; it ranks those of all features, or screens them with more than 40 regressors.
    """

    _criteria: ClassVar[tuple[str, ...]] = ("log_loss", "gini", "misclassification")

    criterion: Literal["log_loss", "gini", "misclassification"] = "log_loss"

    def _n_classes(self) -> int:
        return max(2, self.n_classes_)


class LinearTreeModel(TreeDrawings, RawScoreMixin, LinearTreeReports, LinearTreeParameters):
    """A single linear tree without the target.

    Parameters
    ----------
    pruning : {"auto", "bic", "aic", None}
        Remove splits that do not improve an information criterion of the training rows, which adds
        2 ("aic") or the logarithm of the number of rows ("bic") per coefficient. "auto" is "bic",
        or None if `ccp_alpha` or `validation_fraction` is set. None keeps every split that lowers
        the loss. Integer weights count as repeated rows, others relative to their mean.
    ccp_alpha : float
        Complexity parameter of minimal cost-complexity pruning, per row: a leaf must lower the
        weighted mean loss of all rows by this much.
    validation_fraction : float or None
        Share of the rows held out while the tree is grown. Splits that do not lower the loss on
        them are removed, and the leaves are then fitted to all rows.
    random_state : int, Generator, RandomState or None
        Seed of the features drawn and of the rows held out.
    verbose : int
        Not used.

    Attributes
    ----------
    tree_ : Tree
        The fitted tree; the outputs of a classifier are scores. Missing regressors are replaced by
        their means in the whole table.
    """

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
        weight = self._weigh_classes(target, check_sample_weight(sample_weight, n_rows))
        values = self._order_categories(values, target, weight)
        self._columns = self._read_columns(n_rows)
        values = self._columns.expand(values)
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
            grown, theta, tree = self._finish_tree(grown, grower, values, weight)
            self._line_gains = self._columns.by_feature(grower.line_gains(grown, theta, weight))
            self._facts = LeafFacts(*leaf_facts(grown, theta, grower, weight))
        self._trees = TreeEnsemble([tree], self._columns.n_columns, tree.values.shape[1])
        self._impurity = grown.impurity

    def _information(self) -> str | None:
        """Return the information criterion to prune by; "auto" yields to other ways to prune."""
        if self.pruning == "auto":
            return None if self.ccp_alpha or self.validation_fraction is not None else "bic"
        return self.pruning

    def _check_fitted(self) -> None:
        columns, n_outputs = self._check_columns()
        tree = check_one_tree(self, n_outputs, columns.n_columns)
        check_type(self, "_facts", LeafFacts).check_tree(tree, columns, self._n_classes())
        # Missing in files of the first versions, whose importances are those of splits alone.
        vars(self).setdefault("_line_gains", np.zeros(self.n_features_in_))
        check_arrays(self, {"_line_gains": ("f8", self.n_features_in_)})

    def _additive_form(self) -> AdditiveForm:
        return self._form_of([self._trees[0]])

    def _line_decrease(self) -> np.ndarray:
        decrease: np.ndarray = self._line_gains / self._trees.nodes["weight"][0]
        return decrease

    # -- predict --------------------------------------------------------------------------------

    def _raw_scores(self, X: Any) -> np.ndarray:
        """Return predictions in regression; scores of the second of two classes, or of each."""
        table = self._read_table(X)
        raw = np.zeros((table.shape[0], self._trees.n_outputs))
        self._trees.add_raw(table, raw, self._predict_threads(len(raw)))
        return raw

    _predict_values = _raw_scores
