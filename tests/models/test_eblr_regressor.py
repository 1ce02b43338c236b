"""EBLR for regression: rounds, residuals, stopping, and the planted effects that it must find."""

from __future__ import annotations

import numpy as np
import pytest
from eblr_oracle import enrich, linear_residual, plain_linear, read_rule

import hybridtrees
from hybridtrees.models.eblr.estimators import EBLRClassifier, EBLRRegressor


def planted(rng, n=600, noise=0.1):
    """A line, and 3 more where x1 > 0.5 and x2 <= 0."""
    X = rng.standard_normal((n, 4))
    y = 2 * X[:, 0] - X[:, 3] + 3.0 * ((X[:, 1] > 0.5) & (X[:, 2] <= 0))
    return X, y + noise * rng.standard_normal(n)


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.mark.parametrize("penalty", [None, "ridge", "lasso", "elasticnet"])
@pytest.mark.parametrize("weighted", [False, True])
def test_warm_started_rounds_equal_refits(rng, penalty, weighted):
    X, y = planted(rng)
    weight = rng.integers(1, 4, len(y)).astype(float) if weighted else None
    penalised = {"penalty": penalty, "alpha": 0.01, "l1_ratio": 0.4}
    mean = np.average(X, axis=0, weights=weight)
    Z = (X - mean) / np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    model = EBLRRegressor(
        n_rules=4, max_depth=2, early_stopping=None, n_jobs=1, tol=1e-14, **penalised
    )
    model.fit(X, y, weight)
    line = plain_linear(tol=1e-14, **penalised)
    columns, line, table = enrich(Z, y, 4, {"max_depth": 2}, line, linear_residual, weight)
    np.testing.assert_array_equal(model.transform(X)[:, 4:], columns)
    np.testing.assert_allclose(model.predict(X), line.predict(table), rtol=0, atol=1e-7)
    np.testing.assert_allclose(model.term_coef_[4:], line.coef_[4:], rtol=0, atol=1e-6)


def test_collinear_columns_grow_by_their_factor(rng):
    X, y = planted(rng, noise=0.3)
    # A sum of columns up to a few millionths, and one exactly: too close for the moments.
    X = np.column_stack([X, X[:, 0] + X[:, 1] + 1e-6 * rng.standard_normal(len(X)), X[:, 3] * 2])
    model = EBLRRegressor(n_rules=5, max_depth=2, n_jobs=1).fit(X, y)
    table = np.column_stack([np.ones(len(X)), model.transform(X)])
    exact = np.linalg.lstsq(table, y, rcond=None)[0]
    np.testing.assert_allclose(model.predict(X), table @ exact, rtol=0, atol=1e-6)
    refitted = plain_linear().fit(table[:, 1:], y)
    np.testing.assert_allclose(model.term_coef_[6:], refitted.coef_[6:], rtol=1e-6)


def test_a_rule_that_is_a_feature_already(rng):
    X = np.column_stack([rng.standard_normal(300), rng.integers(0, 2, 300), np.ones(300)])
    X = np.column_stack([X, X[:, 0] + 1e-7 * rng.standard_normal(300)])
    y = X[:, 0] + 4 * X[:, 1] + np.where(X[:, 1] > 0, np.abs(X[:, 0]), 0)
    model = EBLRRegressor(n_rules=6, max_depth=1, residual="absolute", n_jobs=1).fit(X, y)
    table = np.column_stack([np.ones(300), model.transform(X)])
    exact = table @ np.linalg.lstsq(table, y, rcond=None)[0]
    np.testing.assert_allclose(model.predict(X), exact, atol=1e-6)


def test_the_first_rule_is_the_planted_one(rng):
    X, y = planted(rng)
    model = EBLRRegressor(n_rules=1, max_depth=2, n_jobs=1).fit(X, y)
    truth = (X[:, 1] > 0.5) & (X[:, 2] <= 0)
    holds = model.transform(X)[:, -1]
    assert np.mean(holds == truth) > 0.99
    assert model.rules_[0].coef == pytest.approx(3.0, abs=0.1)
    assert model.rules_[0].support == holds.sum()
    assert model.rules_[0].share == pytest.approx(holds.mean())
    np.testing.assert_allclose(model.term_coef_[:4], [2, 0, 0, -1], atol=0.05)


@pytest.mark.parametrize("residual", ["linear", "absolute", "squared", "exponential", "poisson"])
def test_residuals(rng, residual):
    X = rng.standard_normal((400, 3))
    rate = np.maximum(0.1, 4 + X[:, 0] + 6 * ((X[:, 1] > 1) & (X[:, 2] > 0)))
    y = rng.poisson(rate).astype(float)
    model = EBLRRegressor(
        n_rules=1, max_depth=2, residual=residual, early_stopping=None, n_jobs=1
    ).fit(X, y)
    g = plain_linear().fit(X, y).predict(X)
    r = y - g
    if residual == "poisson":
        mu = np.maximum(g, 1e-6 * y.mean())
        log = np.array([a * np.log(a / b) if a else 0.0 for a, b in zip(y, mu, strict=True)])
        expected = np.sign(y - mu) * np.sqrt(2 * (log - y + mu))
    else:
        expected = {
            "linear": r, "absolute": abs(r), "squared": r * r,
            "exponential": 1 - np.exp(-abs(r)),
        }[residual]  # fmt: skip
    holds = model.transform(X)[:, -1] == 1
    assert model.rules_[0].residual == pytest.approx(expected[holds].mean())


def test_poisson_wants_counts(rng):
    with pytest.raises(ValueError, match="y must not be negative under residual='poisson', got -1"):
        EBLRRegressor(residual="poisson").fit([[0.0], [1.0]], [-1, 2])


def test_equally_far_leaves_make_one_rule():
    X = np.array([-3.0, -2, -1, 1, 2, 3])[:, None]
    y = np.array([7.0, 0, 0, 0, 0, 7.0])
    model = EBLRRegressor(n_rules=1, max_depth=2, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(model.transform(X)[:, 1], [1, 0, 0, 0, 0, 1])
    np.testing.assert_allclose(model.predict(X), y, atol=1e-12)
    assert " or " in model.rules_[0].text
    assert len(model.rules_[0].tree.leaves) == 2


def daily_sales(rng, n=728):
    """A trend, a weekend effect and promotions that only work on weekdays."""
    day = np.arange(n)
    weekday = day % 7
    promo = rng.random(n) < 0.25
    sales = 200 + 0.1 * day + 60 * (weekday >= 5) + 45 * (promo & (weekday < 5))
    table = np.column_stack([day, weekday, promo]).astype(float)
    return table, sales + 4 * rng.standard_normal(n)


def test_daily_sales_give_rules_for_the_planted_effects(rng):
    X, y = daily_sales(rng)
    model = EBLRRegressor(
        n_rules=6, max_depth=2, early_stopping="validation", validation_split="last", n_jobs=1
    ).fit(X[:600], y[:600])
    weekend, promo = X[:, 1] >= 5, X[:, 2] == 1
    found = model.transform(X)[:, 3:]
    # Promotions are linear; the weekend has a rule without them, and one where they do nothing.
    np.testing.assert_array_equal(found[:, 0], weekend & ~promo)
    np.testing.assert_array_equal(found[:, 1], weekend & promo)
    assert model.term_coef_[0] == pytest.approx(0.1, abs=0.01)
    assert model.term_coef_[2] == pytest.approx(45, abs=2)
    assert model.term_coef_[3:5] == pytest.approx([60, 15], abs=3)
    error = np.sqrt(np.mean((model.predict(X[600:]) - y[600:]) ** 2))
    line = plain_linear().fit(X[:600], y[:600])
    assert error < 8
    assert error < 0.4 * np.sqrt(np.mean((line.predict(X[600:]) - y[600:]) ** 2))


def test_time_ordered_validation_takes_the_last_rows(rng):
    X, y = planted(rng)
    kept = {"early_stopping": "validation", "max_depth": 2, "n_rules": 5, "n_jobs": 1}
    model = EBLRRegressor(**kept, validation_split="last", validation_fraction=0.25).fit(X, y)
    by_hand = EBLRRegressor(max_depth=2, n_rules=5, n_jobs=1)
    by_hand.fit(X[:450], y[:450], X_val=X[450:], y_val=y[450:])
    np.testing.assert_allclose(model.stopping_scores_, by_hand.stopping_scores_, rtol=1e-12)
    assert model.n_rules_ == by_hand.n_rules_


def test_stopping_keeps_the_best_round(rng):
    X, y = planted(rng, noise=0.5)
    for how in ("aic", "bic", "validation"):
        model = EBLRRegressor(
            n_rules=8, max_depth=2, early_stopping=how, random_state=0, n_jobs=1
        ).fit(X, y)
        assert model.n_rules_ == np.argmin(model.stopping_scores_)
        assert len(model.stopping_scores_) <= model.n_rules_ + 4
        assert model.n_rules_ >= 1
        assert how == "aic" or model.n_rules_ < 8
        whole = EBLRRegressor(
            n_rules=model.n_rules_, max_depth=2, early_stopping=None, n_jobs=1
        ).fit(X, y)
        np.testing.assert_array_equal(whole.predict(X), model.predict(X))


def test_stopping_is_by_bic_or_by_the_given_rows(rng):
    X, y = planted(rng, noise=0.5)
    by_default = EBLRRegressor(n_rules=8, n_jobs=1).fit(X, y)
    by_bic = EBLRRegressor(n_rules=8, early_stopping="bic", n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(by_default.stopping_scores_, by_bic.stopping_scores_)
    assert by_default.n_rules_ == by_bic.n_rules_ < 8
    given = EBLRRegressor(n_rules=8, n_jobs=1).fit(X, y, X_val=X[:90], y_val=y[:90])
    by_rows = EBLRRegressor(n_rules=8, early_stopping="validation", n_jobs=1)
    by_rows.fit(X, y, X_val=X[:90], y_val=y[:90])
    np.testing.assert_array_equal(given.stopping_scores_, by_rows.stopping_scores_)


def test_noise_has_no_rules(rng):
    X = rng.standard_normal((60, 4))
    assert EBLRRegressor(n_jobs=1).fit(X, rng.standard_normal(60)).n_rules_ <= 1


def test_validation_rows_are_judged_as_predictions_are(rng):
    X, y = planted(rng, noise=0.5)
    X[rng.random(X.shape) < 0.1] = np.nan
    val = rng.standard_normal((90, 4)), rng.standard_normal(90)
    w = rng.random(90)
    model = EBLRRegressor(n_rules=5, n_iter_no_change=9, n_jobs=1)
    model.fit(X, y, X_val=val[0], y_val=val[1], sample_weight_val=w)
    staged = [np.average((p - val[1]) ** 2, weights=w) for p in model.staged_predict(val[0])]
    np.testing.assert_allclose(model.stopping_scores_[: len(staged)], staged, rtol=1e-10)


def test_gains_are_the_decrease_of_the_training_loss(rng):
    X, y = planted(rng, noise=0.5)
    model = EBLRRegressor(n_rules=4, n_jobs=1).fit(X, y)
    losses = [np.mean((p - y) ** 2) for p in model.staged_predict(X)]
    np.testing.assert_allclose(model.train_losses_, losses, rtol=1e-9)
    np.testing.assert_allclose([rule.gain for rule in model.rules_], -np.diff(losses), atol=1e-9)
    assert all(rule.gain >= 0 for rule in model.rules_)


def test_nothing_left_to_find():
    X = np.arange(8.0)[:, None]
    model = EBLRRegressor(n_jobs=1).fit(X, 3 * X[:, 0] + 1)
    assert model.n_rules_ == 0 and model.rules_ == []
    np.testing.assert_allclose(model.predict([[10.0]]), [31.0])
    assert model.transform(X).shape == (8, 1)
    constant = EBLRRegressor(n_jobs=1).fit(X, np.full(8, 2.0))
    np.testing.assert_allclose(constant.predict(X), 2.0)


def test_alpha_by_cross_validation(rng):
    X, y = planted(rng)
    model = EBLRRegressor(n_rules=1, penalty="lasso", alpha="cv", n_jobs=1).fit(X, y)
    chosen = hybridtrees.LinearRegressor(penalty="lasso", alpha="cv", n_jobs=1).fit(X, y)
    assert model.alpha_ == chosen.alpha_


def test_threads_do_not_matter(rng):
    X = rng.standard_normal((5000, 8))
    y = X[:, 0] + (X[:, 1] > 1) * 3 + rng.standard_normal(5000)
    one, two = (EBLRRegressor(n_rules=3, n_jobs=k).fit(X, y) for k in (1, 2))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    np.testing.assert_array_equal(one.term_coef_, two.term_coef_)


def test_more_columns_than_rows(rng):
    X = rng.standard_normal((60, 300))
    y = X[:, 0] + 5 * (X[:, 1] > 0.5)
    model = EBLRRegressor(
        n_rules=2, max_depth=1, penalty="lasso", alpha=0.05, early_stopping=None, n_jobs=1
    ).fit(X, y)
    Z = standardised(X)
    line = plain_linear(penalty="lasso", alpha=0.05)
    columns, line, table = enrich(Z, y, 2, {"max_depth": 1}, line, linear_residual)
    np.testing.assert_array_equal(model.transform(X)[:, 300:], columns)
    np.testing.assert_allclose(model.predict(X), line.predict(table), atol=1e-4)
    assert read_rule(model.rules_[0].text, {f"x{j}": X[:, j] for j in range(300)}, {}).any()


def test_tall_and_light_rows(rng):
    """Rows of weight zero decide nothing, and a row of weight two counts as two rows."""
    X, y = planted(rng, n=200)
    weight = rng.integers(0, 3, 200).astype(float)
    twice = np.repeat(np.arange(200), weight.astype(int))
    weighted = EBLRRegressor(n_rules=3, max_depth=2, n_jobs=1).fit(X, y, weight)
    repeated = EBLRRegressor(n_rules=3, max_depth=2, n_jobs=1).fit(X[twice], y[twice])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-8)
    assert [r.support for r in weighted.rules_] != [r.support for r in repeated.rules_]


@pytest.mark.parametrize("how", ["aic", "bic"])
@pytest.mark.parametrize("model", [EBLRRegressor, EBLRClassifier])
def test_the_sum_of_the_weights_does_not_stop_the_rounds(rng, how, model):
    X = rng.normal(size=(200, 4))
    y = np.where(X[:, 0] > 0.5, 3.0, 0.0) + X[:, 1] + rng.normal(size=200)
    y = y if model is EBLRRegressor else (y > 1).astype(int)
    given = {"n_rules": 6, "max_depth": 1, "early_stopping": how, "n_jobs": 1}
    alone = model(**given).fit(X, y)
    for total in (1.0, 0.01, 1e5):
        weighted = model(**given).fit(X, y, sample_weight=np.full(200, total / 200))
        assert weighted.n_rules_ == alone.n_rules_
        np.testing.assert_allclose(weighted.stopping_scores_, alone.stopping_scores_, rtol=1e-6)
    # Rows of weight zero do not count.
    more = np.vstack([X, X]), np.append(y, y[::-1])
    weighted = model(**given).fit(*more, sample_weight=np.repeat([1.0, 0.0], 200))
    np.testing.assert_allclose(weighted.stopping_scores_, alone.stopping_scores_, rtol=1e-6)


def test_an_iterator_of_folds_is_read_once(rng):
    X, y = planted(rng)
    pairs = [(np.arange(300), np.arange(300, 600)), (np.arange(300, 600), np.arange(300))]
    for model, target in ((EBLRRegressor, y), (EBLRClassifier, (y > 0).astype(int))):
        given = {"n_rules": 1, "penalty": "ridge", "alpha": "cv", "n_jobs": 1}
        found = [model(**given, cv=cv).fit(X, target).alpha_ for cv in (iter(pairs), pairs)]
        assert found[0] == found[1]


def test_summary_wants_a_number_of_terms(rng):
    X, y = planted(rng)
    model = EBLRRegressor(n_rules=1, max_depth=1, n_jobs=1).fit(X, y)
    with pytest.raises(ValueError, match="max_terms"):
        model.summary(max_terms=-1)
    used = np.count_nonzero(model.term_coef_[:-1])
    assert "+ 1 more column of" in model.summary(max_terms=int(used) - 1)
