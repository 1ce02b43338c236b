"""Ensembles with named members: parameters of members, replaced and dropped ones, faulty names."""

from __future__ import annotations

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees._parameters import clone
from hybridtrees.base import RegressorMixin
from hybridtrees.ensembles.members import fit_member
from hybridtrees.ensembles.named import NamedMembers


class _Average(RegressorMixin, NamedMembers):
    """The mean of its members."""

    final: object = None
    level: float = 0.5

    def fit(self, X, y, sample_weight=None):
        kept = self._check_members()
        rows = self._learn_rows(X, y, sample_weight)
        self.estimators_ = [fit_member(member, rows, 1, 0, name) for name, member in kept]
        return self

    def predict(self, X):
        return np.mean([member.predict(X) for member in self.estimators_], axis=0)


def make(**more):
    pairs = [("line", ht.LinearRegressor()), ("tree", ht.CARTRegressor(max_depth=2))]
    return _Average(pairs, **more)


X = np.random.default_rng(0).standard_normal((40, 2))
Y = X[:, 0]


def test_members_have_names():
    model = make().fit(X, Y)
    assert list(model.named_estimators_) == ["line", "tree"]
    assert model.named_estimators_["tree"] is model.estimators_[1]
    with pytest.raises(ht.base.NotFittedError):
        _ = make().named_estimators_


def test_parameters_of_members():
    model = make()
    params = model.get_params()
    assert params["tree"] is model.estimators[1][1]
    assert params["tree__max_depth"] == 2 and params["level"] == 0.5
    assert set(model.get_params(deep=False)) == {"conformal", "estimators", "final", "level"}
    model.set_params(tree__max_depth=4, line__alpha=3.0, level=0.1)
    assert model.estimators[1][1].max_depth == 4 and model.estimators[0][1].alpha == 3.0
    assert model.level == 0.1
    model.set_params(final=ht.XGBRegressor(), final__max_depth=9)
    assert model.get_params()["final__max_depth"] == 9


def test_a_clone_shares_nothing():
    model = make()
    copy = clone(model)
    assert [name for name, _ in copy.estimators] == ["line", "tree"]
    assert copy.estimators[1][1] is not model.estimators[1][1]
    copy.set_params(tree__max_depth=7)
    assert model.estimators[1][1].max_depth == 2


def test_a_clone_of_scikit_learn_shares_nothing():
    theirs = pytest.importorskip("sklearn.base").clone
    model = make()
    copy = theirs(model)
    copy.set_params(tree__max_depth=7)
    assert model.estimators[1][1].max_depth == 2 and copy.estimators[1][1].max_depth == 7


def test_members_are_replaced_and_dropped():
    model = make()
    given = model.estimators
    forest = ht.RandomForestRegressor(3)
    model.set_params(tree=forest)
    assert model.estimators[1] == ("tree", forest)
    assert given[1][1] is not forest  # the list of the user stays
    model.set_params(line="drop").fit(X, Y)
    assert list(model.named_estimators_) == ["tree"]
    assert model.get_params()["line"] == "drop"
    # A new member and its parameter in one call.
    model.set_params(line=ht.CARTRegressor(), line__max_depth=1)
    assert model.estimators[0][1].max_depth == 1
    model.set_params(tree="drop", line="drop")
    with pytest.raises(ValueError, match="all estimators are dropped"):
        model.fit(X, Y)


def test_a_new_list_and_its_names_in_one_call():
    model = make().set_params(estimators=[("deep", ht.CARTRegressor())], deep__max_depth=3)
    assert [name for name, _ in model.estimators] == ["deep"]
    assert model.estimators[0][1].max_depth == 3
    with pytest.raises(ValueError, match="Invalid parameter 'line'"):
        model.set_params(line__alpha=1.0)


@pytest.mark.parametrize(
    "params",
    [
        {"level": 9.0, "nobody": 1},
        {"level": 9.0, "nobody__max_depth": 1},
        {"tree": ht.RandomForestRegressor(), "nobody": 1},
        {"estimators": [("new", ht.CARTRegressor())], "tree__max_depth": 1},
        {"estimators": [("new", ht.CARTRegressor())], "level__x": 1},
        {"tree__max_depth": 9, "line__nothing": 1},
        {"tree": ht.RandomForestRegressor(), "tree__nothing": 1},
        {"line": "drop", "line__alpha": 1.0},
        {"level": 9.0, "final__max_depth": 1},
    ],
)
def test_set_params_that_fails_changes_nothing(params):
    model = make()
    before = repr(model.get_params())
    with pytest.raises((ValueError, AttributeError)):
        model.set_params(**params)
    assert repr(model.get_params()) == before


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([([1], ht.CARTRegressor())], "strings without '__'"),
        ([], "estimators must be a list of pairs"),
        (None, "estimators must be a list of pairs"),
        (3, "estimators must be a list of pairs"),
        ([ht.CARTRegressor()], "estimators must be a list of pairs"),
        ([("a", ht.CARTRegressor(), 1)], "estimators must be a list of pairs"),
        ([("a__b", ht.CARTRegressor())], "strings without '__', got 'a__b'"),
        ([("", ht.CARTRegressor())], "strings without '__', got ''"),
        ([(3, ht.CARTRegressor())], "strings without '__', got 3"),
        ([("level", ht.CARTRegressor())], "'level' of a member is that of a parameter"),
        ([("estimators", ht.CARTRegressor())], "'estimators' of a member is that of a parameter"),
        ([("a", ht.CARTRegressor()), ("a", ht.XGBRegressor())], "must differ, got"),
    ],
)
def test_faulty_lists_of_members(pairs, message):
    model = _Average(pairs)
    model.get_params()  # what is wrong is said by fit
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)


def test_faulty_members_are_named():
    with pytest.raises(TypeError, match="the member 'a' must be an estimator with fit, got None"):
        _Average([("a", None)]).fit(X, Y)
    with pytest.raises(TypeError, match="the member 'a' of _Average must be a regressor"):
        _Average([("a", ht.CARTClassifier())]).fit(X, Y)


def test_parameters_of_another_estimator_are_restored():
    model = make(final=ht.XGBRegressor(max_depth=5))
    with pytest.raises(ValueError, match="nothing"):
        model.set_params(final__max_depth=2, line__nothing=1)
    assert model.final.max_depth == 5


def test_a_generator_of_pairs_is_no_list():
    pairs = (pair for pair in [("a", ht.CARTRegressor())])
    with pytest.raises(ValueError, match="estimators must be a list of pairs"):
        _Average(pairs).fit(X, Y)


def test_a_member_compared_by_value_is_not_asked_for_its_truth():
    class Odd(ht.CARTRegressor):
        """Its == returns an array."""

        def __eq__(self, other):
            return np.array([True, False])

        __hash__ = None

    model = _Average([("odd", Odd()), ("tree", ht.CARTRegressor())])
    model.set_params(tree="drop", odd__max_depth=1)
    assert model.estimators[0][1].max_depth == 1
    assert list(model.fit(X, Y).named_estimators_) == ["odd"]
    assert model.set_params(odd=Odd(max_depth=2)).estimators[0][1].max_depth == 2
