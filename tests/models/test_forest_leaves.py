"""What the leaves tell: weights, quantiles, intervals, standard errors, proximities."""

from __future__ import annotations

import pickle
import warnings

import forest_oracle as oracle
import numpy as np
import pytest
from cart_data import noisy_classes, smooth_table

from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor
from hybridtrees.models.shared.bagging import RowSampler

LEVELS = [0.9, 0.1, 0.5, 0.0, 1.0]


@pytest.mark.parametrize(
    "params", [{}, {"bootstrap": False, "max_samples": 0.6}, {"max_leaf_nodes": 6}], ids=str
)
def test_weights_and_quantiles(params):
    X, y = smooth_table(60)
    y = np.round(y, 1)  # ties
    model = RandomForestRegressor(12, random_state=0, **params).fit(X, y)
    new = smooth_table(15, seed=5)[0]
    expected = oracle.leaf_weights(model, new, X)
    weights = model.leaf_weights(new)
    np.testing.assert_allclose(weights.toarray(), expected, atol=1e-12)
    np.testing.assert_allclose(weights @ y, model.predict(new), rtol=1e-10)
    found = model.predict_quantiles(new, LEVELS)
    slow = [[oracle.weighted_quantile(y, row, level) for level in LEVELS] for row in expected]
    np.testing.assert_array_equal(found, slow)
    np.testing.assert_array_equal(model.predict_quantiles(new, 0.5), found[:, 2])
    interval = model.predict_interval(new, 0.8)
    np.testing.assert_array_equal(interval, found[:, [1, 0]])


def test_quantiles_with_weights_and_outputs():
    X, y = smooth_table(60)
    Y = np.c_[y, np.cos(y)]
    weight = np.random.default_rng(0).uniform(0.5, 3, 60)
    model = RandomForestRegressor(
        10, bootstrap=False, max_samples=0.7, random_state=0, min_samples_leaf=8
    ).fit(X, Y, weight)
    expected = oracle.leaf_weights(model, X, X, weight)
    np.testing.assert_allclose(model.leaf_weights(X).toarray(), expected, atol=1e-12)
    found = model.predict_quantiles(X, [0.25, 0.75])
    assert found.shape == (60, 2, 2)
    for k in range(2):
        slow = [
            [oracle.weighted_quantile(Y[:, k], row, q) for q in (0.25, 0.75)] for row in expected
        ]
        np.testing.assert_array_equal(found[:, :, k], slow)


def test_rows_that_stop_at_inner_nodes_have_the_weights_of_the_branch():
    X, y = smooth_table(80)
    X[::5, 0] = np.nan
    model = RandomForestRegressor(8, missing="stop", random_state=0).fit(X, y)
    np.testing.assert_allclose(model.leaf_weights(X) @ y, model.predict(X), rtol=1e-10)


@pytest.mark.parametrize("class_weight", [None, "balanced", "balanced_subsample", {0: 3.0}])
def test_weights_of_a_classifier(class_weight):
    X, y = noisy_classes(80, 3)
    model = RandomForestClassifier(
        9, random_state=0, keep_rows=True, min_samples_leaf=4, class_weight=class_weight
    ).fit(X, y)
    np.testing.assert_allclose(model.leaf_weights(X) @ np.eye(3)[y], model.predict_proba(X))


def test_rows_are_kept_on_request():
    X, y = smooth_table(50)
    model = RandomForestRegressor(3, keep_rows=False, random_state=0).fit(X, y)
    for method in (model.predict_quantiles, model.predict_interval, model.leaf_weights):
        with pytest.raises(ValueError, match="keep_rows"):
            method(X)
    with pytest.raises(ValueError, match="q must be"):
        RandomForestRegressor(2).fit(X, y).predict_quantiles(X, [0.5, 1.5])
    with pytest.raises(ValueError, match="keep_rows must be"):
        RandomForestRegressor(2, keep_rows="yes").fit(X, y)


def test_intervals_cover_at_their_level():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, 3))
    y = 4 * X[:, 0] + (0.2 + X[:, 1]) * rng.normal(size=3000)
    model = RandomForestRegressor(60, max_features=None, min_samples_leaf=20, random_state=0)
    model.fit(X[:2000], y[:2000])
    for level in (0.5, 0.9):
        low, high = model.predict_interval(X[2000:], level).T
        inside = np.mean((y[2000:] >= low) & (y[2000:] <= high))
        assert abs(inside - level) < 0.05
    low, high = model.predict_interval([[0.5, 0.0, 0.5], [0.5, 1.0, 0.5]], 0.8).T
    assert high[1] - low[1] > 2 * (high[0] - low[0])


@pytest.mark.parametrize("replace", [True, False])
def test_standard_errors_by_definition(replace):
    X, y = smooth_table(50)
    params = {} if replace else {"bootstrap": False, "max_samples": 20}
    model = RandomForestRegressor(200, random_state=0, **params).fit(X, y)
    new = smooth_table(6, seed=3)[0]
    said = oracle.values(model, new)[:, :, 0]
    counts = oracle.counts(model).astype(float)
    n_trees, n = counts.shape
    expected = np.zeros(len(new))
    for i in range(n):
        covariance = np.mean((counts[:, [i]] - counts[:, i].mean()) * (said - said.mean(0)), axis=0)
        expected += covariance**2
    expected -= counts.var(axis=0).sum() / n_trees * said.var(axis=0)
    if not replace:
        expected *= (n - 1) / n * (n / (n - 20)) ** 2
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "2 of 6 variances came out negative")
        found = model.standard_errors(new)
    np.testing.assert_allclose(found**2, np.maximum(expected, 0), atol=1e-12)


def test_standard_errors_that_are_not_known():
    X, y = smooth_table(50)
    one = RandomForestRegressor(1, random_state=0, n_jobs=1).fit(X, y)
    assert np.isnan(one.standard_errors(X)).all()
    few = RandomForestRegressor(
        200, max_features=1 / 3, min_samples_leaf=5, random_state=0, n_jobs=1
    ).fit(X, y)
    with pytest.warns(UserWarning, match=r"\d+ of 50 variances came out negative"):
        errors = few.standard_errors(X)
    assert (errors == 0).any()


def test_samples_are_drawn_again_once_only(monkeypatch):
    X, y = smooth_table(60)
    model = RandomForestRegressor(50, warm_start=True, random_state=0, n_jobs=1).fit(X, y)
    drawn = []
    counts = RowSampler.counts

    def watched(self, seed):
        drawn.append(seed)
        return counts(self, seed)

    monkeypatch.setattr(RowSampler, "counts", watched)
    first = model.leaf_weights(X).toarray(), model.predict_quantiles(X), said_errors(model, X)
    n_drawn = len(drawn)
    assert n_drawn > 0
    again = model.leaf_weights(X).toarray(), model.predict_quantiles(X), said_errors(model, X)
    assert len(drawn) == n_drawn
    for mine, expected in zip(again, first, strict=True):
        np.testing.assert_array_equal(mine, expected)
    # Other trees, other samples; and what is remembered is no part of the model.
    model.set_params(n_estimators=60).fit(X, y)
    cold = RandomForestRegressor(60, random_state=0, n_jobs=1).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    for other in (model, copy):
        np.testing.assert_array_equal(said_errors(other, X), said_errors(cold, X))
        np.testing.assert_array_equal(other.predict_quantiles(X), cold.predict_quantiles(X))


def said_errors(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.standard_errors(X)


def test_standard_errors_of_a_mean():
    # A forest of roots is a bagged mean, whose standard error is known.
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    X = rng.normal(size=(400, 1))
    model = RandomForestRegressor(800, min_samples_leaf=300, random_state=0).fit(X, y)
    assert model.standard_errors(X[:1])[0] == pytest.approx(y.std() / 20, rel=0.2)
    codes = (y > 0).astype(int)
    classifier = RandomForestClassifier(800, min_samples_leaf=300, random_state=0).fit(X, codes)
    errors = classifier.standard_errors(X[:2])
    assert errors.shape == (2, 2)
    assert errors[0, 1] == pytest.approx(codes.std() / 20, rel=0.2)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_proximities(n_jobs):
    X, y = smooth_table(50)
    model = RandomForestRegressor(15, random_state=0, n_jobs=n_jobs).fit(X, y)
    new = smooth_table(20, seed=9)[0]
    ended, others, counts = oracle.leaves(model, X), oracle.leaves(model, new), oracle.counts(model)
    cases = [
        ((X,), {}, oracle.proximity(ended, ended, counts, counts)),
        ((X,), {"oob": False}, oracle.proximity(ended, ended)),
        ((new, X), {"oob": True}, oracle.proximity(others, ended, None, counts)),
        ((X, new), {"oob": False}, oracle.proximity(ended, others)),
        ((new,), {"oob": False}, oracle.proximity(others, others)),
    ]
    for tables, params, expected in cases:
        sparse = model.proximity(*tables, **params)
        assert sparse.has_canonical_format
        np.testing.assert_allclose(sparse.toarray(), expected, atol=1e-12)
        assert sparse.nnz == np.count_nonzero(expected)
        dense = model.proximity(*tables, output="dense", **params)
        np.testing.assert_array_equal(dense, sparse.toarray())
    assert np.all(model.proximity(X, oob=False).diagonal() == 1)


def test_proximities_with_many_trees_use_every_word_of_bits():
    X, y = smooth_table(30)
    model = RandomForestRegressor(131, random_state=0).fit(X, y)
    ended, counts = oracle.leaves(model, X), oracle.counts(model)
    expected = oracle.proximity(ended, ended, counts, counts)
    np.testing.assert_allclose(model.proximity(X).toarray(), expected, atol=1e-12)


def test_proximities_out_of_the_bag_need_the_training_table():
    X, y = smooth_table(40)
    model = RandomForestRegressor(3, random_state=0).fit(X, y)
    for table in (X[:-1], X[::-1]):
        with pytest.raises(ValueError, match="fitted with"):
            model.proximity(table)
    with pytest.raises(ValueError, match="output"):
        model.proximity(X, output="triangle")


def test_outlier_scores():
    X, y = noisy_classes(60, 2)
    model = RandomForestClassifier(30, random_state=0, min_samples_leaf=3).fit(X, y)
    near = model.proximity(X, output="dense")
    raw = np.empty(60)
    for i in range(60):
        same = (y == y[i]) & (np.arange(60) != i)
        raw[i] = np.sum(y == y[i]) / np.sum(near[i, same] ** 2)
    expected = np.empty(60)
    for label in (0, 1):
        part = raw[y == label]
        centre = np.median(part)
        expected[y == label] = (part - centre) / np.mean(np.abs(part - centre))
    np.testing.assert_allclose(model.outlier_scores(X, y), expected)


def test_an_outlier_has_the_largest_score():
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(0, 0.1, (100, 3)), rng.normal(5, 0.1, (100, 3)), [[2.5, 8.0, -4.0]]]
    y = np.r_[np.zeros(100), np.ones(101)].astype(int)
    model = RandomForestClassifier(200, random_state=0).fit(X, y)
    y_wrong = y.copy()
    y_wrong[0] = 1  # a row in the middle of the other class
    assert model.outlier_scores(X, y_wrong).argmax() == 0


def test_prototypes():
    rng = np.random.default_rng(0)
    # Near enough that the classes are not told apart by every tree: rows differ in proximity.
    X = np.r_[rng.normal(0, 0.8, (60, 2)), rng.normal(3, 0.8, (60, 2))]
    labels = np.repeat(["low", "high"], 60)
    model = RandomForestClassifier(60, random_state=0).fit(X, labels)
    found = model.prototypes(X, labels, n_neighbors=20)
    assert found.labels.tolist() == ["high", "low"]
    np.testing.assert_allclose(found.values, [[3, 3], [0, 0]], atol=0.8)
    assert np.all((found.lower <= found.values) & (found.values <= found.upper))
    assert (labels[found.rows] == found.labels).all()
    # The first by definition: the row with the most rows of its class among its nearest.
    near = model.proximity(X, output="dense")
    nearest = np.array([[j for j in np.argsort(-r, kind="stable")[:20] if r[j] > 0] for r in near],
                       dtype=object)  # fmt: skip
    count = [sum(labels[j] == "high" for j in row) for row in nearest]
    row = int(np.argmax(count))
    assert found.rows[0] == row
    members = [j for j in nearest[row] if labels[j] == "high"]
    np.testing.assert_allclose(found.values[0], np.median(X[members], axis=0))
    two = model.prototypes(X, labels, n_neighbors=20, n_prototypes=2)
    assert len(two.rows) == 4
