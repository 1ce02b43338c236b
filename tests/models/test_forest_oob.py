"""Out of the bag: predictions, scores, curves, importance, and when to stop."""

from __future__ import annotations

import warnings

import forest_oracle as oracle
import numpy as np
import pytest
from cart_data import noisy_classes, smooth_table

from hybridtrees import metrics
from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor
from hybridtrees.models.linear_tree.forest import LinearForestClassifier
from hybridtrees.models.shared.bagging import SETTLED_TREES, has_settled

MANY_TREES = 25


def oob_means(model, X, votes=False):
    """Means over the trees whose samples a row is not in, after each tree: slow."""
    said = oracle.values(model, X)
    if votes:
        said = np.eye(said.shape[2])[said.argmax(axis=2)]
    outside = oracle.counts(model) == 0
    sums = np.cumsum(said * outside[:, :, None], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums / np.cumsum(outside, axis=0)[:, :, None]


@pytest.mark.parametrize(
    "params",
    [{}, {"bootstrap": False, "max_samples": 0.5}, {"max_samples": 30}, {"missing": "stop"}],
    ids=str,
)
def test_regression(params):
    X, y = smooth_table(80)
    X[::7, 1] = np.nan
    model = RandomForestRegressor(MANY_TREES, oob_score=True, random_state=0, **params).fit(X, y)
    means = oob_means(model, X)[:, :, 0]
    np.testing.assert_allclose(model.oob_prediction_, means[-1], rtol=1e-10)
    assert model.oob_score_ == pytest.approx(metrics.r2_score(y, means[-1]))
    for k in (0, 3, MANY_TREES - 1):
        known = ~np.isnan(means[k])
        error = np.mean((y[known] - means[k, known]) ** 2)
        assert model.oob_curve_[k] == pytest.approx(error)


@pytest.mark.parametrize("voting", ["soft", "hard"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classification(voting, n_classes):
    X, y = noisy_classes(80, n_classes)
    model = RandomForestClassifier(
        MANY_TREES, oob_score=True, voting=voting, min_samples_leaf=2, random_state=1
    ).fit(X, y)
    means = oob_means(model, X, voting == "hard")
    np.testing.assert_allclose(model.oob_decision_function_, means[-1], atol=1e-10)
    right = np.mean(means[-1].argmax(axis=1) == y)
    assert model.oob_score_ == pytest.approx(right)
    assert model.oob_curve_[-1] == pytest.approx(1 - right)
    assert len(model.oob_curve_) == MANY_TREES


def test_several_outputs():
    X, y = smooth_table(70)
    Y = np.c_[y, -2 * y]
    model = RandomForestRegressor(30, oob_score=True, random_state=0).fit(X, Y)
    assert model.oob_prediction_.shape == (70, 2)
    np.testing.assert_allclose(model.oob_prediction_, oob_means(model, X)[-1], rtol=1e-10)
    assert model.predict(X).shape == (70, 2)


@pytest.mark.parametrize("name", ["mae", "rmse", "r2", "mse", "quantile@0.2"])
def test_metrics_by_name(name):
    X, y = smooth_table(90)
    model = RandomForestRegressor(30, oob_score=name, random_state=0).fit(X, y)
    expected = metrics.get_metric(name).function(y, model.oob_prediction_)
    assert model.oob_score_ == pytest.approx(expected)
    assert model.oob_curve_[-1] == pytest.approx(expected)


def test_metrics_of_classes():
    X, y = noisy_classes(120, 2)
    model = RandomForestClassifier(40, oob_score="auc", random_state=0).fit(X, y)
    expected = metrics.roc_auc_score(y, model.oob_decision_function_[:, 1])
    assert model.oob_score_ == pytest.approx(expected)


@pytest.mark.parametrize("cls", [RandomForestClassifier, LinearForestClassifier])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_functions_are_given_predicted_classes(cls, n_classes):
    X, y = noisy_classes(120, n_classes)
    given = []

    def score(truth, said):
        given.append((truth, said))
        return metrics.f1_score(truth, said, average="macro")

    model = cls(40, oob_score=score, random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    truth, said = given[-1]
    np.testing.assert_array_equal(truth, y)
    np.testing.assert_array_equal(said, model.oob_decision_function_.argmax(axis=1))
    assert model.oob_score_ == score(truth, said) == model.oob_curve_[-1]


@pytest.mark.peer
def test_functions_of_scikit_learn():
    f1_score = pytest.importorskip("sklearn.metrics").f1_score
    X, y = noisy_classes(120, 2)
    weight = 0.5 + np.random.default_rng(0).random(120)
    for own in (f1_score, metrics.f1_score):
        model = RandomForestClassifier(40, oob_score=own, random_state=0).fit(X, y, weight)
        said = model.oob_decision_function_.argmax(axis=1)
        assert model.oob_score_ == pytest.approx(f1_score(y, said, sample_weight=weight))


def test_weights_count_in_the_score():
    X, y = smooth_table(100)
    weight = np.r_[np.zeros(20), np.ones(80)]
    y[:20] = 1e6
    model = RandomForestRegressor(40, oob_score=True, random_state=0).fit(X, y, weight)
    assert model.oob_score_ > 0.3
    assert np.isnan(model.oob_prediction_[:20]).all()
    assert np.abs(model.predict(X)).max() < 100


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("oob_score", [True, "mae"])
def test_weights_of_any_size_count_in_the_score(oob_score, bootstrap):
    X, y = smooth_table(100)
    weight = np.random.default_rng(1).uniform(0.1, 3, size=100)
    params = {"bootstrap": bootstrap, "max_samples": 0.3, "random_state": 0}
    model = RandomForestRegressor(40, oob_score=oob_score, **params).fit(X, y, weight)
    score = metrics.r2_score if oob_score is True else metrics.mean_absolute_error
    said = model.oob_prediction_
    expected = score(y, said, sample_weight=weight)
    assert model.oob_score_ == pytest.approx(expected)
    assert model.oob_score_ != pytest.approx(score(y, said), rel=1e-3)
    if oob_score is True:
        error = metrics.mean_squared_error(y, said, sample_weight=weight)
        assert model.oob_curve_[-1] == pytest.approx(error)


@pytest.mark.parametrize("oob_score", [True, "logloss"])
def test_weights_of_any_size_count_in_the_score_of_classes(oob_score):
    X, y = noisy_classes(120, 2)
    weight = np.random.default_rng(1).uniform(0.1, 3, size=120)
    model = RandomForestClassifier(
        60, oob_score=oob_score, max_samples=0.3, min_samples_leaf=3, random_state=0
    ).fit(X, y, weight)
    said = model.oob_decision_function_
    if oob_score is True:
        right = said.argmax(axis=1) == y
        expected, plain = np.average(right, weights=weight), right.mean()
        assert model.oob_curve_[-1] == pytest.approx(1 - expected)
    else:
        expected = metrics.log_loss(y, said, sample_weight=weight)
        plain = metrics.log_loss(y, said)
    assert model.oob_score_ == pytest.approx(expected)
    assert model.oob_score_ != pytest.approx(plain, rel=1e-3)


def test_rows_that_are_never_left_out():
    X, y = smooth_table(40)
    with pytest.warns(UserWarning, match="out-of-bag"):
        model = RandomForestRegressor(1, oob_score=True, random_state=0).fit(X, y)
    inside = oracle.counts(model)[0] > 0
    np.testing.assert_array_equal(np.isnan(model.oob_prediction_), inside)


@pytest.mark.parametrize("cls", [RandomForestRegressor, RandomForestClassifier])
def test_nothing_is_left_out(cls):
    X, y = noisy_classes(40)
    for params in ({"oob_score": True}, {"n_estimators": "auto"}):
        with pytest.raises(ValueError, match="out-of-bag rows"):
            cls(bootstrap=False, **params).fit(X, y)
    with pytest.raises(ValueError, match="oob_score must be"):
        cls(oob_score="no such metric").fit(X, y)
    with pytest.raises(TypeError, match="oob_score must be"):
        cls(oob_score=3).fit(X, y)


def test_auto_stops_when_the_error_has_settled():
    X, y = smooth_table(400)
    model = RandomForestRegressor("auto", random_state=0, n_jobs=2).fit(X, y)
    n = model.n_estimators_
    assert 2 * SETTLED_TREES <= n < 1000
    assert has_settled(model.oob_curve_.tolist())
    assert not has_settled(model.oob_curve_[:-1].tolist())
    # Trees that were under way when it stopped have left no trace.
    again = RandomForestRegressor(n, random_state=0, oob_score=True, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    np.testing.assert_array_equal(model.oob_curve_, again.oob_curve_)


def test_settled():
    assert not has_settled([1.0] * (2 * SETTLED_TREES - 1))
    assert has_settled([1.0] * (2 * SETTLED_TREES))
    assert not has_settled(list(1 / np.arange(1, 61)))
    assert not has_settled([1.0] * 59 + [float("nan")])
    # Without any row out of the bag there is nothing to wait for.
    assert not has_settled([float("nan")] * 59) and has_settled([float("nan")] * 60)
    # Among 50 rows, one row more or less is no change; with more of them it is.
    unsteady = [0.2, 0.22] * 30
    assert not has_settled(unsteady) and not has_settled(unsteady, 0.01)
    assert has_settled(unsteady, 1.5 / 50)


def test_auto_stops_where_no_row_is_ever_left_out():
    with pytest.warns(UserWarning, match="no out-of-bag prediction"):
        model = RandomForestRegressor("auto", random_state=0, n_jobs=1).fit([[1.0]], [2.0])
    assert len(model.trees_) == 2 * SETTLED_TREES


def test_rows_without_class_weight_are_not_missed():
    X, y = noisy_classes(100, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = RandomForestClassifier(
            40, class_weight={0: 0.0}, oob_score=True, random_state=0, n_jobs=1
        ).fit(X, y)
    assert np.isnan(model.oob_decision_function_).any(axis=1).tolist() == (y == 0).tolist()


def test_booleans_of_numpy():
    X, y = smooth_table(60)
    params = {"oob_score": np.False_, "keep_rows": np.True_, "random_state": 0, "n_jobs": 1}
    model = RandomForestRegressor(30, **params).fit(X, y)
    assert not hasattr(model, "oob_score_")
    assert model.leaf_weights(X[:2]).shape == (2, 60)
    assert RandomForestRegressor(30, **{**params, "oob_score": np.True_}).fit(X, y).oob_score_ < 1


def test_progress(capsys):
    X, y = smooth_table(60)
    RandomForestRegressor(20, verbose=10, oob_score=True, random_state=0).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["[10]", "[20]"]
    assert "oob:" in lines[0] and "to go" in lines[0]


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_permutation_importance(classes):
    X, y = noisy_classes(70, classes) if classes else smooth_table(70)
    cls = RandomForestClassifier if classes else RandomForestRegressor
    model = cls(6, random_state=0, min_samples_leaf=3).fit(X, y)
    result = model.oob_permutation_importance(X, y, random_state=4)
    expected = np.zeros((5, 6))
    seeds = np.random.SeedSequence(4).spawn(6)
    for k, tree in enumerate(model.trees_):
        rng = np.random.default_rng(seeds[k])
        rows = np.flatnonzero(oracle.counts(model)[k] == 0)

        def error(table, tree=tree, rows=rows):
            said = np.array([tree.values[oracle.tree_leaf(tree, row)] for row in table])
            if classes:
                return np.mean(said.argmax(axis=1) != y[rows])
            return np.mean((said[:, 0] - y[rows]) ** 2)

        used = np.unique(tree.nodes["feature"][tree.nodes["left"] >= 0])
        for j in used:
            shuffled = X[rows].copy()
            shuffled[:, j] = X[rng.permutation(rows.astype(np.uint32)), j]
            expected[j, k] = error(shuffled) - error(X[rows])
    np.testing.assert_allclose(result.importances, expected, atol=1e-10)
    np.testing.assert_allclose(result.importances_mean, expected.mean(axis=1), atol=1e-10)
    np.testing.assert_allclose(result.importances_std, expected.std(axis=1), atol=1e-10)


def test_permutation_importance_of_sparse_tables():
    sparse = pytest.importorskip("scipy.sparse")
    X, y = smooth_table(80)
    X[np.abs(X) < 0.5] = 0
    dense = RandomForestRegressor(5, random_state=0).fit(X, y)
    expected = dense.oob_permutation_importance(X, y, random_state=0)
    model = RandomForestRegressor(5, random_state=0).fit(sparse.csr_array(X), y)
    result = model.oob_permutation_importance(sparse.csr_array(X), y, random_state=0)
    np.testing.assert_allclose(result.importances, expected.importances, atol=1e-12)


def test_permutation_importance_needs_the_training_table():
    X, y = smooth_table(50)
    model = RandomForestRegressor(3, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="fitted with"):
        model.oob_permutation_importance(X[::-1], y)
    model.oob_permutation_importance(X.astype(np.float64), y)
    whole = RandomForestRegressor(3, bootstrap=False).fit(X, y)
    with pytest.raises(ValueError, match="out-of-bag rows"):
        whole.oob_permutation_importance(X, y)


def test_impurity_importance_favours_many_values_and_permutation_does_not():
    rng = np.random.default_rng(0)
    n = 400
    X = np.c_[rng.integers(0, 2, n), rng.normal(size=n), rng.integers(0, 2, n)].astype(float)
    y = (X[:, 0] + rng.normal(size=n) > 0.5).astype(int)
    model = RandomForestClassifier(60, random_state=0).fit(X, y)
    impurity = model.feature_importances_
    assert impurity[1] > impurity[0] > impurity[2]
    permuted = model.oob_permutation_importance(X, y, random_state=0)
    assert permuted.importances_mean.argmax() == 0
    spread = permuted.importances_std[1] / np.sqrt(60)
    assert permuted.importances_mean[1] < permuted.importances_mean[0] - 3 * spread


def test_impurity_importance_is_the_mean_over_trees():
    X, y = smooth_table(150)
    model = RandomForestRegressor(8, random_state=0).fit(X, y)
    shares = []
    for tree in model.trees_:
        inner = tree.nodes["left"] >= 0
        sums = np.bincount(tree.nodes["feature"][inner], tree.nodes["gain"][inner], 5)
        shares.append(sums / sums.sum())
    np.testing.assert_allclose(model.feature_importances_, np.mean(shares, axis=0), atol=1e-9)
    np.testing.assert_allclose(model.feature_importances_std_, np.std(shares, axis=0), atol=1e-9)


def test_impurity_prefers_many_values_and_permutation_does_not():
    rng = np.random.default_rng(0)
    useful, few, many = rng.integers(0, 2, (2, 400)).tolist() + [rng.normal(size=400)]
    X = np.column_stack([useful, few, many])
    y = rng.random(400) < np.where(X[:, 0] == 1, 0.65, 0.35)
    model = RandomForestClassifier(60, random_state=0).fit(X, y)
    impurity = model.feature_importances_
    shuffled = model.oob_permutation_importance(X, y, random_state=0).importances_mean
    assert impurity[2] > 2 * impurity[0] and impurity[2] > 4 * impurity[1]
    assert shuffled[0] > 3 * abs(shuffled[1]) and shuffled[0] > 3 * abs(shuffled[2])
