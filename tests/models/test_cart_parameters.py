"""Parameters of CARTRegressor and CARTClassifier: errors that name them, and the protocol."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from cart_data import integer_table, noisy_classes, smooth_table

from hybridtrees import CARTClassifier, CARTRegressor
from hybridtrees.models.shared.tree_parameters import count_features

BOTH = pytest.mark.parametrize("cls", [CARTRegressor, CARTClassifier])

WRONG = {
    "criterion": ("mse", "GINI", None, 3, ["gini"]),
    "splitter": ("first", "drawn", None, 0),
    "max_depth": (0, -1, 2.5, "6", True),
    "min_samples_split": (1, 0, -3, 0.0, 1.5, -0.1, math.nan, "2", None, True),
    "min_samples_leaf": (0, -1, 0.0, 1.0, 1.5, math.inf, "1", None, False),
    "min_weight_fraction_leaf": (-0.1, 0.6, math.nan, "0", None, True),
    "max_features": (0, -1, 0.0, 1.5, "auto", [1], True, math.nan),
    "random_state": (-1, 1.5, "0", [1], True),
    "max_leaf_nodes": (1, 0, -2, 2.5, "4", True),
    "min_impurity_decrease": (-1e-9, math.nan, math.inf, "0", None, True),
    "ccp_alpha": (-0.1, math.nan, math.inf, "best", None, True, [0.1]),
    "cv": (1, 0, -5, 2.5, "5", None, True),
    "cv_rule": ("one", "1SE", None, 1),
    "monotonic_cst": ([1, 0], [2, 0, 0, 0], ["up"] * 4, [1, 0, 0, None], 1, {9: 1}, {0: 3}),
    "missing": ("nan", None, math.nan, 0),
    "categorical_features": ("all", [6], ["a"], [1.5], [True], [[0]], 3.7),
    "max_bins": (1, 0, 256, 16.0, "255", None, True),
    "n_jobs": (0, 1.5, "1", True),
    "verbose": (-1, 1.5, "yes", None),
}


@pytest.fixture(scope="module")
def data():
    return integer_table(40)


def labels(cls, y):
    return y if cls is CARTRegressor else (y > np.median(y)).astype(int)


@BOTH
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_wrong_values_are_refused_by_name(cls, name, value, data):
    X, y = data
    model = cls(**{name: value})
    with pytest.raises((TypeError, ValueError), match=re.escape(name)):
        model.fit(X, labels(cls, y))
    assert not [attribute for attribute in vars(model) if attribute.endswith("_")]


@pytest.mark.parametrize(
    "value", ["even", {0: -1.0}, {0: math.nan}, {0: "a"}, {0: 1.0, 7: 2.0}, [1, 1], 3, {0: 0, 1: 0}]
)
def test_wrong_class_weights_are_refused(value, data):
    X, y = data
    with pytest.raises((TypeError, ValueError), match="class_weight"):
        CARTClassifier(class_weight=value).fit(X, labels(CARTClassifier, y))


def test_class_weight_may_name_classes_that_are_not_there(data):
    X, y = data
    weights = {0: 1.0, 1: 2.0, 2: 3.0}
    model = CARTClassifier(class_weight=weights).fit(X, labels(CARTClassifier, y))
    assert model.tree_.nodes["weight"][0] == 60.0


@BOTH
def test_a_failed_fit_leaves_the_old_one(cls, data):
    X, y = data
    model = cls(max_depth=2).fit(X, labels(cls, y))
    before = dict(vars(model))
    prediction = model.predict(X)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X[:, :2], labels(cls, y)[:-1])
    assert vars(model) == before
    np.testing.assert_array_equal(model.predict(X), prediction)


def test_targets_that_cannot_be_are_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="negative"):
        CARTRegressor(criterion="poisson").fit(X, y - y.max())
    with pytest.raises(ValueError, match="positive sum"):
        CARTRegressor(criterion="poisson").fit(X, 0 * y)
    with pytest.raises(ValueError, match="positive sum"):
        CARTRegressor(criterion="poisson").fit(X, np.c_[np.abs(y), 0 * y])
    with pytest.raises(ValueError, match="exceed"):
        CARTRegressor().fit(X, 1e200 * y)
    with pytest.raises(ValueError, match="at least one output"):
        CARTRegressor().fit(X, np.empty((len(y), 0)))
    with pytest.raises(ValueError, match="continuous"):
        CARTClassifier().fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        CARTRegressor().fit(X, np.where(y == y[0], np.nan, y))


def test_constraints_are_refused_where_they_mean_nothing(data):
    X, y = data
    with pytest.raises(ValueError, match="monotonic_cst needs a single output"):
        CARTRegressor(monotonic_cst=[1, 0, 0, 0]).fit(X, np.c_[y, y])
    with pytest.raises(ValueError, match="monotonic_cst needs two classes"):
        CARTClassifier(monotonic_cst=[1, 0, 0, 0]).fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="monotonic_cst must be 0 for categorical features"):
        CARTRegressor(monotonic_cst=[1, 0, 0, 0], categorical_features=[0]).fit(X, y)
    # Constraints that bind nothing are none.
    CARTRegressor(monotonic_cst=[0, 0, 0, 0]).fit(X, np.c_[y, y])


def test_constraints_by_name_and_number():
    pandas = pytest.importorskip("pandas")
    X, y = smooth_table()
    frame = pandas.DataFrame(X, columns=list("abcde"))
    by_list = CARTRegressor(monotonic_cst=[1, 0, -1, 0, 0]).fit(frame, y)
    for constraints in ({"a": 1, "c": -1}, {0: 1, 2: -1}, {"a": 1, 2: -1, "b": 0}):
        model = CARTRegressor(monotonic_cst=constraints).fit(frame, y)
        np.testing.assert_array_equal(model.predict(frame), by_list.predict(frame))
    with pytest.raises(ValueError, match="monotonic_cst names 'z', which X does not have"):
        CARTRegressor(monotonic_cst={"z": 1}).fit(frame, y)


@pytest.mark.parametrize(
    ("value", "n_features", "expected"),
    [
        (None, 10, 10), ("sqrt", 10, 3), ("log2", 10, 3), ("sqrt", 1, 1), ("log2", 1, 1),
        (4, 10, 4), (40, 10, 10), (1.0, 10, 10), (0.35, 10, 3), (0.01, 10, 1),
        (np.int64(2), 10, 2), ("third", 10, 3), ("third", 2, 1),
    ],
)  # fmt: skip
def test_max_features(value, n_features, expected):
    assert count_features(value, n_features) == expected
    rng = np.random.default_rng(0)
    model = CARTRegressor(max_features=value, random_state=0)
    model.fit(rng.random((30, n_features)), rng.random(30))
    assert model.max_features_ == expected


def test_features_are_drawn_for_every_node():
    X, y = smooth_table()
    firsts = [
        int(CARTRegressor(max_features=1, random_state=seed, max_depth=1).fit(X, y)
            .tree_.nodes["feature"][0])
        for seed in range(60)
    ]  # fmt: skip
    assert np.bincount(firsts, minlength=5).min() >= 3
    a = CARTRegressor(max_features=2, random_state=1).fit(X, y)
    b = CARTRegressor(max_features=2, random_state=1).fit(X, y)
    np.testing.assert_array_equal(a.tree_.nodes, b.tree_.nodes)


def test_a_feature_without_splits_is_drawn_anew():
    # As in scikit-learn the search goes on past features that cannot part the node.
    rng = np.random.default_rng(0)
    X = np.zeros((50, 30))
    X[:, 17] = rng.random(50)
    for seed in range(5):
        model = CARTRegressor(max_features=1, random_state=seed).fit(X, X[:, 17])
        assert model.get_n_leaves() == 50


def test_numpy_scalars_are_numbers(data):
    X, y = data
    plain = CARTRegressor(max_depth=3, min_samples_leaf=2, ccp_alpha=0.01).fit(X, y)
    model = CARTRegressor(
        max_depth=np.int32(3), min_samples_leaf=np.int64(2), ccp_alpha=np.float32(0.01)
    ).fit(X, y)
    np.testing.assert_array_equal(model.tree_.nodes, plain.tree_.nodes)


def test_shared_parameters_have_scikit_learns_names_and_defaults():
    sklearn_tree = pytest.importorskip("sklearn.tree")
    for ours, theirs in (
        (CARTRegressor, sklearn_tree.DecisionTreeRegressor),
        (CARTClassifier, sklearn_tree.DecisionTreeClassifier),
    ):
        known, mine = theirs().get_params(), ours().get_params()
        assert set(known) <= set(mine)
        same = {k for k in known if k != "splitter"}
        assert {k: known[k] for k in same} == {k: mine[k] for k in same}


@BOTH
def test_fits_in_scikit_learns_tools(cls):
    model_selection = pytest.importorskip("sklearn.model_selection")
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline

    X, y = noisy_classes()
    y = X[:, 0] + (X[:, 1] > 0) > 0.5 if cls is CARTClassifier else X[:, 0] + X[:, 1]
    model = cls(max_depth=3, ccp_alpha=0.001)
    assert clone(model).get_params() == model.get_params()
    search = model_selection.GridSearchCV(model, {"max_depth": [1, 4]}, cv=3).fit(X, y)
    assert search.best_params_ == {"max_depth": 4}
    assert make_pipeline(model).fit(X, y).predict(X).shape == (len(y),)


def test_repr_shows_what_was_changed():
    assert repr(CARTRegressor(max_depth=3)) == "CARTRegressor(max_depth=3)"
    assert repr(CARTClassifier(ccp_alpha="cv")) == "CARTClassifier(ccp_alpha='cv')"
