"""What the RERF regressor and classifier share: all but the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, check_option, check_real
from hybridtrees._random import seed_sequence
from hybridtrees._threads import effective_threads
from hybridtrees._validation import check_sample_weight
from hybridtrees.base import Estimator, atomic_fit
from hybridtrees.models import _rerf_tuning as tuning
from hybridtrees.models._rerf_forest import ReadTable, ResidualForest
from hybridtrees.models._rerf_linear import (
    ENCODINGS,
    FittedLine,
    LinearFits,
    RegressionColumns,
    choose_features,
)

# The solvers are imported where they are used, to keep `import hybridtrees` quick.
if TYPE_CHECKING:
    from hybridtrees.linear.regression import Line, Options

# Parameters that RERF hands on to its forest.
FOREST = (
    "n_estimators",
    "criterion",
    "splitter",
    "max_depth",
    "min_samples_split",
    "min_samples_leaf",
    "min_weight_fraction_leaf",
    "max_features",
    "max_leaf_nodes",
    "min_impurity_decrease",
    "bootstrap",
    "max_samples",
    "ccp_alpha",
    "monotonic_cst",
    "missing",
    "max_bins",
    "keep_rows",
)
_TUNED = ("best_params_", "best_score_", "tune_results_")
_OOB = ("oob_score_", "oob_curve_", "oob_prediction_", "oob_decision_function_")


class Parts(NamedTuple):
    """What the two parts of the model say of each row; their sum is the prediction.

    Attributes
    ----------
    linear, forest : ndarrays
        Of the shape of the prediction: see `RERFRegressor.partial`.
    """

    linear: np.ndarray
    forest: np.ndarray


class VarianceShares(NamedTuple):
    """Shares of the variance of the predictions, which add up to 1.

    Attributes
    ----------
    linear, forest : float
        Covariance of a part with the sum, over the variance of the sum.
    """

    linear: float
    forest: float


@dataclass
class _Rows:
    """Rows of a fit: the table as read, its target, and the regressions on its columns."""

    table: ReadTable
    target: np.ndarray
    weight: np.ndarray | None
    columns: RegressionColumns
    fits: LinearFits


class RERFModel(Estimator):
    """Parameters, the two fits, tuning and the sum."""

    penalty: str | None
    alpha: float | str
    l1_ratio: float
    fit_intercept: bool
    standardize: bool
    linear_features: Any
    missing_indicator: bool
    categorical_encoding: str
    categorical_features: Any
    tune: Any
    tune_by: Any
    cv: Any
    max_iter: int
    tol: float
    oob_score: bool
    random_state: Any
    n_jobs: int | None
    verbose: int

    # -- what the two differ in -----------------------------------------------------------------

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        raise AttributeError("the regressor and the classifier bring this")

    def _n_outputs(self) -> int:
        return 0

    def _indicators(self, target: np.ndarray) -> np.ndarray:
        """Return the target as what the forest's residuals are taken from, (n_rows, n_values)."""
        raise AttributeError("the regressor and the classifier bring this")

    def _level(self, raw: np.ndarray) -> np.ndarray:
        """Return what the regression predicts, in the units of `_indicators`, from its scores."""
        raise AttributeError("the regressor and the classifier bring this")

    def _choose_alpha(self, rows: _Rows, options: Options) -> float:
        raise AttributeError("the regressor and the classifier bring this")

    def _set_coef(self, line: Line) -> None:
        raise AttributeError("the regressor and the classifier bring this")

    def _keep_oob(self, total: np.ndarray, target: np.ndarray, weight: np.ndarray | None) -> None:
        raise AttributeError("the regressor and the classifier bring this")

    # -- fit ------------------------------------------------------------------------------------

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the regression, then the forest on what it leaves.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            NaN means missing. String and category columns of a data frame are categories.
        y : array-like of shape (n_rows,)
            In regression also of shape (n_rows, n_outputs).
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self : estimator
        """
        options = self._check_parameters()
        grids = self._check_tuning()
        values = self._fit_features(X, categorical_features=self.categorical_features)
        target = self._encode_target(y, values.shape[0])
        weight = check_sample_weight(sample_weight, values.shape[0])
        # One seed for all candidates: they differ by their parameters, not by their draws.
        seed = int(seed_sequence(self.random_state).generate_state(1, np.uint64)[0])
        rows = self._open_rows(ReadTable(values, self._reader), target, weight)
        for name in _TUNED:
            self.__dict__.pop(name, None)
        if self.tune is False:
            line, forest = self._fit_one(rows, tuning.Candidate({}, {}), options, seed)
        else:
            line, forest = self._tune(rows, grids, options, seed)
        if not line.converged:
            from hybridtrees.linear.solvers import warn_not_converged

            warn_not_converged(type(self).__name__, line.n_iter, stacklevel=4)
        self._keep(rows, line, forest)
        return self

    def _check_parameters(self) -> Options:
        """Check the parameters, all before any work."""
        from hybridtrees.linear.path import check_cv, check_penalty
        from hybridtrees.linear.regression import Options

        check_boolean("missing_indicator", self.missing_indicator)
        check_option("categorical_encoding", self.categorical_encoding, ENCODINGS)
        check_boolean("oob_score", self.oob_score)
        check_cv(self.cv)
        tol = check_real("tol", self.tol, 0, closed="right")
        max_iter = check_integer("max_iter", self.max_iter, 1, 2**31 - 1)
        assert tol is not None and max_iter is not None
        if not tol > 0:
            raise ValueError(f"tol must be a real number greater than 0, got {self.tol!r}")
        if not isinstance(self.verbose, bool):
            check_integer("verbose", self.verbose, 0)
        self._forest(tuning.Candidate({}, {}), 0)._check_parameters()
        return Options(
            penalty=check_penalty(self.penalty, self.alpha, self.l1_ratio),
            fit_intercept=check_boolean("fit_intercept", self.fit_intercept),
            standardize=check_boolean("standardize", self.standardize),
            tol=tol,
            max_iter=max_iter,
            n_threads=effective_threads(self.n_jobs),
        )

    def _check_tuning(self) -> list[dict[str, list[Any]]] | None:
        """Check `tune` and every setting in it."""
        from hybridtrees.linear.path import check_cv, check_penalty

        if self.tune is False:
            return None
        grids = tuning.check_grid(self.tune, (*tuning.LINEAR, *FOREST))
        for candidate in tuning.candidates(grids or []):
            about = {name: getattr(self, name) for name in tuning.LINEAR}
            check_penalty(**{**about, **candidate.linear})
            self._forest(candidate, 0)._check_parameters()
        if isinstance(self.tune_by, str):
            check_option("tune_by", self.tune_by, ("oob",))
        else:
            check_cv(self.tune_by)
        return grids

    def _forest(self, candidate: tuning.Candidate, seed: int) -> ResidualForest:
        own = {name: getattr(self, name) for name in FOREST}
        by_oob = self.tune is not False and isinstance(self.tune_by, str)
        return ResidualForest(
            **{**own, **candidate.forest},
            oob_score=bool(self.oob_score) or by_oob,
            categorical_features=self.categorical_features,
            random_state=seed,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )

    def _open_rows(self, table: ReadTable, target: np.ndarray, weight: np.ndarray | None) -> _Rows:
        columns = RegressionColumns.learn(
            table.reader,
            table.values,
            choose_features(self.linear_features, table.reader),
            self._indicators(target),
            weight,
            encoding=self.categorical_encoding,
            drop_first=self.penalty is None and bool(self.fit_intercept),
            indicators=bool(self.missing_indicator),
        )
        made = columns.make(table.values)
        fits = LinearFits(made, target, weight, self._n_outputs())
        return _Rows(table, target, weight, columns, fits)

    def _fit_line(self, rows: _Rows, candidate: tuning.Candidate, options: Options) -> FittedLine:
        from hybridtrees.linear.path import check_penalty

        about = {name: getattr(self, name) for name in tuning.LINEAR}
        penalty = check_penalty(**{**about, **candidate.linear})
        options = replace(options, penalty=penalty)
        alpha = penalty.alpha
        if alpha is None:
            alpha = self._choose_alpha(rows, options)
            options = replace(options, penalty=replace(penalty, alpha=alpha))
        return rows.fits.fit(options, alpha)

    def _fit_one(
        self, rows: _Rows, candidate: tuning.Candidate, options: Options, seed: int
    ) -> tuple[FittedLine, ResidualForest]:
        """Fit one setting."""
        line = self._fit_line(rows, candidate, options)
        raw = line.line.predict(rows.fits.columns, None, options.n_threads)
        residual = self._indicators(rows.target) - self._level(raw)
        forest = self._forest(candidate, seed)
        return line, forest.fit(rows.table, residual, rows.weight)

    # -- tuning ---------------------------------------------------------------------------------

    def _tune(
        self, rows: _Rows, grids: list | None, options: Options, seed: int
    ) -> tuple[FittedLine, ResidualForest]:
        """Try all settings; by out-of-bag error the best one has been fitted by then."""
        if grids is None:
            grids = self._default_grids(rows, options)
        tried = list(tuning.candidates(grids))
        errors: list[float] = []
        fitted: tuple[FittedLine, ResidualForest] | None = None
        if isinstance(self.tune_by, str):
            for candidate in tried:
                found = self._fit_one(rows, candidate, options, seed)
                errors.append(float(found[1].oob_curve_[-1]))
                self._report(candidate, errors[-1])
                if errors[-1] == min(errors) and errors.index(errors[-1]) == len(errors) - 1:
                    fitted = found
        else:
            errors = self._fold_errors(rows, tried, options, seed)
        best = int(np.argmin(errors))
        self.best_params_, self.best_score_ = tried[best].params, errors[best]
        self.tune_results_ = [
            {"params": candidate.params, "error": error}
            for candidate, error in zip(tried, errors, strict=True)
        ]
        return fitted or self._fit_one(rows, tried[best], options, seed)

    def _default_grids(self, rows: _Rows, options: Options) -> list[dict[str, list[Any]]]:
        from hybridtrees.linear.path import alpha_grid

        def alphas(number: int) -> np.ndarray:
            steepest = rows.fits.open(options).steepest()
            return alpha_grid(number, steepest, options.penalty.l1_ratio)

        return tuning.default_grid(self.penalty is not None, alphas)

    def _fold_errors(
        self, rows: _Rows, tried: list[tuning.Candidate], options: Options, seed: int
    ) -> list[float]:
        """Mean squared errors by cross-validation, of the sum that is not clipped."""
        from hybridtrees.linear.path import check_cv, make_folds

        if len(rows.target) < 2:
            raise ValueError("tune_by needs rows to train and to test on, but X has 1 sample")
        classes = rows.target if self._n_outputs() else None
        folds = make_folds(check_cv(self.tune_by), len(rows.target), classes)
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
                line, forest = self._fit_one(part, candidate, options, seed)
                columns = part.columns.make(others.values)
                said = self._level(line.line.predict(columns, None, options.n_threads))
                said = said + forest._mean(others)
                errors[k, f] = np.average(((truth - said) ** 2).mean(axis=1), weights=w)
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
        self.alpha_ = line.alpha
        self.n_iter_ = line.n_iter
        self.coef_names_ = np.array(rows.columns.names, dtype=object)
        self._set_coef(fitted)
        for name in _OOB:
            self.__dict__.pop(name, None)
        if "oob_prediction_" in vars(forest):
            residual = forest.oob_prediction_.reshape(len(rows.target), -1)
            level = self._level(fitted.predict(rows.fits.columns, None, 1))
            self.oob_curve_ = forest.oob_curve_
            self._keep_oob(level + residual, rows.target, rows.weight)

    # -- predict --------------------------------------------------------------------------------

    def _both(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return what the regression and the forest say, (n_rows, n_values) each."""
        from hybridtrees.linear.regression import Line

        self._check_is_fitted()
        values = self._read_features(X)
        n_threads = 1 if values.shape[0] < 4096 else effective_threads(self.n_jobs)
        raw = Line(*self._line).predict(self._columns.make(values), None, n_threads)
        return self._level(raw), self.forest_._mean(ReadTable(values, self._reader))

    def predict_raw(self, X: Any) -> np.ndarray:
        """Sum of what the regression and the forest say, as it is.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        raw : ndarray of shape (n_rows, n_values)
            In classification a value for every class, of two for the second alone; it may be
            below 0 or above 1.
        """
        linear, forest = self._both(X)
        return linear + forest

    def partial(self, X: Any) -> Parts:
        """Return what each of the two parts adds to the sum.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        parts : Parts
            `linear` and `forest`: a number per row, or one for each output or class. In
            classification `linear` is a probability; of two classes both are for the second.
        """
        linear, forest = self._both(X)
        return Parts(*((a[:, 0] if a.shape[1] == 1 else a) for a in (linear, forest)))

    def variance_shares(self, X: Any) -> VarianceShares:
        """Return the shares of the two parts in the variance of the predictions.

        On rows of fit the forest has too large a share, since it has learned their noise too.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        shares : VarianceShares
            NaN where all predictions are equal.
        """
        linear, forest = self._both(X)
        total = linear + forest
        total = total - total.mean(axis=0)
        whole = float((total * total).sum())
        if not whole > 0:
            return VarianceShares(float("nan"), float("nan"))
        own = float((total * (forest - forest.mean(axis=0))).sum()) / whole
        return VarianceShares(1.0 - own, own)

    # -- reading the model ----------------------------------------------------------------------

    @property
    def feature_importances_(self) -> np.ndarray:
        """Importances of the features in the forest, which explains what the regression left."""
        self._check_is_fitted()
        return self.forest_.feature_importances_

    def _penalty_text(self) -> str:
        penalty = {"penalty": self.penalty, **vars(self).get("best_params_", {})}["penalty"]
        return "no penalty" if penalty is None else f"{penalty} penalty, alpha {self.alpha_:.6g}"

    def summary(self) -> str:
        """Return a short account of both parts in words.

        Returns
        -------
        text : str
        """
        self._check_is_fitted()
        coef = self._line[0]
        used = int(np.count_nonzero(coef.any(axis=1)))
        lines = [
            f"{type(self).__name__}: a regression and a forest on its residuals",
            f"regression: {len(coef)} columns, {used} with a coefficient, {self._penalty_text()}",
        ]
        if "best_params_" in vars(self):
            lines.append(
                f"best of {len(self.tune_results_)} settings: {self.best_params_}, "
                f"error {self.best_score_:.6g}"
            )
        if "oob_score_" in vars(self):
            lines.append(f"out-of-bag score of the sum {self.oob_score_:.6g}")
        return "\n".join([*lines, self.forest_.summary()])
