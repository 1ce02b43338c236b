"""Missing values filled in by the proximities of a forest."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any, Self

import numpy as np
import scipy.sparse

from hybridtrees._parameters import check_boolean, check_integer, check_option, check_real
from hybridtrees.base import Estimator, atomic_fit
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
from hybridtrees.models.shared.output_names import OutputMixin, fill_column, frame_kind
from hybridtrees.models.shared.tree_parameters import SPLITTERS


class ProximityImputer(OutputMixin, Estimator):
    """Fill in missing values from the rows that a random forest finds alike (Breiman 2003).

    Missing numbers are first replaced by the median of their column, missing categories by the
    most frequent one: those of the rows of the same class where the target has classes. A forest
    is grown on the filled table, and every missing entry is replaced by the mean of the present
    ones, weighted by the proximities of their rows, or by the category with the largest sum of
    them; this is done a few times. A column without any value in fit is filled with 0 if it
    holds numbers, and else stays missing; a warning says so.

    How many rounds to do is tried out first: some known entries are hidden, and rounds are done
    as long as each brings the fills of these nearer to the truth. Then as many rounds are done
    with all known entries.

    Parameters
    ----------
    n_estimators : int, default=100
        Trees of each forest.
    n_rounds : int, default=5
        Maximum number of rounds of growing and refilling.
    tol : float, default=0.01
        Stop when the refilled entries change by less than this: the mean change of numbers in
        standard deviations of their columns, and the share of categories that change.
    task : {"auto", "regression", "classification"}, default="auto"
        Kind of forest for a target. "auto" takes text, booleans and category types for classes,
        and whole numbers while there are at most 20 different ones and five rows for each, or
        two different ones; other numbers make a regression. Without a target the forest tells
        the table from one whose columns are shuffled.
    min_samples_leaf : int or float, default=5
        Minimum number of rows of a leaf: the fewer, the closer the neighbours.
    oob : bool, default=False
        Whether two rows are near only by the trees that have seen neither of them. That takes
        more trees, and keeps rows from being near merely because trees know their targets.
    validation_fraction : float or None, default=0.1
        Share of the known entries that is hidden to see how many rounds help. None, or a share
        of less than one entry, does rounds until `tol` or `n_rounds` end them.
    splitter : {"hist", "exact"}, default="hist"
    categorical_features : array-like, optional
        Columns that hold categories, beside the string and category columns of a data frame.
    random_state : int, Generator, RandomState or None
    n_jobs : int, optional
        Threads; all usable CPUs by default.
    verbose : int, default=0
        Whether to print a line for each round.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        Median of each column, or code of its most frequent category.
    class_statistics_ : ndarray of shape (n_classes, n_features) or None
        The same for the rows of each class; None without classes.
    changes_ : list of float
        Change of the refilled entries in each round.
    errors_ : list of float
        Error of the hidden entries after the first fill and after each round that was tried:
        the mean squared error in variances of the columns, where a wrong category counts 1.
    n_iter_ : int
        Rounds that were kept.
    n_features_in_, feature_names_in_
        The features of `fit`; names only where the table had them.

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
    task: str = "auto"
    min_samples_leaf: int | float = 5
    oob: bool = False
    validation_fraction: float | None = 0.1
    splitter: str = "hist"
    categorical_features: Any = None
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a table what its rows are like.

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
        """Learn from a table and fill it.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        filled : ndarray or data frame
            `X` with its missing entries filled; a frame of pandas or polars stays one.
        """
        return self._like(X, *self._fit(X, y, sample_weight))

    @atomic_fit
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray]:
        self._check_parameters()
        values = _dense(self._fit_features(X, categorical_features=self.categorical_features))
        training = Training.read(y, sample_weight, len(values), self.task)
        n_rounds = int(self.n_rounds)
        # For the rounds, the last forest, the rounds that are tried, and the hidden entries.
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
        """Return what gaps are filled with at first, of the table and of each class."""
        is_categorical, weight = self._reader.is_categorical, training.weight
        overall = np.nan_to_num(first_values(values, is_categorical, weight))
        if training.codes is None:
            return overall, None
        codes, n_classes = training.codes, training.n_classes
        return overall, first_values_by_class(
            values, is_categorical, weight, codes, n_classes, overall
        )

    def _rounds(
        self, values: np.ndarray, training: Training, seeds: list[np.random.SeedSequence]
    ) -> Iterator[tuple[np.ndarray, float]]:
        """Tables after the first fill and after each round, with how much that has changed."""
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
        """Return what makes proximities to the rows of fit, their leaves, and trees that count."""
        leaves = forest.apply(filled)
        outside = forest._out_of_bag()[: len(filled)] if self.oob else None
        n_nodes = np.diff(forest.trees_.tree_start)
        return (
            Proximities(leaves, n_nodes, outside, effective_threads(self.n_jobs)),
            leaves,
            outside,
        )

    def _count_useful(
        self,
        values: np.ndarray,
        training: Training,
        seeds: list[np.random.SeedSequence],
        draw: np.random.SeedSequence,
    ) -> int:
        """Try how many rounds bring hidden entries nearer to the truth, each more than before."""
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
            raise ValueError("the forest of the imputer is about other features")
        check_count(self, "n_iter_")
        check_count(self, "_n_refills", 0, int(self.n_rounds))
        layout: dict[str, tuple] = {
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
            # Files of the first versions have neither.
            if vars(self).setdefault(name, None) is not None:
                layout[name] = shape
        check_arrays(self, layout, {"n_classes": len(getattr(forest, "classes_", ()))})
        if self._train_weight is not None:
            check_numbers(self._train_weight, "_train_weight of ProximityImputer", 0, np.inf)
        fills = [self._train_filled, self.statistics_[None], self.class_statistics_]
        check_fills(self._train_values, fills, self._reader.categories)

    def _warn_of_empty(self) -> None:
        """Say which columns have nothing that could be filled in."""
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
        if not isinstance(self.verbose, bool):
            check_integer("verbose", self.verbose, 0)

    def _grow(self, filled: np.ndarray, training: Training, seeds: np.random.SeedSequence) -> Any:
        """Forest on the filled table; without a target it tells the table from a shuffled one."""
        y, weight = training.y, training.weight
        if y is None:
            rng = np.random.default_rng(seeds.spawn(1)[0])
            shuffled = np.column_stack([rng.permutation(column) for column in filled.T])
            y = np.repeat([0, 1], len(filled))
            filled = np.concatenate([filled, shuffled])
            weight = None if weight is None else np.tile(weight, 2)
        model = RandomForestClassifier if training.is_classification else RandomForestRegressor
        forest = model(
            int(self.n_estimators),
            splitter=self.splitter,
            min_samples_leaf=self.min_samples_leaf,
            categorical_features=self._reader.is_categorical,
            keep_rows=False,
            random_state=seeds,
            n_jobs=self.n_jobs,
        )
        forest.fit(filled, y, weight)
        # A SeedSequence cannot be stored in a file, and has done its work.
        forest.random_state = None
        return forest

    def transform(self, X: Any) -> Any:
        """Fill in the missing entries of a table from the rows of `fit`.

        A row that is equal to one of `fit`, with the same gaps, gets what that was filled with,
        the last of them where there are several: ``fit(X, y).transform(X)`` is
        ``fit_transform(X, y)`` unless equal rows have different targets. Others start from the
        medians and most frequent categories of the whole table. Where the target has classes,
        which new rows do not bring, a row is filled once for each class, and the fill is taken
        whose class gets the most votes of the forest. Then rows are refilled as often as the
        table of `fit` was. A category that was not seen in `fit` stays; the forest takes it as
        missing.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        filled : ndarray or data frame
            `X` with its missing entries filled; a frame of pandas or polars stays one.
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
        """Fill rows with the values of the class that then gets the most votes."""
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
        """Fill rows that are equal to one of fit as that was; return the others with gaps."""
        train = self._train_values
        places = np.flatnonzero(np.isnan(train).any(axis=1))
        rows = np.flatnonzero(missing.any(axis=1))
        known = dict(zip(_keys(train[places]), places, strict=True))
        same = np.array([known.get(key, -1) for key in _keys(values[rows])], dtype=np.intp)
        filled[rows[same >= 0]] = self._train_filled[same[same >= 0]]
        return rows[same < 0]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of a filled table.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names to use where `fit` saw none.

        Returns
        -------
        names : ndarray of str
        """
        self._check_is_fitted()
        names = None if input_features is None else self._check_input_features(input_features)
        known = getattr(self, "feature_names_in_", names)
        if known is not None:
            return known
        return np.array([f"x{j}" for j in range(self.n_features_in_)], dtype=object)

    def _like(self, X: Any, filled: np.ndarray, missing: np.ndarray) -> Any:
        """Return the filled values in the form of the table they belong to.

        What is present stays, also a category that was not seen in fit, which has been read as
        missing.
        """
        reader, own = self._reader, None
        if (missing & reader.is_categorical).any():
            own, read = FeatureReader.fit(X, categorical_features=reader.is_categorical)
            missing = np.isnan(_dense(read))
        if frame_kind(X) is not None:
            table = X
            for j in np.flatnonzero(missing.any(axis=0)):
                table = self._with_filled(table, int(j), filled[:, j], missing[:, j])
        elif reader.is_categorical.any():
            table = np.empty(filled.shape, dtype=object)
            for j, labels in enumerate(reader.categories):
                table[:, j] = filled[:, j] if labels is None else self._decoded(j, filled[:, j])
                if own is not None and labels is not None:
                    known = ~missing[:, j]
                    codes = _dense(read)[known, j].astype(np.intp)
                    table[known, j] = own.categories[j][codes]
        else:
            table = filled
        return self._wrap(table, self.get_feature_names_out(), X)

    def _with_filled(self, table: Any, j: int, filled: np.ndarray, gaps: np.ndarray) -> Any:
        """Return a data frame with the gaps of one column filled."""
        if self._reader.categories[j] is not None:
            if not len(self._reader.categories[j]):
                return table
            return fill_column(table, j, gaps, self._decoded(j, filled[gaps]), None)
        kind = str(table.dtypes.iloc[j] if frame_kind(table) == "pandas" else table.dtypes[j])
        if self._nothing_known[j] and kind in ("object", "Null"):
            return table
        return fill_column(table, j, gaps, filled[gaps], filled)

    def _decoded(self, j: int, codes: np.ndarray) -> np.ndarray:
        labels = self._reader.categories[j]
        if not len(labels):
            return np.full(len(codes), None)
        return labels[codes.astype(np.intp)]

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a transformer that needs no target."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "transformer"
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        tags.target_tags.required = False
        return tags


def _dense(values: Any) -> np.ndarray:
    if scipy.sparse.issparse(values):
        values = values.toarray()
    return np.array(values, dtype=np.float64, order="C")


def _keys(rows: np.ndarray) -> list[bytes]:
    """Equal for equal rows, gaps included."""
    # NaN and zero have several forms.
    return [row.tobytes() for row in np.where(np.isnan(rows), np.nan, rows + 0.0)]
