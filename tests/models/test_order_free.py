"""What a model depends on: the rows, never their order or how they are cut into parts."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridtrees as ht
from hybridtrees import losses, metrics
from hybridtrees.core.base._threads import ExactSum
from hybridtrees.losses import _kernels

N = 3000


class Table:
    """Ties, missing values, categories, weights of many sizes, and targets of every kind."""

    def __init__(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((N, 5))
        X[:, 3] = np.round(X[:, 3])
        mean = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X[:, 3]
        X[rng.random((N, 5)) < 0.03] = np.nan
        X[:, 4] = rng.integers(0, 6, N)
        self.X = X
        self.number = mean + 0.5 * rng.standard_normal(N)
        self.count = rng.poisson(np.exp(0.3 * mean)).astype(float)
        self.positive = np.exp(0.3 * mean) * rng.exponential(size=N) + 1e-3
        self.two = (self.number > 0).astype(int)
        self.three = np.digitize(self.number, [-1, 1])
        self.weight = rng.exponential(size=N) * 10.0 ** rng.integers(-3, 3, N)


@pytest.fixture(scope="module")
def table():
    return Table()


def blocks_moved(rng, n=N):
    """Numbers of the rows, cut into blocks that change places."""
    cuts = np.sort(rng.integers(0, n + 1, 7))
    blocks = np.split(np.arange(n), cuts)
    return np.concatenate([blocks[k] for k in rng.permutation(len(blocks))])


FEW = {"n_estimators": 4}
MODELS = {
    "xgb": (ht.XGBRegressor(**FEW), "number"),
    "xgb categories": (ht.XGBRegressor(categorical_features=[4], **FEW), "number"),
    "xgb leaves": (ht.XGBRegressor(grow_policy="lossguide", max_leaves=20, **FEW), "number"),
    "xgb absolute": (ht.XGBRegressor(objective="reg:absoluteerror", **FEW), "number"),
    "xgb pseudo-huber": (ht.XGBRegressor(objective="reg:pseudohubererror", **FEW), "number"),
    "xgb poisson": (ht.XGBRegressor(objective="count:poisson", **FEW), "count"),
    "xgb gamma": (ht.XGBRegressor(objective="reg:gamma", **FEW), "positive"),
    "xgb tweedie": (ht.XGBRegressor(objective="reg:tweedie", **FEW), "count"),
    "xgb exact": (ht.XGBRegressor(tree_method="exact", **FEW), "number"),
    "xgb two classes": (ht.XGBClassifier(**FEW), "two"),
    "xgb three classes": (ht.XGBClassifier(**FEW), "three"),
    "gb": (ht.GradientBoostingRegressor(splitter="hist", **FEW), "number"),
    "gb absolute": (
        ht.GradientBoostingRegressor(loss="absolute_error", splitter="hist", **FEW),
        "number",
    ),
    "gb huber": (ht.GradientBoostingRegressor(loss="huber", splitter="hist", **FEW), "number"),
    "gb quantile": (ht.GradientBoostingRegressor(loss="quantile", **FEW), "number"),
    "gb two classes": (ht.GradientBoostingClassifier(splitter="hist", **FEW), "two"),
    "gb three classes": (ht.GradientBoostingClassifier(splitter="hist", **FEW), "three"),
    "cart": (ht.CARTRegressor(splitter="hist", max_depth=6), "number"),
    "cart classes": (ht.CARTClassifier(splitter="hist", max_depth=6), "three"),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_blocks_of_rows_may_change_places(table, name, weighted):
    """Bit for bit: bins, base score, statistics, splits and leaves."""
    model, target = MODELS[name]
    y, weight = getattr(table, target), table.weight if weighted else None
    predict = getattr(model, "predict_proba", model.predict)
    model.fit(table.X, y, sample_weight=weight)
    expected = predict(table.X)
    order = blocks_moved(np.random.default_rng(len(name)))
    model.fit(table.X[order], y[order], sample_weight=None if weight is None else weight[order])
    np.testing.assert_array_equal(predict(table.X), expected)


def test_layout_of_statistics_depends_on_the_values(table):
    """From 100,000 rows on the mean gradient chooses between 16 and 32 bits."""
    n = 120_000
    X, y = np.tile(table.X, (n // N, 1)), np.tile(table.two, n // N)
    model = ht.XGBClassifier(n_estimators=2, max_depth=3)
    expected = model.fit(X, y).predict_proba(table.X)
    order = blocks_moved(np.random.default_rng(1), n)
    np.testing.assert_array_equal(model.fit(X[order], y[order]).predict_proba(table.X), expected)


LOSSES = {
    "squared": (losses.SquaredError(), "number"),
    "absolute": (losses.AbsoluteError(), "number"),
    "huber": (losses.HuberError(), "number"),
    "pseudo-huber": (losses.PseudoHuberError(), "number"),
    "smooth absolute": (losses.SmoothAbsoluteError(), "number"),
    "expectile": (losses.ExpectileError(0.3), "number"),
    "poisson": (losses.PoissonDeviance(), "count"),
    "gamma": (losses.GammaDeviance(), "positive"),
    "tweedie": (losses.TweedieDeviance(), "count"),
    "logistic": (losses.Logistic(), "two"),
    "exponential": (losses.ExponentialLoss(), "two"),
    "softmax": (losses.Softmax(3), "three"),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_losses(table, name, weighted, seed):
    """Base score, mean loss, sums of parts, and leaf values of rows in any order."""
    rng = np.random.default_rng(seed)
    loss, target = LOSSES[name]
    y = getattr(table, target).astype(float)
    weight = table.weight if weighted else None
    raw = np.random.default_rng(1).standard_normal((N, loss.n_outputs))
    order = rng.permutation(N)
    moved = (y[order], None if weight is None else weight[order])
    np.testing.assert_array_equal(loss.init_raw(*moved), loss.init_raw(y, weight))
    mean = loss.mean_loss(y, raw, weight)
    assert loss.mean_loss(moved[0], raw[order], moved[1], n_threads=2) == mean
    total = ExactSum()
    for part in np.array_split(order, np.sort(rng.integers(0, N, 4))):
        if len(part):
            w = None if weight is None else weight[part]
            total.merge(_kernels.sum_loss(loss.kind, raw[part], y[part], w, 1, loss._parameters()))
    whole = _kernels.sum_loss(loss.kind, raw, y, weight, 2, loss._parameters())
    assert total.value == whole.value
    residual = np.empty((loss.n_outputs, N))
    loss.residuals(y, raw, weight, residual)
    start = np.array([0, 5, 5, 1200, N], dtype=np.int64)
    rows = np.random.default_rng(2).permutation(N).astype(np.uint32)
    expected = loss.leaf_values(y, raw, residual[0], weight, rows, start, output=0)
    inside = np.concatenate([rng.permutation(part) for part in np.split(rows, start[1:-1])])
    found = loss.leaf_values(y, raw, residual[0], weight, inside, start, output=0, n_threads=2)
    np.testing.assert_array_equal(found, expected)


PREDICTED = {"accuracy_score", "error_rate", "f1_score"}
PROBABLE = {"log_loss", "brier_score_loss"}
RANKED = {"roc_auc_score", "pr_auc_score", "average_precision_score", "roc_curve"}
NUMBERS = sorted(
    name
    for name, function in vars(metrics).items()
    if name in metrics.__all__
    and callable(function)
    and name not in PREDICTED | PROBABLE | RANKED
    and name not in ("Metric", "callable_metric", "get_metric", "takes_weight")
)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", [*sorted(PREDICTED | PROBABLE | RANKED), *NUMBERS])
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_metrics(table, name, weighted, seed):
    rng = np.random.default_rng(seed)
    score = np.round(np.random.default_rng(1).random(N), 3)
    y, prediction = table.positive, score + 0.1
    if name in RANKED | PROBABLE:
        y, prediction = table.two, score
    elif name in PREDICTED:
        y, prediction = table.two, (score > 0.4).astype(int)
    function, order = getattr(metrics, name), rng.permutation(N)
    weight = table.weight if weighted else None
    expected = function(y, prediction, sample_weight=weight)
    weight = weight[order] if weighted else None
    found = function(y[order], prediction[order], sample_weight=weight)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("name", ["auc", "aucpr", "mlogloss", "merror", "brier"])
def test_metrics_of_several_classes(table, name):
    proba = np.random.default_rng(1).dirichlet([1, 1, 1], N)
    function, order = metrics.get_metric(name).function, np.random.default_rng(2).permutation(N)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for w in (None, table.weight):
            expected = function(table.three, proba, sample_weight=w)
            w = None if w is None else w[order]
            assert function(table.three[order], proba[order], sample_weight=w) == expected


def test_linear_leaves_are_summed_in_stretches_of_row_numbers():
    """The same sums whatever rows follow: the stretches do not depend on the length of a table."""
    from hybridtrees.core.grow._leaf_passes import leaf_moments

    rng = np.random.default_rng(0)
    n = 70_000
    values = rng.standard_normal((2 * n, 2))
    grad = rng.standard_normal(2 * n).astype(np.float32)
    rows = np.sort(rng.choice(n, 50_000, replace=False)).astype(np.uint32)
    ends = np.array([0]), np.array([len(rows)])
    found = [
        leaf_moments(
            values[:size], rows, *ends, np.array([2], dtype=np.int32),
            np.array([[0, 1]], dtype=np.int32), np.zeros((1, 2)), np.ones((1, 2)), grad[:size],
            1.0, n_threads,
        )
        for size, n_threads in ((n, 1), (2 * n, 1), (n + 1, 2))
    ]  # fmt: skip
    for columns, squares in found[1:]:
        np.testing.assert_array_equal(columns, found[0][0])
        np.testing.assert_array_equal(squares, found[0][1])
