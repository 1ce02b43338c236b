"""LinearTreeClassifier: leaves, criteria, absent classes."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees import LinearTreeClassifier, LinearTreeRegressor, LogisticClassifier


def make(seed=0, n=600, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = np.where(X[:, 0] > 0, 2 * X[:, 1], -2 * X[:, 1] + X[:, 2])
    if n_classes == 2:
        return X, (score + rng.logistic(size=n) > 0).astype(int)
    return X, np.digitize(score + 0.5 * rng.logistic(size=n), [-1.0, 1.0])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("penalty", [None, "ridge", "lasso"])
def test_leaves_are_logistic_regressions(n_classes, penalty):
    X, y = make(n_classes=n_classes)
    options = {"penalty": penalty, "alpha": 0.01}
    model = LinearTreeClassifier(max_depth=1, extrapolate="linear", **options).fit(X, y)
    leaves = model.apply(X)
    assert model.get_n_leaves() == 2
    assert model.tree_.nodes["feature"][0] == 0
    assert abs(model.tree_.nodes["threshold"][0]) < 0.15
    for leaf in np.unique(leaves):
        rows = leaves == leaf
        line = LogisticClassifier(**options).fit(X[rows], y[rows])
        np.testing.assert_allclose(
            model.predict_proba(X[rows]), line.predict_proba(X[rows]), atol=1e-5
        )


@pytest.mark.parametrize("criterion", ["log_loss", "gini", "misclassification"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_criteria(criterion, n_classes):
    """The impurity is the criterion, and the quick ranking is about as good as fitting all."""
    X, y = make(1, n_classes=n_classes)
    options = {"criterion": criterion, "max_depth": 1, "max_bins": 16}
    quick = LinearTreeClassifier(**options).fit(X, y)
    exact = LinearTreeClassifier(search="exact", **options).fit(X, y)
    proba = quick.predict_proba(X)
    own = proba[np.arange(len(y)), y]
    expected = {
        "log_loss": -np.log(own).mean(),
        "gini": ((proba - np.eye(n_classes)[y]) ** 2).sum(axis=1).mean(),
        "misclassification": np.mean(quick.predict(X) != y),
    }[criterion]
    table = quick.leaf_table()
    assert table.loss @ table.n_samples / len(y) == pytest.approx(expected, rel=1e-6)
    gains = [model.tree_.nodes["gain"][0] for model in (quick, exact)]
    assert 0.95 * gains[1] <= gains[0] <= gains[1] + 1e-6
    assert gains[1] > 0


def test_classes_that_a_leaf_lacks():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 2))
    y = np.where(X[:, 0] < 0, "a", np.where(X[:, 1] + 0.3 * rng.normal(size=400) > 0, "b", "c"))
    model = LinearTreeClassifier(max_depth=1, split_features=[0]).fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert model.score(X, y) > 0.9
    right = X[:, 0] > model.tree_.nodes["threshold"][0]
    assert 0 < proba[right, 0].max() < 0.2
    assert proba[~right, 0].min() > 0.8
    summary = model.summary(only_leaves=True)
    assert sorted(len(node["classes"]) for node in summary.values())[-1] >= 2


def test_one_class_only():
    X, _ = make()
    model = LinearTreeClassifier().fit(X, np.full(len(X), "only"))
    assert set(model.predict(X)) == {"only"}
    assert model.predict_proba(X).shape == (len(X), 1)


def test_separable_classes_stay_finite():
    X = np.linspace(-1, 1, 80)[:, None]
    for penalty in (None, "ridge"):
        model = LinearTreeClassifier(penalty=penalty).fit(X, X[:, 0] > 0.1)
        assert np.isfinite(model.decision_function(X)).all()
        assert model.score(X, X[:, 0] > 0.1) == 1.0


def test_bounded_scores():
    X, y = make(3)
    model = LinearTreeClassifier(max_depth=2, bound_factor=0.0).fit(X, y)
    seen = model.decision_function(X)
    far = model.decision_function(100 * X)
    assert far.min() >= seen.min() - 1e-9 and far.max() <= seen.max() + 1e-9
    free = LinearTreeClassifier(max_depth=2, extrapolate="linear").fit(X, y)
    assert np.abs(free.decision_function(100 * X)).max() > 10 * np.abs(seen).max()


def test_weights():
    X, y = make(4)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    model = LinearTreeClassifier(max_depth=1, extrapolate="linear").fit(X, y, weight)
    leaves = model.apply(X)
    for leaf in np.unique(leaves):
        rows = (leaves == leaf) & (weight > 0)
        line = LogisticClassifier(penalty="ridge").fit(X[rows], y[rows], weight[rows])
        np.testing.assert_allclose(
            model.predict_proba(X[rows]), line.predict_proba(X[rows]), atol=1e-6
        )


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_regressors_that_a_leaf_does_not_vary(n_classes):
    """They have no coefficient; what they would add is in the intercept."""
    rng = np.random.default_rng(7)
    X = np.column_stack([rng.integers(0, 2, 300), rng.normal(size=(300, 2))]).astype(float)
    score = np.where(X[:, 0] > 0, 3 * X[:, 1], -3 * X[:, 1]) + rng.logistic(size=300)
    options = {"max_depth": 1, "split_features": [0], "extrapolate": "linear", "pruning": None}
    if n_classes:
        y = np.digitize(score, [0.0] if n_classes == 2 else [-1.0, 1.0])
        model = LinearTreeClassifier(**options).fit(X, y)
    else:
        model = LinearTreeRegressor(criterion="absolute_error", **options).fit(X, score)
    assert model.get_n_leaves() == 2
    assert not model.leaf_table().coef[:, :, 0].any()
    assert model.leaf_table().coef[:, :, 1].all()
    if n_classes:
        for side in (0, 1):
            rows = X[:, 0] == side
            line = LogisticClassifier(penalty="ridge").fit(X[rows], y[rows])
            expected = line.predict_proba(X[rows])
            np.testing.assert_allclose(model.predict_proba(X[rows]), expected, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_first_of_equal_cuts_in_a_full_search(seed):
    """Counts of errors are often equal; linear-tree takes the first feature, and its first cut."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 2))
    y = (np.where(X[:, 0] > 0.2, 2 * X[:, 1], -X[:, 1]) + rng.logistic(size=90) > 0).astype(int)
    options = {"criterion": "misclassification", "search": "exact", "candidates": "quantiles"}
    model = LinearTreeClassifier(
        max_depth=1, max_bins=9, min_samples_leaf=15, pruning=None, alpha=0.1, **options
    ).fit(X, y)
    best = None
    for f in range(2):
        for cut in np.quantile(X[:, f], np.linspace(0, 1, 9)[1:-1]):
            left = X[:, f] <= cut
            if min(left.sum(), (~left).sum()) < 15:
                continue
            wrong = sum(
                np.count_nonzero(
                    LogisticClassifier(alpha=0.1).fit(X[s], y[s]).predict(X[s]) != y[s]
                )
                for s in (left, ~left)
            )
            if best is None or wrong < best[0]:
                best = wrong, f, cut
    root = model.tree_.nodes[0]
    assert (root["feature"], root["threshold"]) == (best[1], pytest.approx(best[2]))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_smoothed_scores(n_classes):
    """Scores of a leaf are pulled towards those of the nodes above, by the rows of each."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 3))
    score = np.where(X[:, 0] > 0.2, 2 * X[:, 1], -X[:, 1] + X[:, 2]) + rng.logistic(size=300)
    y = np.digitize(score, [0.0] if n_classes == 2 else [-0.7, 0.7])
    options = {"max_depth": 2, "extrapolate": "linear", "pruning": None}
    plain = LinearTreeClassifier(**options).fit(X, y)
    smooth = LinearTreeClassifier(smoothing=25.0, **options).fit(X, y)
    tree, leaves = plain.tree_, plain.apply(X)
    assert tree.depth == 2

    def scores(node, row):
        own = slice(tree.coef_ptr[node], tree.coef_ptr[node + 1])
        away = row[tree.coef_feature[own]] - tree.coef_center[own]
        return tree.values[node] + away @ tree.coef[own]

    expected = np.empty_like(plain.predict_raw(X))
    for i, row in enumerate(X):
        node = int(leaves[i])
        expected[i] = scores(node, row)
        while tree.nodes["parent"][node] >= 0:
            up, n = int(tree.nodes["parent"][node]), tree.nodes["n_samples"][node]
            expected[i] = (n * expected[i] + 25.0 * scores(up, row)) / (n + 25.0)
            node = up
    np.testing.assert_allclose(smooth.predict_raw(X), expected, atol=1e-9)
    assert np.abs(expected - plain.predict_raw(X)).max() > 0.1
