"""scikit-learn's own checks of the piece-wise linear boosting estimators."""

from __future__ import annotations

import pytest

from hybridtrees.models.plgb.estimators import PLGBClassifier, PLGBRegressor

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402


@parametrize_with_checks(
    [
        PLGBRegressor(n_estimators=5, n_jobs=1),
        PLGBClassifier(n_estimators=5, n_jobs=1),
        PLGBRegressor(n_estimators=5, n_jobs=1, leaf_fit="full", extrapolation="bounded"),
    ]
)
def test_check_estimator(estimator, check):
    check(estimator)
