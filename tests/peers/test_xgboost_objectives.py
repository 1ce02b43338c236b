"""Every objective against xgboost: predictions of exact trees, starts, curves of its metric."""

from __future__ import annotations

import numpy as np
import pytest
from gb_data import signal, table, weights
from xgb_versions import robust_parameters

from hybridtrees import XGBClassifier, XGBRegressor
from hybridtrees.losses import xgboost_loss

xgboost = pytest.importorskip("xgboost")
pytestmark = pytest.mark.peer

# objective: parameters
REGRESSION = {
    "reg:squarederror": {},
    "reg:absoluteerror": {},
    "reg:pseudohubererror": {"huber_slope": 1.3},
    "reg:quantileerror": {"quantile_alpha": 0.7},
    "count:poisson": {},
    "reg:gamma": {},
    "reg:tweedie": {"tweedie_variance_power": 1.3},
}
CLASSIFICATION = {"binary:logistic": 2, "binary:hinge": 2, "multi:softprob": 3}
ROBUST = ("reg:absoluteerror", "reg:quantileerror")

# Sums of few rows are near ties; small leaves would amplify them.
SHAPE = {"n_estimators": 8, "max_depth": 3, "n_jobs": 1, "min_child_weight": 3.0}

# Where exact trees of the two libraries cannot be compared.
NOT_EXACT = {
    "binary:hinge": "rows beyond the margin have no gradient: cuts among them are equally good"
}


def data(objective, n=400):
    X = table(n)
    y = signal(X)
    if objective in CLASSIFICATION:
        return X, np.digitize(y, [-1.0, 1.0][: CLASSIFICATION[objective] - 1])
    if objective == "count:poisson":
        return X, np.random.default_rng(0).poisson(np.exp(0.3 * y)).astype(float)
    if objective == "reg:gamma":
        return X, np.exp(0.3 * y)
    return X, np.maximum(y, 0) if objective == "reg:tweedie" else y


def fit_both(objective, X, y, weight=None, method="exact", **params):
    """Both models, watched on the training rows by the metric of the objective."""
    kind = "Classifier" if objective in CLASSIFICATION else "Regressor"
    params = {"objective": objective, "tree_method": method, **SHAPE, **params}
    ours = {"Regressor": XGBRegressor, "Classifier": XGBClassifier}[kind](**params)
    if objective in ROBUST:
        alpha = params.get("quantile_alpha", 0.5)
        # xgboost starts the absolute error near the mean, and its own functions at 0.5.
        start = xgboost_loss(objective, quantile_alpha=alpha).init_raw(y, weight)
        params |= robust_parameters(objective, alpha) | {"base_score": start[0]}
    theirs = getattr(xgboost, f"XGB{kind}")(**params)
    for model in (ours, theirs):
        model.fit(X, y, sample_weight=weight, eval_set=[(X, y)], verbose=False)
    return ours, theirs


@pytest.mark.parametrize("method", ["exact", "hist"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
@pytest.mark.parametrize("objective", [*REGRESSION, *CLASSIFICATION])
def test_same_predictions(objective, weighted, method):
    X, y = data(objective)
    if method == "hist":
        X = np.round(8 * X)  # so few values that the bins of both libraries are the values
    elif objective in NOT_EXACT:
        pytest.skip(NOT_EXACT[objective])
    weight = weights(len(X)) if weighted else None
    ours, theirs = fit_both(objective, X, y, weight, method, **REGRESSION.get(objective, {}))
    a, b = ours.predict(X, output_margin=True), theirs.predict(X, output_margin=True)
    spread = b.max() - b.min()
    assert spread > 0
    close = np.abs(a - b) < 1e-4 * spread
    # Equally good splits are told apart by rounding, in the robust losses above all.
    assert close.mean() > 0.99, (np.abs(a - b) / spread).max()
    one, other = ours.evals_result()["validation_0"], theirs.evals_result()["validation_0"]
    assert list(one) == list(other)
    for name, curve in one.items():
        np.testing.assert_allclose(curve, other[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("alphas", [[0.1, 0.5, 0.9], [0.8, 0.3]])
def test_several_quantiles(alphas):
    X, y = data("reg:quantileerror")
    X = np.round(8 * X)
    ours = XGBRegressor(objective="reg:quantileerror", quantile_alpha=alphas, **SHAPE).fit(X, y)
    # One by one: xgboost before 3.4 has no own function for several, and 3.4 no falling levels.
    theirs = [
        fit_both("reg:quantileerror", X, y, None, "hist", quantile_alpha=alpha)[1]
        for alpha in alphas
    ]
    a, b = ours.predict_raw(X), np.column_stack([model.predict(X) for model in theirs])
    assert a.shape == b.shape == (len(X), len(alphas))
    assert np.mean(np.abs(a - b) < 1e-4 * np.ptp(b)) > 0.98
    ordered = ours.predict(X)[:, np.argsort(alphas)]
    np.testing.assert_array_equal(ordered, np.sort(a, axis=1))


def test_several_targets():
    X, y = data("reg:squarederror")
    Y = np.column_stack([y, np.cos(y), X[:, 1]])
    ours, theirs = fit_both("reg:squarederror", np.round(8 * X), Y, weights(len(X)), "hist")
    a, b = ours.predict(np.round(8 * X)), theirs.predict(np.round(8 * X))
    assert a.shape == (len(X), 3)
    np.testing.assert_allclose(a, b, atol=1e-3 * np.ptp(b))
    single = XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1, min_child_weight=3.0)
    single.fit(np.round(8 * X), Y[:, 1], weights(len(X)))
    np.testing.assert_allclose(a[:, 1], single.predict(np.round(8 * X)), rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
def test_own_objective_and_metric(weighted):
    X, y = data("reg:squarederror")
    weight = weights(len(X)) if weighted else None

    def fair(y_true, y_pred, sample_weight=None):
        gap = y_pred - y_true
        w = 1.0 if sample_weight is None else sample_weight
        return w * gap / (1 + np.abs(gap)), w / (1 + np.abs(gap)) ** 2

    def worst(y_true, y_pred):
        return float(np.abs(y_true - y_pred).max())

    params = {"objective": fair, "n_estimators": 8, "max_depth": 3, "n_jobs": 1}
    params |= {"tree_method": "exact", "eval_metric": worst, "base_score": 0.0}
    fit = {"sample_weight": weight, "eval_set": [(X, y)], "verbose": False}
    ours = XGBRegressor(**params).fit(X, y, **fit)
    theirs = xgboost.XGBRegressor(**params).fit(X, y, **fit)
    a, b = ours.predict(X), theirs.predict(X)
    assert np.mean(np.abs(a - b) < 1e-4 * np.ptp(b)) > 0.99
    np.testing.assert_allclose(
        ours.evals_result()["validation_0"]["worst"],
        theirs.evals_result()["validation_0"]["worst"],
        rtol=1e-3,
    )


def test_their_callbacks_work_here():
    X, y = data("reg:squarederror")
    rates = [0.5, 0.4, 0.3, 0.2, 0.1]
    results = []
    for library in (XGBRegressor, xgboost.XGBRegressor):
        schedule = xgboost.callback.LearningRateScheduler(rates)
        model = library(n_estimators=5, max_depth=3, n_jobs=1, callbacks=[schedule])
        results.append(model.fit(np.round(8 * X), y).predict(np.round(8 * X)))
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-4)


def test_continued_training_as_theirs():
    X, y = data("reg:squarederror")
    X = np.round(8 * X)
    results = []
    for library in (XGBRegressor, xgboost.XGBRegressor):
        first = library(n_estimators=4, max_depth=3, n_jobs=1).fit(X, np.abs(y))
        second = library(n_estimators=3, max_depth=2, n_jobs=1)
        second.fit(X, y, xgb_model=first)
        assert second.apply(X).shape == (400, 7)
        results.append(
            np.column_stack(
                [second.predict(X, iteration_range=r) for r in ((0, 4), (0, 7), (2, 5), (0, 0))]
            )
        )
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-4)
