"""Targets of several columns in gradient boosting, and of one in every family."""

from __future__ import annotations

import numpy as np
import pytest
from small_members import small_members

import hybridtrees
from hybridtrees import GradientBoostingRegressor, LinearRegressor, load

N = 300


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    Z = np.nan_to_num(X)
    mean = np.column_stack([Z[:, 0] + Z[:, 1] ** 2, np.sin(Z[:, 2]), Z[:, 3]])
    return X, mean + 0.3 * rng.standard_normal((N, 3)), rng.exponential(size=N)


def alone(make, X, Y, *more, **named):
    """One model per output."""
    return [make().fit(X, Y[:, k].copy(), *more, **named) for k in range(Y.shape[1])]


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize(
    "loss", ["squared_error", "absolute_error", "huber", "poisson", "gamma", "tweedie"]
)
def test_trees_equal_those_of_one_model_per_target(loss, splitter, table):
    X, Y, weight = table
    Y = np.exp(Y / 2) if loss in ("poisson", "gamma", "tweedie") else Y

    def make():
        return GradientBoostingRegressor(
            n_estimators=8, loss=loss, splitter=splitter, subsample=0.7, random_state=2, n_jobs=1
        )

    for own in (None, weight):
        model, others = make().fit(X, Y, own), alone(make, X, Y, own)
        expected = np.column_stack([other.predict(X) for other in others])
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)
        assert model.predict(X).shape == (N, 3) and model.n_trees_per_iteration_ == 3
        stages = zip(model.staged_predict(X), *(o.staged_predict(X) for o in others), strict=True)
        for stage, *single in stages:
            np.testing.assert_allclose(stage, np.column_stack(single), rtol=1e-12)
        scores = np.mean([other.train_score_ for other in others], axis=0)
        np.testing.assert_allclose(model.train_score_, scores, rtol=1e-10)
        assert model.score(X, Y, own) == pytest.approx(
            np.mean([o.score(X, Y[:, k], own) for k, o in enumerate(others)])
        )
    leaves = np.stack([other.apply(X) for other in others], axis=2)
    np.testing.assert_array_equal(model.apply(X), leaves)


def test_importances_and_files(table, tmp_path):
    X, Y, _ = table
    model = GradientBoostingRegressor(n_estimators=20).fit(X, Y)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert (model.feature_importances_ > 0.05).all()
    model.save(tmp_path / "model.htree")
    again = load(tmp_path / "model.htree")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert "outputs 3" in model.summary() or "3" in model.summary()


def test_early_stopping_by_the_mean_loss(table):
    X, Y, weight = table
    model = GradientBoostingRegressor(
        n_estimators=200, learning_rate=0.5, n_iter_no_change=3, random_state=0
    )
    model.fit(X[:200], Y[:200], X_val=X[200:], y_val=Y[200:], sample_weight_val=weight[200:])
    best = model.best_iteration_
    assert best < 199 and model.predict(X).shape == (N, 3)
    error = np.average((Y[200:] - model.predict(X[200:])) ** 2, axis=0, weights=weight[200:])
    assert model.best_score_ == pytest.approx(error.mean())
    model.fit(X, Y)  # with rows held out
    assert model.n_estimators_ < 200
    with pytest.raises(ValueError, match="y_val must have 3 targets, got 1"):
        model.fit(X, Y, X_val=X, y_val=Y[:, 0])


def test_start_and_warm_start(table):
    X, Y, weight = table
    Z = np.nan_to_num(X)
    model = GradientBoostingRegressor(n_estimators=6, warm_start=True, init=LinearRegressor())
    model.fit(Z, Y, weight)
    model.set_params(n_estimators=12).fit(Z, Y, weight)
    whole = GradientBoostingRegressor(n_estimators=12, init=LinearRegressor()).fit(Z, Y, weight)
    np.testing.assert_allclose(model.predict(Z), whole.predict(Z), rtol=1e-9)
    with pytest.raises(ValueError, match="cannot change the loss"):
        model.fit(Z, Y[:, 0])


def test_one_column_is_one_target(table):
    X, Y, _ = table
    column = GradientBoostingRegressor(n_estimators=3).fit(X, Y[:, :1])
    vector = GradientBoostingRegressor(n_estimators=3).fit(X, Y[:, 0])
    np.testing.assert_array_equal(column.predict(X), vector.predict(X))
    with pytest.raises(ValueError, match="loss='quantile' is for one target, but y has 3"):
        GradientBoostingRegressor(loss="quantile").fit(X, Y)
    with pytest.raises(ValueError, match="at least one target"):
        GradientBoostingRegressor().fit(X, Y[:, :0])


@pytest.mark.parametrize("name", [n for n in hybridtrees.__all__ if n.endswith("Regressor")])
def test_one_column_is_a_vector_in_every_family(name, table):
    X, Y, _ = table
    family = getattr(hybridtrees, name)
    own = {"n_estimators": 10, "random_state": 0}
    more = {key: value for key, value in own.items() if hasattr(family, key)}
    more |= small_members(family)
    models = [family(**more).fit(X, y) for y in (Y[:, 0], Y[:, :1])]
    ours, column = (model.predict(X) for model in models)
    assert column.shape == (N,)
    np.testing.assert_array_equal(column, ours)
    for attribute in ("coef_", "intercept_"):
        if hasattr(models[0], attribute):
            assert np.shape(getattr(models[1], attribute)) == np.shape(
                getattr(models[0], attribute)
            )
