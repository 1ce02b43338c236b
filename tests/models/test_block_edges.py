"""Kernels work in blocks of rows: the last one, whole or not, counts like the others."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees import (
    CARTRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    PLGBRegressor,
    XGBRegressor,
)

BLOCK = 4096
EDGES = [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1]


def problem(n, p=3):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, p))
    X[rng.random(X.shape) < 0.05] = np.nan
    filled = np.nan_to_num(X)
    return X, filled[:, 0] * filled[:, 1] + filled[:, 2] + 0.1 * rng.normal(size=n)


class Squares:
    """Squared error that keeps the raw scores it was asked at."""

    def __init__(self):
        self.seen = []

    def __call__(self, y_true, y_pred):
        self.seen.append(y_pred)
        return y_pred - y_true, np.ones(len(y_true))


# A tree grown on a sample adds to the scores of the other rows too: by codes of bins, by values, by
# the lines of its leaves.
@pytest.mark.parametrize("subsample", [1.0, 0.4])
@pytest.mark.parametrize(
    ("family", "own"),
    [
        (XGBRegressor, {"tree_method": "hist"}),
        (XGBRegressor, {"tree_method": "approx"}),
        (XGBRegressor, {"tree_method": "exact"}),
        (PLGBRegressor, {}),
    ],
    ids=["hist", "approx", "exact", "plgb"],
)
def test_newton_steps_see_what_the_model_predicts(family, own, subsample):
    for n in EDGES:
        X, y = problem(n)
        objective = Squares()
        model = family(
            objective=objective, n_estimators=3, subsample=subsample, random_state=0, n_jobs=2,
            **own,
        ).fit(X, y)  # fmt: skip
        assert len(objective.seen) == 3
        for k in (1, 2):
            expected = model.predict_raw(X, iteration_range=(0, k))[:, 0]
            np.testing.assert_allclose(objective.seen[k], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("subsample", [1.0, 0.4])
@pytest.mark.parametrize("n", EDGES)
def test_friedman_steps_see_what_the_model_predicts(n, subsample, splitter):
    X, y = problem(n)
    seen = []

    def keep(round_, estimator, state):
        seen.append(state["raw_predictions"].copy())

    shared = {"n_estimators": 2, "subsample": subsample, "random_state": 0, "splitter": splitter}
    model = GradientBoostingRegressor(**shared).fit(X, y, monitor=keep)
    np.testing.assert_allclose(seen[-1], model.predict_raw(X), rtol=1e-9, atol=1e-9)
    classifier = GradientBoostingClassifier(**shared).fit(X, np.digitize(y, [-1, 1]), monitor=keep)
    np.testing.assert_allclose(seen[-1], classifier.predict_raw(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("n", [BLOCK + 1, 2**16 - 1, 2**16, 2**16 + 1])
def test_the_last_row_counts(n, splitter):
    # It alone differs, and a leaf of its own is all that there is to gain.
    X, y = np.zeros((n, 2)), np.zeros(n)
    X[-1, 1], y[-1] = 1.0, 1.0
    model = CARTRegressor(splitter=splitter, n_jobs=2).fit(X, y)
    assert model.get_n_leaves() == 2
    np.testing.assert_array_equal(model.predict(X[-3:]), [0, 0, 1])
    assert model.tree_.nodes["n_samples"].tolist() == [n, n - 1, 1]
