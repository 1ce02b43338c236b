"""What the EBLR regressor and classifier share: all but the target and the residual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, check_option, check_real
from hybridtrees.base import Estimator, atomic_fit
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads, threads_for_table
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.linear.design import Design
from hybridtrees.models.eblr.rules import Rule, RuleTree, check_depths, check_enriched, rule_text
from hybridtrees.models.shared.output_names import OutputMixin
from hybridtrees.models.shared.tree_parameters import Recipe, check_rows

# The solvers are imported where they are used, to keep `import hybridtrees` quick.
if TYPE_CHECKING:
    from hybridtrees.linear.regression import Line, Options
    from hybridtrees.models.eblr.growing import Job, Rounds, Sample

STOPPING = (None, "validation", "aic", "bic")
SPLITS = ("random", "last")


class EBLRModel(OutputMixin, Estimator):
    """Parameters, rounds, rules and scores."""

    _residuals: dict[str, Callable] = {}

    def __init__(
        self,
        *,
        n_rules: int,
        residual: str,
        max_depth: int | None | Sequence[int | None],
        min_samples_split: int | float,
        min_samples_leaf: int | float,
        max_leaf_nodes: int | None,
        min_impurity_decrease: float,
        penalty: str | None,
        alpha: float | str,
        l1_ratio: float,
        fit_intercept: bool,
        standardize: bool,
        missing_indicator: bool,
        categorical_features: Any,
        early_stopping: str | None,
        validation_fraction: float,
        validation_split: str,
        n_iter_no_change: int,
        cv: Any,
        max_iter: int,
        tol: float,
        random_state: Any,
        n_jobs: int | None,
        verbose: int,
    ):
        self.n_rules = n_rules
        self.residual = residual
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.missing_indicator = missing_indicator
        self.categorical_features = categorical_features
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.validation_split = validation_split
        self.n_iter_no_change = n_iter_no_change
        self.cv = cv
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- what the two differ in -----------------------------------------------------------------

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        raise AttributeError("the regressor and the classifier bring this")

    def _encode_more(self, y: Any, n_rows: int) -> np.ndarray:
        raise AttributeError("the regressor and the classifier bring this")

    def _n_outputs(self) -> int:
        return 0

    def _row_loss(self) -> Callable:
        raise AttributeError("the regressor and the classifier bring this")

    def _choose_alpha(self, sample: Sample, options: Options) -> float:
        raise AttributeError("the regressor and the classifier bring this")

    def _keep_target(self) -> None:
        """Keep what the classifier needs to turn scores into probabilities."""

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
            NaN means missing. String and category columns of a data frame are categories.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
        X_val, y_val, sample_weight_val : optional
            Rows that decide about the number of rules, in place of a part of `X`.

        Returns
        -------
        self : estimator
        """
        from hybridtrees.models.eblr.growing import Sample, grow_rules

        options = self._options()
        recipe, n_rules = self._check_parameters(X_val, y_val)
        seeds = seed_sequence(self.random_state)
        values = self._fit_features(X, categorical_features=self.categorical_features)
        target = self._encode_target(y, values.shape[0])
        weight = check_sample_weight(sample_weight, values.shape[0])
        self._design = Design(
            self._reader,
            values,
            drop_first=self.penalty is None and bool(self.fit_intercept),
            indicators=bool(self.missing_indicator),
        )
        # Threads wait for each other longer than they work on a small table.
        n_threads = threads_for_table(options.n_threads, *values.shape)
        sample = Sample(values, self._design.expand(values), target, weight)
        options = replace(options, n_threads=n_threads)
        alpha = self._choose_alpha(sample, options)
        options = replace(options, penalty=replace(options.penalty, alpha=alpha))
        job = self._job(recipe, n_rules, options)
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

    def _options(self) -> Options:
        """Check the parameters of the regression."""
        from hybridtrees.linear.path import check_cv, check_penalty
        from hybridtrees.linear.regression import Options

        check_boolean("missing_indicator", self.missing_indicator)
        cv = check_cv(self.cv)
        tol = check_real("tol", self.tol, 0, closed="right")
        max_iter = check_integer("max_iter", self.max_iter, 1, 2**31 - 1)
        assert tol is not None and max_iter is not None
        if not tol > 0:
            raise ValueError(f"tol must be a real number greater than 0, got {self.tol!r}")
        return Options(
            penalty=check_penalty(self.penalty, self.alpha, self.l1_ratio),
            fit_intercept=check_boolean("fit_intercept", self.fit_intercept),
            standardize=check_boolean("standardize", self.standardize),
            tol=tol,
            max_iter=max_iter,
            n_threads=effective_threads(self.n_jobs),
            cv=cv,
        )

    def _check_parameters(self, X_val: Any, y_val: Any) -> tuple[Recipe, int]:
        """Check the parameters of rounds and trees, all before any work."""
        n_rules = check_integer("n_rules", self.n_rules, 0, 2**20)
        assert n_rules is not None
        check_option("residual", self.residual, tuple(self._residuals))
        check_depths(self.max_depth)
        leaves = check_integer("max_leaf_nodes", self.max_leaf_nodes, 2, allow_none=True)
        decrease = check_real("min_impurity_decrease", self.min_impurity_decrease, 0)
        check_option("early_stopping", self.early_stopping, STOPPING)
        check_option("validation_split", self.validation_split, SPLITS)
        check_real("validation_fraction", self.validation_fraction, 0, 1, closed="neither")
        check_integer("n_iter_no_change", self.n_iter_no_change, 1)
        if not isinstance(self.verbose, bool):
            check_integer("verbose", self.verbose, 0)
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val must be given both or not at all")
        if X_val is not None and self.early_stopping in ("aic", "bic"):
            raise ValueError(
                f"early_stopping={self.early_stopping!r} looks at the training rows only: with "
                "X_val it must be None or 'validation'"
            )
        assert decrease is not None
        recipe = Recipe(
            criterion="squared_error",
            splitter="exact",
            max_depth=None,  # of each round, see Job
            min_samples_split=check_rows(
                "min_samples_split", self.min_samples_split, 2, closed="right"
            ),
            min_samples_leaf=check_rows(
                "min_samples_leaf", self.min_samples_leaf, 1, closed="neither"
            ),
            min_weight_fraction_leaf=0.0,
            min_impurity_decrease=decrease,
            max_leaf_nodes=leaves,
            max_bins=255,
            missing="learn",
            max_features=0,
            n_classes=0,
            is_categorical=np.zeros(0, dtype=bool),
            monotonic=None,
            random_ties=False,
            n_threads=1,
        )
        return recipe, n_rules

    def _job(self, recipe: Recipe, n_rules: int, options: Options) -> Job:
        from hybridtrees.models.eblr.growing import Job

        return Job(
            n_rules=n_rules,
            n_outputs=self._n_outputs(),
            options=options,
            params=recipe.grower_params,
            depths=check_depths(self.max_depth),
            is_categorical=self._reader.is_categorical,
            residual=self._residuals[self.residual],
            loss=self._row_loss(),
            criterion=self.early_stopping,
            patience=int(self.n_iter_no_change),
            n_threads=options.n_threads,
            verbose=int(self.verbose),
        )

    def _validation_sample(self, X_val: Any, y_val: Any, weight_val: Any) -> Sample:
        from hybridtrees.models.eblr.growing import Sample

        try:
            values = self._read_features(X_val)
        except (TypeError, ValueError) as error:  # they speak of X
            raise type(error)(f"X_val: {error}") from error
        n = values.shape[0]
        weight = check_sample_weight(weight_val, n, name="sample_weight_val")
        return Sample(values, self._design.expand(values), self._encode_more(y_val, n), weight)

    def _count_rules(self, job: Job, sample: Sample, rng: np.random.Generator) -> int:
        """Find the number of rules on a part of the rows, judged by the others."""
        from hybridtrees.models.eblr.growing import grow_rules, split_rows

        train, val = split_rows(
            sample.n_rows,
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
            from hybridtrees.linear.solvers import warn_not_converged

            warn_not_converged(type(self).__name__, rounds.n_iter, stacklevel=5)
        self.n_rules_ = rounds.best
        found = rounds.rules[: rounds.best]
        self._trees: list[RuleTree] = [rule.tree for rule in found]
        weight = np.ones(sample.n_rows) if sample.weight is None else sample.weight
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
        self._set_coef(rounds.lines[rounds.best])
        self.n_iter_ = len(rounds.lines)
        self._keep_target()

    def _check_fitted(self) -> None:
        check_enriched(self)

    def _set_coef(self, line: Line) -> None:
        raise AttributeError("the regressor and the classifier bring this")

    # -- predict --------------------------------------------------------------------------------

    def _line(self, n_rules: int) -> Line:
        from hybridtrees.linear.regression import Line

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

    def predict_raw(self, X: Any) -> np.ndarray:
        """Scores of the regression on features and rules.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        raw : ndarray of shape (n_rows, n_outputs)
        """
        from hybridtrees.models.eblr.growing import enriched_scores

        _, columns, rules, n_threads = self._read(X)
        return enriched_scores(self._line(self.n_rules_), columns, rules, n_threads)

    def _staged_raw(self, X: Any) -> Iterator[np.ndarray]:
        from hybridtrees.models.eblr.growing import enriched_scores

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
        given = np.asarray(input_features, dtype=object)
        known = self._reader.feature_names_in
        if known is not None and not np.array_equal(known, given):
            raise ValueError("input_features is not equal to feature_names_in_")
        if len(given) != self.n_features_in_:
            raise ValueError(
                "input_features should have length equal to number of features "
                f"({self.n_features_in_}), got {len(given)}"
            )
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

    def _rule_coef(self, k: int) -> Any:
        raise AttributeError("the regressor and the classifier bring this")

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
        found = []
        for k, (tree, words) in enumerate(zip(self._trees, self._rule_texts(), strict=True)):
            mean = self._rule_residual[k]
            found.append(
                Rule(
                    name=self.rule_names_[k],
                    text=words,
                    coef=self._rule_coef(k),
                    support=self._support[k],
                    share=self._share[k],
                    gain=float(gains[k]),
                    residual=float(mean[0]) if len(mean) == 1 else mean,
                    tree=tree,
                )
            )
        return found

    def __sklearn_tags__(self) -> Any:
        """Return the tags of an estimator that also transforms."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=["float64", "float32"])
        return tags


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
