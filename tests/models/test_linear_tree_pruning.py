"""Pruning of linear trees by an information criterion."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hybridtrees import (
    LinearForestClassifier,
    LinearForestRegressor,
    LinearRegressor,
    LinearTreeClassifier,
    LinearTreeRegressor,
    LogisticClassifier,
)
from hybridtrees.models.linear_tree.growing import LinearTreeGrower


def make(seed=0, n=400, p=3, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    slopes = np.where(X[:, :1] > 0.3, 2.0 - np.arange(p), 1.0 * np.arange(p))
    return X, (X * slopes).sum(axis=1) + noise * rng.normal(size=n)


@pytest.mark.parametrize("criterion", ["squared_error", "absolute_error"])
@pytest.mark.parametrize("penalty", [None, "ridge", "lasso"])
def test_a_linear_truth_with_noise_is_one_leaf(criterion, penalty):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = X @ [1.0, -2.0, 0.0, 3.0] + 5 + rng.normal(size=400)
    options = {"criterion": criterion, "penalty": penalty, "alpha": 0.01, "max_depth": 3}
    assert LinearTreeRegressor(**options).fit(X, y).get_n_leaves() == 1
    assert LinearTreeRegressor(pruning=None, **options).fit(X, y).get_n_leaves() > 2


@pytest.mark.parametrize("criterion", ["log_loss", "gini", "misclassification"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_truths(criterion, n_classes):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 3))
    X[:, 0] = np.round(X[:, 0], 1) + 0.05  # the true cut is a candidate
    options = {"criterion": criterion, "max_depth": 2}
    cuts = [0.0] if n_classes == 2 else [-1.0, 1.0]
    plain = np.digitize(X @ [2.0, -1.0, 0.5] + rng.logistic(size=600), cuts)
    assert LinearTreeClassifier(**options).fit(X, plain).get_n_leaves() == 1
    bent = np.where(X[:, 0] > 0, 4 * X[:, 1], -4 * X[:, 1]) + 0.5 * rng.logistic(size=600)
    model = LinearTreeClassifier(**options).fit(X, np.digitize(bent, cuts))
    assert model.get_n_leaves() == 2 and model.tree_.nodes["feature"][0] == 0


@pytest.mark.parametrize("name", ["bic", "aic"])
@pytest.mark.parametrize("kind", ["squared", "absolute", "logistic"])
def test_no_branch_is_worth_its_price(name, kind):
    """The criterion, from fits to the rows of every node, against what pruning left."""
    X, y = make(2, n=300, noise=1.5)
    options = {"penalty": None, "max_depth": 3, "extrapolate": "linear", "pruning": None}
    if kind == "absolute":
        options["criterion"] = "absolute_error"
    if kind == "logistic":
        y = (y > 0).astype(int)
        options |= {"penalty": "ridge", "alpha": 1e-9, "min_samples_leaf": 40}
    make_tree = LinearTreeClassifier if kind == "logistic" else LinearTreeRegressor
    whole = make_tree(**options).fit(X, y)
    pruned = make_tree(**{**options, "pruning": name}).fit(X, y)
    nodes, path = whole.tree_.nodes, whole.decision_path(X).toarray().astype(bool)
    price = 2.0 if name == "aic" else math.log(len(y))

    def loss(rows):
        if kind == "squared":
            return (LinearRegressor().fit(X[rows], y[rows]).predict(X[rows]) - y[rows]) ** 2
        if kind == "absolute":
            own = make_tree(**{**options, "max_depth": 1, "min_samples_leaf": 299})
            return np.abs(own.fit(X[rows], y[rows]).predict(X[rows]) - y[rows])
        line = LogisticClassifier(alpha=1e-9).fit(X[rows], y[rows])
        return -np.log(line.predict_proba(X[rows])[np.arange(rows.sum()), y[rows]])

    def cost(n, total, size):
        if kind == "logistic":
            return 2 * n * total / (n - size) + price * size
        return (1 + (kind == "absolute")) * n * math.log(total / (n - size)) + price * size

    def best(node):
        """Leaves, loss and coefficients of the branch that the criterion likes best."""
        n, own = path[:, node].sum(), (1, loss(path[:, node]).sum(), 4)
        if nodes["left"][node] < 0:
            return own
        left, right = best(nodes["left"][node]), best(nodes["right"][node])
        both = left[0] + right[0], left[1] + right[1], left[2] + right[2] + 1
        return both if cost(n, *both[1:]) < cost(n, *own[1:]) else own

    assert pruned.get_n_leaves() == best(0)[0] < whole.get_n_leaves()


def root_size(model, X, y):
    """Return the coefficients that the model of the root counts for."""
    from hybridtrees.models.linear_tree import information

    found = {}
    original = information._sizes

    def watch(grown, grower, weight, n_outputs):
        assert isinstance(grower, LinearTreeGrower)
        sizes = original(grown, grower, weight, n_outputs)
        found["root"] = sizes[0]
        return sizes

    information._sizes = watch
    try:
        model.fit(X, y)
    finally:
        information._sizes = original
    return found["root"]


def test_coefficients_that_count():
    """A penalty, dependent and constant columns take coefficients away."""
    X, y = make(3, n=200)

    def root(table, **options):
        return root_size(LinearTreeRegressor(max_depth=1, **options), table, y)

    assert root(X, penalty=None) == pytest.approx(4.0, abs=1e-6)
    twice = np.column_stack([X, X[:, 0], np.ones(200), X[:, 1] - X[:, 2]])
    assert root(twice, penalty=None) == pytest.approx(4.0, abs=1e-4)
    corr = np.linalg.eigvalsh(np.corrcoef(X.T))
    assert root(X, alpha=0.7) == pytest.approx(1 + (corr / (corr + 0.7)).sum(), abs=1e-6)
    raw = np.linalg.eigvalsh(np.cov(X.T, bias=True) * 200)
    ridge = {"alpha": 50.0, "standardize": False, "alpha_scaling": "sum"}
    assert root(X, **ridge) == pytest.approx(1 + (raw / (raw + 50.0)).sum(), abs=1e-6)


def test_coefficients_that_tell_classes_apart_are_not_free():
    """The nearer a fit is to certainty, the less it curves the loss: that must not count."""
    X, _ = make(3, n=200)
    score = X @ [3.0, 2.0, -1.0]
    options = {"max_depth": 1, "alpha": 1e-3, "min_samples_leaf": 20}
    two = (score > 0).astype(int)
    corr = np.linalg.eigvalsh(np.corrcoef(X.T)) * two.var()
    expected = 1 + (corr / (corr + 1e-3)).sum()
    assert root_size(LinearTreeClassifier(**options), X, two) == pytest.approx(expected, rel=1e-6)
    three = np.digitize(score, [-2.0, 2.0])
    assert 7.5 < root_size(LinearTreeClassifier(**options), X, three) < 8


def test_weights_are_relative():
    X, y = make(4)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    one = LinearTreeRegressor(max_depth=3).fit(X, y, weight)
    other = LinearTreeRegressor(max_depth=3).fit(X, y, weight * 1e-6)
    assert one.get_n_leaves() == other.get_n_leaves() > 1
    labels = LinearTreeClassifier(max_depth=2).fit(X, y > 0, weight)
    assert (
        LinearTreeClassifier(max_depth=2).fit(X, y > 0, weight * 1e6).get_n_leaves()
        == labels.get_n_leaves()
        > 1
    )


def test_whole_weights_are_repeated_rows():
    """Eight times the rows make a split worth its price that once the rows does not."""
    X, y = make(9, n=60, noise=3.0)
    options = {"max_depth": 1, "candidates": "quantiles", "split_features": [0]}
    leaves = [
        LinearTreeRegressor(**options).fit(*table).get_n_leaves()
        for table in (
            (X, y),
            (X, y, np.full(60, 0.5)),
            (X, y, np.full(60, 8.0)),
            (np.repeat(X, 8, axis=0), np.repeat(y, 8)),
        )
    ]
    assert leaves == [1, 1, 2, 2]


def test_which_pruning():
    X, y = make(5, noise=2.0)
    leaves = {
        name: LinearTreeRegressor(max_depth=4, **options).fit(X, y).get_n_leaves()
        for name, options in {
            "default": {},
            "bic": {"pruning": "bic"},
            "none": {"pruning": None},
            "cost": {"ccp_alpha": 1e-9},
            "both": {"ccp_alpha": 1e-9, "pruning": "bic"},
        }.items()
    }
    assert leaves["default"] == leaves["bic"] == leaves["both"] < leaves["cost"] == leaves["none"]
    with pytest.raises(ValueError, match="pruning"):
        LinearTreeRegressor(pruning="mdl").fit(X, y)
    for value in (0, True, ["bic"]):
        with pytest.raises((ValueError, TypeError), match="pruning"):
            LinearForestRegressor(2, pruning=value).fit(X, y)


def leaves_of(forest):
    return np.mean([forest.trees_[k].n_leaves for k in range(len(forest.trees_))])


def test_trees_of_a_forest():
    X, y = make(6, noise=3.0)
    options = {"n_estimators": 10, "random_state": 0, "max_depth": 4}
    leaves = [
        leaves_of(LinearForestRegressor(pruning=pruning, **options).fit(X, y))
        for pruning in (None, "auto", "bic")
    ]
    assert 1 <= leaves[2] < leaves[1] < leaves[0]


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_repeated_draws_of_a_row_are_no_evidence(n_classes):
    """Of a linear truth a forest keeps next to no splits, like a tree; of a bent one it does."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5))
    noise = rng.logistic(size=500)
    y = X @ [1.0, 2.0, -1.0, 0.0, 0.5] + noise
    bent = np.where(X[:, 0] > 0, 4 * X[:, 1], -4 * X[:, 1]) + noise
    if n_classes:
        cuts = [0.0] if n_classes == 2 else [-1.0, 1.0]
        y, bent = np.digitize(y, cuts), np.digitize(bent, cuts)
    model = LinearForestClassifier if n_classes else LinearForestRegressor
    options = {"n_estimators": 6, "max_depth": 4, "random_state": 0, "max_bins": 64}
    assert leaves_of(model(pruning=None, **options).fit(X, y)) > 8
    assert leaves_of(model(**options).fit(X, y)) < 2.5
    assert 2 <= leaves_of(model(**options).fit(X, bent)) < 6


def test_whole_weights_without_a_bootstrap_are_repeated_rows():
    X, y = make(9, n=60, noise=3.0)
    options = {"max_depth": 1, "split_features": [0], "pruning": "bic", "bootstrap": False}
    for weight, n_leaves in ((None, 1), (np.full(60, 8.0), 2)):
        assert leaves_of(LinearForestRegressor(1, **options).fit(X, y, weight)) == n_leaves
