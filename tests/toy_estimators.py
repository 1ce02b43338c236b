"""The smallest estimators that the base and the input layer can carry, for tests of both."""

from __future__ import annotations

import math

import numpy as np

from hybridtrees._persistence import register
from hybridtrees.base import ClassifierMixin, Estimator, RegressorMixin, atomic_fit
from hybridtrees.input.validation import (
    check_sample_weight,
    check_target_classification,
    check_target_regression,
)


@register
class MeanRegressor(RegressorMixin, Estimator):
    """Predicts the weighted mean of y."""

    def __init__(self, shift=0.0, missing=math.nan, categorical_features=None, inner=None):
        self.shift = shift
        self.missing = missing
        self.categorical_features = categorical_features
        self.inner = inner

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        values = self._fit_features(
            X, categorical_features=self.categorical_features, missing=self.missing
        )
        name = type(self).__name__
        y = check_target_regression(y, values.shape[0], estimator_name=name)
        weight = check_sample_weight(sample_weight, values.shape[0])
        self.mean_ = float(np.average(y, weights=weight)) + self.shift
        self.table_ = {"levels": np.array([self.mean_]), "depth": 1}
        return self

    def predict(self, X):
        values = self._read_features(X)
        return np.full(values.shape[0], self.mean_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


@register
class MajorityClassifier(ClassifierMixin, Estimator):
    """Predicts the class of largest weight."""

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        values = self._fit_features(X)
        name = type(self).__name__
        codes, classes = check_target_classification(y, values.shape[0], estimator_name=name)
        weight = check_sample_weight(sample_weight, values.shape[0])
        counts = np.bincount(codes, weights=weight, minlength=len(classes))
        self.classes_ = classes
        self.proba_ = counts / counts.sum()
        return self

    def predict(self, X):
        proba = self.predict_proba(X)
        return self.classes_[np.argmax(proba, axis=1)]

    def predict_proba(self, X):
        values = self._read_features(X)
        return np.tile(self.proba_, (values.shape[0], 1))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


@register
class Holder(RegressorMixin, Estimator):
    """Holds whatever it is given."""

    def __init__(self, value=None):
        self.value = value

    def fit(self, X, y):
        return self
