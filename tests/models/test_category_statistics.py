"""`categorical_statistics` in all families: no leakage, the same bits, files, further training."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import hybridtrees as ht

FAMILIES = ("XGB", "PLGB", "GradientBoosting", "RandomForest", "CART", "LinearTree", "LinearForest",
            "RERF", "EBLR", "AdaBoost")  # fmt: skip
BOOSTED = ("XGB", "PLGB", "GradientBoosting")


def make(family, kind="Regressor", **how):
    how = {"random_state": 0, **how}
    if hasattr(getattr(ht, family + kind), "n_estimators"):
        how.setdefault("n_estimators", 10)
    return getattr(ht, family + kind)(**how)


def names(codes):
    return np.array([f"c{code:04d}" for code in codes])


def towns(n=600, n_towns=60, seed=0, noise=2.0):
    """A column of names with an effect on the target, and one of numbers."""
    rng = np.random.default_rng(seed)
    code, x = rng.integers(0, n_towns, n), rng.normal(size=n)
    y = np.random.default_rng(99).normal(size=n_towns)[code] + x + noise * rng.normal(size=n)
    return {"x": x, "town": names(code)}, y


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["Regressor", "Classifier"])
def test_every_family_uses_them_and_keeps_them_in_its_file(family, kind, tmp_path):
    X, y = towns()
    y = y if kind == "Regressor" else np.digitize(y, [-1.0, 1.0])
    model = make(family, kind).fit(X, y)
    np.testing.assert_array_equal(model._reader.statistics.features, [1])
    file = tmp_path / "model"
    model.save(file)
    loaded = ht.load(file)
    other = {"x": X["x"][:50], "town": np.append(X["town"][:48], ["nowhere", ""])}
    np.testing.assert_array_equal(model.predict(other), loaded.predict(other))
    again = make(family, kind, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(model.predict(other), again.predict(other))
    plain = make(family, kind, categorical_statistics=False).fit(X, y)
    assert plain._reader.statistics is None


@pytest.mark.parametrize("family", FAMILIES)
def test_names_that_mean_nothing_do_not_leak(family):
    # Every name has a few rows: a mean that held the row's own target would predict it well.
    rng = np.random.default_rng(1)
    n = 1200
    X, y = {"x": rng.normal(size=n), "id": names(rng.permutation(n) // 3)}, rng.normal(size=n)
    model = make(family, **({"max_depth": 5} if family == "CART" else {})).fit(X, y)
    np.testing.assert_array_equal(model._reader.statistics.features, [1])
    half = {"x": X["x"], "id": names(rng.integers(0, 400, n))}
    fresh = rng.normal(size=n)
    # Without leakage the column is noise that is independent of the target. Statistics of all
    # rows in training would give it most of the importance, and predictions off the mean.
    leaky = np.square(model.predict(half) - fresh).mean() / np.square(fresh).mean()
    assert leaky < 1.6
    if family in ("XGB", "GradientBoosting", "RandomForest", "CART"):
        assert model.feature_importances_[1] < 0.75


def test_they_help_where_names_are_many_and_noise_is_large():
    X, y = towns(3000, 300, noise=3.0)
    X_new, y_new = towns(3000, 300, seed=5, noise=0.0)
    for family in ("XGB", "PLGB"):
        errors = [
            np.square(
                make(family, n_estimators=50, categorical_statistics=choice)
                .fit(X, y)
                .predict(X_new)
                - y_new
            ).mean()
            for choice in ("auto", False)
        ]
        assert errors[0] < 0.9 * errors[1], family


@pytest.mark.parametrize("family", ["XGB", "PLGB"])
def test_continued_training_is_one_long_training(family, tmp_path):
    X, y = towns()
    long = make(family, n_estimators=8).fit(X, y)
    first = make(family, n_estimators=5).fit(X, y)
    table = first._reader.statistics.table.copy()
    both = make(family, n_estimators=3).fit(X, y, xgb_model=first)
    np.testing.assert_array_equal(both.predict(X), long.predict(X))
    X_other, y_other = towns(seed=3)
    make(family, n_estimators=3).fit(X_other, y_other, xgb_model=first)
    np.testing.assert_array_equal(first._reader.statistics.table, table)
    plain = make(family, n_estimators=5, categorical_statistics=False).fit(X, y)
    more = make(family, n_estimators=3).fit(X, y, xgb_model=plain)
    assert more._reader.statistics is None


def test_warm_starts_are_one_long_training():
    X, y = towns()
    for family in ("GradientBoosting", "RandomForest"):
        long = make(family, n_estimators=8).fit(X, y)
        short = make(family, n_estimators=5, warm_start=True).fit(X, y)
        short.set_params(n_estimators=8).fit(X, y)
        np.testing.assert_array_equal(short.predict(X), long.predict(X))


@pytest.mark.parametrize("family", BOOSTED)
def test_validation_tables_get_the_statistics_of_all_rows(family):
    X, y = towns()
    X_val, y_val = towns(seed=2)
    metric = {"eval_metric": "rmse"}
    model = make(family, **metric).fit(X, y, X_val=X_val, y_val=y_val)
    scores = model.evals_result_ if family == "GradientBoosting" else model.evals_result()
    curve = scores["validation_0"]["rmse"]
    error = np.sqrt(np.square(model.predict(X_val) - y_val).mean())
    assert curve[-1] == pytest.approx(error, rel=1e-6)


def test_held_out_rows_are_not_in_the_statistics():
    X, y = towns()
    model = make("GradientBoosting", n_iter_no_change=3).fit(X, y)
    holding = np.random.SeedSequence(**model._seeds).spawn(2)[1]
    held = model._draw_validation(np.random.default_rng(holding), y)
    spoilt = y.copy()
    spoilt[held] += 100.0
    again = make("GradientBoosting", n_iter_no_change=3).fit(X, spoilt)
    first, second = (one._reader.statistics.table for one in (model, again))
    np.testing.assert_array_equal(first, second)
    spoilt = y + 100.0 * (np.arange(len(y)) == np.setdiff1d(np.arange(len(y)), held)[0])
    again = make("GradientBoosting", n_iter_no_change=3).fit(X, spoilt)
    assert not np.array_equal(first, again._reader.statistics.table)


def test_sparse_tables():
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 50, (400, 2)).astype(float)
    y = rng.normal(size=400)
    how = {"categorical_features": [1]}
    model = make("XGB", **how).fit(sparse.csr_array(dense), y)
    assert model._reader.statistics is None
    model = make("XGB", categorical_statistics=True, **how).fit(sparse.csr_array(dense), y)
    same = make("XGB", categorical_statistics=True, **how).fit(dense, y)
    expected = same.predict(dense)
    np.testing.assert_array_equal(model.predict(sparse.csr_array(dense)), expected)
    np.testing.assert_array_equal(model.predict(dense), expected)


def test_the_user_array_is_not_changed():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 50, (400, 2)).astype(float)
    before = X.copy()
    model = make("RandomForest", categorical_features=[0]).fit(X, rng.normal(size=400))
    model.predict(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("family", FAMILIES)
def test_bad_values_are_refused(family):
    X, y = towns(100)
    cases = [("yes", ValueError), (2, TypeError)]
    # As in XGBoost, None is the default of every parameter of these two.
    cases += [(None, TypeError)] * (family not in ("XGB", "PLGB"))
    for wrong, error in cases:
        with pytest.raises(error, match="categorical_statistics"):
            make(family, categorical_statistics=wrong).fit(X, y)


def test_exports_name_the_mean():
    X, y = towns()
    text = ht.inspection.export_text(make("CART", max_depth=3).fit(X, y))
    assert "mean(town)" in text
