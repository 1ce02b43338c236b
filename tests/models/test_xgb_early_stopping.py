"""Validation tables, their scores, and early stopping."""

from __future__ import annotations

import re

import numpy as np
import pytest
from xgb_data import TASKS, integer_table, output, target

from hybridtrees import XGBClassifier, XGBRegressor, metrics

METRICS = {
    "regression": ["rmse", "mae"],
    "binary": ["logloss", "error", "auc"],
    "multiclass": ["mlogloss", "merror"],
}


def noisy(task, missing=0.05):
    X, y, weight = integer_table(900, missing)
    y = y + 15 * np.random.default_rng(9).normal(size=900)
    return X, target(task, y), weight


def make(task, **params):
    cls = XGBRegressor if task == "regression" else XGBClassifier
    return cls(**{"n_estimators": 60, "n_jobs": 1, **params})


# -- against xgboost ----------------------------------------------------------------------------


@pytest.mark.peer
@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
@pytest.mark.parametrize(("task", "metric"), [(t, m) for t in TASKS for m in METRICS[t]])
def test_stops_where_xgboost_stops(task, metric, weighted):
    xgboost = pytest.importorskip("xgboost")
    # All values stand in the training rows and none is missing: what a tree never saw each
    # library treats in its own way.
    X, y, weight = noisy(task, missing=0.0)
    X //= 4
    train, test = slice(0, 600), slice(600, None)
    # The metric that decides is the last; the others are only watched.
    metrics = [m for m in METRICS[task] if m != metric] + [metric]
    params = {"n_estimators": 90, "n_jobs": 1, "max_depth": 3, "early_stopping_rounds": 4}
    params |= {"eval_metric": metrics}
    fit = {"eval_set": [(X[train], y[train]), (X[test], y[test])], "verbose": False}
    if weighted:
        fit |= {"sample_weight": weight[train]}
        fit |= {"sample_weight_eval_set": [weight[train], weight[test]]}
    ours = make(task, **params).fit(X[train], y[train], **fit)
    name = "XGBRegressor" if task == "regression" else "XGBClassifier"
    theirs = getattr(xgboost, name)(**params).fit(X[train], y[train], **fit)
    assert ours.best_iteration == theirs.best_iteration < 85
    assert ours.best_score == pytest.approx(theirs.best_score, rel=1e-5)
    a, b = ours.evals_result(), theirs.evals_result()
    assert {k: list(v) for k, v in a.items()} == {k: list(v) for k, v in b.items()}
    for table in a:
        for curve in a[table]:
            np.testing.assert_allclose(a[table][curve], b[table][curve], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        output(ours, X[train]), output(theirs, X[train]), rtol=1e-3, atol=1e-4
    )
    np.testing.assert_array_equal(
        ours.apply(X[train]).shape, theirs.apply(X[train]).reshape(600, -1).shape
    )


# -- the scores ---------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_scores_are_those_of_the_predictions(task):
    X, y, weight = noisy(task)
    first, second = (X[:500], y[:500]), (X[500:], y[500:])
    model = make(task, n_estimators=10, eval_metric=METRICS[task])
    model.fit(*first, eval_set=[first, second], sample_weight_eval_set=[None, weight[500:]])
    result = model.evals_result()
    assert list(result) == ["validation_0", "validation_1"]
    for (table, labels), w, scores in (
        (first, np.ones(500), result["validation_0"]),
        (second, weight[500:], result["validation_1"]),
    ):
        assert list(scores) == METRICS[task]
        assert all(len(curve) == 10 for curve in scores.values())
        prediction = output(model, table)
        if task == "regression":
            expected = np.sqrt(np.average((labels - prediction) ** 2, weights=w))
        else:
            chosen = prediction[np.arange(len(labels)), labels]
            expected = np.average(-np.log(chosen), weights=w)
        assert scores[METRICS[task][0]][-1] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("objective", "own", "metric"),
    [
        ("reg:pseudohubererror", {"huber_slope": 2.5}, "mphe"),
        ("reg:quantileerror", {"quantile_alpha": 0.8}, "quantile"),
        ("reg:tweedie", {"tweedie_variance_power": 1.2}, "tweedie-nloglik@1.2"),
    ],
)
def test_the_score_has_the_parameter_of_the_objective(objective, own, metric):
    X, y, _ = integer_table(200)
    y = np.exp(y / np.abs(y).max())
    model = make("regression", objective=objective, n_estimators=4, **own)
    model.fit(X, y, eval_set=[(X, y)])
    functions = {
        "mphe": lambda *pair: metrics.mean_pseudo_huber_error(*pair, slope=2.5),
        "quantile": lambda *pair: metrics.mean_pinball_loss(*pair, alpha=0.8),
        "tweedie-nloglik@1.2": lambda *pair: metrics.tweedie_nloglik(*pair, rho=1.2),
    }
    curve = model.evals_result()["validation_0"][metric]
    assert curve[-1] == pytest.approx(functions[metric](y, model.predict(X)), rel=1e-9)


def test_area_under_the_curve_is_maximised():
    metrics = pytest.importorskip("sklearn.metrics")
    X, y, _ = noisy("binary")
    model = make("binary", eval_metric="auc", early_stopping_rounds=5)
    model.fit(X[:600], y[:600], eval_set=[(X[600:], y[600:])])
    curve = model.evals_result()["validation_0"]["auc"]
    assert model.best_iteration == int(np.argmax(curve)) and model.best_score == max(curve)
    proba = model.predict_proba(X[600:])[:, 1]
    assert model.best_score == pytest.approx(metrics.roc_auc_score(y[600:], proba))


def test_validation_arguments_and_eval_set_are_the_same():
    X, y, weight = noisy("regression")
    a = make("regression", early_stopping_rounds=3)
    a.fit(X[:600], y[:600], X_val=X[600:], y_val=y[600:], sample_weight_val=weight[600:])
    b = make("regression", early_stopping_rounds=3)
    b.fit(X[:600], y[:600], eval_set=[(X[600:], y[600:])], sample_weight_eval_set=[weight[600:]])
    assert a.evals_result() == b.evals_result() and a.best_iteration == b.best_iteration
    c = make("regression", early_stopping_rounds=3)
    c.fit(X[:600], y[:600], eval_set=[(X[:600], y[:600])], X_val=X[600:], y_val=y[600:])
    # The last table decides, and X_val is the last.
    assert list(c.evals_result()) == ["validation_0", "validation_1"]
    assert c.best_score == min(c.evals_result()["validation_1"]["rmse"])


def test_watching_does_not_change_the_model():
    X, y, _ = noisy("regression")
    params = {"n_estimators": 8, "subsample": 0.7, "random_state": 4}
    a = make("regression", **params).fit(X, y)
    b = make("regression", **params).fit(X, y, eval_set=[(X[:99], y[:99])], verbose=False)
    np.testing.assert_array_equal(a.trees_.nodes, b.trees_.nodes)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


def test_validation_tables_are_read_like_X():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"c": rng.choice(list("xyz"), 300), "v": rng.normal(size=300)})
    y = frame["c"].map({"x": 0.0, "y": 5.0, "z": -3.0}) + frame["v"]
    model = make("regression", n_estimators=20)
    model.fit(frame[:200], y[:200], eval_set=[(frame[200:], y[200:])])
    curve = model.evals_result()["validation_0"]["rmse"]
    rmse = np.sqrt(np.mean((y[200:] - model.predict(frame[200:])) ** 2))
    assert curve[-1] == pytest.approx(rmse) and rmse < 0.5 * y.std()
    with pytest.raises(ValueError, match="feature names"):
        model.fit(frame[:200], y[:200], eval_set=[(frame[["v", "c"]][200:], y[200:])])


def test_string_labels_in_validation_tables():
    X, y, _ = noisy("multiclass")
    labels = np.array(["w", "x", "y", "z"])[y]
    a = make("multiclass", n_estimators=5).fit(X, labels, eval_set=[(X[:50], labels[:50])])
    b = make("multiclass", n_estimators=5).fit(X, y, eval_set=[(X[:50], y[:50])])
    assert a.evals_result() == b.evals_result()


# -- stopping -----------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_predict_uses_the_best_round(task):
    X, y, _ = noisy(task)
    model = make(task, early_stopping_rounds=5)
    model.fit(X[:600], y[:600], eval_set=[(X[600:], y[600:])])
    best = model.best_iteration
    assert model.n_iter_ == best + 6 < 60
    n_outputs = 4 if task == "multiclass" else 1
    assert len(model.trees_) == model.n_iter_ * n_outputs
    short = make(task, n_estimators=best + 1).fit(X[:600], y[:600])
    np.testing.assert_array_equal(output(model, X), output(short, X))
    np.testing.assert_array_equal(model.apply(X), short.apply(X))
    (curve,) = model.evals_result()["validation_0"].values()
    assert len(curve) == model.n_iter_ and model.best_score == curve[best] == min(curve)


def test_stops_after_so_many_rounds_without_progress():
    X, y, _ = noisy("regression")
    for rounds in (1, 2, 7):
        model = make("regression", early_stopping_rounds=rounds)
        model.fit(X[:600], y[:600], eval_set=[(X[600:], y[600:])])
        assert model.n_iter_ - 1 - model.best_iteration == rounds


def test_all_rounds_where_the_score_keeps_improving():
    X, y, _ = noisy("regression")
    model = make("regression", n_estimators=12, early_stopping_rounds=3, learning_rate=0.05)
    model.fit(X, y, eval_set=[(X, y)])
    assert model.n_iter_ == 12 and model.best_iteration == 11


def test_a_score_that_never_changes_stops_at_once():
    X, y, _ = integer_table(50)
    model = make("regression", early_stopping_rounds=2)
    model.fit(X, np.zeros(50), eval_set=[(X, np.zeros(50))])
    assert model.best_iteration == 0 and model.n_iter_ == 3 and model.best_score == 0


def test_one_class_in_the_validation_table():
    X, y, _ = noisy("binary")
    model = make("binary", early_stopping_rounds=3)
    model.fit(X, y, eval_set=[(X[y == 1], y[y == 1])])
    assert np.isfinite(model.evals_result()["validation_0"]["logloss"]).all()
    model.set_params(eval_metric="auc", n_estimators=8)
    with (
        pytest.warns(UserWarning, match="one class"),
        pytest.raises(ValueError, match="auc is not defined on validation_0"),
    ):
        model.fit(X, y, eval_set=[(X[y == 1], y[y == 1])])
    model.set_params(early_stopping_rounds=None)
    with pytest.warns(UserWarning, match="one class"):
        model.fit(X, y, eval_set=[(X[y == 1], y[y == 1])])
    assert np.isnan(model.evals_result()["validation_0"]["auc"]).all()


def test_a_metric_named_twice_counts_once():
    X, y, _ = noisy("regression")
    model = make("regression", n_estimators=3, eval_metric=["rmse", "mae", "rmse"])
    result = model.fit(X, y, eval_set=[(X, y)]).evals_result()["validation_0"]
    assert {name: len(curve) for name, curve in result.items()} == {"rmse": 3, "mae": 3}


def test_the_last_round_has_a_line_if_training_stops_early(capsys):
    X, y, _ = noisy("regression")
    model = make("regression", n_estimators=200, early_stopping_rounds=2, learning_rate=1.0)
    model.fit(X[:100], y[:100], eval_set=[(X[100:], y[100:])], verbose=1000)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("\t")[0] for line in lines] == ["[0]", f"[{model.n_iter_ - 1}]"]


@pytest.mark.parametrize("verbose", [True, 3, 100, False])
def test_lines_of_scores_are_those_of_xgboost(capsys, verbose):
    xgboost = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).integers(0, 9, (150, 3)).astype(float)
    y = X[:, 0] * X[:, 1] + X[:, 2]
    printed = []
    for cls in (XGBRegressor, xgboost.XGBRegressor):
        model = cls(n_estimators=8, n_jobs=1, eval_metric=["mae", "rmse"])
        eval_set = [(X[100:], y[100:]), (X[:100], y[:100])]
        model.fit(X[:100], y[:100], eval_set=eval_set, verbose=verbose)
        printed.append(capsys.readouterr().out)
    number = r"\d+\.\d{5}"
    ours, theirs = (re.sub(number, "_", text) for text in printed)
    assert ours == theirs
    values = [np.array(re.findall(number, text), dtype=float) for text in printed]
    np.testing.assert_allclose(*values, atol=2e-5)  # theirs are float32


@pytest.mark.parametrize("weight", [1e38, 1e100])
def test_statistics_beyond_float32_are_refused(weight):
    X, y, _ = noisy("regression")
    with pytest.raises(ValueError, match="overflow 32-bit floats"):
        make("regression").fit(X, y, sample_weight=np.full(len(y), weight))


@pytest.mark.parametrize("method", ["hist", "exact"])
def test_steps_that_are_too_long_are_named_as_such(method):
    X, y, _ = noisy("regression")
    model = make("regression", n_estimators=40, learning_rate=1e20, tree_method=method)
    with pytest.raises(ValueError, match="raw scores have grown to .* lower learning_rate"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="starts from raw scores of up to 1e\\+308.*base_score"):
        make("regression", base_score=1e308, tree_method=method).fit(X, y)
    with pytest.raises(ValueError, match="starts from raw scores of up to 1e\\+50.*base_margin"):
        make("regression", tree_method=method).fit(X, y, base_margin=np.full(len(y), -1e50))


def test_best_attributes_are_there_only_after_early_stopping():
    X, y, _ = noisy("regression")
    model = make("regression", n_estimators=3).fit(X, y, eval_set=[(X, y)])
    for name in ("best_iteration", "best_score"):
        with pytest.raises(AttributeError, match=f"{name} .*early_stopping_rounds"):
            getattr(model, name)


def test_early_stopping_model_survives_saving(tmp_path):
    import hybridtrees

    X, y, _ = noisy("multiclass")
    model = make("multiclass", early_stopping_rounds=2)
    model.fit(X[:600], y[:600], eval_set=[(X[600:], y[600:])])
    model.save(tmp_path / "model")
    loaded = hybridtrees.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.best_iteration == model.best_iteration
    assert loaded.evals_result() == model.evals_result()
