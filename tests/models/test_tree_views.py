"""Trees under scikit-learn's names, and the trees of forests and boosting as models of one tree."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from fresh_python import check_python
from sklearn import ensemble, inspection, tree
from sklearn.base import is_classifier

import hybridtrees as ht
from hybridtrees.base import NotFittedError

# Small integers: thresholds are the same in 32 and 64 bits, and with 15 rows a leaf nothing ties.
RNG = np.random.default_rng(0)
X = RNG.integers(0, 50, size=(200, 4)).astype(float)
NUMBERS = X[:, 0] + X[:, 1] ** 2 + RNG.normal(size=200)
CLASSES = np.digitize(NUMBERS, [300, 1200])

PAIRS = {
    "regressor": (ht.CARTRegressor, tree.DecisionTreeRegressor, NUMBERS),
    "several": (
        ht.CARTRegressor, tree.DecisionTreeRegressor, np.column_stack([NUMBERS, X[:, 2] ** 2])
    ),
    "classifier": (ht.CARTClassifier, tree.DecisionTreeClassifier, CLASSES),
    "words": (ht.CARTClassifier, tree.DecisionTreeClassifier, np.array(list("abc"))[CLASSES]),
}  # fmt: skip


@pytest.fixture(params=PAIRS)
def pair(request):
    ours, theirs, y = PAIRS[request.param]
    return (
        ours(min_samples_leaf=15).fit(X, y),
        theirs(min_samples_leaf=15, random_state=0).fit(X, y),
    )


def test_arrays_of_the_tree_are_those_of_scikit_learn(pair):
    ours, theirs = (model.tree_ for model in pair)
    for name in (
        "node_count", "max_depth", "n_leaves", "n_outputs", "max_n_classes", "n_features",
        "n_classes", "children_left", "children_right", "feature", "n_node_samples",
        "missing_go_to_left",
    ):  # fmt: skip
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    for name in ("threshold", "value", "impurity", "weighted_n_node_samples"):
        assert np.allclose(getattr(ours, name), getattr(theirs, name)), name
    table = X.astype(np.float32)
    assert np.array_equal(ours.apply(X), theirs.apply(table))
    assert np.allclose(ours.predict(X), theirs.predict(table))
    assert np.array_equal(ours.decision_path(X).toarray(), theirs.decision_path(table).toarray())
    for normalize in (True, False):
        found = ours.compute_feature_importances(normalize=normalize)
        assert np.allclose(found, theirs.compute_feature_importances(normalize=normalize))
    with pytest.raises(ValueError, match="X must have 4 columns"):
        ours.apply(X[:, :3])


def test_texts_and_drawings_of_scikit_learn(pair):
    ours, theirs = pair
    if ours.tree_.n_outputs == 1:
        assert tree.export_text(ours, decimals=4) == tree.export_text(theirs, decimals=4)
    options = dict(filled=True, node_ids=True, proportion=True)
    assert tree.export_graphviz(ours, **options) == tree.export_graphviz(theirs, **options)
    pytest.importorskip("matplotlib")
    texts = [[box.get_text() for box in tree.plot_tree(model)] for model in pair]
    assert texts[0] == texts[1]


def test_partial_dependence_of_scikit_learn(pair):
    ours, theirs = pair
    if is_classifier(ours) or ours.tree_.n_outputs > 1:
        return
    averages = [
        inspection.partial_dependence(model, X, [0, 2], method="recursion").average
        for model in pair
    ]
    assert np.allclose(*averages)


def test_scikit_learn_may_be_imported_after_the_fit():
    code = """
import sys
import hybridtrees as ht
from hybridtrees.base import NotFittedError
model = ht.CARTRegressor().fit([[0.0], [1.0]], [0, 1])
forest = ht.RandomForestClassifier(n_estimators=1, random_state=0).fit([[0.0], [1.0]], [0, 1])
assert "sklearn" not in sys.modules
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
assert isinstance(model, DecisionTreeRegressor) and not isinstance(model, DecisionTreeClassifier)
assert isinstance(forest[0], DecisionTreeClassifier)
assert type(model) is model.__class__ is ht.CARTRegressor
"""
    check_python(code)


def test_splits_on_categories_are_refused():
    colours = pd.DataFrame({"colour": ["red", "blue", "green"] * 20})
    model = ht.CARTRegressor().fit(colours, [1.0, 2.0, 1.0] * 20)
    with pytest.raises(TypeError, match="categories of feature 0.* hybridtrees.inspection"):
        tree.export_text(model)
    assert model.tree_.children_left.tolist() == [1, -1, -1]


@pytest.mark.parametrize("table", [X, scipy.sparse.csr_array(X)], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_trees_of_a_classification_forest(table, n_classes):
    y = np.array(["no", "yes", "maybe"])[np.minimum(CLASSES, n_classes - 1)]
    forest = ht.RandomForestClassifier(n_estimators=4, random_state=0).fit(table, y)
    assert len(forest) == 4 == len(list(forest)) == len(forest.estimators_)
    mean = np.mean([one.predict_proba(table) for one in forest], axis=0)
    assert np.allclose(mean, forest.predict_proba(table))
    one = forest[1]
    assert isinstance(one, tree.DecisionTreeClassifier)
    assert is_classifier(one)
    assert one.classes_.tolist() == list(range(n_classes))
    codes = one.predict_proba(table).argmax(axis=1)
    assert np.array_equal(one.predict(table), codes)
    assert np.array_equal(one.apply(table), forest.apply(table)[:, 1])
    assert one.get_n_leaves() == one.tree_.n_leaves
    assert one.get_depth() == one.tree_.max_depth
    share = one.tree_.value[:, 0]
    assert np.allclose(one.tree_.impurity, 1 - (share**2).sum(axis=1))
    assert len(tree.export_text(one).splitlines()) > 3
    path = one.decision_path(table).toarray()
    whole, starts = forest.decision_path(table)
    assert np.array_equal(path, whole.toarray()[:, starts[1] : starts[2]])
    importances = np.mean([one.feature_importances_ for one in forest], axis=0)
    assert np.allclose(importances, forest.feature_importances_)
    again = pickle.loads(pickle.dumps(one))
    assert np.array_equal(again.predict(table), one.predict(table))


def test_trees_of_a_regression_forest():
    targets = np.column_stack([NUMBERS, X[:, 2]])
    for y, shape in ((NUMBERS, (200,)), (targets, (200, 2))):
        forest = ht.RandomForestRegressor(n_estimators=3, random_state=0).fit(X, y)
        predictions = np.array([one.predict(X) for one in forest])
        assert predictions[0].shape == shape
        assert np.allclose(predictions.mean(axis=0), forest.predict(X))
        assert forest[0].n_outputs_ == np.ndim(y)
        assert np.isnan(forest[0].tree_.impurity).all()
        assert np.allclose(
            np.mean([one.feature_importances_ for one in forest], axis=0),
            forest.feature_importances_,
        )
        assert len({one.random_state for one in forest}) == 3


def test_a_view_has_the_parameters_but_is_not_fitted_alone():
    forest = ht.RandomForestRegressor(n_estimators=2, max_depth=3, splitter="exact").fit(X, NUMBERS)
    template = forest.estimator_
    assert (template.max_depth, template.splitter) == (3, "exact")
    assert template.get_params()["max_depth"] == 3
    assert forest[0].n_features_in_ == 4
    with pytest.raises(AttributeError, match="'tree_': it has the parameters of a tree alone"):
        template.tree_  # noqa: B018
    with pytest.raises(AttributeError, match="TreeView has no attribute 'trees'"):
        template.trees  # noqa: B018
    with pytest.raises(TypeError, match="a tree of RandomForestRegressor, .* use CARTRegressor"):
        template.fit(X, NUMBERS)
    with pytest.raises(NotFittedError):
        len(ht.RandomForestRegressor())
    assert bool(ht.RandomForestRegressor())


@pytest.mark.parametrize("how", [dict(), dict(bootstrap=False), dict(max_samples=0.3)])
def test_samples_of_the_trees(how):
    forest = ht.RandomForestRegressor(n_estimators=3, random_state=0, **how).fit(X, NUMBERS)
    samples = forest.estimators_samples_
    for one, rows in zip(forest, samples, strict=True):
        assert len(np.unique(rows)) == one.tree_.n_node_samples[0]
        assert len(rows) == one.tree_.weighted_n_node_samples[0]
        alone = ht.CARTRegressor(splitter="exact").fit(X[rows], NUMBERS[rows])
        assert np.allclose(alone.predict(X[rows]), one.predict(X[rows]), atol=1e-9)


@pytest.mark.parametrize("kind", ["GradientBoostingRegressor", "GradientBoostingClassifier"])
def test_trees_of_boosting(kind):
    y = CLASSES if kind.endswith("Classifier") else NUMBERS
    params = dict(n_estimators=3, min_samples_leaf=15, learning_rate=0.5)
    ours = getattr(ht, kind)(**params).fit(X, y)
    theirs = getattr(ensemble, kind)(**params, random_state=0).fit(X, y)
    assert len(ours) == len(theirs) == 3
    assert ours.estimators_.shape == theirs.estimators_.shape
    for mine, other in zip(ours.estimators_.ravel(), theirs.estimators_.ravel(), strict=True):
        assert isinstance(mine, tree.DecisionTreeRegressor)
        # Values here include the learning rate.
        assert np.allclose(mine.predict(X), 0.5 * other.predict(X))
        if y is NUMBERS:  # scikit-learn goes on to split nodes whose residuals are all equal
            assert np.array_equal(mine.tree_.feature, other.tree_.feature)
            assert np.allclose(mine.tree_.threshold, other.tree_.threshold)
        found = mine.tree_.compute_feature_importances()
        assert np.allclose(found, other.tree_.compute_feature_importances())
    first = ours[0]
    assert len(first) == ours.n_trees_per_iteration_
    assert tree.export_text(first[0]).count("value") == first[0].get_n_leaves()


def test_views_do_not_copy_trees_until_asked():
    forest = ht.RandomForestRegressor(n_estimators=2, random_state=0).fit(X, NUMBERS)
    views = forest.estimators_
    assert all("tree_" not in vars(view) for view in views)
    assert views[0].tree_ is views[0].tree_
    assert sys.getsizeof(views[0]) < 1000
