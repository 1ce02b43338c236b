"""Rows drawn by their gradients: threshold, probabilities, weights, and the models."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hybridtrees as ht
from hybridtrees.core.base._threads import draw_rows, row_sizes, sums_of_squares
from hybridtrees.models.shared.row_draws import (
    HESSIAN_SHARE,
    draw_by_gradient,
    draw_by_share,
    size_threshold,
)

N = 30_000  # enough for three threads


def sizes_of(values, n_threads=1):
    """Sizes and cells of rows with these gradients, whose hessians do not count."""
    grad = np.array(values, dtype=np.float32)[None]
    return row_sizes(grad, None, 0.0, n_threads)


def plain_threshold(sizes, share):
    """Solve sum(min(1, size / threshold)) = wanted by sorting, in twice the precision."""
    v = np.sort(np.asarray(sizes, dtype=np.float32).astype(np.longdouble))
    v = v[v > 0]
    wanted = np.longdouble(share) * len(v)
    for k in range(len(v) + 1):  # k sizes below the threshold
        free = wanted - (len(v) - k)
        if free > 0:
            found = v[:k].sum() / free
            if k == len(v) or found <= v[k]:
                return float(found)
    raise AssertionError


def statistics(n=N, n_outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    grad = rng.standard_normal((n_outputs, n)) * rng.exponential(size=n) ** 2
    hess = rng.uniform(0, 1, (n_outputs, n))
    grad[:, ::17] = 0
    hess[:, ::34] = 0
    return grad.astype(np.float32), hess.astype(np.float32)


@given(
    st.lists(
        st.one_of(
            st.sampled_from([0.0, 1.0, 1.0625, 2.0, 1e-45, 1e-40, 3e38]),
            st.floats(0, 2.0**100, width=32),
            st.floats(0.875, 1.25, width=32),
        ),
        min_size=1,
        max_size=60,
    ).filter(any),
    st.floats(0.01, 0.99),
)
def test_threshold_is_exact(values, share):
    size, *cells = sizes_of(values)
    np.testing.assert_array_equal(size, np.array(values, dtype=np.float32))
    found = size_threshold(size, share, *cells)
    assert found == pytest.approx(plain_threshold(values, share), rel=1e-12)
    positive = size[size > 0].astype(float)
    expected = np.minimum(1, positive / found).sum()
    assert expected == pytest.approx(share * len(positive), rel=1e-9)


def test_sizes_by_the_formula():
    grad, hess = statistics(n_outputs=3)
    for h in (hess, None):
        size = row_sizes(grad, h, 0.3, 2)[0]
        h = np.ones_like(grad) if h is None else h
        wanted = np.sqrt((grad.astype(float) ** 2 + 0.3 * h.astype(float) ** 2).sum(axis=0))
        np.testing.assert_allclose(size, wanted, rtol=1e-6)
        squares = sums_of_squares(grad, h, 2)
        np.testing.assert_allclose(squares, [(a.astype(float) ** 2).sum() for a in (grad, h)])


def test_neither_threads_nor_the_order_of_rows_matter():
    grad, hess = statistics(n_outputs=2)
    order = np.random.default_rng(3).permutation(N)
    found = []
    for n_threads, rows in ((1, slice(None)), (2, slice(None)), (3, order)):
        g, h = (np.ascontiguousarray(a[:, rows]) for a in (grad, hess))
        squares = sums_of_squares(g, h, n_threads)
        size, *cells = row_sizes(g, h, squares[0] / squares[1], n_threads)
        found.append((squares, size_threshold(size, 0.2, *cells)))
    assert found[0] == found[1] == found[2]
    drawn = []
    for n_threads in (1, 2, 3):
        g, h = grad.copy(), hess.copy()
        drawn.append((draw_by_gradient(5, g, h, 0.2, n_threads), g, h))
    for one in drawn[1:]:
        for a, b in zip(one, drawn[0], strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_part_of_a_table_draws_its_own_rows():
    grad, hess = statistics()
    size = row_sizes(grad, hess, 0.1, 1)[0]
    whole = draw_rows(grad.copy(), hess.copy(), size, 9, 0.3, 1.5, 1)
    head = (a[:, :1000].copy() for a in (grad, hess))
    part = draw_rows(*head, size[:1000], 9, 0.3, 1.5, 1)
    np.testing.assert_array_equal(part, whole[whole < 1000])


@pytest.mark.parametrize("unit", [False, True])
def test_sums_are_unbiased_and_rows_drawn_as_often_as_they_should(unit):
    n, share, n_seeds = 400, 0.2, 3000
    grad, hess = statistics(n, 2, seed=1)
    h = np.ones_like(hess) if unit else hess
    g2, h2 = (float((a.astype(float) ** 2).sum()) for a in (grad, h))
    size = np.sqrt((grad.astype(float) ** 2 + HESSIAN_SHARE * g2 / h2 * h**2.0).sum(axis=0))
    p = np.minimum(1, size / plain_threshold(size, share))
    times, sums = np.zeros(n), []
    groups = np.arange(n) % 3 == 0, np.arange(n) >= 0
    for seed in range(n_seeds):
        g, k = grad.copy(), h.copy()
        rows = draw_by_gradient(seed, g, k, share, 1)
        times[rows] += 1
        outside = np.setdiff1d(np.arange(n), rows)
        assert not g[:, outside].any()
        assert not k[:, outside].any()
        sums.append([a[j, group].sum() for a in (g, k) for j in (0, 1) for group in groups])
    deviation = np.sqrt(np.maximum(p * (1 - p), 1e-3) / n_seeds)
    assert np.abs(times / n_seeds - p).max() < 5 * deviation.max()
    np.testing.assert_array_equal(times[p >= 1], n_seeds)
    np.testing.assert_array_equal(times[size == 0], 0)
    true = [share * a[j, group].sum() for a in (grad, h) for j in (0, 1) for group in groups]
    error = np.std(sums, axis=0) / np.sqrt(n_seeds)
    assert (np.abs(np.mean(sums, axis=0) - true) < 5 * error).all()
    assert times.sum() / n_seeds == pytest.approx(share * np.count_nonzero(size), rel=0.02)


def test_smaller_variance_than_that_of_equal_chances():
    grad, hess = statistics(2000, seed=2)
    sums: dict[str, list[float]] = {"uniform": [], "gradients": []}
    for seed in range(300):
        g, h = grad.copy(), hess.copy()
        draw_by_gradient(seed, g, h, 0.1, 1)
        sums["gradients"].append(float(g.sum() / 0.1))
        sums["uniform"].append(float(grad[0, draw_by_share(seed, 2000, 0.1)].sum() / 0.1))
    assert np.var(sums["gradients"]) < 0.4 * np.var(sums["uniform"])


def test_rows_without_gradients():
    zeros = np.zeros((1, 50), dtype=np.float32)
    rows = draw_by_gradient(3, zeros, np.ones_like(zeros), 0.3, 1)
    np.testing.assert_array_equal(rows, draw_by_share(3, 50, 0.3))
    one = zeros.copy()
    one[0, 7] = 2.0
    assert len(draw_by_gradient(1, one.copy(), np.zeros_like(zeros), 1e-9, 1)) == 1
    for bad in (np.nan, np.inf):
        one[0, 7] = bad
        assert draw_by_gradient(1, one, np.ones_like(zeros), 0.3, 1) is None
    huge = np.full((4, 50), 3e38, dtype=np.float32)
    assert draw_by_gradient(1, huge, np.ones_like(huge), 0.3, 1) is None


# -- models ----------------------------------------------------------------------------------


def problem(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    X[:, 4] = rng.integers(0, 5, n)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * (X[:, 4] > 2) + 0.1 * rng.standard_normal(n)
    X[rng.random((n, 5)) < 0.05] = np.nan
    return X, y


BY_GRADIENT = {"sampling_method": "gradient_based", "subsample": 0.2, "random_state": 1}


def custom(y, raw):
    return raw - y, np.ones_like(y)


MODELS = {
    "xgb": (ht.XGBRegressor(), 1),
    "approx": (ht.XGBRegressor(tree_method="approx"), 1),
    "exact": (ht.XGBRegressor(tree_method="exact"), 1),
    "leaves": (ht.XGBRegressor(grow_policy="lossguide", max_leaves=9, colsample_bynode=0.6), 1),
    "custom": (ht.XGBRegressor(objective=custom), 1),
    "absolute": (ht.XGBRegressor(objective="reg:absoluteerror"), 1),
    "plgb": (ht.PLGBRegressor(), 1),
    "constant plgb": (ht.PLGBRegressor(max_leaf_features=0), 1),
    "two classes": (ht.XGBClassifier(scale_pos_weight=2.0), 2),
    "three classes": (ht.XGBClassifier(colsample_bytree=0.7), 3),
    "plgb three classes": (ht.PLGBClassifier(class_weight="balanced"), 3),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_learn_from_few_rows(name):
    model, n_classes = MODELS[name]
    X, y = problem()
    target = y
    if n_classes > 1:
        target = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    weight = np.random.default_rng(1).exponential(size=len(y))
    weight[::9] = 0
    model.set_params(n_estimators=30, learning_rate=0.2, categorical_features=[4], **BY_GRADIENT)
    predict = getattr(model, "predict_proba", model.predict)
    fits = []
    for n_jobs in (1, 2):
        model.set_params(n_jobs=n_jobs).fit(X[:2000], target[:2000], weight[:2000])
        fits.append(predict(X[2000:]))
    np.testing.assert_array_equal(*fits)
    score = model.score(X[2000:], target[2000:])
    train = X[:2000], target[:2000], weight[:2000]
    uniform = model.set_params(sampling_method="uniform").fit(*train)
    assert score > uniform.score(X[2000:], target[2000:]) - 0.07
    assert not np.array_equal(fits[0], predict(X[2000:]))
    model.set_params(subsample=1.0).fit(*train)
    every = predict(X[2000:])
    model.set_params(sampling_method="gradient_based").fit(*train)
    np.testing.assert_array_equal(predict(X[2000:]), every)


@pytest.mark.parametrize("cls", [ht.XGBRegressor, ht.PLGBRegressor])
def test_continued_training_is_one_training(cls):
    X, y = problem()
    whole = cls(n_estimators=12, **BY_GRADIENT).fit(X, y)
    first = cls(n_estimators=5, **BY_GRADIENT).fit(X, y)
    both = cls(n_estimators=7, **BY_GRADIENT).fit(X, y, xgb_model=first)
    np.testing.assert_array_equal(both.predict(X), whole.predict(X))


def test_the_unit_of_the_target_does_not_matter():
    X, y = problem()
    fits = [
        ht.XGBRegressor(n_estimators=10, **BY_GRADIENT).fit(X, unit * y).predict(X) / unit
        for unit in (1.0, 2.0**-30, 2.0**40)
    ]
    np.testing.assert_array_equal(fits[1], fits[0])
    np.testing.assert_array_equal(fits[2], fits[0])


def test_early_stopping_on_a_table_of_its_own():
    X, y = problem()
    model = ht.XGBRegressor(n_estimators=500, early_stopping_rounds=5, **BY_GRADIENT)
    model.fit(X[:2000], y[:2000], X_val=X[2000:], y_val=y[2000:])
    assert 5 < model.best_iteration < 400
    curve = model.evals_result()["validation_0"]["rmse"]
    error = np.sqrt(np.mean((model.predict(X[2000:]) - y[2000:]) ** 2))
    assert error == pytest.approx(min(curve))


def test_a_constant_target_and_tiny_tables():
    X, y = problem(50)
    assert (ht.XGBRegressor(**BY_GRADIENT).fit(X, np.full(50, 3.0)).predict(X) == 3.0).all()
    for n in (1, 2, 3):
        ht.XGBRegressor(**BY_GRADIENT).fit(X[:n], y[:n])


def test_leaves_that_are_fitted_to_residuals():
    X, y = problem(200)
    model = ht.PLGBRegressor(objective="reg:absoluteerror", **BY_GRADIENT)
    with pytest.raises(ValueError, match="sampling_method='gradient_based' of PLGBRegressor"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="sampling_method must be one of 'uniform', 'gradient_b"):
        ht.PLGBRegressor(sampling_method="goss").fit(X, y)


def test_gradients_that_overflow_are_refused():
    X, y = problem(200)

    def bad(y, raw):
        return np.full_like(y, np.inf), np.ones_like(y)

    with pytest.raises(ValueError):
        ht.XGBRegressor(objective=bad, **BY_GRADIENT).fit(X, y)
