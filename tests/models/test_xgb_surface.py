"""The XGBoost-style surface beyond parameters of trees: objectives, callbacks, more rounds."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from gb_data import make_xgb as make
from gb_data import table, weights
from gb_data import xgb_data as data
from xgb_data import TASKS, output

OBJECTIVES = (
    "reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:quantileerror",
    "reg:expectileerror", "reg:logcosh", "count:poisson", "reg:gamma", "reg:tweedie",
)  # fmt: skip


# -- objectives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["hist", "exact", "approx"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_lowers_its_loss(objective, method):
    X, y = data()
    if objective in OBJECTIVES[-3:]:
        y = np.exp(0.3 * y)
    levels = {"quantile_alpha": 0.7, "expectile_alpha": 0.7}
    model = make(objective=objective, tree_method=method, **levels, subsample=0.9, random_state=0)
    model.fit(X, y, eval_set=[(X, y)])
    (curve,) = model.evals_result()["validation_0"].values()
    assert np.all(np.diff(curve) < 0)
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.7
    if objective in OBJECTIVES[-3:]:
        assert model.predict(X).min() > 0


@pytest.mark.parametrize("name", ["quantile", "expectile"])
def test_levels_never_cross(name):
    X, y = data(n=400)
    y = y * (1 + np.abs(X[:, 1]))
    new = 4 * table(300, seed=8)
    alpha = [0.9, 0.1, 0.5]
    params = {f"{name}_alpha": alpha, "objective": f"reg:{name}error", "n_estimators": 40}
    model = make(**params, max_depth=5).fit(X, y, eval_set=[(X, y)])
    assert list(model.evals_result()["validation_0"]) == [name]
    ordered = model.predict(new)[:, np.argsort(alpha)]
    assert ordered.shape == (300, 3) and np.all(np.diff(ordered, axis=1) >= 0)
    assert np.any(np.diff(model.predict(new, output_margin=True)[:, [1, 2, 0]], axis=1) < 0)
    with pytest.raises(ValueError, match=f"{name}_alpha"):
        make(objective=f"reg:{name}error").fit(X, y)


def test_score_of_several_levels_is_refused():
    X, y = data()
    model = make(objective="reg:quantileerror", quantile_alpha=[0.1, 0.9]).fit(X, y)
    with pytest.raises(ValueError, match="score is not defined for 2 predictions of one target"):
        model.score(X, y)


def test_an_expectile_of_one_half_is_the_mean():
    X, y = data()
    a = make(objective="reg:expectileerror", expectile_alpha=0.5, reg_lambda=0.0).fit(X, y)
    b = make(reg_lambda=0.0, min_child_weight=2.0).fit(X, y)
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-4, atol=1e-4)


def test_several_targets():
    X, y = data()
    Y = np.column_stack([y, -2 * y, X[:, 1]])
    weight = weights(300)
    model = make(eval_metric=["rmse", "mae"], early_stopping_rounds=3)
    model.fit(X, Y, weight, eval_set=[(X, Y)])
    for k in range(3):
        single = make().fit(X, Y[:, k], weight)
        np.testing.assert_allclose(model.predict(X)[:, k], single.predict(X), rtol=1e-6)
    rmse = np.sqrt(np.mean((Y - model.predict(X)) ** 2))
    assert model.evals_result()["validation_0"]["rmse"][-1] == pytest.approx(rmse)
    assert model.score(X, Y) > 0.5 and model.apply(X).shape == (300, 18)
    column = make().fit(X, Y[:, :1])
    np.testing.assert_array_equal(column.predict(X), make().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="the y of validation_0 must have 3 targets"):
        model.fit(X, Y, eval_set=[(X, y)])
    with pytest.raises(ValueError, match="is for one target"):
        make(objective="reg:quantileerror", quantile_alpha=0.5).fit(X, Y)


@pytest.mark.parametrize("name", ["quantile", "expectile"])
def test_metric_of_one_prediction_for_several_levels(name):
    X, y = data()
    params = {"objective": f"reg:{name}error", f"{name}_alpha": [0.1, 0.9]}
    assert make(**params, eval_metric=name).fit(X, y, eval_set=[(X, y)]).n_iter_ == 6
    with pytest.raises(ValueError, match=f"eval_metric='mae' .* 2 levels; use '{name}'"):
        make(**params, eval_metric=[name, "mae"]).fit(X, y)


def logistic(y, raw):
    p = 1 / (1 + np.exp(-raw))
    return p - y, p * (1 - p)


def softmax(y, raw):
    p = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    return p - np.eye(3)[y.astype(int)], 2 * p * (1 - p)


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
@pytest.mark.parametrize(
    ("task", "own", "base"),
    [
        ("regression", lambda y, raw: (raw - y, np.ones(len(y))), 0.5),
        ("binary", logistic, 0.5),
        ("multiclass", softmax, 0.5),
    ],
    ids=TASKS,
)
def test_own_objective_is_the_built_in_one(task, own, base, weighted):
    X, y = data(task)
    weight = weights(300) if weighted else None
    a = make(task, objective=own).fit(X, y, weight, eval_set=[(X, y)])
    b = make(task, base_score=base).fit(X, y, weight, eval_set=[(X, y)])
    np.testing.assert_allclose(output(a, X), output(b, X), rtol=1e-4, atol=1e-5)
    for name, curve in b.evals_result()["validation_0"].items():
        np.testing.assert_allclose(a.evals_result()["validation_0"][name], curve, rtol=1e-4)


@pytest.mark.parametrize(
    ("params", "start"), [({}, 0.0), ({"base_score": 0.3}, np.log(3 / 7)), ({"base_score": 0.5}, 0)]
)
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_own_objective_of_two_classes_starts_at_a_probability(params, start, scale):
    X, y = data("binary")
    seen = []

    def own(y, raw):
        seen.append(raw.copy())
        return logistic(y, raw)

    make("binary", objective=own, scale_pos_weight=scale, **params).fit(X, y)
    np.testing.assert_allclose(seen[0], start, atol=1e-15)


@pytest.mark.parametrize("scale", [0.1, 10.0])
def test_hinge_starts_on_the_side_that_weighs_more(scale):
    X, y = data("binary")
    model = make("binary", objective="binary:hinge", scale_pos_weight=scale).fit(X, y)
    margin = model.predict(X, output_margin=True, iteration_range=(6, 6))
    assert set(margin) == {float(scale > 1)}


def test_own_objective_that_fails():
    X, y = data()
    wrong = {
        "pair": lambda y, raw: raw,
        "shape": lambda y, raw: (raw[:3], raw[:3]),
        "not finite": lambda y, raw: (raw * np.nan, raw),
        "negative hessian": lambda y, raw: (raw, raw * 0 - 1),
        "hess .* 0 in every row": lambda y, raw: (raw - y, raw * 0),
    }
    for message, objective in wrong.items():
        with pytest.raises(ValueError, match=message):
            make(objective=objective).fit(X, y)


def test_hinge_predicts_labels():
    X, y = data("binary")
    model = make("binary", objective="binary:hinge", n_estimators=30).fit(X, y)
    assert model.score(X, y) > 0.95
    assert set(np.unique(model.predict_proba(X))) == {0.0, 1.0}


@pytest.mark.parametrize("task", TASKS)
def test_own_metrics_beside_others(task):
    X, y = data(task)
    seen = []

    def spread(y_true, y_pred, sample_weight):
        seen.append((y_true.shape, np.shape(y_pred), sample_weight.shape))
        return float(np.std(y_pred))

    first = {"regression": "mae", "binary": "auc", "multiclass": "merror"}[task]
    model = make(task, eval_metric=[first, spread], early_stopping_rounds=2)
    model.fit(X, y, eval_set=[(X, y)], sample_weight_eval_set=[np.ones(300)])
    curves = model.evals_result()["validation_0"]
    assert list(curves) == [first, "spread"]
    # Its predictions spread ever more, so that the first round is the best.
    assert model.best_iteration == 0 and model.n_iter_ == 3
    shape = (300, 3) if task == "multiclass" else (300,)
    assert seen == [((300,), shape, (300,))] * 3


# -- more rounds --------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("subsample", [1.0, 0.6])
def test_continued_training_is_one_long_run(task, subsample, tmp_path):
    X, y = data(task)
    params = {"subsample": subsample, "colsample_bynode": 0.6, "random_state": 3}
    whole = make(task, n_estimators=9, **params).fit(X, y, eval_set=[(X, y)])
    part = make(task, n_estimators=5, **params).fit(X, y)
    part.save(tmp_path / "part")
    for given in (part, str(tmp_path / "part"), tmp_path / "part"):
        model = make(task, n_estimators=4, **params)
        model.fit(X, y, xgb_model=given, eval_set=[(X, y)])
        assert model.n_iter_ == 9
        np.testing.assert_array_equal(model.trees_.nodes["feature"], whole.trees_.nodes["feature"])
        np.testing.assert_allclose(output(model, X), output(whole, X), rtol=1e-9)
    for name, curve in model.evals_result()["validation_0"].items():
        np.testing.assert_allclose(curve, whole.evals_result()["validation_0"][name][5:])
    assert part.n_iter_ == 5
    itself = part.set_params(n_estimators=4).fit(X, y, xgb_model=part)
    np.testing.assert_allclose(output(itself, X), output(whole, X), rtol=1e-9)


def test_continued_training_stops_early_in_rounds_of_all():
    X, y = data(n=500)
    y = y + 3 * np.random.default_rng(0).normal(size=500)
    params = {"early_stopping_rounds": 2, "learning_rate": 0.5}
    whole = make(n_estimators=60, **params).fit(X[:250], y[:250], X_val=X[250:], y_val=y[250:])
    assert 2 < whole.best_iteration < 50
    part = make(n_estimators=2, learning_rate=0.5).fit(X[:250], y[:250])
    rest = make(n_estimators=58, **params)
    rest.fit(X[:250], y[:250], X_val=X[250:], y_val=y[250:], xgb_model=part)
    assert rest.best_iteration == whole.best_iteration
    np.testing.assert_allclose(rest.predict(X), whole.predict(X), rtol=1e-9)


def test_models_that_cannot_be_continued():
    X, y = data("multiclass")
    three = make("multiclass").fit(X, y)
    with pytest.raises(ValueError, match="y contains|not among|unknown|label"):
        make("multiclass").fit(X, y + 1, xgb_model=three)
    with pytest.raises(TypeError, match="xgb_model must be a fitted XGBRegressor"):
        make().fit(X, y, xgb_model=three)
    with pytest.raises(ValueError, match="not fitted"):
        make().fit(X, y, xgb_model=make())
    with pytest.raises(ValueError, match="features"):
        make().fit(X[:, :2], y, xgb_model=make().fit(X, y))
    with pytest.raises(ValueError, match="xgb_model has 1 outputs"):
        make().fit(X, np.column_stack([y, y]), xgb_model=make().fit(X, y))
    with pytest.raises(ValueError, match="loss 'squared'.*loss 'poisson'.*same link"):
        make(objective="count:poisson").fit(X, y, xgb_model=make().fit(X, y))
    # Another loss with the same meaning of raw scores is fine.
    absolute = make(objective="reg:absoluteerror", n_estimators=2)
    assert absolute.fit(X, y, xgb_model=make(n_estimators=2).fit(X, y)).n_iter_ == 4


# -- ranges of rounds ---------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_ranges_of_rounds(task):
    X, y = data(task)
    model, short = make(task).fit(X, y), make(task, n_estimators=4).fit(X, y)
    if task == "regression":
        first = model.predict(X, iteration_range=(0, 4))
        np.testing.assert_array_equal(first, short.predict(X))
    else:
        first = model.predict_proba(X, iteration_range=(0, 4))
        np.testing.assert_array_equal(first, short.predict_proba(X))
        labels = model.predict(X, iteration_range=(0, 4))
        np.testing.assert_array_equal(labels, short.predict(X))
    whole = model.predict_raw(X)
    np.testing.assert_array_equal(model.predict_raw(X, iteration_range=(0, 0)), whole)
    parts = [model.predict_raw(X, iteration_range=r) for r in ((0, 2), (2, 5), (5, 6))]
    base = model.predict_raw(X, iteration_range=(6, 6))
    assert len(np.unique(base, axis=0)) == 1
    np.testing.assert_allclose(sum(parts) - 2 * base, whole, rtol=1e-9, atol=1e-12)
    leaves = model.apply(X)
    n_outputs = whole.shape[1]
    np.testing.assert_array_equal(model.predict(X, pred_leaf=True), leaves)
    np.testing.assert_array_equal(
        model.apply(X, iteration_range=(1, 3)), leaves[:, n_outputs : 3 * n_outputs]
    )
    for wrong in ((0, 7), (3, 2), (-1, 2), (0,), 3, (0.5, 2)):
        with pytest.raises((TypeError, ValueError), match="iteration_range"):
            model.predict(X, iteration_range=wrong)


# -- categories ---------------------------------------------------------------------------------


def test_feature_types():
    X, y = data()
    X[:, 0] = np.random.default_rng(0).integers(0, 8, size=300)
    y = y + 5 * (X[:, 0] % 3)
    a = make(feature_types=["c", "q", "float", "int"]).fit(X, y)
    b = make(categorical_features=[0]).fit(X, y)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert np.any(a.trees_.nodes["category_start"] >= 0)
    with pytest.raises(ValueError, match="not both"):
        make(feature_types=["c", "q", "q", "q"], categorical_features=[0]).fit(X, y)
    with pytest.raises(ValueError, match="enable_categorical=False"):
        make(feature_types=["c", "q", "q", "q"], enable_categorical=False).fit(X, y)
    make(feature_types=["q"] * 4, enable_categorical=False).fit(X, y)


def test_summary():
    X, y = data("multiclass")
    model = make("multiclass", early_stopping_rounds=9).fit(X, y, eval_set=[(X, y)])
    text = model.summary()
    assert "XGBClassifier: softmax loss\nstopped early, best round 5" in text
    assert "rounds 6, trees 18" in text and "importance" in text


# -- progress -----------------------------------------------------------------------------------


def test_progress_bar_on_a_terminal(monkeypatch, capsys):
    bars = []

    class Bar:
        def __init__(self, total, **_):
            self.total, self.done, self.closed = total, 0, False
            bars.append(self)

        def update(self, n):
            self.done += n

        def write(self, line, file):
            print(line, file=file)

        def close(self):
            self.closed = True

    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=Bar))
    X, y = data()
    make(n_estimators=4, verbose=2).fit(X, y)
    assert not bars  # no terminal
    capsys.readouterr()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    make(n_estimators=4, verbose=2).fit(X, y)
    (bar,) = bars
    assert (bar.total, bar.done, bar.closed) == (4, 4, True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["[0]", "[2]", "[3]"]
    make(n_estimators=4).fit(X, y)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    make(n_estimators=4, verbose=1).fit(X, y)
    assert len(bars) == 1
