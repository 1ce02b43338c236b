"""XGBClassifier: labels, probabilities, losses and class weights."""

from __future__ import annotations

import numpy as np
import pytest
from xgb_data import integer_table, target

import hybridtrees
from hybridtrees import GradientBoostingClassifier, XGBClassifier


def fitted(X, y, weight=None, **params):
    params = {"n_estimators": 5, "n_jobs": 1, "random_state": 0, **params}
    return XGBClassifier(**params).fit(X, y, weight)


LABELS = {
    "int": np.array([0, 1, 2, 3]),
    "gaps": np.array([-7, 0, 3, 1000]),
    "int8": np.array([-128, 0, 1, 127], dtype=np.int8),
    "uint64": np.array([0, 5, 2**63, 2**64 - 1], dtype=np.uint64),
    "float": np.array([-1.0, 0.0, 2.0, 7.0]),
    "str": np.array(["a", "b", "c", "zebra"]),
    "object": np.array(["a", "b", "c", "zebra"], dtype=object),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_labels(kind, n_classes):
    X, y, _ = integer_table(300)
    codes = target("multiclass", y) % n_classes
    labels = LABELS[kind][:n_classes]
    model, plain = fitted(X, labels[codes]), fitted(X, codes)
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.classes_.dtype == labels.dtype and model.n_classes_ == n_classes
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    prediction = model.predict(X)
    np.testing.assert_array_equal(prediction, labels[plain.predict(X)])
    assert prediction.dtype == labels.dtype
    assert model.score(X, labels[codes]) == np.mean(prediction == labels[codes])


def test_boolean_labels():
    X, y, _ = integer_table(300)
    model = fitted(X, y > 50)
    assert model.classes_.tolist() == [False, True] and model.predict(X).dtype == bool
    assert model.score(X, y > 50) > 0.9


@pytest.mark.parametrize("container", ["list", "pandas", "categorical", "polars"])
def test_labels_in_other_containers(container):
    X, y, _ = integer_table(100)
    labels = np.where(y > 50, "high", "low")
    if container == "list":
        given = labels.tolist()
    elif container == "polars":
        given = pytest.importorskip("polars").Series(labels.tolist())
    else:
        pandas = pytest.importorskip("pandas")
        given = pandas.Series(labels, dtype="category" if container == "categorical" else None)
    model = fitted(X, given)
    assert list(model.classes_) == ["high", "low"]
    np.testing.assert_array_equal(model.predict(X), fitted(X, labels).predict(X))


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_probabilities_and_scores(task):
    X, y, _ = integer_table(1000, missing=0.1)
    y = target(task, y)
    model = fitted(X, y, n_estimators=20)
    proba, scores, raw = model.predict_proba(X), model.decision_function(X), model.predict_raw(X)
    n_classes = len(np.unique(y))
    assert proba.shape == (1000, n_classes) and proba.min() > 0 and proba.max() < 1
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), proba.argmax(axis=1))
    np.testing.assert_array_equal(model.predict(X, output_margin=True), scores)
    if task == "binary":
        assert scores.shape == (1000,) and raw.shape == (1000, 1)
        np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-scores)), rtol=1e-12)
    else:
        np.testing.assert_array_equal(scores, raw)
        expected = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(proba, expected, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_leaf_values_are_newton_steps(task, weighted):
    X, y, weight = integer_table(500, missing=0.1)
    y = target(task, y)
    model = fitted(X, y, weight if weighted else None, n_estimators=3, max_depth=3)
    w = weight if weighted else np.ones(500)
    n_outputs = 1 if task == "binary" else 4
    raw = np.tile(model._base_raw_, (500, 1))
    leaves = model.apply(X)
    assert leaves.shape == (500, 3 * n_outputs)
    for tree, leaf in enumerate(leaves.T):
        k = tree % n_outputs
        if k == 0:  # the trees of a round all start from the scores before it
            p = 1 / (1 + np.exp(-raw)) if n_outputs == 1 else np.exp(raw)
            p = p if n_outputs == 1 else p / p.sum(axis=1, keepdims=True)
        hit = y if n_outputs == 1 else (y == k)
        grad = w * (p[:, k] - hit)
        hess = w * p[:, k] * (1 - p[:, k]) * (1 if n_outputs == 1 else 2)
        values = model.trees_[tree].values[:, 0]
        for node in np.unique(leaf):
            rows = leaf == node
            step = -np.sum(grad[rows]) / (np.sum(hess[rows]) + 1)
            assert values[node] == pytest.approx(0.3 * step, rel=1e-4, abs=1e-6)
        raw[:, k] += values[leaf]
    np.testing.assert_allclose(model.predict_raw(X), raw, rtol=1e-10)


def test_start_is_the_share_of_the_classes():
    X, y, weight = integer_table(400)
    for task in ("binary", "multiclass"):
        codes = target(task, y)
        # No split is allowed, so the start is all there is.
        model = fitted(X, codes, weight, gamma=1e9)
        shares = np.bincount(codes, weights=weight) / weight.sum()
        np.testing.assert_allclose(model.predict_proba(X[:1])[0], shares, rtol=1e-3)


def test_two_classes_by_softmax():
    X, y, _ = integer_table(1000)
    y = target("binary", y)
    model = fitted(X, y, objective="multi:softprob", n_estimators=10)
    assert model.trees_.n_trees == 20 and model.predict_raw(X).shape == (1000, 2)
    logistic = fitted(X, y, objective="binary:logistic", n_estimators=10)
    assert logistic.trees_.n_trees == 10
    assert (model.predict(X) == logistic.predict(X)).mean() > 0.95


def test_scale_pos_weight_is_a_weight_of_the_second_class():
    X, y, weight = integer_table(600)
    y = target("binary", y)
    a = fitted(X, y, weight, scale_pos_weight=3.0, base_score=0.5)
    b = fitted(X, y, np.where(y == 1, 3.0, 1.0) * weight, base_score=0.5)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    plain = fitted(X, y, weight, base_score=0.5)
    assert a.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.02


@pytest.mark.parametrize("objective", [None, "multi:softprob"])
def test_scale_pos_weight_is_for_two_classes_and_logistic_loss(objective):
    X, y, _ = integer_table(600)
    y = target("binary" if objective else "multiclass", y)
    a, b = (fitted(X, y, objective=objective, scale_pos_weight=s) for s in (1.0, 9.0))
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


def test_a_class_of_one_row_and_classes_of_no_weight():
    X, y, _ = integer_table(300)
    y = np.minimum(target("multiclass", y), 2)
    y[0] = 9
    model = fitted(X, y, n_estimators=10)
    assert model.classes_.tolist() == [0, 1, 2, 9]
    assert np.isfinite(model.predict_proba(X)).all()
    weight = np.where(y == 9, 0.0, 1.0)
    without = fitted(X, y, weight, n_estimators=10)
    assert np.isfinite(without.predict_proba(X)).all()
    assert not (without.predict(X) == 9).any()
    for positive in (0.0, 1.0):
        only = fitted(X, y == 1, np.where((y == 1) == positive, 1.0, 0.0))
        assert np.all(only.predict(X) == bool(positive))


def test_many_classes():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 100, size=(1000, 2)).astype(np.float64)
    y = (X[:, 0] // 5).astype(int)  # twenty classes
    model = fitted(X, y, n_estimators=10)
    assert model.trees_.n_trees == 200
    np.testing.assert_array_equal(model.trees_.tree_output, np.tile(np.arange(20), 10))
    assert model.score(X, y) > 0.99
    assert model.feature_importances_[0] > 0.9


@pytest.mark.parametrize("family", [XGBClassifier, GradientBoostingClassifier])
def test_the_trees_of_the_classes_draw_their_own_features(family, rng):
    X = rng.normal(size=(200, 6))
    y = np.digitize(X.sum(axis=1), [-1.0, 1.0])
    draw = {"colsample_bytree": 1 / 6} if family is XGBClassifier else {"max_features": 1}
    model = family(n_estimators=8, max_depth=1, random_state=0, **draw).fit(X, y)
    roots = np.reshape([model.trees_[i].nodes["feature"][0] for i in range(24)], (8, 3))
    assert (roots >= 0).all()
    # Of six features two classes draw the same one time in six.
    for k in (1, 2):
        assert (roots[:, k] != roots[:, 0]).sum() >= 3


def test_extreme_scores_do_not_overflow():
    x = np.array([[0.0], [1.0]]).repeat(20, axis=0)
    y = x[:, 0].astype(int)
    extreme = {"n_estimators": 400, "learning_rate": 1.0, "reg_lambda": 0, "min_child_weight": 0}
    with np.errstate(all="raise"):
        for objective in ("binary:logistic", "multi:softprob"):
            proba = fitted(x, y, objective=objective, **extreme).predict_proba(x)
            assert np.isfinite(proba).all() and proba[np.arange(40), y].min() > 0.999


def test_wrong_targets():
    X, y, _ = integer_table(50)
    cases = [
        (np.zeros(50), "two classes"),
        (y, "continuous"),
        (np.where(y > 50, np.nan, 1.0), "NaN"),
        (np.array([None, 1] * 25, dtype=object), "NaN or None"),
        (np.array(["a", 1] * 25, dtype=object), "label type"),
        (np.arange(49), "inconsistent"),
        (np.zeros((50, 2)), "1d"),
        (None, "y"),
    ]
    for wrong, message in cases:
        with pytest.raises(ValueError, match=message):
            XGBClassifier(n_jobs=1).fit(X, wrong)


def test_three_classes_have_softmax_whatever_the_objective_of_two():
    X, _, _ = integer_table(50)
    y = np.arange(50) % 3
    model, plain = (
        XGBClassifier(n_estimators=3, n_jobs=1, **given).fit(X, y)
        for given in ({"objective": "binary:logistic"}, {})
    )
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


def test_unfitted():
    X, _, _ = integer_table(5)
    model = XGBClassifier()
    for name in ("predict", "predict_proba", "decision_function", "predict_raw", "apply"):
        with pytest.raises(hybridtrees.base.NotFittedError, match="not fitted"):
            getattr(model, name)(X)
