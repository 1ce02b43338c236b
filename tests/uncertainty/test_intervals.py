"""Coverage of intervals on simulated data, and where held-out rows come from."""

from __future__ import annotations

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees.uncertainty.intervals import _best_power, ask_bounds

N, N_NEW = 300, 1000


def simulate(kind, rng, n):
    """Features, target, weights and groups."""
    X = rng.normal(size=(n, 3))
    mean = X[:, 0] + np.abs(X[:, 1])
    noise = rng.normal(size=n)
    if kind == "heteroscedastic":
        noise *= np.exp(X[:, 2])
    elif kind == "heavy tails":
        noise = rng.standard_t(2, size=n)
    elif kind == "skewed":
        noise = rng.exponential(size=n) ** 2
    elif kind == "missing":
        X[rng.random(X.shape) < 0.2] = np.nan
    return X, mean + noise


def inside(interval, y):
    return (interval[:, 0] <= y) & (y <= interval[:, 1])


def mean_coverage(make, kind, repeats=12, n=N, coverage=0.9, fit=None):
    found = []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        X, y = simulate(kind, rng, n)
        model = make()
        if fit is None:
            model.fit(X, y)
        else:
            fit(model, X, y)
        new, y_new = simulate(kind, rng, N_NEW)
        found.append(inside(model.predict_interval(new, coverage), y_new).mean())
    return np.mean(found), np.std(found) / np.sqrt(repeats)


KINDS = ["homoscedastic", "heteroscedastic", "heavy tails", "skewed", "missing"]


@pytest.mark.parametrize("kind", KINDS)
def test_split_intervals_cover_what_they_say(kind):
    def fit(model, X, y):
        model.fit(X[:100], y[:100]).conformalize(X[100:], y[100:])

    found, error = mean_coverage(lambda: ht.LinearRegressor(n_jobs=1), kind, fit=fit)
    assert abs(found - 0.9) < 0.01 + 2 * error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["cv", "cv+"])
def test_intervals_by_folds(kind, way):
    def make():
        return ht.XGBRegressor(n_estimators=10, max_depth=2, conformal=way, n_jobs=1)

    found, error = mean_coverage(make, kind, repeats=6)
    # Copies of four fifths of the rows err a little more than the model of all.
    assert 0.9 - 0.01 - 2 * error < found < 0.9 + (0.02 if way == "cv" else 0.04) + 2 * error


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_out_of_bag_intervals(coverage):
    def make():
        return ht.RandomForestRegressor(
            n_estimators=60, conformal="oob", random_state=0, min_samples_leaf=3, n_jobs=1
        )

    found, error = mean_coverage(make, "heteroscedastic", repeats=6, coverage=coverage)
    assert abs(found - coverage) < 0.02 + 2 * error


@pytest.mark.parametrize("n", [12, 25])
def test_few_rows(n):
    # Less than ten rows on each side: both sides together.
    found, error = mean_coverage(
        lambda: ht.LinearRegressor(conformal="cv+", n_jobs=1), "homoscedastic", 40, n
    )
    assert 0.89 - 2 * error < found < 0.97


def test_weights_say_where_coverage_counts():
    # A third of the weight, but a tenth of the rows, has large noise.
    rng = np.random.default_rng(0)
    n = 4000
    noisy = rng.random(n) < 0.1
    X = rng.normal(size=(n, 1))
    y = X[:, 0] + rng.normal(size=n) * np.where(noisy, 5.0, 1.0)
    weight = np.where(noisy, 4.5, 1.0)
    model = ht.LinearRegressor(conformal="cv", n_jobs=1).fit(X, y, sample_weight=weight)
    hit = inside(model.predict_interval(X), y)
    assert abs(np.average(hit, weights=weight) - 0.9) < 0.015
    assert np.mean(hit) > 0.92


def test_rows_of_weight_zero_do_not_count():
    rng = np.random.default_rng(1)
    X, y = simulate("homoscedastic", rng, 200)
    more = np.r_[y, 1e6 * rng.normal(size=50)]
    table = np.r_[X, rng.normal(size=(50, 3))]
    weight = np.r_[np.ones(200), np.zeros(50)]
    model = ht.LinearRegressor(conformal="cv", n_jobs=1).fit(table, more, sample_weight=weight)
    low, high = model.predict_interval(X).T
    assert (high - low).max() < 20


def test_groups_are_not_divided():
    # Each group has a level of its own, which its features give away.
    def one(rng, n_groups):
        group = np.repeat(np.arange(n_groups), 10)
        key = rng.normal(size=n_groups)
        level = 3 * rng.normal(size=n_groups)
        return key[group][:, None], level[group] + rng.normal(size=len(group)) / 5, group

    divided, whole = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y, group = one(rng, 60)
        new, y_new, _ = one(rng, 300)
        model = ht.CARTRegressor(min_samples_leaf=3, n_jobs=1).fit(X, y)
        model.conformalize(X, y, method="cv")
        divided.append(inside(model.predict_interval(new), y_new).mean())
        model.conformalize(X, y, method="cv", groups=group)
        whole.append(inside(model.predict_interval(new), y_new).mean())
    assert np.mean(divided) < 0.75
    assert abs(np.mean(whole) - 0.9) < 0.03


def test_time_order_holds_later_rows_out():
    n = 400
    X = np.arange(n, dtype=float)[:, None]
    y = X[:, 0] + np.random.default_rng(0).normal(size=n)
    model = ht.CARTRegressor(n_jobs=1).fit(X, y)
    model.conformalize(X, y, method="cv", time=X[:, 0])
    # A tree does not extrapolate, and rows after its own say so.
    assert np.diff(model.predict_interval(X[:1], method="constant"))[0, 0] > 50
    assert len(model._uncertainty.lower) == n - n // 6 - 1


def test_nothing_leaks_into_held_out_residuals():
    # The target is noise: residuals of rows that were seen would be 0.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    for model in (
        ht.CARTRegressor(conformal="cv"),
        ht.CARTRegressor(conformal="cv+"),
        ht.RandomForestRegressor(conformal="oob", random_state=0),
        ht.BaggingRegressor(n_estimators=60, conformal="oob", random_state=0),
        ht.AutoRegressor(quality=1, conformal="auto", random_state=0),
    ):
        residual = model.set_params(n_jobs=1).fit(X, y)._uncertainty.lower
        assert residual.std() > 0.9


def test_the_spread_is_that_of_trees_which_have_not_seen_the_row():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.normal(size=400)
    model = ht.LinearRegressor(conformal="cv", n_jobs=1).fit(X, y)
    assert model._uncertainty.power[0] == 0  # nothing to be learned
    assert model._uncertainty.forest is None


def test_widths_follow_the_noise():
    rng = np.random.default_rng(0)
    X, y = simulate("heteroscedastic", rng, 1500)
    model = ht.LinearRegressor(conformal="auto", n_jobs=1).fit(X, y)
    new, y_new = simulate("heteroscedastic", rng, 4000)
    scaled, constant = (model.predict_interval(new, method=m) for m in ("auto", "constant"))
    calm, wild = new[:, 2] < -1, new[:, 2] > 1
    width = np.diff(scaled)[:, 0]
    assert width[wild].mean() > 3 * width[calm].mean()
    assert width.mean() < 0.93 * np.diff(constant).mean()
    assert inside(scaled, y_new)[wild].mean() > inside(constant, y_new)[wild].mean() + 0.1
    assert np.unique(np.diff(constant).round(9)).size == 1


def test_power_of_the_spread_is_the_most_likely_one():
    rng = np.random.default_rng(0)
    spread = rng.uniform(0.2, 3, 2000)
    assert _best_power(spread * rng.exponential(size=2000), spread, None) == 1.0
    assert _best_power(np.sqrt(spread) * rng.exponential(size=2000), spread, None) == 0.5
    assert _best_power(rng.exponential(size=2000), spread, None) == 0.0


@pytest.mark.parametrize(
    "model",
    [
        ht.XGBRegressor(
            n_estimators=20, objective="reg:quantileerror", quantile_alpha=[0.9, 0.1], max_depth=3
        ),
        ht.GradientBoostingRegressor(n_estimators=20, loss="quantile", alpha=[0.1, 0.5, 0.9]),
        ht.PLGBRegressor(
            n_estimators=20, objective="reg:quantileerror", quantile_alpha=[0.1, 0.9], max_depth=3
        ),
    ],
)
def test_quantile_models_are_shifted(model):
    rng = np.random.default_rng(0)
    X, y = simulate("heteroscedastic", rng, 800)
    new, y_new = simulate("heteroscedastic", rng, 4000)
    model.set_params(conformal="cv", n_jobs=1).fit(X, y)
    low, high = ask_bounds(model, new)
    interval = model.predict_interval(new)
    for coverage in (0.6, 0.9):
        hit = inside(model.predict_interval(new, coverage), y_new).mean()
        assert abs(hit - coverage) < 0.04
    shift = np.column_stack([interval[:, 0] - low[:, 0], interval[:, 1] - high[:, 0]])
    assert np.all(np.abs(shift - shift[0]) < 1e-9)
    tight = model.predict_interval(new, 0.01)
    assert np.all(tight[:, 0] <= tight[:, 1])


def test_several_targets_have_an_interval_each():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    Y = np.column_stack([X[:, 0] + rng.normal(size=300), 10 * rng.normal(size=300)])
    model = ht.RandomForestRegressor(conformal="auto", random_state=0, n_jobs=1).fit(X, Y)
    interval = model.predict_interval(X)
    assert interval.shape == (300, 2, 2)
    width = np.diff(interval, axis=1)[:, 0].mean(axis=0)
    assert width[1] > 4 * width[0]
