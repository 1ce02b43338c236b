"""Weights and classes in what RERF's tuning and EBLR's early stopping set aside."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees import EBLRClassifier, EBLRRegressor, RERFClassifier, RERFRegressor
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.input.folds import make_folds
from hybridtrees.models.eblr.growing import split_rows

GRID = {"max_depth": [1, 4], "alpha": [1.0, 1e-3]}


def make(rng, n=120, classes=0):
    """A table with a target and weights that are neither 0 nor 1, and matter much."""
    X = rng.normal(size=(n, 4))
    y = X[:, 0] + 2.0 * (X[:, 1] > 0) * X[:, 2] + 0.3 * rng.normal(size=n)
    weight = np.where(X[:, 3] > 0, rng.uniform(3.0, 9.0, n), rng.uniform(0.1, 0.4, n))
    y = y + 3.0 * (X[:, 3] > 0) * X[:, 1]
    if classes:
        # The last class is rare.
        y = np.digitize(y, np.quantile(y, [0.5, 0.95][: classes - 1]))
    return X, y, weight


def rerf(make_model=RERFRegressor, **params):
    return make_model(**{"n_estimators": 6, "random_state": 3, "n_jobs": 1, **params})


# -- RERF --------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_folds_train_and_judge_by_weights(rng, classes):
    X, y, weight = make(rng, classes=classes)
    kind = RERFClassifier if classes else RERFRegressor
    truth = np.eye(3)[y] if classes == 3 else y[:, None]
    folds = make_folds(3, len(y), y if classes else None, weight)
    tuned = rerf(kind, tune=GRID, tune_by=folds).fit(X, y, weight)
    assert len(tuned.tune_results_) == 4
    for result in tuned.tune_results_:
        errors = []
        for train, test in folds:
            model = rerf(kind, **result["params"]).fit(X[train], y[train], weight[train])
            squares = (truth[test] - model.predict_raw(X[test])) ** 2
            errors.append(np.average(squares.mean(axis=1), weights=weight[test]))
        assert result["error"] == pytest.approx(np.mean(errors), rel=1e-9)


def test_a_number_of_folds_keeps_weights_and_classes_apart(rng):
    X, y, weight = make(rng, classes=3)
    weight[rng.random(len(y)) < 0.3] = 0.0
    weight[np.flatnonzero(y == 2)[:3]] = 5.0
    folds = make_folds(3, len(y), y, weight, "tune_by")
    for _, test in folds:
        counted = test[weight[test] > 0]
        for k in range(3):
            share = np.count_nonzero((y == k) & (weight > 0)) / 3
            assert abs(np.count_nonzero(y[counted] == k) - share) < 1
    given = rerf(RERFClassifier, tune=GRID, tune_by=folds).fit(X, y, weight)
    counted = rerf(RERFClassifier, tune=GRID, tune_by=3).fit(X, y, weight)
    assert counted.tune_results_ == given.tune_results_
    for codes, w in ((None, weight), (y, None)):
        other = make_folds(3, len(y), codes, w)
        assert any((a[1] != b[1]).any() if len(a[1]) == len(b[1]) else True
                   for a, b in zip(folds, other, strict=True))  # fmt: skip
    target = X[:, 0] + X[:, 1] * X[:, 3]
    folds = make_folds(3, len(y), None, weight)
    given = rerf(tune=GRID, tune_by=folds).fit(X, target, weight)
    assert rerf(tune=GRID, tune_by=3).fit(X, target, weight).tune_results_ == given.tune_results_


def test_bootstraps_of_weights_and_of_repeated_rows_have_the_same_distribution(rng):
    X, y, _ = make(rng, 40)
    weight = rng.integers(0, 4, 40)
    again = np.repeat(np.arange(40), weight)
    shape = {"n_estimators": 500, "max_samples": 40, "min_samples_leaf": 1}
    weighted = rerf(**shape).fit(X, y, weight.astype(float)).predict(X)
    repeated = rerf(**shape).fit(X[again], y[again]).predict(X)
    plain = rerf(**shape).fit(X, y).predict(X)
    assert np.abs(weighted - repeated).mean() < 0.25 * np.abs(weighted - plain).mean()


# -- EBLR --------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_rows_set_aside_judge_by_their_weights(rng, classes):
    X, y, weight = make(rng, 300, classes)
    model = EBLRClassifier if classes else EBLRRegressor
    shared = {"n_rules": 6, "max_depth": 2, "n_iter_no_change": 6, "penalty": "ridge", "n_jobs": 1}
    kept, aside = slice(0, 210), slice(210, 300)
    own = model(
        **shared, early_stopping="validation", validation_split="last", validation_fraction=0.3
    ).fit(X, y, weight)
    validation = {"X_val": X[aside], "y_val": y[aside], "sample_weight_val": weight[aside]}
    given = model(**shared).fit(X[kept], y[kept], weight[kept], **validation)
    assert len(own.stopping_scores_) == 7
    np.testing.assert_allclose(own.stopping_scores_, given.stopping_scores_, rtol=1e-6)
    assert own.n_rules_ == given.n_rules_
    # By hand as well: the weighted loss of each stage on the rows set aside.
    if not classes:
        whole = model(**shared).fit(X[kept], y[kept], weight[kept])
        for k, said in enumerate(whole.staged_predict(X[aside])):
            loss = np.average((y[aside] - said) ** 2, weights=weight[aside])
            assert own.stopping_scores_[k] == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("split", ["random", "last"])
@pytest.mark.parametrize("model", [EBLRRegressor, EBLRClassifier])
def test_rows_of_no_weight_are_not_set_aside(rng, model, split):
    X, y, weight = make(rng, 300, 2 * (model is EBLRClassifier))
    weight[rng.random(300) < 0.5] = 0.0
    counted = weight > 0
    estimator = model(
        n_rules=5, max_depth=2, early_stopping="validation", validation_split=split,
        penalty="ridge", standardize=False, random_state=1, n_jobs=1,
    )  # fmt: skip
    all_rows = estimator.fit(X, y, weight).stopping_scores_
    some_rows = estimator.fit(X[counted], y[counted], weight[counted]).stopping_scores_
    np.testing.assert_allclose(all_rows, some_rows, rtol=1e-6)


def test_rows_set_aside_keep_the_shares_of_classes(rng):
    X, y, weight = make(rng, 200, classes=3)
    weight[rng.random(200) < 0.2] = 0.0
    shared = {"n_rules": 3, "max_depth": 2, "penalty": "ridge", "alpha": 0.1, "n_jobs": 1}
    for seed in range(3):
        train, val = split_rows(
            200, 0.25, "random", weight, y, np.random.default_rng(seed_sequence(seed))
        )  # fmt: skip
        for k in range(3):
            share = 0.25 * np.count_nonzero((y == k) & (weight > 0))
            assert abs(np.count_nonzero(y[val] == k) - share) <= 1
        own = EBLRClassifier(
            **shared, early_stopping="validation", validation_fraction=0.25, random_state=seed
        ).fit(X, y, weight)
        validation = {"X_val": X[val], "y_val": y[val], "sample_weight_val": weight[val]}
        given = EBLRClassifier(**shared).fit(X[train], y[train], weight[train], **validation)
        np.testing.assert_allclose(
            own.stopping_scores_[0], given.stopping_scores_[0], rtol=1e-6
        )  # fmt: skip
