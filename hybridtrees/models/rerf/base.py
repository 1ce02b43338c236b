"""Fit and tuning of RERF, without the target."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from hybridtrees._parameters import check_boolean, check_option, declared_parameters
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.input.columns import column_indices
from hybridtrees.input.folds import check_cv, make_folds
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.linear._base import PenaltyName, RegressionParameters
from hybridtrees.linear.path import alpha_grid, check_penalty
from hybridtrees.linear.regression import Line, Options
from hybridtrees.linear.solvers import warn_not_converged
from hybridtrees.models.rerf import tuning
from hybridtrees.models.rerf.forest import ReadTable, ResidualForest
from hybridtrees.models.rerf.linear import (
    ENCODINGS,
    FittedLine,
    LinearFits,
    RegressionColumns,
    honest_level,
)
from hybridtrees.models.rerf.reporting import RERFPredictions
from hybridtrees.models.shared.forest.packed import ForestParameters
from hybridtrees.models.shared.forest.warm_start import (
    check_same_growth,
    checksum,
    columns_checksum,
    target_checksum,
)
from hybridtrees.models.shared.targets import SupervisedFit
from hybridtrees.models.shared.tree_parameters import RegressionCriterion

# Parameters that RERF sets in its forest itself, and those it passes on, which `tune` may name.
_OWN = (
    "conformal",
    "oob_score",
    "categorical_features",
    "warm_start",
    "random_state",
    "n_jobs",
    "verbose",
)
FOREST = tuple(name for name in declared_parameters(ResidualForest) if name not in _OWN)
_TUNED = ("best_params_", "best_score_", "tune_results_")
_OOB = ("oob_score_", "oob_curve_", "oob_prediction_", "oob_decision_function_")


@dataclass
class _Rows:
    """Training rows: the table as read, its target, and the regressions on its columns."""

    table: ReadTable
    target: np.ndarray
    weight: np.ndarray | None
    columns: RegressionColumns
    fits: LinearFits


class RERFModel(RERFPredictions, SupervisedFit, ForestParameters, RegressionParameters):
    """A regression and a forest on its residuals, without the target.

    Parameters
    ----------
    n_estimators : int or "auto"
        Number of trees of the forest; "auto" stops when the out-of-bag error has settled, at 1000
        trees at most.
    alpha : float or "cv"
        Strength of the penalty, per unit of weight; "cv" chooses it by cross-validation of the
        regression alone.
    categorical_features : array-like or None
        Categorical columns (names, indices or a mask), in addition to the string and category
        columns of a data frame. The forest splits on categories, ordered by their mean residual in
        the node; see `categorical_encoding` for the regression.
    monotonic_cst : array-like, dict or None
        1 or -1 for features with which predictions of the forest may only increase or decrease,
        else 0; a dict gives them by name. One output only. It does not apply to the regression.
    splitter : {"hist", "exact", "random"}
        Search of the forest, on at most `max_bins` bins or over all values; "random" draws one
        threshold of each feature between its bins. The published forests are exact. Bins take a
        fraction of the time; the exact search can be slightly better for columns with long tails,
        where a line fits worst.
    oob_score : bool
        Whether to score the predictions on rows that neither part was trained on.
    warm_start : bool
        Whether `fit` adds trees to the fitted ones. Data and parameters other than `n_estimators`
        must be the same. Not with `tune`.
    random_state : int, Generator, RandomState or None
        Seed of the forest, the same for all settings of `tune`.
    n_jobs : int or None
        Number of threads; all usable CPUs by default. The result does not depend on it.
    verbose : int
        Print a line every `verbose` trees, and for every setting.
    linear_features : array-like or None
        Features of the regression (names, indices or a mask); all by default. The forest uses all.
    categorical_encoding : {"onehot", "target_mean"}
        Encoding of categories in the regression: one indicator each, or one column with the mean
        target of the category, shrunk a little towards the overall mean. In training, means are
        over the rows of other folds, to avoid target leakage.
    tune : bool, dict of lists, or list of such dicts
        Grid of settings to try: values of `penalty`, `alpha`, `l1_ratio` and of any parameter of
        the forest. True tries five alphas if there is a penalty, two values of `max_features` and
        three of `min_samples_leaf`. Regressions and sorted tables are shared between settings.
    tune_by : "oob", int or iterable of (training rows, test rows)
        Compare settings by the squared error of the predictions on out-of-bag rows, or on the test
        rows of folds; in classification by the Brier score of predictions that are not clipped.

    Attributes
    ----------
    forest_ : ResidualForest
        The forest on the residuals, with the methods of `RandomForestRegressor`.
    n_iter_ : int
        Number of iterations of the regression.
    best_params_, best_score_, tune_results_ : dict, float, list
        With `tune`: the setting of the smallest error, that error, and those of all settings.
    feature_importances_ : ndarray of shape (n_features,)
        Importances of the forest.
    """

    _criteria = ResidualForest._criteria
    _dialects: ClassVar[tuple[str, ...]] = ("linear-tree", *ResidualForest._dialects)
    _positional_alias = "base_estimator"

    criterion: RegressionCriterion = "squared_error"
    penalty: PenaltyName | None = "ridge"
    oob_score: bool = False
    linear_features: Any = None
    categorical_encoding: Literal["onehot", "target_mean"] = "onehot"
    tune: bool | dict[str, Any] | Sequence[dict[str, Any]] = False
    tune_by: Any = "oob"

    def _oob_purpose(self) -> str:
        if self.oob_score or self._tunes():
            return "oob_score" if self.oob_score else "tune_by='oob'"
        return super()._oob_purpose()

    # -- hooks for targets ----------------------------------------------------------------------

    def _n_outputs(self) -> int:
        return 0

    def _indicators(self, target: np.ndarray) -> np.ndarray:
        """Return targets or class indicators, (n_rows, n_values), to take residuals of."""
        raise NotImplementedError

    def _set_intercept(self, line: Line) -> None:
        raise NotImplementedError

    def _keep_oob(self, total: np.ndarray, target: np.ndarray, weight: np.ndarray | None) -> None:
        raise NotImplementedError

    # -- fit ------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit the regression, then the forest on its residuals."""
        options = self._check_parameters()
        grids, folds = self._check_tuning()
        earlier = self.__dict__.copy() if self.warm_start and "forest_" in self.__dict__ else None
        values = self._fit_features(X, categorical_features=self.categorical_features)
        target = self._encode_target(y, values.shape[0])
        weight = check_sample_weight(sample_weight, values.shape[0])
        weight = self._weigh_classes(target, weight)
        values = self._order_categories(values, target, weight)
        # Candidates have the same seed: they should differ by parameters alone.
        seed = int(seed_sequence(self.random_state).generate_state(1, np.uint64)[0])
        rows = self._open_rows(ReadTable(values, self._reader), target, weight)
        for name in _TUNED:
            self.__dict__.pop(name, None)
        if self._tunes():
            line, forest = self._tune(rows, grids, folds, options, seed)
        else:
            line, forest = self._fit_one(
                rows, tuning.Candidate({}, {}), options, seed, earlier=earlier
            )
        if not line.converged:
            warn_not_converged(type(self).__name__, line.n_iter, stacklevel=5)
        self._keep(rows, line, forest)

    def _check_parameters(self) -> Options:
        """Check what can be checked without the data."""
        check_option("categorical_encoding", self.categorical_encoding, ENCODINGS)
        check_boolean("oob_score", self.oob_score)
        if check_boolean("warm_start", self.warm_start) and self._tunes():
            raise ValueError(
                f"warm_start=True cannot be combined with tune, got tune={self.tune!r}"
            )
        self._check_bagging()
        self._check_tree_parameters()
        return self._options()

    def _tunes(self) -> bool:
        """Whether `tune` is anything but False, of Python or NumPy."""
        return not isinstance(self.tune, bool | np.bool_) or bool(self.tune)

    def _check_tuning(self) -> tuple[list[dict[str, list[Any]]] | None, Any]:
        """Check `tune` and `tune_by`; return the grids and the folds, None for "oob"."""
        if not self._tunes():
            return None, None
        grids = tuning.check_grid(self.tune, (*tuning.LINEAR, *FOREST))
        for candidate in tuning.candidates(grids or []):
            about = {name: getattr(self, name) for name in tuning.LINEAR}
            check_penalty(**{**about, **candidate.linear}, automatic=self._alpha_by_size)
            self._forest(candidate, 0)._check_parameters()
        if not isinstance(self.tune_by, str):
            return grids, check_cv(self.tune_by, "tune_by")
        if self.tune_by != "oob":
            raise ValueError(
                "tune_by must be 'oob', a number of folds or an iterable of pairs (training rows, "
                f"test rows), got {self.tune_by!r}"
            )
        return grids, None

    def _forest(
        self, candidate: tuning.Candidate, seed: int, oob_score: bool = False
    ) -> ResidualForest:
        own = {name: getattr(self, name) for name in FOREST}
        return ResidualForest(
            **{**own, **candidate.forest},
            oob_score=oob_score,
            categorical_features=self.categorical_features,
            warm_start=bool(self.warm_start),
            random_state=seed,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )

    def _open_rows(self, table: ReadTable, target: np.ndarray, weight: np.ndarray | None) -> _Rows:
        n_features, names = table.values.shape[1], table.reader.feature_names_in
        features = column_indices(
            self.linear_features, n_features, names, "linear_features", required=True
        )
        columns = RegressionColumns.learn(
            table.reader,
            table.values,
            features,
            self._indicators(target),
            weight,
            encoding=self.categorical_encoding,
            drop_first=self.penalty is None and bool(self.fit_intercept),
            indicators=bool(self.missing_indicator),
        )
        made = columns.make_training(table.values, self._indicators(target), weight)
        fits = LinearFits(made, target, weight, self._n_outputs())
        return _Rows(table, target, weight, columns, fits)

    def _fit_line(
        self, rows: _Rows, candidate: tuning.Candidate, options: Options
    ) -> tuple[FittedLine, Options]:
        """Fit the regression of a setting; return it with options that have its alpha."""
        about = {name: getattr(self, name) for name in tuning.LINEAR}
        penalty = check_penalty(
            **{**about, **candidate.linear}, automatic=self._alpha_by_size
        ).for_table(rows.fits.columns.shape[1], len(rows.target), rows.weight)
        options = replace(options, penalty=penalty)
        alpha = penalty.alpha
        if alpha is None:
            alpha = rows.fits.choose_alpha(options)
            options = replace(options, penalty=replace(penalty, alpha=alpha))
        return rows.fits.fit(options, alpha), options

    def _fit_one(
        self,
        rows: _Rows,
        candidate: tuning.Candidate,
        options: Options,
        seed: int,
        *,
        earlier: dict[str, Any] | None = None,
        scored: bool = True,
    ) -> tuple[FittedLine, ResidualForest]:
        """Fit one setting; `earlier` is the state that a warm start continues.

        Without `scored`, out-of-bag errors are not computed.
        """
        line, own_options = self._fit_line(rows, candidate, options)
        line.fitted_with = growth = self._growth(rows, line, own_options)
        by_oob = self._tunes() and isinstance(self.tune_by, str)
        asks_oob = bool(self.oob_score) or self._wants_oob()  # type: ignore[attr-defined]
        forest = self._forest(candidate, seed, scored and (asks_oob or by_oob))
        if earlier is not None:
            same = "the forest on the residuals of the same regression"
            check_same_growth(earlier["_fitted_with"], growth, same)
            # A copy: if the fit fails, the earlier forest is unchanged.
            params = forest.get_params(deep=False)
            forest = copy.copy(earlier["forest_"]).set_params(**params)
        truth = self._indicators(rows.target)
        raw = line.line.predict(rows.fits.columns, None, options.n_threads)
        table = replace(rows.table, oob_purpose=self._oob_purpose(), target_checksum=growth["y"])
        if scored and (forest.oob_score or forest.n_estimators == "auto"):
            honest = honest_level(rows.fits, line, own_options, self._level)
            table = replace(table, oob_target=truth - honest)
        return line, forest.fit(table, truth - self._level(raw), rows.weight)

    def _growth(self, rows: _Rows, line: FittedLine, options: Options) -> dict[str, Any]:
        """Return what the residuals depend on; a warm start refuses to change any of it."""
        plain = rows.weight is None or bool(np.all(rows.weight == 1))
        return {
            "X": checksum(rows.table.values),
            "the columns of X": columns_checksum(rows.table.reader),
            "y": target_checksum(rows.target, vars(self).get("classes_")),
            "sample_weight": None if plain else checksum(rows.weight),
            "penalty, alpha or l1_ratio": [line.alpha, options.penalty.l1_ratio],
            "fit_intercept": options.fit_intercept,
            "standardize": options.standardize,
            "linear_features": rows.columns.features.tolist(),
            "missing_indicator": bool(self.missing_indicator),
            "categorical_encoding": self.categorical_encoding,
            "tol": options.tol,
            "max_iter": options.max_iter,
        }

    # -- tuning ---------------------------------------------------------------------------------

    def _tune(
        self, rows: _Rows, grids: list[Any] | None, folds: Any, options: Options, seed: int
    ) -> tuple[FittedLine, ResidualForest]:
        """Fit all settings and return the best one, which folds require to be fitted again."""
        if grids is None:
            grids = self._default_grids(rows, options)
        tried = list(tuning.candidates(grids))
        errors: list[float] = []
        fitted: tuple[FittedLine, ResidualForest] | None = None
        if folds is None:
            lowest = np.inf
            for candidate in tried:
                found = self._fit_one(rows, candidate, options, seed)
                errors.append(float(found[1].oob_curve_[-1]))
                self._report(candidate, errors[-1])
                # False if the error is NaN, without out-of-bag rows.
                if errors[-1] < lowest:
                    fitted, lowest = found, errors[-1]
        else:
            errors = self._fold_errors(rows, tried, folds, options, seed)
        best = tuning.best_of(errors, "tune_by='oob'" if folds is None else "tune_by")
        self.best_params_, self.best_score_ = tried[best].params, errors[best]
        self.tune_results_ = [
            {"params": candidate.params, "error": error}
            for candidate, error in zip(tried, errors, strict=True)
        ]
        return fitted or self._fit_one(rows, tried[best], options, seed)

    def _default_grids(self, rows: _Rows, options: Options) -> list[dict[str, list[Any]]]:
        def alphas(number: int) -> np.ndarray:
            steepest = rows.fits.open(options).steepest()
            return alpha_grid(number, steepest, options.penalty.l1_ratio)

        return tuning.default_grid(self.penalty is not None, alphas)

    def _fold_errors(
        self, rows: _Rows, tried: list[tuning.Candidate], cv: Any, options: Options, seed: int
    ) -> list[float]:
        """Return mean squared errors by cross-validation, of predictions that are not clipped."""
        if len(rows.target) < 2:
            raise ValueError("tune_by needs training and test rows, but X has 1 sample")
        classes = rows.target if self._n_outputs() else None
        folds = make_folds(cv, len(rows.target), classes, rows.weight, "tune_by")
        values = rows.table.values
        values = values.tocsr() if hasattr(values, "indptr") else values
        errors = np.zeros((len(tried), len(folds)))
        for f, (train, test) in enumerate(folds):
            weight = None if rows.weight is None else rows.weight[train]
            part = self._open_rows(
                ReadTable(values[train], rows.table.reader), rows.target[train], weight
            )
            others = ReadTable(values[test], rows.table.reader)
            truth = self._indicators(rows.target[test])
            w = None if rows.weight is None else rows.weight[test]
            for k, candidate in enumerate(tried):
                line, forest = self._fit_one(part, candidate, options, seed, scored=False)
                columns = part.columns.make(others.values)
                linear = self._level(line.line.predict(columns, None, options.n_threads))
                total = linear + forest._predict_values(others)
                errors[k, f] = np.average(((truth - total) ** 2).mean(axis=1), weights=w)
        for candidate, row in zip(tried, errors, strict=True):
            self._report(candidate, float(row.mean()))
        return [float(row.mean()) for row in errors]

    def _report(self, candidate: tuning.Candidate, error: float) -> None:
        if self.verbose:
            print(f"{type(self).__name__}: {candidate.params}, error {error:.6g}")

    def _keep(self, rows: _Rows, line: FittedLine, forest: ResidualForest) -> None:
        """Keep what predictions need."""
        fitted = line.line
        self._columns = rows.columns
        arrays = (fitted.coef, fitted.mean, fitted.fill, fitted.base)
        self._line = tuple(np.ascontiguousarray(a) for a in arrays)
        self.forest_ = forest
        self._fitted_with = line.fitted_with
        self.alpha_ = line.alpha
        self.n_iter_ = line.n_iter
        self._set_intercept(fitted)
        for name in _OOB:
            self.__dict__.pop(name, None)
        if "oob_prediction_" in vars(forest):
            residual = forest.oob_prediction_.reshape(len(rows.target), -1)
            assert line.honest is not None
            self.oob_curve_ = forest.oob_curve_
            self._keep_oob(line.honest + residual, rows.target, rows.weight)
