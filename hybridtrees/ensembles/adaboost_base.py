"""The rounds of AdaBoost, without the target: members, their weights and errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import (
    attribute,
    check_boolean,
    check_integer,
    check_real,
    declared_parameters,
    differs,
)
from hybridtrees.base import atomic_fit
from hybridtrees.core.base.checks import check_arrays, check_count, check_numbers, check_type
from hybridtrees.core.base.exact_sum import exact_sum
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads, table_threads
from hybridtrees.ensembles.adaboost_members import MemberCopies, Members, TreeMembers
from hybridtrees.ensembles.members import (
    Ensemble,
    check_fitted_members,
    check_member,
    check_takes_weight,
)
from hybridtrees.input.targets import check_sample_weight
from hybridtrees.models.shared.bagging import bootstrap_counts, tree_seeds
from hybridtrees.models.shared.importance import importance_lines, shares
from hybridtrees.models.shared.progress import Progress
from hybridtrees.models.shared.tree_parameters import ImpurityTreeParameters, Splitter

# Fitted attributes that only some fits set: the next fit removes them.
_LEARNED = ("trees_", "estimators_", "_reader")

# Parameters of the trees that an ensemble of other members uses too.
_SHARED = ("random_state", "n_jobs", "verbose")

# The smallest weight that a round gives to a row: with 0 it would be out of all further rounds.
# It is the smallest weight of scikit-learn too.
_LEAST_WEIGHT = float(np.finfo(np.float64).eps)

# Samples that are drawn for a member until one is good enough: a useless one may be bad luck.
_DRAWS = 10


class Verdict(NamedTuple):
    """How good a member is."""

    error: float
    alpha: float = 1.0  # its weight in the ensemble
    weight: np.ndarray | None = None  # of the rows in the next round, None at the end
    useless: bool = False

    @property
    def ending(self) -> str:
        """Why the training ends with this member; empty if it goes on."""
        if self.weight is not None:
            return ""
        return "the member is useless" if self.useless else "the member is perfect"


@dataclass
class Boosting:
    """The rounds of a fit."""

    members: list[Any] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    alphas: list[float] = field(default_factory=list)


class AdaBoostModel(Ensemble, ImpurityTreeParameters):
    """AdaBoost, without the target.

    Parameters
    ----------
    estimator : estimator or None
        What is boosted. None means trees with the parameters of this class. They are grown on one
        table, in a fraction of the time. Other estimators, of this package or with scikit-learn's
        protocol, are copied for each round, and get the table as it is passed to `fit`; parameters
        of trees must then keep their defaults. Without `resample` their `fit` must take weights,
        which have the mean 1.
    n_estimators : int
        Maximum number of rounds: a perfect or a useless member ends the training.
    learning_rate : float
        Factor on the weight of every member, and with it on the change of the row weights.
    splitter : {"hist", "exact", "random"}
        Search thresholds between at most `max_bins` bins of each feature, or every threshold, or
        draw one of each feature between its bins. Bins are several times as fast as every threshold
        for two classes and for squared error, with the default `missing` and without constraints.
    ccp_alpha : float
        Complexity parameter of minimal cost-complexity pruning of every tree, per row.
    random_state : int, Generator, RandomState or None
        Seed of the rows and features drawn, and of members without one. Ties between splits are not
        drawn: the first feature and the lowest threshold win. The same seed gives the same model
        for any `n_jobs`.
    verbose : int
        Print a line every `verbose` rounds, with elapsed and remaining time.

    Attributes
    ----------
    estimator_weights_ : ndarray of shape (n_members,)
        Weights of the members.
    estimator_errors_ : ndarray of shape (n_members,)
        Their errors on the training rows, by the weights of their round.
    n_iter_ : int
        Number of members.
    trees_ : TreeEnsemble or PackedTrees
        The trees; indexing gives a `Tree`. With `estimator` there is a list of its fitted copies
        instead, ``estimators_``.
    feature_importances_ : ndarray of shape (n_features,)
        Mean of the members' importances by their weights.
    """

    _positional: ClassVar[tuple[str, ...]] = ("estimator",)

    estimator: Any = None
    n_estimators: int = 50
    learning_rate: float = 1.0
    resample: bool = attribute()
    splitter: Splitter = "hist"
    ccp_alpha: float = 0.0

    trees_: Any = attribute()
    estimators_: list[Any] = attribute()
    estimator_weights_: np.ndarray = attribute()
    estimator_errors_: np.ndarray = attribute()
    n_iter_: int = attribute()

    # -- what differs by target -----------------------------------------------------------------

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        raise NotImplementedError

    def _assess(self, prediction: np.ndarray, target: np.ndarray, weight: np.ndarray) -> Verdict:
        """Return the error and the weight of a member, and the weights of the next round."""
        raise NotImplementedError

    def _lone_useless(self, verdict: Verdict) -> Verdict:
        """Return what becomes of a first member that is useless."""
        raise NotImplementedError

    def _member_classes(self) -> np.ndarray | None:
        """Return the classes that members predict, None in regression."""
        raise NotImplementedError

    def _kept_trees(self, made: Boosting) -> Any:
        """Return the trees in the form that is kept."""
        raise NotImplementedError

    def _check_trees(self) -> None:
        """Refuse trees of a file that do not fit the rest."""
        raise NotImplementedError

    # -- fit ------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Check what can be checked without the data."""
        check_integer("n_estimators", self.n_estimators, 1)
        check_real("learning_rate", self.learning_rate, 0, closed="neither")
        check_boolean("resample", self.resample)
        check_real("ccp_alpha", self.ccp_alpha, 0)
        self._check_tree_parameters()
        if self.estimator is None:
            return
        check_member(self.estimator, "estimator", self)
        if not self.resample:
            advice = "set resample=True, or use another estimator"
            check_takes_weight(self.estimator, "estimator", advice)
        defaults = self._parameter_defaults()
        for name in declared_parameters(ImpurityTreeParameters):
            if name not in _SHARED and differs(getattr(self, name), defaults[name]):
                raise ValueError(
                    f"{name} is a parameter of the trees of estimator=None: set it in the "
                    f"estimator, a {type(self.estimator).__name__}, instead"
                )

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the members, round by round.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            NaN means missing. String and category columns of a data frame are categories. With
            `estimator`, whatever that takes.
        y : array-like of shape (n_rows,)
            Class labels, or numbers.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the first round, all equal by default. Rows of weight zero are left out.

        Returns
        -------
        self : estimator
        """
        self._check_parameters()
        seeds = seed_sequence(self.random_state)
        for name in _LEARNED:
            self.__dict__.pop(name, None)
        with self._open_members(X, y, sample_weight) as members:
            made = self._boost(members, seeds)
        self.estimator_weights_ = np.array(made.alphas)
        self.estimator_errors_ = np.array(made.errors)
        self.n_iter_ = len(made.members)
        if self.estimator is None:
            self.trees_ = self._kept_trees(made)
        else:
            self.estimators_ = made.members
        return self

    def _open_members(self, X: Any, y: Any, sample_weight: Any) -> Members:
        """Read the input of `fit`, and return what fits members to it."""
        resample = bool(self.resample)
        if self.estimator is not None:
            rows = self._learn_rows(X, y, sample_weight)
            n_threads = effective_threads(self.n_jobs)
            classes = self._member_classes()
            return MemberCopies(self.estimator, rows, classes, resample, n_threads)
        values = self._fit_features(X, categorical_features=self.categorical_features)
        target = self._encode_target(y, values.shape[0])
        weight = check_sample_weight(sample_weight, values.shape[0])
        weight = self._weigh_classes(target, weight)
        values = self._order_categories(values, target, weight)
        recipe = self._recipe(table_threads(self.n_jobs, *values.shape), random_ties=False)
        return TreeMembers(recipe, values, target, weight, resample, float(self.ccp_alpha))

    def _boost(self, members: Members, seeds: np.random.SeedSequence) -> Boosting:
        """Run the rounds."""
        made, weight = Boosting(), members.start
        least = np.minimum(members.start, _LEAST_WEIGHT)
        report = Progress(self.verbose, int(self.n_estimators))
        for index in range(int(self.n_estimators)):
            member, verdict = self._next_member(members, weight, seeds, index)
            if verdict.useless and not made.members:
                verdict = self._lone_useless(verdict)
            if not verdict.useless:
                made.members.append(member)
                made.errors.append(verdict.error)
                made.alphas.append(verdict.alpha)
            report(f"error:{verdict.error:.5f}", verdict.ending)
            if verdict.weight is None:
                break
            weight = verdict.weight / exact_sum(verdict.weight)
            np.maximum(weight, least, out=weight)
        return made

    def _next_member(
        self, members: Members, weight: np.ndarray, seeds: np.random.SeedSequence, index: int
    ) -> tuple[Any, Verdict]:
        """Fit a member to the weighted rows, or to samples until one is not useless."""
        if not members.resample:
            member, prediction = members.fit_next(weight, tree_seeds(seeds, index)[1])
            return member, self._assess(prediction, members.target, weight)
        own = np.random.SeedSequence(seeds.entropy, spawn_key=(*seeds.spawn_key, index))
        for attempt in range(_DRAWS):
            draw, growth = tree_seeds(own, attempt)
            counts = bootstrap_counts(draw, len(weight), len(weight), weight)
            member, prediction = members.fit_next(counts.astype(np.float64), growth)
            verdict = self._assess(prediction, members.target, weight)
            if not verdict.useless:
                break
        return member, verdict

    # -- reading --------------------------------------------------------------------------------

    def _check_fitted(self) -> None:
        n_members = check_count(self, "n_iter_", 1)
        layout = {"estimator_weights_": ("f8", n_members), "estimator_errors_": ("f8", n_members)}
        check_arrays(self, layout)
        check_numbers(self.estimator_weights_, "estimator_weights_", 0, np.inf)
        check_numbers(self.estimator_errors_, "estimator_errors_", 0, np.inf)
        if not 0 < self.estimator_weights_.sum() < np.inf:
            raise ValueError("estimator_weights_ must have a positive sum")
        if "trees_" in vars(self):
            self._check_trees()
            found = len(self.trees_)
        else:
            members = check_type(self, "estimators_", list)
            found, n_features = len(members), check_count(self, "n_features_in_", 1)
            check_fitted_members(self, members, [n_features] * found)
        if found != n_members:
            raise ValueError(f"n_iter_ must be {found}, the number of members, got {n_members}")

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Mean of the members' importances by their weights."""
        self._check_is_fitted()
        weights = self.estimator_weights_
        if "trees_" not in vars(self):
            found = [getattr(member, "feature_importances_", None) for member in self.estimators_]
            if any(one is None for one in found):
                raise AttributeError(
                    f"{type(self.estimators_[0]).__name__} has no feature_importances_"
                )
            return np.asarray(weights @ np.array(found) / weights.sum())
        total: NDArray[np.float64] = np.zeros(self.n_features_in_)
        for index, weight in enumerate(weights):
            nodes = self.trees_[index].nodes
            splits = nodes[nodes["left"] >= 0]
            gains = np.maximum(splits["gain"], 0.0)
            total += weight * shares(np.bincount(splits["feature"], gains, self.n_features_in_))
        return np.asarray(total / weights.sum())

    def apply(self, X: Any) -> np.ndarray:
        """Return the leaf of each row in every tree.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        leaves : ndarray of int32, shape (n_rows, n_trees)
            Indices of nodes. With ``missing="stop"`` a row may end at an inner node.
        """
        self._check_is_fitted()
        if "trees_" not in vars(self):
            raise AttributeError("apply is for trees: estimators_ has other members")
        values = self._read_features(X)
        return np.asarray(self.trees_.apply(values, self._predict_threads(values.shape[0])))

    def summary(self) -> str:
        """Summarise the ensemble: members, errors, weights, importances.

        Returns
        -------
        text : str
        """
        self._check_is_fitted()
        errors, weights = self.estimator_errors_, self.estimator_weights_
        kind = f"trees, {self.splitter} splits"
        if "trees_" not in vars(self):
            kind = f"members {type(self.estimators_[0]).__name__}"
        drawn = "rows drawn by their weights" if self.resample else "rows weighted"
        lines = [
            f"{type(self).__name__}: {kind}, {drawn}",
            f"features {self.n_features_in_}, members {self.n_iter_}",
            f"errors: first {errors[0]:.6g}, min {errors.min():.6g}, max {errors.max():.6g}",
            f"weights: first {weights[0]:.6g}, min {weights.min():.6g}, max {weights.max():.6g}",
        ]
        if "trees_" in vars(self):
            names = vars(self).get("feature_names_in_")
            lines += importance_lines(self.feature_importances_, names)
        return "\n".join(lines)
