"""scikit-learn's own checks of the gradient boosting estimators."""

from __future__ import annotations

import pytest

from hybridtrees.models.gradient_boosting.estimators import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
)

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

DRAWN = "a row of weight two is drawn or left out as one, two equal rows are drawn one by one"
EXPECTED_WITH_DRAWS = {
    "check_sample_weight_equivalence_on_dense_data": DRAWN,
    "check_sample_weight_equivalence_on_sparse_data": DRAWN,
}


def expected_failures(estimator):
    draws = estimator.subsample < 1 or estimator.n_iter_no_change is not None
    return EXPECTED_WITH_DRAWS if draws else {}


@parametrize_with_checks(
    [
        GradientBoostingRegressor(n_estimators=10, n_jobs=1),
        GradientBoostingClassifier(n_estimators=10, n_jobs=1),
        GradientBoostingRegressor(
            n_estimators=25, n_jobs=1, loss="huber", splitter="hist", max_leaf_nodes=5,
            learning_rate=0.5, ccp_alpha=1e-6,
        ),
        GradientBoostingClassifier(
            n_estimators=10, n_jobs=1, splitter="hist", n_iter_no_change=3, random_state=0
        ),
        GradientBoostingRegressor(
            n_estimators=20, n_jobs=1, subsample=0.7, max_features=0.8, init="zero", random_state=0
        ),
    ],
    expected_failed_checks=expected_failures,
)  # fmt: skip
def test_check_estimator(estimator, check):
    check(estimator)
