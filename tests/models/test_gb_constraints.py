"""Constraints of gradient boosting: monotone features and interactions, for every loss."""

from __future__ import annotations

import numpy as np
import pytest
from gb_data import LOSSES, REGRESSION, make, output, table, target, weights
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridtrees import GradientBoostingClassifier, GradientBoostingRegressor, XGBRegressor
from hybridtrees.models.shared.constraints import bounded_values, read_interactions

SPLITTERS = ("exact", "hist")
ONE_SCORE = tuple(loss for loss in LOSSES if loss != "multinomial")


def rises(model, X, feature, sign, n_points=25):
    """Whether the raw score only rises (falls) along a feature, from every row."""
    grid = np.linspace(X[:, feature].min() - 1, X[:, feature].max() + 1, n_points)
    moved = np.repeat(X, n_points, axis=0)
    moved[:, feature] = np.tile(grid, len(X))
    raw = model.predict_raw(moved).reshape(len(X), n_points, -1)
    return bool(np.all(sign * np.diff(raw, axis=1) >= -1e-12))


# -- monotone -----------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    loss=st.sampled_from(ONE_SCORE),
    splitter=st.sampled_from(SPLITTERS),
    seed=st.integers(0, 10_000),
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4),
    max_depth=st.sampled_from([2, 4, None]),
    subsample=st.sampled_from([1.0, 0.6]),
    weighted=st.booleans(),
    ccp_alpha=st.sampled_from([0.0, 0.01]),
)
def test_monotone_for_every_loss(
    loss, splitter, seed, signs, max_depth, subsample, weighted, ccp_alpha
):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 4)).round(int(rng.integers(0, 3)))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = target(loss, np.nan_to_num(X), seed)
    if len(np.unique(y)) < 2:
        return
    model = make(
        loss, splitter=splitter, monotonic_cst=signs, max_depth=max_depth, n_estimators=6,
        learning_rate=0.5, subsample=subsample, random_state=seed, ccp_alpha=ccp_alpha,
        max_leaf_nodes=None if seed % 2 else 6,
    )  # fmt: skip
    model.fit(X, y, weights(120, seed) if weighted else None)
    full = np.nan_to_num(X)
    for feature, sign in enumerate(signs):
        assert sign == 0 or rises(model, full[:40], feature, sign)


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("loss", ONE_SCORE)
def test_what_rises_anyway_is_not_held_back(loss, splitter):
    """The bounds are in the unit of the leaf values, not in that of the residuals."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 1))
    y = target(loss, np.column_stack([4 * X - 2, *[np.zeros(400)] * 3]))
    if loss in ("squared_error", "absolute_error", "huber", "quantile"):
        y = 1000 * y
    params = {"splitter": splitter, "n_estimators": 40, "min_samples_leaf": 40}
    free = make(loss, **params).fit(X, y)
    bound = make(loss, **params, monotonic_cst=[1]).fit(X, y)
    # An increasing function loses next to nothing by having to increase.
    assert bound.train_score_[-1] <= free.train_score_[-1] + 0.05 * abs(free.train_score_[0])
    falling = make(loss, **params, monotonic_cst=[-1]).fit(X, y)
    assert falling.train_score_[-1] > bound.train_score_[-1]


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_constraints_by_name_and_without_effect(splitter):
    pandas = pytest.importorskip("pandas")
    X = table(200)
    y = target("squared_error", X)
    frame = pandas.DataFrame(X, columns=list("abcd"))
    params = {"splitter": splitter, "n_estimators": 5}
    by_name = make("squared_error", **params, monotonic_cst={"b": -1}).fit(frame, y)
    by_number = make("squared_error", **params, monotonic_cst=[0, -1, 0, 0]).fit(X, y)
    np.testing.assert_array_equal(by_name.predict(frame), by_number.predict(X))
    free = make("squared_error", **params).fit(X, y)
    zero = make("squared_error", **params, monotonic_cst=[0, 0, 0, 0]).fit(X, y)
    np.testing.assert_array_equal(free.predict(X), zero.predict(X))
    assert not np.array_equal(free.predict(X), by_number.predict(X))


@pytest.mark.parametrize("objective", ["reg:absoluteerror", "reg:quantileerror"])
@pytest.mark.parametrize("tree_method", ["hist", "exact", "approx"])
def test_robust_losses_of_xgboost(objective, tree_method):
    X = table(200, seed=2)
    y = 100 * np.sin(3 * X[:, 0]) + X[:, 1]
    model = XGBRegressor(
        objective=objective, tree_method=tree_method, monotone_constraints=[1, -1, 0, 0],
        n_estimators=10, n_jobs=1, random_state=0,
        quantile_alpha=[0.2, 0.8] if objective == "reg:quantileerror" else None,
    ).fit(X, y)  # fmt: skip
    assert rises(model, X[:50], 0, 1) and rises(model, X[:50], 1, -1)
    assert np.ptp(model.predict(X)) > 10


def test_several_quantiles_rise():
    X = table(300)
    y = target("quantile", X)
    model = GradientBoostingRegressor(
        loss="quantile", alpha=[0.1, 0.5, 0.9], monotonic_cst=[1, 0, 0, 0], n_jobs=1
    ).fit(X, y)
    grid = np.zeros((50, 4))
    grid[:, 0] = np.linspace(-3, 3, 50)
    prediction = model.predict(grid)
    assert np.all(np.diff(prediction, axis=0) >= 0) and np.all(np.diff(prediction, axis=1) >= 0)


def test_monotone_needs_two_classes_and_no_categories():
    X = table(60)
    with pytest.raises(ValueError, match="monotonic_cst needs two classes at most, but y has 3"):
        make("log_loss", monotonic_cst=[1, 0, 0, 0]).fit(X, np.arange(60) % 3)
    codes = np.column_stack([np.arange(60) % 3, X])
    model = make("squared_error", monotonic_cst=[1, 0, 0, 0, 0], categorical_features=[0])
    with pytest.raises(ValueError, match="monotonic_cst must be 0 for categorical features"):
        model.fit(codes, X[:, 0])


def test_bounded_values_of_a_tree_by_hand():
    # A node out of order with its sibling meets it in the middle; what is below stays there.
    model = GradientBoostingRegressor(n_estimators=1, max_depth=2, n_jobs=1, splitter="exact")
    tree = model.fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 10.0, 11.0]).trees_[0]
    assert tree.n_nodes == 7 and tree.nodes["left"].tolist() == [1, 2, -1, -1, 5, -1, -1]
    values = np.array([0.0, 6.0, 9.0, 1.0, 2.0, -4.0, 8.0])
    kept = bounded_values(tree, values, np.array([1], dtype=np.int8))
    # Middle of 6 and 2 is 4; of the left children, cut to 4 and 1, it is 2.5.
    np.testing.assert_array_equal(kept, [0.0, 4.0, 2.5, 2.5, 4.0, 4.0, 8.0])
    free = bounded_values(tree, values, np.array([0], dtype=np.int8))
    np.testing.assert_array_equal(free, values)


# -- interactions -------------------------------------------------------------------------------


def paths(model):
    """Sets of the features on all paths from root to leaf."""
    for t in range(len(model.trees_)):
        nodes = model.trees_[t].nodes
        above = [set() for _ in nodes]
        for k, node in enumerate(nodes):
            if node["left"] < 0:
                yield above[k]
                continue
            for child in (node["left"], node["right"]):
                above[child] = above[k] | {int(node["feature"])}


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("loss", [*REGRESSION, "multinomial"])
def test_interactions_are_never_violated(loss, splitter):
    X = table(300, p=6)
    y = target(loss, X)
    groups = [{0, 1}, {1, 2}]  # 3, 4 and 5 make a group of their own
    model = make(
        loss, splitter=splitter, interaction_cst=groups, n_estimators=8, max_depth=5,
        max_features=3, random_state=0,
    ).fit(X, y)  # fmt: skip
    found = list(paths(model))
    assert max(map(len, found)) >= 2
    for path in found:
        assert any(path <= allowed for allowed in (*groups, {3, 4, 5}))


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_interactions_in_words(splitter):
    X = table(300)
    y = target("squared_error", X)
    params = {"splitter": splitter, "n_estimators": 5, "max_depth": 4}
    alone = make("squared_error", **params, interaction_cst="no_interactions").fit(X, y)
    assert max(map(len, paths(alone))) == 1
    pairs = make("squared_error", **params, interaction_cst="pairwise").fit(X, y)
    assert max(map(len, paths(pairs))) == 2
    # Without interactions the model is a sum of functions of one feature each.
    at = np.zeros((4, 4))
    at[1, 0] = at[3, 0] = 1.0
    at[2, 3] = at[3, 3] = 1.0
    value = alone.predict(at)
    assert value[3] - value[2] == pytest.approx(value[1] - value[0], abs=1e-12)


def test_groups_that_are_read():
    groups = read_interactions([[0, 2]], None, 5, "interaction_cst", rest_together=True)
    np.testing.assert_array_equal(groups, [1, 2, 1, 2, 2])
    np.testing.assert_array_equal(read_interactions([[0, 2]], None, 4, "x"), [1, 0, 1, 0])
    assert read_interactions("pairwise", None, 2, "x").tolist() == [1 << 63] * 2


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("p", [1, 2, 11, 70])
def test_any_two_features_may_interact(splitter, p):
    rng = np.random.default_rng(p)
    X = rng.normal(size=(400, p))
    y = np.prod(np.sign(X[:, :3]), axis=1) + X[:, -1] * X[:, 0] + 0.1 * rng.normal(size=400)
    params = {"splitter": splitter, "n_estimators": 6, "max_depth": 5, "random_state": 0}
    model = make("squared_error", **params, interaction_cst="pairwise").fit(X, y)
    found = list(paths(model))
    assert max(map(len, found)) == min(p, 2)
    assert max(model.trees_[i].depth for i in range(6)) > min(p, 2)  # features come again
    free = make("squared_error", **params).fit(X, y)
    assert p < 3 or max(map(len, paths(free))) > 2
    if p == 11:  # as many features as have a group for every two of them
        groups = [[i, j] for i in range(p) for j in range(i)]
        same = make("squared_error", **params, interaction_cst=groups).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), same.predict(X))
    if p == 2:
        np.testing.assert_array_equal(model.predict(X), free.predict(X))


@pytest.mark.parametrize("cls", [GradientBoostingRegressor, GradientBoostingClassifier])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("monotonic_cst", v) for v in ((1, 0), [2], {1: 1}, {"a": 1}, "(1", 3.7, [None], [True])],
        *[("interaction_cst", v) for v in ([[1]], [["a"]], "[[0", 3, [0], "pairs", [[True]])],
    ],
)
def test_wrong_constraints_are_named(cls, name, value):
    model = cls(**{name: value})
    before = dict(vars(model))
    with pytest.raises((TypeError, ValueError), match=name):
        model.fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    assert vars(model) == before


@pytest.mark.peer
def test_monotone_model_is_as_good_as_scikit_learns():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, 3))
    y = 5 * X[:, 0] + np.sin(10 * np.pi * X[:, 0]) - 5 * X[:, 1] + rng.normal(size=3000)
    ours = make("squared_error", monotonic_cst=[1, -1, 0], splitter="hist")
    theirs = ensemble.HistGradientBoostingRegressor(
        monotonic_cst=[1, -1, 0], max_depth=3, max_leaf_nodes=None, early_stopping=False
    )
    ours.fit(X[:2000], y[:2000])
    theirs.fit(X[:2000], y[:2000])
    error = [np.mean((m.predict(X[2000:]) - y[2000:]) ** 2) for m in (ours, theirs)]
    assert error[0] < 1.02 * error[1]
    assert np.isfinite(output(ours, X)).all()
