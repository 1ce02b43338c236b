"""scikit-learn's own checks of RERF."""

from __future__ import annotations

import pytest

from hybridtrees.models.rerf.estimators import RERFClassifier, RERFRegressor

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

# Checks that are expected to fail, by name, and why.
DRAWN = "rows are drawn: a row twice changes what the same seed draws"
EXPECTED_WITH_DRAWS = {
    "check_sample_weight_equivalence_on_dense_data": DRAWN,
    "check_sample_weight_equivalence_on_sparse_data": DRAWN,
}


def expected_failures(estimator):
    return EXPECTED_WITH_DRAWS if estimator.bootstrap else {}


# One thread: the tables have a few dozen rows, and the checks are many.
@parametrize_with_checks(
    [
        RERFRegressor(n_estimators=5, n_jobs=1),
        RERFRegressor(n_estimators=2, bootstrap=False, max_features=None, n_jobs=1),
        RERFRegressor(n_estimators=2, bootstrap=False, splitter="exact", n_jobs=1),
        RERFRegressor(
            n_estimators=4, penalty="lasso", tune={"alpha": [0.1, 1e-3]}, tune_by=2, n_jobs=1
        ),
        RERFClassifier(n_estimators=5, n_jobs=1),
        RERFClassifier(n_estimators=2, bootstrap=False, n_jobs=1),
        RERFClassifier(n_estimators=3, penalty="elasticnet", splitter="exact", n_jobs=1),
    ],
    expected_failed_checks=expected_failures,
)
def test_check_estimator(estimator, check):
    check(estimator)
