"""Members of any kind: columns of labels, other labels, pickles, tables that do not fit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import hybridtrees as ht

ENSEMBLES = {
    "adaboost": lambda member: ht.AdaBoostClassifier(member, n_estimators=3),
    "drawn": lambda member: ht.AdaBoostClassifier(member, n_estimators=3, resample=True),
    "bagging": lambda member: ht.BaggingClassifier(member, 3),
    "votes": lambda member: ht.BaggingClassifier(member, 3, voting="hard"),
    "pasting": lambda member: ht.PastingClassifier(member, 3, precinct_size=60),
    "voting": lambda member: ht.VotingClassifier([("a", member)], weights="validation"),
    "stacking": lambda member: ht.StackingClassifier([("a", member)], stack_method="predict"),
    "average": lambda member: ht.ModelAverageClassifier([("a", member)]),
    "mixture": lambda member: ht.MixtureOfExpertsClassifier(
        expert=member, n_restarts=1, max_iter=3, tol=0.5
    ),
}
REGRESSORS = {
    "adaboost": lambda member: ht.AdaBoostRegressor(member, n_estimators=3),
    "bagging": lambda member: ht.BaggingRegressor(member, 3),
    "pasting": lambda member: ht.PastingRegressor(member, 3, precinct_size=60),
    "voting": lambda member: ht.VotingRegressor([("a", member)]),
    "stacking": lambda member: ht.StackingRegressor([("a", member)], cv=2),
    "average": lambda member: ht.ModelAverageRegressor([("a", member)], cv=2),
    "mixture": lambda member: ht.MixtureOfExpertsRegressor(
        expert=member, n_restarts=1, max_iter=3, tol=0.5
    ),
}


class Foreign:
    """A classifier that is none of ours, with labels as they come out of CatBoost."""

    _estimator_type = "classifier"
    n_features_in_ = 0  # as after unpickling

    def __init__(self, column=True, text=False):
        self.column, self.text = column, text

    def get_params(self, deep=True):
        return {"column": self.column, "text": self.text}

    def set_params(self, **params):
        vars(self).update(params)
        return self

    def fit(self, X, y, sample_weight=None):
        self.model_ = ht.CARTClassifier(max_depth=2).fit(X, y, sample_weight)
        self.classes_ = self.model_.classes_
        if self.text:
            self.classes_ = self.classes_.astype(str)
        return self

    def predict(self, X):
        labels = self.model_.predict(X)
        labels = labels.astype(str) if self.text else labels
        return labels[:, None] if self.column else labels

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    return X, np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])


def seeded(model):
    return model.set_params(random_state=0)


@pytest.mark.parametrize("name", ENSEMBLES)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_labels_may_be_a_column(table, name):
    X, y = table
    make = ENSEMBLES[name]
    column, row = (seeded(make(Foreign(column))).fit(X, y).predict(X) for column in (True, False))
    assert column.shape == y.shape and np.array_equal(column, row)
    assert np.mean(column == y) > 0.6


@pytest.mark.parametrize("name", ENSEMBLES)
def test_labels_of_another_type_are_refused(table, name):
    X, y = table
    model = seeded(ENSEMBLES[name](Foreign(text=True)))
    with pytest.raises(ValueError, match=r"Foreign predicts '[012]', .* the classes \[0, 1, 2\]"):
        model.fit(X, y).predict(X)


@pytest.mark.parametrize("name", ENSEMBLES)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_an_ensemble_of_foreign_classifiers_can_be_pickled(table, name):
    X, y = table
    model = seeded(ENSEMBLES[name](Foreign())).fit(X, y)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@pytest.mark.parametrize("name", ENSEMBLES)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_other_features_than_those_of_the_fit(table, name):
    X, y = table
    model = seeded(ENSEMBLES[name](ht.CARTClassifier(max_depth=2))).fit(X, y)
    cls = type(model).__name__
    with pytest.raises(ValueError, match=f"X has 2 features, but {cls} is expecting 3 features"):
        model.predict(X[:, :2])


@pytest.mark.parametrize("name", ENSEMBLES)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_members_that_do_not_fit_are_refused(table, name):
    X, y = table
    model = seeded(ENSEMBLES[name](ht.LogisticClassifier())).fit(X, y)
    members = "estimators_" if "estimators_" in vars(model) else "_members"
    good = getattr(model, members)
    others = [
        ht.LogisticClassifier().fit(X[:, :2], y),  # other features
        ht.LogisticClassifier().fit(X, y + 1),  # other classes
        ht.LinearRegressor().fit(X, y),
        "no model",
    ]
    model._check_fitted()
    for other in others:
        vars(model)[members] = [other, *good[1:]]
        with pytest.raises(ValueError, match="LogisticClassifier|classes|is no classifier"):
            model._check_fitted()


@pytest.mark.peer
@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_an_ensemble_of_foreign_regressors_can_be_pickled(table, name):
    trees = pytest.importorskip("sklearn.tree")
    X = table[0]
    member = trees.DecisionTreeRegressor(max_depth=3)
    model = seeded(REGRESSORS[name](member)).fit(X, X[:, 0])
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@pytest.mark.peer
@pytest.mark.parametrize("name", ENSEMBLES)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_members_of_catboost(table, name):
    catboost = pytest.importorskip("catboost")
    X, y = table
    labels = np.array(["low", "middle", "high"])[y]
    member = catboost.CatBoostClassifier(
        iterations=5, depth=3, thread_count=1, verbose=0, allow_writing_files=False
    )
    model = seeded(ENSEMBLES[name](member)).fit(X, labels)
    assert model.score(X, labels) > 0.6
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
