"""scikit-learn's own checks of EBLR."""

from __future__ import annotations

import pytest

from hybridtrees.models.eblr.estimators import EBLRClassifier, EBLRRegressor

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402


# One thread: the tables have a few dozen rows, and the checks are many.
@parametrize_with_checks(
    [
        EBLRRegressor(n_rules=3, n_jobs=1),
        EBLRRegressor(penalty="elasticnet", residual="absolute", early_stopping="bic", n_jobs=1),
        EBLRRegressor(n_rules=3, early_stopping="validation", random_state=0, n_jobs=1),
        EBLRClassifier(n_rules=3, n_jobs=1),
        EBLRClassifier(n_rules=2, penalty="lasso", residual="probability", n_jobs=1),
    ]
)
def test_check_estimator(estimator, check):
    check(estimator)
