"""What regressors and classifiers have in common: rows held out by `fit` or by the caller."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from hybridtrees._parameters import check_integer, check_option, check_real, is_classifier
from hybridtrees._spread import spread_forest
from hybridtrees.input._user_tables import open_columns
from hybridtrees.input.folds import check_cv
from hybridtrees.input.targets import (
    check_sample_weight,
    check_target_classification,
    check_target_regression,
)
from hybridtrees.uncertainty import intervals, sets
from hybridtrees.uncertainty.calibration import (
    CALIBRATIONS,
    Isotonic,
    Temperature,
    learn_calibration,
)
from hybridtrees.uncertainty.held_out import FOLDS, HeldOut, Request, by_folds, check_fit_options

Conformal = Literal["auto", "oob", "cv", "cv+"] | None
Calibrate = Literal["temperature", "isotonic"] | None
IntervalMethod = Literal["auto", "constant"]
SetMethod = Literal["auto", "lac", "aps"]

_WAYS = ("auto", "oob", "cv", "cv+", None)
_OWN_WAYS = ("split", "cv", "cv+")

# With fewer members out-of-bag predictions, by a third of them, err more than the model.
_FEW_MEMBERS = 100

# What is learned from held-out rows.
_LEARNED = ("_uncertainty", "_calibrator")


class HeldOutMixin:
    """Predictions of rows that a model has not seen: where they come from, what they are for."""

    conformal: Any
    calibrate: Any

    # Whether `fit` can leave out-of-bag predictions, and where; and whether it holds rows out
    # anyway, and leaves their numbers and predictions in `_held_out`.
    _has_oob: ClassVar[bool] = False
    _oob_name: ClassVar[str]
    _has_held_out: ClassVar[bool] = False

    # -- what regressors and classifiers differ in ----------------------------------------------

    def _tell_rows(self, model: Any, X: Any) -> tuple[np.ndarray, ...]:
        """Return the predictions of a fitted model, before any calibration."""
        raise NotImplementedError

    def _learn_uncertainty(self, held: HeldOut, request: Request, learns_sets: bool) -> None:
        """Learn from held-out rows, and keep the result."""
        raise NotImplementedError

    # -- held-out rows of fit -------------------------------------------------------------------

    def _held_out_way(self) -> str | None:
        """Return how `fit` holds rows out, None if it does not."""
        asked, calibrate = self.conformal, getattr(self, "calibrate", None)
        if asked is None and calibrate is None:
            return None
        check_option("conformal", asked, _WAYS)
        check_option("calibrate", calibrate, (*CALIBRATIONS, None))
        if asked is None:
            asked = "auto"
        if asked == "oob" and not self._has_oob:
            raise ValueError(
                f"conformal='oob' is for bagged models; {type(self).__name__} has no out-of-bag "
                "rows: use 'cv' or 'auto'"
            )
        if asked != "auto":
            return str(asked)
        if self._has_held_out:
            return "own"
        return "oob" if self._has_oob and self._leaves_rows_out() else "cv"

    def _leaves_rows_out(self) -> bool:
        """Whether a bagged model has enough members that have not seen a row."""
        n_members = getattr(self, "n_estimators", "auto")
        if isinstance(n_members, int | np.integer) and n_members < _FEW_MEMBERS:
            return False
        size = getattr(self, "max_samples", None)
        return bool(getattr(self, "bootstrap", False)) or not (size is None or size == 1.0)

    def _wants_oob(self) -> bool:
        """Whether `fit` must make out-of-bag predictions, whatever `oob_score` says."""
        return self._held_out_way() == "oob"

    def _begin_fit(
        self, method: Callable[..., Any], args: Any, kwargs: Any
    ) -> Callable[[], None] | None:
        """Check the parameters, and return what is to be done after the fit; see `atomic_fit`.

        What was learned from rows held out of an earlier fit is dropped: the next may fit them.
        """
        way = self._held_out_way()
        self._forget()
        if way is None or method.__name__ != "fit":
            return self._forget if self._has_held_out else None
        try:
            given = inspect.signature(method).bind(self, *args, **kwargs).arguments
        except TypeError:  # the call of the method says the same, and better
            return None
        options = {k: v for k, v in given.items() if k not in ("self", "X", "y")}
        if way in ("cv", "cv+"):
            check_fit_options(type(self).__name__, way, options)
        return partial(self._finish_fit, way, given.get("X"), given.get("y"), options)

    def _forget(self) -> None:
        """Drop what was learned from held-out rows, and the rows that a model held out anyway."""
        for name in (*_LEARNED, "_held_out"):
            self.__dict__.pop(name, None)

    def _finish_fit(self, way: str, X: Any, y: Any, options: dict[str, Any]) -> None:
        kept = self.__dict__.pop("_held_out", None)
        request = self._request(X, y, options.pop("sample_weight", None))
        request.groups, request.time = options.get("groups"), options.get("time")
        request.options = {k: v for k, v in options.items() if k != "verbose"}
        if way == "own":
            rows, predictions = kept
            held = HeldOut(rows, (predictions.reshape(len(rows), -1),))
        elif way == "oob":
            predictions = getattr(self, self._oob_name)
            predictions = predictions.reshape(len(predictions), -1)
            rows = np.flatnonzero(~np.isnan(predictions).any(axis=1))
            held = HeldOut(rows, (predictions[rows],))
        else:
            held = by_folds(self, request, self._tell_rows, way == "cv+")
        if not len(held.rows):
            raise ValueError(
                f"no row is left out of any sample of {type(self).__name__}: use more members, or "
                "conformal='cv'"
            )
        self._learn_uncertainty(held, request, self.conformal is not None)

    def _request(self, X: Any, y: Any, sample_weight: Any) -> Request:
        """Return the checked rows; classes are those of the fit."""
        n_rows = open_columns(X).shape[0]
        name = type(self).__name__
        codes = None
        if is_classifier(self):
            classes = self.classes_  # type: ignore[attr-defined]
            codes, _ = check_target_classification(y, n_rows, classes=classes, estimator_name=name)
            target = classes[codes]
        else:
            target = check_target_regression(y, n_rows, multi_output=True, estimator_name=name)
        return Request(X, target, codes, check_sample_weight(sample_weight, n_rows))

    # -- held-out rows of the caller ------------------------------------------------------------

    def conformalize(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        method: Literal["split", "cv", "cv+"] = "split",
        cv: Any = FOLDS,
        groups: Any = None,
        time: Any = None,
    ) -> Self:
        """Learn from held-out rows how far off this fitted model may be.

        Intervals of a regressor, or prediction sets of a classifier, are based on these rows from
        then on. With `calibrate`, so are the probabilities.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            With ``method="split"`` rows that the model has not seen in any way, early stopping
            included; otherwise the rows that it was fitted to.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array-like of shape (n_rows,), optional
            A row of weight 2 counts as two rows.
        method : {"split", "cv", "cv+"}, default="split"
            "split": the rows are new to the model. "cv": copies of it are fitted to folds of the
            rows, and say how far off they are on the others. "cv+": these copies are kept, and all
            of them predict.
        cv : int, splitter or iterable of pairs (training rows, test rows), default=5
            The folds.
        groups : array-like of shape (n_rows,), optional
            Folds do not divide rows of one group.
        time : array-like of shape (n_rows,), optional
            Numbers or dates. Rows are held out of copies that were fitted to earlier ones.

        Returns
        -------
        self : estimator
        """
        self._check_is_fitted()  # type: ignore[attr-defined]
        check_option("method", method, _OWN_WAYS)
        self._held_out_way()
        if method == "split" and (groups is not None or time is not None):
            raise ValueError("groups and time are for the folds of method='cv' and 'cv+'")
        request = self._request(X, y, sample_weight)
        request.cv, request.groups, request.time = check_cv(cv), groups, time
        if method == "split":
            held = HeldOut(np.arange(len(request.target)), self._tell_rows(self, X))
        else:
            held = by_folds(self, request, self._tell_rows, method == "cv+")
        before = self.__dict__.copy()
        try:
            self._learn_uncertainty(held, request, True)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _learned(self, what: str) -> Any:
        """Return what was learned from held-out rows; if nothing was, an error says how to."""
        self._check_is_fitted()  # type: ignore[attr-defined]
        found = vars(self).get("_uncertainty")
        if found is None:
            name = type(self).__name__
            raise ValueError(
                f"{what} of {name} needs rows that the model has not seen. Fit it with "
                f"{name}(conformal='auto', ...).fit(X, y), or call conformalize(X_new, y_new) with "
                "rows that are not used otherwise"
            )
        return found

    def _check_state(self) -> None:
        """Refuse a state of held-out rows that does not fit the model."""
        super()._check_state()  # type: ignore[misc]
        kind: Any = sets.Sets if is_classifier(self) else intervals.Intervals
        for name, kinds in (("_uncertainty", (kind,)), ("_calibrator", (Isotonic, Temperature))):
            found = vars(self).get(name)
            if found is not None and not isinstance(found, kinds):
                raise ValueError(f"{name} of {type(self).__name__} is a {type(found).__name__}")
        if vars(self).get("_uncertainty") is not None:
            vars(self)["_uncertainty"].check_owner(self)
        if vars(self).get("_calibrator") is not None:
            vars(self)["_calibrator"].check_classes(len(self.classes_))  # type: ignore[attr-defined]


class IntervalMixin(HeldOutMixin):
    """`predict_interval` of regressors."""

    def _tell_rows(self, model: Any, X: Any) -> tuple[np.ndarray, ...]:
        return intervals.ask_bounds(model, X)

    _oob_name = "oob_prediction_"

    def _spread_table(self, X: Any) -> Any:
        """Return the table from which the size of residuals is learned."""
        return X

    def _spread_width(self) -> int:
        """Return the number of its columns."""
        return int(self.n_features_in_)  # type: ignore[attr-defined]

    def _learn_uncertainty(self, held: HeldOut, request: Request, learns_sets: bool) -> None:
        rows = held.rows
        X = request.X
        if len(rows) < len(request.target) or not np.array_equal(rows, np.arange(len(rows))):
            X = open_columns(X).take(rows).table
        weight = None if request.weight is None else request.weight[rows]
        related = request.groups is not None or request.time is not None
        self._uncertainty = intervals.Intervals.learn(
            held,
            self._spread_table(X),
            request.target[rows],
            weight,
            # Related rows have similar residuals: out of bag, the forest would seem too good.
            None if related else spread_forest(self),
        )

    def predict_interval(
        self, X: Any, coverage: float = 0.9, method: IntervalMethod = "auto"
    ) -> np.ndarray:
        """Predict an interval for the target of each row.

        A share `coverage` of new rows has its target in the interval, on average over rows like
        those held out; it is not promised for each kind of row. Rows must be held out for that: by
        the parameter `conformal`, or by `conformalize`.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        coverage : float, default=0.9
            Share of the rows, between 0 and 1.
        method : {"auto", "constant"}, default="auto"
            "constant": the same distances from the prediction for all rows. "auto": wider where
            residuals were large, if that describes the held-out residuals better; never where rows
            are in groups or in time order. Where several quantiles are predicted, the outer ones
            are shifted instead.

        Returns
        -------
        interval : ndarray of shape (n_rows, 2), or (n_rows, 2, n_outputs) for several outputs
            Lower and upper bound.
        """
        coverage = check_real("coverage", coverage, 0, 1, closed="neither")
        check_option("method", method, intervals.METHODS)
        known = self._learned("predict_interval")
        found: np.ndarray = known.predict(self, X, coverage, method)
        return found[..., 0] if found.shape[2] == 1 else found


class SetMixin(HeldOutMixin):
    """`predict_set` and calibrated probabilities of classifiers."""

    classes_: np.ndarray

    def _tell_rows(self, model: Any, X: Any) -> tuple[np.ndarray, ...]:
        return (self._raw_probabilities(model, X),)

    def _raw_probabilities(self, model: Any, X: Any) -> np.ndarray:
        """Return a model's probabilities of all classes, without calibration."""
        if not hasattr(model, "predict_proba"):
            raise ValueError(
                f"{type(self).__name__} predicts no probabilities, which prediction sets and "
                "calibration need"
            )
        proba = np.asarray(model._probabilities(X), dtype=np.float64)
        if np.array_equal(model.classes_, self.classes_):
            return proba
        full = np.zeros((len(proba), len(self.classes_)))
        full[:, np.searchsorted(self.classes_, model.classes_)] = proba
        return full

    _oob_name = "oob_decision_function_"

    def _learn_uncertainty(self, held: HeldOut, request: Request, learns_sets: bool) -> None:
        assert request.codes is not None
        codes = request.codes[held.rows].astype(np.intp)
        weight = None if request.weight is None else request.weight[held.rows]
        if self.calibrate is not None and len(self.classes_) > 1:
            self._calibrator = learn_calibration(self.calibrate, held.answers[0], codes, weight)
        if learns_sets:
            self._uncertainty = sets.Sets.learn(held, codes, weight)

    def _calibrated(self, proba: np.ndarray) -> np.ndarray:
        """Return probabilities as `calibrate` has them."""
        calibrator = vars(self).get("_calibrator")
        return proba if calibrator is None else calibrator.apply(proba)

    def _is_calibrated(self) -> bool:
        return vars(self).get("_calibrator") is not None

    def predict_set(
        self, X: Any, coverage: float = 0.9, method: SetMethod = "auto", random_state: int = 0
    ) -> np.ndarray:
        """Predict a set of classes for each row.

        A share `coverage` of new rows has its class in the set, on average over rows like those
        held out; it is not promised for each class or kind of row. Rows must be held out for that:
        by the parameter `conformal`, or by `conformalize`. Sets use probabilities before any
        calibration.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        coverage : float, default=0.9
            Share of the rows, between 0 and 1.
        method : {"auto", "lac", "aps"}, default="auto"
            "lac" (the same as "auto"): all classes above one probability, which makes the smallest
            sets. They may be empty where no class is probable, or where the model is right more
            often than asked for. "aps": the most probable classes up to a total probability;
            larger, and more even over easy and hard rows.
        random_state : int, default=0
            Seed of the draws by which "aps" decides about the last class.

        Returns
        -------
        member : ndarray of bool, shape (n_rows, n_classes)
            Whether a class is in the set; columns in the order of `classes_`.
        """
        coverage = check_real("coverage", coverage, 0, 1, closed="neither")
        check_option("method", method, sets.METHODS)
        seed = check_integer("random_state", random_state, 0)
        known = self._learned("predict_set")
        found: np.ndarray = known.predict(self._raw_probabilities, self, X, coverage, method, seed)
        return found
