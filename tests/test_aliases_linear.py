"""Estimators and names of linear-tree: what they are read as, and what is refused."""

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression

import hybridtrees as ht

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
y = np.where(X[:, 1] > 0, X[:, 0], -X[:, 2]) + 0.1 * RNG.normal(size=200)
THEIRS = dict(candidates="quantiles", pruning=None, extrapolate="linear", min_samples_leaf=0.1)


@pytest.mark.parametrize(
    ("model", "stored"),
    [
        (linear_model.LinearRegression(), dict(penalty=None)),
        (linear_model.Ridge(2.0),
         dict(penalty="ridge", alpha=2.0, standardize=False, alpha_scaling="sum")),
        (linear_model.Lasso(0.1), dict(penalty="lasso", alpha=0.1, standardize=False)),
        (linear_model.ElasticNet(0.1, l1_ratio=0.3),
         dict(penalty="elasticnet", alpha=0.1, l1_ratio=0.3, standardize=False)),
        (ht.LinearRegressor(penalty="lasso", alpha=0.2), dict(penalty="lasso", alpha=0.2)),
    ],
)  # fmt: skip
def test_models_of_leaves(model, stored):
    expected = ht.LinearTreeRegressor(**THEIRS, **stored)
    for tree in (
        ht.LinearTreeRegressor(model, **THEIRS),
        ht.LinearTreeRegressor(base_estimator=model, **THEIRS),
        ht.LinearTreeRegressor(**THEIRS).set_params(base_estimator=model),
    ):
        assert tree.get_params() == clone(tree).get_params() == expected.get_params()
    # One leaf is the model itself: the penalty means the same.
    alone = ht.LinearTreeRegressor(model, max_depth=1, min_samples_split=400).fit(X, y)
    assert alone.get_n_leaves() == 1
    assert np.allclose(alone.predict(X), model.fit(X, y).predict(X), atol=1e-3)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (dict(C=0.5), dict(alpha=2.0, standardize=False, alpha_scaling="sum")),
        (dict(C=np.inf), dict(penalty=None)),
        (dict(C=2.0, l1_ratio=1.0, solver="saga", class_weight="balanced"),
         dict(penalty="lasso", alpha=0.5, standardize=False, alpha_scaling="sum",
              class_weight="balanced")),
        (dict(C=2.0, l1_ratio=0.5, solver="saga"),
         dict(penalty="elasticnet", l1_ratio=0.5, alpha=0.5, standardize=False,
              alpha_scaling="sum")),
    ],
)  # fmt: skip
def test_logistic_leaves(given, stored):
    model = linear_model.LogisticRegression(**given)
    tree = ht.LinearTreeClassifier(model)
    assert tree.get_params() == ht.LinearTreeClassifier(**stored).get_params()
    if "solver" not in given:
        tree = ht.LinearTreeClassifier(model, max_depth=1, min_samples_split=400).fit(X, y > 0)
        expected = model.fit(X, y > 0).predict_proba(X)
        assert np.allclose(tree.predict_proba(X), expected, atol=1e-3)


@pytest.mark.parametrize(
    ("cls", "name", "stored"),
    [
        (ht.LinearTreeRegressor, "mse", "squared_error"),
        (ht.LinearTreeRegressor, "mae", "absolute_error"),
        (ht.LinearTreeClassifier, "hamming", "misclassification"),
        (ht.LinearTreeClassifier, "crossentropy", "log_loss"),
        (ht.LinearForestRegressor, "mse", "squared_error"),
    ],
)
def test_criteria(cls, name, stored):
    assert cls(criterion=name).criterion == stored
    assert cls(criterion=stored).criterion == stored


def test_regressions_with_a_forest_or_rules():
    line = linear_model.LinearRegression(fit_intercept=False)
    model = ht.RERFRegressor(line, n_estimators=3)
    assert (model.penalty, model.fit_intercept, model.n_estimators) == (None, False, 3)
    assert ht.RERFRegressor(7).n_estimators == 7
    rules = ht.EBLRRegressor(linear_model.Lasso(0.1), n_estimators=4, loss="square")
    assert (rules.penalty, rules.alpha, rules.n_rules) == ("lasso", 0.1, 4)
    assert rules.residual == "squared"
    assert ht.EBLRClassifier(loss="entropy").residual == "deviance"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ht.LinearTreeRegressor(linear_model.HuberRegressor()), ValueError,
         r"base_estimator=HuberRegressor\(\) of LinearTreeRegressor: use .*absolute_error"),
        (lambda: ht.LinearTreeClassifier(linear_model.RidgeClassifier()), ValueError,
         "classes have logistic regressions here: use penalty='ridge' and alpha"),
        (lambda: ht.LinearTreeRegressor(ht.CARTRegressor()), ValueError,
         "use penalty, alpha and l1_ratio; LinearRegression, Ridge, Lasso"),
        (lambda: ht.LinearTreeRegressor(linear_model.LinearRegression(fit_intercept=False)),
         ValueError, "leave out fit_intercept=False"),
        (lambda: ht.RERFRegressor(linear_model.Lasso(positive=True)), ValueError, "positive=True"),
        (lambda: ht.RERFRegressor(linear_model.Ridge(3.0)), ValueError,
         "alpha counts per row here: use penalty='ridge', alpha=3 / n for n rows"),
        (lambda: ht.RERFRegressor(linear_model.Ridge([1.0, 2.0])), ValueError,
         r"alpha=\[1.0, 2.0\]"),
        (lambda: ht.LinearTreeRegressor(linear_model.LogisticRegression()), ValueError,
         "LogisticRegression is for classes"),
        (lambda: ht.LinearTreeClassifier(linear_model.LogisticRegression(C=0)), ValueError,
         "C must be a number above 0, got 0"),
        (lambda: ht.LinearForestRegressor(linear_model.LinearRegression()), TypeError,
         "LinearForestRegressor .* of linear-tree are RERFRegressor and RERFClassifier here"),
        (lambda: ht.LinearTreeRegressor(criterion="rmse"), ValueError,
         "criterion='rmse' of LinearTreeRegressor: .* use 'mse'"),
        (lambda: ht.LinearTreeRegressor(criterion="poisson"), ValueError, "count:poisson"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_write(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_first_steps_with_linear_tree_run_here():
    """The calls that a user of the package starts with, on the classes that stand for its own."""
    rows, numbers = make_regression(100, 4, n_informative=2, random_state=0, shuffle=False)
    some, classes = make_classification(
        100, 4, n_informative=2, n_redundant=0, random_state=0, shuffle=False
    )
    line, logit = linear_model.LinearRegression(), linear_model.LogisticRegression()
    tree = ht.LinearTreeRegressor(base_estimator=line).fit(rows, numbers)
    assert tree.score(rows, numbers) > 0.99
    assert set(tree.summary(feature_names=list("abcd"), only_leaves=True))
    assert tree.apply(rows).shape == (100,)
    assert tree.decision_path(rows).shape[0] == 100
    classifier = ht.LinearTreeClassifier(base_estimator=logit).fit(some, classes)
    assert classifier.score(some, classes) > 0.8
    forest = ht.RERFRegressor(base_estimator=line, random_state=0).fit(rows, numbers)
    assert forest.score(rows, numbers) > 0.99
    forest = ht.RERFClassifier(base_estimator=line, random_state=0).fit(some, classes)
    assert np.allclose(np.exp(forest.predict_log_proba(some)), forest.predict_proba(some))
    boosted = ht.EBLRRegressor(base_estimator=line).fit(rows, numbers)
    assert boosted.transform(rows).shape[0] == 100
    assert ht.EBLRClassifier(logit_of_rows(some)).fit(some, classes).score(some, classes) > 0.8


def logit_of_rows(rows):
    """Our own regression, whose alpha counts per row."""
    return ht.LogisticClassifier(alpha=1.0 / len(rows), standardize=False)


@pytest.mark.parametrize("kind", [ht.RERFRegressor, ht.RERFClassifier])
def test_leaves_and_paths_of_a_regression_with_a_forest(kind):
    target = y if kind is ht.RERFRegressor else (y > 0).astype(int) + (y > 1)
    model = kind(n_estimators=4, random_state=0).fit(X, target)
    leaves = model.apply(X)
    assert leaves.shape == (200, 4)
    path, starts = model.decision_path(X)
    assert path.shape == (200, starts[-1])
    for k in range(4):
        values = model.forest_.trees_[k].values
        assert np.array_equal(np.flatnonzero(path[7, starts[k] : starts[k + 1]].toarray())[-1],
                              leaves[7, k])  # fmt: skip
        if k == 0:
            total = np.zeros((200, values.shape[1]))
        total += values[leaves[:, k]] / 4
    expected = model.partial(X).forest.reshape(200, -1)
    assert np.allclose(total, expected)


def test_drawings_of_a_linear_tree():
    model = ht.LinearTreeRegressor(linear_model.LinearRegression(), max_depth=2).fit(X, y)
    text = model.model_to_dot(feature_names=list("abc"))
    assert text.startswith("digraph")
    assert "b" in text
    pytest.importorskip("matplotlib")
    drawn = model.plot_model(feature_names=list("abc"), max_depth=1)
    assert 0 < len(drawn) <= len(ht.inspection.plot_tree(model))
