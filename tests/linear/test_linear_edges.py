"""Linear models where they are hard put: collinear columns, odd folds, tiny numbers."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

from hybridtrees.input.folds import check_cv, make_folds
from hybridtrees.linear.classifier import LogisticClassifier
from hybridtrees.linear.regressor import LinearRegressor
from hybridtrees.linear.solvers import ConvergenceWarning


@pytest.mark.parametrize("alpha", [1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("penalty", ["lasso", "elasticnet"])
def test_collinear_columns_do_not_stall_the_descent(penalty, alpha):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40, 80))
        y = 30 * X[:, 0] + 10 * X[:, 1] + 3 * rng.normal(size=40)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = LinearRegressor(penalty=penalty, alpha=alpha).fit(X, y)
        assert model.n_iter_ < 500
        tight = LinearRegressor(penalty=penalty, alpha=alpha, tol=1e-14).fit(X, y)
        np.testing.assert_allclose(model.coef_, tight.coef_, atol=1e-6)


def test_folds_with_rows_of_weight_zero(rng):
    X = rng.normal(size=(60, 4))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    weight = np.where(np.arange(60) < 8, 1.0, 0.0)
    model = LinearRegressor(penalty="ridge", alpha="cv", cv=8)
    model.fit(X, y, sample_weight=weight)
    assert np.isfinite(model.cv_scores_).all() and model.cv_scores_.shape[1] == 8
    with pytest.raises(ValueError, match="cv=10 folds .* positive sample_weight, got 8"):
        model.set_params(cv=10).fit(X, y, sample_weight=weight)
    model.set_params(cv=[(np.arange(50), np.arange(50, 60))])
    with pytest.raises(ValueError, match="sample_weight is zero for all test rows .* by cv"):
        model.fit(X, y, sample_weight=weight)
    logistic = LogisticClassifier(alpha="cv", cv=4).fit(X, np.arange(60) % 2, weight)
    assert np.isfinite(logistic.cv_scores_).all()


def test_rows_of_weight_are_dealt_out_first(rng):
    weight = np.where(rng.permutation(60) < 8, 2.0, 0.0)
    codes = rng.permutation(np.arange(60) % 2)
    folds = make_folds(4, 60, None, weight)
    assert [np.count_nonzero(weight[test]) for _, test in folds] == [2] * 4
    np.testing.assert_array_equal(np.sort(np.concatenate([b for _, b in folds])), np.arange(60))
    for train, test in folds:
        assert len(train) + len(test) == len(np.union1d(train, test)) == 60
    # Without zeros the folds are those without weights.
    for one, other in zip(
        make_folds(4, 60, codes, weight + 1), make_folds(4, 60, codes), strict=True
    ):
        np.testing.assert_array_equal(one[1], other[1])


def test_an_iterator_of_folds_is_read_once(rng):
    X = rng.normal(size=(40, 3))
    y = X[:, 0] + rng.normal(size=40)
    pairs = [(np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))]
    model = LinearRegressor(penalty="ridge", alpha="cv", cv=iter(pairs)).fit(X, y)
    listed = LinearRegressor(penalty="ridge", alpha="cv", cv=pairs).fit(X, y)
    assert model.alpha_ == listed.alpha_
    with pytest.raises(ValueError, match="cv holds no pair .* iterator is used up"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (1, ValueError, "folds must"),
        ("x", TypeError, "folds must be an integer of at least 2 or an iterable"),
        ([3], TypeError, "folds must hold pairs"),
        ([(1, 2, 3)], ValueError, "folds must hold pairs"),
    ],
)
def test_folds_are_named_as_the_parameter_is(value, error, words):
    with pytest.raises(error, match=words):
        check_cv(value, "folds")


def test_warnings_point_to_the_caller(rng):
    X = rng.normal(size=(50, 20))
    with pytest.warns(ConvergenceWarning) as seen:
        LinearRegressor(penalty="lasso", alpha=1e-3, max_iter=1).fit(X, X.sum(axis=1))
    assert seen[0].filename == __file__


@pytest.mark.parametrize("penalty", [None, "ridge", "lasso"])
@pytest.mark.parametrize("p", [4, 300])
def test_columns_too_small_for_float64(rng, penalty, p):
    X = rng.normal(size=(60, p))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    small = np.where(np.arange(p) == 1, X * 1e-310, X)
    given = {"penalty": penalty, "alpha": 0.01}
    model = LinearRegressor(**given).fit(small, y)
    # It varies by less than can be divided by, and counts as constant.
    without = LinearRegressor(**given).fit(np.delete(X, 1, axis=1), y)
    np.testing.assert_allclose(model.predict(small), without.predict(np.delete(X, 1, axis=1)))
    assert model.coef_[1] == 0
    if penalty != "lasso":
        with pytest.raises(ValueError, match="column 1 of X varies too little beside y"):
            small = np.where(np.arange(p) == 1, X * 1e-307, X)
            LinearRegressor(**given).fit(small, y + 1e5 * X[:, 1])


def test_classes_by_columns_too_small_for_float64(rng):
    X = rng.normal(size=(60, 3))
    codes = (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)
    small = np.column_stack([X[:, 0], 1e-310 * X[:, 1:]])
    model = LogisticClassifier().fit(small, codes)
    alone = LogisticClassifier().fit(X[:, :1], codes)
    np.testing.assert_allclose(model.predict_proba(small), alone.predict_proba(X[:, :1]))


def test_the_penalty_of_wide_tables_is_cross_validated(rng):
    X, codes = rng.normal(size=(60, 90)), rng.integers(0, 2, 60)
    wide = LogisticClassifier().fit(X, codes)
    chosen = LogisticClassifier(alpha="cv").fit(X, codes)
    assert wide.alpha_ == chosen.alpha_
    np.testing.assert_array_equal(wide.predict_proba(X), chosen.predict_proba(X))
    assert LogisticClassifier().fit(X[:, :59], codes).alpha_ == 0.001
    # Rows of weight 0 do not make a table narrow.
    weight = np.r_[np.ones(30), np.zeros(30)]
    assert hasattr(LogisticClassifier().fit(X[:, :59], codes, weight), "cv_scores_")
    with pytest.raises(ValueError, match="alpha must be a real number of at least 0 or 'cv'"):
        LinearRegressor(alpha="auto", penalty="ridge").fit(X, codes)
    with pytest.raises(ValueError, match="0, 'auto' or 'cv', got 'none'"):
        LogisticClassifier(alpha="none").fit(X, codes)


@pytest.mark.parametrize("kind", [LinearRegressor, LogisticClassifier])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_predictions_follow_edited_coefficients(rng, kind, n_outputs, fit_intercept):
    X = rng.standard_normal((80, 4)) + [0, 3, -50, 0]
    y = X @ rng.standard_normal((4, n_outputs)) + rng.standard_normal((80, n_outputs))
    if kind is LogisticClassifier:
        y -= y.mean(axis=0)
        y = y[:, 0] > 0 if n_outputs == 1 else y.argmax(axis=1)
    elif n_outputs == 1:
        y = y[:, 0]
    model = kind(penalty="ridge", alpha=0.1, fit_intercept=fit_intercept).fit(X, y)
    as_fitted = model.predict_raw(X)

    def by_hand():
        coef = np.reshape(model.coef_, (n_outputs, 4))
        return X @ coef.T + np.ravel(model.intercept_)

    np.testing.assert_allclose(as_fitted, by_hand(), rtol=1e-9, atol=1e-9)
    before = model.coef_.copy(), np.copy(model.intercept_)
    model.coef_[..., 1] = 0.0  # in place
    model.intercept_ = model.intercept_ + 0.25
    edited = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(edited.predict_raw(X), by_hand(), rtol=1e-9, atol=1e-9)
    assert np.abs(edited.predict_raw(X) - as_fitted).max() > 0.1
    assert edited.summary().coef[fit_intercept + 1] == 0
    listed = pickle.loads(pickle.dumps(model))
    listed.coef_ = model.coef_.tolist()
    np.testing.assert_array_equal(listed.predict(X), model.predict(X))
    model.coef_, model.intercept_ = before
    np.testing.assert_array_equal(model.predict_raw(X), as_fitted)
    model.coef_ = np.ones(3)
    with pytest.raises(ValueError, match=r"coef_ and intercept_ must have .* got .*\(3,\)"):
        model.predict_raw(X)
