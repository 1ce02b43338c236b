"""Pasting small votes (Breiman 1999): many models of small precincts of a large table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees._parameters import (
    Seed,
    attribute,
    check_integer,
    check_option,
    check_real,
    check_verbose,
    clone,
)
from hybridtrees.base import ClassifierMixin, RegressorMixin, atomic_fit
from hybridtrees.core.base.checks import check_arrays, check_count, check_type
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.grow._leaf_passes import feature_gains
from hybridtrees.core.tree.additive import AdditiveForm
from hybridtrees.core.tree.packed import PackedTrees
from hybridtrees.ensembles.bagging_trees import draws_like_forest
from hybridtrees.ensembles.members import (
    USE_HARD,
    VOTING,
    Ensemble,
    Explained,
    check_fitted_members,
    check_member,
    check_probabilities,
    member_numbers,
    member_votes,
)
from hybridtrees.ensembles.pasting_loop import Draws, PastingSettings, Rule, paste
from hybridtrees.ensembles.pasting_rows import BatchRows, TableRows, scan_batches
from hybridtrees.ensembles.pasting_votes import MemberVotes, TreeVotes
from hybridtrees.models.cart.estimators import CARTClassifier, CARTRegressor
from hybridtrees.models.shared.fitted_checks import check_categories
from hybridtrees.models.shared.forest.packed import packed_form
from hybridtrees.models.shared.importance import shares

VOTES = ("importance", "random")


class PastingModel(Ensemble):
    """Pasting without the target.

    Parameters
    ----------
    estimator : estimator or None
        The model to fit to each precinct; a fully grown CART tree by default.
    n_estimators : int
        Maximum number of members.
    precinct_size : int
        Number of rows of a precinct, drawn with replacement; at most that of the table.
    smoothing : float
        The p of the running out-of-bag error: e(k) = p e(k - 1) + (1 - p) r(k). Here r(k) is the
        error on the candidates for the next precinct; each candidate is predicted by the members so
        far whose precincts do not hold it.
    n_iter_no_change : int or None
        Stop when e(k) has not fallen for so many members; None: never.
    tol : float
        e(k) has fallen if it is less than 1 - `tol` times the smallest before.
    random_state : int, Generator, RandomState or None
        Seed of the draws, and of members without a random state of their own. The same seed gives
        the same model for any `n_jobs`, and from batches the same as from a table.
    n_jobs : int or None
        Number of threads that predict candidates; all usable CPUs by default.
    verbose : int
        Print a line every `verbose` members.

    Attributes
    ----------
    n_estimators_ : int
        Number of members.
    trees_ : sequence of Tree
        The trees, if members are CART trees.
    estimators_ : list of estimators
        The fitted members. CART trees are stored together in little memory: each is shown as a
        pasting model of one member, made on access.
    oob_curve_ : ndarray of shape (n_members,)
        The running out-of-bag error e(k) after each member: the error rate of a classifier, the
        mean absolute error of a regressor.
    feature_importances_ : ndarray of shape (n_features,)
        Mean of the members' importances, normalised to a sum of 1, where members have them.
    """

    _positional: ClassVar[tuple[str, ...]] = ("estimator", "n_estimators")

    estimator: Any = None
    n_estimators: int = 100
    precinct_size: int = 800
    votes: Literal["importance", "random"] = attribute()
    smoothing: float = 0.75
    n_iter_no_change: int | None = 20
    tol: float = 0.0
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: int = 0

    n_estimators_: int = attribute()
    oob_curve_: np.ndarray = attribute()
    _trees: PackedTrees | None = attribute()
    _members: list[Any] | None = attribute()
    _importances: np.ndarray = attribute()

    # -- hooks for the target -------------------------------------------------------------------

    def _default_member(self) -> Any:
        raise NotImplementedError

    def _member_values(self, member: Any, table: Any) -> np.ndarray:
        """Return what a member adds to the mean, (n_rows, n_values)."""
        raise NotImplementedError

    def _is_hard(self) -> bool:
        return False

    def _n_classes(self) -> int:
        """Return the number of classes, 0 in regression."""
        return 0

    def _n_values(self) -> int:
        """Return how many numbers a member predicts; of two classes a tree predicts the second."""
        n_classes = self._n_classes()
        if self._trees is None:
            return max(1, n_classes)
        return n_classes if n_classes > 2 else 1

    # -- fit ------------------------------------------------------------------------------------

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit members to precincts of a table.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            An array of floats may be a memory map: it is read once to look for infinities, and then
            only the rows drawn are.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
            Rows are drawn in proportion to their weights.

        Returns
        -------
        self : estimator
        """
        member = self._check_parameters()
        if isinstance(X, np.memmap):
            X = X.view(np.ndarray)
        rows = self._learn_rows(X, y, sample_weight)
        size = min(int(self.precinct_size), len(rows))
        draws = Draws(seed_sequence(self.random_state), len(rows), rows.weight)
        if draws_like_forest(member):
            values = self._fit_features(X, categorical_features=member.categorical_features)
            if hasattr(values, "tocsr"):
                values = values.tocsr()
            target = rows.target if rows.codes is None else rows.codes
            values = self._reader.add_statistics(
                values, target, self._n_classes(), rows.weight, member.categorical_statistics
            )
            self._paste_trees(member, TableRows(values, target), draws, size)
            return self
        self.__dict__.pop("_reader", None)
        n_values = max(1, self._n_classes())
        threads = effective_threads(self.n_jobs)
        votes = MemberVotes(member, rows, self._member_values, n_values, threads)
        self.oob_curve_ = np.array(paste(self._settings(size), draws, votes).curve)
        self._members, self._trees = votes.members, None
        self.n_estimators_ = len(votes.members)
        return self

    @atomic_fit
    def fit_batches(self, batches: Any) -> Self:
        """Fit trees to precincts of a table that comes in batches, from disk for instance.

        One pass over the batches collects numbers of rows, classes and weights. A further pass for
        every few members gathers the candidates for their precincts, which are held in memory with
        a few numbers for each row drawn so far. The model is that of `fit` on all batches together.

        Parameters
        ----------
        batches : iterable of (X, y) or (X, y, sample_weight), or function
            An object that can be iterated again and again, always with the same batches, or a
            function that returns an iterator over them. Tables of numbers; NaN means missing.

        Returns
        -------
        self : estimator
        """
        member = self._check_parameters()
        if not draws_like_forest(member):
            raise ValueError(
                "fit_batches needs a CART tree without ccp_alpha='cv' and random_state as "
                f"estimator, got {type(member).__name__}"
            )
        if member.categorical_features is not None:
            raise ValueError(
                "fit_batches takes numbers only: categorical_features of the estimator must be None"
            )
        info = scan_batches(batches, self)
        self._reader, self.n_features_in_ = info.reader, info.reader.n_features_in
        self.__dict__.pop("feature_names_in_", None)
        if info.reader.feature_names_in is not None:
            self.feature_names_in_ = info.reader.feature_names_in
        if info.classes is not None:
            self.classes_, self.n_classes_ = info.classes, len(info.classes)
        weight = info.weight if info.codes is None else self._weigh_classes(info.codes, info.weight)
        size = min(int(self.precinct_size), info.n_rows)
        draws = Draws(seed_sequence(self.random_state), info.n_rows, weight)
        self._paste_trees(member, BatchRows(batches, info, draws.ahead, size), draws, size)
        return self

    def _check_parameters(self) -> Any:
        """Check the parameters, and return the model to fit."""
        check_integer("n_estimators", self.n_estimators, 1, 2**31 - 1)
        check_integer("precinct_size", self.precinct_size, 1, 2**31 - 1)
        check_option("votes", self.votes, VOTES)
        check_real("smoothing", self.smoothing, 0, 1, closed="left")
        check_integer("n_iter_no_change", self.n_iter_no_change, 1, allow_none=True)
        check_real("tol", self.tol, 0, 1, closed="left")
        effective_threads(self.n_jobs)
        check_verbose(self.verbose)
        member = self._default_member() if self.estimator is None else self.estimator
        check_member(member, "estimator", self)
        return member

    def _settings(self, size: int) -> PastingSettings:
        rule = Rule(self.votes == "importance", not self._n_classes())
        stop = None if self.n_iter_no_change is None else int(self.n_iter_no_change)
        return PastingSettings(
            int(self.n_estimators), size, rule, float(self.smoothing), stop, float(self.tol),
            int(self.verbose),
        )  # fmt: skip

    def _paste_trees(self, member: Any, source: Any, draws: Draws, size: int) -> None:
        """Grow trees on precincts, and keep them packed."""
        model = clone(member)
        # The tree is grown from the parameters of the model, and what it knows of the table.
        model._reader, model.n_features_in_, model.n_outputs_ = self._reader, self.n_features_in_, 1
        if self._n_classes():
            model.classes_, model.n_classes_ = self.classes_, self._n_classes()
        model._check_parameters()
        recipe = model._recipe(1, True)
        threads = effective_threads(self.n_jobs)
        votes = TreeVotes(source, model, recipe, draws.n_rows, self._is_hard(), threads)
        self.oob_curve_ = np.array(paste(self._settings(size), draws, votes).curve)
        self._trees, self._members = votes.trees, None
        self._importances = votes.importances
        self.n_estimators_ = len(votes.trees)

    # -- predict --------------------------------------------------------------------------------

    def _staged_values(self, X: Any, step: int) -> Iterator[np.ndarray]:
        """Yield the means over the first `step` members, twice as many, and so on."""
        self._check_is_fitted()
        n_members = self.n_estimators_
        table = self._read_columns(X).table if self._trees is None else self._read_features(X)
        raw = np.zeros((table.shape[0], self._n_values()))
        threads = effective_threads(self.n_jobs)
        for first in range(0, n_members, step):
            last = min(first + step, n_members)
            if self._trees is not None:
                self._trees.add_raw(table, raw, threads, first, last, votes=self._is_hard())
            else:
                assert self._members is not None
                for member in self._members[first:last]:
                    raw += self._member_values(member, table)
            yield raw / last

    def _mean_values(self, X: Any) -> np.ndarray:
        self._check_is_fitted()
        return next(self._staged_values(X, self.n_estimators_))

    def _explained_members(self) -> Explained | None:
        """Return the members as the parts of a mean: see `Explained`; None if they are trees."""
        if self._trees is not None:
            return None
        assert self._members is not None
        if self._is_hard():
            raise TypeError("voting='hard': counted votes have no exact Shapley values")
        parts = [(1.0 / len(self._members), member, None) for member in self._members]
        return 0.0, parts, lambda X: self._read_columns(X).table

    def _additive_form(self) -> AdditiveForm:
        if self._trees is None:
            raise TypeError(
                f"the members of this {type(self).__name__} are not CART trees: it cannot be "
                "expressed as a sum of trees"
            )
        return packed_form(self._trees, self._is_hard(), self._reader, vars(self).get("classes_"))

    def _finish(self, mean: np.ndarray) -> np.ndarray:
        """Turn means over the members into what `predict` returns."""
        raise NotImplementedError

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predictions of the first member, the first two, and so on.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        prediction : ndarray
            As from `predict`.
        """
        for mean in self._staged_values(X, 1):
            yield self._finish(mean)

    # -- members --------------------------------------------------------------------------------

    @property
    def trees_(self) -> PackedTrees:
        """The trees; indexing gives a `Tree`, made anew each time."""
        self._check_is_fitted()
        if self._trees is None:
            raise AttributeError("members other than CART trees are in estimators_")
        return self._trees

    @property
    def estimators_(self) -> list[Any]:
        """The fitted members."""
        self._check_is_fitted()
        if self._members is not None:
            return list(self._members)
        return [self._alone(member) for member in range(self.n_estimators_)]

    def _alone(self, member: int) -> Self:
        """Return a model of one of the trees."""
        alone = clone(self)
        vars(alone).update({k: v for k, v in vars(self).items() if k not in self.get_params(False)})
        assert self._trees is not None
        alone._trees, alone.n_estimators_ = self._trees.single(member), 1
        alone.oob_curve_ = self.oob_curve_[member : member + 1]
        alone._importances = np.zeros(self.n_features_in_)
        feature_gains(alone._trees[0].nodes, alone._importances)
        return alone  # type: ignore[no-any-return]

    @property
    def feature_importances_(self) -> np.ndarray:
        """Mean of the members' importances, normalised to a sum of 1."""
        self._check_is_fitted()
        if self._trees is not None:
            return shares(self._importances)
        return shares(np.sum([m.feature_importances_ for m in self.estimators_], axis=0))

    def _check_fitted(self) -> None:
        n_members = check_count(self, "n_estimators_", 1, 2**31 - 1)
        n_features = check_count(self, "n_features_in_", 1, 2**31 - 1)
        check_arrays(self, {"oob_curve_": ("f8", n_members)})
        if self._trees is None:
            members = check_type(self, "_members", list)
            if len(members) != n_members:
                raise ValueError(f"{n_members} members are stated, {len(members)} are there")
            check_fitted_members(self, members, [n_features] * n_members)
            return
        trees = check_type(self, "_trees", PackedTrees)
        if len(trees) != n_members or trees.n_features != n_features:
            raise ValueError("the trees have another number of features or members")
        if trees.n_classes != self._n_classes() or trees.n_values != self._n_values():
            raise ValueError("the trees have other classes or values than the ensemble")
        check_categories(trees.category_sets(), self._reader.coded)
        check_arrays(self, {"_importances": ("f8", n_features)})


class PastingRegressor(RegressorMixin, PastingModel):
    """Pasting for regression: the mean of models of small precincts (after Breiman 1999).

    Parameters
    ----------
    votes : {"random", "importance"}
        How the rows of a precinct are drawn: at random, or by their errors. "importance" accepts a
        candidate with probability 1/4 + d / (4 e), at most 1: d is its absolute out-of-bag
        residual, e the running mean of these. Precincts then hold more rows with large errors,
        which pulls predictions towards the longer tail of the noise if it is skewed.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import PastingRegressor
    >>> X = np.random.default_rng(0).normal(size=(5000, 3))
    >>> model = PastingRegressor(precinct_size=400, random_state=0).fit(X, X[:, 0])
    >>> bool(model.score(X, X[:, 0]) > 0.95)
    True
    """

    votes: Literal["importance", "random"] = "random"

    def _default_member(self) -> Any:
        return CARTRegressor()

    def _member_values(self, member: Any, table: Any) -> np.ndarray:
        return member_numbers(member, table)[:, None]

    def _finish(self, mean: np.ndarray) -> np.ndarray:
        return mean[:, 0]

    def _predictions(self, X: Any) -> np.ndarray:
        return self._finish(self._mean_values(X))


class PastingClassifier(ClassWeightMixin, ClassifierMixin, PastingModel):
    """Pasting small votes for classification (Breiman 1999).

    Parameters
    ----------
    votes : {"importance", "random"}
        How the rows of a precinct are drawn. "importance" (Ivotes) accepts a candidate if the
        members so far whose precincts do not hold it predict a wrong class, else with probability
        e / (1 - e), where e is the running error. About half of the rows of a precinct are then
        hard to predict. "random" (Rvotes) accepts all.
    voting : {"hard", "soft"}
        Count the votes of the members, or average their probabilities.
    class_weight : dict, "balanced" or None
        Factors on the weights of the rows of each class, 1 for those that a dict does not name;
        "balanced" gives every class the same total weight. The same as passing these factors as
        `sample_weight`: rows are drawn in proportion to them.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import PastingClassifier
    >>> X = np.random.default_rng(0).normal(size=(5000, 3))
    >>> model = PastingClassifier(precinct_size=200, random_state=0).fit(X, X[:, 0] > X[:, 1])
    >>> bool(model.score(X, X[:, 0] > X[:, 1]) > 0.95)
    True
    """

    votes: Literal["importance", "random"] = "importance"
    voting: Literal["hard", "soft"] = "hard"

    def _check_parameters(self) -> Any:
        check_option("voting", self.voting, VOTING)
        member = super()._check_parameters()
        if self.voting == "soft":
            check_probabilities(member, "estimator", USE_HARD)
        return member

    def _default_member(self) -> Any:
        return CARTClassifier()

    def _is_hard(self) -> bool:
        return self.voting == "hard"

    def _n_classes(self) -> int:
        return len(self.classes_)

    def _member_values(self, member: Any, table: Any) -> np.ndarray:
        return member_votes(member, table, self.classes_, self.voting)

    def _by_class(self, mean: np.ndarray) -> np.ndarray:
        """Return the probabilities of all classes; of two, trees predict only the second."""
        if self._n_classes() == 1:
            return np.ones((len(mean), 1))
        return np.hstack([1.0 - mean, mean]) if mean.shape[1] == 1 else mean

    def _probabilities(self, X: Any) -> np.ndarray:
        return self._by_class(self._mean_values(X))

    def _finish(self, mean: np.ndarray) -> np.ndarray:
        return np.asarray(self.classes_[self._by_class(mean).argmax(axis=1)])

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the probabilities by the first member, the first two, and so on.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        proba : ndarray of shape (n_rows, n_classes)
        """
        for mean in self._staged_values(X, 1):
            yield self._by_class(mean)
