"""Leaves of piece-wise linear boosting as a table, and the lines of robust losses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from hybridtrees import PLGBClassifier, PLGBRegressor


def make(seed=0, n=600):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 4))
    y = np.where(X[:, 0] > 0.2, 2 * X[:, 1], -X[:, 1] + X[:, 2]) + 0.2 * rng.normal(size=n)
    return X, y


def test_the_table_adds_up_to_the_predictions():
    X, y = make()
    model = PLGBRegressor(n_estimators=6, max_leaves=5, extrapolation="linear").fit(X, y)
    table = model.leaf_table()
    assert len(table) == 30
    where = {(t, leaf): i for i, (t, leaf) in
             enumerate(zip(table.trees, table.leaves, strict=True))}  # fmt: skip
    leaves = model.apply(X)
    raw = np.full(len(X), y.mean())
    for tree in range(6):
        at = [where[tree, leaf] for leaf in leaves[:, tree]]
        raw += table.intercept[at] + (table.coef[at].toarray() * X).sum(axis=1)
        assert table.n_samples[table.trees == tree].sum() == len(X)
    np.testing.assert_allclose(raw, model.predict(X), rtol=1e-6, atol=1e-9)
    assert np.isinf(table.low).all()


def test_one_tree_and_its_words():
    pandas = pytest.importorskip("pandas")
    X, y = make(1)
    frame = pandas.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["kind"] = pandas.Categorical(np.where(X[:, 3] > 0, "new", "old"))
    model = PLGBRegressor(n_estimators=3, max_leaves=4).fit(frame, y + 3 * (X[:, 3] > 0))
    last = model.leaf_table(-1)
    assert set(last.trees) == {2}
    text = str(last)
    assert text.count("tree 2, leaf") == len(last) == 4
    every = model.leaf_table()
    assert any("kind in {new}" in path for path in every.paths)
    first = every.to_frame()
    assert list(first.columns[:6]) == ["tree", "leaf", "path", "n_samples", "weight", "intercept"]
    assert "kind" not in first.columns
    assert len(first.columns) > 6
    for name in first.columns[6:]:
        slopes = every.coef[:, ["abc".index(name)]].toarray()[:, 0]
        np.testing.assert_array_equal(first[name], slopes)
    shown = every.equation(0, digits=3)
    assert shown.startswith(f"{every.intercept[0]:.3g}")
    for bad in (3, -4):
        with pytest.raises(ValueError, match="tree_index"):
            model.leaf_table(bad)


def test_classes_and_limits_are_in_the_table():
    X, y = make(2)
    model = PLGBClassifier(n_estimators=2, max_leaves=3).fit(X, np.digitize(y, [-0.5, 0.5]))
    table = model.leaf_table()
    assert table.outputs.tolist() == np.repeat([0, 1, 2, 0, 1, 2], 3).tolist()
    assert "output" in table.to_dict()
    bounded = PLGBRegressor(n_estimators=1, extrapolation="bounded").fit(X, y).leaf_table()
    assert np.isfinite(bounded.low).all()
    assert (bounded.low <= bounded.high).all()
    flat = PLGBRegressor(n_estimators=1, max_leaf_features=0, max_leaves=3).fit(X, y)
    assert flat.leaf_table().coef.nnz == 0
    with pytest.raises(Exception, match="fit"):
        PLGBRegressor().leaf_table()


def pinball(rest, weight, level):
    return (weight * np.where(rest > 0, level * rest, (level - 1) * rest)).sum()


def best_line(columns, y, weight, level):
    """Least weighted pinball loss of a line, by linear programming."""
    n, p = columns.shape
    cost = np.concatenate([np.zeros(p + 1), level * weight, (1 - level) * weight])
    equal = np.hstack([np.ones((n, 1)), columns, np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * (p + 1) + [(0, None)] * (2 * n)
    return linprog(cost, A_eq=equal, b_eq=y, bounds=bounds, method="highs").fun


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("objective", "level"),
    [("reg:absoluteerror", 0.5), ("reg:quantileerror", 0.8), ("reg:quantileerror", 0.1)],
)
def test_lines_of_robust_losses_are_nearly_the_best(objective, level, weighted):
    X, y = make(3, n=400)
    y[::9] += 5  # errors with a long tail, so that the line of squares is another
    weight = np.random.default_rng(4).uniform(0.2, 3, 400) if weighted else np.ones(400)
    model = PLGBRegressor(
        objective=objective, quantile_alpha=level, n_estimators=1, learning_rate=1.0,
        max_leaves=3, reg_lambda=0.0, base_score=0.0, extrapolation="linear",
    ).fit(X, y, sample_weight=weight if weighted else None)  # fmt: skip
    table, leaf_of = model.leaf_table(), model.apply(X)[:, 0]
    assert table.coef.nnz > 0
    rest = y - model.predict(X)
    for i, leaf in enumerate(table.leaves):
        own = leaf_of == leaf
        features = table.coef.indices[table.coef.indptr[i] : table.coef.indptr[i + 1]]
        least = best_line(X[own][:, features], y[own], weight[own], level)
        flat = best_line(X[own][:, :0], y[own], weight[own], level)
        ours = pinball(rest[own], weight[own], level)
        assert least * (1 - 1e-6) <= ours <= 1.02 * least
        assert ours <= flat * (1 + 1e-9)
        # The intercept is the quantile of what the slopes leave, between two rows.
        below = weight[own][rest[own] < -1e-9].sum() / weight[own].sum()
        above = weight[own][rest[own] > 1e-9].sum() / weight[own].sum()
        one_row = weight[own].max() / weight[own].sum()
        assert below <= level + one_row
        assert above <= 1 - level + one_row
