"""AutoRegressor and AutoClassifier: what is chosen, by which rows, and how it predicts."""

import warnings

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees.auto.audition import Table
from hybridtrees.auto.estimators import deal_out
from hybridtrees.auto.plan import learning_rate, make_plan
from hybridtrees.uncertainty.calibration import find_temperature, heated


def problem(n=200, seed=0, n_features=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    y = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + (X[:, 2] > 0) + 0.3 * rng.normal(size=n)
    return X, y


def test_it_beats_each_of_its_candidates_on_new_rows():
    X, y = problem(600)
    model = ht.AutoRegressor(quality=2, random_state=0).fit(X[:400], y[:400])
    rivals = [ht.LinearRegressor(), ht.RandomForestRegressor(50, random_state=0)]
    own = np.mean((model.predict(X[400:]) - y[400:]) ** 2)
    for rival in rivals:
        assert own < np.mean((rival.fit(X[:400], y[:400]).predict(X[400:]) - y[400:]) ** 2)


def test_a_linear_target_is_given_to_the_linear_model():
    X, _ = problem(400)
    y = X @ [1.0, -2.0, 0.5, 3.0, 0.0] + 0.5 * np.random.default_rng(1).normal(size=400)
    model = ht.AutoRegressor(quality=2, random_state=0).fit(X, y)
    record = model._record
    assert record["weights"][record["names"].index("linear")] > 0.5
    assert "linear model" in model.summary().splitlines()[2]


def test_far_candidates_are_dismissed_after_the_first_fold(capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = np.sign(X[:, 0] * X[:, 1]) + 0.05 * rng.normal(size=500)  # nothing for a line
    model = ht.AutoRegressor(quality=2, random_state=0, verbose=1, n_jobs=1).fit(X, y)
    said = capsys.readouterr().out
    assert said.count("[linear]  fold") == 1
    assert "[linear]  dismissed" in said
    assert "linear" not in model._record["names"]


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_a_planted_leak_does_not_help(kind):
    """A column that tells the target of its own row only, as a row number would, is no help.

    Held-out errors must be those of rows that nobody has seen: with a target of pure noise no
    candidate can be better than a constant, however well it remembers its own rows.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 0] = rng.permutation(300)  # every row is known by its number
    y = rng.normal(size=300)
    if kind == "regressor":
        model = ht.AutoRegressor(quality=3, random_state=0).fit(X, y)
        assert model._record["loss"] > 0.93 * y.var()
        assert np.all(np.array(model._record["losses"]) > 0.93 * y.var())
    else:
        model = ht.AutoClassifier(quality=3, random_state=0).fit(X, y > 0)
        assert model._record["loss"] > 0.68


def test_groups_hide_what_a_group_tells():
    """The rows of a group share a target: by rows this looks like skill, by groups it is none."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(40), 10)
    X = np.column_stack([rng.normal(size=40)[group], rng.normal(size=400)])
    y = rng.normal(size=40)[group] + 0.1 * rng.normal(size=400)
    by_rows = ht.AutoRegressor(quality=2, random_state=0).fit(X, y)
    by_groups = ht.AutoRegressor(quality=2, random_state=0).fit(X, y, groups=group)
    assert by_rows._record["loss"] < 0.3 * y.var()
    assert by_groups._record["loss"] > 0.8 * y.var()


@pytest.mark.parametrize("quality", [1, 2, 3, 4, 5])
def test_folds_keep_groups_together_and_time_in_order(quality):
    n = 240
    table = Table(np.zeros((n, 1)), np.arange(float(n)), None)
    group = np.arange(n) % 30
    seed = np.random.SeedSequence(0)
    for train, test in deal_out(make_plan(quality, n, ordered=False), table, group, None, seed):
        assert not np.isin(group[test], group[train]).any()
    time = np.random.default_rng(0).permutation(n) // 2
    folds = deal_out(make_plan(quality, n, ordered=True), table, None, time, seed)
    for train, test in folds:
        assert time[train].max() < time[test].min()
    assert max(time[test].max() for _, test in folds) == time.max()


def test_time_order_refits_to_all_rows():
    X, y = problem(300)
    model = ht.AutoRegressor(quality=2, random_state=0).fit(X, y, time=np.arange(300))
    assert len(model.estimators_) == sum(w > 0 for w in model._record["weights"])
    for member in model.estimators_:
        weight = getattr(member, "trees_", None)
        if weight is not None:
            roots = weight.nodes["weight"][weight.tree_start[:-1]]
            share = member.subsample  # of the rows, drawn for each tree
            assert np.allclose(roots.mean(), 300 * share, rtol=0 if share == 1 else 0.03)


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_any_number_of_threads_gives_the_same_bits(kind):
    X, y = problem(150)
    X[::7, 3] = np.nan
    found = []
    for n_jobs in (1, 2, 3):
        if kind == "regressor":
            model = ht.AutoRegressor(quality=2, random_state=3, n_jobs=n_jobs).fit(X, y)
            found.append(model.predict(X))
        else:
            model = ht.AutoClassifier(random_state=3, n_jobs=n_jobs).fit(X, y > 0)
            found.append(model.predict_proba(X))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_a_weight_of_zero_is_a_row_that_is_not_there():
    X, y = problem(200)
    weight = np.ones(260)
    weight[200:] = 0
    more, noise = np.vstack([X, X[:60]]), np.append(y, 100 + y[:60])
    one = ht.AutoRegressor(quality=2, random_state=0).fit(more, noise, sample_weight=weight)
    other = ht.AutoRegressor(quality=2, random_state=0).fit(X, y, sample_weight=np.ones(200))
    assert np.array_equal(one.predict(X), other.predict(X))


def test_weights_pull_the_model():
    X, y = problem(400)
    target = np.where(np.arange(400) % 2 == 0, y, y + 5)
    heavy = np.where(np.arange(400) % 2 == 0, 1.0, 50.0)
    model = ht.AutoRegressor(quality=1, random_state=0).fit(X, target, sample_weight=heavy)
    assert np.mean(model.predict(X) - y) > 4


def test_time_limit_warns_and_says_so():
    X, y = problem(400)
    with pytest.warns(UserWarning, match="time_limit=1e-06 cut the fit of AutoRegressor short"):
        model = ht.AutoRegressor(random_state=0, time_limit=1e-6).fit(X, y)
    assert "time limit" in model.summary()
    assert np.isfinite(model.predict(X)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ht.AutoRegressor(quality=1, random_state=0, time_limit=1e6).fit(X, y)
    assert "time limit" not in model.summary()
    free = ht.AutoRegressor(quality=1, random_state=0).fit(X, y)
    assert np.array_equal(free.predict(X), model.predict(X))


def test_time_limit_in_time_order():
    X, y = problem(200)
    with pytest.warns(UserWarning, match="cut the fit"):
        model = ht.AutoClassifier(time_limit=1e-6).fit(X, y > 0, time=np.arange(200))
    assert model.predict_proba(X).shape == (200, 2)


def test_save_and_load(tmp_path):
    rng = np.random.default_rng(0)
    X, y = problem(200)
    table = {"a": X[:, 0], "b": X[:, 1], "c": rng.choice(["red", "green", "blue"], 200)}
    table["a"][::9] = np.nan
    y = y + (table["c"] == "red")
    model = ht.AutoClassifier(quality=2, random_state=0).fit(table, np.digitize(y, [0, 2]))
    model.save(tmp_path / "model.htree")
    again = ht.load(tmp_path / "model.htree")
    assert np.array_equal(again.predict_proba(table), model.predict_proba(table))
    assert again.summary() == model.summary()
    assert again.temperature_ == model.temperature_


def test_a_rare_class_has_a_probability():
    X, _ = problem(60)
    labels = np.where(X[:, 0] > 0, "a", "b").astype(object)
    labels[0] = "z"  # one row: no fold can both train and test it
    model = ht.AutoClassifier(quality=2, random_state=0).fit(X, labels)
    proba = model.predict_proba(X)
    assert list(model.classes_) == ["a", "b", "z"]
    assert np.allclose(proba.sum(axis=1), 1)
    assert proba[0, 2] > 0


def test_temperature_is_that_of_a_grid():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(500, 3)) * 2
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    codes = np.array([rng.choice(3, p=row) for row in p])
    sure = heated(p, 0.5)  # twice as sure as the truth
    grid = np.linspace(0.5, 4, 701)
    losses = [-np.log(heated(sure, t)[np.arange(500), codes]).mean() for t in grid]
    assert abs(find_temperature(sure, codes, None) - grid[np.argmin(losses)]) < 0.02
    assert find_temperature(heated(p, 1.02), codes, None) == 1.0  # may be chance
    weight = np.where(np.arange(500) < 400, 1.0, 0.0)
    first = find_temperature(sure[:400], codes[:400], None)
    assert abs(find_temperature(sure, codes, weight) - first) < 1e-6


def test_plans_grow_with_quality_and_depend_on_nothing_else():
    plans = [make_plan(q, 5000, ordered=False) for q in (1, 2, 3, 4, 5)]
    assert all(a.learning_rate > b.learning_rate for a, b in zip(plans, plans[1:], strict=False))
    sets = [set(plan.candidates) for plan in plans]
    assert all(a <= b for a, b in zip(sets, sets[1:], strict=False))
    few = [set(make_plan(q, 1999).candidates) for q in (1, 2, 3, 4, 5)]
    assert all(a <= b for a, b in zip(few, few[1:], strict=False))
    assert "drawn lines" in few[1] and "lines" not in few[2] and few[3:] == sets[3:]
    assert learning_rate(100) < learning_rate(5000) <= learning_rate(10**6) == 0.1
    assert learning_rate(5000, 8) == 0.2


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_names_without_effect_do_not_leak(kind):
    """Many names, and a target of pure noise: new rows are predicted by about the mean."""
    rng = np.random.default_rng(0)
    table = {"name": rng.choice([f"n{k}" for k in range(150)], 900), "x": rng.normal(size=900)}
    new = {name: column[600:] for name, column in table.items()}
    old = {name: column[:600] for name, column in table.items()}
    y = rng.normal(size=900)
    if kind == "regressor":
        model = ht.AutoRegressor(quality=2, random_state=0).fit(old, y[:600])
        assert model._record["loss"] > 0.95 * y[:600].var()
        assert np.mean((model.predict(new) - y[600:]) ** 2) < 1.03 * y[600:].var()
    else:
        model = ht.AutoClassifier(quality=2, random_state=0).fit(old, y[:600] > 0)
        assert model._record["loss"] > 0.68
        right = model.predict_proba(new)[np.arange(300), (y[600:] > 0).astype(int)]
        assert -np.log(right).mean() < 0.71


def test_any_number_of_threads_gives_the_same_bits_with_names():
    rng = np.random.default_rng(0)
    names = rng.integers(0, 60, 400)
    table = {"name": names.astype(str), "x": rng.normal(size=400), "z": rng.normal(size=400)}
    y = rng.normal(size=60)[names] + table["x"] + 0.5 * rng.normal(size=400)
    found = [
        ht.AutoRegressor(quality=2, random_state=0, n_jobs=n_jobs).fit(table, y).predict(table)
        for n_jobs in (1, 3)
    ]
    assert np.array_equal(*found)


@pytest.mark.parametrize("ordered", [False, True])
def test_lines_end_with_their_data_unless_later_rows_judge_them(ordered):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2))
    y = 5 * X[:, 0] * (X[:, 1] > 0.5) + 0.1 * rng.normal(size=300)
    time = {"time": np.arange(300)} if ordered else {}
    model = ht.AutoRegressor(quality=2, random_state=0).fit(X, y, **time)
    lines = [m for m in model.estimators_ if isinstance(m, ht.PLGBRegressor)]
    assert lines
    moved = [np.ptp(m.predict([[1.0, 0.9], [1.3, 0.9]])) for m in lines]
    assert (max(moved) > 0.1) == ordered
