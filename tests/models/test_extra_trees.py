"""Forests and trees whose thresholds are drawn: against NumPy, against scikit-learn, options."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn import ensemble

import hybridtrees as ht

RNG = np.random.default_rng(0)
X = RNG.integers(0, 40, size=(300, 4)).astype(float)
Y = np.sin(X[:, 0] / 6) + (X[:, 1] > 20) + 0.3 * RNG.normal(size=300)
CLASSES = np.digitize(Y, [0.0, 1.0])


def stumps(x, y, n, **params):
    """Roots of trees of two leaves that are grown with different seeds."""
    roots = []
    for seed in range(n):
        tree = ht.CARTRegressor(splitter="random", max_depth=1, random_state=seed, **params)
        roots.append(tree.fit(x, y).tree_.nodes[0])
    return np.array(roots)


def test_thresholds_are_uniform_between_the_smallest_and_the_largest_value():
    x = np.array([0.0, 1.0, 2.0, 4.0, 10.0])
    roots = stumps(x[:, None], np.array([1.0, 3.0, 2.0, 7.0, 5.0]), 2000)
    drawn = np.sort(roots["threshold"])
    assert drawn[0] >= 0
    assert drawn[-1] < 10
    # Kolmogorov's distance; of 2000 uniform numbers it exceeds this once in 10,000 draws.
    assert np.abs(drawn / 10 - np.arange(1, 2001) / 2000).max() < 0.05


def test_thresholds_do_not_fall_into_a_bin():
    x = np.sort(np.random.default_rng(1).lognormal(size=500))
    for seed in range(20):
        tree = ht.CARTRegressor(
            splitter="random", max_bins=8, random_state=seed, min_samples_leaf=3
        )
        model = tree.fit(x[:, None], np.cos(x))
        nodes = model.tree_.nodes
        leaf = model.apply(x[:, None])
        ends = nodes["left"] < 0
        assert np.array_equal(np.bincount(leaf, minlength=len(nodes))[ends],
                              nodes["n_samples"][ends])  # fmt: skip


def best_of_drawn(rng, x, y):
    """The feature that one node of a tree takes, by the paper."""
    gains = []
    for column in x.T:
        left = column <= rng.uniform(column.min(), column.max())
        gains.append(left.mean() * (1 - left.mean()) * (y[left].mean() - y[~left].mean()) ** 2)
    return int(np.argmax(gains))


def test_features_are_taken_as_often_as_in_numpy():
    x, y = X[:60, :3], Y[:60]
    rng = np.random.default_rng(5)
    expected = np.bincount([best_of_drawn(rng, x, y) for _ in range(4000)], minlength=3) / 4000
    found = np.bincount(stumps(x, y, 1500)["feature"], minlength=3) / 1500
    assert np.abs(found - expected).max() < 0.06
    assert np.count_nonzero(expected) > 1


@pytest.mark.parametrize("criterion", ["squared_error", "poisson"])
def test_nodes_of_a_grown_tree(criterion):
    y = np.round(np.exp(Y))
    tree = ht.CARTRegressor(criterion=criterion, splitter="random", random_state=1).fit(X, y).tree_
    rows = {0: np.arange(len(X))}
    for node in range(tree.n_nodes):
        inside = rows[node]
        assert tree.nodes["n_samples"][node] == len(inside)
        assert np.isclose(tree.values[node, 0], y[inside].mean())
        if tree.nodes["left"][node] < 0:
            continue
        column = X[inside, tree.nodes["feature"][node]]
        threshold = tree.nodes["threshold"][node]
        assert column.min() <= threshold < column.max()
        rows[tree.nodes["left"][node]] = inside[column <= threshold]
        rows[tree.nodes["right"][node]] = inside[column > threshold]
    assert tree.n_leaves > 30


@pytest.mark.parametrize("criterion", ["gini", "entropy", "misclassification"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes(criterion, n_classes):
    y = np.minimum(CLASSES, n_classes - 1)
    params = dict(n_estimators=20, random_state=0, criterion=criterion, min_samples_leaf=2)
    model = ht.ExtraTreesClassifier(**params).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.7
    tree = model[0].tree_
    leaf = model.apply(X[:200])[:, 0]
    for k in np.unique(leaf):
        shares = np.bincount(y[:200][leaf == k], minlength=n_classes) / np.sum(leaf == k)
        assert np.allclose(tree.value[k, 0], shares)
        assert np.sum(leaf == k) >= 2


def test_a_row_twice_is_a_row_of_weight_two():
    weight = np.where(np.arange(300) % 3 == 0, 2, 1)
    twice = np.repeat(np.arange(300), weight)
    params = dict(splitter="random", random_state=3)
    for make, y in ((ht.CARTRegressor, Y), (ht.CARTClassifier, CLASSES)):
        weighted = make(**params).fit(X, y, weight)
        repeated = make(**params).fit(X[twice], y[twice])
        assert np.allclose(weighted.tree_.threshold, repeated.tree_.threshold)
        assert np.allclose(weighted.tree_.value, repeated.tree_.value)


@pytest.mark.parametrize("make", [ht.ExtraTreesRegressor, ht.ExtraTreesClassifier])
def test_bits_do_not_depend_on_threads(make):
    y = CLASSES if make is ht.ExtraTreesClassifier else np.column_stack([Y, X[:, 2]])
    trees = [make(10, random_state=0, n_jobs=n).fit(X, y).trees_ for n in (1, 2, 3)]
    for other in trees[1:]:
        assert trees[0].nodes.tobytes() == other.nodes.tobytes()
    params = make(10, random_state=1).fit(X, y).trees_
    assert params.nodes.tobytes() != trees[0].nodes.tobytes()


def test_categories_missing_values_and_sparse_tables():
    colour = np.array(["red", "blue", "green", "white"])[X[:, 3].astype(int) % 4]
    number = np.where(X[:, 0] < 5, np.nan, X[:, 0])
    table = pd.DataFrame({"number": number, "colour": colour, "other": X[:, 1]})
    y = Y + (colour == "red") + np.isnan(number)
    for missing in ("learn", "stop"):
        params = dict(n_estimators=30, random_state=0, missing=missing, bootstrap=True)
        model = ht.ExtraTreesRegressor(**params, oob_score=True).fit(table, y)
        assert model.oob_score_ > 0.5
    assert np.all(model.feature_importances_ > 0.05)
    holes = np.where(X < 25, 0.0, X)
    dense = ht.ExtraTreesRegressor(5, random_state=0).fit(holes, Y)
    sparse = ht.ExtraTreesRegressor(5, random_state=0).fit(scipy.sparse.csr_array(holes), Y)
    assert np.array_equal(dense.predict(holes), sparse.predict(holes))


def test_limits_and_constraints():
    model = ht.ExtraTreesRegressor(10, random_state=0, max_leaf_nodes=7, min_samples_leaf=9)
    model.fit(X, Y)
    for tree in model.trees_:
        assert tree.n_leaves == 7
        assert tree.nodes["n_samples"].min() >= 9
    rising = ht.ExtraTreesRegressor(10, random_state=0, monotonic_cst={0: -1}).fit(X, Y)
    grid = np.repeat(X[:1], 40, axis=0)
    grid[:, 0] = np.arange(40)
    assert np.all(np.diff(rising.predict(grid)) <= 0)
    with pytest.raises(ValueError, match="criterion='absolute_error' needs splitter='exact'"):
        ht.ExtraTreesRegressor(criterion="absolute_error").fit(X, Y)


@pytest.mark.peer
@pytest.mark.parametrize("max_features", ["sqrt", 1.0])
def test_scores_are_those_of_scikit_learn(max_features):
    gaps = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.uniform(size=(1200, 8))
        y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3]
        y = y + rng.normal(size=1200)
        params = dict(n_estimators=40, random_state=seed, max_features=max_features)
        scores = [
            library.ExtraTreesRegressor(**params).fit(x[:600], y[:600]).score(x[600:], y[600:])
            for library in (ht, ensemble)
        ]
        gaps.append(scores[0] - scores[1])
    # Means of 40 trees with other seeds differ by about 0.005 within one library.
    assert abs(np.mean(gaps)) < 0.012


@pytest.mark.peer
def test_parameters_of_scikit_learn_are_taken():
    for name in ("ExtraTreesRegressor", "ExtraTreesClassifier"):
        params = getattr(ensemble, name)().get_params()
        model = getattr(ht, name)(**params)
        assert model.get_params().items() >= params.items()
