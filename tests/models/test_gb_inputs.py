"""What gradient boosting takes: tables of all kinds, parameters, files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from gb_data import CLASSIFICATION, LOSSES, make, output, signal, table, target, weights

import hybridtrees
from hybridtrees.models.gradient_boosting.estimators import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
)


def few_values(n=400, missing=0.0, seed=0):
    """A table of small integers, whose bins lose nothing, and a target without ties."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 40, size=(n, 4)).astype(float)
    y = signal(X / 15 - 1.3, seed)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


# -- splitters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("loss", LOSSES)
def test_bins_that_lose_nothing(loss, missing):
    """Then both searches make the same model, up to 32-bit gradients."""
    X, _ = few_values(missing=missing)
    y, weight = target(loss, np.nan_to_num(X) / 15 - 1.3), weights(400)
    # Leaves of some size: in small ones splits are equally good.
    params = {"n_estimators": 3, "min_samples_leaf": 30, "max_depth": 2}
    a = make(loss, **params).fit(X, y, weight)
    b = make(loss, **params, splitter="hist").fit(X, y, weight)
    assert (a.splitter_, b.splitter_) == ("exact", "hist")
    np.testing.assert_allclose(output(a, X), output(b, X), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(a.feature_importances_, b.feature_importances_, rtol=1e-3)


def test_auto_takes_bins_above_ten_thousand_rows():
    X, y = np.arange(10_001.0)[:, None], np.arange(10_001.0)
    model = GradientBoostingRegressor(n_estimators=1)
    assert model.fit(X[:-1], y[:-1]).splitter_ == "exact"
    assert model.fit(X, y).splitter_ == "hist"


def test_max_bins():
    X = table(2000)
    model = make("squared_error", splitter="hist", max_bins=4, n_estimators=5).fit(X, signal(X))
    splits = model.trees_.nodes[model.trees_.nodes["left"] >= 0]
    for feature in range(4):
        assert len(np.unique(splits["threshold"][splits["feature"] == feature])) <= 3


@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_max_features(splitter):
    X = table(300)
    y = signal(X)
    params = {"n_estimators": 30, "splitter": splitter, "random_state": 0, "max_depth": 1}
    every = make("squared_error", **params).fit(X, y)
    drawn = make("squared_error", **params, max_features=1).fit(X, y)
    assert (every.max_features_, drawn.max_features_) == (4, 1)
    assert (drawn.feature_importances_ > 0).all()
    again = make("squared_error", **params, max_features=1).fit(X, y)
    np.testing.assert_array_equal(drawn.trees_.nodes, again.trees_.nodes)
    other = make("squared_error", **params | {"random_state": 1}, max_features=1).fit(X, y)
    assert not np.array_equal(drawn.trees_.nodes["feature"], other.trees_.nodes["feature"])


# -- tables -------------------------------------------------------------------------------------


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("subsample", [1.0, 0.7])
def test_sparse_is_dense(splitter, subsample):
    X, y = few_values()
    X[X < 15] = 0
    params = {"n_estimators": 4, "splitter": splitter, "subsample": subsample, "random_state": 0}
    dense = make("huber", **params).fit(X, y)
    for kind in (scipy.sparse.csr_matrix, scipy.sparse.csc_array):
        sparse = make("huber", **params).fit(kind(X), y)
        np.testing.assert_array_equal(sparse.predict(kind(X)), dense.predict(X))
    held = make("huber", n_iter_no_change=2, **params).fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_array_equal(
        held.predict(X), make("huber", n_iter_no_change=2, **params).fit(X, y).predict(X)
    )


@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_missing_values_are_learned(splitter):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    gone = rng.random(400) < 0.3
    y = np.where(gone, 5.0, X[:, 0]) + 0.1 * rng.normal(size=400)
    X[gone, 0] = np.nan
    model = make("squared_error", splitter=splitter).fit(X, y)
    assert model.score(X, y) > 0.97
    assert model.predict([[np.nan, 0.0]])[0] == pytest.approx(5.0, abs=0.2)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_categories_of_a_data_frame(splitter):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"c": rng.choice(list("uvwxyz"), 400), "v": rng.normal(size=400)})
    effect = {"u": 0, "v": 7, "w": 1, "x": 6, "y": 2, "z": 8}
    y = frame["c"].map(effect) + frame["v"]
    model = make("squared_error", splitter=splitter).fit(frame[:300], y[:300])
    assert model.score(frame[300:], y[300:]) > 0.95
    assert list(model.feature_names_in_) == ["c", "v"]
    held = make("squared_error", splitter=splitter, n_iter_no_change=3, init=model)
    assert held.fit(frame, y).score(frame, y) > 0.95
    codes = frame.assign(c=frame["c"].map({k: i for i, k in enumerate("uvwxyz")})).to_numpy()
    coded = make("squared_error", splitter=splitter, categorical_features=[0])
    np.testing.assert_allclose(
        coded.fit(codes[:300], y[:300]).predict(codes), model.predict(frame), rtol=1e-12
    )


def test_rows_of_weight_zero_are_left_out():
    X = table(200)
    y = signal(X)
    weight = np.where(np.arange(200) % 3 == 0, 0.0, 1.0)
    params = {"n_estimators": 5, "subsample": 0.5, "random_state": 0}
    a = make("squared_error", **params).fit(X, y, weight)
    b = make("squared_error", **params).fit(X[weight > 0], y[weight > 0], weight[weight > 0])
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert len(a.trees_[0].nodes) and a.trees_.nodes["n_samples"][0] == (weight > 0).sum() // 2


def test_labels():
    X = table(200)
    labels = np.array(["low", "mid", "top"])[target("multinomial", X)]
    model = make("log_loss", n_estimators=40).fit(X, labels)
    assert set(model.predict(X)) == {"low", "mid", "top"} and model.score(X, labels) > 0.9
    assert next(model.staged_predict(X)).dtype == labels.dtype
    with pytest.raises(ValueError, match="at least two classes"):
        make("log_loss").fit(X, np.ones(200))
    with pytest.raises(ValueError, match="exponential"):
        make("exponential").fit(X, labels)


def test_weights_that_leave_one_class_are_refused():
    X = table(90)
    labels = np.array(["low", "mid", "top"])[target("multinomial", X)]
    weight = np.where(labels == "mid", 2.0, 0.0)
    with pytest.raises(ValueError, match="the one class .*'mid'.* where sample_weight is positive"):
        make("log_loss").fit(X, labels, sample_weight=weight)
    weight[labels == "top"] = 1e-9
    assert make("log_loss").fit(X, labels, sample_weight=weight).n_classes_ == 3


@pytest.mark.parametrize("loss", ["poisson", "tweedie"])
def test_counts_that_are_all_0_are_refused(loss):
    # The best constant is the logarithm of their mean.
    X = table(60)
    y = np.zeros(60)
    with pytest.raises(ValueError, match=f"y must have a positive sum for the {loss} loss"):
        make(loss).fit(X, y)
    y[0] = 3
    weight = np.r_[0.0, np.ones(59)]
    with pytest.raises(ValueError, match="all 59 rows with a weight are 0"):
        make(loss).fit(X, y, sample_weight=weight)
    # A table to watch the training on may well have no counts.
    model = make(loss, n_estimators=3).fit(X, y, X_val=X[1:], y_val=y[1:])
    assert np.isfinite(model.validation_scores_).all()


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("cls", [GradientBoostingRegressor, GradientBoostingClassifier])
def test_weights_that_are_lost_in_a_sum(cls, splitter):
    # 1e7 + 1e-42 is 1e7: what is left of a node's weight may be nothing.
    X = np.arange(6.0).reshape(3, 2)
    model = cls(n_estimators=3, splitter=splitter)
    model.fit(X, [0, 1, 1], sample_weight=[1e7, 0.01, 1e-42])
    assert np.isfinite(model.trees_.nodes["gain"]).all()
    np.testing.assert_allclose(model.feature_importances_.sum(), 1)


# -- where to start -----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared_error", "poisson", "log_loss", "multinomial"])
def test_start_from_an_estimator(loss):
    X = table(300)
    y, weight = target(loss, X), weights(300)
    init = make(loss, n_estimators=5)
    model = make(loss, n_estimators=5, init=init).fit(X, y, weight)
    assert not hasattr(init, "trees_") and model.init_.n_iter_ == 5
    # Five rounds on top of five are ten.
    ten = make(loss, n_estimators=10).fit(X, y, weight)
    np.testing.assert_allclose(output(model, X), output(ten, X), rtol=1e-7, atol=1e-9)
    assert clone_params(model)["init__n_estimators"] == 5


def clone_params(model):
    return model.get_params()


def test_start_that_does_not_fit():
    X = table(50)
    y = signal(X)

    class NoWeights:
        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.full(len(X), np.nan)

    with pytest.raises(ValueError, match="does not support sample weights"):
        make("squared_error", init=NoWeights()).fit(X, y, weights(50))
    with pytest.raises(ValueError, match="not finite"):
        make("squared_error", init=NoWeights()).fit(X, y)
    with pytest.raises(ValueError, match="predict_proba"):
        make("log_loss", init=NoWeights()).fit(X, y > 0)


# -- parameters ---------------------------------------------------------------------------------

WRONG = {
    "loss": ("logit", None),
    "learning_rate": (-0.1, "fast", np.inf),
    "n_estimators": (0, 1.5, None),
    "subsample": (0.0, 1.1, None),
    "criterion": ("mse", "absolute_error"),
    "min_samples_split": (1, 1.5, "two"),
    "min_samples_leaf": (0, 1.0),
    "min_weight_fraction_leaf": (0.6, -0.1),
    "max_depth": (0, 2.5),
    "min_impurity_decrease": (-1.0,),
    "init": ("one", 3, dict),
    "max_features": (0, 1.5, "all"),
    "max_leaf_nodes": (1, 2.5),
    "warm_start": (1, None),
    "validation_fraction": (0.0, 1.0),
    "n_iter_no_change": (0, 1.5),
    "tol": (-1.0,),
    "ccp_alpha": (-0.1, "cv"),
    "splitter": ("best", None),
    "max_bins": (1, 256),
    "verbose": (-1, "yes", None),
    "n_jobs": (0, 1.5),
    "random_state": (-1, "seed"),
}


@pytest.mark.parametrize("cls", [GradientBoostingRegressor, GradientBoostingClassifier])
@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in WRONG.items() for v in vs])
def test_wrong_parameters_are_named(cls, name, value):
    model = cls(n_estimators=2).set_params(**{name: value})
    with pytest.raises((TypeError, ValueError), match=name):
        model.fit([[0.0], [1.0], [2.0]], [0, 1, 0])


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"loss": "quantile", "alpha": 1.5}, "alpha"),
        ({"loss": "quantile", "alpha": []}, "alpha"),
        ({"loss": "huber", "alpha": [0.5]}, "alpha"),
        ({"loss": "tweedie", "power": 3.0}, "^power"),
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": "0.5"}, "alpha"),
        ({"power": None}, "^power"),
    ],
)
def test_wrong_levels_are_named(params, match):
    with pytest.raises((TypeError, ValueError), match=match):
        GradientBoostingRegressor(**params).fit([[0.0], [1.0]], [1.0, 2.0])


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_targets_outside_the_range(loss):
    X = table(20)
    y = np.full(20, -1.0)
    with pytest.raises(ValueError, match=r"y must be .*got -1.0 in row 0"):
        make(loss).fit(X, y)
    with pytest.raises(ValueError, match="y_val must be"):
        make(loss).fit(X, -y, X_val=X, y_val=y)


def test_validation_arguments_go_together():
    X = table(50)
    y = signal(X)
    for given in ({"X_val": X}, {"y_val": y}):
        with pytest.raises(ValueError, match="X_val and y_val must be given together"):
            make("squared_error").fit(X, y, **given)
    with pytest.raises(ValueError, match="sample_weight_val needs"):
        make("squared_error").fit(X, y, sample_weight_val=y)


# -- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_files_and_pickles(loss, tmp_path):
    X = table(150)
    y = target(loss, X)
    model = make(loss, n_estimators=3, subsample=0.7, random_state=1, warm_start=True).fit(X, y)
    model.save(tmp_path / "model")
    for other in (hybridtrees.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(output(other, X), output(model, X))
        assert other.get_params() == model.get_params()
        # Training goes on where it stopped.
        a = other.set_params(n_estimators=5).fit(X, y)
        whole = make(loss, n_estimators=5, subsample=0.7, random_state=1).fit(X, y)
        np.testing.assert_allclose(output(a, X), output(whole, X), rtol=1e-9)


def test_a_start_from_ours_is_saved_too(tmp_path):
    X = table(100)
    y = signal(X)
    model = make("squared_error", n_estimators=3, init=make("squared_error", n_estimators=2))
    model.fit(X, y).save(tmp_path / "model")
    np.testing.assert_array_equal(hybridtrees.load(tmp_path / "model").predict(X), model.predict(X))


@pytest.mark.parametrize("loss", CLASSIFICATION)
def test_names_of_scikit_learn(loss):
    model_selection = pytest.importorskip("sklearn.model_selection")
    X = table(150)
    grid = {"n_estimators": [2, 4], "max_depth": [1, 2]}
    search = model_selection.GridSearchCV(make(loss), grid, cv=2).fit(X, target(loss, X))
    assert search.best_estimator_.n_iter_ in (2, 4)
