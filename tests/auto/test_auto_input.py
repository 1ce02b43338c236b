"""Input of the automatic models: parameters, small and strange tables."""

import numpy as np
import pytest
import scipy.sparse

import hybridtrees as ht


def problem(n=80):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("quality", [0, 6, 2.5, "3", None, True])
def test_a_wrong_quality_is_refused(quality):
    X, y = problem()
    with pytest.raises((TypeError, ValueError), match="quality must be an integer in"):
        ht.AutoRegressor(quality=quality).fit(X, y)


@pytest.mark.parametrize("limit", [0, -1.0, np.nan, "soon"])
def test_a_wrong_time_limit_is_refused(limit):
    X, y = problem()
    with pytest.raises((TypeError, ValueError), match="time_limit must be"):
        ht.AutoRegressor(time_limit=limit).fit(X, y)


def test_wrong_groups_and_times_are_refused():
    X, y = problem()
    model = ht.AutoRegressor(quality=1)
    with pytest.raises(ValueError, match="not both"):
        model.fit(X, y, groups=np.arange(80), time=np.arange(80))
    with pytest.raises(ValueError, match="groups must have one entry"):
        model.fit(X, y, groups=[1, 2])
    with pytest.raises(ValueError, match="at least 2 groups"):
        model.fit(X, y, groups=np.zeros(80))
    with pytest.raises(ValueError, match="at least 2 distinct times"):
        model.fit(X, y, time=np.zeros(80))
    with pytest.raises(ValueError, match="missing"):
        model.fit(X, y, time=np.full(80, np.nan))
    assert not hasattr(model, "estimators_")


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y = problem()
    model = ht.AutoRegressor(quality=1, random_state=0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError):
        model.fit(X, np.full(80, np.nan))
    with pytest.raises(ValueError):
        model.fit(X[:1], y[:1])
    assert np.array_equal(model.predict(X), before)


@pytest.mark.parametrize("n", [2, 3, 5, 9])
@pytest.mark.parametrize("quality", [1, 3])
def test_a_few_rows_are_enough(n, quality):
    X, y = problem(n)
    model = ht.AutoRegressor(quality=quality, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    labels = np.arange(n) % 2
    proba = ht.AutoClassifier(quality=quality, random_state=0).fit(X, labels).predict_proba(X)
    assert np.allclose(proba.sum(axis=1), 1)


def test_constant_targets_and_columns():
    X, _ = problem()
    X[:, 1] = 7.0
    X[:, 2] = np.nan
    model = ht.AutoRegressor(random_state=0).fit(X, np.full(80, 3.0))
    assert np.allclose(model.predict(X), 3.0)


def test_one_class_is_refused():
    X, _ = problem()
    with pytest.raises(ValueError, match="class"):
        ht.AutoClassifier().fit(X, np.zeros(80, dtype=int))


def test_a_sparse_table_is_the_dense_one():
    X, y = problem(120)
    X[np.abs(X) < 0.5] = 0
    dense = ht.AutoRegressor(quality=1, random_state=0).fit(X, y)
    sparse = ht.AutoRegressor(quality=1, random_state=0).fit(scipy.sparse.csc_array(X), y)
    assert np.allclose(sparse.predict(scipy.sparse.csr_array(X)), dense.predict(X))


def test_many_categories_leave_the_linear_model_out():
    rng = np.random.default_rng(0)
    name = rng.choice([f"n{k}" for k in range(900)], 1500)
    table = {"name": name, "x": rng.normal(size=1500)}
    y = table["x"] + 0.1 * rng.normal(size=1500)
    model = ht.AutoRegressor(quality=2, random_state=0).fit(table, y)
    assert "linear" not in model._record["names"]
    new = {"name": np.array(["never seen", "n1"]), "x": np.array([0.0, 1.0])}
    assert np.isfinite(model.predict(new)).all()


def test_damaged_states_are_refused(tmp_path):
    X, y = problem()
    model = ht.AutoRegressor(quality=1, random_state=0).fit(X, y)
    for name, value in {
        "estimators_": [],
        "weights_": np.ones(99),
        "_record": {"names": ["trees"]},
    }.items():
        broken = ht.AutoRegressor().__class__.__new__(ht.AutoRegressor)
        state = {**model.__getstate__(), name: value}
        with pytest.raises(ValueError):
            broken.__setstate__(state)
