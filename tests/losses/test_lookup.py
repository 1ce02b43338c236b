"""Losses by name, own functions, parameters out of range, model files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from loss_cases import statistics

from hybridtrees import _persistence, losses
from hybridtrees.losses import CallableLoss, friedman_loss, xgboost_loss


def test_names_of_friedman():
    for name in losses.FRIEDMAN_LOSSES["regression"]:
        assert friedman_loss(name).n_outputs == 1
    assert friedman_loss("quantile", alpha=[0.1, 0.9]).n_outputs == 2
    assert friedman_loss("huber", alpha=0.7).alpha == 0.7
    assert friedman_loss("tweedie", power=1.2).power == 1.2
    assert isinstance(friedman_loss("log_loss", n_classes=2), losses.Logistic)
    assert friedman_loss("log_loss", n_classes=5).n_outputs == 5
    assert isinstance(friedman_loss("exponential", n_classes=2), losses.ExponentialLoss)
    assert friedman_loss("poisson").max_delta_step == 0
    with pytest.raises(ValueError, match="loss must be one of 'squared_error'.*got 'log_loss'"):
        friedman_loss("log_loss")
    with pytest.raises(ValueError, match="loss must be one of 'log_loss'.*got 'huber'"):
        friedman_loss("huber", n_classes=2)
    with pytest.raises(ValueError, match="exponential.*two classes.*holds 3"):
        friedman_loss("exponential", n_classes=3)


def test_names_of_xgboost():
    extra = {"quantile_alpha": 0.5, "expectile_alpha": 0.5}
    for name in losses.XGBOOST_OBJECTIVES["regression"]:
        loss = xgboost_loss(name, **extra)
        assert loss.n_outputs == 1 + loss.counts_classes
        assert not loss.adaptive_leaves
        exact = xgboost_loss(name, **extra, smooth=False)
        assert exact.adaptive_leaves == (name in ("reg:absoluteerror", "reg:quantileerror"))
        if loss.counts_classes:
            assert xgboost_loss(name, n_labels=4).n_outputs == 4
            with pytest.raises(ValueError, match=f"'{name}' is for one target, but y has 3"):
                xgboost_loss(name, n_targets=3)
        elif name not in ("reg:quantileerror", "reg:expectileerror"):
            assert xgboost_loss(name, n_targets=3).n_outputs == 3
    assert xgboost_loss("reg:absoluteerror", smooth=False).dialect == "xgboost"
    assert xgboost_loss("count:poisson").max_delta_step == 0.7
    assert xgboost_loss("count:poisson", max_delta_step=0.0).max_delta_step == 0
    assert xgboost_loss("reg:pseudohubererror", huber_slope=3).slope == 3
    assert xgboost_loss("reg:tweedie", tweedie_variance_power=1.1).power == 1.1
    assert xgboost_loss("reg:quantileerror", quantile_alpha=[0.2, 0.8]).alpha == (0.2, 0.8)
    for name in ("multi:softprob", "multi:softmax"):
        assert xgboost_loss(name, n_classes=4).n_outputs == 4
    assert isinstance(xgboost_loss("binary:hinge", n_classes=2), losses.HingeLoss)
    for name in ("exponential", "binary:exponential"):
        assert isinstance(xgboost_loss(name, n_classes=2), losses.ExponentialLoss)
        with pytest.raises(ValueError, match=f"'{name}' is for two classes, but y holds 3"):
            xgboost_loss(name, n_classes=3)
    with pytest.raises(ValueError, match="objective must be one of 'reg:squarederror'"):
        xgboost_loss("binary:nothing")
    with pytest.raises(ValueError, match="'binary:hinge' is for two classes, but y holds 3"):
        xgboost_loss("binary:hinge", n_classes=3)
    with pytest.raises(ValueError, match="needs quantile_alpha"):
        xgboost_loss("reg:quantileerror")
    with pytest.raises(ValueError, match="needs expectile_alpha"):
        xgboost_loss("reg:expectileerror", quantile_alpha=0.5)
    with pytest.raises(ValueError, match="one target, but y has 2"):
        xgboost_loss("reg:quantileerror", quantile_alpha=0.5, n_targets=2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.QuantileError(1.5), r"alpha .* in \[0, 1\], got 1.5"),
        (lambda: losses.QuantileError([0.5, -0.1]), r"alpha .* in \[0, 1\], got -0.1"),
        (lambda: losses.QuantileError([]), "at least one level"),
        (lambda: losses.ExpectileError(float("nan")), "alpha"),
        (lambda: losses.HuberError(1.0), r"alpha .* in \(0, 1\), got 1.0"),
        (lambda: losses.PseudoHuberError(0), "huber_slope .* greater than 0, got 0"),
        (lambda: losses.TweedieDeviance(2.5), r"tweedie_variance_power .* in \[1, 2\], got 2.5"),
        (lambda: xgboost_loss("reg:tweedie", tweedie_variance_power=2), r"in \[1, 2\), got 2"),
        (lambda: losses.PoissonDeviance(max_delta_step=-1), "max_delta_step .* at least 0"),
        (lambda: losses.AbsoluteError(dialect="other"), "dialect must be one of"),
    ],
)
def test_parameters_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()
    with pytest.raises(TypeError, match="alpha must be a real number"):
        losses.QuantileError("half")


def test_metrics_of_a_loss(rng):
    y, prediction = rng.gamma(2.0, size=40), rng.gamma(2.0, size=40)
    for name in losses.XGBOOST_OBJECTIVES["regression"]:
        loss = xgboost_loss(name, quantile_alpha=0.3, expectile_alpha=0.3)
        for metric in () if loss.kernel != loss.kind else loss.metrics:  # those are of classes
            assert np.isfinite(loss.metric(metric).function(y, prediction))
    ours = losses.QuantileError([0.1, 0.9]).metric("quantile").function
    both = np.column_stack([prediction, prediction])
    error = y - prediction
    expected = np.mean([np.maximum(a * error, (a - 1) * error).mean() for a in (0.1, 0.9)])
    np.testing.assert_allclose(ours(y, both), expected)
    scores = [
        losses.TweedieDeviance(1.2).metric(name).function(y, prediction)
        for name in ("tweedie-nloglik", "tweedie-nloglik@1.2", "tweedie-nloglik@1.8")
    ]
    assert scores[0] == scores[1] != scores[2]
    assert losses.Logistic().metric("error@0.2").name == "error@0.2"
    for bad in ("mlogloss", "nope", 3, None, "rmse@2"):
        with pytest.raises(ValueError, match="metric"):
            losses.Logistic().metric(bad)


# ---- own functions ------------------------------------------------------------------------------


def squared(y_true, y_pred):
    return y_pred - y_true, np.ones_like(y_pred)


def weighted(y_true, y_pred, sample_weight=None):
    weight = np.ones(len(y_true)) if sample_weight is None else sample_weight
    return weight * (y_pred - y_true), weight


def test_own_functions_equal_the_built_in_loss(rng):
    y, raw, weight = rng.normal(size=300), rng.normal(size=300), rng.random(300)
    for w in (None, weight):
        expected = statistics(losses.SquaredError(), y, raw, w)
        for function in (squared, weighted):
            loss = xgboost_loss(function)
            assert isinstance(loss, CallableLoss)
            ours = statistics(loss, y, raw, w)
            np.testing.assert_allclose(ours[0], expected[0], rtol=1e-6)
            np.testing.assert_allclose(ours[1], expected[1], rtol=1e-6)
    np.testing.assert_array_equal(loss.init_raw(y, None), [0.5])
    np.testing.assert_array_equal(loss.predict(raw[:, None]), raw)


def test_own_functions_of_several_outputs(rng):
    loss = CallableLoss(squared_columns, 3, "softmax")
    y, raw = rng.integers(0, 3, 30).astype(float), rng.normal(size=(30, 3))
    grad, hess = statistics(loss, y, raw)
    np.testing.assert_allclose(grad.T, raw - y[:, None], rtol=1e-6)
    assert (hess == 1).all()
    np.testing.assert_allclose(loss.predict(raw).sum(axis=1), 1)
    assert loss.metric("mlogloss").name == "mlogloss"
    two = xgboost_loss(squared, n_classes=2)
    assert two.predict(raw[:, :1]).shape == (30, 2)
    assert xgboost_loss(squared_columns, n_classes=4).n_outputs == 4


def squared_columns(y_true, y_pred):
    return y_pred - y_true[:, None], np.ones_like(y_pred)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda y, p: p, "must return a pair"),
        (lambda y, p: (p, p, p), "must return a pair"),
        (lambda y, p: (p[:-1], p), r"grad .* shape \(8,\) .* got \(7,\)"),
        (lambda y, p: (p, 1.0), r"hess .* shape \(8,\) .* got \(\)"),
        (lambda y, p: (p, np.full(8, np.nan)), "hess .* not finite"),
        (lambda y, p: (np.full(8, np.inf), p), "grad .* not finite"),
        (lambda y, p: (["a"] * 8, p), "grad .* no array of numbers"),
        (lambda y, p: (p, -np.ones(8)), "negative hessian"),
        (lambda y, p: (p + 1, np.zeros(8)), "hess .* is 0 in every row"),
    ],
)
def test_own_functions_are_checked(result, message):
    with pytest.raises(ValueError, match=message):
        statistics(CallableLoss(result), np.zeros(8), np.zeros(8))


def test_hessians_may_be_0_in_some_rows_and_where_nothing_is_to_be_gained():
    some = np.r_[np.zeros(7), 1.0]
    for result in ((np.ones(8), some), (np.zeros(8), np.zeros(8))):
        grad, hess = statistics(CallableLoss(lambda y, p, r=result: r), np.zeros(8), np.zeros(8))
        np.testing.assert_array_equal(grad[0], result[0])
        np.testing.assert_array_equal(hess[0], result[1])
    # Every output needs a step of its own.
    hess = np.c_[np.ones(8), np.zeros(8)]
    loss = CallableLoss(lambda y, p: (p + 1, hess), n_outputs=2)
    with pytest.raises(ValueError, match="hess .* is 0 in every row"):
        statistics(loss, np.zeros((8, 2)), np.zeros((8, 2)))


def test_own_functions_cannot_spoil_the_arrays(rng):
    def careless(y_true, y_pred):
        y_pred -= y_true
        y_true[:] = 0
        return y_pred, np.ones(len(y_true))

    y, raw = rng.normal(size=9), rng.normal(size=(9, 1))
    kept = y.copy(), raw.copy()
    grad = np.empty((1, 9), dtype=np.float32)
    CallableLoss(careless).statistics(y, raw, None, grad, grad.copy(), 1)
    np.testing.assert_array_equal(y, kept[0])
    np.testing.assert_array_equal(raw, kept[1])
    np.testing.assert_allclose(grad[0], kept[1][:, 0] - kept[0], rtol=1e-6)
    with pytest.raises(ValueError, match="needs an array"):
        CallableLoss(careless).statistics(y, raw, None, grad, None, 1)


def test_own_functions_have_derivatives_only():
    with pytest.raises(TypeError, match="objective must be a name or a callable, got 3"):
        CallableLoss(3)
    loss = CallableLoss(squared)
    for method in (loss.residuals, loss.mean_loss, loss.leaf_values, loss.first_order):
        with pytest.raises(NotImplementedError):
            method(np.zeros(1), np.zeros((1, 1)), None, None)
    with pytest.raises(ValueError, match="link must be one of"):
        CallableLoss(squared, link="probit")


# ---- files --------------------------------------------------------------------------------------

STORED = [
    losses.SquaredError(2),
    losses.AbsoluteError(1, "xgboost"),
    losses.HuberError(0.8),
    losses.LogCoshError(2),
    losses.PseudoHuberError(2.0),
    losses.QuantileError([0.1, 0.9], "xgboost"),
    losses.SmoothAbsoluteError(2),
    losses.SmoothQuantileError([0.1, 0.9]),
    losses.ExpectileError(0.7),
    losses.PoissonDeviance(1, 0.7),
    losses.GammaDeviance(),
    losses.TweedieDeviance(1.3),
    losses.Logistic(),
    losses.ExponentialLoss(),
    losses.HingeLoss(),
    losses.Softmax(4),
    losses.SquaredLogError(),
    losses.SquaredErrorOfTwo(),
    losses.SquaredLogErrorOfTwo(),
    losses.LogisticShares(2),
    losses.LogitScores(),
    losses.HingeLabels(),
    losses.SoftmaxShares(3),
    losses.SoftmaxLabels(3),
]


def test_losses_survive_files_and_pickles(tmp_path, monkeypatch):
    assert {type(loss) for loss in STORED} == set(losses.STORABLE)
    monkeypatch.setattr(_persistence, "_registry", dict(_persistence._registry))
    for loss in STORED:
        _persistence.register(type(loss))
        _persistence.save(loss, tmp_path / "loss")
        for other in (_persistence.load(tmp_path / "loss"), pickle.loads(pickle.dumps(loss))):
            assert type(other) is type(loss)
            assert vars(other) == vars(loss)
