"""The exponential loss in XGB, gradient boosting and AdaBoost: where theory says they agree."""

from __future__ import annotations

import numpy as np
import pytest
from ensembles import adaboost_oracle as oracle

import hybridtrees as ht

NAMES = ("binary:exponential", "exponential")
PLAIN = {"reg_lambda": 0.0, "min_child_weight": 0.0, "base_score": 0.5}


def problem(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.standard_normal(n) > 0).astype(int)
    return X, y, rng.exponential(size=n)


def exponential(y_true, raw):
    """Gradient and hessian of exp(-y f) with y = 1 or -1."""
    sign = 2.0 * y_true - 1
    lost = np.exp(-sign * raw)
    return -sign * lost, lost


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["hist", "exact"])
def test_xgb_equals_a_function_of_ones_own(name, method):
    X, y, weight = problem()
    given = {"n_estimators": 20, "max_depth": 3, "base_score": 0.5, "tree_method": method}
    model = ht.XGBClassifier(objective=name, **given).fit(X, y, sample_weight=weight)
    own = ht.XGBClassifier(objective=exponential, **given).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.predict_raw(X), own.predict_raw(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), own.predict(X))


@pytest.mark.peer
def test_xgb_equals_xgboost():
    xgboost = pytest.importorskip("xgboost")
    X, y, weight = problem()
    given = {"max_depth": 3, "learning_rate": 0.3, "tree_method": "exact", "base_score": 0.5}
    model = ht.XGBClassifier(objective="exponential", n_estimators=15, **given)
    model.fit(X, y, sample_weight=weight)

    def objective(raw, data):
        w = data.get_weight()
        grad, hess = exponential(data.get_label(), raw)
        return grad * w, hess * w

    data = xgboost.DMatrix(X, y, weight=weight)
    peer = xgboost.train({**given, "base_score": 0.0}, data, 15, obj=objective)
    theirs = peer.predict(data, output_margin=True)
    np.testing.assert_allclose(model.predict_raw(X)[:, 0], theirs, rtol=1e-3, atol=1e-3)


def test_link_and_base_score():
    X, y, weight = problem()
    model = ht.XGBClassifier(objective="exponential", n_estimators=10)
    model.fit(X, y, sample_weight=weight)
    raw = model.predict_raw(X)[:, 0]
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-2 * raw)))
    np.testing.assert_array_equal(model.predict(X), raw > 0)
    # Without a tree that splits, the start: half the log-odds of the classes.
    X0 = np.zeros((400, 1))
    share = np.average(y, weights=weight)
    start = ht.XGBClassifier(objective="exponential", n_estimators=1)
    start.fit(X0, y, sample_weight=weight)
    np.testing.assert_allclose(start.predict_proba(X0)[:, 1], share, rtol=1e-6)
    np.testing.assert_allclose(start.predict_raw(X0), 0.5 * np.log(share / (1 - share)), rtol=1e-6)
    given = ht.XGBClassifier(objective="exponential", base_score=0.2, learning_rate=1e-12)
    given.set_params(n_estimators=1).fit(X, y)
    np.testing.assert_allclose(given.predict_proba(X)[:, 1], 0.2, rtol=1e-9)


def test_early_stopping_metrics_and_files(tmp_path):
    X, y, _ = problem(900)
    train, test = slice(0, 600), slice(600, 900)
    model = ht.XGBClassifier(
        objective="binary:exponential", n_estimators=300, early_stopping_rounds=5,
        eval_metric=["error", "auc", "logloss"],
    )  # fmt: skip
    model.fit(X[train], y[train], eval_set=[(X[test], y[test])], verbose=False)
    assert 0 < model.best_iteration < model.n_iter_ - 1 < 299
    proba = model.predict_proba(X[test])[:, 1]
    loss = -np.mean(np.log(np.where(y[test] == 1, proba, 1 - proba)))
    np.testing.assert_allclose(model.best_score, loss, rtol=1e-6)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        ht.load(tmp_path / "model").predict_proba(X), model.predict_proba(X)
    )
    with pytest.raises(ValueError, match=r"'exponential' is for two classes, but y holds 3"):
        ht.XGBClassifier(objective="exponential").fit(X, np.arange(900) % 3)
    with pytest.raises(ValueError, match="objective must be one of"):
        ht.XGBRegressor(objective="exponential").fit(X, y)


def test_xgb_is_gentle_adaboost():
    """Newton stumps on exp(-y f) are weighted least squares (Friedman, Hastie, Tibshirani 2000)."""
    X, y, weight = problem(80)
    sign, w, score = 2.0 * y - 1, weight.copy(), np.zeros(80)
    model = ht.XGBClassifier(
        objective="exponential", n_estimators=8, max_depth=1, learning_rate=1.0,
        tree_method="exact", **PLAIN,
    ).fit(X, y, sample_weight=weight)  # fmt: skip
    stages = list(model.staged_predict_proba(X))
    for stage in stages:
        step = oracle.number_stump(X, sign, w).predict(X)
        score += step
        w = weight * np.exp(-sign * score)
        np.testing.assert_allclose(stage[:, 1], 1 / (1 + np.exp(-2 * score)), rtol=1e-4)


def test_first_stumps_are_the_same():
    X, y, weight = problem()
    ada = ht.AdaBoostClassifier(n_estimators=1, splitter="exact")
    newton = {"objective": "exponential", "n_estimators": 1, "max_depth": 1, **PLAIN}
    xgb = ht.XGBClassifier(learning_rate=1.0, tree_method="exact", **newton)
    gb = ht.GradientBoostingClassifier(
        loss="exponential", n_estimators=1, max_depth=1, learning_rate=1.0, init="zero",
        splitter="exact",
    )  # fmt: skip
    for model in (ada, xgb, gb):
        model.fit(X, y, sample_weight=weight)
    root = [model.trees_[0].nodes[0] for model in (ada, xgb, gb)]
    assert len({int(node["feature"]) for node in root}) == 1
    np.testing.assert_allclose([node["threshold"] for node in root], root[0]["threshold"])
    leaf = ada.apply(X)[:, 0]
    for model in (xgb, gb):
        value = model.predict_raw(X)[:, 0]
        np.testing.assert_array_equal(value > 0, ada.predict(X) == 1)
        for k in np.unique(leaf):
            part = leaf == k
            odds = weight[part & (y == 1)].sum() / weight[part & (y == 0)].sum()
            # The Newton step is tanh of the minimum, which is half the log-odds of the leaf.
            np.testing.assert_allclose(np.arctanh(value[part]), np.log(odds) / 2, rtol=1e-5)


def test_plgb_has_the_loss_too():
    X, y, _ = problem()
    model = ht.PLGBClassifier(objective="exponential", n_estimators=10).fit(X, y)
    raw = model.predict_raw(X)[:, 0]
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-2 * raw)))
    assert model.score(X, y) > 0.85


def test_all_three_lower_the_exponential_loss():
    X, y, _ = problem(1000)
    sign = 2.0 * y - 1
    given = {"n_estimators": 40, "max_depth": 2}
    ada = ht.AdaBoostClassifier(**given).fit(X, y)
    xgb = ht.XGBClassifier(objective="exponential", **given).fit(X, y)
    gb = ht.GradientBoostingClassifier(loss="exponential", **given).fit(X, y)
    last = []
    for model in (ada, xgb, gb):
        raws = [np.arctanh(proba @ [-1, 1]) for proba in model.staged_predict_proba(X)]
        losses = [np.mean(np.exp(-sign * raw)) for raw in raws]
        assert np.all(np.diff(losses) < 0)
        last.append(losses[-1])
    assert max(last) < 0.75
    # Each round of AdaBoost is the best step along its member: another factor is worse.
    members = np.sign(np.diff([np.zeros(1000), *(raw[:, 0] for raw in _raws(ada, X))], axis=0))
    score = np.zeros(1000)
    for h, alpha in zip(members, ada.estimator_weights_, strict=True):
        best = np.mean(np.exp(-sign * (score + alpha / 2 * h)))
        for factor in (0.9, 1.1):
            assert best < np.mean(np.exp(-sign * (score + factor * alpha / 2 * h)))
        score += alpha / 2 * h


def _raws(model, X):
    return [raw.copy() for raw in model._staged_raw(X)]
