"""The parameter `class_weight` of classifiers."""

from __future__ import annotations

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees.ensembles.members import Ensemble

CLASSIFIERS = {
    "adaboost": lambda **own: ht.AdaBoostClassifier(n_estimators=5, max_depth=2, **own),
    "cart": lambda **own: ht.CARTClassifier(max_depth=4, **own),
    # With a bootstrap, a forest draws rows by sample_weight, but not by class_weight.
    "forest": lambda **own: ht.RandomForestClassifier(
        5, bootstrap=False, max_depth=4, random_state=0, **own
    ),
    "gb": lambda **own: ht.GradientBoostingClassifier(
        n_estimators=60, learning_rate=0.5, n_iter_no_change=2, random_state=0, **own
    ),
    "xgb": lambda **own: ht.XGBClassifier(n_estimators=5, **own),
    "plgb": lambda **own: ht.PLGBClassifier(n_estimators=5, **own),
    "logistic": lambda **own: ht.LogisticClassifier(alpha=0.1, alpha_scaling="sum", **own),
    "linear_tree": lambda **own: ht.LinearTreeClassifier(max_depth=2, **own),
    "linear_forest": lambda **own: ht.LinearForestClassifier(3, max_depth=2, random_state=0, **own),
    "rerf": lambda **own: ht.RERFClassifier(5, random_state=0, **own),
    "eblr": lambda **own: ht.EBLRClassifier(
        n_rules=4, early_stopping="validation", random_state=0, **own
    ),
    "auto": lambda **own: ht.AutoClassifier(quality=1, random_state=0, **own),
    "mixture": lambda **own: ht.MixtureOfExpertsClassifier(
        n_restarts=1, max_iter=1000, random_state=0, **own
    ),
}


@pytest.fixture(scope="module", params=[2, 3])
def table(request):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((240, 4))
    score = X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(240)
    codes = np.digitize(score, [0.8] if request.param == 2 else [-0.8, 1.5])
    return X, np.array(["a", "b", "c"])[codes], rng.exponential(size=240)


def test_every_classifier_has_it():
    names = [name for name in ht.__all__ if name.endswith("Classifier")]
    # In ensembles of any models it is the members that have it.
    names = [
        name
        for name in names
        if name in ("AdaBoostClassifier", "MixtureOfExpertsClassifier")
        or not issubclass(getattr(ht, name), Ensemble)
    ]
    assert len(names) == len(CLASSIFIERS)
    for name in names:
        assert getattr(ht, name)().class_weight is None


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("kind", ["balanced", "dict"])
def test_equals_sample_weight(name, kind, table):
    X, y, weight = table
    labels, counts = np.unique(y, return_counts=True)
    if kind == "dict":
        given = {"b": 3.0}
        factor = np.where(y == "b", 3.0, 1.0)
    else:
        given = "balanced"
        factor = (len(y) / (len(labels) * counts))[np.searchsorted(labels, y)]
    make = CLASSIFIERS[name]
    for own in (None, weight):
        model = make(class_weight=given, n_jobs=1).fit(X, y, own)
        other = make(n_jobs=1).fit(X, y, factor if own is None else own * factor)
        np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))
        plain = make(n_jobs=1).fit(X, y, own)
        assert not np.array_equal(plain.predict_proba(X), other.predict_proba(X))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_wrong_values_are_refused(name, table):
    X, y, _ = table
    for given, words in (
        ("even", "class_weight must be None, 'balanced'"),
        ({"a": -1.0}, "class_weight must hold finite numbers of at least 0"),
        ({"z": 2.0}, "class_weight names 'z'"),
        (dict.fromkeys("abc", 0.0), "class_weight leaves no row with a positive weight"),
    ):
        with pytest.raises(ValueError, match=words):
            CLASSIFIERS[name](class_weight=given).fit(X, y)


def test_beside_scale_pos_weight(table):
    X, y, _ = table
    y = y == "b"
    both = ht.XGBClassifier(n_estimators=5, scale_pos_weight=2, class_weight={False: 0.5})
    alone = ht.XGBClassifier(n_estimators=5, scale_pos_weight=2)
    expected = alone.fit(X, y, np.where(y, 1.0, 0.5)).predict_proba(X)
    np.testing.assert_array_equal(both.fit(X, y).predict_proba(X), expected)
