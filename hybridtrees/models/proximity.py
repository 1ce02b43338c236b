"""Missing values filled in by the proximities of a forest."""

from __future__ import annotations

import sys
from typing import Any, Self

import numpy as np
import scipy.sparse

from hybridtrees._parameters import check_integer, check_option, check_real
from hybridtrees._random import seed_sequence
from hybridtrees._threads import effective_threads
from hybridtrees.base import Estimator, atomic_fit
from hybridtrees.models._forest_leaves import Proximities
from hybridtrees.models.forest import RandomForestClassifier, RandomForestRegressor

_TASKS = ("auto", "regression", "classification")
_SPLITTERS = ("hist", "exact")


class ProximityImputer(Estimator):
    """Fill in missing values from the rows that a random forest finds alike (Breiman 2003).

    Missing numbers are first replaced by the median of their column, missing categories by the
    most frequent one. A forest is grown on the filled table, and every missing entry is replaced
    by the mean of the present ones, weighted by the proximities of their rows, or by the category
    with the largest sum of them; this is done a few times.

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
        Kind of forest for a target; "auto" takes real numbers that are not all whole for
        regression. Without a target the forest tells the table from one whose columns are
        shuffled.
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
        self._forest = self._grow(filled, y, classes, seeds[-1])
        self._train_values, self._train_filled = values, filled
        return filled.copy(), missing

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
        target = np.asarray(y)
        return not (target.dtype.kind == "f" and np.any(target != np.floor(target)))

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
        rows = np.flatnonzero(missing.any(axis=1))
        if len(rows):
            train = self._train_values
            present = _Present(train, np.isnan(train), self._reader.is_categorical)
            n_threads = effective_threads(self.n_jobs)
            near = _proximities(self._forest, self._forest.apply(self._train_filled), n_threads)
            for _ in range(max(1, self.n_iter_)):
                leaves = self._forest.apply(filled[rows])
                before = filled[rows]
                filled[rows] = present.refill(near, leaves, before, missing[rows])
                if present.change(before, filled[rows], missing[rows]) < self.tol:
                    break
        return self._like(X, filled, missing)

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
        """Return the filled values in the form of the table they belong to."""
        kind = type(X).__module__.partition(".")[0]
        if kind in ("pandas", "polars") and hasattr(X, "columns"):
            for j in np.flatnonzero(missing.any(axis=0)):
                replace = _pandas_with if kind == "pandas" else _polars_with
                X = replace(X, X.columns[j], self._column(filled, int(j)))
            return X
        if self._reader.is_categorical.any():
            columns = [self._column(filled, j) for j in range(self.n_features_in_)]
            return np.stack([column.astype(object) for column in columns], axis=1)
        return filled

    def _column(self, filled: np.ndarray, j: int) -> np.ndarray:
        labels = self._reader.categories[j]
        return filled[:, j] if labels is None else labels[filled[:, j].astype(np.intp)]

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a transformer that needs no target."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "transformer"
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        tags.target_tags.required = False
        return tags


def _pandas_with(table: Any, name: Any, column: np.ndarray) -> Any:
    """Put a filled column in the place of one with gaps; categories keep their type."""
    import pandas

    values: Any = column
    if isinstance(table[name].dtype, pandas.CategoricalDtype):
        values = pandas.Categorical(column, dtype=table[name].dtype)
    table = table.copy()
    table[name] = pandas.Series(values, index=table.index)
    return table


def _polars_with(table: Any, name: str, column: np.ndarray) -> Any:
    """Put a filled column in the place of one with gaps."""
    import polars

    series = polars.Series(name, column.tolist())
    dtype = table[name].dtype
    return table.with_columns(series if dtype.is_integer() else series.cast(dtype))


def _dense(values: Any) -> np.ndarray:
    if scipy.sparse.issparse(values):
        values = values.toarray()
    return np.array(values, dtype=np.float64, order="C")


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
