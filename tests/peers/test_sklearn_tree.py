"""CARTRegressor and CARTClassifier against scikit-learn's trees, node by node.

Nodes of a few rows can be split in the same way by several features. scikit-learn then takes one
at random and hybridtrees the first, so trees are compared whole where leaves are large enough for
that not to happen, and up to ties elsewhere.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from cart_data import integer_table, noisy_classes, smooth_table, whole_weights
from sklearn_trees import assert_same_tree, assert_same_up_to_ties, convert_tree

from hybridtrees import CARTClassifier, CARTRegressor

sklearn_tree = pytest.importorskip("sklearn.tree")
pytestmark = pytest.mark.peer

# What changes the shape of a tree.
SHAPES = {
    "leaf": {"min_samples_leaf": 8},
    "depth": {"max_depth": 4, "min_samples_leaf": 8},
    "split": {"min_samples_split": 40, "min_samples_leaf": 6},
    "fractions": {"min_samples_split": 0.2, "min_samples_leaf": 0.03},
    "weight": {"min_weight_fraction_leaf": 0.04},
    "decrease": {"min_impurity_decrease": 0.01, "min_samples_leaf": 8},
    "leaves": {"max_leaf_nodes": 12, "min_samples_leaf": 8},
    "leaves-depth": {"max_leaf_nodes": 9, "max_depth": 4, "min_samples_leaf": 8},
    "leaves-decrease": {"max_leaf_nodes": 30, "min_impurity_decrease": 0.01, "min_samples_leaf": 8},
    "pruned": {"ccp_alpha": 0.02, "min_samples_leaf": 8},
    "pruned-leaves": {"ccp_alpha": 0.02, "max_leaf_nodes": 20, "min_samples_leaf": 8},
}
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES)


def peer(model, X, y, weight=None):
    """Fit scikit-learn's tree with the parameters of ours; return it and its nodes."""
    regression = isinstance(model, CARTRegressor)
    cls = sklearn_tree.DecisionTreeRegressor if regression else sklearn_tree.DecisionTreeClassifier
    known = cls().get_params()
    params = {k: v for k, v in model.get_params().items() if k in known and k != "splitter"}
    fitted = cls(**{**params, "random_state": 0}).fit(X, y, weight)
    return fitted, *convert_tree(fitted.tree_)


def assert_same_model(ours, theirs, number, X):
    """All that a fitted tree says of rows; `number` is our number of their nodes."""
    np.testing.assert_array_equal(ours.apply(X), number[theirs.apply(X)])
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-9)
    path = theirs.decision_path(X).toarray()
    np.testing.assert_array_equal(ours.decision_path(X).toarray()[:, number], path)
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=1e-9)
    assert ours.get_depth() == theirs.get_depth()
    assert ours.get_n_leaves() == theirs.get_n_leaves()
    assert ours.n_outputs_ == theirs.n_outputs_


def compare(model, X, y, weight=None):
    model.fit(X, y, weight)
    theirs, tree, number = peer(model, X, y, weight)
    assert_same_tree(model.tree_, tree)
    fresh = np.random.default_rng(9).normal(size=(500, X.shape[1])).astype(np.float32)
    assert_same_model(model, theirs, number, fresh)
    return model, theirs


# -- regression -----------------------------------------------------------------------------------


@EVERY_SHAPE
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("criterion", ["squared_error", "poisson"])
def test_regressor(criterion, weighted, shape):
    X, y = smooth_table()
    if criterion == "poisson":
        y = np.exp(y / 2)
    weight = whole_weights(len(y)) / 64 if weighted else None
    compare(CARTRegressor(criterion=criterion, **SHAPES[shape]), X, y, weight)


@EVERY_SHAPE
@pytest.mark.parametrize("weighted", [False, True])
def test_regressor_absolute_error(weighted, shape):
    # Sums of absolute deviations tie even where no two targets are equal.
    X, y = smooth_table(200)
    weight = whole_weights(len(y)) if weighted else None
    model = CARTRegressor(criterion="absolute_error", **SHAPES[shape]).fit(X, y, weight)
    tree = peer(model, X, y, weight)[1]
    assert assert_same_up_to_ties(model.tree_, tree, X) > 0.6 * tree.n_nodes


@pytest.mark.parametrize("weighted", [False, True])
def test_friedman_mse_is_squared_error_for_one_output(weighted):
    X, y = smooth_table()
    weight = whole_weights(len(y)) if weighted else None
    models = [
        CARTRegressor(criterion=criterion, min_samples_leaf=8).fit(X, y, weight)
        for criterion in ("friedman_mse", "squared_error")
    ]
    assert_same_tree(models[0].tree_, models[1].tree_)


@pytest.mark.parametrize("criterion", ["squared_error", "absolute_error", "poisson"])
@pytest.mark.parametrize("shape", ["leaf", "leaves", "pruned"])
def test_several_outputs(criterion, shape):
    X, y = smooth_table()
    Y = np.exp(np.c_[y, X[:, 3] - y / 2, np.random.default_rng(2).normal(size=len(y))] / 3)
    model = CARTRegressor(criterion=criterion, **SHAPES[shape])
    if criterion == "absolute_error":
        tree = peer(model.fit(X, Y), X, Y)[1]
        assert assert_same_up_to_ties(model.tree_, tree, X) > 0.6 * tree.n_nodes
    else:
        compare(model, X, Y)
    assert model.predict(X).shape == Y.shape


def test_full_depth_on_one_feature():
    X, y = smooth_table(500, 3)
    compare(CARTRegressor(), X[:, :1], y)


def test_full_depth_up_to_ties():
    X, y = smooth_table(500)
    model = CARTRegressor().fit(X, y)
    tree = peer(model, X, y)[1]
    assert model.tree_.n_nodes == tree.n_nodes
    assert assert_same_up_to_ties(model.tree_, tree, X) > 0.9 * tree.n_nodes


# -- classification -------------------------------------------------------------------------------


@EVERY_SHAPE
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("criterion", ["gini", "entropy", "log_loss"])
def test_classifier(criterion, n_classes, shape):
    X, y = noisy_classes(n_classes=n_classes)
    model = CARTClassifier(criterion=criterion, **SHAPES[shape])
    model, theirs = compare(model, X, y, whole_weights(len(y)))
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), rtol=1e-9)
    np.testing.assert_array_equal(model.classes_, theirs.classes_)


@EVERY_SHAPE
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_classifier_without_weights(criterion, shape):
    # Counts are small whole numbers, so that splits of equal gain are common.
    X, y = noisy_classes(seed=3)
    model = CARTClassifier(criterion=criterion, **SHAPES[shape]).fit(X, y)
    tree = peer(model, X, y)[1]
    assert_same_up_to_ties(model.tree_, tree, X)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 2.0, 2: 0.5}, {"a": 4, "c": 1}, {1: 0}])
def test_class_weight(class_weight):
    X, y = noisy_classes()
    weight = whole_weights(len(y))
    if "a" in class_weight:
        y = np.array(["a", "b", "c"])[y]
    shape = {"min_samples_leaf": 8, "class_weight": class_weight}
    model = CARTClassifier(**shape).fit(X, y, weight)
    tree = peer(model, X, y, weight)[1]
    assert_same_tree(model.tree_, tree)


def test_class_weight_counts_for_the_shares_too():
    X, y = noisy_classes()
    for shape in ({"min_weight_fraction_leaf": 0.06}, {"min_impurity_decrease": 0.004}):
        shape = {**shape, "min_samples_leaf": 8}
        model = CARTClassifier(class_weight={0: 4.0, 1: 1.0, 2: 0.25}, **shape)
        weight = whole_weights(len(y))
        assert_same_tree(model.fit(X, y, weight).tree_, peer(model, X, y, weight)[1])


# -- constraints ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["leaf", "leaves", "depth", "pruned"])
@pytest.mark.parametrize("constraints", [[1, 0, 0, 0, 0], [-1, 1, 0, 1, -1]])
def test_monotonic_regressor(constraints, shape):
    X, y = smooth_table()
    for criterion in ("squared_error", "poisson"):
        target = np.exp(y / 2) if criterion == "poisson" else y
        model = CARTRegressor(criterion=criterion, monotonic_cst=constraints, **SHAPES[shape])
        compare(model, X, target)


@pytest.mark.parametrize("shape", ["leaf", "leaves", "depth", "pruned"])
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_monotonic_classifier(criterion, shape):
    X, y = noisy_classes(n_classes=2)
    model = CARTClassifier(criterion=criterion, monotonic_cst=[1, 0, -1, 1, 0], **SHAPES[shape])
    compare(model, X, y, whole_weights(len(y)))


def test_monotonic_absolute_error():
    X, y = smooth_table()
    model = CARTRegressor(
        criterion="absolute_error", monotonic_cst=[1, 0, -1, 0, 0], min_samples_leaf=8
    ).fit(X, y)
    assert_same_up_to_ties(model.tree_, peer(model, X, y)[1], X)


# -- pruning --------------------------------------------------------------------------------------


def test_pruning_paths_are_equal():
    X, y = smooth_table()
    weight = whole_weights(len(y))
    for model in (
        CARTRegressor(min_samples_leaf=8),
        CARTRegressor(criterion="poisson", min_samples_leaf=8),
        CARTRegressor(max_leaf_nodes=20, min_samples_leaf=8),
    ):
        target = np.exp(y / 2) if model.criterion == "poisson" else y
        theirs = peer(model, X, target, weight)[0]
        a = model.cost_complexity_pruning_path(X, target, weight)
        b = theirs.cost_complexity_pruning_path(X, target, weight)
        np.testing.assert_allclose(a.ccp_alphas, b.ccp_alphas, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(a.impurities, b.impurities, rtol=1e-9)
    X, y = noisy_classes()
    model = CARTClassifier(min_samples_leaf=8)
    a = model.cost_complexity_pruning_path(X, y, weight)
    b = peer(model, X, y, weight)[0].cost_complexity_pruning_path(X, y, weight)
    np.testing.assert_allclose(a.ccp_alphas, b.ccp_alphas, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(a.impurities, b.impurities, rtol=1e-9)


# -- sparse tables and missing values -------------------------------------------------------------


def test_sparse_table():
    X, y = smooth_table()
    X = np.where(np.abs(X) < 0.8, 0, X).astype(np.float32)
    model = CARTRegressor(min_samples_leaf=8)
    tree = peer(model, scipy.sparse.csc_matrix(X), y)[1]
    assert_same_tree(model.fit(X, y).tree_, tree)
    assert_same_tree(model.fit(scipy.sparse.csr_array(X), y).tree_, tree)


@pytest.mark.parametrize("shape", ["leaf", "depth", "leaves"])
def test_missing_values(shape):
    X, y = integer_table(missing=0.15)
    weight = whole_weights(len(y))
    model = CARTRegressor(**SHAPES[shape]).fit(X, y, weight)
    theirs, tree, _ = peer(model, X, y, weight)
    assert_same_up_to_ties(model.tree_, tree, X)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), rtol=1e-9)


def test_missing_values_that_fit_has_not_met():
    # Both send them to the child of more rows; equal children send them right.
    X, y = smooth_table()
    model = CARTRegressor(min_samples_leaf=8).fit(X, y)
    theirs, tree, _ = peer(model, X, y)
    np.testing.assert_array_equal(model.tree_.nodes["missing_left"], tree.nodes["missing_left"])
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), rtol=1e-9)


# -- where the rules differ -----------------------------------------------------------------------


def test_ties_go_to_the_lowest_feature_and_threshold():
    # scikit-learn shuffles the features, and keeps the first of equal splits that it meets.
    rng = np.random.default_rng(0)
    x = rng.normal(size=50).astype(np.float32)
    X = np.c_[x, -x, x]
    y = (x > 0).astype(float)
    assert CARTRegressor().fit(X, y).tree_.nodes["feature"][0] == 0
    drawn = {
        sklearn_tree.DecisionTreeRegressor(random_state=seed).fit(X, y).tree_.feature[0]
        for seed in range(20)
    }
    assert len(drawn) > 1
    ours = {
        int(CARTRegressor(random_state=seed).fit(X, y).tree_.nodes["feature"][0])
        for seed in range(40)
    }
    assert ours == {0, 1, 2}
    X = np.array([[0.0], [1.0], [2.0]])
    assert CARTRegressor(max_depth=1).fit(X, [0.0, 1.0, 0.0]).tree_.nodes["threshold"][0] == 0.5


def test_a_stump_of_absolute_deviations_takes_the_lowest_threshold():
    # All cuts leave the sum of deviations at 1; a split that brings nothing is taken too.
    X = np.arange(4.0)[:, None]
    tree = CARTRegressor(criterion="absolute_error", max_depth=1).fit(X, [0.0, 0.0, 1.0, 0.0]).tree_
    assert tree.nodes["gain"][0] == 0.0 and tree.nodes["threshold"][0] == 0.5


def test_features_of_hardly_any_range_are_constant():
    X = np.random.default_rng(0).random((60, 3)).astype(np.float32)
    y = X[:, 0] + 0.1 * X[:, 1]
    for scale in (1e-10, 9e-8):
        X[:, 0] *= scale / X[:, 0].max()
        ours, theirs = compare(CARTRegressor(min_samples_leaf=5), X, y)
        assert ours.feature_importances_[0] == theirs.feature_importances_[0] == 0


def test_close_values_are_told_apart():
    # scikit-learn takes values that differ by 1e-7 or less for equal; so do we where the feature
    # has no others.
    X = np.array([[0.0], [2e-8], [4e-8], [6e-8]])
    y = [0.0, 0.0, 1.0, 1.0]
    for model in (CARTRegressor(), sklearn_tree.DecisionTreeRegressor()):
        assert model.fit(X, y).get_n_leaves() == 1
    X, y = np.vstack([X, [[1.0]]]), [*y, 2.0]
    assert CARTRegressor().fit(X, y).get_n_leaves() == 3
    assert sklearn_tree.DecisionTreeRegressor().fit(X, y).get_n_leaves() == 2


def test_float64_is_not_narrowed():
    # scikit-learn reads tables as float32, in which these values are equal.
    X = 1e3 + np.array([[0.0], [1e-7], [2e-7], [3e-7]])
    y = [0.0, 0.0, 1.0, 1.0]
    assert CARTRegressor().fit(X, y).predict(X).tolist() == y
    assert sklearn_tree.DecisionTreeRegressor().fit(X, y).get_n_leaves() == 1


def test_pure_nodes_are_not_split_by_rounding():
    # scikit-learn finds an impurity a little above zero in nodes of one class whose weights do
    # not add up exactly, and splits them.
    X, y = smooth_table(400)
    labels = (X[:, 0] > 0).astype(int)
    weight = np.random.default_rng(0).random(len(y))
    for criterion in ("gini", "entropy"):
        assert CARTClassifier(criterion=criterion).fit(X, labels, weight).get_n_leaves() == 2
        theirs = sklearn_tree.DecisionTreeClassifier(criterion=criterion, random_state=0)
        assert theirs.fit(X, labels, weight).get_n_leaves() > 2
