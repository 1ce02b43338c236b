"""Fit and predictions of EBLR, without the target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from hybridtrees._parameters import (
    Seed,
    attribute,
    check_boolean_or_auto,
    check_integer,
    check_option,
    check_real,
    check_rows,
    count_rows,
)
from hybridtrees.base import RawScoreMixin, atomic_fit
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import predict_threads, table_threads
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.tree.additive import AdditiveForm, feature_columns, with_values
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.linear._base import RegressionParameters
from hybridtrees.linear.regression import Line, Options
from hybridtrees.linear.solvers import warn_not_converged
from hybridtrees.linear.terms import design_terms, regression_form, terms_tree
from hybridtrees.models.eblr.flat_rules import flat_rules
from hybridtrees.models.eblr.growing import (
    Job,
    Rounds,
    Sample,
    enriched_scores,
    grow_rules,
    split_rows,
)
from hybridtrees.models.eblr.reporting import RuleReports
from hybridtrees.models.eblr.rules import RuleTree, check_enriched
from hybridtrees.models.eblr.several import join_rounds
from hybridtrees.models.shared.output_names import OutputMixin

STOPPING = (None, "auto", "validation", "aic", "bic")
SPLITS = ("random", "last")


class EBLRModel(OutputMixin, RuleReports, RawScoreMixin, RegressionParameters):
    """A regression enriched by rules, without the target.

    Parameters
    ----------
    alpha : float or "cv"
        Strength of the penalty, per unit of weight; "cv" chooses it by cross-validation of the
        regression without rules.
    n_rules : int
        Maximum number of rules.
    max_depth : int, None or a list of these
        Maximum depth of the trees, None for no limit. A list has one entry per round, of which the
        last holds for all further rounds: with ``[1, 2]`` the first rule has one condition, the
        others up to two.
    min_samples_split, min_samples_leaf : int or float
        Minimum number of rows of a node that is split and of a leaf, or their shares of all rows.
    max_leaf_nodes : int or None
        Maximum number of leaves; the trees are then grown best-first.
    min_impurity_decrease : float
        Minimum decrease of the squared error by a split, weighted by its share of the rows.
    early_stopping : {None, "auto", "validation", "aic", "bic"}
        How the number of rules is chosen: not at all, by the loss (squared error or log-loss) on
        held-out rows, or by an information criterion. The latter counts every coefficient and every
        condition of a rule as a parameter, and every row of positive weight as one row, whatever
        its weight. "auto" is "validation" if `fit` is given `X_val`, else "bic".
    validation_fraction : float
        Share of rows held out under ``early_stopping="validation"``. The rules are then found again
        on all rows.
    validation_split : {"random", "last"}
        Whether the held-out rows are random, or the last ones, for time series.
    n_iter_no_change : int
        Number of rounds without improvement after which to stop. Rules up to the best round are
        kept.
    random_state : int, Generator, RandomState or None
        Seed of the validation rows.
    verbose : int
        Whether to print a line per round.

    Attributes
    ----------
    rules_ : list of Rule
        Text, coefficient, support and gain of each rule. With several targets, rules are ordered
        by round, and each tells its `target`.
    n_rules_ : int
        Number of rules.
    rule_names_ : list of str
        Names of the rules.
    rule_coef_ : ndarray of shape (n_rules,) or (n_outputs, n_rules)
        Coefficients of the rules, 0 for those of other targets.
    term_coef_ : ndarray of shape (n_columns + n_rules,) or (n_outputs, n_columns + n_rules)
        Coefficients of the columns of the regression in their original units, then of the rules.
    term_names_ : ndarray of str
        Names of the columns: those of the features (x0, x1, ... if they have none), then
        ``feature=category``, then ``feature is missing``, then the rules.
    n_iter_ : int
        Number of regressions that were fitted to find the rules.
    train_losses_ : ndarray of shape (n_rules + 1,) or (n_rounds + 1, n_targets)
        Mean squared error, or log-loss, on the training rows with 0, 1, 2, ... rules.
    stopping_scores_ : ndarray, or a list of one per target
        With early stopping: the criterion after 0, 1, 2, ... rules; smaller is better.
    """

    _dialects: ClassVar[tuple[str, ...]] = ("linear-tree", "boosting of linear-tree")
    _positional_alias = "base_estimator"
    _residuals: ClassVar[dict[str, Callable[..., Any]]] = {}

    n_rules: int = 10
    residual: str = attribute()
    alpha_: float | np.ndarray = attribute()
    stopping_scores_: np.ndarray | list[np.ndarray] = attribute()
    _n_targets: int = attribute()
    max_depth: int | None | Sequence[int | None] = 3
    min_samples_split: int | float = 2
    min_samples_leaf: int | float = 1
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    early_stopping: Literal["auto", "validation", "aic", "bic"] | None = "auto"
    validation_fraction: float = 0.15
    validation_split: Literal["random", "last"] = "random"
    n_iter_no_change: int = 3
    random_state: Seed = None

    def _check_parameters(self, X_val: Any, y_val: Any) -> tuple[int | None, ...]:
        """Check what can be checked without the data; return the depths of the trees."""
        depths = check_depths(self.max_depth)
        check_boolean_or_auto("categorical_statistics", self.categorical_statistics)
        check_rows("min_samples_split", self.min_samples_split, 2, closed="right")
        check_rows("min_samples_leaf", self.min_samples_leaf, 1, closed="neither")
        check_integer("n_rules", self.n_rules, 0, 2**20)
        check_option("residual", self.residual, tuple(self._residuals))
        check_integer("max_leaf_nodes", self.max_leaf_nodes, 2, allow_none=True)
        check_real("min_impurity_decrease", self.min_impurity_decrease, 0)
        check_option("early_stopping", self.early_stopping, STOPPING)
        check_option("validation_split", self.validation_split, SPLITS)
        check_real("validation_fraction", self.validation_fraction, 0, 1, closed="neither")
        check_integer("n_iter_no_change", self.n_iter_no_change, 1)
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val must be given together")
        if X_val is not None and self.early_stopping in ("aic", "bic"):
            raise ValueError(
                f"early_stopping={self.early_stopping!r} uses training rows only: with X_val it "
                "must be None or 'validation'"
            )
        return depths

    def _grower_params(self, n_rows: int, total: float) -> GrowerParams:
        """Return the parameters of the engine for a table of this size and weight, but depth."""
        min_leaf = count_rows(self.min_samples_leaf, n_rows)
        leaves = self.max_leaf_nodes
        return GrowerParams(
            frontier="depth-first" if leaves is None else "best-first",
            max_leaves=min(int(leaves or 0), n_rows),
            min_samples_split=max(2, count_rows(self.min_samples_split, n_rows), 2 * min_leaf),
            min_samples_leaf=min_leaf,
            min_child_weight=0.0,
            # As in CART: without a limit, splits of gain 0 are made.
            min_gain=float(self.min_impurity_decrease) * total or -math.inf,
            max_cat_to_onehot=0,
        )

    # -- hooks for targets ----------------------------------------------------------------------

    def _encode_target(self, y: Any, n_rows: int, *, validation: bool = False) -> np.ndarray:
        raise NotImplementedError

    def _n_outputs(self) -> int:
        """Return 0 for regression, 1 for two classes, else the number of classes."""
        return 0

    def _choose_alpha(self, sample: Sample, options: Options) -> float:
        raise NotImplementedError

    def _keep_line(self, line: Line) -> None:
        """Set the fitted attributes that follow from the regression."""
        raise NotImplementedError

    # -- fit ------------------------------------------------------------------------------------

    @atomic_fit
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Find the rules and fit the coefficients.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            NaN means missing; the regression replaces it by the mean of the column. String and
            category columns of a data frame are categories.
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
            Numbers, or class labels; several targets in regression only.
        sample_weight : array-like of shape (n_rows,), optional
        X_val, y_val, sample_weight_val : optional
            Validation rows to choose the number of rules by, in place of a part of `X`.

        Returns
        -------
        self : estimator
        """
        depths = self._check_parameters(X_val, y_val)
        options = self._options()
        seeds = seed_sequence(self.random_state)
        values = self._fit_features(X, categorical_features=self.categorical_features)
        n_rows, n_features = values.shape
        target = self._encode_target(y, n_rows)
        weight = self._weigh_classes(target, check_sample_weight(sample_weight, n_rows))
        values = self._order_categories(values, target, weight)
        sample = Sample(values, self._fit_design(values), target, weight)
        n_threads = table_threads(self.n_jobs, n_rows, n_features)
        penalty = options.penalty.for_table(sample.columns.shape[1], n_rows, weight)
        job = Job(
            n_rules=int(self.n_rules),
            is_categorical=self._reader.is_categorical,
            n_outputs=self._n_outputs(),
            options=replace(options, penalty=penalty, n_threads=n_threads),
            params=self._grower_params,
            depths=depths,
            residual=self._residuals[self.residual],
            criterion="bic" if self.early_stopping == "auto" else self.early_stopping,
            patience=int(self.n_iter_no_change),
            verbose=int(self.verbose),
        )
        validation = None
        if X_val is not None:
            job = replace(job, criterion="validation")
            validation = self._validation_sample(X_val, y_val, sample_weight_val)
        vars(self).pop("_rule_target", None)
        grow = self._grow if target.ndim == 1 else self._grow_several
        self._keep(grow(job, sample, validation, seeds), sample)
        return self

    def _grow(
        self, job: Job, sample: Sample, validation: Sample | None, seeds: np.random.SeedSequence
    ) -> Rounds:
        """Run the rounds of one target, and keep its alpha, losses and scores."""
        alpha = job.options.penalty.alpha
        if alpha is None:
            alpha = self._choose_alpha(sample, job.options)
            penalty = replace(job.options.penalty, alpha=alpha)
            job = replace(job, options=replace(job.options, penalty=penalty))
        scores = None
        if validation is None and job.criterion == "validation":
            trial = self._try_rules(job, sample, np.random.default_rng(seeds))
            job, scores = replace(job, n_rules=trial.best, criterion=None), trial.scores
        rounds = grow_rules(job, sample, validation)
        self.alpha_ = alpha
        self.train_losses_ = np.array(rounds.losses[: rounds.best + 1])
        self.stopping_scores_ = np.array(rounds.scores if scores is None else scores)
        return rounds

    def _grow_several(
        self, job: Job, sample: Sample, validation: Sample | None, seeds: np.random.SeedSequence
    ) -> Rounds:
        """Run the rounds of each target on its own, and join them."""
        parts, alphas, losses = [], [], []
        scores: list[Any] = []
        for k in range(sample.target.shape[1]):
            held = None if validation is None else validation.of_target(k)
            parts.append(self._grow(job, sample.of_target(k), held, seeds))
            alphas.append(self.alpha_)
            losses.append(self.train_losses_)
            scores.append(self.stopping_scores_)
        rounds, self._rule_target = join_rounds(parts, self._design.n_columns)
        padded = [np.pad(own, (0, len(rounds.lines) - len(own)), "edge") for own in losses]
        self.alpha_, self.train_losses_ = np.array(alphas), np.column_stack(padded)
        self.stopping_scores_ = scores if len(scores[0]) else []
        return rounds

    def _validation_sample(self, X_val: Any, y_val: Any, weight_val: Any) -> Sample:
        try:
            values = self._read_features(X_val)
        except (TypeError, ValueError) as error:  # its message names X
            raise type(error)(f"X_val: {error}") from error
        n = values.shape[0]
        weight = check_sample_weight(weight_val, n, name="sample_weight_val")
        target = self._encode_target(y_val, n, validation=True)
        return Sample(values, self._design.expand(values), target, weight)

    def _try_rules(self, job: Job, sample: Sample, rng: np.random.Generator) -> Rounds:
        """Find the best number of rules: grown on a part of the rows, scored on the others."""
        train, val = split_rows(
            len(sample.target),
            float(self.validation_fraction),
            self.validation_split,
            sample.weight,
            sample.target if job.n_outputs else None,
            rng,
        )
        return grow_rules(job, sample.take(train), sample.take(val))

    def _keep(self, rounds: Rounds, sample: Sample) -> None:
        """Keep what predictions and reports need."""
        if not rounds.converged:
            warn_not_converged(type(self).__name__, rounds.n_iter, stacklevel=5)
        self.n_rules_ = rounds.best
        found = rounds.rules[: rounds.best]
        self._trees: list[RuleTree] = [rule.tree for rule in found]
        weight = np.ones(len(sample.target)) if sample.weight is None else sample.weight
        counted = weight > 0
        self._support = [int(np.count_nonzero(rule.holds & counted)) for rule in found]
        self._share = [float(weight[rule.holds].sum() / weight.sum()) for rule in found]
        self._rule_residual = [rule.residual for rule in found]
        if not len(self.stopping_scores_):
            del self.stopping_scores_
        names = self._design.names
        n_rules = [len(line.coef) - len(names) for line in rounds.lines]
        self._stages = np.array([n for n in n_rules if n <= rounds.best])
        self._lines = [_pack(line) for line in rounds.lines[: len(self._stages)]]
        self.rule_names_ = _rule_names(rounds.best, names)
        self._with_missing = _missing_features(sample.values)
        self._column_spread = rounds.spreads
        self.n_iter_ = len(rounds.losses)
        self._keep_line(self._line())

    def _check_fitted(self) -> None:
        self._take_old_coef()
        check_enriched(self)

    # -- coefficients ---------------------------------------------------------------------------

    @property
    def term_coef_(self) -> np.ndarray:  # type: ignore[override]  # stored in linear models
        """Coefficients of the columns of the regression, then of the rules."""
        self._check_is_fitted()
        coef = self._line().coef
        return coef[:, 0].copy() if self._single_output() else np.ascontiguousarray(coef.T)

    @property
    def term_names_(self) -> np.ndarray:
        """Names of the columns of the regression and of the rules."""
        self._check_is_fitted()
        return np.array(self._design.names + self.rule_names_, dtype=object)

    def _by_feature(self, coef: np.ndarray) -> np.ndarray:
        return self._design.by_feature(coef, self._line().fill)

    def _single_output(self) -> bool:
        """Whether coefficients are a vector: in the regression of one target."""
        return False

    # -- predict --------------------------------------------------------------------------------

    def _line(self, stage: int = -1) -> Line:
        """Return the regression of a round, by default of the last."""
        return Line(*self._lines[stage])

    def _read(self, X: Any) -> tuple[Any, np.ndarray, int]:
        """Return columns of the regression, columns of the rules, and the number of threads."""
        self._check_is_fitted()
        values = self._read_features(X)
        n = values.shape[0]
        n_threads = predict_threads(self.n_jobs, n)
        rules = np.zeros((n, self.n_rules_), dtype=values.dtype, order="F")
        for k, tree in enumerate(self._trees):
            rules[:, k] = tree.holds(values, rules, n_threads)
        return self._design.expand(values), rules, n_threads

    def _additive_form(self) -> AdditiveForm:
        columns, line = list(feature_columns(self._reader)), self._line()
        constant, terms = design_terms(self._design, line, columns)
        trees = [terms_tree(terms, columns, len(constant))]
        first = self._design.n_columns
        for k, tree in enumerate(flat_rules(self._trees, type(self).__name__), start=first):
            trees.append(with_values(tree, tree.values * line.coef[k]))
            constant -= line.mean[k] * line.coef[k]
        return regression_form(self, constant, trees, columns)

    def _raw_scores(self, X: Any) -> np.ndarray:
        columns, rules, n_threads = self._read(X)
        return enriched_scores(self._line(), columns, rules, n_threads)

    def _staged_raw(self, X: Any) -> Iterator[np.ndarray]:
        columns, rules, n_threads = self._read(X)
        for stage, n_rules in enumerate(self._stages):
            yield enriched_scores(self._line(stage), columns, rules[:, :n_rules], n_threads)

    # -- enriched data --------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Return the columns of the regression, followed by one column for each rule.

        ``transform(X) @ term_coef_.T + intercept_`` is the raw score.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        table : ndarray, CSR array or data frame of shape (n_rows, n_columns + n_rules)
            Missing values are replaced by the means of fit, as in the regression. Column names
            are those of `get_feature_names_out`.
        """
        columns, rules, _ = self._read(X)
        fill = self._lines[-1][2][: columns.shape[1]]
        if hasattr(columns, "indptr"):
            from scipy import sparse

            columns = columns.copy()
            missing = np.isnan(columns.data)
            columns.data[missing] = fill[columns.indices[missing]]
            table = sparse.hstack([columns, sparse.csr_array(rules)], format="csr")
        else:
            filled = np.where(np.isnan(columns), fill.astype(columns.dtype), columns)
            table = np.hstack([filled, rules])
        return self._wrap(table, self.get_feature_names_out(), X)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and transform the same rows; see `fit` and `transform`."""
        return self.fit(X, y, sample_weight).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names to use if `fit` had none; otherwise they must be those of `fit`.

        Returns
        -------
        names : ndarray of str
        """
        self._check_is_fitted()
        if input_features is None:
            return self.term_names_
        given, known = self._check_input_features(input_features), self._reader.feature_names_in
        names = []
        for name in self._design.names:
            # Generated names are x3, x3=label, "x3 is missing".
            number = name[1:].split("=")[0].split(" ")[0]
            own = name if known is not None else str(given[int(number)]) + name[1 + len(number) :]
            names.append(own)
        return np.array(names + self.rule_names_, dtype=object)

    def __sklearn_tags__(self) -> Any:
        """Return the tags of an estimator that also transforms."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=["float64", "float32"])
        return tags


def check_depths(max_depth: Any) -> tuple[int | None, ...]:
    """Return the depths of the rounds; `max_depth` is one for all, or a sequence."""
    if not isinstance(max_depth, list | tuple | np.ndarray):
        return (check_integer("max_depth", max_depth, 1, allow_none=True),)
    if np.ndim(max_depth) != 1 or len(max_depth) == 0:
        raise ValueError(
            "max_depth must be an integer of at least 1, None or a non-empty list of these, got "
            f"{max_depth!r}"
        )
    return tuple(
        check_integer(f"max_depth[{k}]", depth, 1, allow_none=True)
        for k, depth in enumerate(max_depth)
    )


def _pack(line: Line) -> tuple[np.ndarray, ...]:
    return tuple(np.ascontiguousarray(a) for a in (line.coef, line.mean, line.fill, line.base))


def _rule_names(n_rules: int, taken: list[str]) -> list[str]:
    stem = "rule_"
    while any(name.startswith(stem) for name in taken):
        stem = f"eblr_{stem}"
    return [f"{stem}{k + 1}" for k in range(n_rules)]


def _missing_features(values: Any) -> np.ndarray:
    if hasattr(values, "indptr"):
        entries = values.tocoo()
        found = np.zeros(values.shape[1], dtype=bool)
        found[entries.col[np.isnan(entries.data)]] = True
        return found
    return np.asarray(np.isnan(values).any(axis=0))
