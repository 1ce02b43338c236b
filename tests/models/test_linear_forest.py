"""Forests of linear trees."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import hybridtrees
from hybridtrees import LinearForestClassifier, LinearForestRegressor, LinearTreeRegressor
from hybridtrees.models.linear_tree import forest_base


def make(seed=0, n=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = np.where(X[:, 0] > 0, 2 * X[:, 1], -X[:, 2]) + 0.3 * rng.normal(size=n)
    return X, y


def test_one_tree_without_draws_is_a_linear_tree():
    X, y = make()
    options = {"max_depth": 3, "random_state": 0, "pruning": None}
    forest = LinearForestRegressor(1, bootstrap=False, max_features=None, **options).fit(X, y)
    tree = LinearTreeRegressor(**options).fit(X, y)
    np.testing.assert_allclose(forest.predict(X), tree.predict(X), atol=1e-12)
    np.testing.assert_allclose(forest.feature_importances_, tree.feature_importances_, atol=1e-9)


def test_a_bootstrap_sample_is_weights():
    X, y = make()
    forest = LinearForestRegressor(3, max_features=None, max_depth=2, random_state=1).fit(X, y)
    for k in range(3):
        counts = forest._sampler.counts(int(forest._draw_seeds[k])).astype(float)
        tree = LinearTreeRegressor(max_depth=2, candidates="bins")
        # The forest cuts the whole table into bins, a tree those of its rows.
        tree.fit(X, y, counts)
        own = forest.trees_[k]
        assert own.nodes["weight"][0] == counts.sum()
        assert own.nodes["n_samples"][0] == np.count_nonzero(counts)
        mean = forest.predict(X)
    said = np.stack([_values(forest, X, k) for k in range(3)])
    np.testing.assert_allclose(said.mean(axis=0), mean, atol=1e-12)


def _values(forest, X, k):
    return forest._predict_tree(forest._trees, X, k, np.arange(len(X)))[:, 0]


def test_out_of_bag():
    X, y = make()
    forest = LinearForestRegressor(30, oob_score=True, random_state=0).fit(X, y)
    sums, counts = np.zeros(len(y)), np.zeros(len(y))
    for k in range(30):
        out = forest._sampler.counts(int(forest._draw_seeds[k])) == 0
        sums[out] += _values(forest, X[out], k)
        counts[out] += 1
    np.testing.assert_allclose(forest.oob_prediction_, sums / counts, atol=1e-12)
    residual = ((y - sums / counts) ** 2).mean()
    assert forest.oob_score_ == pytest.approx(1 - residual / y.var())
    assert forest.oob_curve_[-1] == pytest.approx(residual)
    assert len(forest.oob_curve_) == 30
    named = LinearForestRegressor(30, oob_score="mae", random_state=0).fit(X, y)
    assert named.oob_score_ == pytest.approx(np.abs(y - sums / counts).mean())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifier(n_classes):
    X, y = make(n=240)
    label = np.array(["a", "b", "c"])[np.digitize(y, [0.0] if n_classes == 2 else [-0.5, 0.5])]
    forest = LinearForestClassifier(8, oob_score=True, random_state=0, max_depth=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        forest.fit(X, label)
    proba = forest.predict_proba(X)
    assert proba.shape == (240, n_classes)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert forest.score(X, label) > 0.85 and forest.oob_score_ > 0.7
    *_, last = forest.staged_predict_proba(X)
    np.testing.assert_allclose(last, proba, atol=1e-12)
    *_, names = forest.staged_predict(X)
    np.testing.assert_array_equal(names, forest.predict(X))
    assert forest.apply(X).shape == (240, 8)


def test_threads_do_not_change_classifiers(monkeypatch):
    """Nor does the limit below which one thread grows them."""
    X, y = make()
    label = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    options = {"n_estimators": 4, "max_depth": 1, "max_bins": 8, "random_state": 0, "n_jobs": 3}
    one = LinearForestClassifier(**options).fit(X, label).predict_proba(X)
    monkeypatch.setattr(forest_base, "_SMALL_TABLE", 0)
    many = LinearForestClassifier(**options).fit(X, label).predict_proba(X)
    np.testing.assert_array_equal(one, many)


def test_warm_start_and_threads():
    X, y = make()
    options = {"random_state": 3, "max_features": 2, "max_depth": 2, "oob_score": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        whole = LinearForestRegressor(6, n_jobs=1, **options).fit(X, y)
        many = LinearForestRegressor(6, n_jobs=3, **options).fit(X, y)
        grown = LinearForestRegressor(2, warm_start=True, **options).fit(X, y)
        grown.set_params(n_estimators=6).fit(X, y)
    for other in (many, grown):
        assert other.trees_.nodes.tobytes() == whole.trees_.nodes.tobytes()
        np.testing.assert_array_equal(other.predict(X), whole.predict(X))
        np.testing.assert_array_equal(other.oob_prediction_, whole.oob_prediction_)
    with pytest.raises(ValueError, match="X, y changed"):
        grown.set_params(n_estimators=7).fit(X[:100], y[:100])
    with pytest.warns(UserWarning, match="Warm-start"):
        grown.set_params(n_estimators=6).fit(X, y)


@pytest.mark.parametrize(
    "change",
    [{"max_samples": 0.5}, {"bootstrap": False}, {"penalty": "lasso"}, {"max_depth": 3}],
    ids=str,
)
def test_warm_start_refuses_other_trees(change):
    X, y = make()
    forest = LinearForestRegressor(2, warm_start=True, random_state=0, max_depth=2).fit(X, y)
    before = forest.predict(X)
    with pytest.raises(ValueError, match=f"{next(iter(change))} changed"):
        forest.set_params(n_estimators=3, **change).fit(X, y)
    forest.set_params(**{name: LinearForestRegressor().get_params()[name] for name in change})
    forest.set_params(max_depth=2)
    for other, weight, name in ((y + 1, None, "y"), (y, np.ones(len(y)), "sample_weight")):
        with pytest.raises(ValueError, match=f"{name} changed"):
            forest.fit(X, other, weight)
    np.testing.assert_array_equal(forest.predict(X), before)
    assert forest.fit(X, y).n_estimators_ == 3


def test_files(tmp_path):
    X, y = make()
    forest = LinearForestRegressor(3, random_state=0, extrapolate="clip").fit(X, y)
    forest.save(tmp_path / "forest.htree")
    for other in (hybridtrees.load(tmp_path / "forest.htree"), pickle.loads(pickle.dumps(forest))):
        np.testing.assert_array_equal(other.predict(X), forest.predict(X))
    assert "trees 3" in forest.summary()


def test_better_than_one_tree():
    X, y = make(n=500)
    Xt, yt = make(1, n=1000)
    tree = LinearTreeRegressor(max_depth=8, pruning=None).fit(X, y)
    forest = LinearForestRegressor(20, max_depth=8, random_state=0).fit(X, y)
    assert forest.score(Xt, yt) > tree.score(Xt, yt)
    importance = forest.feature_importances_
    # Trees split on the first feature, and the lines of the leaves are along the second.
    assert set(np.argsort(importance)[-2:]) == {0, 1} and importance.sum() == pytest.approx(1.0)
    assert (forest.feature_importances_std_ >= 0).all()


def test_automatic_number_of_trees():
    X, y = make(n=120)
    forest = LinearForestRegressor("auto", max_depth=1, random_state=0).fit(X, y)
    assert 60 <= forest.n_estimators_ < 1000


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"n_estimators": 0}, "n_estimators"),
        ({"n_estimators": "some"}, "n_estimators"),
        ({"max_samples": 2.0, "bootstrap": False}, "max_samples"),
        ({"max_samples": 10**12}, "max_samples must be at most"),
        ({"bootstrap": 1}, "bootstrap"),
        ({"oob_score": "auc"}, "oob_score"),
        ({"bootstrap": False, "oob_score": True}, "oob_score"),
        ({"warm_start": "yes"}, "warm_start"),
        ({"penalty": "l1"}, "penalty"),
        ({"extrapolate": None}, "extrapolate"),
    ],
)
def test_bad_values_are_named(options, name):
    X, y = make()
    with pytest.raises((ValueError, TypeError), match=name):
        LinearForestRegressor(**options).fit(X, y)
