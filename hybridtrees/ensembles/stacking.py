"""Stacking (Wolpert 1992): a final model learns from what members say of rows not seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees._parameters import check_boolean, check_option, is_classifier
from hybridtrees.base import NotFittedError, RegressorMixin, atomic_fit
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.ensembles.conditional import OptionalProbabilities, available_if
from hybridtrees.ensembles.joining import check_names, join
from hybridtrees.ensembles.members import (
    LEAVE_OUT,
    ConstantClassifier,
    Explained,
    Rows,
    check_member,
    check_takes_weight,
    fit_member,
    member_codes,
    member_probabilities,
)
from hybridtrees.ensembles.out_of_fold import joined_folds
from hybridtrees.ensembles.transforming import TransformingMembers
from hybridtrees.input._user_tables import open_columns
from hybridtrees.linear.regressor import LinearRegressor

PREFIT = "prefit"
METHODS = ("predict_proba", "decision_function", "predict")


class _Stacking(TransformingMembers):
    """What both kinds share.

    Parameters
    ----------
    final_estimator : estimator or None
        The model that learns from the members' predictions. By default a ridge regression whose
        penalty is found by cross-validation, or a logistic regression.
    cv : int, splitter, iterable of pairs (training rows, test rows), "prefit" or None
        Folds of the rows: a number of them, dealt out at random with equal shares of each class;
        an object of scikit-learn with a method `split`; or row numbers. None is 5. Rows that no
        fold predicts do not train the final model. With "prefit" the members are fitted already
        and used as they are; the final model then learns from all rows, which the members should
        not have seen.
    passthrough : bool
        Whether the final model also gets the table. It is of the same kind as the table of the
        user, with the columns of the members first.

    Attributes
    ----------
    final_estimator_ : estimator
        The fitted final model.
    stack_method_ : list of str
        The method of each member that gives the columns for the final model.
    """

    _positional: ClassVar[tuple[str, ...]] = ("estimators", "final_estimator")

    final_estimator: Any = None
    passthrough: bool = False

    @atomic_fit
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, time: Any = None
    ) -> Self:
        """Fit the members, and the final model to their predictions of rows not seen.

        Parameters
        ----------
        X : array-like, data frame, dict of columns or sparse matrix of shape (n_rows, n_features)
            The table, as the members take it.
        y : array-like of shape (n_rows,)
            Numbers, or class labels.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights, for members and a final model that all take them.
        groups : array-like of shape (n_rows,), optional
            Rows of one group are never divided by the folds.
        time : array-like of shape (n_rows,), optional
            Numbers or dates; each fold trains on the rows before those that it predicts. The
            earliest rows, which no fold predicts, do not train the final model.

        Returns
        -------
        self : estimator
        """
        members, final = self._check_members(), self._check_final()
        self._check_common()
        self.stack_method_ = [self._method_of(name, member) for name, member in members]
        prefit = isinstance(self.cv, str) and self.cv == PREFIT
        cv = None if prefit else self._checked_cv()
        if prefit:
            self._check_prefit(members)
        rows = self._learn_rows(X, y, sample_weight)
        self._check_weights(() if prefit else members, rows.weight)
        if rows.weight is not None:
            check_takes_weight(final, "final_estimator", LEAVE_OUT, self)
        if self.passthrough:
            check_names(rows.columns, self._expected_names())
        if prefit:
            self._check_prefit_classes(members)
            self.estimators_ = [member for _, member in members]
            answers = [self._answer(k, m, X) for k, m in enumerate(self.estimators_)]
            seen = np.ones(len(rows), dtype=bool)
        else:
            answers, seen = self._out_of_fold(members, rows, cv, groups, time)
        self._widths = [answer.shape[1] for answer in answers]
        self._fit_final(final, rows, np.hstack(answers), seen)
        return self

    def _check_final(self) -> Any:
        """Return the final model, which must be of the same kind."""
        check_boolean("passthrough", self.passthrough)
        if self.final_estimator is None:
            return self._default_final()
        check_member(self.final_estimator, "final_estimator", self)
        return self.final_estimator

    def _default_final(self) -> Any:
        raise NotImplementedError

    def _check_prefit(self, members: list[tuple[str, Any]]) -> None:
        for name, member in members:
            check = getattr(member, "__sklearn_is_fitted__", None)
            known = [key for key in vars(member) if key.endswith("_") and not key.startswith("__")]
            if not (check() if check is not None else known):
                raise NotFittedError(f"cv='prefit' needs fitted members, but {name!r} is not")

    def _check_prefit_classes(self, members: list[tuple[str, Any]]) -> None:
        """Refuse fitted members that know classes which are not in y."""
        if not is_classifier(self):
            return
        known = set(self.classes_.tolist())
        for name, member in members:
            other = [label for label in np.asarray(member.classes_).tolist() if label not in known]
            if other:
                raise ValueError(
                    f"cv='prefit': the member {name!r} was fitted with the class {other[0]!r}, "
                    "which y does not hold"
                )

    def _method_of(self, name: str, member: Any) -> str:
        """Return the method that gives a member's columns."""
        return "predict"

    def _out_of_fold(
        self, members: list[tuple[str, Any]], rows: Rows, cv: Any, groups: Any, time: Any
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Fit all, and return each member's columns, and which rows have them."""
        folds = self._make_folds(cv, rows, groups, time)
        tested = np.bincount(np.concatenate([test for _, test in folds]), minlength=len(rows))
        if is_classifier(self) and "predict" in self.stack_method_ and tested.max() > 1:
            raise ValueError(
                "cv tests a row twice, but labels have no mean: use other folds, or members with "
                "predict_proba or decision_function"
            )
        answers = self._fit_members(members, rows, folds, self._answer)
        for k, (name, _) in enumerate(members):
            if len({answer[k].shape[1] for answer in answers}) > 1:
                raise ValueError(
                    f"the member {name!r} has seen fewer classes in some folds: use "
                    "stack_method='predict_proba', fewer folds or other ones"
                )
        return joined_folds(len(rows), folds, answers)

    def _expected_names(self) -> list[str]:
        """Names of the members' columns, as far as they are known before the fit."""
        n_classes = getattr(self, "n_classes_", 2)
        single = [n_classes == 2 or method == "predict" for method in self.stack_method_]
        return [
            name if alone else f"{name}{k}"
            for name, alone in zip(self._names, single, strict=True)
            for k in range(1 if alone else n_classes)
        ]

    def _fit_final(self, final: Any, rows: Rows, columns: np.ndarray, seen: np.ndarray) -> None:
        """Fit the final model to the rows that have predictions."""
        if not np.isfinite(columns[seen]).all():
            raise ValueError("a member predicts numbers that are not finite")
        part = rows
        if not seen.all():
            part, columns = rows.take(np.flatnonzero(seen)), columns[seen]
        names = self._column_names()
        table: Any = columns
        if self.passthrough:
            check_names(rows.columns, names)  # members may give more columns than expected
            table = join(part.columns.table, names, columns)
        part = replace(part, columns=open_columns(table))
        # A child of the seed: its own numbers are those of the members.
        own = seed_sequence(self.random_state).spawn(1)[0]
        seed = int(own.generate_state(1, np.uint64)[0])
        n_threads = effective_threads(self.n_jobs)
        self.final_estimator_ = fit_member(final, part, n_threads, seed, "final_estimator")

    def _answer(self, k: int, member: Any, table: Any) -> np.ndarray:
        """Columns that one member gives the final model, (n_rows, n_columns)."""
        raise NotImplementedError

    def _final(self) -> Any:
        self._check_is_fitted()
        return self.final_estimator_

    def _columns(self, X: Any) -> Any:
        """Return what the final model gets."""
        table = self._read_columns(X).table
        answers = [self._answer(k, member, table) for k, member in enumerate(self.estimators_)]
        numbers = np.hstack(answers)
        return join(X, self._column_names(), numbers) if self.passthrough else numbers

    def _column_names(self) -> list[str]:
        return [
            name if width == 1 else f"{name}{k}"
            for name, width in zip(self._names, self._widths, strict=True)
            for k in range(width)
        ]

    def transform(self, X: Any) -> Any:
        """Return what the final model gets: predictions of the members, and the table if it passes.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        columns : ndarray of shape (n_rows, n_columns)
            With ``passthrough=True`` a table of the kind of `X`. Or a data frame, if `set_output`
            asks for one.
        """
        columns = self._columns(X)
        return self._wrap(columns, self.get_feature_names_out(), X)

    def _passed_names(self, known: Any) -> list[str]:
        if not self.passthrough:
            return []
        passed = [f"x{j}" for j in range(self.n_features_in_)] if known is None else known
        return [str(name) for name in passed]

    def _check_fitted(self) -> None:
        super()._check_fitted()
        n_members, n_columns = len(self.estimators_), 0
        for width, method in zip(self._widths, self.stack_method_, strict=True):
            if type(width) is not int or not 1 <= width <= 2**20 or method not in METHODS:
                raise ValueError("the columns of the members are damaged")
            n_columns += width
        if len(self._widths) != n_members:
            raise ValueError("the columns do not fit the members")
        n_columns += self.n_features_in_ if self.passthrough is True else 0
        final = self.final_estimator_
        if not hasattr(final, "predict") or getattr(final, "n_features_in_", n_columns) < 1:
            raise ValueError("final_estimator_ is no fitted model")
        if getattr(final, "n_features_in_", n_columns) != n_columns:
            raise ValueError("final_estimator_ has other columns than the members make")


class StackingRegressor(RegressorMixin, _Stacking):
    """Regressors whose predictions a final regressor combines.

    Each row's predictions come from members that were fitted without it, by folds, so that a member
    that merely remembers its rows gets no weight for that. The members are then fitted again to
    all rows. The final model learns from one column per member.

    Examples
    --------
    >>> from hybridtrees import LinearRegressor, StackingRegressor, XGBRegressor
    >>> from hybridtrees.datasets import load_seasonal_series
    >>> data = load_seasonal_series(as_frame=True)
    >>> members = [("line", LinearRegressor()), ("xgb", XGBRegressor(n_estimators=50))]
    >>> model = StackingRegressor(members).fit(data.data[:1000], data.target[:1000])
    >>> model.score(data.data[1000:], data.target[1000:]) > 0.8
    True
    """

    def _default_final(self) -> Any:
        from hybridtrees.linear.regressor import LinearRegressor

        return LinearRegressor(penalty="ridge", alpha="cv")

    def _answer(self, k: int, member: Any, table: Any) -> np.ndarray:
        found = np.asarray(member.predict(table), dtype=np.float64)
        return found[:, None] if found.ndim == 1 else found

    def _explained_members(self) -> Explained:
        """Return the members as the parts of a weighted sum: see `Explained`."""
        final = self._final()
        if not isinstance(final, LinearRegressor) or self.passthrough:
            raise TypeError(
                "Shapley values of a StackingRegressor need a LinearRegressor as final_estimator "
                f"and passthrough=False, got {final!r} and {self.passthrough}"
            )
        weights = np.asarray(final.term_coef_, dtype=np.float64)
        parts = [(w, m, None) for w, m in zip(weights, self.estimators_, strict=True)]
        return float(final.intercept_), parts, lambda X: self._read_columns(X).table

    def _predictions(self, X: Any) -> np.ndarray:
        return np.asarray(self._final().predict(self._columns(X)))


class StackingClassifier(ClassWeightMixin, OptionalProbabilities, _Stacking):
    """Classifiers whose predictions a final classifier combines.

    Each row's predictions come from members that were fitted without it, by folds, so that a member
    that merely remembers its rows gets no weight for that. The members are then fitted again to
    all rows. The final model learns from the probabilities of the classes: of two classes that of
    the second, of more that of each. A class that a fold has not trained has the probability 0.

    Parameters
    ----------
    stack_method : {"auto", "predict_proba", "decision_function", "predict"}
        The method of the members that gives the columns for the final model. "auto" takes the
        first that a member has, in this order. Of "predict" the column is the position of the label
        in `classes_`.

    Attributes
    ----------
    n_classes_ : int
        Number of classes.

    Examples
    --------
    >>> from hybridtrees import CARTClassifier, LogisticClassifier, StackingClassifier
    >>> from hybridtrees.datasets import load_breast_cancer
    >>> data = load_breast_cancer()
    >>> members = [("line", LogisticClassifier()), ("tree", CARTClassifier(max_depth=4))]
    >>> model = StackingClassifier(members).fit(data.data, data.target)
    >>> model.transform(data.data[:1]).shape
    (1, 2)
    >>> model.score(data.data, data.target) > 0.97
    True
    """

    stack_method: Literal["auto", "predict_proba", "decision_function", "predict"] = "auto"

    def _explained_members(self) -> Explained:
        raise TypeError("the scores of a StackingClassifier have no exact Shapley values")

    def _default_final(self) -> Any:
        from hybridtrees.linear.classifier import LogisticClassifier

        return LogisticClassifier()

    def _check_final(self) -> Any:
        check_option("stack_method", self.stack_method, ("auto", *METHODS))
        return super()._check_final()

    def _method_of(self, name: str, member: Any) -> str:
        allowed = METHODS if self.stack_method == "auto" else (self.stack_method,)
        for method in allowed:
            if hasattr(member, method):
                return method
        raise ValueError(
            f"the member {name!r}, {type(member).__name__}, has no {' or '.join(allowed)}: choose "
            "another stack_method"
        )

    def _answer(self, k: int, member: Any, table: Any) -> np.ndarray:
        method = self.stack_method_[k]
        if method == "predict":
            return member_codes(member, table, self.classes_)[:, None].astype(np.float64)
        if method == "predict_proba":
            proba = member_probabilities(member, table, self.classes_)
            # Of two classes one column says all.
            return proba[:, 1:] if proba.shape[1] == 2 else proba
        if isinstance(member, ConstantClassifier):
            raise ValueError(
                f"the member {self._names[k]!r} has seen a single class in some folds, which has "
                "no decision_function: use stack_method='predict_proba', fewer folds or other ones"
            )
        scores = np.asarray(member.decision_function(table), dtype=np.float64)
        return scores[:, None] if scores.ndim == 1 else scores

    def _class_codes(self, X: Any) -> np.ndarray:
        return member_codes(self._final(), self._columns(X), self.classes_)

    def _probabilities(self, X: Any) -> np.ndarray:
        return member_probabilities(self._final(), self._columns(X), self.classes_)

    def _has(self, method: str) -> bool:
        """Whether the final model has a method."""
        fitted = getattr(self, "final_estimator_", None)
        final = fitted if fitted is not None else self.final_estimator
        return final is None or hasattr(final, method)

    def _has_probabilities(self) -> bool:
        return self._has("predict_proba")

    @available_if(lambda self: self._has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the final model's scores of the classes; only if it has them.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        scores : ndarray of shape (n_rows,) for two classes, else (n_rows, n_classes)
        """
        return np.asarray(self._final().decision_function(self._columns(X)))

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if not np.isin(self.final_estimator_.classes_, self.classes_).all():
            raise ValueError("final_estimator_ has other classes")
