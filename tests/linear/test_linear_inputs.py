"""Tables of every kind in front of the linear models: missing values, categories, sparse, files."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import hybridtrees
from hybridtrees.linear.classifier import LogisticClassifier
from hybridtrees.linear.regressor import LinearRegressor

BOTH = [LinearRegressor, LogisticClassifier]


def target_of(kind, signal, rng):
    noisy = signal + 0.3 * rng.standard_normal(len(signal))
    return noisy if kind is LinearRegressor else noisy > np.median(noisy)


def scores(model, X):
    return model.predict_raw(X)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("penalty", [None, "ridge", "lasso"])
@pytest.mark.parametrize("p", [4, 300])
def test_missing_values_are_the_training_mean(rng, kind, penalty, p):
    X = rng.standard_normal((60, p)) + 2
    y = target_of(kind, X[:, 0] + X[:, 1], rng)
    X[rng.random(X.shape) < 0.1] = np.nan
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    parameters = {"penalty": penalty, "alpha": 0.05, "tol": 1e-12, "max_iter": 20_000}
    if kind is LogisticClassifier and penalty is None and p == 300:
        parameters["penalty"] = "ridge"  # separated otherwise
    a, b = kind(**parameters).fit(X, y), kind(**parameters).fit(filled, y)
    np.testing.assert_allclose(scores(a, X), scores(b, filled), atol=1e-6)
    np.testing.assert_allclose(scores(a, filled), scores(b, filled), atol=1e-6)
    lost = kind(**parameters).fit(np.where(np.arange(p) == 0, np.nan, X), y)
    assert np.ravel(lost.coef_)[0] == 0


@pytest.mark.parametrize("kind", BOTH)
def test_indicators_of_missing_values(rng, kind):
    X = rng.standard_normal((200, 3))
    hole = rng.random(200) < 0.3
    y = target_of(kind, X[:, 1] + 2.0 * hole, rng)
    X[hole, 0] = np.nan
    plain, marked = kind().fit(X, y), kind(missing_indicator=True).fit(X, y)
    assert list(marked.term_names_) == ["x0", "x1", "x2", "x0 is missing"]
    assert np.ravel(marked.term_coef_)[3] > 0.5 and marked.score(X, y) > plain.score(X, y)
    explicit = np.column_stack([np.where(hole, np.nanmean(X[:, 0]), X[:, 0]), X[:, 1:], hole])
    np.testing.assert_allclose(
        scores(marked, X), scores(kind().fit(explicit, y), explicit), atol=1e-7
    )
    # A value that was never missing in fit may be in later tables.
    later = X.copy()
    later[:5, 2] = np.nan
    assert np.isfinite(scores(marked, later)).all()
    sparse_model = kind(missing_indicator=True).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(scores(sparse_model, X), scores(marked, X), atol=1e-7)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("penalty", [None, "ridge"])
def test_categories_of_a_data_frame(rng, kind, penalty):
    pandas = pytest.importorskip("pandas")
    colour = rng.choice(["blue", "green", "red"], 300)
    size = rng.standard_normal(300)
    y = target_of(kind, size + (colour == "red") * 2.0, rng)
    frame = pandas.DataFrame({"size": size, "colour": colour})
    model = kind(penalty=penalty).fit(frame, y)
    first = 0 if penalty else 1  # without a penalty the first category is the baseline
    labels = ["blue", "green", "red"][first:]
    assert list(model.term_names_) == ["size", *(f"colour={c}" for c in labels)]
    dummies = np.column_stack([size, *(colour == c for c in labels)])
    plain = kind(penalty=penalty).fit(dummies, y)
    np.testing.assert_allclose(scores(model, frame), scores(plain, dummies), atol=1e-6)
    # Missing and unseen categories count by the shares of the known ones.
    odd = pandas.DataFrame({"size": [0.0, 0.0], "colour": ["mauve", None]})
    shares = np.array([[0.0, *(np.mean(colour == c) for c in labels)]])
    np.testing.assert_allclose(scores(model, odd), np.repeat(scores(plain, shares), 2, axis=0))
    assert "colour=red" in str(model.summary())


def test_many_categories_go_through_a_sparse_table(rng):
    pandas = pytest.importorskip("pandas")
    label = rng.integers(0, 100, 2000)
    effect = rng.standard_normal(100)
    y = effect[label] + 0.1 * rng.standard_normal(2000)
    frame = pandas.DataFrame({"k": label.astype(str), "x": rng.standard_normal(2000)})
    model = LinearRegressor().fit(frame, y)
    assert model.term_coef_.shape == (100,) and model.score(frame, y) > 0.95
    means = np.array([y[label == k].mean() for k in range(100)])
    np.testing.assert_allclose(model.predict(frame), means[label], atol=0.1)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("penalty", [None, "ridge", "lasso"])
@pytest.mark.parametrize("p", [5, 300])
@pytest.mark.parametrize("form", ["csr_array", "csc_matrix"])
def test_sparse_equals_dense(rng, kind, penalty, p, form):
    X = np.where(rng.random((50, p)) < 0.3, rng.standard_normal((50, p)) + 1, 0.0)
    y = target_of(kind, X[:, 0] - X[:, 1], rng)
    if kind is LogisticClassifier and penalty is None and p == 300:
        penalty = "ridge"
    parameters = {"penalty": penalty, "alpha": 0.05, "tol": 1e-12}
    dense = kind(**parameters).fit(X, y)
    given = getattr(sparse, form)(X)
    loose = kind(**parameters).fit(given, y)
    np.testing.assert_allclose(scores(loose, given), scores(dense, X), atol=1e-6)
    np.testing.assert_allclose(scores(loose, X), scores(dense, X), atol=1e-6)


@pytest.mark.parametrize("kind", BOTH)
def test_float32_is_read_exactly(rng, kind):
    X = (rng.standard_normal((80, 4)) + 1000).astype(np.float32)
    y = target_of(kind, X[:, 0].astype(float), rng)
    a, b = kind().fit(X, y), kind().fit(X.astype(np.float64), y)
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9)
    read_only = X.copy()
    read_only.flags.writeable = False
    assert np.array_equal(kind().fit(read_only, y).coef_, a.coef_)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("penalty", [None, "ridge", "lasso"])
def test_files_and_pickles(rng, kind, penalty, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": rng.standard_normal(60), "b": rng.choice(["u", "v", "w"], 60)})
    frame.loc[3, "a"] = np.nan
    y = target_of(kind, np.nan_to_num(frame["a"].to_numpy()), rng)
    model = kind(penalty=penalty, alpha="cv", alphas=3, cv=3, missing_indicator=True)
    model.fit(frame, y)
    model.save(tmp_path / "model")
    for other in (hybridtrees.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict(frame), model.predict(frame))
        assert str(other.summary()) == str(model.summary())
        assert other.get_params() == model.get_params()


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    "parameters, error",
    [
        ({"penalty": "l2"}, ValueError),
        ({"alpha": -1.0}, ValueError),
        ({"alpha": "CV"}, ValueError),
        ({"alpha": None}, TypeError),
        ({"alpha": np.nan}, ValueError),
        ({"l1_ratio": 1.5}, ValueError),
        ({"fit_intercept": 1}, TypeError),
        ({"standardize": "yes"}, TypeError),
        ({"missing_indicator": None}, TypeError),
        ({"cv": 1}, ValueError),
        ({"cv": "five"}, TypeError),
        ({"cv": [(1, 2, 3)]}, ValueError),
        ({"alphas": 0}, ValueError),
        ({"alphas": [1.0, -1.0]}, ValueError),
        ({"alphas": "many"}, ValueError),
        ({"max_iter": 0}, ValueError),
        ({"tol": 0.0}, ValueError),
        ({"n_jobs": 0}, ValueError),
        ({"verbose": -1}, ValueError),
    ],
)
def test_bad_parameters_are_named_and_change_nothing(rng, kind, parameters, error):
    X = rng.standard_normal((30, 2))
    y = target_of(kind, X[:, 0], rng)
    model = kind().fit(X, y)
    before = model.coef_
    with pytest.raises(error, match=next(iter(parameters))):
        model.set_params(**parameters).fit(X, y)
    assert model.coef_ is before


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("penalty", [None, "ridge", "lasso"])
def test_hostile_tables(rng, kind, penalty):
    y = target_of(kind, rng.standard_normal(20), rng)
    one = rng.standard_normal((20, 1))
    tables = [
        np.zeros((20, 3)),
        np.full((20, 2), np.nan),
        np.hstack([one] * 5),
        one * 1e300,
        one * 1e-300,
        np.hstack([one, one * 1e300, one * 1e-300]),
        np.hstack([one + 1e15, one]),
        sparse.csr_array((20, 4)),
        np.zeros((20, 600)),
        rng.integers(0, 2, (20, 3)).astype(bool),
    ]
    for X in tables:
        model = kind(penalty=penalty, alpha=0.1).fit(X, y)
        assert np.isfinite(model.predict_raw(X)).all()
        str(model.summary())
    apart = np.where(np.eye(20, 30) > 0, 1e308, -1e308)
    with pytest.raises(ValueError, match="too far"):
        kind(penalty=penalty).fit(apart, y)
    for X in ([[np.inf], [1.0]], [["a"], ["b"]], [], [[]], np.zeros((2, 2, 2))):
        with pytest.raises((ValueError, TypeError)):
            kind(penalty=penalty).fit(X, [0, 1])


def test_hostile_targets(rng):
    X = rng.standard_normal((6, 2))
    assert np.allclose(LinearRegressor().fit(X, np.full(6, 3.5)).predict(X), 3.5)
    lasso = LinearRegressor(penalty="lasso", alpha="cv", cv=2).fit(X, np.zeros(6))
    assert not lasso.coef_.any() and lasso.score(X, np.zeros(6)) == 1
    assert np.isfinite(LinearRegressor().fit(X[:1], [2.0]).predict(X)).all()
    huge = LinearRegressor().fit(X, np.array([1, 2, 3, 4, 5, 6]) * 1e300).predict(X)
    assert np.isfinite(huge).all()
    for bad in ([np.nan] * 6, [np.inf] * 6, ["a"] * 6, [1.0] * 5, None, np.zeros((6, 0))):
        with pytest.raises((ValueError, TypeError)):
            LinearRegressor().fit(X, bad)
    with pytest.raises(ValueError, match="one class"):
        LogisticClassifier().fit(X, np.ones(6))
    with pytest.raises(ValueError, match="sample_weight"):
        LinearRegressor().fit(X, np.ones(6), -np.ones(6))
    with pytest.raises(ValueError, match="folds"):
        LinearRegressor(penalty="ridge", alpha="cv", cv=7).fit(X, np.ones(6))
    with pytest.raises(ValueError, match="row numbers"):
        LinearRegressor(penalty="ridge", alpha="cv", cv=[([0, 1], [99])]).fit(X, np.ones(6))
    w = np.array([0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match="sample_weight"):
        splits = [([0, 1, 2], [3, 4, 5])]
        LinearRegressor(penalty="ridge", alpha="cv", cv=splits).fit(X, np.ones(6), w)
    # A class that only weightless rows have gets next to no probability.
    three = LogisticClassifier().fit(X, [0, 1, 2, 0, 1, 0], [1, 1, 0, 1, 1, 1])
    assert three.predict_proba(X)[:, 2].max() < 1e-3


def test_importing_stays_light():
    # Before SciPy 1.16, scipy.sparse loads scipy.linalg by itself.
    code = (
        "import sys, scipy.sparse\n"
        "heavy = {'scipy.linalg', 'scipy.optimize', 'scipy.stats', 'scipy.special', 'sklearn'}\n"
        "heavy -= set(sys.modules)\n"
        "import hybridtrees.linear.regressor, hybridtrees.linear.classifier\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
