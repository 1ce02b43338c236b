"""Forests that are continued: what may change between two fits, and what may not."""

import warnings

import numpy as np
import pytest
from cart_data import noisy_classes

import hybridtrees
from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor
from hybridtrees.models.linear_tree.forest import LinearForestClassifier, LinearForestRegressor
from hybridtrees.models.rerf.estimators import RERFClassifier, RERFRegressor

FORESTS = [RandomForestRegressor, RandomForestClassifier, RERFRegressor, RERFClassifier]


def trees_of(model):
    return getattr(model, "forest_", model).trees_


def grown(cls, **params):
    X, y = noisy_classes(120, 3)
    params = {"warm_start": True, "random_state": 0, "n_jobs": 1, "max_depth": 4, **params}
    return cls(**{"n_estimators": 10, **params}).fit(X, y), X, y


CHANGES = [
    ({"missing": "stop"}, "missing"),
    ({"monotonic_cst": [1, 0, 0, 0]}, "monotonic_cst"),
    ({"splitter": "exact"}, "splitter"),
    ({"max_bins": 16}, "max_bins"),
    ({"max_samples": 0.3}, "max_samples"),
    ({"bootstrap": False}, "bootstrap"),
    ({"min_samples_leaf": 9}, "min_samples_leaf"),
    ({"max_depth": 2}, "max_depth"),
    ({"ccp_alpha": 0.5}, "ccp_alpha"),
    ({"categorical_features": [0]}, "categorical_features|the columns of X"),
]


@pytest.mark.parametrize("cls", FORESTS)
@pytest.mark.parametrize(("change", "message"), CHANGES, ids=str)
def test_parameters_that_trees_depend_on_may_not_change(cls, change, message):
    model, X, y = grown(cls)
    X = np.abs(np.round(X))
    if "monotonic_cst" in change:
        change = {"monotonic_cst": [1] + [0] * (X.shape[1] - 1)}
        y = y > 0
    model.set_params(warm_start=False).fit(X, y).set_params(warm_start=True)
    before = model.predict(X)
    with pytest.raises(ValueError, match=f"warm_start=True continues .*({message}) changed"):
        model.set_params(n_estimators=20, **change).fit(X, y)
    assert len(trees_of(model)) == 10
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize(
    ("cls", "change", "message"),
    [
        (RandomForestRegressor, {"criterion": "absolute_error"}, "criterion"),
        (RERFRegressor, {"criterion": "absolute_error"}, "criterion"),
        (RandomForestClassifier, {"criterion": "entropy"}, "criterion"),
        (RandomForestClassifier, {"class_weight": "balanced"}, "class_weight"),
        (RandomForestClassifier, {"class_weight": {0: 0.0}}, "class_weight"),
        (RandomForestClassifier, {"class_weight": "balanced_subsample"}, "class_weight"),
        (RandomForestClassifier, {"voting": "hard"}, "voting"),
        (RERFRegressor, {"alpha": 1.0}, "penalty, alpha or l1_ratio"),
        (RERFRegressor, {"penalty": "lasso"}, "penalty, alpha or l1_ratio"),
        (RERFRegressor, {"standardize": False}, "standardize"),
        (RERFClassifier, {"fit_intercept": False}, "fit_intercept"),
        (RERFClassifier, {"linear_features": [0]}, "linear_features"),
    ],
)
def test_parameters_of_single_models_may_not_change(cls, change, message):
    model, X, y = grown(cls)
    with pytest.raises(ValueError, match=f"warm_start=True continues .*but {message} changed"):
        model.set_params(n_estimators=20, **change).fit(X, y)


@pytest.mark.parametrize("cls", FORESTS)
def test_data_may_not_change(cls):
    model, X, y = grown(cls)
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    model.set_params(n_estimators=20)
    for message, data in {
        "X": (X * 2, y),
        "X, y": (X[:60], y[:60]),
        "y": (X, y + 100 * (cls in (RandomForestRegressor, RERFRegressor)) + (y == y[0])),
        "sample_weight": (X, y, weight),
    }.items():
        with pytest.raises(ValueError, match=f"but {message} changed since it was grown"):
            model.fit(*data)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="but the columns of X changed"):
        model.fit(pandas.DataFrame(X, columns=list("abcdefghij"[: X.shape[1]])), y)
    assert len(trees_of(model)) == 10


def test_labels_may_not_change():
    model, X, y = grown(RandomForestClassifier)
    with pytest.raises(ValueError, match="but y changed"):
        model.set_params(n_estimators=20).fit(X, y + 1)


@pytest.mark.parametrize("cls", FORESTS)
def test_what_may_change(cls, tmp_path):
    model, X, y = grown(cls, oob_score=True, keep_rows=True)
    weight = np.ones(len(y))  # the same as none
    model.save(tmp_path / "model.zip")
    model = hybridtrees.load(tmp_path / "model.zip")
    model.set_params(n_estimators=20, n_jobs=2, oob_score=False, keep_rows=False)
    model.set_params(verbose=0).fit(X, y, weight)
    whole = cls(20, random_state=0, n_jobs=1, max_depth=4).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    assert not hasattr(model, "oob_score_")
    with pytest.raises(ValueError, match="cannot add keep_rows=True"):
        model.set_params(oob_score=False, keep_rows=True).fit(X, y)


@pytest.mark.parametrize("cls", [*FORESTS, LinearForestRegressor, LinearForestClassifier])
@pytest.mark.parametrize("n_trees", [20, 30])
def test_oob_score_may_be_added(cls, n_trees, tmp_path):
    # The trees there are give the same answers about rows out of their bags as when they grew.
    model, X, y = grown(cls, n_estimators=20)
    model.save(tmp_path / "model.zip")
    model = hybridtrees.load(tmp_path / "model.zip")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.set_params(n_estimators=n_trees, oob_score=True).fit(X, y)
        whole, _, _ = grown(cls, n_estimators=n_trees, oob_score=True)
    assert len(model.oob_curve_) == n_trees
    for name in ("oob_score_", "oob_curve_", "oob_prediction_", "oob_decision_function_"):
        assert hasattr(model, name) == hasattr(whole, name)
        np.testing.assert_array_equal(getattr(model, name, 0), getattr(whole, name, 0))
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))


@pytest.mark.parametrize("cls", [RandomForestRegressor, LinearForestRegressor])
def test_one_curve_has_one_metric(cls):
    model, X, y = grown(cls, oob_score=True)
    with pytest.raises(ValueError, match="oob_score changed its metric from 'mse' to 'mae'"):
        model.set_params(n_estimators=20, oob_score="mae").fit(X, y)
    model.set_params(oob_score="mse").fit(X, y)
    assert len(model.oob_curve_) == 20


def test_forests_of_different_layouts_are_not_joined():
    X, y = noisy_classes(80, 3)
    plain = RandomForestRegressor(3, random_state=0).fit(X, y).trees_
    stops = RandomForestRegressor(3, random_state=0, missing="stop").fit(X, y).trees_
    other = RandomForestRegressor(3, random_state=0, criterion="friedman_mse").fit(X, y).trees_
    classes = RandomForestClassifier(3, random_state=0).fit(X, y).trees_
    for more, name in ((stops, "by_node"), (other, "criterion"), (classes, "criterion")):
        with pytest.raises(ValueError, match=f"layouts cannot be joined: {name}"):
            plain.extended(more)
    both = plain.extended(plain)
    raw = np.zeros((len(X), 1))
    both.add_raw(X, raw, 1)
    once = np.zeros((len(X), 1))
    plain.add_raw(X, once, 1)
    np.testing.assert_allclose(raw, 2 * once)


def test_tables_of_another_shape_are_other_tables():
    X = np.arange(24.0).reshape(12, 2)
    model = RandomForestRegressor(3, random_state=0).fit(X, X[:, 0])
    from hybridtrees.models.shared.forest.warm_start import checksum

    assert checksum(X) != checksum(X.reshape(2, 12))
    assert checksum(X) == checksum(X.astype(np.float32)) == model._digest
