"""What the EBLR regressor and classifier share: all but the target and the residual."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from hybridtrees._parameters import check_integer, check_option, check_real, check_rows, count_rows
from hybridtrees.base import RawScoreMixin, atomic_fit
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads, table_threads
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.linear._base import RegressionParameters
from hybridtrees.linear.regression import Line, Options
from hybridtrees.linear.solvers import warn_not_converged
from hybridtrees.models.eblr import text
from hybridtrees.models.eblr.growing import (
    Job,
    Rounds,
    Sample,
    enriched_scores,
    grow_rules,
    split_rows,
)
from hybridtrees.models.eblr.rules import Rule, RuleTree, check_enriched, rule_text
from hybridtrees.models.shared.output_names import OutputMixin

STOPPING = (None, "validation", "aic", "bic")
SPLITS = ("random", "last")


class EBLRModel(OutputMixin, RawScoreMixin, RegressionParameters):
    """Parameters, rounds, rules and scores."""

    _residuals: dict[str, Callable] = {}

    n_rules: int = 10
    residual: str
    max_depth: int | None | Sequence[int | None] = 3
    min_samples_split: int | float = 2
    min_samples_leaf: int | float = 1
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    early_stopping: str | None = None
    validation_fraction: float = 0.15
    validation_split: str = "random"
    n_iter_no_change: int = 3
    random_state: Any = None

    def _check_parameters(self, X_val: Any, y_val: Any) -> tuple[int | None, ...]:
        """Check the parameters of rounds and trees, all before any work; returns the depths."""
        depths = check_depths(self.max_depth)
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
            raise ValueError("X_val and y_val must be given both or not at all")
        if X_val is not None and self.early_stopping in ("aic", "bic"):
            raise ValueError(
                f"early_stopping={self.early_stopping!r} looks at the training rows only: with "
                "X_val it must be None or 'validation'"
            )
        return depths

    def _grower_params(self, n_rows: int, total: float) -> GrowerParams:
        """Parameters of the engine for so many rows of such a total weight, without a depth."""
        min_leaf = count_rows(self.min_samples_leaf, n_rows)
        leaves = self.max_leaf_nodes
        return GrowerParams(
            frontier="depth-first" if leaves is None else "best-first",
            max_leaves=min(int(leaves or 0), n_rows),
            min_samples_split=max(2, count_rows(self.min_samples_split, n_rows), 2 * min_leaf),
            min_samples_leaf=min_leaf,
            min_child_weight=0.0,
            # As in CART: a split that brings nothing is taken unless there is a limit.
            min_gain=float(self.min_impurity_decrease) * total or -math.inf,
            max_cat_to_onehot=0,
        )

    # -- what the two differ in -----------------------------------------------------------------

    def _encode_target(self, y: Any, n_rows: int, *, validation: bool = False) -> np.ndarray:
        raise NotImplementedError

    def _n_outputs(self) -> int:
        """Return 0 for regression, 1 for two classes, else the number of classes."""
        return 0

    def _choose_alpha(self, sample: Sample, options: Options) -> float:
        raise NotImplementedError

    def _keep_line(self, line: Line) -> None:
        """Set the coefficients, and what it takes to turn scores into predictions."""
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
            NaN is missing for the trees, and the mean for the regression. String and category
            columns of a data frame are categories.
        y : array-like of shape (n_rows,)
            A number per row, or a label of a class.
        sample_weight : array-like of shape (n_rows,), optional
        X_val, y_val, sample_weight_val : optional
            Rows that decide about the number of rules, in place of a part of `X`.

        Returns
        -------
        self : estimator
        """
        options = self._options()
        depths = self._check_parameters(X_val, y_val)
        seeds = seed_sequence(self.random_state)
        values = self._fit_features(X, categorical_features=self.categorical_features)
        n_rows, n_features = values.shape
        target = self._encode_target(y, n_rows)
        weight = check_sample_weight(sample_weight, n_rows)
        sample = Sample(values, self._fit_design(values), target, weight)
        n_threads = table_threads(self.n_jobs, n_rows, n_features)
        options = replace(options, n_threads=n_threads)
        alpha = options.penalty.alpha
        if alpha is None:
            alpha = self._choose_alpha(sample, options)
            options = replace(options, penalty=replace(options.penalty, alpha=alpha))
        job = self._job(options, depths)
        validation = None
        if X_val is not None:
            job = replace(job, criterion="validation")
            validation = self._validation_sample(X_val, y_val, sample_weight_val)
        elif job.criterion == "validation":
            rng = np.random.default_rng(seeds)
            job = replace(job, n_rules=self._count_rules(job, sample, rng), criterion=None)
        rounds = grow_rules(job, sample, validation)
        self.alpha_ = alpha
        self._keep(rounds, sample)
        return self

    def _job(self, options: Options, depths: tuple[int | None, ...]) -> Job:
        return Job(
            n_rules=int(self.n_rules),
            n_outputs=self._n_outputs(),
            options=options,
            params=self._grower_params,
            depths=depths,
            is_categorical=self._reader.is_categorical,
            residual=self._residuals[self.residual],
            criterion=self.early_stopping,
            patience=int(self.n_iter_no_change),
            verbose=int(self.verbose),
        )

    def _validation_sample(self, X_val: Any, y_val: Any, weight_val: Any) -> Sample:
        try:
            values = self._read_features(X_val)
        except (TypeError, ValueError) as error:  # they speak of X
            raise type(error)(f"X_val: {error}") from error
        n = values.shape[0]
        weight = check_sample_weight(weight_val, n, name="sample_weight_val")
        target = self._encode_target(y_val, n, validation=True)
        return Sample(values, self._design.expand(values), target, weight)

    def _count_rules(self, job: Job, sample: Sample, rng: np.random.Generator) -> int:
        """Find the number of rules on a part of the rows, scored on the others."""
        train, val = split_rows(
            len(sample.target),
            float(self.validation_fraction),
            self.validation_split,
            sample.weight,
            sample.target if job.n_outputs else None,
            rng,
        )
        rounds = grow_rules(job, sample.take(train), sample.take(val))
        self._trial_scores = np.array(rounds.scores)
        return rounds.best

    def _keep(self, rounds: Rounds, sample: Sample) -> None:
        """Keep what predictions and the account of the rules need."""
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
        self.train_losses_ = np.array(rounds.losses[: rounds.best + 1])
        scores = self.__dict__.pop("_trial_scores", np.array(rounds.scores))
        self.__dict__.pop("stopping_scores_", None)
        if len(scores):
            self.stopping_scores_ = scores
        self._lines = [_pack(line) for line in rounds.lines[: rounds.best + 1]]
        self.rule_names_ = _rule_names(rounds.best, self._design.names)
        self.coef_names_ = np.array(self._design.names + self.rule_names_, dtype=object)
        self._with_missing = _missing_features(sample.values)
        self._column_spread = rounds.spreads
        self.n_iter_ = len(rounds.lines)
        self._keep_line(rounds.lines[rounds.best])

    def _check_fitted(self) -> None:
        check_enriched(self)

    # -- predict --------------------------------------------------------------------------------

    def _line(self, n_rules: int) -> Line:
        return Line(*self._lines[n_rules])

    def _read(self, X: Any) -> tuple[Any, Any, np.ndarray, int]:
        """Return values, columns of the regression and of the rules, and threads."""
        self._check_is_fitted()
        values = self._read_features(X)
        n = values.shape[0]
        n_threads = 1 if n < 4096 else effective_threads(self.n_jobs)
        rules = np.zeros((n, self.n_rules_), dtype=values.dtype, order="F")
        for k, tree in enumerate(self._trees):
            rules[:, k] = tree.holds(values, rules, n_threads)
        return values, self._design.expand(values), rules, n_threads

    def _raw_scores(self, X: Any) -> np.ndarray:
        _, columns, rules, n_threads = self._read(X)
        return enriched_scores(self._line(self.n_rules_), columns, rules, n_threads)

    def _staged_raw(self, X: Any) -> Iterator[np.ndarray]:
        _, columns, rules, n_threads = self._read(X)
        for k in range(self.n_rules_ + 1):
            yield enriched_scores(self._line(k), columns, rules[:, :k], n_threads)

    # -- enriched data --------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Return the enriched data: the columns of the regression, then one for each rule.

        ``transform(X) @ coef_ + intercept_`` are the scores.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        table : ndarray, CSR array or data frame of shape (n_rows, n_columns + n_rules)
            Without missing values: they are replaced by the means of fit, as in the regression.
            Columns are those of `get_feature_names_out`.
        """
        _, columns, rules, _ = self._read(X)
        fill = self._lines[self.n_rules_][2][: columns.shape[1]]
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
        """Fit, and return the enriched data of the same rows."""
        return self.fit(X, y, sample_weight).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the features where X had none in fit; else they must be those of fit.

        Returns
        -------
        names : ndarray of str
        """
        self._check_is_fitted()
        if input_features is None:
            return self.coef_names_.copy()
        given, known = self._check_input_features(input_features), self._reader.feature_names_in
        names = []
        for name in self._design.names:
            # Names made of numbers: x3, x3=label, "x3 is missing".
            number = name[1:].split("=")[0].split(" ")[0]
            own = name if known is not None else str(given[int(number)]) + name[1 + len(number) :]
            names.append(own)
        return np.array(names + self.rule_names_, dtype=object)

    # -- reading the model ----------------------------------------------------------------------

    def _feature_names(self) -> list[str]:
        known = self._reader.feature_names_in
        return [f"x{f}" for f in range(self.n_features_in_)] if known is None else list(known)

    def _rule_texts(self, digits: int | None = None) -> list[str]:
        """Conditions of the rules, thresholds with so many digits or in full."""
        names, categories = self._feature_names(), self._reader.categories
        about = names, self.rule_names_, categories, self._with_missing, digits
        return [rule_text(tree, *about) for tree in self._trees]

    @property
    def rules_(self) -> list[Rule]:
        """The rules in the order in which they were found."""
        self._check_is_fitted()
        gains = -np.diff(self.train_losses_)
        coefs = np.atleast_2d(self.coef_).T[len(self._design.names) :]
        found = []
        for k, (tree, words) in enumerate(zip(self._trees, self._rule_texts(), strict=True)):
            mean = self._rule_residual[k]
            found.append(
                Rule(
                    name=self.rule_names_[k],
                    text=words,
                    coef=float(coefs[k, 0]) if len(coefs[k]) == 1 else coefs[k].copy(),
                    support=self._support[k],
                    share=self._share[k],
                    gain=float(gains[k]),
                    residual=float(mean[0]) if len(mean) == 1 else mean,
                    tree=tree,
                )
            )
        return found

    def _equation(self, title: str, row: int, max_terms: int | None) -> str:
        """Write the regression of one output as an equation."""
        rules, coefs = self.rules_, np.atleast_2d(self.coef_)[row]
        p = len(coefs) - len(rules)
        return text.equation(
            title,
            float(np.ravel(self.intercept_)[row]),
            list(self.coef_names_[:p]),
            coefs[:p],
            coefs[:p] * self._column_spread,
            list(zip(rules, self._rule_texts(text.DIGITS), coefs[p:], strict=True)),
            max_terms,
        )

    def _draw_rules(self, xlabel: str, row: int, ax: Any, width: int, colors: Any) -> Any:
        """Draw the coefficients of the rules of one output."""
        rules = self.rules_
        coefs = np.array([float(np.ravel(rule.coef)[row]) for rule in rules])
        texts = self._rule_texts(text.DIGITS)
        return text.draw_rules(rules, texts, coefs, xlabel, ax, width, colors)

    def __sklearn_tags__(self) -> Any:
        """Return the tags of an estimator that also transforms."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=["float64", "float32"])
        return tags


def check_depths(max_depth: Any) -> tuple[int | None, ...]:
    """Check a depth for all rounds, or a sequence of depths; None is no limit."""
    if not isinstance(max_depth, list | tuple | np.ndarray):
        return (check_integer("max_depth", max_depth, 1, allow_none=True),)
    if np.ndim(max_depth) != 1 or len(max_depth) == 0:
        raise ValueError(
            "max_depth must be an integer of at least 1, None or a list of these that is not "
            f"empty, got {max_depth!r}"
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
    return np.isnan(values).any(axis=0)
