"""Sample weights of any size, and draws of features that cannot be split."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees import CARTClassifier, CARTRegressor


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("factor", [2.0**-160, 2.0**-30, 2.0**30, 2.0**160])
@pytest.mark.parametrize(
    "rules", [{}, {"min_weight_fraction_leaf": 0.02}, {"min_impurity_decrease": 1e-3}]
)
def test_a_common_factor_of_the_weights_changes_nothing(splitter, factor, rules, rng):
    X = rng.normal(size=(3000, 3))
    y = X[:, 0] + rng.normal(size=3000)
    w = rng.random(3000) + 0.5
    for model, target in (
        (CARTRegressor(max_depth=6, splitter=splitter, **rules), y),
        (CARTClassifier(max_depth=6, splitter=splitter, **rules), y > 0),
        (CARTClassifier(max_depth=6, splitter=splitter, **rules), np.digitize(y, [-1, 1])),
    ):
        plain = model.fit(X, target, sample_weight=w).tree_
        scaled = model.fit(X, target, sample_weight=w * factor).tree_
        for name in ("feature", "threshold", "left"):
            np.testing.assert_array_equal(plain.nodes[name], scaled.nodes[name])
        np.testing.assert_allclose(plain.nodes["weight"] * factor, scaled.nodes["weight"])
        np.testing.assert_allclose(plain.nodes["gain"] * factor, scaled.nodes["gain"], rtol=1e-9)
        np.testing.assert_allclose(plain.values, scaled.values, rtol=1e-12)
        assert plain.n_leaves > 4


@pytest.mark.parametrize("weight", [1e308, 1e-310])
def test_weights_beyond_reason_are_refused(weight):
    with pytest.raises(ValueError, match="sample_weight must sum to a number from"):
        CARTRegressor().fit(np.eye(4), np.arange(4.0), sample_weight=np.full(4, weight))


def test_a_feature_is_drawn_fairly_where_most_cannot_be_cut(rng):
    # Two of twenty columns vary, and one is a little better: it must not always win.
    X = np.zeros((200, 20))
    X[:, 3], X[:, 11] = rng.normal(size=(2, 200))
    y = X[:, 3] + 0.9 * X[:, 11]
    roots = [
        CARTRegressor(max_features=1, max_depth=1, random_state=seed).fit(X, y).tree_.nodes[0]
        for seed in range(200)
    ]
    shares = np.bincount([root["feature"] for root in roots], minlength=20)
    assert set(np.flatnonzero(shares)) == {3, 11}
    assert 60 < shares[3] < 140
