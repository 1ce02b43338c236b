"""Forests score as scikit-learn's do: out of the bag and on new rows, over many seeds."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees.models.forest import estimators as forest
from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor

ensemble = pytest.importorskip("sklearn.ensemble")
pytestmark = pytest.mark.peer

N_SEEDS = 20
N_TRAIN = 250


def friedman_rows(seed):
    """Friedman's first function of ten columns, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(N_TRAIN + 400, 10)).astype(np.float32)
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    y = y + 10 * X[:, 3] + 5 * X[:, 4] + 2 * rng.normal(size=len(X))
    return X, y


def tied_rows(seed):
    """The same with skewed columns of few values."""
    X, y = friedman_rows(seed)
    return np.floor(np.exp(3 * X)), y


def scores(make, classes, table=friedman_rows):
    """Out-of-bag score and test score for every seed, (n_seeds, 2)."""
    found = []
    for seed in range(N_SEEDS):
        X, y = table(seed)
        if classes:
            y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
        model = make(seed).fit(X[:N_TRAIN], y[:N_TRAIN])
        found.append([model.oob_score_, model.score(X[N_TRAIN:], y[N_TRAIN:])])
    return np.array(found)


def assert_alike(mine, theirs):
    """Paired by data, so that only the spread over draws remains: no more than chance apart."""
    gap = mine - theirs
    error = gap.std(axis=0, ddof=1) / np.sqrt(N_SEEDS)
    assert np.all(np.abs(gap.mean(axis=0)) < 4 * error + 1e-12), (gap.mean(axis=0), error)
    # And not because the spread is so large that anything would pass.
    assert np.all(4 * error < 0.035)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_regression(splitter):
    common = {"oob_score": True, "max_features": 1 / 3, "n_jobs": 1}
    mine = scores(
        lambda seed: RandomForestRegressor(
            40, splitter=splitter, min_samples_leaf=1, random_state=seed, **common
        ),
        0,
    )
    theirs = scores(lambda seed: ensemble.RandomForestRegressor(40, random_state=seed, **common), 0)
    assert_alike(mine, theirs)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("n_classes", [0, 2])
def test_shallow_trees_of_tied_columns(splitter, n_classes):
    common = {"oob_score": True, "max_depth": 4, "n_jobs": 1}
    name = "RandomForestClassifier" if n_classes else "RandomForestRegressor"
    features = "sqrt" if n_classes else 1.0
    mine, theirs = (
        scores(
            lambda seed, module=module, own=own: getattr(module, name)(
                30, random_state=seed, max_features=features, **common, **own
            ),
            n_classes,
            tied_rows,
        )
        for module, own in ((forest, {"splitter": splitter, "min_samples_leaf": 1}), (ensemble, {}))
    )
    assert_alike(mine, theirs)


@pytest.mark.parametrize(("n_classes", "splitter"), [(2, "hist"), (2, "exact"), (3, "hist")])
def test_classification(n_classes, splitter):
    common = {"oob_score": True, "n_jobs": 1}
    mine = scores(
        lambda seed: RandomForestClassifier(40, splitter=splitter, random_state=seed, **common),
        n_classes,
    )
    theirs = scores(
        lambda seed: ensemble.RandomForestClassifier(40, random_state=seed, **common), n_classes
    )
    assert_alike(mine, theirs)


def test_impurity_importance():
    X, y = friedman_rows(0)
    common = {"max_features": 1 / 3, "n_jobs": 1}
    mine = RandomForestRegressor(150, min_samples_leaf=1, random_state=0, **common).fit(X, y)
    theirs = ensemble.RandomForestRegressor(150, random_state=0, **common).fit(X, y)
    np.testing.assert_allclose(mine.feature_importances_, theirs.feature_importances_, atol=0.02)


def test_the_same_tree_without_draws():
    X, y = friedman_rows(1)
    common = {"bootstrap": False, "max_features": None, "n_jobs": 1}
    mine = RandomForestRegressor(
        1, splitter="exact", min_samples_leaf=1, random_state=0, **common
    ).fit(X, y)
    theirs = ensemble.RandomForestRegressor(1, random_state=0, **common).fit(X, y)
    np.testing.assert_allclose(mine.predict(X), theirs.predict(X), rtol=1e-9)
    assert mine.trees_[0].n_nodes == theirs.estimators_[0].tree_.node_count
