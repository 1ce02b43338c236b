"""Missing values filled in by the proximities of a forest."""

from __future__ import annotations

import sys
import warnings
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse

from hybridtrees._parameters import check_integer, check_option, check_real
from hybridtrees._random import seed_sequence
from hybridtrees._threads import effective_threads
from hybridtrees._validation import FeatureReader
from hybridtrees.base import Estimator, atomic_fit
from hybridtrees.core.checks import check_arrays, check_count, check_type
from hybridtrees.models._forest_base import ForestModel
from hybridtrees.models._forest_leaves import Proximities
from hybridtrees.models._output import OutputMixin, fill_column, frame_kind
from hybridtrees.models._state import check_codes
from hybridtrees.models.forest import RandomForestClassifier, RandomForestRegressor

_TASKS = ("auto", "regression", "classification")
_SPLITTERS = ("hist", "exact")

# Whole numbers are classes while there are few of them: at most so many, and rows for each.
_MOST_CLASSES = 20
_ROWS_OF_A_CLASS = 5


class ProximityImputer(OutputMixin, Estimator):
    """Fill in missing values from the rows that a random forest finds alike (Breiman 2003).

    Missing numbers are first replaced by the median of their column, missing categories by the
    most frequent one. A forest is grown on the filled table, and every missing entry is replaced
    by the mean of the present ones, weighted by the proximities of their rows, or by the category
    with the largest sum of them; this is done a few times. A column without any value in fit is
    filled with 0 if it holds numbers, and else stays missing; a warning says so.

    Parameters
    ----------
    n_estimators : int, default=100
        Trees of each forest.
    n_rounds : int, default=5
        Most rounds of growing and refilling.
    tol : float, default=0.01
        Stop when the refilled entries change less: the mean change of numbers in standard
        deviations of their columns, and the share of categories that change.
    task : {"auto", "regression", "classification"}, default="auto"
        Kind of forest for a target. "auto" takes text, booleans and category types for classes,
        and whole numbers while there are at most 20 different ones and five rows for each, or
        two different ones; other numbers make a regression. Without a target the forest tells
        the table from one whose columns are shuffled.
    min_samples_leaf : int or float, default=5
        Least rows of a leaf: the fewer, the closer the neighbours.
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
    changes_ : list of float
        Change of the refilled entries in each round.
    n_iter_ : int
        Rounds that were done.
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

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        n_rounds: int = 5,
        tol: float = 0.01,
        task: str = "auto",
        min_samples_leaf: int | float = 5,
        splitter: str = "hist",
        categorical_features: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.n_estimators = n_estimators
        self.n_rounds = n_rounds
        self.tol = tol
        self.task = task
        self.min_samples_leaf = min_samples_leaf
        self.splitter = splitter
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a table what its rows are like.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            NaN means missing.
        y : array-like of shape (n_rows,), optional
            Target of the forest.

        Returns
        -------
        self : ProximityImputer
        """
        self._fit(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn from a table and fill it.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        filled : ndarray or data frame
            `X` with its missing entries filled; a frame of pandas or polars stays one.
        """
        return self._like(X, *self._fit(X, y))

    @atomic_fit
    def _fit(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        self._check_parameters()
        n_threads = effective_threads(self.n_jobs)
        values = _dense(self._fit_features(X, categorical_features=self.categorical_features))
        seeds = seed_sequence(self.random_state).spawn(int(self.n_rounds) + 1)
        is_categorical = self._reader.is_categorical
        missing = np.isnan(values)
        self._nothing_known = missing.all(axis=0)
        self._warn_of_empty()
        self.statistics_ = _rough_values(values, is_categorical)
        filled = np.where(missing, self.statistics_, values)
        classes = self._is_classification(y)
        self.changes_: list[float] = []
        rows = np.flatnonzero(missing.any(axis=1))
        present = _Present(values, missing, is_categorical)
        for round_ in range(int(self.n_rounds) if len(rows) else 0):
            forest = self._grow(filled, y, classes, seeds[round_])
            leaves = forest.apply(filled)
            near = _proximities(forest, leaves, n_threads)
            before = filled[rows]
            filled[rows] = present.refill(near, leaves[rows], before, missing[rows])
            change = present.change(before, filled[rows], missing[rows])
            self.changes_.append(change)
            if self.verbose:
                print(f"[{round_ + 1}]  change:{change:.5f}", file=sys.stdout, flush=True)
            if change < self.tol:
                break
        self.n_iter_ = len(self.changes_)
        self._n_refills = self.n_iter_ if len(rows) else int(self.n_rounds)
        self._forest = self._grow(filled, y, classes, seeds[-1])
        self._train_values, self._train_filled = values, filled
        return filled.copy(), missing

    def _check_fitted(self) -> None:
        n_features = self.n_features_in_
        forest = check_type(self, "_forest", ForestModel)
        if forest.n_features_in_ != n_features:
            raise ValueError("the forest of the imputer is about other features")
        check_count(self, "n_iter_")
        check_count(self, "_n_refills", 0, int(self.n_rounds))
        check_arrays(
            self,
            {
                "_nothing_known": (bool, n_features),
                "statistics_": ("f8", n_features),
                "_train_values": ("f8", "n_rows", n_features),
                "_train_filled": ("f8", "n_rows", n_features),
            },
        )
        for f, labels in enumerate(self._reader.categories):
            if labels is not None:
                check_codes(self._train_values[:, f], len(labels))
                check_codes(self._train_filled[:, f], max(1, len(labels)))
                check_codes(self.statistics_[[f]], max(1, len(labels)))

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
        check_option("task", self.task, _TASKS)
        check_option("splitter", self.splitter, _SPLITTERS)
        if not isinstance(self.verbose, bool):
            check_integer("verbose", self.verbose, 0)

    def _is_classification(self, y: Any) -> bool:
        if y is None:
            return True
        if self.task != "auto":
            return self.task == "classification"
        if any(word in str(getattr(y, "dtype", "")).lower() for word in ("categor", "enum")):
            return True
        target = np.asarray(y)
        if target.dtype.kind == "O":
            if not all(isinstance(v, Real) and not isinstance(v, bool) for v in target.flat):
                return True
            target = target.astype(np.float64)
        if target.dtype.kind == "f" and np.any(target != np.floor(target)):
            return False
        if target.dtype.kind not in "iuf":
            return True
        few = max(2, min(_MOST_CLASSES, target.size // _ROWS_OF_A_CLASS))
        return len(np.unique(target)) <= few

    def _grow(
        self, filled: np.ndarray, y: Any, classes: bool, seeds: np.random.SeedSequence
    ) -> Any:
        """Forest on the filled table; without a target it tells the table from a shuffled one."""
        if y is None:
            rng = np.random.default_rng(seeds.spawn(1)[0])
            shuffled = np.column_stack([rng.permutation(column) for column in filled.T])
            y = np.repeat([0, 1], len(filled))
            filled = np.concatenate([filled, shuffled])
        model = RandomForestClassifier if classes else RandomForestRegressor
        forest = model(
            int(self.n_estimators),
            splitter=self.splitter,
            min_samples_leaf=self.min_samples_leaf,
            categorical_features=self._reader.is_categorical,
            keep_rows=False,
            random_state=seeds,
            n_jobs=self.n_jobs,
        )
        forest.fit(filled, y)
        # A SeedSequence cannot be stored in a file, and has done its work.
        forest.random_state = None
        return forest

    def transform(self, X: Any) -> Any:
        """Fill in the missing entries of a table from the rows of `fit`.

        A row that is equal to one of `fit`, with the same gaps, gets what that was filled with,
        so that ``fit(X, y).transform(X)`` is ``fit_transform(X, y)``. Others start from medians
        and most frequent categories and are refilled as often as the table of `fit` was. A
        category that was not seen in `fit` stays; the forest takes it as missing.

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
            train = self._train_values
            present = _Present(train, np.isnan(train), self._reader.is_categorical)
            n_threads = effective_threads(self.n_jobs)
            near = _proximities(self._forest, self._forest.apply(self._train_filled), n_threads)
            for _ in range(self._n_refills):
                leaves = self._forest.apply(filled[rows])
                before = filled[rows]
                filled[rows] = present.refill(near, leaves, before, missing[rows])
                if present.change(before, filled[rows], missing[rows]) < self.tol:
                    break
        return self._like(X, filled, missing)

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
        known = getattr(self, "feature_names_in_", None)
        if known is not None:
            if input_features is not None and not np.array_equal(known, input_features):
                raise ValueError("input_features is not equal to feature_names_in_")
            return known
        if input_features is not None:
            if len(input_features) != self.n_features_in_:
                raise ValueError(
                    "input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(input_features)}"
                )
            return np.asarray(input_features, dtype=object)
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


def _proximities(forest: Any, leaves: np.ndarray, n_threads: int) -> Proximities:
    return Proximities(leaves, np.diff(forest.trees_.tree_start), None, n_threads)


def _rough_values(values: np.ndarray, is_categorical: np.ndarray) -> np.ndarray:
    """Median of each column, or its most frequent code; 0 where nothing is known."""
    rough = np.zeros(values.shape[1])
    for j, column in enumerate(values.T):
        known = column[~np.isnan(column)]
        if len(known) and is_categorical[j]:
            rough[j] = np.bincount(known.astype(np.intp)).argmax()
        elif len(known):
            rough[j] = np.median(known)
    return rough


class _Present:
    """The entries of a table that are not missing, ready to be averaged.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features)
    missing : ndarray of bool, same shape
    is_categorical : ndarray of bool, shape (n_features,)
    """

    def __init__(self, values: np.ndarray, missing: np.ndarray, is_categorical: np.ndarray):
        self.numeric = np.flatnonzero(~is_categorical)
        self.categorical = np.flatnonzero(is_categorical)
        numbers, gaps = values[:, self.numeric], missing[:, self.numeric]
        known = np.where(gaps, np.nan, numbers)
        counts = np.maximum((~gaps).sum(axis=0), 1)
        self.center = np.nansum(known, axis=0) / counts
        # Centred, so that a mean keeps the digits that a common offset would take.
        self.numbers = np.where(gaps, 0.0, numbers - self.center)
        self.weights = (~gaps).astype(np.float64)
        spread = np.sqrt(np.square(self.numbers).sum(axis=0) / counts)
        self.spread = np.where(spread > 0, spread, 1.0)
        self.indicators = [_one_hot(values[:, j]) for j in self.categorical]

    def refill(
        self, near: Proximities, leaves: np.ndarray, filled: np.ndarray, missing: np.ndarray
    ) -> np.ndarray:
        """Return the rows with their missing entries filled anew."""
        made = filled.copy()
        for block, part in near.rows(leaves):
            gaps, rows = missing[block], made[block]
            weight = part @ self.weights
            total = part @ self.numbers
            mean = np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)
            use = gaps[:, self.numeric] & (weight > 0)
            rows[:, self.numeric] = np.where(use, mean + self.center, rows[:, self.numeric])
            for j, indicator in zip(self.categorical, self.indicators, strict=True):
                sums = part @ indicator
                use = gaps[:, j] & (sums.max(axis=1) > 0)
                rows[use, j] = sums[use].argmax(axis=1)
            made[block] = rows
        return made

    def change(self, before: np.ndarray, after: np.ndarray, missing: np.ndarray) -> float:
        """Mean change of numbers in standard deviations, and the share of changed categories."""
        gaps = missing[:, self.numeric]
        moved = np.abs(after - before)[:, self.numeric] / self.spread
        numbers = float(moved[gaps].mean()) if gaps.any() else 0.0
        gaps = missing[:, self.categorical]
        differs = (after != before)[:, self.categorical]
        return max(numbers, float(differs[gaps].mean()) if gaps.any() else 0.0)


def _one_hot(codes: np.ndarray) -> np.ndarray:
    """Return indicators of the codes of a column, rows of zeros for missing ones."""
    known = np.flatnonzero(~np.isnan(codes))
    width = int(codes[known].max()) + 1 if len(known) else 1
    indicator = np.zeros((len(codes), width))
    indicator[known, codes[known].astype(np.intp)] = 1.0
    return indicator
