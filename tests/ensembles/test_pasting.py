"""Pasting small votes: against a slow simulation, draw probabilities, tables on disk."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from pasting_oracle import simulate, walk

import hybridtrees as ht
from hybridtrees.core.tree.packed import PackedTrees
from hybridtrees.ensembles import pasting
from hybridtrees.ensembles.pasting_loop import (
    MOST_CANDIDATES,
    Draws,
    Rule,
    draw_precinct,
    no_longer_falls,
)


def make_table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=n)
    return X, y, np.digitize(y, [-0.5, 0.7])


@pytest.fixture
def pasted(monkeypatch):
    """Collect what `paste` returns: the estimators do not keep the precincts."""
    results = []

    def keep(*given):
        results.append((given, original(*given)))
        return results[-1][1]

    original = pasting.paste
    monkeypatch.setattr(pasting, "paste", keep)
    return results


CASES = [
    ("Classifier", {"votes": "importance"}, 3),
    ("Classifier", {"votes": "importance"}, 2),
    ("Classifier", {"votes": "importance", "voting": "soft"}, 3),
    ("Classifier", {"votes": "random"}, 2),
    ("Regressor", {"votes": "importance"}, 0),
    ("Regressor", {"votes": "random"}, 0),
]


@pytest.mark.parametrize(("kind", "options", "n_classes"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_rows", [60, 500])
def test_precincts_and_errors_of_the_simulation(kind, options, n_classes, weighted, n_rows, pasted):
    X, y, codes = make_table(n_rows)
    target = y if not n_classes else np.minimum(codes, n_classes - 1)
    weight = np.random.default_rng(1).integers(0, 4, n_rows) * 1.0 if weighted else None
    model = getattr(ht, f"Pasting{kind}")(
        n_estimators=12, precinct_size=40, random_state=0, n_iter_no_change=None, **options
    )
    model.fit(X, target, weight)
    (_, draws, votes), found = pasted[0]

    def grow(rows, counts, seed):
        weights = None if np.all(counts == 1) else counts * 1.0
        part = target[rows].astype(np.int32 if n_classes else np.float64)
        return votes._recipe.grow(X[rows], part, weights, seed).tree

    importance, hard = options["votes"] == "importance", model.get_params().get("voting") != "soft"
    with np.errstate(invalid="ignore"):
        precincts, curve = simulate(
            X, target, draws, n_members=12, size=40, importance=importance, grow=grow,
            n_classes=n_classes, hard=hard,
        )  # fmt: skip
    for one, other in zip(found.precincts, precincts, strict=True):
        assert np.array_equal(one, other)
    assert np.allclose(model.oob_curve_, curve, rtol=1e-12)
    if weighted:
        assert np.all(weight[np.concatenate(found.precincts)] > 0)


def test_trees_are_grown_on_their_precincts(pasted):
    for cls, X, target in kinds():
        model = cls(n_estimators=8, precinct_size=100, random_state=0).fit(X, target)
        precincts = pasted[-1][1].precincts
        assert len({tuple(rows) for rows in precincts}) == 8
        for tree, rows in zip(model.trees_, precincts, strict=True):
            assert tree.nodes["n_samples"][0] == len(set(rows))
            assert tree.nodes["weight"][0] == len(rows) == 100
            leaves = np.array([walk(tree, X[row]) for row in rows])
            for leaf in set(leaves):
                own = target[rows[leaves == leaf]]
                mean = np.mean(own) if cls is ht.PastingRegressor else np.bincount(own, minlength=3)
                shares = mean if cls is ht.PastingRegressor else mean / len(own)
                assert np.allclose(tree.values[leaf], shares)


class FixedVotes:
    """Votes of members that are wrong about the same rows for ever."""

    def __init__(self, loss):
        self.loss = loss
        self.n_judged = 0

    def losses(self, member, rows):
        self.n_judged += len(rows)
        return self.loss[rows], np.ones(len(rows), dtype=bool)


def test_draw_probabilities():
    """Wrong rows are always taken, right ones by e / (1 - e): half of a precinct is wrong."""
    n_rows, share, size = 4000, 0.1, 20_000
    loss = (np.arange(n_rows) < share * n_rows).astype(float)
    draws = Draws(np.random.SeedSequence(0), n_rows)
    drawn = draw_precinct(draws, 1, size, Rule(True, False), FixedVotes(loss), share)
    wrong = loss[drawn.rows].mean()
    assert abs(wrong - 0.5) < 4 * np.sqrt(0.25 / size)
    assert abs(drawn.loss - share) < 4 * np.sqrt(share * (1 - share) * 2 * share / size)
    # Within each kind all rows are equally likely.
    for kind in (0.0, 1.0):
        counts = np.bincount(drawn.rows, minlength=n_rows)[loss == kind]
        assert abs(np.var(counts) / np.mean(counts) - 1) < 5 * np.sqrt(2 / len(counts))
    # In proportion to the weights.
    weight = np.where(np.arange(n_rows) % 2, 3.0, 1.0)
    heavy = Draws(np.random.SeedSequence(0), n_rows, weight)
    rows = draw_precinct(heavy, 1, size, Rule(False, False), FixedVotes(loss), None).rows
    assert abs(np.mean(rows % 2) - 0.75) < 4 * np.sqrt(0.75 * 0.25 / size)


def test_probabilities_of_regression():
    loss = np.repeat([0.0, 1.0, 2.0, 9.0], 1000)
    draws = Draws(np.random.SeedSequence(1), len(loss))
    rows = draw_precinct(draws, 1, 30_000, Rule(True, True), FixedVotes(loss), 1.0).rows
    share = np.bincount(rows // 1000) / len(rows)
    expected = np.array([0.25, 0.5, 0.75, 1.0]) / 2.5
    assert np.all(np.abs(share - expected) < 4 * np.sqrt(0.25 / len(rows)))


def test_the_search_for_wrong_rows_ends():
    draws = Draws(np.random.SeedSequence(0), 1000)
    votes = FixedVotes(np.zeros(1000))
    drawn = draw_precinct(draws, 1, 50, Rule(True, False), votes, 0.0)
    assert len(drawn.rows) == 50 and drawn.loss == 0.0
    assert votes.n_judged <= (MOST_CANDIDATES + 16) * 50
    assert np.array_equal(
        drawn.rows, draws.rows(1, MOST_CANDIDATES * 50, MOST_CANDIDATES * 50 + 50)
    )


def test_draws_do_not_depend_on_blocks():
    for weight in (None, np.arange(100.0)):
        draws = Draws(np.random.SeedSequence(3), 100, weight)
        for name in ("rows", "chances"):
            whole = getattr(draws, name)(2, 0, 50)
            parts = [getattr(draws, name)(2, k, k + 10) for k in range(0, 50, 10)]
            assert np.array_equal(whole, np.concatenate(parts))


def test_stopping():
    falling = list(np.linspace(1.0, 0.1, 30))
    assert not no_longer_falls(falling, 5, 0.0)
    assert not no_longer_falls([*falling, *[0.1] * 4], 5, 0.0)
    assert no_longer_falls([*falling, *[0.1] * 5], 5, 0.0)
    assert no_longer_falls(falling, 5, 0.9) and not no_longer_falls([0.5] * 9, None, 0.0)
    assert not no_longer_falls([np.nan] * 9, 5, 0.0)
    X, _, codes = make_table(2000)
    model = ht.PastingClassifier(n_estimators=500, precinct_size=50, n_iter_no_change=5)
    model.set_params(random_state=0).fit(X, codes)
    assert model.n_estimators_ < 500 and len(model.oob_curve_) == model.n_estimators_
    curve = model.oob_curve_
    assert curve[-5:].min() >= curve[:-5].min()


def test_kernel_against_single_trees():
    """`add_outside` with trees that hold rows and rows that have seen some trees."""
    X, _, codes = make_table(300)
    X[::5, 1] = np.nan
    for target in (codes, codes > 0):
        forest = ht.RandomForestClassifier(9, random_state=0).fit(X, target)
        trees: PackedTrees = forest.trees_
        rng = np.random.default_rng(0)
        holds = rng.random((300, 9)) < 0.3
        first = rng.integers(0, 10, 300).astype(np.int32)
        start = np.concatenate([[0], np.cumsum(holds.sum(axis=1))]).astype(np.int64)
        held = np.nonzero(holds)[1].astype(np.int32)
        for votes in (False, True):
            raw, counts = np.zeros((300, trees.n_values)), np.zeros(300, dtype=np.int32)
            trees.add_outside(X, (start, held), first, raw, counts, 2, votes)
            expected = np.zeros_like(raw)
            for k in range(9):
                own = np.zeros_like(raw)
                trees.add_raw(X, own, 1, k, k + 1, votes=votes)
                expected += np.where((~holds[:, k] & (first <= k))[:, None], own, 0.0)
            assert np.array_equal(raw, expected)
            assert np.array_equal(counts, (~holds & (first[:, None] <= np.arange(9))).sum(axis=1))


def kinds():
    X, y, codes = make_table(3000)
    return [(ht.PastingClassifier, X, codes), (ht.PastingRegressor, X, y)]


@pytest.mark.parametrize("votes", ["importance", "random"])
def test_tables_on_disk_and_batches_give_the_same_model(votes, tmp_path):
    cuts = [0, 7, 1000, 1001, 3000]
    for cls, X, target in kinds():
        weight = np.random.default_rng(0).integers(0, 3, len(X)) * 1.0
        new = cls(
            n_estimators=25, precinct_size=60, votes=votes, n_iter_no_change=None, random_state=2
        )
        for given in ([], [weight]):
            table = pickle.loads(pickle.dumps(new)).fit(X, target, *given)
            np.save(tmp_path / "X.npy", X)
            mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
            maps = pickle.loads(pickle.dumps(new)).fit(mapped, target, *given)

            def batches(X=X, target=target, given=given):
                for first, last in zip(cuts, cuts[1:], strict=False):
                    yield X[first:last], target[first:last], *(w[first:last] for w in given)

            listed = pickle.loads(pickle.dumps(new)).fit_batches(list(batches()))
            called = pickle.loads(pickle.dumps(new)).fit_batches(batches)
            for other in (maps, listed, called):
                assert np.array_equal(table.oob_curve_, other.oob_curve_)
                assert np.array_equal(table.trees_.nodes, other.trees_.nodes)
                assert np.array_equal(table.predict(X), other.predict(X))
                assert np.array_equal(table.feature_importances_, other.feature_importances_)


@pytest.mark.parametrize("votes", ["importance", "random"])
def test_any_number_of_threads(votes):
    for cls, X, target in kinds():
        one, three = (
            cls(n_estimators=15, precinct_size=300, votes=votes, random_state=0, n_jobs=n).fit(
                X, target
            )
            for n in (1, 3)
        )
        assert np.array_equal(one.trees_.nodes, three.trees_.nodes)
        assert np.array_equal(one.oob_curve_, three.oob_curve_)


@pytest.mark.peer
def test_better_than_random_votes_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.ensemble")
    X, _, codes = make_table(8000)
    half = slice(0, 4000), slice(4000, None)
    model = ht.PastingClassifier(
        n_estimators=100, precinct_size=200, n_iter_no_change=None, random_state=0
    )
    ours = model.fit(X[half[0]], codes[half[0]]).score(X[half[1]], codes[half[1]])
    theirs = sklearn.BaggingClassifier(n_estimators=100, max_samples=200, random_state=0)
    assert ours > theirs.fit(X[half[0]], codes[half[0]]).score(X[half[1]], codes[half[1]]) + 0.01
    # The running estimate is close to the error on new rows.
    assert abs(model.oob_curve_[-1] - (1 - ours)) < 0.03
