"""EBLR for classification."""

from __future__ import annotations

import numpy as np
import pytest
from eblr_oracle import enrich, hamming, plain_logistic

from hybridtrees.models.eblr.estimators import EBLRClassifier


def planted(rng, n=800, n_classes=2):
    """Classes by a line, but for a corner of the plane where they are turned round."""
    X = rng.standard_normal((n, 3))
    score = 3 * X[:, 0] + rng.logistic(size=n) * 0.2
    corner = (X[:, 1] > 0.8) & (X[:, 2] > 0)
    codes = np.digitize(score, np.linspace(-1.5, 1.5, n_classes + 1)[1:-1])
    return X, np.where(corner, n_classes - 1 - codes, codes), corner


@pytest.mark.parametrize("penalty", [None, "ridge", "lasso"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_warm_started_rounds_equal_refits(rng, penalty, n_classes):
    X, y, _ = planted(rng, n_classes=n_classes)
    y = np.where(rng.random(len(y)) < 0.3, rng.integers(0, n_classes, len(y)), y)
    parameters = {"penalty": penalty, "alpha": 0.005, "tol": 1e-13}
    # Leaves of errors alone would separate the classes, without a penalty.
    tree = {"max_depth": 2, "min_samples_leaf": 80}
    model = EBLRClassifier(n_rules=3, early_stopping=None, n_jobs=1, **tree, **parameters).fit(X, y)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    line = plain_logistic(**parameters)
    columns, line, table = enrich(Z, y, 3, tree, line, hamming)
    np.testing.assert_array_equal(model.transform(X)[:, 3:], columns)
    np.testing.assert_allclose(model.predict_proba(X), line.predict_proba(table), atol=1e-5)
    # A rule found twice has two coefficients, of which an L1 penalty fixes the sum alone.
    effects, expected = columns @ model.term_coef_[:, 3:].T, columns @ line.coef_[:, 3:].T
    np.testing.assert_allclose(effects, expected, atol=2e-4)
    if penalty is None:
        np.testing.assert_allclose(model.term_coef_[:, 3:], line.coef_[:, 3:], atol=2e-4)


@pytest.mark.parametrize("residual", ["hamming", "probability", "deviance"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_planted_corner_is_found(rng, residual, n_classes):
    X, y, corner = planted(rng, n_classes=n_classes)
    # Signed errors of the corner cancel each other until it is divided once more.
    depth = 3 if residual == "probability" else 2
    model = EBLRClassifier(
        n_rules=6, residual=residual, max_depth=depth, early_stopping=None, n_jobs=1
    ).fit(X, y)
    line = plain_logistic().fit(X, y)
    holds = model.transform(X)[:, 3:] == 1
    within = [corner[column].mean() for column in holds.T]
    assert max(within) > 0.9
    assert model.score(X, y) > line.score(X, y)
    assert model.train_losses_[-1] < model.train_losses_[0]


@pytest.mark.parametrize("residual", ["hamming", "probability", "deviance"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_residuals_by_their_definitions(rng, residual, n_classes):
    X, y, _ = planted(rng, n_classes=n_classes)
    model = EBLRClassifier(
        n_rules=1, residual=residual, max_depth=2, early_stopping=None, n_jobs=1
    ).fit(X, y)
    before = next(model.staged_predict_proba(X))
    holds = model.transform(X)[:, -1] == 1
    if residual == "hamming":
        expected = (before.argmax(axis=1) != y)[holds].mean()
    elif residual == "deviance":
        expected = -np.log(before[np.arange(len(y)), y])[holds].mean()
    else:
        expected = (np.eye(n_classes)[y] - before)[holds].mean(axis=0)
        expected = expected[1] if n_classes == 2 else expected
    np.testing.assert_allclose(model.rules_[0].residual, expected, atol=1e-9)


def test_losses_are_log_losses(rng):
    X, y, _ = planted(rng, n_classes=3)
    model = EBLRClassifier(n_rules=2, n_jobs=1).fit(X, y)
    losses = [-np.log(p[np.arange(len(y)), y]).mean() for p in model.staged_predict_proba(X)]
    np.testing.assert_allclose(model.train_losses_, losses, rtol=1e-10)


@pytest.mark.parametrize("how", ["aic", "bic", "validation"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_stopping(rng, how, n_classes):
    X, y, _ = planted(rng, n_classes=n_classes)
    y = np.where(rng.random(len(y)) < 0.2, rng.integers(0, n_classes, len(y)), y)
    model = EBLRClassifier(
        n_rules=12, residual="probability", max_depth=2, early_stopping=how, n_iter_no_change=2,
        random_state=1, n_jobs=1,
    ).fit(X, y)  # fmt: skip
    assert model.n_rules_ == np.argmin(model.stopping_scores_) < 12


def test_labels_and_weights(rng):
    X, y, _ = planted(rng, n=200)
    labels = np.array(["benign", "malign"])[y]
    weight = rng.integers(0, 3, 200)
    rows = np.repeat(np.arange(200), weight)
    weighted = EBLRClassifier(n_rules=2, n_jobs=1, tol=1e-12).fit(X, labels, weight)
    repeated = EBLRClassifier(n_rules=2, n_jobs=1, tol=1e-12).fit(X[rows], labels[rows])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    assert set(weighted.predict(X)) == {"benign", "malign"}
    assert list(weighted.classes_) == ["benign", "malign"]
    with pytest.raises(ValueError, match="needs at least two classes"):
        EBLRClassifier().fit(X, np.ones(200))
    with pytest.raises(ValueError, match="y_val holds the label"):
        EBLRClassifier().fit(X, labels, X_val=X, y_val=np.full(200, "other"))


def test_separated_classes_without_a_penalty_warn():
    X = np.arange(20.0)[:, None]
    from hybridtrees.linear.solvers import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="separated without error|did not converge"):
        model = EBLRClassifier(n_rules=2, penalty=None, n_jobs=1).fit(X, X[:, 0] > 9)
    assert model.score(X, X[:, 0] > 9) == 1.0
    assert model.n_rules_ == 0  # no row is in error: nothing to be split


def test_many_columns_and_classes(rng):
    X = rng.standard_normal((80, 200))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = EBLRClassifier(n_rules=1, penalty="ridge", alpha=0.1, n_jobs=1).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(80))


def test_alpha_by_cross_validation(rng):
    X, y, _ = planted(rng, n=200)
    model = EBLRClassifier(n_rules=1, alpha="cv", cv=3, n_jobs=1).fit(X, y)
    chosen = plain_logistic(alpha="cv", cv=3).set_params(standardize=True).fit(X, y)
    assert model.alpha_ == chosen.alpha_
