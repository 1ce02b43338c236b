"""What mixtures of experts for numbers and for classes share."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from hybridtrees._parameters import (
    Seed,
    attribute,
    check_boolean,
    check_integer,
    check_real,
    check_verbose,
    is_classifier,
)
from hybridtrees.base import atomic_fit
from hybridtrees.core.base.checks import check_array, check_arrays, check_count, check_type
from hybridtrees.core.base.random_state import spawn_seeds
from hybridtrees.core.base.threads import effective_threads, predict_threads
from hybridtrees.ensembles.members import (
    Ensemble,
    Rows,
    check_fitted_members,
    check_member,
    check_probabilities,
    check_takes_weight,
)
from hybridtrees.ensembles.mixture_em import (
    Blocks,
    Experts,
    Fitted,
    Floats,
    Schedule,
    log_softmax,
    maximise,
    ridge_terms,
    starting_shares,
)
from hybridtrees.input._user_tables import open_columns
from hybridtrees.input.labels_text import aligned
from hybridtrees.input.targets import check_sample_weight
from hybridtrees.linear._base import check_line
from hybridtrees.linear.design import Design

_TREE = "tree"
# Coefficients of the gate, or of a classifier's expert: the square of this is the size of a matrix.
_MOST_COEFFICIENTS = 6000
# Terms of a summary.
_MOST_TERMS = 20


class LinearExpert(NamedTuple):
    """A linear or logistic expert of a fitted mixture.

    Attributes
    ----------
    coef : ndarray of shape (n_outputs, n_terms)
        One output for a number or two classes, else one per class.
    intercept : ndarray of shape (n_outputs,)
    """

    coef: np.ndarray
    intercept: np.ndarray


class Training(NamedTuple):
    """Training rows as EM takes them."""

    rows: Rows
    blocks: Blocks
    weight: Floats  # of mean 1
    unit: float  # what a weight of 1 stands for
    n_threads: int


class MixtureOfExperts(Ensemble):
    """Base of mixtures of experts.

    Parameters
    ----------
    n_experts : int
        Number of experts.
    alpha : float
        Ridge penalty on the coefficients of the experts, for standardised columns and per unit of
        weight. Trees and other estimators have parameters of their own.
    gate_alpha : float
        Ridge penalty on the coefficients of the gate.
    max_depth : int
        Maximum depth of experts that are trees.
    n_restarts : int
        Number of runs of EM, each from other random responsibilities. That of the largest
        penalised likelihood is kept.
    max_iter : int
        Maximum number of EM iterations of a run.
    tol : float
        A run stops when an iteration raises the penalised log-likelihood per unit of weight by no
        more than this.
    missing_indicator : bool
        Whether gate and linear experts have a 0/1 column for each feature with missing values in
        fit. They replace missing values by the mean in any case; trees have missing values of
        their own.
    categorical_features : array-like or None
        Categorical columns (names, indices or a mask), in addition to the string and category
        columns of a data frame. Gate and linear experts have a 0/1 column for each category.
    random_state : int, RandomState, Generator, SeedSequence or None
        Seed of the first responsibilities.
    n_jobs : int or None
        Number of threads; all usable CPUs by default. The result does not depend on it.
    verbose : int
        Print a line every `verbose` iterations.

    Attributes
    ----------
    log_likelihood_ : float
        Log-likelihood of the training rows, without penalties.
    log_likelihood_curve_ : ndarray of shape (n_iter,)
        Penalised log-likelihood after each iteration of the run that was kept. It never falls.
    n_iter_ : int
        Number of iterations of that run.
    converged_ : bool
        Whether it stopped before `max_iter` iterations.
    restart_log_likelihoods_ : ndarray of shape (n_restarts,)
        Penalised log-likelihoods at the end of all runs.
    expert_shares_ : ndarray of shape (n_experts,)
        Shares of the training weight for which the experts are responsible, the largest first.
    gate_coef_ : ndarray of shape (n_experts, n_terms)
        Coefficients of the gate for all columns of the regression; they sum to 0 over the experts.
    gate_intercept_ : ndarray of shape (n_experts,)
        Intercepts of the gate.
    term_names_ : ndarray of str
        Names of the columns: those of the features (x0, x1, ... if they have none), then
        ``feature=category``, then ``feature is missing``.
    experts_ : list
        The experts: `coef` and `intercept` of linear ones, else fitted estimators.
    """

    n_experts: int = 2
    expert: Any = attribute()
    alpha: float = 1e-4
    gate_alpha: float = 1e-4
    max_depth: int = 3
    n_restarts: int = 4
    max_iter: int = 200
    tol: float = 1e-6
    missing_indicator: bool = False
    categorical_features: Any = None
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: int = 0

    # The name of the expert that is a regression.
    _regression = ""

    log_likelihood_: float = attribute()
    log_likelihood_curve_: np.ndarray = attribute()
    restart_log_likelihoods_: np.ndarray = attribute()
    expert_shares_: np.ndarray = attribute()
    n_iter_: int = attribute()
    converged_: bool = attribute()
    _members: list[Any] = attribute()
    _linear: bool = attribute()

    # -- fit ------------------------------------------------------------------------------------

    def _check_parameters(self) -> Schedule:
        """Check the parameters."""
        check_integer("n_experts", self.n_experts, 1, 1000)
        check_integer("n_restarts", self.n_restarts, 1)
        check_integer("max_depth", self.max_depth, 1, 2**31 - 1)
        check_real("alpha", self.alpha, 0, closed="neither")
        check_real("gate_alpha", self.gate_alpha, 0, closed="neither")
        check_boolean("missing_indicator", self.missing_indicator)
        check_verbose(self.verbose)
        if isinstance(self.expert, str) or not hasattr(self.expert, "fit"):
            options = (self._regression, _TREE)
            if not isinstance(self.expert, str) or self.expert not in options:
                allowed = " or ".join(map(repr, options))
                raise ValueError(f"expert must be {allowed} or an estimator, got {self.expert!r}")
        else:
            check_member(self.expert, "expert", self)
            check_takes_weight(self.expert, "expert", "use another one")
            if is_classifier(self):
                needs = f"{type(self).__name__} needs probabilities"
                check_probabilities(self.expert, "expert", needs)
        max_iter = check_integer("max_iter", self.max_iter, 1)
        tol = check_real("tol", self.tol, 0)
        return Schedule(max_iter, tol, int(self.verbose), type(self).__name__)

    def _encode(self, y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Check the target; returns it, and class codes."""
        raise NotImplementedError

    def _open(self, training: Training, seed: int) -> tuple[Experts, Floats | None]:
        """Return new experts, and the standardised target if it may separate them."""
        raise NotImplementedError

    def _tree_parameters(self) -> dict[str, Any]:
        """Return the parameters of experts that are trees."""
        return {
            "max_depth": self.max_depth,
            "categorical_features": self.categorical_features,
            # No leaves of rows that belong to other experts.
            "min_weight_fraction_leaf": 0.01,
        }

    def _keep(self, fitted: Fitted, training: Training, order: np.ndarray) -> list[Floats]:
        """Store the experts; return the coefficients of linear ones, each (n_outputs, width)."""
        raise NotImplementedError

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit gate and experts by EM.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Numbers for a regressor, class labels for a classifier.
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self : estimator
        """
        from hybridtrees.linear.blas import sequential_blas
        from hybridtrees.linear.cross_products import column_scales, standardised
        from hybridtrees.linear.solvers import warn_not_converged

        schedule = self._check_parameters()
        n_threads = effective_threads(self.n_jobs)
        seeds = spawn_seeds(self.random_state, int(self.n_restarts)) >> np.uint64(2)
        values = self._fit_features(X, categorical_features=self.categorical_features)
        n_rows = values.shape[0]
        target, codes = self._encode(y, n_rows)
        given = check_sample_weight(sample_weight, n_rows)
        given = self._weigh_classes(target if codes is None else codes, given)
        self._linear = isinstance(self.expert, str) and self.expert == self._regression
        columns = open_columns(X) if not self._linear else None
        rows = Rows(columns, target, given, codes)  # type: ignore[arg-type]
        indicators = bool(self.missing_indicator)
        self._design = Design(self._reader, values, drop_first=False, indicators=indicators)
        table = self._design.expand(values)
        self._check_width(table.shape[1] + 1)
        unit = 1.0 if given is None else float(given.sum()) / n_rows
        weight = np.ones(n_rows) if given is None else given / unit
        scales = column_scales(table, given, n_threads=n_threads)
        with sequential_blas(), Blocks(standardised(table, *scales), n_threads) as blocks:
            training = Training(rows, blocks, weight, unit, n_threads)
            runs = []
            for number, seed in enumerate(seeds.tolist()):
                schedule.name = f"{type(self).__name__} run {number + 1}"
                runs.append(self._run(training, seed, number, schedule))
            best = runs[int(np.argmax([run.curve[-1] for run in runs]))]
            self._keep_fit(best, runs, training, scales)
        if not best.converged:
            warn_not_converged(type(self).__name__, self.n_iter_, stacklevel=4)
        return self

    def _check_width(self, width: int) -> None:
        """Refuse tables with so many columns that the equations of a step would fill the memory."""
        n_outputs = max(int(self.n_experts), self._n_outputs() if self._linear else 1)
        if n_outputs * width > _MOST_COEFFICIENTS:
            raise ValueError(
                f"X has {width - 1} columns, with those of categories, too many for "
                f"n_experts={self.n_experts}: {n_outputs} x {width} coefficients would be fitted "
                f"at once, at most {_MOST_COEFFICIENTS} are possible"
            )

    def _run(self, training: Training, seed: int, number: int, schedule: Schedule) -> Fitted:
        blocks, weight = training.blocks, training.weight
        experts, extra = self._open(training, seed)
        # Every second run separates rows by the target, too.
        shares = starting_shares(blocks, int(self.n_experts), seed, extra if number % 2 else None)
        ridge = ridge_terms(blocks.width, float(self.gate_alpha) * blocks.n_rows)
        return maximise(blocks, experts, weight, shares, ridge, schedule)

    def _log_unit(self) -> float:
        """Return the logarithm of the unit in which densities are computed."""
        return 0.0

    def _keep_fit(
        self, best: Fitted, runs: list[Fitted], training: Training, scales: tuple[Floats, ...]
    ) -> None:
        n_rows = training.blocks.n_rows
        order = np.argsort(-best.shares, kind="stable")
        self.expert_shares_ = best.shares[order] / best.shares.sum()
        mean, scale, fill = scales
        inverse = np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)
        functions = np.vstack([best.gate[order], *self._keep(best, training, order)])
        coef = np.ascontiguousarray((functions[:, :-1] * inverse).T)
        self._line = coef, mean, fill, functions[:, -1].copy()
        shift = n_rows * self._log_unit()
        self.log_likelihood_ = (best.log_likelihood - shift) * training.unit
        self.log_likelihood_curve_ = (np.array(best.curve) - shift) * training.unit
        ends = np.array([run.curve[-1] for run in runs])
        self.restart_log_likelihoods_ = (ends - shift) * training.unit
        self.n_iter_, self.converged_ = len(best.curve), best.converged

    # -- fitted ---------------------------------------------------------------------------------

    def _n_outputs(self) -> int:
        """Return the number of linear functions of an expert."""
        raise NotImplementedError

    def _check_fitted(self) -> None:
        check_arrays(self, {"expert_shares_": ("f8", "k"), "log_likelihood_curve_": ("f8", "n")})
        n_experts = len(self.expert_shares_)
        design = check_type(self, "_design", Design)
        design.check_reader(self._reader)
        linear = check_type(self, "_linear", bool)
        n_functions = check_line(self._line, design.n_columns)
        if not n_experts or n_functions != n_experts * (1 + linear * self._n_outputs()):
            raise ValueError(f"{n_experts} experts cannot have {n_functions} linear functions")
        check_count(self, "n_iter_")
        members = check_type(self, "_members", list)
        if len(members) != (0 if linear else n_experts):
            raise ValueError(f"a mixture of {n_experts} experts has {len(members)} members")
        check_fitted_members(self, members, [self.n_features_in_] * len(members))

    def _functions(self, X: Any) -> Floats:
        """Return the scores of gate and linear experts, (n_functions, n_rows)."""
        from hybridtrees.linear.regression import Line

        self._check_is_fitted()
        values = self._design.expand(self._read_features(X))
        n_threads = predict_threads(self.n_jobs, values.shape[0])
        scores = Line(*self._line).predict(values, None, n_threads)
        return np.ascontiguousarray(scores.T)

    def _gate_and_experts(self, X: Any) -> tuple[Floats, Floats]:
        """Return log-probabilities of the gate, and predictions of the experts."""
        found, k = self._functions(X), len(self.expert_shares_)
        return log_softmax(found[:k]), self._expert_outputs(X, found[k:])

    def _expert_outputs(self, X: Any, scores: Floats) -> Floats:
        """Return the experts' predictions, (n_experts, n_rows), or with an axis of classes."""
        raise NotImplementedError

    def _log_density(self, experts: Floats, y: Any) -> Floats:
        """Return log-densities of targets under the experts, (n_experts, n_rows)."""
        raise NotImplementedError

    def predict_experts(self, X: Any) -> np.ndarray:
        """Predict by each expert.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        prediction : ndarray of shape (n_rows, n_experts), or (n_rows, n_experts, n_classes)
            Numbers, or class probabilities.
        """
        return np.ascontiguousarray(np.swapaxes(self._gate_and_experts(X)[1], 0, 1))

    def responsibilities(self, X: Any, y: Any = None) -> np.ndarray:
        """Return how far each expert is responsible for each row.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), optional
            Targets. With them the responsibilities are posterior probabilities of the experts,
            else those of the gate.

        Returns
        -------
        shares : ndarray of shape (n_rows, n_experts)
            They sum to 1 in each row.
        """
        logs, experts = self._gate_and_experts(X)
        if y is not None:
            logs = log_softmax(logs + np.maximum(self._log_density(experts, y), -1e290))
        return np.ascontiguousarray(np.exp(logs).T)

    @property
    def term_names_(self) -> np.ndarray:
        """Names of the columns of gate and linear experts."""
        self._check_is_fitted()
        return np.array(self._design.names, dtype=object)

    @property
    def gate_coef_(self) -> np.ndarray:
        """Coefficients of the gate."""
        self._check_is_fitted()
        return self._line[0].T[: len(self.expert_shares_)].copy()

    @property
    def gate_intercept_(self) -> np.ndarray:
        """Intercepts of the gate."""
        self._check_is_fitted()
        coef, mean, _, base = self._line
        return np.asarray((base - mean @ coef)[: len(self.expert_shares_)])

    @property
    def experts_(self) -> list[Any]:
        """The experts."""
        self._check_is_fitted()
        if not self._linear:
            return list(self._members)
        coef, mean, _, base = self._line
        k, n_outputs = len(self.expert_shares_), self._n_outputs()
        coef, base = coef[:, k:], (base - mean @ coef)[k:]
        each = [slice(j * n_outputs, (j + 1) * n_outputs) for j in range(k)]
        return [LinearExpert(coef[:, own].T.copy(), base[own].copy()) for own in each]

    def _expert_facts(self) -> tuple[list[str], list[list[str]]]:
        """Return a heading and, for each expert, a text of its further facts."""
        return [], [[] for _ in self.expert_shares_]

    def summary(self) -> str:
        """Return a readable account: shares, and coefficients of gate and linear experts.

        Returns
        -------
        text : str
        """
        self._check_is_fitted()
        k = len(self.expert_shares_)
        expert = self.expert if isinstance(self.expert, str) else type(self.expert).__name__
        state = "converged" if self.converged_ else "stopped"
        lines = [
            f"{type(self).__name__}: {k} experts ({expert}), {state} after {self.n_iter_} "
            f"iterations, log-likelihood {self.log_likelihood_:.6g}"
        ]
        heads, facts = self._expert_facts()
        rows = [["expert", "share", *heads]]
        for j, (share, own) in enumerate(zip(self.expert_shares_, facts, strict=True)):
            rows.append([str(j), f"{share:.3f}", *own])
        lines += ["", *aligned(rows)]
        n_terms = len(self._design.names)
        columns = [(f"gate {j}", c) for j, c in enumerate(self._with_intercepts("gate"))]
        if self._linear:
            columns += [(f"expert {j}", c) for j, c in enumerate(self._with_intercepts("expert"))]
        names = ["intercept", *self._design.names][: _MOST_TERMS + 1]
        rows = [["term", *(head for head, _ in columns)]]
        for i, name in enumerate(names):
            rows.append([name, *(f"{numbers[i]:.4g}" for _, numbers in columns)])
        lines += ["", *aligned(rows)]
        if n_terms > _MOST_TERMS:
            lines.append(f"... {n_terms - _MOST_TERMS} more terms")
        return "\n".join(lines)

    def _with_intercepts(self, part: str) -> list[np.ndarray]:
        """Return the coefficients of each function of gate or experts, the intercept first."""
        coef, mean, _, base = self._line
        k = len(self.expert_shares_)
        both = np.vstack([base - mean @ coef, coef]).T
        return list(both[:k] if part == "gate" else both[k:])

    def _check_scalars(self, name: str) -> None:
        """Refuse an array that is not one positive number per expert."""
        check_array(getattr(self, name), name, "f8", [len(self.expert_shares_)])
        if not np.all(getattr(self, name) > 0):
            raise ValueError(f"{name} must be positive")
