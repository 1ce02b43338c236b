"""scikit-learn's own checks of the linear estimators."""

from __future__ import annotations

import pytest

from hybridtrees.linear.classifier import LogisticClassifier
from hybridtrees.linear.regressor import LinearRegressor

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402


# One thread: the tables have a few dozen rows, and the checks are many.
@parametrize_with_checks(
    [
        LinearRegressor(n_jobs=1),
        LinearRegressor(penalty="elasticnet", alpha=0.1, n_jobs=1),
        LogisticClassifier(n_jobs=1),
        LogisticClassifier(penalty="lasso", alpha=0.01, n_jobs=1),
    ]
)
def test_check_estimator(estimator, check):
    check(estimator)
