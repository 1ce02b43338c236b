"""scikit-learn's own checks of estimators."""

from __future__ import annotations

import pytest

from hybridtrees import CARTClassifier, CARTRegressor, XGBClassifier, XGBRegressor

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

# Checks that are expected to fail, by name, and why. The estimators as they come have none.
DRAWN = "a row of weight two is drawn or left out as one, two equal rows are drawn one by one"
EXPECTED_WITH_DRAWS = {
    "check_sample_weight_equivalence_on_dense_data": DRAWN,
    "check_sample_weight_equivalence_on_sparse_data": DRAWN,
}


def expected_failures(estimator):
    return EXPECTED_WITH_DRAWS if getattr(estimator, "subsample", 1) < 1 else {}


# One thread: the tables have a few dozen rows, and the checks are many.
@parametrize_with_checks(
    [
        XGBRegressor(n_estimators=10, n_jobs=1),
        XGBClassifier(n_estimators=10, n_jobs=1),
        XGBRegressor(
            n_estimators=3, n_jobs=1, grow_policy="lossguide", max_depth=0, max_leaves=7,
            subsample=0.8, colsample_bytree=0.9,
        ),
        CARTRegressor(n_jobs=1),
        CARTRegressor(criterion="absolute_error", max_leaf_nodes=8, missing="stop", n_jobs=1),
        CARTRegressor(splitter="hist", ccp_alpha=0.01, n_jobs=1),
        CARTClassifier(n_jobs=1),
        CARTClassifier(
            criterion="entropy", splitter="hist", max_leaf_nodes=8, random_state=0, n_jobs=1
        ),
        CARTClassifier(ccp_alpha="cv", cv=2, random_state=0, n_jobs=1),
    ],
    expected_failed_checks=expected_failures,
)  # fmt: skip
def test_check_estimator(estimator, check):
    check(estimator)
