"""What all ensembles share: members are checked, copied and fitted in parallel, and predict.

A member is any estimator with `fit`, `predict` and `get_params`, of this package or another. It
gets the table as the user gave it, so that names, categories and data frames reach it unchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from hybridtrees._parameters import attribute, clone, is_classifier
from hybridtrees._predictor import Predictor
from hybridtrees.base import ClassifierMixin, Estimator, atomic_fit
from hybridtrees.core.base.checks import check_count, check_type
from hybridtrees.core.base.workers import run_side_by_side
from hybridtrees.input._user_tables import Columns, open_columns
from hybridtrees.input.arrays import shorten
from hybridtrees.input.targets import (
    check_sample_weight,
    check_target_classification,
    check_target_regression,
)
from hybridtrees.input.validation import FeatureReader, feature_names

NO_PROBABILITIES = "which has no predict_proba"
VOTING = ("soft", "hard")
USE_HARD = "use voting='hard' or another one"
LEAVE_OUT = "leave the weights or this member out"

run_members = run_side_by_side


@dataclass(frozen=True)
class Rows:
    """Rows that members are fitted to."""

    columns: Columns  # the table, of the user's kind
    target: np.ndarray  # numbers, or class labels
    weight: np.ndarray | None
    codes: np.ndarray | None = None  # positions of the labels among the classes
    n_classes: int = 0  # of the whole table: a part of the rows may lack some

    def __len__(self) -> int:
        return int(self.columns.shape[0])

    def take(self, rows: np.ndarray, weight: np.ndarray | None = None) -> Rows:
        """Return some of the rows, with other weights if these are given, one per row taken."""
        if weight is None and self.weight is not None:
            weight = self.weight[rows]
        codes = None if self.codes is None else self.codes[rows]
        return Rows(self.columns.take(rows), self.target[rows], weight, codes, self.n_classes)

    def weighted(self, weight: np.ndarray | None) -> Rows:
        """Return all rows with other weights."""
        return replace(self, weight=weight)

    def lacks_classes(self) -> bool:
        """Whether the table has several classes, but these rows, by their weights, only one."""
        if self.codes is None or self.n_classes < 2:
            return False
        codes = self.codes if self.weight is None else self.codes[self.weight > 0]
        return len(codes) > 0 and bool(np.all(codes == codes[0]))


# A constant; weights, models and the features that these read (None: all); a reader of tables. The
# predictions of the models add up to those of the ensemble, and so do their Shapley values.
Explained = tuple[float, list[tuple[float, Any, Any]], Callable[[Any], Any]]


class Ensemble(Predictor):
    """Base of the ensembles: reads the training rows; `RegressorMixin` and others have the rest."""

    _takes_several_targets = False

    def _learn_rows(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        """Check the input of `fit`, and learn features and classes."""
        columns = open_columns(X)
        n_rows = columns.shape[0]
        name = type(self).__name__
        codes, n_classes = None, 0
        if is_classifier(self):
            codes, classes = check_target_classification(y, n_rows, estimator_name=name)
            self.classes_ = classes
            self.n_classes_ = n_classes = len(classes)
            target = classes[codes]
        else:
            several = self._takes_several_targets
            target = check_target_regression(y, n_rows, multi_output=several, estimator_name=name)
        weight = check_sample_weight(sample_weight, n_rows)
        if codes is not None:
            weight = self._weigh_classes(codes, weight)
        self.n_features_in_ = columns.shape[1]
        names = feature_names(columns.names)
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        return Rows(columns, target, weight, codes, n_classes)

    def _read_columns(self, X: Any) -> Columns:
        """Return the columns of a table to predict; refuse other features than those of `fit`."""
        self._check_is_fitted()
        columns = open_columns(X)
        names = vars(self).get("feature_names_in_")
        reader = FeatureReader(
            self.n_features_in_, names, [None] * self.n_features_in_, np.nan, type(self).__name__
        )
        reader.check_features(columns)
        return columns


class ConstantClassifier(ClassifierMixin, Ensemble):
    """The member for a sample that holds a single class: this class has the probability 1."""

    n_classes_: int = attribute()

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the one class of the rows that have a weight."""
        rows = self._learn_rows(X, y, sample_weight)
        assert rows.codes is not None
        used = rows.codes if rows.weight is None else rows.codes[rows.weight > 0]
        self.classes_ = self.classes_[np.unique(used)]
        self.n_classes_ = len(self.classes_)
        if self.n_classes_ != 1:
            raise ValueError(f"ConstantClassifier is for one class, got {self.n_classes_}")
        return self

    @property
    def feature_importances_(self) -> np.ndarray:
        """Zeros: no feature is used."""
        self._check_is_fitted()
        return np.zeros(self.n_features_in_)

    def _probabilities(self, X: Any) -> np.ndarray:
        return np.ones((self._read_columns(X).shape[0], 1))

    def _check_fitted(self) -> None:
        check_count(self, "n_features_in_", 1)
        check_type(self, "classes_", np.ndarray)
        check_count(self, "n_classes_", 1, 1)


def check_member(estimator: Any, name: str, owner: Any) -> None:
    """Refuse what is no estimator, or predicts classes where numbers are wanted or vice versa."""
    for method in ("fit", "predict", "get_params"):
        if not hasattr(estimator, method) or isinstance(estimator, type):
            raise TypeError(f"{name} must be an estimator with {method}, got {estimator!r}")
    wanted = is_classifier(owner)
    if is_classifier(estimator) != wanted:
        kind = "classifier" if wanted else "regressor"
        raise TypeError(
            f"{name} of {type(owner).__name__} must be a {kind}, got {type(estimator).__name__}"
        )


def check_probabilities(estimator: Any, name: str, advice: str) -> None:
    """Refuse a member without probabilities."""
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(f"{name} is a {type(estimator).__name__}, {NO_PROBABILITIES}: {advice}")


def check_fitted_members(owner: Any, members: Any, widths: Any, labels: Any = None) -> None:
    """Refuse fitted members of a model file that do not fit the ensemble.

    `widths` has the number of features of each member. Members of other packages come from pickles
    only, and are not checked further: some do not store what they were fitted to.
    """
    labels = ["a member"] * len(members) if labels is None else labels
    for member, width, label in zip(members, widths, labels, strict=True):
        if not hasattr(member, "predict") or is_classifier(member) != is_classifier(owner):
            kind = "classifier" if is_classifier(owner) else "regressor"
            found = type(member).__name__
            raise ValueError(f"{label} of the {type(owner).__name__} is no {kind}, but a {found}")
        if not isinstance(member, Estimator):
            continue
        check_count(member, "n_features_in_", width, width)
        classes: Any = getattr(member, "classes_", None)
        if is_classifier(owner) and not np.isin(classes, owner.classes_).all():
            raise ValueError(f"{label} of the {type(owner).__name__} has other classes")


def takes_weight(estimator: Any) -> bool:
    """Whether `fit` of an estimator has the argument `sample_weight`."""
    return "sample_weight" in inspect.signature(estimator.fit).parameters


def check_takes_weight(estimator: Any, name: str, advice: str, owner: Any = None) -> None:
    """Refuse a member that takes no weights; the parameters of `owner` may ask for them."""
    if takes_weight(estimator):
        return
    reason = ""
    if getattr(owner, "class_weight", None) is not None:
        reason = f", which class_weight of {type(owner).__name__} needs"
    raise ValueError(
        f"{name} is a {type(estimator).__name__}, whose fit takes no sample_weight{reason}: "
        f"{advice}"
    )


def fit_member(
    estimator: Any, rows: Rows, n_threads: int, seed: int | None = None, name: str = "estimator"
) -> Any:
    """Return a fitted copy of an estimator.

    Parameters `random_state` that are None, its own or of nested estimators, are set from `seed`,
    and so is `n_jobs` of our estimators from `n_threads`, for the fit only; other packages may
    start processes.
    Where a sample lacks all classes but one, the copy is a `ConstantClassifier`: many estimators
    refuse a single class, and a rare class must not end the fit of a whole ensemble.
    """
    if rows.lacks_classes():
        return ConstantClassifier().fit(rows.columns.table, rows.target, rows.weight)
    member = clone(estimator)
    params = member.get_params()
    threads = {}
    for key in sorted(key for key, value in params.items() if value is None):
        owner, _, last = key.rpartition("__")
        if last == "n_jobs" and isinstance(params[owner] if owner else member, Estimator):
            threads[key] = n_threads
        elif last == "random_state" and seed is not None:
            # Other packages take seeds of 32 bits.
            member.set_params(**{key: int(seed) & 0x7FFFFFFF})
    if threads:
        member.set_params(**threads)
    if rows.weight is None:
        member.fit(rows.columns.table, rows.target)
    else:
        check_takes_weight(member, name, LEAVE_OUT)
        member.fit(rows.columns.table, rows.target, sample_weight=rows.weight)
    if threads:  # the share of threads was that of this fit only
        member.set_params(**dict.fromkeys(threads))
    return member


def member_probabilities(member: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """Return a member's probabilities, (n_rows, n_classes): 0 for classes that it has not seen."""
    if not hasattr(member, "predict_proba"):
        raise TypeError(f"a member is a {type(member).__name__}, {NO_PROBABILITIES}")
    proba = np.asarray(member.predict_proba(X), dtype=np.float64)
    if np.array_equal(member.classes_, classes):
        return proba
    full = np.zeros((len(proba), len(classes)))
    full[:, _positions(member, np.asarray(member.classes_), classes)] = proba
    return full


def member_codes(member: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """Return the positions of a member's predicted labels among the classes."""
    return _positions(member, _one_per_row(member, np.asarray(member.predict(X)), "label"), classes)


def member_numbers(member: Any, X: Any) -> np.ndarray:
    """Return a member's predictions, which must be one number for each row."""
    return _one_per_row(member, np.asarray(member.predict(X), dtype=np.float64), "number")


def member_votes(member: Any, X: Any, classes: np.ndarray, voting: str) -> np.ndarray:
    """Return a member's probabilities or, with "hard", 1 for the class that it predicts."""
    if voting == "soft":
        return member_probabilities(member, X, classes)
    return np.asarray(np.eye(len(classes))[member_codes(member, X, classes)])


def _one_per_row(member: Any, found: np.ndarray, what: str) -> np.ndarray:
    """Return what a member predicts as one value for each row; some packages give a column."""
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        raise ValueError(
            f"a member must predict one {what} for each row, {type(member).__name__} gave the "
            f"shape {found.shape}"
        )
    return found


def _positions(member: Any, labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the positions of labels among the classes; refuse others, of another type perhaps."""
    numbers = labels.dtype.kind in "biuf"
    if numbers == (classes.dtype.kind in "biuf"):
        codes = np.searchsorted(classes, labels)
        unknown = np.flatnonzero(classes.take(codes, mode="clip") != labels)
    else:
        codes, unknown = np.zeros(0, dtype=np.intp), np.arange(len(labels))
    if len(unknown):
        label = labels[unknown[:1]].tolist()[0]
        raise ValueError(
            f"the member {type(member).__name__} predicts {label!r}, which is none of the classes "
            f"{shorten(classes.tolist())}"
        )
    return codes
