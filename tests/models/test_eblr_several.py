"""Targets of several columns in EBLR."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees import EBLRRegressor, load

N = 300


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((N, 4))
    X[rng.random(X.shape) < 0.03] = np.nan
    Z = np.nan_to_num(X)
    Y = np.column_stack(
        [
            Z[:, 0] + 4 * (Z[:, 1] > 0.5) + 2 * ((Z[:, 1] > 0.5) & (Z[:, 2] > 0)),
            2 * Z[:, 3],
            Z[:, 2] - 3 * (Z[:, 0] < -0.5),
        ]
    )
    return X, Y + 0.2 * rng.standard_normal(Y.shape), rng.exponential(size=N)


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"penalty": "lasso", "alpha": "cv", "missing_indicator": True},
        {"early_stopping": "bic", "n_rules": 20},
        {"early_stopping": "validation", "n_rules": 20},
        {"residual": "absolute", "fit_intercept": False, "max_depth": [1, 2]},
    ],
    ids=["plain", "cv", "bic", "validation", "absolute"],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_one_model_per_target(own, weighted, table):
    X, Y, weight = table
    weight = weight if weighted else None
    own = {"n_rules": 6, "random_state": 0, "n_jobs": 1, **own}
    model = EBLRRegressor(**own).fit(X, Y, weight)
    alone = [EBLRRegressor(**own).fit(X, Y[:, k].copy(), weight) for k in range(3)]
    expected = np.column_stack([one.predict(X) for one in alone])
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-9, atol=1e-12)
    # An output that has no more rules stays where it is.
    stages = [list(one.staged_predict(X)) for one in alone]
    found = list(model.staged_predict(X))
    assert len(found) == max(map(len, stages))
    for s, stage in enumerate(found):
        single = np.column_stack([each[min(s, len(each) - 1)] for each in stages])
        np.testing.assert_allclose(stage, single, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.coef_, [one.coef_ for one in alone])
    np.testing.assert_allclose(model.intercept_, [one.intercept_ for one in alone], atol=1e-12)
    np.testing.assert_allclose(model.alpha_, [one.alpha_ for one in alone])
    for k, one in enumerate(alone):
        rules = [rule for rule in model.rules_ if rule.target == k]
        assert len(rules) == one.n_rules_
        for rule, other in zip(rules, one.rules_, strict=True):
            assert rule.coef == pytest.approx(other.coef) and rule.support == other.support
            assert rule.gain == pytest.approx(other.gain) and rule.share == other.share
        np.testing.assert_allclose(model.train_losses_[: one.n_rules_ + 1, k], one.train_losses_)
        if "early_stopping" in own:
            np.testing.assert_allclose(model.stopping_scores_[k], one.stopping_scores_)
    assert model.n_rules_ == sum(one.n_rules_ for one in alone) == len(model.rule_names_)
    assert model.score(X, Y) == pytest.approx(
        np.mean([one.score(X, Y[:, k]) for k, one in enumerate(alone)])
    )


def test_columns_and_files(table, tmp_path):
    X, Y, _ = table
    model = EBLRRegressor(n_rules=5).fit(X, Y)
    # A rule of the first target that is a condition on an earlier one of the same target.
    assert any((rule.tree.features >= 4).any() for rule in model.rules_)
    raw = model.transform(X) @ model.term_coef_.T + model.intercept_
    np.testing.assert_allclose(raw, model.predict(X), atol=1e-9)
    assert model.term_coef_.shape == (3, 4 + model.n_rules_)
    model.save(tmp_path / "model.htree")
    again = load(tmp_path / "model.htree")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert [str(rule) for rule in again.rules_] == [str(rule) for rule in model.rules_]


def test_reports(table):
    X, Y, _ = table
    model = EBLRRegressor(n_rules=4).fit(X, Y)
    for k in range(3):
        text, own = model.summary(target=k), [r for r in model.rules_ if r.target == k]
        assert text.startswith(f"y{k} = ") and text.count(" gain ") == len(own)
        assert all(f"[{rule.name}:" in text for rule in own)
    with pytest.raises(ValueError, match="target must be"):
        model.summary(target=3)
    pytest.importorskip("matplotlib")
    ax = model.plot_rules(target=2)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == [rule.coef for rule in model.rules_ if rule.target == 2]


def test_shapes(table):
    X, Y, weight = table
    model = EBLRRegressor(n_rules=3)
    model.fit(X[:200], Y[:200], X_val=X[200:], y_val=Y[200:], sample_weight_val=weight[200:])
    assert model.predict(X).shape == (N, 3)
    with pytest.raises(ValueError, match="y_val must have 3 targets, got 1"):
        model.fit(X, Y, X_val=X, y_val=Y[:, 0])
    vector = model.fit(X, Y[:, 0]).predict(X)  # nothing of the last fit is left
    assert vector.shape == (N,) and model.coef_.shape == (4,)
    np.testing.assert_array_equal(model.fit(X, Y[:, :1]).predict(X), vector)
