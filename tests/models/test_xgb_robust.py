"""XGBRegressor under absolute and quantile errors, whose kinks are rounded."""

from __future__ import annotations

import numpy as np
import pytest
from xgb_data import integer_table

import hybridtrees
from hybridtrees import PLGBRegressor, XGBRegressor, losses

ROBUST = {
    "absolute": {"objective": "reg:absoluteerror"},
    "quantile": {"objective": "reg:quantileerror", "quantile_alpha": 0.8},
    "quantiles": {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]},
}


@pytest.fixture(params=ROBUST)
def robust(request):
    return ROBUST[request.param]


def fitted(X, y, weight=None, **params):
    return XGBRegressor(**{"n_estimators": 10, "n_jobs": 1, **params}).fit(X, y, weight)


def test_units_of_the_target_do_not_matter(robust):
    X, y, weight = integer_table(600)
    params = {**robust, "min_child_weight": 5}
    expected = fitted(X, y, weight, **params).predict(X)
    for factor in (2.0**-30, 2.0**30):
        other = fitted(X, y * factor, weight, **params).predict(X) / factor
        np.testing.assert_allclose(other, expected, rtol=1e-6)


def test_threads_change_nothing(robust):
    X, y, weight = integer_table(9000)
    one, two = (fitted(X, y, weight, n_jobs=n, **robust).predict(X) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_penalties_count(robust):
    X, y, _ = integer_table(400)
    params = {**robust, "n_estimators": 1, "max_depth": 2}
    raw = [fitted(X, y, reg_lambda=a, **params).predict_raw(X) for a in (0.0, 1e2, 1e5)]
    spread = np.ptp(raw, axis=1)
    assert np.all(spread[0] > 1.05 * spread[1])
    assert np.all(spread[1] > 20 * spread[2])


def test_shares_of_rows_below_the_quantiles():
    X, y, weight = integer_table(4000)
    levels = [0.05, 0.5, 0.9]
    model = fitted(
        X, y, weight, objective="reg:quantileerror", quantile_alpha=levels, n_estimators=100,
        max_depth=3, learning_rate=0.1,
    )  # fmt: skip
    below = np.average(y[:, None] < model.predict(X), axis=0, weights=weight)
    np.testing.assert_allclose(below, levels, atol=0.03)


def test_outliers_hardly_count():
    X, y, _ = integer_table(2000)
    wild = y.copy()
    wild[::50] += 1e6
    error = {}
    for objective in ("reg:squarederror", "reg:absoluteerror"):
        model = fitted(X, wild, objective=objective, max_depth=4, learning_rate=0.1)
        error[objective] = np.median(np.abs(y - model.predict(X)))
    start = np.median(np.abs(y - np.median(y)))
    assert error["reg:absoluteerror"] < 0.8 * start < 0.01 * error["reg:squarederror"]


def test_nothing_is_left_to_learn(robust):
    X, _, weight = integer_table(100)
    constant = fitted(X, np.full(100, 3.0), weight, reg_lambda=0.0, **robust)
    np.testing.assert_array_equal(
        constant.predict(X), np.broadcast_to(3.0, constant.predict(X).shape)
    )
    # Rows without weight may be missed by any distance.
    y = np.where(np.arange(100) < 5, 1e9, 3.0)
    other = fitted(X, y, (np.arange(100) >= 5).astype(float), reg_lambda=0.0, **robust)
    np.testing.assert_array_equal(other.predict(X), constant.predict(X))


def test_plgb_without_lines_is_this_model(robust):
    X, y, weight = integer_table(600)
    params = {**robust, "n_estimators": 5, "learning_rate": 0.2, "max_depth": 3, "max_leaves": 0}
    params |= {"grow_policy": "depthwise", "reg_lambda": 1.0, "min_child_weight": 1.0, "n_jobs": 1}
    flat = PLGBRegressor(max_leaf_features=0, max_bin=256, **params).fit(X, y, weight)
    np.testing.assert_array_equal(
        flat.predict(X), XGBRegressor(**params).fit(X, y, weight).predict(X)
    )


def test_models_of_re_estimated_leaves_are_loaded_and_continued(tmp_path):
    # Their files name the losses without smoothing.
    X, y, _ = integer_table(300)
    for params, loss in (
        (ROBUST["absolute"], losses.AbsoluteError(1, "xgboost")),
        (ROBUST["quantiles"], losses.QuantileError([0.2, 0.8], "xgboost")),
    ):
        old = fitted(X, y, **params)
        old._loss = loss
        old.save(tmp_path / "old.htree")
        loaded = hybridtrees.load(tmp_path / "old.htree")
        np.testing.assert_array_equal(loaded.predict(X), old.predict(X))
        more = XGBRegressor(n_estimators=3, n_jobs=1, **params).fit(X, y, xgb_model=loaded)
        assert more.n_iter_ == 13
