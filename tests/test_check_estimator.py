"""scikit-learn's own checks of estimators."""

from __future__ import annotations

import pytest

import hybridtrees as ht

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

# Checks that are expected to fail, by name, and why. The estimators as they come have none.
DRAWN = "rows are drawn: weight two and a row twice agree in distribution only"
EXPECTED_WITH_DRAWS = {
    "check_sample_weight_equivalence_on_dense_data": DRAWN,
    "check_sample_weight_equivalence_on_sparse_data": DRAWN,
}


def expected_failures(estimator):
    draws = getattr(estimator, "bootstrap", False) or getattr(estimator, "subsample", 1) < 1
    if isinstance(estimator, ht.GradientBoostingRegressor | ht.GradientBoostingClassifier):
        draws = draws or estimator.n_iter_no_change is not None
    return EXPECTED_WITH_DRAWS if draws else {}


# One thread: the tables have a few dozen rows, and the checks are many.
@parametrize_with_checks(
    [
        ht.XGBRegressor(n_estimators=10, n_jobs=1),
        ht.XGBClassifier(n_estimators=10, n_jobs=1),
        ht.XGBRegressor(
            n_estimators=3, n_jobs=1, grow_policy="lossguide", max_depth=0, max_leaves=7,
            subsample=0.8, colsample_bytree=0.9,
        ),
        ht.CARTRegressor(n_jobs=1),
        ht.CARTRegressor(criterion="absolute_error", max_leaf_nodes=8, missing="stop", n_jobs=1),
        ht.CARTRegressor(splitter="hist", ccp_alpha=0.01, n_jobs=1),
        ht.CARTClassifier(n_jobs=1),
        ht.CARTClassifier(
            criterion="entropy", splitter="hist", max_leaf_nodes=8, random_state=0, n_jobs=1
        ),
        ht.CARTClassifier(ccp_alpha="cv", cv=2, random_state=0, n_jobs=1),
        ht.GradientBoostingRegressor(n_estimators=10, n_jobs=1),
        ht.GradientBoostingClassifier(n_estimators=10, n_jobs=1),
        ht.GradientBoostingRegressor(
            n_estimators=25, n_jobs=1, loss="huber", splitter="hist", max_leaf_nodes=5,
            learning_rate=0.5, ccp_alpha=1e-6,
        ),
        ht.GradientBoostingClassifier(
            n_estimators=10, n_jobs=1, splitter="hist", n_iter_no_change=3, random_state=0
        ),
        ht.GradientBoostingRegressor(
            n_estimators=20, n_jobs=1, subsample=0.7, max_features=0.8, init="zero", random_state=0
        ),
        ht.RandomForestRegressor(n_estimators=5, n_jobs=1),
        ht.RandomForestRegressor(
            n_estimators=3, criterion="absolute_error", splitter="exact", missing="stop", n_jobs=1
        ),
        ht.RandomForestRegressor(
            n_estimators=2, bootstrap=False, max_features=None, min_samples_leaf=1, n_jobs=1
        ),
        ht.RandomForestClassifier(n_estimators=10, n_jobs=1),
        ht.RandomForestClassifier(
            n_estimators=5, criterion="entropy", voting="hard", class_weight="balanced_subsample",
            max_samples=0.8, n_jobs=1,
        ),
        ht.ProximityImputer(n_estimators=3, n_rounds=1, n_jobs=1),
        ht.DateFeatures(),
        ht.RERFRegressor(n_estimators=5, n_jobs=1),
        ht.RERFRegressor(n_estimators=2, bootstrap=False, max_features=None, n_jobs=1),
        ht.RERFRegressor(n_estimators=2, bootstrap=False, splitter="exact", n_jobs=1),
        ht.RERFRegressor(
            n_estimators=4, penalty="lasso", tune={"alpha": [0.1, 1e-3]}, tune_by=2, n_jobs=1
        ),
        ht.RERFClassifier(n_estimators=5, n_jobs=1),
        ht.RERFClassifier(n_estimators=2, bootstrap=False, n_jobs=1),
        ht.RERFClassifier(n_estimators=3, penalty="elasticnet", splitter="exact", n_jobs=1),
        ht.PLGBRegressor(n_estimators=5, n_jobs=1),
        ht.PLGBClassifier(n_estimators=5, n_jobs=1),
        ht.PLGBRegressor(n_estimators=5, n_jobs=1, leaf_fit="full", extrapolation="bounded"),
        ht.EBLRRegressor(n_rules=3, n_jobs=1),
        ht.EBLRRegressor(penalty="elasticnet", residual="absolute", early_stopping="bic", n_jobs=1),
        ht.EBLRRegressor(n_rules=3, early_stopping="validation", random_state=0, n_jobs=1),
        ht.EBLRClassifier(n_rules=3, n_jobs=1),
        ht.EBLRClassifier(n_rules=2, penalty="lasso", residual="probability", n_jobs=1),
        ht.LinearTreeRegressor(random_state=0, n_jobs=1),
        ht.LinearTreeRegressor(random_state=0, n_jobs=1, criterion="absolute_error", max_depth=1),
        ht.LinearTreeClassifier(random_state=0, n_jobs=1, max_depth=1),
        ht.LinearForestRegressor(2, random_state=0, n_jobs=1, max_depth=1, max_features=None),
        ht.LinearForestClassifier(2, random_state=0, n_jobs=1, max_depth=1, max_features=None),
        ht.LinearRegressor(n_jobs=1),
        ht.LinearRegressor(penalty="elasticnet", alpha=0.1, n_jobs=1),
        ht.LogisticClassifier(n_jobs=1),
        ht.LogisticClassifier(penalty="lasso", alpha=0.01, n_jobs=1),
    ],
    expected_failed_checks=expected_failures,
)  # fmt: skip
def test_check_estimator(estimator, check):
    check(estimator)
