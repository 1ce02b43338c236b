"""Classes so rare that samples or folds lack them: a constant member takes their place."""

from __future__ import annotations

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees.ensembles.members import ConstantClassifier

rng = np.random.default_rng(0)
X = rng.standard_normal((300, 3))
y = np.array(["a"] * 297 + ["z"] * 3)
BOOST = ht.GradientBoostingClassifier(n_estimators=3)
MEMBERS = [("line", ht.LogisticClassifier()), ("boost", BOOST)]
# The first fold trains on rows of one class.
FOLDS = [(np.arange(150), np.arange(150, 300)), (np.arange(100, 300), np.arange(100))]


@pytest.mark.parametrize(
    "model",
    [
        ht.BaggingClassifier(ht.LogisticClassifier(), 10, max_samples=30, random_state=0),
        ht.BaggingClassifier(
            ht.LogisticClassifier(), 10, max_samples=30, max_features=2, random_state=0
        ),
        ht.PastingClassifier(ht.LogisticClassifier(), precinct_size=20, random_state=0),
        ht.AdaBoostClassifier(ht.LogisticClassifier(), n_estimators=3, random_state=0),
        ht.StackingClassifier(MEMBERS, cv=FOLDS),
        ht.ModelAverageClassifier(MEMBERS, cv=FOLDS),
        ht.VotingClassifier(MEMBERS, weights="validation", cv=FOLDS),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_sample_without_the_rare_class_does_not_end_the_fit(model, tmp_path):
    model.fit(X, y)
    assert model.classes_.tolist() == ["a", "z"]
    found = model.predict(X)
    assert (found == "a").mean() > 0.9
    model.save(tmp_path / "model")
    assert np.array_equal(ht.load(tmp_path / "model").predict(X), found)


def test_bagging_has_constant_members_where_the_class_is_missing():
    model = ht.BaggingClassifier(ht.LogisticClassifier(), 10, max_samples=30, random_state=0)
    model.fit(X, y)
    for member, rows in zip(model.estimators_, model.estimators_samples_, strict=True):
        assert isinstance(member, ConstantClassifier) == (len(set(y[rows])) == 1)
    assert any(isinstance(member, ConstantClassifier) for member in model.estimators_)


def test_members_still_refuse_a_table_of_one_class():
    with pytest.raises(ValueError, match="one class 'a'"):
        ht.BaggingClassifier(ht.LogisticClassifier(), 2).fit(X[:50], y[:50])


def test_scores_of_one_class_are_refused():
    model = ht.StackingClassifier(MEMBERS, cv=FOLDS, stack_method="decision_function")
    with pytest.raises(ValueError, match="'line' has seen a single class in some folds"):
        model.fit(X, y)


def test_the_constant_member(tmp_path):
    weight = (y == "z").astype(float)
    model = ConstantClassifier().fit(X, y, weight)
    assert model.classes_.tolist() == ["z"]
    assert model.predict(X[:2]).tolist() == ["z", "z"]
    assert model.predict_proba(X[:2]).tolist() == [[1.0], [1.0]]
    assert model.feature_importances_.tolist() == [0.0] * 3
    assert set(model.get_params()) <= {"calibrate", "conformal"}
    with pytest.raises(ValueError, match="for one class, got 2"):
        ConstantClassifier().fit(X, y)
    with pytest.raises(ValueError, match="3 features"):
        model.predict(X[:, :2])
    model.n_classes_ = 2
    with pytest.raises(ValueError, match="n_classes_"):
        model._check_state()
