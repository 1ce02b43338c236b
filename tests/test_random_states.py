"""A seed says all: whatever takes `random_state` draws the same from the same SeedSequence."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from small_members import small_members

import hybridtrees as ht
from hybridtrees import datasets
from hybridtrees.inspection import permutation_importance

_FEW = {"n_estimators": 2}
_SAMPLED = {"n_estimators": 2, "subsample": 0.5}
# What makes each estimator draw something.
DRAWING = {
    "AdaBoostClassifier": {"resample": True, **_FEW},
    "AdaBoostRegressor": _FEW,
    "AutoClassifier": {"quality": 1},
    "AutoRegressor": {"quality": 1},
    "BaggingClassifier": _FEW,
    "BaggingRegressor": _FEW,
    "BinMapper": {"subsample": 60, "max_bins": 16},
    "CARTClassifier": {"max_features": 1, "max_depth": 3},
    "CARTRegressor": {"max_features": 1, "max_depth": 3},
    "EBLRClassifier": {"early_stopping": "validation", "n_rules": 2},
    "EBLRRegressor": {"early_stopping": "validation", "n_rules": 2},
    # Full trees on all rows predict these rows exactly.
    "ExtraTreesClassifier": {"min_samples_leaf": 9, **_FEW},
    "ExtraTreesRegressor": {"min_samples_leaf": 9, **_FEW},
    "GradientBoostingClassifier": {"n_iter_no_change": 1, **_SAMPLED},
    "GradientBoostingRegressor": _SAMPLED,
    "LinearForestClassifier": {"max_depth": 1, **_FEW},
    "LinearForestRegressor": {"max_depth": 1, **_FEW},
    "LinearTreeClassifier": {"max_features": 1, "max_depth": 2, "pruning": None},
    "LinearTreeRegressor": {"max_features": 1, "max_depth": 2, "pruning": None},
    "ModelAverageClassifier": small_members(ht.ModelAverageClassifier),
    "ModelAverageRegressor": small_members(ht.ModelAverageRegressor),
    "MixtureOfExpertsClassifier": {"n_restarts": 1, "tol": 1e-2},
    "MixtureOfExpertsRegressor": {"n_restarts": 1, "tol": 1e-2},
    "PLGBClassifier": _SAMPLED,
    "PLGBRegressor": _SAMPLED,
    "PastingClassifier": {"precinct_size": 40, **_FEW},
    "PastingRegressor": {"precinct_size": 40, **_FEW},
    # Without held-out entries, which may find that no round helps.
    "ProximityImputer": {"n_rounds": 1, "validation_fraction": None, **_FEW},
    "RERFClassifier": _FEW,
    "RERFRegressor": _FEW,
    "RandomForestClassifier": _FEW,
    "RandomForestRegressor": _FEW,
    "StackingClassifier": small_members(ht.StackingClassifier),
    "StackingRegressor": small_members(ht.StackingRegressor),
    "VotingClassifier": {"voting": "soft", **small_members(ht.VotingClassifier)},
    "VotingRegressor": small_members(ht.VotingRegressor),
    "XGBClassifier": _SAMPLED,
    "XGBRFClassifier": _FEW,
    "XGBRFRegressor": _FEW,
    "XGBRegressor": _SAMPLED,
}


def data(n=120):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 4))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.2 * rng.normal(size=n)
    return X, y


def said(model, X):
    if hasattr(model, "stopping_scores_"):  # rules may be the same, whatever rows are held out
        return model.stopping_scores_
    for method in ("predict_proba", "predict", "transform"):
        if hasattr(model, method):
            result = getattr(model, method)(X)
            return np.asarray(getattr(result, "columns", result), dtype=np.float64)
    raise AssertionError(f"{model} says nothing")


def fitted(name, seed):
    """What an estimator of this seed has learned."""
    X, y = data()
    own = {**DRAWING[name], "random_state": seed}
    target = y > 0 if name.endswith("Classifier") else y
    if name == "ProximityImputer":
        X = np.where(np.arange(X.size).reshape(X.shape) % 11 == 0, np.nan, X)
    model = getattr(ht, name)(**own)
    return said(model.fit(X) if name == "BinMapper" else model.fit(X, target), X)


def importance(seed):
    X, y = data()
    model = ht.CARTRegressor(max_depth=3).fit(X, y)
    result = permutation_importance(model, X, y, n_repeats=2, max_samples=0.5, random_state=seed)
    return result.importances


def oob_importance(seed):
    X, y = data()
    forest = ht.RandomForestRegressor(5, random_state=0, keep_rows=True).fit(X, y)
    return forest.oob_permutation_importance(X, y, random_state=seed).importances


def pruned(seed):
    X, y = data()
    model = ht.CARTRegressor(ccp_alpha="cv", cv=3, random_state=seed).fit(X, y)
    return model.cv_scores_


def generated(maker):
    def draw(seed):
        made = maker(60, random_state=seed)
        return np.asarray(made.target, dtype=np.float64)

    return draw


FUNCTIONS = {
    "permutation_importance": importance,
    "oob_permutation_importance": oob_importance,
    "ccp_alpha": pruned,
    "make_house_prices": generated(datasets.make_house_prices),
    "make_seasonal_series": generated(datasets.make_seasonal_series),
}


def test_no_estimator_is_left_out():
    public = {name: getattr(ht, name) for name in ht.__all__}
    drawing = {
        name
        for name, one in public.items()
        if inspect.isclass(one) and "random_state" in inspect.signature(one).parameters
    }
    assert drawing == set(DRAWING)


@pytest.mark.parametrize("what", [*DRAWING, *FUNCTIONS])
def test_a_seed_sequence_is_left_as_it_is(what):
    def draw(seed):
        return FUNCTIONS[what](seed) if what in FUNCTIONS else fitted(what, seed)

    seed = np.random.SeedSequence(11)
    first = draw(seed)
    np.testing.assert_array_equal(draw(seed), first)
    assert seed.n_children_spawned == 0
    np.testing.assert_array_equal(draw(np.random.SeedSequence(11)), first)
    # Children of one sequence are seeds of their own, and so are other numbers.
    one, other = (draw(child) for child in seed.spawn(2))
    assert not np.array_equal(one, other) and not np.array_equal(one, first)
