"""Models as sums of trees: the same predictions as those of the estimator."""

import numpy as np
import pytest
from additive_models import CLASSIFIERS, REGRESSORS, fitted

import hybridtrees as ht
from hybridtrees.core.tree.additive import Link, additive_form


@pytest.mark.parametrize("name, parameters", REGRESSORS)
def test_regressor(name, parameters, rng):
    model, X = fitted(name, parameters, rng)
    form = additive_form(model)
    found = form.predictions(form.read(X))
    expected = model.predict(X)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name, parameters", CLASSIFIERS)
def test_classifier(name, parameters, n_classes, rng):
    model, X = fitted(name, parameters, rng, n_classes)
    form = additive_form(model)
    found = form.predictions(form.read(X))
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-10, atol=1e-11)
    np.testing.assert_array_equal(form.classes, model.classes_)


@pytest.mark.parametrize("objective", ["binary:hinge", "binary:exponential"])
def test_links_of_two_classes(objective, rng):
    model, X = fitted("XGBClassifier", {"n_estimators": 4, "objective": objective}, rng, 2)
    form = additive_form(model)
    np.testing.assert_allclose(form.predictions(form.read(X)), model.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize("objective", ["count:poisson", "reg:gamma", "reg:tweedie"])
def test_log_link(objective, rng):
    X = rng.normal(size=(200, 3))
    y = rng.gamma(2.0, np.exp(X[:, 0])) + 0.1
    model = ht.XGBRegressor(n_estimators=5, objective=objective).fit(X, y)
    form = additive_form(model)
    np.testing.assert_allclose(form.predictions(X)[:, 0], model.predict(X), rtol=1e-12)


def test_several_targets(rng):
    X = rng.normal(size=(200, 3))
    y = np.column_stack([X[:, 0] > 0, X[:, 1] * X[:, 2]])
    for name in ("CARTRegressor", "RandomForestRegressor", "XGBRegressor", "LinearRegressor",
                 "GradientBoostingRegressor", "EBLRRegressor", "RERFRegressor"):  # fmt: skip
        model = getattr(ht, name)().fit(X, y)
        form = additive_form(model)
        np.testing.assert_allclose(form.predictions(X), model.predict(X), rtol=1e-9, atol=1e-11)


def test_early_stopping_leaves_later_trees_out(rng):
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + rng.normal(size=300)
    model = ht.XGBRegressor(n_estimators=200, early_stopping_rounds=5)
    model.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])], verbose=False)
    form = additive_form(model)
    assert len(form.trees) == model.best_iteration + 1 < len(model.trees_)
    np.testing.assert_allclose(form.predictions(X)[:, 0], model.predict(X), rtol=1e-12)


def test_rules_on_rules_are_flat(rng):
    X = rng.normal(size=(500, 2))
    y = ((X[:, 0] > 0) & (X[:, 1] > 0)) * 3.0 + ((X[:, 0] > 1) & (X[:, 1] > 0.5)) * 2.0
    model = ht.EBLRRegressor(n_rules=8, max_depth=3).fit(X, y)
    nested = [rule.tree.features.max() >= 2 for rule in model.rules_]
    assert any(nested)  # or the test shows nothing
    form = additive_form(model)
    np.testing.assert_allclose(form.predictions(X)[:, 0], model.predict(X), rtol=1e-10, atol=1e-10)
    for tree in form.trees:
        inner = np.flatnonzero(tree.nodes["left"] >= 0)
        both = [tree.nodes["weight"][tree.nodes[side][inner]] for side in ("left", "right")]
        np.testing.assert_allclose(np.sum(both, axis=0), tree.nodes["weight"][inner])


def test_models_that_are_no_sum(rng):
    X = rng.normal(size=(60, 2))
    boosted = ht.GradientBoostingRegressor(n_estimators=2, init=ht.LinearRegressor()).fit(
        X, X[:, 0]
    )
    with pytest.raises(TypeError, match="GradientBoostingRegressor starts from another estimator"):
        additive_form(boosted)
    with pytest.raises(TypeError, match="StackingRegressor is not a sum of trees"):
        additive_form(ht.StackingRegressor([("a", ht.CARTRegressor())]).fit(X, X[:, 0]))
    with pytest.raises(ValueError, match="not fitted"):
        additive_form(ht.XGBRegressor())
    for other in (ht.XGBRegressor, "model", None):
        with pytest.raises(TypeError, match="estimator must be a fitted hybridtrees estimator"):
            additive_form(other)


def test_link_of_one_share():
    np.testing.assert_array_equal(
        Link("shares").apply(np.array([[1.2], [0.25], [-1.0]])), [[0, 1], [0.75, 0.25], [1, 0]]
    )
