"""Bagging without the target: fit, out-of-bag predictions, members."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from numbers import Integral
from typing import Any, ClassVar, Self

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
from hybridtrees.core.base.checks import check_count, check_type
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.bins.shared import WholeTable, sharing_bins_of
from hybridtrees.ensembles.bagging_samples import bins_table, is_large, read_table, sample_rows
from hybridtrees.ensembles.bagging_trees import (
    FeatureDraws,
    as_plain,
    can_pack,
    draws_like_forest,
    make_forest,
    one_tree,
)
from hybridtrees.ensembles.members import (
    Ensemble,
    Explained,
    Rows,
    check_fitted_members,
    check_member,
    check_takes_weight,
    fit_member,
    run_members,
    takes_weight,
)
from hybridtrees.input._user_tables import Columns
from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor
from hybridtrees.models.shared.bagging import MAX_DRAWS, RowSampler, tree_seeds
from hybridtrees.models.shared.importance import shares
from hybridtrees.models.shared.progress import Progress

_OOB_NAMES = ("oob_score_", "oob_prediction_", "oob_decision_function_")


class BaggingModel(Ensemble):
    """Bagging without the target.

    Parameters
    ----------
    estimator : estimator or None
        The model to fit to each sample: any estimator of this package, or another one with `fit`,
        `predict` and `get_params`. A fully grown CART tree by default.
    n_estimators : int
        Number of members.
    max_samples : int or float
        Number of rows drawn for each member, or their share of the table.
    max_features : int or float
        Number of features drawn for each member, or their share.
    bootstrap : bool
        Whether rows are drawn with replacement, with probabilities in proportion to
        `sample_weight`. Otherwise they are drawn without replacement, and members weigh them.
    bootstrap_features : bool
        Whether features are drawn with replacement. A member sees a feature once, however often it
        was drawn.
    oob_score : bool
        Whether to score each row by the members whose samples do not contain it.
    prune : bool
        Whether each tree is pruned with the training set as pruning set: of its cost-complexity
        sequence, the subtree with the smallest error on all training rows (Breiman 1996). Needs a
        CART tree as `estimator`.
    random_state : int, Generator, RandomState or None
        Seed of the samples, and of members without a random state of their own. The same seed gives
        the same model for any `n_jobs`.
    n_jobs : int or None
        Number of threads, each of which fits members; all usable CPUs by default.
    verbose : int
        Print a line every `verbose` members.

    Attributes
    ----------
    estimator_ : estimator
        The model that was fitted to the samples.
    n_estimators_ : int
        Number of members.
    estimators_ : list of estimators
        The fitted members. CART trees are stored together in little memory: each is shown as a
        random forest of one tree, made on access.
    estimators_samples_ : list of ndarray
        Rows in the sample of each member, as often as they were drawn; drawn again on access.
    estimators_features_ : list of ndarray
        Features drawn for each member.
    feature_importances_ : ndarray of shape (n_features,)
        Mean of the members' importances, normalised to a sum of 1, where members have them.
    oob_score_ : float
        With `oob_score`: R2 of a regressor, accuracy of a classifier, of out-of-bag predictions.
    """

    _positional: ClassVar[tuple[str, ...]] = ("estimator", "n_estimators")

    estimator: Any = None
    n_estimators: int = 10
    max_samples: int | float = 1.0
    max_features: int | float = 1.0
    bootstrap: bool = True
    bootstrap_features: bool = False
    oob_score: bool = False
    prune: bool = False
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: int = 0

    estimator_: Any = attribute()
    n_estimators_: int = attribute()
    _forest: Any = attribute()
    _members: list[Any] | None = attribute()
    _sampler: RowSampler = attribute()
    _seed_words: tuple[Any, Any] = attribute()
    _n_drawn_features: int = attribute()
    _replaces_features: bool = attribute()

    # -- hooks for the target -------------------------------------------------------------------

    def _default_member(self) -> Any:
        raise NotImplementedError

    def _member_values(self, member: Any, table: Any) -> np.ndarray:
        """Return what a member adds to the mean, (n_rows, n_values)."""
        raise NotImplementedError

    def _keep_oob(self, mean: np.ndarray, counts: np.ndarray, rows: Rows) -> None:
        raise NotImplementedError

    # -- fit ------------------------------------------------------------------------------------

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the members to samples of the rows.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), or (n_rows, n_outputs) if members take several outputs
        sample_weight : array-like of shape (n_rows,), optional
            Rows of weight 0 are left out.

        Returns
        -------
        self : estimator
        """
        member = self._check_parameters()
        rows = self._learn_rows(X, y, sample_weight)
        n_features = self.n_features_in_
        draws = FeatureDraws(
            self._count_features(n_features), bool(self.bootstrap_features), bool(self.prune)
        )
        for name in (*_OOB_NAMES, "_forest", "_members"):
            self.__dict__.pop(name, None)
        self.estimator_ = member
        self._n_drawn_features, self._replaces_features = draws.max_features, draws.replace
        seeds = seed_sequence(self.random_state)
        self._seed_words = _words(seeds.entropy), [int(word) for word in seeds.spawn_key]
        whole = draws.max_features == n_features and not draws.replace
        if can_pack(member) and (draws_like_forest(member) or self.prune):
            settings = None if whole and not self.prune else draws
            self._fit_forest(X, y, rows.weight, member, settings, seeds)
        else:
            self._fit_members(rows, member, draws, seeds)
        self.n_estimators_ = int(self.n_estimators)
        return self

    def _check_parameters(self) -> Any:
        """Check the parameters, and return the model to fit."""
        check_integer("n_estimators", self.n_estimators, 1)
        for name in ("bootstrap", "bootstrap_features", "oob_score", "prune"):
            check_boolean(name, getattr(self, name))
        for name in ("max_samples", "max_features"):
            value = getattr(self, name)
            if isinstance(value, Integral) and not isinstance(value, bool | np.bool_):
                check_integer(name, value, 1)
            else:
                check_real(name, value, 0, 1, closed="right")
        effective_threads(self.n_jobs)
        check_verbose(self.verbose)
        member = self._default_member() if self.estimator is None else self.estimator
        check_member(member, "estimator", self)
        if self.prune and not can_pack(member):
            raise ValueError(
                "prune=True needs a CART tree without a random_state of its own as estimator, got "
                f"{type(member).__name__}"
            )
        return member

    def _count_features(self, n_features: int) -> int:
        if not isinstance(self.max_features, Integral):
            return max(1, int(float(self.max_features) * n_features))
        if int(self.max_features) > n_features and not self.bootstrap_features:
            raise ValueError(
                f"max_features must be at most {n_features}, the number of features, with "
                f"bootstrap_features=False, got {self.max_features}"
            )
        if int(self.max_features) > MAX_DRAWS * n_features:
            raise ValueError(
                f"max_features must be at most {MAX_DRAWS * n_features}, {MAX_DRAWS} times the "
                f"number of features, got {self.max_features}"
            )
        return int(self.max_features)

    def _fit_forest(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        member: Any,
        settings: FeatureDraws | None,
        seeds: np.random.SeedSequence,
    ) -> None:
        """Grow trees by the engine of random forests."""
        forest: Any = make_forest(member, self, settings)
        forest.random_state = seeds
        forest = as_plain(forest.fit(X, y, sample_weight))
        forest.random_state = None
        forest._reader.estimator_name = type(self).__name__
        self._forest, self._members = forest, None
        self._sampler = forest._sampler
        for name in _OOB_NAMES:
            if name in vars(forest):
                setattr(self, name, vars(forest).pop(name))
        vars(forest).pop("oob_curve_", None)

    def _fit_members(
        self, rows: Rows, member: Any, draws: FeatureDraws, seeds: np.random.SeedSequence
    ) -> None:
        """Fit copies of the model to samples."""
        forest = RandomForestRegressor(bootstrap=self.bootstrap, max_samples=self.max_samples)
        sampler = forest._make_sampler(len(rows), rows.weight)
        if self.oob_score and not sampler.leaves_out:
            raise ValueError(
                "oob_score=True needs out-of-bag rows: set bootstrap=True, or max_samples below "
                "the number of rows"
            )
        if sampler.weight is not None and not sampler.replace:
            advice = "leave the weights out, or set bootstrap=True"
            check_takes_weight(member, "estimator", advice, self)
        whole = draws.max_features == self.n_features_in_ and not draws.replace
        shares_bins = whole and bins_table(member) and is_large(sampler)
        report = Progress(self.verbose, int(self.n_estimators))

        def fit_one(index: int, n_threads: int) -> Any:
            draw, grow = tree_seeds(seeds, index)
            sample = sample_rows(
                rows, sampler, sampler.counts(draw), takes_weight(member), shares_bins
            )
            if not whole:
                features = np.unique(draws.of(grow, self.n_features_in_))
                sample = replace(sample, columns=sample.columns.select(features))
            made = fit_member(member, sample, n_threads, grow)
            report()
            return made

        whole_table = WholeTable(len(rows), rows.weight, cache(lambda: read_table(member, rows)))
        with sharing_bins_of(whole_table) if shares_bins else nullcontext():
            self._members = run_members(fit_one, range(int(self.n_estimators)), self.n_jobs)
        self._forest, self._sampler = None, sampler
        if self.oob_score:
            self._score_out_of_bag(rows)

    def _score_out_of_bag(self, rows: Rows) -> None:
        """Predict each row by the members that have not seen it."""
        sampler = self._sampler
        outside: dict[int, np.ndarray] = {}

        def left_out(member: int) -> Columns:
            outside[member] = sampler.out_of_bag(self._counts(member)).astype(np.intp)
            return rows.columns.take(outside[member])

        n_values = 1 if rows.target.ndim == 1 else rows.target.shape[1]
        n_values = n_values if rows.codes is None else len(self.classes_)
        sums, counts = np.zeros((len(rows), n_values)), np.zeros(len(rows))
        for k, values in self._each_values(left_out):
            own = outside.pop(k)
            sums[own] += values
            counts[own] += 1
        used = slice(None) if sampler.weight is None else sampler.weight > 0
        if not np.all(counts[used]):
            warnings.warn(
                "Some rows are in the sample of every member and have no out-of-bag prediction: "
                "there are too few members for a reliable estimate",
                UserWarning,
                stacklevel=5,
            )
        with np.errstate(invalid="ignore", divide="ignore"):
            self._keep_oob(sums / counts[:, None], counts, rows)

    # -- predict --------------------------------------------------------------------------------

    def _each_values(self, table: Callable[[int], Columns]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield number and predictions of the members in their order, some of them at a time."""
        assert self._members is not None
        features = self._features()
        whole = [len(own) == self.n_features_in_ for own in features]

        def ask(index: int, _: int) -> np.ndarray:
            columns = table(index)
            if not columns.shape[0]:
                return np.zeros((0, 1))
            part = columns if whole[index] else columns.select(features[index])
            return self._member_values(self._members[index], part.table)  # type: ignore[index]

        step = 4 * effective_threads(self.n_jobs)
        for first in range(0, len(self._members), step):
            group = range(first, min(first + step, len(self._members)))
            yield from zip(group, run_members(ask, group, self.n_jobs), strict=True)

    def _mean_values(self, X: Any) -> np.ndarray:
        """Return the mean of the members' predictions."""
        columns = self._read_columns(X)
        total: Any = 0.0
        for _, values in self._each_values(lambda _: columns):
            total = total + values
        return np.asarray(total / self.n_estimators_)

    # -- members --------------------------------------------------------------------------------

    def _explained_members(self) -> Explained:
        """Return the members as the parts of a mean: see `Explained`."""
        if self._members is None:
            return 0.0, [(1.0, self._forest, None)], lambda X: self._read_columns(X).table
        if getattr(self, "voting", "soft") == "hard":
            raise TypeError("voting='hard': counted votes have no exact Shapley values")
        share = 1.0 / len(self._members)
        parts = [
            (share, member, own if len(own) < self.n_features_in_ else None)
            for member, own in zip(self._members, self._features(), strict=True)
        ]
        return 0.0, parts, lambda X: self._read_columns(X).table

    def _member_seeds(self, index: int) -> tuple[int, int]:
        entropy, key = self._seed_words
        return tree_seeds(np.random.SeedSequence(entropy, spawn_key=tuple(key)), index)

    def _counts(self, index: int) -> np.ndarray:
        """Return how often each row is in the sample of a member."""
        return self._sampler.counts(self._member_seeds(index)[0])

    def _features(self) -> list[np.ndarray]:
        """Return the distinct features of each member."""
        return [np.unique(drawn) for drawn in self._drawn_features()]

    def _drawn_features(self) -> list[np.ndarray]:
        draws = FeatureDraws(self._n_drawn_features, self._replaces_features)
        members = self._forest._trees if self._members is None else self._members
        n_members = len(members)
        return [draws.of(self._member_seeds(k)[1], self.n_features_in_) for k in range(n_members)]

    @property
    def estimators_(self) -> list[Any]:
        """The fitted members."""
        self._check_is_fitted()
        if self._members is not None:
            return list(self._members)
        return [one_tree(self._forest, k) for k in range(len(self._forest._trees))]

    @property
    def estimators_samples_(self) -> list[np.ndarray]:
        """Rows in the sample of each member, as often as they were drawn."""
        self._check_is_fitted()
        rows = np.arange(self._sampler.n_rows)
        return [np.repeat(rows, self._counts(k)) for k in range(self.n_estimators_)]

    @property
    def estimators_features_(self) -> list[np.ndarray]:
        """Features drawn for each member."""
        self._check_is_fitted()
        return self._drawn_features()

    @property
    def feature_importances_(self) -> np.ndarray:
        """Mean of the members' importances, normalised to a sum of 1."""
        self._check_is_fitted()
        if self._forest is not None:
            return np.asarray(self._forest.feature_importances_)
        total = np.zeros(self.n_features_in_)
        assert self._members is not None
        for member, features in zip(self._members, self._features(), strict=True):
            total[features] += member.feature_importances_
        return shares(total)

    def _check_fitted(self) -> None:
        n_members = check_count(self, "n_estimators_", 1, 2**31 - 1)
        n_features = check_count(self, "n_features_in_", 1, 2**31 - 1)
        factor = MAX_DRAWS if check_type(self, "_replaces_features", bool) else 1
        check_count(self, "_n_drawn_features", 1, factor * n_features)
        check_type(self, "_sampler", RowSampler)
        self._member_seeds(0)
        if self._forest is not None:
            wanted = RandomForestClassifier if is_classifier(self) else RandomForestRegressor
            forest = check_type(self, "_forest", wanted)
            check_count(forest, "n_estimators_", n_members, n_members)
            check_count(forest, "n_features_in_", n_features, n_features)
            if is_classifier(self) and not np.array_equal(forest.classes_, self.classes_):
                raise ValueError("the trees have other classes than the ensemble")
            return
        members = check_type(self, "_members", list)
        if len(members) != n_members:
            raise ValueError(f"{n_members} members are stated, {len(members)} are there")
        check_fitted_members(self, members, map(len, self._features()))

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the ensemble, whose input is that of its members."""
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = self.estimator.__sklearn_tags__().input_tags
        return tags


def _words(entropy: Any) -> int | list[int]:
    """Return the entropy of a seed as plain integers."""
    return int(entropy) if isinstance(entropy, Integral) else [int(word) for word in entropy]
