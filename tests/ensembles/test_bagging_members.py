"""Bagging of any model: shared bins, foreign members, the committee's variance, hostile input."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees._parameters import clone
from hybridtrees.core.bins import shared
from hybridtrees.ensembles import bagging_base


def make_table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = X[:, 0] + X[:, 1] ** 2 + 0.2 * rng.normal(size=n)
    return X, y, np.digitize(y, [0.0, 1.5])


@pytest.fixture
def stores(monkeypatch):
    """Collect the stores of bins that bagging opens."""
    seen = []

    @contextlib.contextmanager
    def watched(*given):
        with shared.sharing_bins_of(*given) as store:
            seen.append(store)
            yield store

    monkeypatch.setattr(bagging_base, "sharing_bins_of", watched)
    return seen


@pytest.mark.parametrize(
    "estimator",
    [
        ht.XGBRegressor(n_estimators=3),
        ht.PLGBRegressor(n_estimators=3),
        ht.GradientBoostingRegressor(n_estimators=3, splitter="hist"),
        ht.RandomForestRegressor(n_estimators=3),
        ht.CARTRegressor(splitter="hist", random_state=0),
        ht.RERFRegressor(n_estimators=3),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_one_binning_for_all_members(estimator, weighted, stores):
    X, y, _ = make_table(2000)
    weight = np.random.default_rng(0).integers(0, 3, len(y)) * 1.0 if weighted else None
    shared_options = {"n_estimators": 5, "random_state": 0}
    model = ht.BaggingRegressor(estimator, n_jobs=2, **shared_options).fit(X, y, weight)
    assert [(s.n_made, s.n_found) for s in stores] == [(1, 4)]
    alone = ht.BaggingRegressor(estimator, n_jobs=1, **shared_options).fit(X, y, weight)
    assert np.array_equal(model.predict(X), alone.predict(X))


def test_shared_bins_are_those_of_the_whole_table(stores):
    """A member is the model of the whole table's bins, with the counts of its sample as weights."""
    X, y, _ = make_table(1000)
    estimator = ht.XGBRegressor(n_estimators=4, max_bin=16, random_state=0)
    model = ht.BaggingRegressor(estimator, 3, random_state=0).fit(X, y)
    for member, rows in zip(model.estimators_, model.estimators_samples_, strict=True):
        counts = np.bincount(rows, minlength=len(y)) * 1.0
        with shared.sharing_bins_of(shared.WholeTable(len(y), None, lambda: X)):
            own = clone(estimator).fit(X, y, sample_weight=counts)
        assert np.array_equal(own.predict(X), member.predict(X))
        used = set(member.trees_.nodes["threshold"][member.trees_.nodes["left"] >= 0])
        edges = ht.BinMapper(max_bins=16).fit(X).bin_edges_
        assert used <= set(np.concatenate(edges))


def test_bins_of_samples_are_not_used_elsewhere():
    X, y, _ = make_table(1000)
    ht.BaggingRegressor(ht.XGBRegressor(n_estimators=2), 2, random_state=0).fit(X, y)
    assert shared.BIN_STORE.get() is None


@pytest.mark.parametrize("tree_method", ["approx", "exact"])
def test_members_with_other_bins_do_not_share(tree_method, stores):
    X, y, _ = make_table()
    member = ht.XGBRegressor(n_estimators=2, tree_method=tree_method)
    ht.BaggingRegressor(member, 3, random_state=0).fit(X, y)
    ht.BaggingRegressor(ht.XGBRegressor(n_estimators=2), 3, max_samples=20).fit(X, y)
    assert not stores


MEMBERS = [
    (ht.BaggingRegressor, ht.LinearRegressor()),
    (ht.BaggingRegressor, ht.LinearTreeRegressor(max_depth=2)),
    (ht.BaggingRegressor, ht.EBLRRegressor(n_rules=2)),
    (ht.BaggingRegressor, ht.CARTRegressor(ccp_alpha="cv", cv=3)),
    (ht.BaggingClassifier, ht.LogisticClassifier()),
    (ht.BaggingClassifier, ht.XGBClassifier(n_estimators=3)),
]


@pytest.mark.parametrize(("cls", "member"), MEMBERS, ids=lambda v: getattr(v, "__name__", repr(v)))
@pytest.mark.parametrize("options", [{}, {"max_features": 3}, {"bootstrap": False}])
@pytest.mark.filterwarnings("ignore:Some rows are in the sample of every")
def test_members_by_an_oracle(cls, member, options, tmp_path):
    X, y, codes = make_table()
    target = codes if cls is ht.BaggingClassifier else y
    options = {"max_samples": 0.8, **options}
    model = cls(member, 6, random_state=0, oob_score=True, n_jobs=1, **options)
    model.fit(X, target)
    ask = "predict_proba" if cls is ht.BaggingClassifier else "predict"
    total, oob, counts = 0.0, 0.0, np.zeros(len(X))
    drawn = zip(
        model.estimators_, model.estimators_samples_, model.estimators_features_, strict=True
    )
    for fitted, rows, features in drawn:
        own = getattr(fitted, ask)(X[:, features])
        outside = ~np.isin(np.arange(len(X)), rows)
        total = total + own
        oob = oob + np.where(outside.reshape(-1, *[1] * (own.ndim - 1)), own, 0.0)
        counts += outside
    assert np.allclose(getattr(model, ask)(X), total / 6)
    kept = model.oob_decision_function_ if ask == "predict_proba" else model.oob_prediction_
    seen = counts > 0
    assert np.isnan(kept[~seen]).all()
    assert np.allclose(kept[seen].T, (oob[seen].T / counts[seen]))
    model.save(tmp_path / "model.htree")
    again = ht.load(tmp_path / "model.htree")
    assert np.array_equal(again.predict(X), model.predict(X))
    two = clone(model).set_params(n_jobs=2).fit(X, target)
    assert np.array_equal(two.predict(X), model.predict(X))


class Repeated:
    """A foreign regressor without weights: remembers the rows that it was given."""

    _estimator_type = "regressor"

    def __init__(self, random_state=None, share=0.0):
        self.random_state, self.share = random_state, share

    def get_params(self, deep=True):
        return {"random_state": self.random_state, "share": self.share}

    def set_params(self, **params):
        vars(self).update(params)
        return self

    def fit(self, X, y):
        self.rows_ = np.asarray(X)[:, 0].astype(int)
        noise = np.random.default_rng(self.random_state).normal()
        self.value_ = np.mean(y) * np.sqrt(self.share) + noise * np.sqrt(1 - self.share)
        return self

    def predict(self, X):
        return np.full(len(X), self.value_)


def test_rows_are_repeated_for_members_without_weights():
    X, y = np.arange(50.0)[:, None], np.zeros(50)
    model = ht.BaggingRegressor(Repeated(), 4, random_state=0).fit(X, y)
    for member, rows in zip(model.estimators_, model.estimators_samples_, strict=True):
        assert np.array_equal(member.rows_, rows) and len(rows) == 50
    assert len({member.random_state for member in model.estimators_}) == 4
    weight = np.r_[np.zeros(25), np.ones(25)]
    model.fit(X, y, weight)
    assert min(member.rows_.min() for member in model.estimators_) >= 25
    with pytest.raises(ValueError, match="takes no sample_weight"):
        model.set_params(bootstrap=False).fit(X, y, weight)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_variance_of_a_committee(share):
    """Members of variance 1 and correlation rho have the mean's variance rho + (1 - rho) / B."""
    rng = np.random.default_rng(0)
    n_members, n_trials, X = 5, 800, np.zeros((3, 1))
    found = [
        ht.BaggingRegressor(Repeated(share=share), n_members, random_state=k, n_jobs=1)
        .fit(X, np.full(3, rng.normal()))
        .predict(X[:1])[0]
        for k in range(n_trials)
    ]
    expected = share + (1 - share) / n_members
    assert abs(np.var(found) / expected - 1) < 4 * np.sqrt(2 / n_trials)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore:Some rows are in the sample of every")
def test_members_of_scikit_learn(tmp_path):
    linear = pytest.importorskip("sklearn.linear_model")
    svm = pytest.importorskip("sklearn.svm")
    X, y, codes = make_table()
    model = ht.BaggingRegressor(linear.Ridge(), 10, random_state=0, oob_score=True).fit(X, y)
    assert 0 < model.oob_score_ < model.score(X, y) < 1
    hard = ht.BaggingClassifier(svm.LinearSVC(), 5, random_state=0, voting="hard").fit(X, codes)
    assert hard.score(X, codes) > 0.5
    with pytest.raises(ValueError, match="LinearSVC, which has no predict_proba: use v"):
        ht.BaggingClassifier(svm.LinearSVC()).fit(X, codes)
    with pytest.raises(TypeError, match="cannot be saved"):
        model.save(tmp_path / "model.htree")


def test_a_class_that_samples_may_miss():
    X, _, codes = make_table()
    codes[:] = codes > 0
    codes[0] = 2
    for member in (None, ht.LogisticClassifier(), ht.XGBClassifier(n_estimators=2)):
        for voting in ("soft", "hard"):
            model = ht.BaggingClassifier(member, 10, voting=voting, random_state=0).fit(X, codes)
            proba = model.predict_proba(X)
            assert proba.shape == (len(X), 3) and np.allclose(proba.sum(axis=1), 1)


def test_nested_parameters():
    model = ht.BaggingRegressor(ht.CARTRegressor(max_depth=2), 3)
    assert model.get_params()["estimator__max_depth"] == 2
    copy = clone(model.set_params(estimator__max_depth=5))
    assert copy.estimator.max_depth == 5 and copy.estimator is not model.estimator
    X, y, _ = make_table()
    assert all(m.trees_[0].depth <= 5 for m in copy.fit(X, y).estimators_)


@pytest.mark.parametrize("name", ["Regressor", "Classifier"])
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_estimators": 0}, ValueError, "n_estimators must be an integer of at least 1"),
        ({"n_estimators": "auto"}, TypeError, "n_estimators"),
        ({"max_samples": 1.5}, ValueError, "max_samples must be a real number in (0, 1]"),
        ({"max_samples": 0}, ValueError, "max_samples"),
        ({"max_samples": True}, TypeError, "max_samples"),
        ({"max_samples": 301, "bootstrap": False}, ValueError, "max_samples must be at most 300"),
        ({"max_features": 6}, ValueError, "max_features must be at most 5"),
        ({"max_features": "sqrt"}, TypeError, "max_features"),
        ({"bootstrap": 1}, TypeError, "bootstrap must be True or False"),
        ({"bootstrap_features": None}, TypeError, "bootstrap_features"),
        ({"oob_score": "r2"}, TypeError, "oob_score must be True or False"),
        ({"oob_score": True, "bootstrap": False}, ValueError, "out-of-bag rows"),
        ({"prune": 1}, TypeError, "prune"),
        ({"prune": True, "estimator": "linear"}, ValueError, "prune=True needs a CART tree"),
        ({"n_jobs": 0}, ValueError, "n_jobs"),
        ({"verbose": -1}, ValueError, "verbose"),
        ({"random_state": -1}, ValueError, "random_state"),
        ({"estimator": 3}, TypeError, "estimator must be an estimator with fit"),
        ({"estimator": ht.LinearRegressor}, TypeError, "estimator must be an estimator"),
        ({"estimator": "other"}, TypeError, "must be a"),
    ],
)
def test_hostile_parameters(name, options, error, message):
    X, y, codes = make_table()
    target = y if name == "Regressor" else codes
    named = {
        "linear": {"Regressor": ht.LinearRegressor(), "Classifier": ht.LogisticClassifier()},
        "other": {"Classifier": ht.LinearRegressor(), "Regressor": ht.LogisticClassifier()},
    }
    if isinstance(options.get("estimator"), str):
        options = {**options, "estimator": named[options["estimator"]][name]}
    model = getattr(ht, f"Bagging{name}")(**options)
    with pytest.raises(error, match=re.escape(message)):
        model.fit(X, target)
    assert not model.__sklearn_is_fitted__()


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y, _ = make_table()
    model = ht.BaggingRegressor(n_estimators=3, random_state=0).fit(X, y)
    before = model.predict(X)
    for bad_X, bad_y in ((X[:, :0], y), (X[:10], y), (X, np.full(len(y), np.nan))):
        with pytest.raises(ValueError):
            model.fit(bad_X, bad_y)
    X_bad = X.copy()
    X_bad[3, 2] = np.inf
    with pytest.raises(ValueError, match="infin"):
        model.fit(X_bad, y)
    assert np.array_equal(model.predict(X), before)
    with pytest.raises(ValueError, match="X has 4 features, but BaggingRegressor is expecting 5"):
        model.predict(X[:, :4])
    linear = ht.BaggingRegressor(ht.LinearRegressor(), 3, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="X has 4 features, but BaggingRegressor is expecting 5"):
        linear.predict(X[:, :4])


def test_one_row_one_class_and_constants():
    assert ht.BaggingRegressor(n_estimators=2).fit([[1.0]], [3.0]).predict([[5.0]]) == 3.0
    one = ht.BaggingClassifier(n_estimators=2).fit([[1.0], [2.0]], ["a", "a"])
    assert list(one.predict([[5.0]])) == ["a"] and one.predict_proba([[5.0]]).shape == (1, 1)
    flat = ht.BaggingRegressor(ht.LinearRegressor(), 2).fit(np.ones((5, 2)), np.arange(5.0))
    assert np.isfinite(flat.predict(np.ones((1, 2)))).all()


def test_progress(capsys):
    X, y, _ = make_table()
    ht.BaggingRegressor(ht.LinearRegressor(), 6, verbose=3).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:3] for line in lines] == ["[3]", "[6]"]


def test_a_class_derived_from_cart_fits_in_its_own_way():
    class Shallow(ht.CARTRegressor):
        def fit(self, X, y, sample_weight=None):
            return super().fit(X, np.zeros(len(y)), sample_weight)

    X = np.random.default_rng(0).normal(size=(60, 2))
    for cls in (ht.BaggingRegressor, ht.PastingRegressor):
        model = cls(Shallow(), 3, random_state=0).fit(X, X[:, 0])
        assert all(isinstance(member, Shallow) for member in model.estimators_)
        assert not model.predict(X).any()
