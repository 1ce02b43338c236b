"""Parameters, inputs and reading of the forests."""

from __future__ import annotations

import numpy as np
import pytest
from cart_data import integer_table, noisy_classes, smooth_table

from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor

BOTH = pytest.mark.parametrize("cls", [RandomForestRegressor, RandomForestClassifier])


@BOTH
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_estimators": 0}, "n_estimators"),
        ({"n_estimators": "many"}, "n_estimators must be an integer of at least 1 or 'auto'"),
        ({"n_estimators": 2.5}, "n_estimators"),
        ({"criterion": "no"}, "criterion"),
        ({"splitter": "first"}, "splitter"),
        ({"bootstrap": 1}, "bootstrap"),
        ({"warm_start": "yes"}, "warm_start"),
        ({"max_samples": 0}, "max_samples"),
        ({"max_samples": 1.5, "bootstrap": False}, "max_samples"),
        ({"max_samples": 101.0}, "max_samples must be at most 4000, 100 times"),
        ({"max_samples": "all"}, "max_samples"),
        ({"bootstrap": False, "max_samples": 41}, "max_samples must be at most 40"),
        ({"max_samples": 10**12}, "max_samples must be at most 4000, 100 times the number of rows"),
        ({"ccp_alpha": -1}, "ccp_alpha"),
        ({"ccp_alpha": "cv"}, "ccp_alpha"),
        ({"max_features": 0}, "max_features"),
        ({"min_samples_leaf": 0}, "min_samples_leaf"),
        ({"max_bins": 1}, "max_bins"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"verbose": -1}, "verbose"),
        ({"monotonic_cst": [1]}, "monotonic_cst"),
        ({"missing": "drop"}, "missing"),
    ],
    ids=str,
)
def test_bad_parameters(cls, params, message):
    X, y = noisy_classes(40)
    model = cls(3)
    model.set_params(**params)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, y)
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    "params", [{"voting": "loud"}, {"class_weight": "even"}, {"class_weight": {0: -1}}], ids=str
)
def test_bad_parameters_of_classifiers(params):
    X, y = noisy_classes(40)
    with pytest.raises(ValueError, match=next(iter(params))):
        RandomForestClassifier(3, **params).fit(X, y)


def test_defaults():
    X, y = smooth_table(60)
    model = RandomForestRegressor(random_state=0).fit(X, y)
    assert len(model.trees_) == model.n_estimators_ == 100
    assert model.max_features_ == X.shape[1]
    assert min(tree.nodes["n_samples"].min() for tree in model.trees_) == 1
    wide = RandomForestRegressor(2, max_features="third", random_state=0)
    assert wide.fit(np.tile(X, (1, 6)), y).max_features_ == 10
    classifier = RandomForestClassifier(20, random_state=0).fit(np.tile(X, (1, 6)), y > 0)
    assert classifier.max_features_ == 5
    assert min(tree.nodes["n_samples"].min() for tree in classifier.trees_) == 1


def test_a_failed_fit_leaves_the_forest_as_it_was():
    X, y = smooth_table(50)
    model = RandomForestRegressor(3, random_state=0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="y"):
        model.fit(X, np.full(50, np.nan))
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize(
    "criterion", ["squared_error", "friedman_mse", "absolute_error", "poisson"]
)
@pytest.mark.parametrize("splitter", ["hist", "exact"])
def test_every_criterion_of_regression(criterion, splitter):
    X, y = smooth_table(300)
    y = np.exp(y / 4)
    model = RandomForestRegressor(
        20, criterion=criterion, splitter=splitter, max_features=3, random_state=0
    )
    assert model.fit(X, y).score(X, y) > 0.6
    np.testing.assert_allclose(model.feature_importances_.sum(), 1)


@pytest.mark.parametrize("criterion", ["gini", "entropy", "log_loss", "misclassification"])
@pytest.mark.parametrize("splitter", ["hist", "exact"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_every_criterion_of_classification(criterion, splitter, n_classes):
    X, y = noisy_classes(200, n_classes)
    model = RandomForestClassifier(15, criterion=criterion, splitter=splitter, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.9
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba)


def test_voting():
    X, y = noisy_classes(120, 3)
    soft = RandomForestClassifier(7, min_samples_leaf=5, random_state=0).fit(X, y)
    hard = RandomForestClassifier(7, min_samples_leaf=5, voting="hard", random_state=0).fit(X, y)
    leaves = soft.apply(X)
    said = np.array([tree.values[leaves[:, k]] for k, tree in enumerate(soft.trees_)])
    np.testing.assert_allclose(soft.predict_proba(X), said.mean(axis=0), atol=1e-12)
    votes = np.eye(3)[said.argmax(axis=2)].mean(axis=0)
    np.testing.assert_allclose(hard.predict_proba(X), votes, atol=1e-12)
    np.testing.assert_array_equal(hard.predict(X), votes.argmax(axis=1))
    two = RandomForestClassifier(7, min_samples_leaf=5, voting="hard", random_state=0)
    proba = two.fit(X, y > 0).predict_proba(X) * 7
    np.testing.assert_allclose(proba, np.round(proba), atol=1e-12)


def test_stages():
    X, y = noisy_classes(80, 3)
    model = RandomForestClassifier(6, random_state=0).fit(X, y)
    stages = list(model.staged_predict_proba(X))
    assert len(stages) == 6
    np.testing.assert_allclose(stages[-1], model.predict_proba(X), rtol=1e-12)
    first = model.trees_[0]
    np.testing.assert_allclose(stages[0], first.values[model.apply(X)[:, 0]])
    np.testing.assert_array_equal(list(model.staged_predict(X))[-1], model.predict(X))
    regressor = RandomForestRegressor(6, random_state=0).fit(X, y)
    np.testing.assert_allclose(list(regressor.staged_predict(X))[-1], regressor.predict(X))


def test_class_weights():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] + rng.normal(size=400) > 1.8).astype(int)
    assert y.mean() < 0.2
    shares = {}
    for name in (None, "balanced", "balanced_subsample"):
        model = RandomForestClassifier(
            30, class_weight=name, min_samples_leaf=20, random_state=0, oob_score=True
        ).fit(X, y)
        shares[name] = model.predict(X).mean()
        if name == "balanced_subsample":
            # Both classes weigh the same at every root.
            for tree in model.trees_:
                np.testing.assert_allclose(tree.values[0], [0.5, 0.5], atol=1e-12)
    assert shares[None] < shares["balanced"]
    assert abs(shares["balanced"] - shares["balanced_subsample"]) < 0.1
    none = RandomForestClassifier(5, class_weight={0: 0.0}, random_state=0).fit(X, y)
    assert none.predict(X).tolist() == [1] * 400


def test_weights_and_rows_of_weight_zero():
    X, y = smooth_table(120)
    weight = np.ones(120)
    weight[60:] = 0
    model = RandomForestRegressor(5, random_state=0).fit(X, np.r_[y[:60], y[60:] + 1e3], weight)
    assert np.abs(model.predict(X)).max() < 100
    part = RandomForestRegressor(
        3, bootstrap=False, max_features=None, splitter="exact", random_state=0
    )
    np.testing.assert_allclose(
        part.fit(X, y, weight).predict(X), part.fit(X[:60], y[:60]).predict(X), rtol=1e-12
    )


@BOTH
def test_tables_of_every_kind(cls):
    sparse = pytest.importorskip("scipy.sparse")
    X, y = integer_table(150)
    X[X < 20] = 0.0
    y = y if cls is RandomForestRegressor else np.digitize(y, [4.0, 8.0])
    model = cls(4, random_state=0, oob_score="mse" if cls is RandomForestRegressor else "merror")
    with pytest.warns(UserWarning, match="out-of-bag"):
        expected = model.fit(X, y).predict(X)
        curve = model.oob_curve_
        tables = [
            X.astype(np.float32), np.asfortranarray(X), X.tolist(), sparse.csr_array(X),
            sparse.csc_matrix(X), X[::-1][::-1],
        ]  # fmt: skip
        pandas = pytest.importorskip("pandas")
        tables.append(pandas.DataFrame(X, columns=list("abcd")))
        for table in tables:
            np.testing.assert_array_equal(model.fit(table, y).predict(table), expected)
            np.testing.assert_allclose(model.oob_curve_, curve, rtol=1e-12)


def test_categories_and_missing_values_of_a_frame():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    color = rng.choice(["red", "green", "blue", None], 300)
    x = np.where(rng.random(300) < 0.2, np.nan, rng.normal(size=300))
    y = np.where(color == "green", 5.0, 0.0) + np.nan_to_num(x, nan=2.0)
    table = pandas.DataFrame({"color": color, "x": x})
    model = RandomForestRegressor(30, max_features=None, random_state=0, oob_score=True)
    model.fit(table, y)
    assert model.oob_score_ > 0.9
    assert model.feature_names_in_.tolist() == ["color", "x"]
    assert "color" in model.summary()


def test_monotone():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=300)
    model = RandomForestRegressor(
        20, monotonic_cst=[1, 0], min_samples_leaf=1, max_features=None, random_state=0
    ).fit(X, y)
    grid = np.c_[np.linspace(0, 1, 101), np.full(101, 0.5)]
    assert np.all(np.diff(model.predict(grid)) >= 0)
    classifier = RandomForestClassifier(20, monotonic_cst=[-1, 0], random_state=0)
    proba = classifier.fit(X, y < 0.5).predict_proba(grid)[:, 1]
    assert np.all(np.diff(proba) <= 1e-12)


def test_reading():
    X, y = noisy_classes(90, 3)
    model = RandomForestClassifier(4, random_state=0).fit(X, y)
    indicator, pointers = model.decision_path(X)
    leaves = model.apply(X)
    assert leaves.shape == (90, 4) and leaves.dtype == np.int32
    assert indicator.shape == (90, pointers[-1]) and len(pointers) == 5
    for k, tree in enumerate(model.trees_):
        part = indicator[:, pointers[k] : pointers[k + 1]].toarray()
        assert np.all(part[np.arange(90), leaves[:, k]] == 1)
        np.testing.assert_array_equal(part.sum(axis=1), tree.nodes["depth"][leaves[:, k]] + 1)
    text = model.summary()
    assert text.startswith("RandomForestClassifier: gini, hist splits")
    assert "trees 4" in text and "classes 3" in text


@BOTH
def test_edges(cls):
    one = cls(3, oob_score=False).fit([[1.0, 2.0]], [3])
    assert one.predict([[0.0, np.nan]]).tolist() == [3]
    assert not one.feature_importances_.any()
    same = cls(3).fit(np.ones((20, 2)), np.arange(20) % 2)
    assert len(same.predict(np.ones((4, 2)))) == 4
    with pytest.raises(ValueError, match="0 feature|0 sample"):
        cls(3).fit(np.zeros((0, 3)), [])
    X, _ = smooth_table(30)
    flat = cls(3).fit(X, np.full(30, 7))
    assert set(flat.predict(X).tolist()) == {7}


def test_one_class():
    X, _ = smooth_table(30)
    model = RandomForestClassifier(3, oob_score=True, random_state=0)
    with pytest.warns(UserWarning, match="out-of-bag"):
        model.fit(X, ["only"] * 30)
    assert model.predict_proba(X).tolist() == [[1.0]] * 30
    assert model.oob_score_ == 1.0


def test_messages_name_what_is_allowed():
    X, y = noisy_classes(40)
    with pytest.raises(ValueError, match="class_weight must be .*'balanced_subsample'"):
        RandomForestClassifier(3, class_weight="x").fit(X, y)
    model = RandomForestRegressor(3, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="q must be one or more numbers from 0 to 1, got 'a'"):
        model.predict_quantiles(X, "a")
