"""Pasting: other members, files, staged predictions, kinds of tables, hostile input."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees._parameters import clone
from hybridtrees.ensembles.pasting_loop import Draws
from hybridtrees.ensembles.pasting_rows import BatchRows, scan_batches


def make_table(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=n)
    X[::11, 3] = np.nan
    return X, y, np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.7])]


MEMBERS = [
    (ht.PastingRegressor, ht.LinearRegressor(), "random"),
    (ht.PastingRegressor, ht.LinearTreeRegressor(max_depth=1), "importance"),
    (ht.PastingClassifier, ht.LogisticClassifier(), "importance"),
    (ht.PastingClassifier, ht.CARTClassifier(random_state=0, max_depth=3), "importance"),
]


@pytest.mark.parametrize(("cls", "member", "votes"), MEMBERS, ids=lambda v: repr(v)[:40])
def test_other_members(cls, member, votes, tmp_path):
    X, y, labels = make_table()
    target = y if cls is ht.PastingRegressor else labels
    shared = {"n_estimators": 6, "precinct_size": 80, "random_state": 0, "votes": votes}
    for voting in ("hard", "soft") if cls is ht.PastingClassifier else (None,):
        more = {} if voting is None else {"voting": voting}
        model = cls(member, n_jobs=1, **shared, **more).fit(X, target)
        assert len(model.estimators_) == model.n_estimators_ == 6
        if voting == "soft":
            parts = [m.predict_proba(X) for m in model.estimators_]
            assert np.allclose(model.predict_proba(X), np.mean(parts, axis=0))
        elif voting == "hard":
            parts = [m.predict(X)[:, None] == model.classes_ for m in model.estimators_]
            assert np.allclose(model.predict_proba(X), np.mean(parts, axis=0))
        else:
            parts = [m.predict(X) for m in model.estimators_]
            assert np.allclose(model.predict(X), np.mean(parts, axis=0))
        assert model.score(X, target) > 0.7
        with pytest.raises(AttributeError, match="estimators_"):
            _ = model.trees_
        model.save(tmp_path / "model.htree")
        again = ht.load(tmp_path / "model.htree")
        assert np.array_equal(again.predict(X), model.predict(X))
        two = cls(member, n_jobs=2, **shared, **more).fit(X, target)
        assert np.array_equal(two.predict(X), model.predict(X))


def test_parameters_of_the_trees():
    X, y, labels = make_table()
    cart = ht.CARTClassifier(max_depth=2, class_weight="balanced", criterion="entropy")
    model = ht.PastingClassifier(cart, 8, precinct_size=60, random_state=0).fit(X, labels)
    assert max(tree.depth for tree in model.trees_) <= 2
    pruned, full = (
        ht.PastingRegressor(ht.CARTRegressor(ccp_alpha=a), 4, random_state=0).fit(X, y)
        for a in (0.05, 0.0)
    )
    assert len(pruned.trees_.nodes) < len(full.trees_.nodes) / 2
    steep = ht.PastingRegressor(
        ht.CARTRegressor(monotonic_cst=[1, 0, 0, 0, 0]), 5, precinct_size=200, random_state=0
    ).fit(X, y)
    grid = np.zeros((50, 5))
    grid[:, 0] = np.linspace(-3, 3, 50)
    assert np.all(np.diff(steep.predict(grid)) >= 0)
    parts = steep.estimators_
    assert np.allclose(np.mean([m.predict(X) for m in parts], axis=0), steep.predict(X))
    total = np.mean([m.feature_importances_ for m in parts], axis=0)
    assert np.allclose(total, steep.feature_importances_, rtol=1e-5)
    assert all(len(m.trees_) == 1 for m in parts)
    nested = clone(model).set_params(estimator__max_depth=1)
    assert nested.get_params()["estimator__max_depth"] == 1


def test_staged_predictions_and_files(tmp_path):
    X, y, labels = make_table()
    for cls, target in ((ht.PastingRegressor, y), (ht.PastingClassifier, labels)):
        model = cls(n_estimators=7, precinct_size=90, random_state=1).fit(X, target)
        stages = list(model.staged_predict(X))
        assert len(stages) == 7 and np.array_equal(stages[-1], model.predict(X))
        fewer = cls(n_estimators=3, precinct_size=90, random_state=1).fit(X, target)
        assert np.array_equal(fewer.predict(X), stages[2])
        assert np.array_equal(fewer.oob_curve_, model.oob_curve_[:3])
        model.save(tmp_path / "model.htree")
        for again in (ht.load(tmp_path / "model.htree"), pickle.loads(pickle.dumps(model))):
            assert np.array_equal(again.predict(X), stages[-1])
            assert np.array_equal(again.oob_curve_, model.oob_curve_)
    proba = list(model.staged_predict_proba(X))
    assert np.array_equal(proba[-1], model.predict_proba(X))


def test_kinds_of_tables():
    from scipy import sparse

    pandas = pytest.importorskip("pandas")
    X, y, labels = make_table()
    X = np.nan_to_num(X)
    X[np.abs(X) < 0.6] = 0
    shared = {"n_estimators": 6, "precinct_size": 90, "random_state": 1}
    plain = ht.PastingClassifier(**shared).fit(X, labels)
    for table in (sparse.csr_array(X), sparse.csc_array(X), np.asfortranarray(X), X.tolist()):
        again = ht.PastingClassifier(**shared).fit(table, labels)
        assert np.array_equal(again.predict_proba(table), plain.predict_proba(X))
    narrow = X.astype(np.float32)
    batches = [(sparse.csr_array(narrow[:200]), labels[:200]), (narrow[200:], labels[200:])]
    one, two = (
        ht.PastingClassifier(**shared).fit_batches(batches),
        ht.PastingClassifier(**shared).fit(narrow, labels),
    )
    assert np.array_equal(one.predict_proba(X), two.predict_proba(X))
    colour = np.random.default_rng(0).choice(["red", "green", "blue"], len(y))
    frame = pandas.DataFrame({"colour": colour, "size": X[:, 0]})
    model = ht.PastingRegressor(**shared).fit(frame, (colour == "red") * 3.0)
    assert model.score(frame, (colour == "red") * 3.0) > 0.95
    assert list(model.feature_names_in_) == ["colour", "size"]
    with pytest.raises(ValueError, match="column 'colour' holds categories"):
        model.fit_batches([(frame, y)])
    numbers = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    named = ht.PastingRegressor(**shared).fit_batches([(numbers[:300], y[:300])] * 2)
    assert list(named.feature_names_in_) == ["a", "b"]
    with pytest.raises(ValueError, match="feature names should match"):
        named.predict(numbers.rename(columns={"a": "z"}))


def test_few_passes_over_batches():
    X, y, _ = make_table(4000)
    batches = [(X[k : k + 1000], y[k : k + 1000]) for k in range(0, 4000, 1000)]
    info = scan_batches(batches, ht.PastingRegressor())
    draws = Draws(np.random.SeedSequence(0), info.n_rows)
    draws.expected = 100
    rows = BatchRows(batches, info, draws.ahead, 50)
    for member in range(32):
        wanted = np.unique(draws.rows(member, 0, 100))
        values, target = rows.take(member, wanted)
        assert np.array_equal(values, X[wanted], equal_nan=True)
        assert np.array_equal(target, y[wanted])
    assert rows.n_passes == 1
    rows.take(0, np.arange(2000, 2100))
    assert rows.n_passes == 2


def test_hostile_batches():
    X, y, labels = make_table(100)
    model = ht.PastingRegressor(n_estimators=3, precinct_size=20, random_state=0)
    cases = [
        (iter([(X, y)]), TypeError, "readable more than once"),
        ((pair for pair in [(X, y)]), TypeError, "readable more than once"),
        ([], ValueError, "at least one batch"),
        ([X], ValueError, "each of the batches must be a pair"),
        ([(X, y, None, None)], ValueError, "pair"),
        ([(X, y), (X[:, :3], y)], ValueError, "X has 3 features"),
        ([(X, y), (X, y, np.ones(100))], ValueError, "all batches or with none"),
        ([(X, y, np.ones(99))], ValueError, "one entry for each of the 100 rows"),
        ([(X, y, np.zeros(100))], ValueError, "zero for every row"),
        ([(X, y, -np.ones(100))], ValueError, "negative"),
        ([(X, np.full(100, np.nan))], ValueError, "NaN"),
        ([(X, y[:50])], ValueError, "100"),
        (3, TypeError, "iter"),
    ]
    for batches, error, message in cases:
        with pytest.raises(error, match=message):
            model.fit_batches(batches)
        assert not model.__sklearn_is_fitted__()
    sizes = iter([100, 90, 90, 90])

    def shrinking():
        n = next(sizes)
        yield X[:n], y[:n]

    with pytest.raises(ValueError, match="the same rows whenever they are read"):
        model.fit_batches(shrinking)
    infinite = X.copy()
    infinite[:] = np.inf
    with pytest.raises(ValueError, match="infin"):
        model.fit_batches([(infinite, y)])
    with pytest.raises(ValueError, match="fit_batches needs a CART tree"):
        ht.PastingRegressor(ht.LinearRegressor()).fit_batches([(X, y)])
    with pytest.raises(ValueError, match="categorical_features"):
        ht.PastingRegressor(ht.CARTRegressor(categorical_features=[0])).fit_batches([(X, y)])
    some = ht.PastingClassifier(n_estimators=3, precinct_size=20, random_state=0)
    some.fit_batches([(X[labels == "a"], labels[labels == "a"]), (X, labels)])
    assert list(some.classes_) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_estimators": 0}, ValueError, "n_estimators must be an integer in [1"),
        ({"precinct_size": 0}, ValueError, "precinct_size"),
        ({"precinct_size": 0.5}, TypeError, "precinct_size"),
        ({"votes": "all"}, ValueError, "votes must be one of 'importance', 'random'"),
        ({"smoothing": 1.0}, ValueError, "smoothing must be a real number in [0, 1)"),
        ({"n_iter_no_change": 0}, ValueError, "n_iter_no_change"),
        ({"tol": -1}, ValueError, "tol"),
        ({"voting": "loud"}, ValueError, "voting must be one of"),
        ({"estimator": ht.LinearRegressor()}, TypeError, "must be a classifier"),
        ({"estimator": ht.CARTClassifier(max_depth=0)}, ValueError, "max_depth"),
        ({"n_jobs": 0}, ValueError, "n_jobs"),
        ({"verbose": -2}, ValueError, "verbose"),
        ({"random_state": "x"}, TypeError, "random_state"),
    ],
)
def test_hostile_parameters(options, error, message):
    X, _, labels = make_table(50)
    model = ht.PastingClassifier(**options)
    with pytest.raises(error, match=re.escape(message)):
        model.fit(X, labels)
    assert not model.__sklearn_is_fitted__()


def test_small_tables():
    """Precincts that hold every row have no out-of-bag votes."""
    for n in (1, 2, 5):
        X, y, labels = make_table(n)
        model = ht.PastingRegressor(n_estimators=30, random_state=0).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        for votes in ("importance", "random"):
            some = ht.PastingClassifier(n_estimators=5, votes=votes, random_state=0)
            assert set(some.fit(X, labels).predict(X)) <= set(labels)
    one = ht.PastingClassifier(n_estimators=3, random_state=0).fit(X, ["a"] * 5)
    assert one.predict_proba(X).shape == (5, 1) and list(one.predict(X)) == ["a"] * 5
    same = ht.PastingRegressor(n_estimators=3, votes="importance").fit(X, np.ones(5))
    assert np.array_equal(same.predict(X), np.ones(5))


def test_progress(capsys):
    X, y, _ = make_table()
    ht.PastingRegressor(n_estimators=6, verbose=3).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:8] for line in lines] == ["[3]  oob", "[6]  oob"]


def test_members_that_are_no_trees_have_no_form():
    X, _, labels = make_table()
    member = ht.LogisticClassifier()
    model = ht.PastingClassifier(estimator=member, n_estimators=2, random_state=0).fit(X, labels)
    for export in (model.compile, model.to_c, model.to_json):
        with pytest.raises(TypeError, match="members of this PastingClassifier are not CART trees"):
            export()
