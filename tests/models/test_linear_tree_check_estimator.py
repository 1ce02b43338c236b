"""scikit-learn's own checks of the estimator protocol."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.utils.estimator_checks import parametrize_with_checks

from hybridtrees import (
    LinearForestClassifier,
    LinearForestRegressor,
    LinearTreeClassifier,
    LinearTreeRegressor,
)

DRAWN = "rows are drawn: weight two and a row twice agree in distribution only"


def expected_failures(estimator):
    if not getattr(estimator, "bootstrap", False):
        return {}
    tables = ("dense", "sparse")
    return {f"check_sample_weight_equivalence_on_{kind}_data": DRAWN for kind in tables}


@parametrize_with_checks(
    [
        LinearTreeRegressor(random_state=0, n_jobs=1),
        LinearTreeRegressor(random_state=0, n_jobs=1, criterion="absolute_error", max_depth=1),
        LinearTreeClassifier(random_state=0, n_jobs=1, max_depth=1),
        LinearForestRegressor(2, random_state=0, n_jobs=1, max_depth=1, max_features=None),
        LinearForestClassifier(2, random_state=0, n_jobs=1, max_depth=1, max_features=None),
    ],
    expected_failed_checks=expected_failures,
)
def test_protocol(estimator, check):
    check(estimator)
