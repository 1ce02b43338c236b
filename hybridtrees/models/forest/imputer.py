"""Imputation of missing values by the proximities of a random forest."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal, Self

import numpy as np

from hybridtrees._parameters import (
    Seed,
    check_boolean,
    check_integer,
    check_option,
    check_real,
    check_verbose,
)
from hybridtrees.base import atomic_fit
from hybridtrees.core.base.checks import check_arrays, check_count, check_numbers, check_type
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.input.validation import FeatureReader
from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor
from hybridtrees.models.forest.imputer_fill import (
    TASKS,
    HeldOut,
    Present,
    Training,
    check_fills,
    first_values,
    first_values_by_class,
)
from hybridtrees.models.shared.forest.leaves import Proximities
from hybridtrees.models.shared.forest.packed import PackedForest
from hybridtrees.models.shared.output_names import Transformer, fill_column, frame_kind
from hybridtrees.models.shared.tree_parameters import SPLITTERS, Splitter


class ProximityImputer(Transformer):
    """Impute missing values from similar rows, by random forest proximities (Breiman 2003).

    Missing numbers are first replaced by the median of their column, missing categories by the
    mode: those of the row's class if the target has classes. A forest is grown on the filled table.
    Then every missing number is replaced by the mean of the known ones, weighted by the proximities
    of their rows, and every missing category by the one with the largest sum of proximities. This
    is repeated for a few rounds. A column without any value in `fit` is filled with 0 if numeric,
    and otherwise stays missing; a warning is issued.

    The number of rounds is chosen first: some known entries are hidden, and rounds are run as long
    as each reduces the error of their imputed values. As many rounds are then run with all known
    entries.

    Parameters
    ----------
    n_estimators : int
        Number of trees of each forest.
    n_rounds : int
        Maximum number of rounds of growing and filling.
    tol : float
        Stop when the filled entries change by less than this: the mean change of numbers in
        standard deviations of their columns, and the share of categories that change.
    task : {"auto", "regression", "classification"}
        Kind of forest for a target. "auto" treats text, booleans and category types as classes,
        also whole numbers with at most 20 distinct values and five rows per value, or with two
        distinct values; other numbers are for regression. Without a target, the forest is trained
        to tell the table from one with permuted columns.
    min_samples_leaf : int or float
        Minimum number of rows of a leaf: the fewer, the closer the neighbours.
    oob : bool
        Whether proximities of two rows count only the trees that both are out of bag for. This
        needs more trees, and avoids rows being near only because trees have learned their targets.
    validation_fraction : float or None
        Share of the known entries that is hidden to choose the number of rounds. With None, or a
        share of less than one entry, rounds end by `tol` or `n_rounds`.
    splitter : {"hist", "exact", "random"}
        Grow the trees on binned features, or search every threshold, or draw one of each feature.
    categorical_features : array-like or None
        Categorical columns, in addition to the string and category columns of a data frame.
    random_state : int, Generator, RandomState or None
        Seed of the forests and of the hidden entries.
    n_jobs : int or None
        Number of threads; all usable CPUs by default.
    verbose : int
        Whether to print a line for each round.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        Median of each column, or code of its mode.
    class_statistics_ : ndarray of shape (n_classes, n_features) or None
        The same for the rows of each class; None without classes.
    changes_ : list of float
        Change of the filled entries in each round.
    errors_ : list of float
        Error of the hidden entries after the first fill and after each round that was tried:
        the mean squared error in variances of the columns, a wrong category counting 1.
    n_iter_ : int
        Number of rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import ProximityImputer
    >>> x = np.arange(50.0)
    >>> X = np.column_stack([x, 2 * x])
    >>> X[7, 1] = np.nan
    >>> filled = ProximityImputer(random_state=0).fit_transform(X, x + 0.5)
    >>> bool(abs(filled[7, 1] - 14) < abs(np.nanmedian(X[:, 1]) - 14))
    True
    """

    n_estimators: int = 100
    n_rounds: int = 5
    tol: float = 0.01
    task: Literal["auto", "regression", "classification"] = "auto"
    min_samples_leaf: int | float = 5
    oob: bool = False
    validation_fraction: float | None = 0.1
    splitter: Splitter = "hist"
    categorical_features: Any = None
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the imputer.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            NaN means missing.
        y : array-like of shape (n_rows,), optional
            Target of the forest.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows in medians, means, forests and errors.

        Returns
        -------
        self : ProximityImputer
        """
        self._fit(X, y, sample_weight)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit the imputer and fill the same table.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            NaN means missing.
        y : array-like of shape (n_rows,), optional
            Target of the forest.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        filled : ndarray or data frame
            `X` with its missing entries filled; a data frame of pandas or polars stays one.
        """
        return self._like(X, *self._fit(X, y, sample_weight))

    @atomic_fit
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray]:
        self._check_parameters()
        values = _dense(self._fit_features(X, categorical_features=self.categorical_features))
        training = Training.read(y, sample_weight, len(values), self.task)
        n_rounds = int(self.n_rounds)
        # For the rounds, the last forest, the rounds on hidden entries, and which are hidden.
        seeds = seed_sequence(self.random_state).spawn(2 * n_rounds + 2)
        missing = np.isnan(values)
        self._nothing_known = missing.all(axis=0)
        self._warn_of_empty()
        n_useful = self._count_useful(values, training, seeds[n_rounds + 1 : -1], seeds[-1])
        self.statistics_, self.class_statistics_ = self._first_values(values, training)
        self.changes_: list[float] = []
        rounds = islice(self._rounds(values, training, seeds[:n_rounds]), n_useful + 1)
        filled, _ = next(rounds)
        for refilled, change in rounds:
            filled = refilled
            self.changes_.append(change)
            if self.verbose:
                print(f"[{len(self.changes_)}]  change:{change:.5f}", file=sys.stdout, flush=True)
            if change < self.tol:
                break
        self.n_iter_ = len(self.changes_)
        self._n_refills = self.n_iter_ if missing.any() else n_useful
        self._forest = self._grow(filled, training, seeds[n_rounds])
        self._train_values, self._train_filled = values, filled
        self._train_weight = training.weight
        return filled.copy(), missing

    def _first_values(
        self, values: np.ndarray, training: Training
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the values of the first fill, for the table and for each class."""
        is_categorical = self._reader.is_categorical
        overall = np.nan_to_num(first_values(values, is_categorical, training.weight))
        if training.codes is None:
            return overall, None
        return overall, first_values_by_class(values, is_categorical, training, overall)

    def _rounds(
        self, values: np.ndarray, training: Training, seeds: list[np.random.SeedSequence]
    ) -> Iterator[tuple[np.ndarray, float]]:
        """Yield the table after the first fill and after each round, with its change."""
        missing = np.isnan(values)
        overall, of_classes = self._first_values(values, training)
        first = overall if of_classes is None else of_classes[training.codes]
        filled = np.where(missing, first, values)
        yield filled, np.inf
        rows = np.flatnonzero(missing.any(axis=1))
        if not len(rows):
            return
        present = Present(values, self._reader.is_categorical, training.weight)
        for seed in seeds:
            near, leaves, outside = self._neighbours(self._grow(filled, training, seed), filled)
            before = filled[rows]
            own = None if outside is None else outside[rows]
            filled = filled.copy()
            filled[rows] = present.refill(near, leaves[rows], before, missing[rows], own)
            yield filled, present.change(before, filled[rows], missing[rows])

    def _neighbours(
        self, forest: Any, filled: np.ndarray
    ) -> tuple[Proximities, np.ndarray, np.ndarray | None]:
        """Return proximities to the rows of fit, their leaves, and a mask of trees that count."""
        leaves = forest.apply(filled)
        outside = forest._out_of_bag()[: len(filled)] if self.oob else None
        n_nodes = np.diff(forest.trees_.tree_start)
        near = Proximities(leaves, n_nodes, outside, effective_threads(self.n_jobs))
        return near, leaves, outside

    def _count_useful(
        self,
        values: np.ndarray,
        training: Training,
        seeds: list[np.random.SeedSequence],
        draw: np.random.SeedSequence,
    ) -> int:
        """Return the number of rounds that reduce the error of hidden entries."""
        self.errors_: list[float] = []
        if self.validation_fraction is None:
            return len(seeds)
        share, is_categorical = float(self.validation_fraction), self._reader.is_categorical
        held_out = HeldOut(values, is_categorical, training.weight, share, draw)
        if not len(held_out.rows):
            return len(seeds)
        for done, (filled, change) in enumerate(self._rounds(held_out.table, training, seeds)):
            self.errors_.append(held_out.error(filled))
            if done and self.errors_[-1] >= self.errors_[-2]:
                return done - 1
            if change < self.tol:
                return done
        return len(seeds)

    def _check_fitted(self) -> None:
        n_features = self.n_features_in_
        forest = check_type(self, "_forest", PackedForest)
        if forest.n_features_in_ != n_features:
            raise ValueError("the forest of the imputer has other features")
        check_count(self, "n_iter_")
        check_count(self, "_n_refills", 0, int(self.n_rounds))
        layout: dict[str, tuple[Any, ...]] = {
            "_nothing_known": (bool, n_features),
            "statistics_": ("f8", n_features),
            "_train_values": ("f8", "n_rows", n_features),
            "_train_filled": ("f8", "n_rows", n_features),
        }
        optional = {
            "class_statistics_": ("f8", "n_classes", n_features),
            "_train_weight": ("f8", "n_rows"),
        }
        for name, shape in optional.items():
            # Files of early versions have neither.
            if vars(self).setdefault(name, None) is not None:
                layout[name] = shape
        check_arrays(self, layout, {"n_classes": len(getattr(forest, "classes_", ()))})
        if self._train_weight is not None:
            check_numbers(self._train_weight, "_train_weight of ProximityImputer", 0, np.inf)
        fills = [self._train_filled, self.statistics_[None], self.class_statistics_]
        check_fills(self._train_values, fills, self._reader.categories)

    def _warn_of_empty(self) -> None:
        """Warn of columns that have no known values."""
        if self._nothing_known.any():
            names = self.get_feature_names_out()[self._nothing_known].tolist()
            shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
            warnings.warn(
                f"X has no value in {len(names)} column(s): {shown}. Numbers are filled with 0, "
                "other columns stay missing",
                UserWarning,
                stacklevel=5,
            )

    def _check_parameters(self) -> None:
        check_integer("n_estimators", self.n_estimators, 1)
        check_integer("n_rounds", self.n_rounds, 0)
        check_real("tol", self.tol, 0)
        check_option("task", self.task, TASKS)
        check_option("splitter", self.splitter, SPLITTERS)
        check_boolean("oob", self.oob)
        if self.validation_fraction is not None:
            check_real("validation_fraction", self.validation_fraction, 0, 1, closed="neither")
        check_verbose(self.verbose)

    def _grow(self, filled: np.ndarray, training: Training, seeds: np.random.SeedSequence) -> Any:
        """Grow a forest on the filled table; without a target, to tell it from a permuted one."""
        y, weight = training.y, training.weight
        if y is None:
            rng = np.random.default_rng(seeds.spawn(1)[0])
            shuffled = np.column_stack([rng.permutation(column) for column in filled.T])
            y = np.repeat([0, 1], len(filled))
            filled = np.concatenate([filled, shuffled])
            weight = None if weight is None else np.tile(weight, 2)
        model = RandomForestClassifier if training.is_classification else RandomForestRegressor
        # Rows are near by all features, not only by the strongest, if few are drawn per split.
        forest = model(
            max_features="sqrt" if training.is_classification else "third",
            n_estimators=int(self.n_estimators),
            splitter=self.splitter,
            min_samples_leaf=self.min_samples_leaf,
            categorical_features=self._reader.is_categorical,
            categorical_statistics=False,  # rows of one category are to be near each other
            keep_rows=False,
            random_state=seeds,
            n_jobs=self.n_jobs,
        )
        forest.fit(filled, y, weight)
        # A SeedSequence cannot be stored in a model file, and is not needed any more.
        forest.random_state = None
        return forest

    def transform(self, X: Any) -> Any:
        """Impute the missing entries of a table from the rows of `fit`.

        A row that equals one of `fit`, in its missing entries too, gets the values of that row (of
        the last one, if there are several): ``fit(X, y).transform(X)`` is ``fit_transform(X, y)``
        unless equal rows have different targets. Other rows start from the medians and modes of
        the whole table. If the target has classes, a new row is filled once for each class, and
        the fill whose class gets most votes of the forest is taken. Rows are then refilled as
        often as the table of `fit` was. A category that is not in `fit` is kept; the forest treats
        it as missing.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        filled : ndarray or data frame
            `X` with its missing entries filled; a data frame of pandas or polars stays one.
        """
        values = _dense(self._read_features(X))
        missing = np.isnan(values)
        filled = np.where(missing, self.statistics_, values)
        rows = self._take_known_fills(values, filled, missing)
        if len(rows):
            self._fill_by_class(filled, rows, missing)
            is_categorical = self._reader.is_categorical
            present = Present(self._train_values, is_categorical, self._train_weight)
            near, _, _ = self._neighbours(self._forest, self._train_filled)
            for _ in range(self._n_refills):
                leaves = self._forest.apply(filled[rows])
                before = filled[rows]
                filled[rows] = present.refill(near, leaves, before, missing[rows])
                if present.change(before, filled[rows], missing[rows]) < self.tol:
                    break
        return self._like(X, filled, missing)

    def _fill_by_class(self, filled: np.ndarray, rows: np.ndarray, missing: np.ndarray) -> None:
        """Fill rows with the values of the class that then gets most votes."""
        if self.class_statistics_ is None:
            return
        best = np.full(len(rows), -1.0)
        start = filled[rows]
        for k, own in enumerate(self.class_statistics_):
            made = np.where(missing[rows], own, start)
            votes = self._forest.predict_proba(made)[:, k]
            better = votes > best
            filled[rows[better]] = made[better]
            best = np.maximum(best, votes)

    def _take_known_fills(
        self, values: np.ndarray, filled: np.ndarray, missing: np.ndarray
    ) -> np.ndarray:
        """Fill rows that equal one of fit as that was filled; return the other incomplete rows."""
        train = self._train_values
        places = np.flatnonzero(np.isnan(train).any(axis=1))
        rows = np.flatnonzero(missing.any(axis=1))
        known = dict(zip(_keys(train[places]), places, strict=True))
        same = np.array([known.get(key, -1) for key in _keys(values[rows])], dtype=np.intp)
        filled[rows[same >= 0]] = self._train_filled[same[same >= 0]]
        return rows[same < 0]

    def _like(self, X: Any, filled: np.ndarray, missing: np.ndarray) -> Any:
        """Return the filled values in the container of the user's table.

        Known entries are kept, also categories that are not in fit, which were read as missing.
        """
        reader, own = self._reader, None
        if (missing & reader.is_categorical).any():
            own, read = FeatureReader.fit(X, categorical_features=reader.is_categorical)
            missing = np.isnan(_dense(read))
        if frame_kind(X) is not None:
            table = X
            for j in np.flatnonzero(missing.any(axis=0)).tolist():
                table = self._with_filled(table, j, filled[:, j], missing[:, j])
        elif reader.is_categorical.any():
            table = np.empty(filled.shape, dtype=object)
            for j, labels in enumerate(reader.categories):
                table[:, j] = filled[:, j] if labels is None else _decoded(labels, filled[:, j])
                if own is not None and (own_labels := own.categories[j]) is not None:
                    known = ~missing[:, j]
                    codes = _dense(read)[known, j].astype(np.intp)
                    table[known, j] = own_labels[codes]
        else:
            table = filled
        return self._wrap(table, self.get_feature_names_out(), X)

    def _with_filled(self, table: Any, j: int, filled: np.ndarray, gaps: np.ndarray) -> Any:
        """Return a data frame with the missing entries of one column filled."""
        labels = self._reader.categories[j]
        if labels is not None:
            if not len(labels):
                return table
            return fill_column(table, j, gaps, _decoded(labels, filled[gaps]), None)
        kind = str(table.dtypes.iloc[j] if frame_kind(table) == "pandas" else table.dtypes[j])
        if self._nothing_known[j] and kind in ("object", "Null"):
            return table
        return fill_column(table, j, gaps, filled[gaps], filled)


def _decoded(labels: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the labels of codes; None for a feature without any."""
    return labels[codes.astype(np.intp)] if len(labels) else np.full(len(codes), None)


def _dense(values: Any) -> np.ndarray:
    if hasattr(values, "toarray"):
        values = values.toarray()
    return np.array(values, dtype=np.float64, order="C")


def _keys(rows: np.ndarray) -> list[bytes]:
    """Return hashable keys, equal for equal rows, including missing entries."""
    # NaN and zero have several bit patterns.
    return [row.tobytes() for row in np.where(np.isnan(rows), np.nan, rows + 0.0)]
