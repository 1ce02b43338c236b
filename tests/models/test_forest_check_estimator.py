"""scikit-learn's own checks of the forests."""

from __future__ import annotations

import pytest

from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor
from hybridtrees.models.forest.imputer import ProximityImputer

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

DRAWN = "rows are drawn: weight two and a row twice agree in distribution only"
EXPECTED_WITH_DRAWS = {
    "check_sample_weight_equivalence_on_dense_data": DRAWN,
    "check_sample_weight_equivalence_on_sparse_data": DRAWN,
}


def expected_failures(estimator):
    return EXPECTED_WITH_DRAWS if getattr(estimator, "bootstrap", False) else {}


# One thread: the tables have a few dozen rows, and the checks are many.
@parametrize_with_checks(
    [
        RandomForestRegressor(n_estimators=5, n_jobs=1),
        RandomForestRegressor(
            n_estimators=3, criterion="absolute_error", splitter="exact", missing="stop", n_jobs=1
        ),
        RandomForestRegressor(
            n_estimators=2, bootstrap=False, max_features=None, min_samples_leaf=1, n_jobs=1
        ),
        RandomForestClassifier(n_estimators=10, n_jobs=1),
        RandomForestClassifier(
            n_estimators=5, criterion="entropy", voting="hard", class_weight="balanced_subsample",
            max_samples=0.8, n_jobs=1,
        ),
        ProximityImputer(n_estimators=3, n_rounds=1, n_jobs=1),
    ],
    expected_failed_checks=expected_failures,
)  # fmt: skip
def test_check_estimator(estimator, check):
    check(estimator)
