"""Monotone and interaction constraints of XGB*: against xgboost, and by what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridtrees import XGBClassifier, XGBRegressor

xgboost = pytest.importorskip("xgboost")

METHODS = pytest.mark.parametrize("method", ["exact", "hist", "approx"])
SIGNS = (1, -1, 0, 1, 0)
GROUPS = [[0, 1, 2], [2, 3]]


def table(seed: int = 0, n: int = 800) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    y = X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.3 * rng.normal(size=n)
    return X, y


def paths(tree) -> list[set[int]]:
    """Features on the way to each leaf."""
    found: list[set[int]] = []
    open_ = [(0, frozenset())]
    while open_:
        node, seen = open_.pop()
        entry = tree.nodes[node]
        if entry["left"] < 0:
            found.append(set(seen))
            continue
        seen = seen | {int(entry["feature"])}
        open_ += [(int(entry["left"]), seen), (int(entry["right"]), seen)]
    return found


@pytest.mark.parametrize(
    "constraints",
    [
        {"monotone_constraints": SIGNS},
        {"interaction_constraints": GROUPS},
        {"monotone_constraints": SIGNS, "interaction_constraints": GROUPS},
        # Not with reg_alpha: xgboost leaves that penalty out of the score of a bounded leaf, so
        # what it compares is not the loss that it minimises.
        {"monotone_constraints": SIGNS, "reg_lambda": 3.0, "max_delta_step": 0.4},
    ],
    ids=["monotone", "interaction", "both", "penalised"],
)
def test_exact_models_equal_those_of_xgboost(constraints):
    X, y = table()
    common = {"n_estimators": 20, "max_depth": 4, "tree_method": "exact", "n_jobs": 1}
    ours = XGBRegressor(**common, **constraints).fit(X, y)
    # Without feature names xgboost reads groups of numbers from a string only.
    named = {k: str(v) if "constraints" in k else v for k, v in constraints.items()}
    theirs = xgboost.XGBRegressor(**common, **named).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5, atol=1e-5 * y.std())


@METHODS
@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=5, max_size=5),
    missing=st.booleans(),
)
def test_monotone_constraints_hold_for_every_pair(method, seed, signs, missing):
    rng = np.random.default_rng(seed)
    X, y = table(seed, 300)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    model = XGBRegressor(
        n_estimators=15, max_depth=0, tree_method=method, monotone_constraints=signs, n_jobs=1
    ).fit(X, y)
    for feature, sign in enumerate(signs):
        rows = np.repeat(X[:20], 30, axis=0)
        rows[:, feature] = np.tile(np.sort(rng.normal(scale=2, size=30)), 20)
        steps = np.diff(model.predict(rows).reshape(20, 30), axis=1)
        # Sums of equal leaves are equal, so not even rounding may turn a step round.
        assert sign == 0 or np.all(sign * steps >= -1e-12 * np.abs(y).max())


@METHODS
def test_monotone_constraints_of_a_classifier(method):
    X, y = table(1)
    model = XGBClassifier(n_estimators=20, tree_method=method, monotone_constraints=SIGNS)
    model.fit(X, y > 0)
    for feature, sign in enumerate(SIGNS):
        rows = np.repeat(X[:20], 30, axis=0)
        rows[:, feature] = np.tile(np.linspace(-4, 4, 30), 20)
        steps = np.diff(model.predict_raw(rows).reshape(20, 30), axis=1)
        assert sign == 0 or np.all(sign * steps >= -1e-9)


@METHODS
def test_interaction_constraints_are_kept_on_every_path(method):
    X, y = table(2)
    groups = [{0, 1}, {1, 3}, {2}]
    model = XGBRegressor(
        n_estimators=20, max_depth=5, tree_method=method, interaction_constraints=groups
    ).fit(X, y)
    used = [path for k in range(20) for path in paths(model.trees_[k])]
    # Feature 4 is in no group and stands alone.
    assert all(any(path <= group for group in [*groups, {4}]) for path in used)
    assert any(path == {0, 1} for path in used) and any(path == {1, 3} for path in used)


def test_constraints_by_name_and_by_string():
    pandas = pytest.importorskip("pandas")
    X, y = table(3, 400)
    frame = pandas.DataFrame(X, columns=list("abcde"))
    plain = XGBRegressor(
        n_estimators=5, monotone_constraints=SIGNS, interaction_constraints=GROUPS
    ).fit(X, y)
    for monotone, groups in (
        ({"a": 1, "b": -1, "d": 1}, [list("abc"), list("cd")]),
        (str(SIGNS), str(GROUPS)),
        ({0: 1, 1: -1, 3: 1}, (("a", 1, 2), ("c", "d"))),
    ):
        model = XGBRegressor(
            n_estimators=5, monotone_constraints=monotone, interaction_constraints=groups
        ).fit(frame, y)
        np.testing.assert_array_equal(model.predict(frame), plain.predict(X))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("monotone_constraints", (1, 0), "one entry for each of the 5 features, got 2"),
        ("monotone_constraints", (2, 0, 0, 0, 0), "must hold -1, 0 or 1, got 2"),
        ("monotone_constraints", {9: 1}, "holds the index 9, but X has 5 features"),
        ("monotone_constraints", {"z": 1}, "names 'z', but X has no feature names"),
        ("monotone_constraints", "(1,", "must be a Python literal"),
        ("interaction_constraints", [[0, 7]], "holds the index 7, but X has 5 features"),
        ("interaction_constraints", [[0]] * 64, "at most 63 groups, got 64"),
        ("interaction_constraints", [0, 1], "must hold groups of features, got 0"),
        ("interaction_constraints", 3, "must be a list of groups"),
    ],
)
def test_bad_constraints_are_named(name, value, message):
    X, y = table(4, 60)
    with pytest.raises((ValueError, TypeError), match=message) as error:
        XGBRegressor(**{name: value}).fit(X, y)
    assert name in str(error.value)


def test_a_category_has_no_order():
    X, y = table(5, 60)
    X[:, 0] = np.arange(60) % 3
    with pytest.raises(ValueError, match="must be 0 for categorical features"):
        XGBRegressor(categorical_features=[0], monotone_constraints=SIGNS).fit(X, y)
