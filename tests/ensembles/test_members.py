"""Members of ensembles: checked, copied, fitted in parallel, asked for predictions."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar

import numpy as np
import pytest
from scipy import sparse

import hybridtrees as ht
from hybridtrees.base import ClassifierMixin, RegressorMixin
from hybridtrees.ensembles.members import (
    Ensemble,
    Rows,
    check_member,
    fit_member,
    member_codes,
    member_numbers,
    member_probabilities,
    run_members,
    takes_weight,
)
from hybridtrees.input._user_tables import open_columns


class _Mean(RegressorMixin, Ensemble):
    """An ensemble that only reads its rows."""

    member: object = None

    def fit(self, X, y, sample_weight=None):
        self.rows_ = self._learn_rows(X, y, sample_weight)
        return self


class _Vote(ClassifierMixin, Ensemble):
    """The same for classes."""

    def fit(self, X, y, sample_weight=None):
        self.rows_ = self._learn_rows(X, y, sample_weight)
        return self


class Plain:
    """An estimator of another package, whose fit takes no weights."""

    _estimator_type = "regressor"

    def __init__(self, random_state=None, n_jobs=None, inner=None):
        self.random_state, self.n_jobs, self.inner = random_state, n_jobs, inner

    def get_params(self, deep=True):
        params = {"random_state": self.random_state, "n_jobs": self.n_jobs, "inner": self.inner}
        if deep and self.inner is not None:
            params |= {f"inner__{k}": v for k, v in self.inner.get_params().items()}
        return params

    def set_params(self, **params):
        for key, value in params.items():
            if key.startswith("inner__"):
                self.inner.set_params(**{key[7:]: value})
            else:
                setattr(self, key, value)
        return self

    def fit(self, X, y):
        self.seen = X, y
        self.threads = getattr(self.inner, "n_jobs", None)
        return self

    def predict(self, X):
        return np.zeros(len(X))


# ---- run_members ------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2, 3, None])
def test_results_are_in_the_order_of_the_items(n_jobs):
    def work(item, n_threads):
        time.sleep(0.01 * (3 - item % 4))
        assert n_threads >= 1
        return item * item

    assert run_members(work, range(9), n_jobs) == [i * i for i in range(9)]
    assert run_members(work, iter([4]), n_jobs) == [16]
    assert run_members(work, [], n_jobs) == []


def test_one_item_gets_all_threads_and_many_share_them():
    assert run_members(lambda _, n: n, [0], 4) == [4]
    assert run_members(lambda _, n: n, [0, 1], 4) == [2, 2]
    assert run_members(lambda _, n: n, [0, 1, 2], 2) == [1, 1, 1]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_ends_the_work(n_jobs):
    started = []

    def work(item, n_threads):
        started.append(item)
        if item == 1:
            raise KeyError("member 1")
        time.sleep(0.02)

    with pytest.raises(KeyError, match="member 1"):
        run_members(work, range(200), n_jobs)
    assert len(started) < 100
    assert not [t for t in threading.enumerate() if t.name.startswith("hybridtrees")]


def test_workers_see_the_context_of_the_caller():
    shared: ContextVar[str] = ContextVar("shared", default="nothing")
    token = shared.set("bins")
    try:
        assert run_members(lambda _, n: shared.get(), range(4), 2) == ["bins"] * 4
    finally:
        shared.reset(token)


# ---- check_member, fit_member -----------------------------------------------------------------


def test_what_is_no_member_is_refused():
    owner = _Mean()
    check_member(ht.CARTRegressor(), "estimator", owner)
    check_member(Plain(), "estimator", owner)
    for wrong in (None, "tree", 3, ht.CARTRegressor, object()):
        with pytest.raises(TypeError, match="estimator must be an estimator with fit, got"):
            check_member(wrong, "estimator", owner)
    with pytest.raises(TypeError, match="x of _Mean must be a regressor, got CARTClassifier"):
        check_member(ht.CARTClassifier(), "x", owner)
    with pytest.raises(TypeError, match="x of _Vote must be a classifier, got CARTRegressor"):
        check_member(ht.CARTRegressor(), "x", _Vote())


def make_rows(weight=None):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    return Rows(open_columns(X), X[:, 0] + rng.standard_normal(60), weight)


def test_a_member_is_a_fitted_copy_with_seed_and_threads():
    rows = make_rows()
    forest = ht.RandomForestRegressor(3)
    member = fit_member(forest, rows, 2, seed=7)
    assert member is not forest and not hasattr(forest, "n_features_in_")
    # The number of threads is that of the fit, and no part of the model.
    assert (member.random_state, member.n_jobs) == (7, None)
    same = fit_member(forest, rows, 1, seed=7)
    np.testing.assert_array_equal(member.predict(np.eye(3)), same.predict(np.eye(3)))
    other = fit_member(forest, rows, 1, seed=8)
    assert (member.predict(np.eye(3)) != other.predict(np.eye(3))).any()
    # What the user has set stays, and without a seed nothing is set.
    kept = fit_member(ht.RandomForestRegressor(2, random_state=3, n_jobs=1), rows, 2, seed=7)
    assert (kept.random_state, kept.n_jobs) == (3, 1)
    assert fit_member(forest, rows, 1).random_state is None


def test_seeds_reach_nested_estimators_and_have_31_bits():
    member = fit_member(Plain(inner=Plain()), make_rows(), 3, seed=2**63 + 5)
    assert member.random_state == 5 == member.inner.random_state
    # Threads are given to our estimators only: others may start processes.
    assert member.n_jobs is None and member.inner.n_jobs is None
    nested = fit_member(Plain(inner=ht.CARTRegressor()), make_rows(), 3)
    assert (nested.threads, nested.inner.n_jobs) == (3, None)


def test_weights_go_to_members_that_take_them():
    weight = np.arange(60.0)
    member = fit_member(ht.LinearRegressor(), make_rows(weight), 1)
    rows = make_rows()
    expected = ht.LinearRegressor().fit(rows.columns.table, rows.target, weight)
    np.testing.assert_array_equal(member.coef_, expected.coef_)
    assert takes_weight(ht.LinearRegressor()) and not takes_weight(Plain())
    with pytest.raises(ValueError, match="the third is a Plain, whose fit takes no sample_weight"):
        fit_member(Plain(), make_rows(weight), 1, name="the third")
    assert fit_member(Plain(), rows, 1).seen[0] is rows.columns.table


# ---- predictions ------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [["a", "b", "c"], [3, 5, 9], [False, True]])
def test_probabilities_of_classes_that_a_member_has_not_seen(labels):
    classes = np.array(labels)
    X = np.arange(40.0)[:, None]
    y = classes[(np.arange(40) // 20) * (len(labels) - 1)]
    member = ht.CARTClassifier().fit(X, y)
    proba = member_probabilities(member, X, classes)
    assert proba.shape == (40, len(labels))
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(classes[proba.argmax(axis=1)], y)
    np.testing.assert_array_equal(classes[member_codes(member, X, classes)], y)
    if len(labels) == 3:
        assert (proba[:, 1] == 0).all()


def test_a_member_without_probabilities_is_named():
    with pytest.raises(TypeError, match="CARTRegressor, which has no predict_proba"):
        member_probabilities(ht.CARTRegressor(), np.eye(2), np.arange(2))


# ---- rows -------------------------------------------------------------------------------------


class _Wide(Plain):
    """Predicts a column, or several."""

    width = 1

    def predict(self, X):
        return np.zeros((len(X), self.width))


def test_a_column_of_numbers_is_one_number_for_each_row():
    member = _Wide()
    assert member_numbers(member, np.eye(3)).shape == (3,)
    X, y = np.eye(10), np.arange(10.0)
    for made in (ht.VotingRegressor, ht.ModelAverageRegressor, ht.StackingRegressor):
        assert made([("wide", _Wide())]).fit(X, y).predict(X).shape == (10,)
    assert ht.PastingRegressor(member, n_estimators=2).fit(X, y).predict(X).shape == (10,)
    member.width = 2
    with pytest.raises(ValueError, match=r"one number for each row, _Wide gave the shape \(3, 2\)"):
        member_numbers(member, np.eye(3))


def test_an_ensemble_reads_its_rows():
    X = {"a": [1.0, 2.0, 3.0], "b": ["x", None, "y"]}
    model = _Mean().fit(X, [1, 2, 3], [1, 2, 3])
    assert model.n_features_in_ == 2 and list(model.feature_names_in_) == ["a", "b"]
    rows = model.rows_
    assert len(rows) == 3 and rows.weight.tolist() == [1, 2, 3] and rows.codes is None
    some = rows.take(np.array([2, 0, 2]))
    assert list(some.columns.table["a"]) == [3, 1, 3]
    assert some.target.tolist() == [3, 1, 3] == some.weight.tolist()
    assert rows.take(np.array([1]), np.array([9.0])).weight.tolist() == [9]
    assert rows.weighted(None).weight is None and rows.weight is not None
    model.fit(np.eye(3), [1, 2, 3])
    assert not hasattr(model, "feature_names_in_") and model.rows_.weight is None
    voted = _Vote().fit(np.eye(3), ["no", "yes", "no"])
    assert voted.classes_.tolist() == ["no", "yes"] and voted.n_classes_ == 2
    assert voted.rows_.codes.tolist() == [0, 1, 0]
    assert voted.rows_.take(np.array([1])).codes.tolist() == [1]
    for wrong in ([1, 2], [[1, 2]] * 3):
        with pytest.raises(ValueError, match="y"):
            model.fit(np.eye(3), wrong)


def tables():
    """The same table, as every kind."""
    array = np.arange(12.0).reshape(4, 3)
    yield "array", array
    yield "fortran", np.asfortranarray(array)
    yield "dict", {name: array[:, j] for j, name in enumerate("abc")}
    yield "csr", sparse.csr_array(array)
    yield "csc", sparse.csc_matrix(array)
    for library in ("pandas", "polars", "pyarrow"):
        try:
            module = __import__(library)
        except ImportError:
            continue
        columns = {name: array[:, j] for j, name in enumerate("abc")}
        make = module.table if library == "pyarrow" else module.DataFrame
        yield library, make(columns)


@pytest.mark.parametrize("table", [pytest.param(table, id=kind) for kind, table in tables()])
def test_columns_and_rows_are_selected_from_any_table(table):
    expected = np.arange(12.0).reshape(4, 3)
    columns = open_columns(table)
    for features in (np.array([2, 0]), np.array([1]), np.array([0, 1, 2])):
        part = columns.select(features)
        assert type(part) is type(columns) and part.shape == (4, len(features))
        for place, feature in enumerate(features):
            np.testing.assert_array_equal(part.column(place), expected[:, feature])
        if columns.names is not None:
            assert part.names == [columns.names[j] for j in features]
        rows = np.array([3, 0, 3])
        both = part.take(rows)
        assert both.shape == (3, len(features))
        np.testing.assert_array_equal(both.column(0), expected[rows, features[0]])
        # Models read the table as it is.
        model = ht.LinearRegressor().fit(part.table, np.arange(4.0))
        assert model.n_features_in_ == len(features)
        if columns.names is not None:
            assert list(model.feature_names_in_) == part.names


def test_the_final_model_of_a_stack_has_a_seed_of_its_own():
    rows = make_rows()
    X, y = rows.columns.table, rows.target
    forest = ht.RandomForestRegressor(n_estimators=2)
    model = ht.StackingRegressor([("forest", forest)], forest, cv=2, random_state=0)
    model.fit(X, y)
    seed = model.final_estimator_.random_state
    assert seed is not None and seed != model.estimators_[0].random_state
    assert model.fit(X, y).final_estimator_.random_state == seed
