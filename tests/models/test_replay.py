"""Replayed trees: the same splits, leaves as a slow refit would make them."""

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees.models.shared.replay import replay


def problem(n, seed=0, missing=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = rng.integers(0, 6, n)
    y = X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + (X[:, 3] > 2) + 0.3 * rng.normal(size=n)
    if missing:
        X[rng.random(n) < 0.1, 2] = np.nan
    return X, y


def classes_of(y, kind):
    return (y > 1).astype(int) if kind == "binary" else np.digitize(y, [0.3, 1.5])


def gradients(kind, raw, y):
    """Gradients and hessians, (n_rows, n_outputs)."""
    if kind == "real":
        return raw - y[:, None], np.ones_like(raw)
    if kind == "binary":
        p = 1 / (1 + np.exp(-raw))
        return p - y[:, None], p * (1 - p)
    e = np.exp(raw - raw.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    hot = np.eye(raw.shape[1])[y]
    return p - hot, np.maximum(2 * p * (1 - p), 1e-16)


def slow_replay(model, kind, X, y, weight, rate, penalty):
    """Raw scores of constant leaves that are refitted round by round."""
    raw = np.tile(model._base_raw_, (len(y), 1))
    leaves = model.apply(X)
    n_outputs = raw.shape[1]
    for index in range(leaves.shape[1]):
        k = index % n_outputs
        if k == 0:
            grad, hess = gradients(kind, raw, y)
        for leaf in np.unique(leaves[:, index]):
            rows = leaves[:, index] == leaf
            w = np.ones(len(y)) if weight is None else weight
            total = (w * hess[:, k])[rows].sum() + penalty
            raw[rows, k] -= rate * (w * grad[:, k])[rows].sum() / total
    return raw


@pytest.mark.parametrize("kind", ["real", "binary", "several"])
@pytest.mark.parametrize("weighted", [False, True])
def test_constant_leaves_equal_a_slow_refit(kind, weighted):
    X, y = problem(400)
    target = y if kind == "real" else classes_of(y, kind)
    rng = np.random.default_rng(1)
    weight = rng.integers(1, 4, 400).astype(float) if weighted else None
    cls = ht.XGBRegressor if kind == "real" else ht.XGBClassifier
    model = cls(n_estimators=12, learning_rate=0.3, max_depth=3, reg_lambda=2.0, random_state=0)
    part = slice(0, 250)
    model.fit(X[part], target[part])
    before = model.apply(X)
    replay(model, X, target, weight)
    assert np.array_equal(model.apply(X), before)  # the same splits
    expected = slow_replay(model, kind, X, target, weight, 0.3, 2.0)
    assert np.allclose(model.predict_raw(X), expected, rtol=1e-4, atol=1e-5)


def test_linear_leaves_equal_a_slow_refit():
    X, y = problem(500, missing=False)
    model = ht.PLGBRegressor(n_estimators=3, max_leaves=4, learning_rate=0.5, reg_lambda=0.7)
    model.fit(X[:300], y[:300])
    old = [model.trees_[i] for i in range(3)]
    replay(model, X, y)
    scale = X.std(axis=0)
    raw = np.full(len(y), y.mean())
    for index, tree in enumerate(old):
        leaves, step = model.apply(X)[:, index], np.zeros(len(y))
        for leaf in np.unique(leaves):
            rows = leaves == leaf
            features = tree.coef_feature[tree.coef_ptr[leaf] : tree.coef_ptr[leaf + 1]]
            Z = X[rows][:, features] / scale[features]
            Z = Z - Z.mean(axis=0)
            residual = (y - raw)[rows]
            slopes = np.linalg.solve(Z.T @ Z + 0.7 * np.eye(Z.shape[1]), Z.T @ residual)
            step[rows] = residual.sum() / (rows.sum() + 0.7) + Z @ slopes
        raw += 0.5 * step
    assert len(old[0].coef_feature) > 0
    assert np.allclose(model.predict(X), raw, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", [ht.XGBRegressor, ht.PLGBRegressor])
def test_the_rows_of_the_fit_change_nothing(family):
    X, y = problem(300)
    model = family(n_estimators=10, learning_rate=0.2).fit(X, y)
    before = model.predict(X)
    replay(model, X, y)
    assert np.allclose(model.predict(X), before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", [ht.XGBClassifier, ht.PLGBClassifier])
def test_any_number_of_threads_gives_the_same_bits(family):
    X, y = problem(900)
    target = classes_of(y, "several")
    found = []
    for n_jobs in (1, 2, 3):
        model = family(n_estimators=6, learning_rate=0.3, n_jobs=n_jobs).fit(X[:500], target[:500])
        replay(model, X, target)
        found.append(model.predict_proba(X))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_rounds_after_the_best_are_dropped():
    X, y = problem(300)
    model = ht.XGBRegressor(n_estimators=200, early_stopping_rounds=5, learning_rate=0.5)
    model.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    assert model.n_iter_ > model.best_iteration + 1
    replay(model, X, y)
    assert model.n_iter_ == model.best_iteration + 1 == len(model.trees_)


def test_leaves_without_rows_stay_as_they_are():
    X, y = problem(300, missing=False)
    model = ht.XGBRegressor(n_estimators=1, max_depth=4).fit(X, y)
    tree = model.trees_[0]
    few = X[:, 0] > 0.5
    leaves = model.apply(X[few])[:, 0]
    replay(model, X[few], y[few])
    gone = np.setdiff1d(np.flatnonzero(tree.nodes["left"] < 0), leaves)
    assert len(gone)
    assert np.array_equal(model.trees_[0].values[gone], tree.values[gone])


def test_what_cannot_be_replayed_is_refused():
    X, y = problem(100, missing=False)
    model = ht.PLGBRegressor(n_estimators=2, objective="reg:absoluteerror").fit(X, y)
    with pytest.raises(ValueError, match="Newton steps"):
        replay(model, X, y)
    model = ht.XGBRegressor(n_estimators=2, monotone_constraints={0: 1}).fit(X, y)
    with pytest.raises(ValueError, match="monotone"):
        replay(model, X, y)
    model = ht.PLGBRegressor(n_estimators=2, refit_leaves=False).fit(X, y)
    with pytest.raises(ValueError, match="composed"):
        replay(model, X, y)


def test_lines_of_leaves_without_rows_stay_as_they_are():
    X, y = problem(400, missing=False)
    y = y + 3 * (X[:, 0] > 0.5) * X[:, 1]
    model = ht.PLGBRegressor(n_estimators=2, max_leaves=12, extrapolation="bounded").fit(X, y)
    old = [model.trees_[i] for i in range(2)]
    few = X[:, 0] > 0.5
    leaves = model.apply(X[few])
    replay(model, X[few], y[few])
    for index, before in enumerate(old):
        after = model.trees_[index]
        has_line = np.diff(before.coef_ptr) > 0
        gone = np.setdiff1d(np.flatnonzero(has_line), leaves[:, index])
        here = np.intersect1d(np.flatnonzero(has_line), leaves[:, index])
        assert len(gone)
        assert len(here)
        for leaf in gone:
            for name in ("coef_feature", "coef", "coef_center", "coef_low", "coef_high"):
                parts = [
                    getattr(tree, name)[tree.coef_ptr[leaf] : tree.coef_ptr[leaf + 1]]
                    for tree in (before, after)
                ]
                assert np.array_equal(*parts)
            assert np.array_equal(after.values[leaf], before.values[leaf])
            assert np.array_equal(after.value_range[leaf], before.value_range[leaf])
        assert any(after.values[leaf] != before.values[leaf] for leaf in here)


def named(n, n_names, seed=0):
    """A column of many names among numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] = rng.integers(0, n_names, n)
    return X, rng.normal(size=n)


@pytest.mark.parametrize("family", [ht.XGBRegressor, ht.PLGBRegressor])
def test_statistics_of_categories_do_not_leak_into_replayed_leaves(family):
    """Names without any effect: leaves must not learn the targets of the rows of a name."""
    X, y = named(1200, 400)
    new, noise = named(1200, 400, seed=1)
    how = {"n_estimators": 30, "learning_rate": 0.2, "max_leaves": 8, "categorical_features": [1]}
    model, fresh = family(**how), family(**how)
    model.fit(X[:900], y[:900])
    assert model._reader.statistics is not None
    replay(model, X, y)
    found = [np.mean((model.predict(new) - noise) ** 2)]
    fresh.fit(X, y)
    found.append(np.mean((fresh.predict(new) - noise) ** 2))
    assert found[0] < 1.03 * found[1]


def test_replayed_statistics_equal_a_slow_refit():
    X, y = named(500, 90)
    y = y + np.random.default_rng(2).normal(size=90)[X[:, 1].astype(int)]
    X[450:460, 1] = 95  # a name that the first rows lack
    weight = np.random.default_rng(3).integers(1, 4, 500).astype(float)
    model = ht.XGBRegressor(n_estimators=8, max_depth=3, categorical_features=[1])
    model.fit(X[:400], y[:400], sample_weight=weight[:400])
    replay(model, X, y, weight)
    statistics = model._reader.statistics
    labels = np.unique(X[:, 1])
    assert len(statistics.table) == len(labels) + 1
    for code, label in enumerate(labels):
        own = X[:, 1] == label
        # A row of mean weight with the mean of all rows is added.
        mean = np.average(y, weights=weight)
        total = np.sum((weight * y)[own]) + weight.mean() * mean
        slow = total / (weight[own].sum() + weight.mean())
        assert np.isclose(statistics.table[code + 1], slow)
    codes = X.copy()
    codes[:, 1] = np.searchsorted(labels, X[:, 1])
    values = statistics.order(codes, y, 0, weight)
    leaves = model.trees_.apply(values, 1, 0, len(model.trees_))
    raw = np.full(500, np.average(y, weights=weight))
    for index in range(leaves.shape[1]):
        step = np.zeros(500)
        for leaf in np.unique(leaves[:, index]):
            rows = leaves[:, index] == leaf
            step[rows] = np.sum((weight * (y - raw))[rows]) / (weight[rows].sum() + 1.0)
            assert np.isclose(model.trees_[index].values[leaf, 0], 0.3 * step[rows][0], atol=1e-5)
        raw += 0.3 * step
