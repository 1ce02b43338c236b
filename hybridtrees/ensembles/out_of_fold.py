"""Members fitted to all rows and to folds of them, and their predictions of rows not seen."""

from __future__ import annotations

import sys
import time as clock
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridtrees._parameters import Seed, attribute, check_verbose
from hybridtrees.core.base.checks import check_arrays, check_count, check_numbers, check_type
from hybridtrees.core.base.random_state import spawn_seeds
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.bins.shared import sharing_bins
from hybridtrees.ensembles.members import (
    Explained,
    Rows,
    check_fitted_members,
    fit_member,
    run_members,
)
from hybridtrees.ensembles.named import NamedMembers
from hybridtrees.input.folds import Folds, check_cv, check_per_row, check_times, make_folds

Ask = Callable[[int, Any, Any], np.ndarray]


class FoldedMembers(NamedMembers):
    """Named members that are fitted to all rows and, where asked for, to folds of the rows.

    Parameters
    ----------
    cv : int, splitter or iterable of pairs (training rows, test rows)
        Folds of the rows: a number of them, dealt out at random with equal shares of each class;
        an object of scikit-learn with a method `split`; or row numbers.
    random_state : int, Generator, RandomState, SeedSequence or None
        Seed of the members that have none of their own. Folds by a number do not depend on it.
    n_jobs : int or None
        Number of threads; None is all usable CPUs. Folds are fitted side by side, and members use
        the threads that are left. The model is the same for any number.
    verbose : int or bool
        Whether to print a line for each fit.
    """

    cv: Any = 5
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: int | bool = 0

    classes_: np.ndarray = attribute()
    weights_: np.ndarray = attribute()

    def _check_common(self) -> None:
        """Check what all of these ensembles have in common."""
        effective_threads(self.n_jobs)
        check_verbose(self.verbose)

    def _explained_members(self) -> Explained:
        """Return the members as the parts of a weighted sum: see `Explained`."""
        parts = [(w, m, None) for w, m in zip(self.weights_, self.estimators_, strict=True) if w]
        return 0.0, parts, lambda X: self._read_columns(X).table

    def _checked_cv(self) -> Any:
        return check_cv(5 if self.cv is None else self.cv)

    def _make_folds(self, cv: Any, rows: Rows, groups: Any, time: Any) -> Folds:
        """Return the folds, by whole groups or in the order of time if these are given."""
        n_rows = len(rows)
        if time is not None and groups is not None:
            raise ValueError("give groups or time, not both: folds in time order may divide groups")
        if time is not None and not isinstance(cv, int):
            raise ValueError("time needs a number of folds as cv, got folds of your own")
        return make_folds(
            cv,
            n_rows,
            rows.codes,
            rows.weight,
            groups=check_per_row(groups, "groups", n_rows),
            time=check_times(time, n_rows),
        )

    def _fit_members(
        self,
        members: Sequence[tuple[str, Any]],
        rows: Rows,
        folds: Folds = (),  # type: ignore[assignment]
        ask: Ask | None = None,
    ) -> list[list[np.ndarray]]:
        """Fit all members to all rows and to each fold, and keep the former.

        Returns what ``ask(number of the member, fitted member, table)`` says of the test rows of
        each fold, by fold and member.
        """
        seeds = spawn_seeds(self.random_state, (1 + len(folds)) * len(members))
        seed_of = seeds.reshape(1 + len(folds), len(members))

        def fit(part: Rows, fold: int, k: int, n_threads: int) -> Any:
            start = clock.perf_counter()
            name, estimator = members[k]
            made = fit_member(
                estimator, part, n_threads, int(seed_of[fold, k]), f"the member {name!r}"
            )
            if self.verbose:
                where = f"fold {fold} of {len(folds)}" if fold else "all rows"
                line = f"[{name}]  {where}, {clock.perf_counter() - start:.1f} s"
                print(line, file=sys.stdout, flush=True)
            return made

        if not folds:
            with sharing_bins():
                self.estimators_ = run_members(
                    lambda k, n_threads: fit(rows, 0, k, n_threads),
                    range(len(members)),
                    self.n_jobs,
                )
            return []

        def fold_of(number: int, n_threads: int) -> list[Any]:
            # One table for all members of a fold, so that these share its bins.
            with sharing_bins():
                if number == 0:
                    return [fit(rows, 0, k, n_threads) for k in range(len(members))]
                train, test = folds[number - 1]
                part, held_out = _frozen(rows.take(train)), rows.columns.take(test).table
                answers = []
                for k in range(len(members)):
                    member = fit(part, number, k, n_threads)
                    answers.append(ask(k, member, held_out) if ask is not None else np.empty(0))
                return answers

        # All rows, the longest work, come first.
        self.estimators_, *answers = run_members(fold_of, range(1 + len(folds)), self.n_jobs)
        return answers

    def _ask_members(self, ask: Callable[[Any, Any], np.ndarray], X: Any) -> list[np.ndarray]:
        """Return ``ask(member, table)`` of each fitted member."""
        table = self._read_columns(X).table
        return [ask(member, table) for member in self.estimators_]

    def _check_fitted(self) -> None:
        names, members = check_type(self, "_names", list), check_type(self, "estimators_", list)
        n_features = check_count(self, "n_features_in_", 1)
        if not members or len(names) != len(members) or not all(isinstance(n, str) for n in names):
            raise ValueError(f"the members of the {type(self).__name__} do not fit their names")
        labels = [f"the member {name!r}" for name in names]
        check_fitted_members(self, members, [n_features] * len(members), labels)

    def _check_shares(self) -> None:
        """Refuse weights of members that are no shares."""
        check_arrays(self, {"weights_": ("f8", len(self.estimators_))})
        check_numbers(self.weights_, "weights_", 0.0, 1.0 + 1e-6)

    def __sklearn_tags__(self) -> Any:
        """Return tags: missing values and sparse tables are for members that all take them."""
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        for _, member in self._pairs():
            if hasattr(member, "get_params") and not isinstance(member, type):
                given = get_tags(member).input_tags
                tags.input_tags.allow_nan &= given.allow_nan
                tags.input_tags.sparse &= given.sparse
        return tags


def _frozen(rows: Rows) -> Rows:
    """Return rows whose array cannot be written: the cache of bins need not copy it."""
    if isinstance(rows.columns.table, np.ndarray):
        rows.columns.table.flags.writeable = False
    return rows


def joined_folds(
    n_rows: int, folds: Folds, answers: Sequence[Sequence[np.ndarray]]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Join what each member says of each fold, as `_fit_members` returns it.

    Returns for each member its mean answer for each row over the folds that test the row, and
    which rows are tested.
    """
    counts = np.zeros(n_rows)
    for _, test in folds:
        np.add.at(counts, test, 1.0)  # a row may be in a test part twice
    seen = counts > 0
    joined = []
    for own in zip(*answers, strict=True):
        sums = np.zeros((n_rows, *own[0].shape[1:]))
        for (_, test), answer in zip(folds, own, strict=True):
            np.add.at(sums, test, answer)
        sums[seen] /= counts[seen].reshape(-1, *(1 for _ in sums.shape[1:]))
        joined.append(sums)
    return joined, seen


def weighted_sum(parts: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Return the sum of arrays times weights, in an order that no number of threads changes."""
    total = np.zeros(parts[0].shape)
    for part, weight in zip(parts, weights, strict=True):
        if weight:
            total += weight * part
    return total


def shares_of(weights: Any, n_members: int) -> np.ndarray:
    """Return weights, none of them negative, divided by their sum; equal ones if all are 0."""
    shares = np.asarray(weights, dtype=np.float64)
    total = shares.sum()
    return shares / total if total > 0 else np.full(n_members, 1.0 / n_members)
