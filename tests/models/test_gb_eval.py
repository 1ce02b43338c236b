"""Gradient boosting watched by several metrics on several tables."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from gb_data import make, output, signal, staged_output, table, target, weights

import hybridtrees
from hybridtrees import metrics

TABLES = {"n": 200, "seeds": (3, 4)}


def tables(loss):
    held = [table(80, seed=seed) for seed in TABLES["seeds"]]
    return [(X, target(loss, X, seed)) for X, seed in zip(held, TABLES["seeds"], strict=True)]


def staged(model, X):
    return [stage.copy() for stage in staged_output(model, X)]


# -- curves -------------------------------------------------------------------------------------


@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_curves_of_a_regressor_are_what_a_recomputation_gives(splitter):
    X = table(200)
    y, pairs, weight = target("squared_error", X), tables("squared_error"), weights(80)

    def largest(y_true, y_pred):
        return np.abs(y_true - y_pred).max()

    model = make("squared_error", n_estimators=6, splitter=splitter,
                 eval_metric=["loss", "mae", "r2", largest])  # fmt: skip
    model.fit(X, y, eval_set=pairs, sample_weight_eval_set=[None, weight])
    assert list(model.evals_result_) == ["validation_0", "validation_1"]
    for (held, truth), w, curves in zip(
        pairs, (None, weight), model.evals_result_.values(), strict=True
    ):
        stages = staged(model, held)
        expected = {
            "loss": [metrics.mean_squared_error(truth, s, sample_weight=w) for s in stages],
            "mae": [metrics.mean_absolute_error(truth, s, sample_weight=w) for s in stages],
            "r2": [metrics.r2_score(truth, s, sample_weight=w) for s in stages],
            "largest": [largest(truth, s) for s in stages],
        }
        assert list(curves) == list(expected)
        for name, curve in curves.items():
            np.testing.assert_allclose(curve, expected[name], rtol=1e-10)
    np.testing.assert_array_equal(
        model.validation_scores_, model.evals_result_["validation_1"]["largest"]
    )
    assert not hasattr(model, "best_iteration_")
    plain = make("squared_error", n_estimators=6, splitter=splitter).fit(X, y)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))
    assert not hasattr(plain, "evals_result_")


@pytest.mark.parametrize(
    ("loss", "names"),
    [
        ("log_loss", ["logloss", "auc", "error", "brier"]),
        ("exponential", ["logloss", "aucpr"]),
        ("multinomial", ["mlogloss", "merror", "auc"]),
    ],
)
def test_curves_of_a_classifier(loss, names):
    X = table(200)
    model = make(loss, n_estimators=4, eval_metric=names)
    held, truth = tables(loss)[0]
    model.fit(X, target(loss, X), X_val=held, y_val=truth)
    proba = staged(model, held)
    curves = model.evals_result_["validation_0"]
    assert list(curves) == names
    expected = [metrics.log_loss(truth, p, labels=model.classes_) for p in proba]
    np.testing.assert_allclose(curves[names[0]], expected, rtol=1e-10)
    if "merror" in names:
        errors = [np.mean(p.argmax(axis=1) != truth) for p in proba]
        np.testing.assert_allclose(curves["merror"], errors, rtol=1e-12)


def test_the_table_of_x_val_stands_last():
    X, pairs = table(200), tables("poisson")
    y = target("poisson", X)
    model = make("poisson", n_estimators=3, eval_metric="mae")
    model.fit(X, y, eval_set=pairs[:1], X_val=pairs[1][0], y_val=pairs[1][1])
    both = make("poisson", n_estimators=3, eval_metric="mae").fit(X, y, eval_set=pairs)
    assert model.evals_result_ == both.evals_result_
    np.testing.assert_array_equal(
        model.validation_scores_, model.evals_result_["validation_1"]["mae"]
    )


# -- the best round -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "metric", "maximize"),
    [
        ("squared_error", None, False),
        ("squared_error", "r2", True),
        ("log_loss", ["loss", "auc"], True),
        ("multinomial", "merror", False),
    ],
)
def test_predictions_use_the_best_round(loss, metric, maximize):
    X = table(300)
    y = signal(X, noise=3.0)
    if loss != "squared_error":
        y = np.digitize(y, [0.0] if loss == "log_loss" else [-1.0, 1.0])
    params = {"n_estimators": 150, "learning_rate": 0.5}
    model = make(loss, **params, n_iter_no_change=8, tol=0.0, eval_metric=metric)
    # The table that decides is the last.
    model.fit(X[:200], y[:200], eval_set=[(X[:200], y[:200]), (X[200:], y[200:])])
    scores = model.validation_scores_
    best = int(np.argmax(scores) if maximize else np.argmin(scores))
    assert model.best_iteration_ == best and model.best_score_ == scores[best]
    assert best < model.n_estimators_ - 1 < 149 and len(scores) == model.n_estimators_
    short = make(loss, **params | {"n_estimators": best + 1}).fit(X[:200], y[:200])
    np.testing.assert_allclose(output(model, X), output(short, X), rtol=1e-12)
    np.testing.assert_array_equal(staged(model, X)[-1], output(model, X))
    assert len(staged(model, X)) == best + 1 == model.apply(X).shape[1]
    assert f"best round {best}" in model.summary()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(output(again, X), output(model, X))
    # A fit without early stopping forgets it.
    model.set_params(n_iter_no_change=None, n_estimators=3).fit(X, y)
    assert not hasattr(model, "best_iteration_") and not hasattr(model, "evals_result_")


def test_files_keep_the_best_round(tmp_path):
    X = table(200)
    y = signal(X, noise=3.0)
    model = make("squared_error", n_iter_no_change=3, learning_rate=0.5, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    other = hybridtrees.load(tmp_path / "model")
    assert other.best_iteration_ == model.best_iteration_
    np.testing.assert_array_equal(other.predict(X), model.predict(X))


def test_warm_start_goes_on_with_the_curves():
    X = table(300)
    y = signal(X, noise=3.0)
    params = {"n_iter_no_change": 60, "random_state": 0, "learning_rate": 0.5,
              "eval_metric": ["loss", "mae"]}  # fmt: skip
    whole = make("squared_error", n_estimators=40, **params).fit(X, y)
    parts = make("squared_error", n_estimators=25, warm_start=True, **params).fit(X, y)
    first_best = parts.best_iteration_
    parts.set_params(n_estimators=40).fit(X, y)
    for name in ("loss", "mae"):
        np.testing.assert_allclose(
            whole.evals_result_["validation_0"][name], parts.evals_result_["validation_0"][name],
            rtol=1e-10,
        )  # fmt: skip
    # The best round lies in the first part, and stays the best.
    assert whole.best_iteration_ == parts.best_iteration_ == first_best < 25
    np.testing.assert_allclose(whole.predict(X), parts.predict(X), rtol=1e-10)


def test_a_table_that_comes_later_numbers_rounds_from_the_start():
    X = table(300)
    y = signal(X, noise=3.0)
    model = make("squared_error", n_estimators=4, warm_start=True).fit(X[:200], y[:200])
    model.set_params(n_estimators=12, n_iter_no_change=20)
    model.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    assert len(model.validation_scores_) == 8
    assert model.best_iteration_ == 4 + int(np.argmin(model.validation_scores_))


# -- what cannot be -----------------------------------------------------------------------------


def test_undefined_scores_stop_early_stopping():
    X = table(100)
    y = (X[:, 0] > 0).astype(int)
    model = make("log_loss", eval_metric="auc", n_iter_no_change=3)
    with pytest.raises(ValueError, match="auc is not defined on validation_0"):
        model.fit(X, y, X_val=X[:5], y_val=[0] * 5)
    model.set_params(n_iter_no_change=None, n_estimators=2).fit(X, y, X_val=X[:5], y_val=[0] * 5)
    assert np.isnan(model.evals_result_["validation_0"]["auc"]).all()


@pytest.mark.parametrize("value", ["nothing", 3, [], ["mae", 3], [None], "auc"])
def test_wrong_metrics_are_named(value):
    X = table(50)
    model = make("squared_error", eval_metric=value)
    before = dict(vars(model))
    with pytest.raises((TypeError, ValueError), match="eval_metric"):
        model.fit(X, signal(X))
    assert vars(model) == before


def test_two_metrics_of_one_name():
    X = table(50)

    def loss(y_true, y_pred):
        return 0.0

    model = make("squared_error", n_estimators=1, eval_metric=["loss", loss])
    with pytest.raises(ValueError, match="eval_metric holds two metrics of the name 'loss'"):
        model.fit(X, signal(X))
    model.set_params(eval_metric=["mae", loss, loss, "mae"]).fit(
        X, signal(X), X_val=X, y_val=X[:, 0]
    )
    assert list(model.evals_result_["validation_0"]) == ["mae", "loss"]


def test_metric_that_works_in_place_does_no_harm():
    X = table(60)
    y = signal(X)

    def rude(y_true, y_pred):
        y_pred[:] = 0.0
        return 1.0

    params = {"n_estimators": 3, "eval_metric": ["loss", rude]}
    model = make("squared_error", **params).fit(X, y, X_val=X, y_val=y)
    np.testing.assert_allclose(model.evals_result_["validation_0"]["loss"], model.train_score_)


def test_wrong_tables_are_named():
    X = table(50)
    y = np.abs(signal(X))
    model = make("gamma", n_estimators=2)
    wrong = {
        r"eval_set\[0\] must be a pair": {"eval_set": [X]},
        "eval_set must be a list": {"eval_set": 3},
        "sample_weight_eval_set must have one entry": {
            "eval_set": [(X, y)], "sample_weight_eval_set": [],
        },
        "the y of validation_1 must be positive": {"eval_set": [(X, y), (X, y - 100)]},
        "y_val must be positive": {"eval_set": [(X, y)], "X_val": X, "y_val": 0 * y},
        "the sample_weight of validation_0": {
            "eval_set": [(X, y)], "sample_weight_eval_set": [y[:3]],
        },
    }  # fmt: skip
    for match, given in wrong.items():
        with pytest.raises((TypeError, ValueError), match=match):
            model.fit(X, y, **given)
    assert not hasattr(model, "trees_")


def test_verbose_tells_of_every_table(capsys):
    X, pairs = table(200), tables("squared_error")
    model = make("squared_error", n_estimators=2, verbose=1, eval_metric=["loss", "mae"])
    model.fit(X, signal(X), eval_set=pairs)
    last = capsys.readouterr().out.splitlines()[-1]
    for name, curves in model.evals_result_.items():
        for metric, curve in curves.items():
            assert f"{name}-{metric}:{curve[-1]:.5f}" in last
