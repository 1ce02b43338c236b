"""Raw scores to start from row by row, stages, and checks of validation targets."""

from __future__ import annotations

import numpy as np
import pytest
from xgb_data import integer_table, target

from hybridtrees import XGBClassifier, XGBRegressor

TASKS = ("regression", "binary", "multiclass")


def problem(task, n=300):
    X, y, _ = integer_table(n)
    return X, target(task, y) if task != "regression" else y


def make(task, **params):
    cls = XGBRegressor if task == "regression" else XGBClassifier
    return cls(**{"n_estimators": 5, "n_jobs": 1, **params})


def margin_of(task, n=300, seed=0):
    _, y = problem(task)
    k = len(np.unique(y)) if task == "multiclass" else 1
    scores = np.random.default_rng(seed).normal(size=(n, k))
    return scores[:, 0] if k == 1 else scores


# -- base_margin --------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("tree_method", ["hist", "exact"])
def test_constant_margin_is_a_base_score(task, tree_method):
    X, y = problem(task)
    plain = make(task, tree_method=tree_method).fit(X, y)
    margin = np.tile(plain._base_raw_, (len(X), 1))
    same = make(task, tree_method=tree_method, base_score=0.3 if task != "multiclass" else None)
    same.fit(X, y, base_margin=margin)
    np.testing.assert_array_equal(same.trees_.values, plain.trees_.values)
    np.testing.assert_array_equal(same.predict(X, base_margin=margin), plain.predict(X))


@pytest.mark.parametrize("task", TASKS)
def test_margin_is_what_the_trees_are_added_to(task):
    X, y = problem(task)
    margin = margin_of(task)
    model = make(task).fit(X, y, base_margin=margin)
    raw = model.predict_raw(X, base_margin=margin)
    free = model.predict_raw(X)
    columns = margin.reshape(len(X), -1)
    np.testing.assert_allclose(raw - columns, free - model._base_raw_, atol=1e-12)
    flat = model.predict_raw(X, base_margin=columns.ravel())
    np.testing.assert_array_equal(flat, raw)
    if task != "regression":
        proba = model.predict_proba(X, base_margin=margin)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        np.testing.assert_array_equal(
            model.predict(X, base_margin=margin), model.classes_[proba.argmax(axis=1)]
        )


def test_continued_training_with_a_margin_is_one_long_run():
    X, y = problem("binary")
    margin = margin_of("binary")
    whole = make("binary", n_estimators=8).fit(X, y, base_margin=margin)
    half = make("binary", n_estimators=3).fit(X, y, base_margin=margin)
    rest = make("binary", n_estimators=5).fit(X, y, base_margin=margin, xgb_model=half)
    np.testing.assert_allclose(
        rest.predict_raw(X, base_margin=margin), whole.predict_raw(X, base_margin=margin),
        rtol=1e-9,
    )  # fmt: skip


def test_margins_of_validation_tables():
    X, y = problem("regression")
    margin = margin_of("regression")
    model = make("regression", early_stopping_rounds=50)
    model.fit(X[:200], y[:200], base_margin=margin[:200],
              eval_set=[(X[200:], y[200:]), (X[200:], y[200:])],
              base_margin_eval_set=[margin[200:], None],
              X_val=X[200:], y_val=y[200:], base_margin_val=margin[200:])  # fmt: skip
    curves = [curve["rmse"] for curve in model.evals_result().values()]
    assert curves[0] == curves[2] != curves[1]
    for k, raw in enumerate(model.staged_predict(X[200:], base_margin=margin[200:])):
        assert curves[0][k] == pytest.approx(np.sqrt(np.mean((raw - y[200:]) ** 2)))
    free = model.predict(X[200:], iteration_range=(0, 5))
    assert curves[1][-1] == pytest.approx(np.sqrt(np.mean((free - y[200:]) ** 2)))


def test_the_margin_of_the_user_is_not_changed():
    X, y = problem("multiclass")
    margin = margin_of("multiclass")
    before = margin.copy()
    model = make("multiclass").fit(X, y, base_margin=margin)
    model.predict(X, base_margin=margin)
    np.testing.assert_array_equal(margin, before)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"base_margin": [1.0]}, "base_margin must have the shape"),
        ({"base_margin": np.zeros((300, 2))}, "base_margin must have the shape"),
        ({"base_margin": np.zeros((1, 300))}, "base_margin must have the shape"),
        ({"base_margin": np.full(300, np.nan)}, "base_margin must hold finite numbers"),
        ({"base_margin": "zero"}, "base_margin must be an array of numbers"),
        ({"base_margin_eval_set": [None]}, "one entry per pair of eval_set"),
        ({"base_margin_eval_set": 3}, "base_margin_eval_set must be a list"),
        ({"base_margin_val": np.zeros(300)}, "base_margin_val needs X_val and y_val"),
    ],
)
def test_wrong_margins_are_named(given, match):
    X, y = problem("regression")
    model = make("regression")
    before = dict(vars(model))
    with pytest.raises((TypeError, ValueError), match=match):
        model.fit(X, y, **given)
    assert vars(model) == before
    model.fit(X, y)
    if "base_margin" in given:
        with pytest.raises((TypeError, ValueError), match=match):
            model.predict(X, base_margin=given["base_margin"])


# -- stages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_stages_end_in_the_prediction(task):
    X, y = problem(task)
    model = make(task, n_estimators=60, learning_rate=0.8, early_stopping_rounds=3)
    model.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])])
    stages = list(model.staged_predict(X))
    assert len(stages) == model.best_iteration + 1
    np.testing.assert_array_equal(stages[-1], model.predict(X))
    np.testing.assert_array_equal(stages[0], model.predict(X, iteration_range=(0, 1)))
    if task != "regression":
        proba = list(model.staged_predict_proba(X))
        np.testing.assert_array_equal(proba[-1], model.predict_proba(X))
        np.testing.assert_array_equal(proba[0], model.predict_proba(X, iteration_range=(0, 1)))


# -- base_score, targets of validation tables -----------------------------------------------------


def test_base_score_of_each_output():
    X, y = problem("regression")
    both = np.column_stack([y, -y])
    model = make("regression", base_score=[1.0, -2.0]).fit(X, both)
    np.testing.assert_array_equal(model._base_raw_, [1.0, -2.0])
    one = make("regression", base_score=-2.0).fit(X, -y)
    np.testing.assert_allclose(model.predict(X)[:, 1], one.predict(X), rtol=1e-12)
    with pytest.raises(ValueError, match="base_score must be one number or 2"):
        make("regression", base_score=[1.0, 2.0, 3.0]).fit(X, both)


@pytest.mark.parametrize(
    ("objective", "bad", "allowed"),
    [
        ("count:poisson", -1.0, "at least 0"),
        ("reg:gamma", 0.0, "positive"),
        ("reg:tweedie", -0.5, "at least 0"),
    ],
)
def test_validation_targets_are_within_the_range_of_the_loss(objective, bad, allowed):
    X, y = problem("regression")
    y = np.exp(y / np.abs(y).max())
    wrong = y.copy()
    wrong[7] = bad
    # Before any work: a table of no use to the training comes too late otherwise.
    started = []

    class Look:
        def before_training(self, model):
            started.append(model)

    model = make("regression", objective=objective, callbacks=[Look()])
    with pytest.raises(ValueError, match=f"the y of validation_1 must be {allowed}.*in row 7"):
        model.fit(X, y, eval_set=[(X, y), (X, wrong)])
    with pytest.raises(ValueError, match=f"y_val must be {allowed}"):
        model.fit(X, y, X_val=X, y_val=wrong)
    assert not started and not hasattr(model, "trees_")
