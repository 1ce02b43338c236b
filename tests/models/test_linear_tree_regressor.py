"""LinearTreeRegressor: exact pieces, invariances, leaves, extrapolation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hybridtrees import LinearRegressor, LinearTreeClassifier, LinearTreeRegressor

REFERENCE = json.loads(
    Path(__file__).parents[1].joinpath("data", "linear_tree_reference.json").read_text()
)
# The penalties of scikit-learn's models in our terms.
PENALTIES = {
    "ridge": {"penalty": "ridge", "alpha": 3.0, "alpha_scaling": "sum"},
    "lasso": {"penalty": "lasso", "alpha": 20.0},
    "elasticnet": {"penalty": "elasticnet", "alpha": 0.5, "l1_ratio": 0.3},
    "logistic": {"penalty": "ridge", "alpha": 2.0, "alpha_scaling": "sum", "search": "exact"},
}


def make(seed=0, n=400, p=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = np.where(X[:, 0] > 0.3, X @ np.arange(1, p + 1), -2 * X[:, 1]) + 0.2 * rng.normal(size=n)
    return X, y


@pytest.mark.parametrize("name", REFERENCE["cases"])
def test_trees_of_linear_tree(name):
    """Hidden defaults of linear-tree, its candidates: its trees, node by node."""
    case = REFERENCE["cases"][name]
    X, weight = np.array(REFERENCE["X"]), None
    options = {
        "penalty": None,
        "standardize": False,
        "max_bins": 25,
        "candidates": "quantiles",
        "min_samples_leaf": 0.1,
        "extrapolate": "linear",
        "pruning": None,
        **PENALTIES.get(name, {}),
        **case["options"],
    }
    kind = LinearTreeClassifier if name == "logistic" else LinearTreeRegressor
    y = np.array(REFERENCE["label" if name == "logistic" else "y"])
    if name == "weighted":
        weight = np.array(REFERENCE["weight"])
    model = kind(**options).fit(X, y, weight)

    def walk(nodes, number, kind):
        node = nodes[kind(number)]
        if "children" not in node:
            return [(node["samples"], round(node["loss"], 2))]
        own = (node["col"], round(node["th"], 5), node["samples"])
        left, right = node["children"]
        return [own, *walk(nodes, left, kind), *walk(nodes, right, kind)]

    ours, theirs = walk(model.summary(), 0, int), walk(case["nodes"], 0, str)
    assert [node[:-1] for node in ours] == [node[:-1] for node in theirs]
    assert len(ours) > 3
    if name != "logistic":  # a leaf of one class is certain there, and nearly so here
        np.testing.assert_allclose([n[-1] for n in ours], [n[-1] for n in theirs], atol=0.02)
        found = model.predict(X[:20])
        np.testing.assert_allclose(found, case["predictions"], rtol=1e-5, atol=1e-3)


def test_pieces_are_recovered():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(600, 3))
    X[:, 0] = np.round(X[:, 0], 1)
    slopes = {0: [1.0, 2, 3], 1: [-4.0, 0.5, 0], 2: [0.3, -2, 5]}
    region = np.where(X[:, 0] <= -0.3, 0, np.where(X[:, 0] <= 0.4, 1, 2))
    y = np.array([X[i] @ slopes[r] + 2.0 * r for i, r in enumerate(region)])
    model = LinearTreeRegressor(penalty=None, max_bins=64).fit(X, y)
    assert model.get_n_leaves() == 3
    np.testing.assert_allclose(model.predict(X), y, atol=1e-8)
    thresholds = np.sort(model.tree_.nodes["threshold"][model.tree_.nodes["left"] >= 0])
    assert -0.3 <= thresholds[0] < -0.2 and 0.4 <= thresholds[1] < 0.5
    for i, leaf in enumerate(model.apply(X)):
        own = np.flatnonzero(model.leaf_table().leaves == leaf)[0]
        np.testing.assert_allclose(
            model.leaf_table().coef[own, 0], slopes[int(region[i])], atol=1e-8
        )
        if i > 5:
            break


@pytest.mark.parametrize("penalty", [None, "ridge"])
def test_a_linear_truth_needs_one_leaf(penalty):
    X, _ = make()
    model = LinearTreeRegressor(penalty=penalty, alpha=0.0).fit(X, X @ [3.0, -1, 0.5] + 7)
    assert model.get_n_leaves() == 1
    np.testing.assert_allclose(model.predict(X), X @ [3.0, -1, 0.5] + 7, atol=1e-10)


@pytest.mark.parametrize("penalty", [None, "ridge", "lasso"])
@pytest.mark.parametrize(
    ("x_scale", "x_shift", "y_scale", "y_shift"),
    [
        (1e6, 0, 1, 0),
        (1e-6, 0, 1, 0),
        (1, 1e6, 1, 0),
        (1, 0, 1e6, 0),
        (1, 0, 1e-6, 0),
        (1, 0, 1, 1e6),
    ],
)
def test_units_do_not_matter(penalty, x_scale, x_shift, y_scale, y_shift):
    X, y = make(1)
    alpha = 0.05
    options = {"penalty": penalty, "max_depth": 3, "pruning": None}
    first = LinearTreeRegressor(alpha=alpha, **options).fit(X, y)
    # An L1 penalty is in units of the target.
    if penalty == "lasso":
        alpha *= y_scale
    other = LinearTreeRegressor(alpha=alpha, **options)
    other.fit(X * x_scale + x_shift, y * y_scale + y_shift)
    assert first.get_n_leaves() > 2
    for name in ("feature", "left", "n_samples"):
        np.testing.assert_array_equal(first.tree_.nodes[name], other.tree_.nodes[name])
    found = (other.predict(X * x_scale + x_shift) - y_shift) / y_scale
    np.testing.assert_allclose(found, first.predict(X), atol=2e-7)
    for model, scale, shift, y_own in ((first, 1, 0, y), (other, x_scale, x_shift, None)):
        y_own = y * y_scale + y_shift if y_own is None else y_own
        model.set_params(pruning="bic").fit(X * scale + shift, y_own)
    assert first.get_n_leaves() == other.get_n_leaves() > 1


@pytest.mark.parametrize("penalty", [None, "ridge", "lasso", "elasticnet"])
@pytest.mark.parametrize("weighted", [False, True])
def test_leaves_are_linear_regressions(penalty, weighted):
    X, y = make(2, p=4)
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float) if weighted else None
    options = {"penalty": penalty, "alpha": 0.02, "l1_ratio": 0.4}
    model = LinearTreeRegressor(max_depth=2, extrapolate="linear", pruning=None, **options)
    model.fit(X, y, weight)
    leaves = model.apply(X)
    assert len(np.unique(leaves)) == model.get_n_leaves() > 2
    for leaf in np.unique(leaves):
        rows = leaves == leaf
        own = None if weight is None else weight[rows]
        line = LinearRegressor(**options).fit(X[rows], y[rows], own)
        np.testing.assert_allclose(model.predict(X[rows]), line.predict(X[rows]), atol=1e-7)


def test_dependent_and_constant_columns():
    X, y = make(3)
    plain = LinearTreeRegressor(penalty=None, max_depth=2, pruning=None).fit(X, y)
    wide = np.column_stack([X, X[:, 1], np.full(len(X), 3.0), X[:, 0] + X[:, 2]])
    model = LinearTreeRegressor(
        penalty=None,
        max_depth=2,
        min_samples_leaf=plain.tree_.nodes["n_samples"].min(),
        pruning=None,
    )
    model.fit(wide, y)
    assert np.isfinite(model.leaf_table().coef).all()
    same = LinearTreeRegressor(**{**model.get_params(), "split_features": [0, 1, 2]}).fit(wide, y)
    basic = LinearTreeRegressor(**model.get_params()).fit(X, y)
    np.testing.assert_allclose(same.predict(wide), basic.predict(X), atol=1e-8)


@pytest.mark.parametrize("penalty", [None, "ridge", "lasso"])
def test_fewer_rows_than_columns(penalty):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(12, 20))
    y = rng.normal(size=12)
    model = LinearTreeRegressor(
        penalty=penalty, min_samples_leaf=2, min_samples_split=4, pruning=None
    ).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    if penalty is None:  # no leaf has rows for a regression
        assert not len(model.tree_.coef)
    one = LinearTreeRegressor(penalty=penalty).fit(X[:1], y[:1])
    assert one.predict(X)[0] == pytest.approx(y[0])


def test_extrapolation():
    X = np.linspace(0, 1, 100)[:, None]
    y = np.where(X[:, 0] <= 0.5, 2 * X[:, 0], 1 - 3 * (X[:, 0] - 0.5))
    far = np.array([[-10.0], [10.0]])

    def at(policy, factor=1.0):
        model = LinearTreeRegressor(
            penalty=None, extrapolate=policy, bound_factor=factor, max_bins=255
        )
        model.fit(X, y)
        np.testing.assert_allclose(model.predict(X), y, atol=1e-9)
        return model.predict(far)

    np.testing.assert_allclose(at("linear"), [-20.0, 1 - 3 * 9.5], atol=1e-6)
    np.testing.assert_allclose(at("clip"), [y[0], y[-1]], atol=1e-9)
    left, right = y[X[:, 0] <= 0.5], y[X[:, 0] > 0.5]
    for factor in (0.0, 1.0, 2.5):
        low = left.min() - factor * np.ptp(left), right.min() - factor * np.ptp(right)
        np.testing.assert_allclose(at("bounded", factor), low, atol=1e-9)


def test_missing_regressors_keep_the_others():
    X, y = make(5)
    model = LinearTreeRegressor(max_depth=1, extrapolate="linear").fit(X, y)
    rows = X[:5].copy()
    rows[:, 2] = np.nan
    filled = rows.copy()
    filled[:, 2] = X[:, 2].mean()
    np.testing.assert_allclose(model.predict(rows), model.predict(filled), atol=1e-12)
    holes = X.copy()
    holes[::7, 1] = np.nan
    fitted = LinearTreeRegressor(max_depth=2).fit(holes, y)
    assert fitted.score(holes, y) > 0.7
    assert np.isfinite(fitted.predict(np.full((2, 3), np.nan))).all()


def test_several_outputs():
    X, y = make(6)
    both = np.column_stack([y, 100 * y + X[:, 2]])
    model = LinearTreeRegressor(max_depth=2, extrapolate="linear", pruning=None).fit(X, both)
    assert model.predict(X).shape == both.shape and model.n_outputs_ == 2
    leaves = model.apply(X)
    for leaf in np.unique(leaves):
        rows = leaves == leaf
        line = LinearRegressor(penalty="ridge").fit(X[rows], both[rows])
        np.testing.assert_allclose(model.predict(X[rows]), line.predict(X[rows]), atol=1e-6)


def test_absolute_error_resists_outliers():
    X, y = make(7)
    rng = np.random.default_rng(0)
    spoiled = y + np.where(rng.random(len(y)) < 0.05, 500.0, 0.0)
    errors = {}
    for criterion in ("squared_error", "absolute_error"):
        model = LinearTreeRegressor(criterion=criterion, max_depth=2, penalty=None, pruning=None)
        errors[criterion] = np.abs(model.fit(X, spoiled).predict(X) - y).mean()
    assert errors["absolute_error"] < 0.05 * errors["squared_error"]


def test_absolute_error_of_a_leaf():
    """The fit is the linear program's: no other line has a smaller sum of deviations."""
    from scipy.optimize import linprog

    X, y = make(8, n=80)
    model = LinearTreeRegressor(
        criterion="absolute_error", penalty=None, max_depth=1, min_samples_leaf=60
    )
    found = np.abs(y - model.fit(X, y).predict(X)).sum()
    assert model.get_n_leaves() == 1
    n, A = len(y), np.column_stack([np.ones(len(y)), X])
    cost = np.concatenate([np.zeros(4), np.ones(2 * n)])
    equal = np.hstack([A, np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * 4 + [(0, None)] * (2 * n)
    best = linprog(cost, A_eq=equal, b_eq=y, bounds=bounds).fun
    assert best - 1e-9 <= found <= best * 1.001


def test_absolute_error_is_weighted():
    """Constants are weighted medians, and as much weight is above a line as below it."""
    X, y = make(9, n=90)
    weight = np.random.default_rng(0).gamma(0.5, size=len(y)) + 0.01
    weight *= np.where(y > np.median(y), 5.0, 1.0)
    options = {"criterion": "absolute_error", "max_depth": 1, "min_samples_leaf": 60}
    order = np.argsort(y)
    reached = np.cumsum(weight[order]) / weight.sum()
    constant = LinearTreeRegressor(linear_features=[], **options).fit(X, y, weight)
    assert constant.predict(X[:1])[0] == pytest.approx(y[order][np.argmax(reached >= 0.5)])
    line = LinearTreeRegressor(penalty=None, **options).fit(X, y, weight)
    assert line.get_n_leaves() == 1
    away = y - line.predict(X)
    tiny = 1e-9 * np.abs(y).max()
    assert weight[away > tiny].sum() <= 0.5 * weight.sum()
    assert weight[away < -tiny].sum() <= 0.5 * weight.sum()
