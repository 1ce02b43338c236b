"""Base classes of estimators: parameters, fitted state, scikit-learn's protocol.

scikit-learn is imported only by methods that only scikit-learn calls (tags and metadata routing),
so that an estimator behaves the same whether it is installed or not.
"""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections import defaultdict
from os import PathLike
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np

from hybridtrees import _docstrings, _persistence
from hybridtrees._aliases import own_names
from hybridtrees._atomic_fit import atomic_fit
from hybridtrees._parameters import attribute, declared_parameters, estimator_repr, make_init
from hybridtrees._routing import RoutingMixin
from hybridtrees._version import __version__
from hybridtrees.core.base.checks import check_arrays, check_count, check_type
from hybridtrees.core.base.errors import NotFittedError, not_fitted_error
from hybridtrees.input.validation import FeatureReader
from hybridtrees.metrics import accuracy_score, r2_score
from hybridtrees.uncertainty.mixins import Calibrate, Conformal, IntervalMixin, SetMixin

__all__ = [
    "ClassifierMixin", "DecisionMixin", "Estimator", "NotFittedError", "RawScoreMixin",
    "RegressorMixin", "ScoreClassifierMixin", "atomic_fit",
]  # fmt: skip

_VERSION_KEY = "_hybridtrees_version"


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(attribute,))
class Estimator(RoutingMixin):
    """Base of every estimator.

    A subclass declares its parameters as annotated attributes with defaults, and its constructor is
    generated from them (`hybridtrees._parameters`). An `__init__` of its own must only assign each
    argument to the attribute of the same name. What `fit` learns is stored in attributes whose
    names end in ``_`` and in private ones; in annotations these are an `attribute()`. Docstrings
    inherit the texts of parameters and attributes (`hybridtrees._docstrings`). Classes of other
    packages can be saved after `hybridtrees._persistence.register`.

    Attributes
    ----------
    n_features_in_ : int
        Number of features of `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if the table has them.
    """

    _positional: ClassVar[tuple[str, ...]] = ()  # parameters that may be passed by position
    # Libraries whose names of parameters are taken too: keys of `hybridtrees._aliases.ALIASES`.
    _dialects: ClassVar[tuple[str, ...]] = ()
    _positional_alias: ClassVar[str] = ""  # the name there of an estimator that may come first

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A handwritten constructor is kept, in subclasses too.
        generated = cls.__init__ is object.__init__ or hasattr(cls.__init__, "declared")
        if generated and declared_parameters(cls):
            cls.__init__ = make_init(cls, cls._positional)  # type: ignore[method-assign]
        if cls.__module__.startswith("hybridtrees.") and not cls.__name__.startswith("_"):
            _persistence.register(cls)
            cls.__doc__ = _docstrings.compose(cls, cls._parameter_defaults())

    # -- parameters ---------------------------------------------------------------------------

    @classmethod
    @functools.cache  # noqa: B019 - keyed by the class, of which there are few
    def _parameter_defaults(cls) -> dict[str, Any]:
        """Names and defaults of the constructor's parameters, in order."""
        if cls.__init__ is object.__init__:
            return {}
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
            raise TypeError(f"{cls.__name__}.__init__ must name its parameters, not take *args")
        return {p.name: p.default for p in parameters}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor parameters of this estimator.

        Parameters
        ----------
        deep : bool
            Whether to include the parameters of nested estimators, as
            ``<parameter>__<nested parameter>``.

        Returns
        -------
        params : dict
        """
        params: dict[str, Any] = {}
        for name in self._parameter_defaults():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params.update({f"{name}__{k}": v for k, v in value.get_params().items()})
            params[name] = value
        return params

    def set_params(self, **params: Any) -> Self:
        """Set the parameters of this estimator; those of nested ones as ``outer__inner``.

        Returns
        -------
        self : Estimator
        """
        known = self._parameter_defaults()
        nested: dict[str, dict[str, Any]] = defaultdict(dict)
        plain = {}
        for key, value in own_names(type(self), params, known).items():
            name, inner, inner_key = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {type(self).__name__}. "
                    f"Valid parameters are: {list(known)}."
                )
            if inner:
                nested[name][inner_key] = value
            else:
                plain[name] = value
        # Only set once all names are known to be valid.
        for name, value in plain.items():
            setattr(self, name, value)
        for name, values in nested.items():
            owner = getattr(self, name)
            if not hasattr(owner, "set_params"):
                raise ValueError(
                    f"Invalid parameter {name}__{next(iter(values))} for estimator "
                    f"{type(self).__name__}: its {name} is {owner!r}, which has no parameters."
                )
            owner.set_params(**values)
        return self

    def __repr__(self) -> str:
        return estimator_repr(self, self._parameter_defaults())

    def _repr_html_(self) -> str:
        from hybridtrees._html import estimator_html

        return estimator_html(self)

    # -- fitted state -------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the estimator has been fitted."""
        return any(name.endswith("_") and not name.startswith("__") for name in vars(self))

    def _check_is_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise not_fitted_error(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with "
                "appropriate arguments before using this estimator."
            )

    def _fit_features(
        self, X: Any, *, categorical_features: Any = None, missing: float | None = math.nan
    ) -> Any:
        """Learn the features of `X` and return its values: see `FeatureReader.fit`.

        Sets `n_features_in_`, `feature_names_in_` (removed if `X` has no names) and `_reader`.
        """
        reader, values = FeatureReader.fit(
            X,
            categorical_features=categorical_features,
            missing=missing,
            estimator_name=type(self).__name__,
        )
        self._reader = reader
        self.n_features_in_ = reader.n_features_in
        if reader.feature_names_in is not None:
            self.feature_names_in_ = reader.feature_names_in
        else:
            self.__dict__.pop("feature_names_in_", None)
        return values

    def _read_features(self, X: Any) -> Any:
        """Return the values of `X` in the form learned in fit: see `FeatureReader.read`."""
        try:
            reader = self._reader
        except AttributeError:
            self._check_is_fitted()
            raise
        return reader.read(X)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, _VERSION_KEY: __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        version = state.pop(_VERSION_KEY, "an unknown version")
        if version != __version__:
            warnings.warn(
                f"this {type(self).__name__} was pickled by hybridtrees {version} and is loaded "
                f"by {__version__}: it may fail or give other results. Files made by save() "
                "are readable across versions.",
                UserWarning,
                stacklevel=2,
            )
        self.__dict__.update(state)
        self._check_state()

    def _check_state(self) -> None:
        """Refuse an inconsistent state, read from a file or unpickled."""
        if "_reader" in vars(self):
            reader = check_type(self, "_reader", FeatureReader)
            check_count(self, "n_features_in_", reader.n_features_in, reader.n_features_in)
        if "feature_names_in_" in vars(self):
            check_arrays(self, {"feature_names_in_": (object, self.n_features_in_)})
        if "classes_" in vars(self):
            classes = check_type(self, "classes_", np.ndarray)
            if classes.ndim != 1 or not len(classes):
                raise ValueError(f"classes_ must list the classes, got the shape {classes.shape}")
            if "n_classes_" in vars(self):
                check_count(self, "n_classes_", len(classes), len(classes))
        if "_reader" in vars(self) or self.__sklearn_is_fitted__():
            self._check_fitted()

    def _check_fitted(self) -> None:
        """Refuse an inconsistent fitted state; features and classes are checked already."""

    def save(self, path: str | PathLike[str], *, compress: bool = True) -> None:
        """Save this estimator, fitted or not, to a file for `hybridtrees.load`.

        The file holds only numbers and text: unlike a pickle, it cannot run code when loaded.

        Parameters
        ----------
        path : str or path-like
            The file; replaced if it exists.
        compress : bool
            Whether to compress the arrays.
        """
        _persistence.save(self, path, compress=compress)

    # -- scikit-learn's protocol ----------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        """Return the tags of this estimator for scikit-learn."""
        from sklearn.utils import InputTags, Tags, TargetTags

        # `categorical` stays False although categories are supported: in scikit-learn it means
        # that X holds nothing but codes.
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            input_tags=InputTags(allow_nan=True, sparse=True),
        )


class RegressorMixin(IntervalMixin, Estimator):
    """`predict`, `score`, intervals and tags of regressors; to be listed before the family.

    A subclass defines `_predictions`, or its own `predict`.

    Parameters
    ----------
    conformal : {"auto", "oob", "cv", "cv+"} or None
        How `fit` gets predictions of rows that a model has not seen, for `predict_interval`. "oob":
        the out-of-bag predictions of a bagged model. "cv": five copies are fitted to folds. "cv+":
        these copies are kept and all predict (Barber et al. 2021). "auto": rows that the model
        holds out anyway, else "oob" where there are such rows, else "cv". None: none, and
        `conformalize` can be called.
    """

    _estimator_type = "regressor"

    conformal: Conformal = None

    def _predictions(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """Predict the target of each row.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        prediction : ndarray of shape (n_rows,), or (n_rows, n_outputs) for several outputs or \
quantiles
        """
        return self._predictions(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R2 of the predictions.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        score : float
            1 for perfect predictions, 0 for the mean as prediction, negative for worse ones.
        """
        prediction = self.predict(X)
        if prediction.ndim == 2 and prediction.shape[1] > 1 and np.ndim(y) == 1:
            raise ValueError(
                f"score is not defined for {prediction.shape[1]} predictions of one target: fit "
                "one quantile or expectile, or use a metric of your own"
            )
        return r2_score(y, prediction, sample_weight=sample_weight)

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a regressor."""
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor"
        tags.regressor_tags = RegressorTags()
        return tags


class ClassifierMixin(SetMixin, Estimator):
    """Prediction methods, `score` and tags of classifiers; to be listed before the family.

    A subclass defines `_probabilities`, and `_class_codes` if it finds the class in another way.

    Parameters
    ----------
    conformal : {"auto", "oob", "cv", "cv+"} or None
        How `fit` gets probabilities of rows that a model has not seen, for `predict_set`. "oob":
        those of the members of a bagged model that have not. "cv": five copies are fitted to folds.
        "cv+": these copies are kept and all predict (Romano, Sesia and Candes 2020). "auto": rows
        that the model holds out anyway, else "oob" where there are such rows, else "cv". None:
        none, and `conformalize` can be called.
    calibrate : {"temperature", "isotonic"} or None
        What makes the probabilities agree with how often classes came among rows not seen, which
        are held out as `conformal` says ("auto" if that is None). "temperature": their logarithms
        are divided by one number. "isotonic": a step function for each class, for a thousand rows
        and more. Classes and their probabilities follow, raw scores do not.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    """

    _estimator_type = "classifier"

    conformal: Conformal = None
    calibrate: Calibrate = None

    classes_: np.ndarray = attribute()

    def _probabilities(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def _class_codes(self, X: Any) -> np.ndarray:
        """Return the position of each row's predicted class in `classes_`."""
        proba = self._probabilities(X)
        if proba.shape[1] == 2:  # several times as fast as argmax
            return (proba[:, 1] > proba[:, 0]).astype(np.intp)
        return np.asarray(proba.argmax(axis=1))

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most probable class of each row.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Ties are resolved in favour of the first class.
        """
        calibrated = self._is_calibrated()
        codes = self.predict_proba(X).argmax(axis=1) if calibrated else self._class_codes(X)
        return np.asarray(self.classes_[codes])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict class probabilities.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`.
        """
        return self._calibrated(self._probabilities(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Predict the logarithms of the class probabilities.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_rows, n_classes)
            -inf for a probability of 0.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        score : float
        """
        return accuracy_score(y, self.predict(X), sample_weight=sample_weight)

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a classifier."""
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags()
        return tags


class RawScoreMixin:
    """`predict_raw` of models that predict from scores; a subclass defines `_raw_scores`."""

    n_jobs: int | None

    def _raw_scores(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def predict_raw(self, X: Any) -> np.ndarray:
        """Predict raw scores, before the link function: sums of trees or linear functions.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        raw : ndarray of shape (n_rows, n_outputs)
        """
        return self._raw_scores(X)


class DecisionMixin(RawScoreMixin):
    """`decision_function` of classifiers, from their raw scores."""

    # Score at which two classes are equally probable.
    _border = 0.0

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of the classes; for two classes, positive if the second is predicted.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        scores : ndarray of shape (n_rows,) for two classes, else (n_rows, n_classes)
        """
        raw = self.predict_raw(X)
        return raw[:, 0] - self._border if raw.shape[1] == 1 else raw


class ScoreClassifierMixin(DecisionMixin, ClassifierMixin):
    """A classifier with one raw score for two classes, else one per class.

    A subclass defines `predict_raw`, and `_loss`, which turns scores into probabilities.
    """

    _loss: Any = attribute()

    def _raw_codes(self, raw: np.ndarray) -> np.ndarray:
        """Return the position of the class with the highest score in `classes_`."""
        codes = raw.argmax(axis=1) if raw.shape[1] > 1 else raw[:, 0] > self._loss.border
        return np.asarray(codes, dtype=np.intp)

    def _class_codes(self, X: Any) -> np.ndarray:
        return self._raw_codes(self.predict_raw(X))

    def _probabilities(self, X: Any) -> np.ndarray:
        raw = self.predict_raw(X)  # first: it refuses a model that is not fitted and has no loss
        return np.asarray(self._loss.predict(raw))
