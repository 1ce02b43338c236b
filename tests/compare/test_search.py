"""The search: what fits see, what halving and a budget leave out, what sharing bins changes."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees._compare.data import make_data
from hybridtrees._compare.families import FAMILIES, Family, Stopping, choose_families
from hybridtrees._compare.helpers import Helpers
from hybridtrees._compare.progress import Progress, clock
from hybridtrees._compare.run import compare_data
from hybridtrees._compare.scores import SCORES
from hybridtrees._compare.search import Limits, Search
from hybridtrees.selection.splits import split_rows

BY_KEY = {family.key: family for family in FAMILIES}


class Spy:
    """Remembers the numbers of the rows it is given; column 0 holds them."""

    fits: list[tuple[set, set]] = []
    asked: list[set] = []

    def __init__(self, level=0.0, random_state=None):
        self.level, self.random_state = level, random_state

    def get_params(self, deep=True):
        return {"level": self.level, "random_state": self.random_state}

    def set_params(self, **params):
        self.__dict__.update(params)
        return self

    def fit(self, X, y, X_val=None, y_val=None):
        stopping = set() if X_val is None else set(X_val[:, 0])
        Spy.fits.append((set(X[:, 0]), stopping))
        self.n_rounds = 7
        return self

    def predict(self, X):
        Spy.asked.append(set(X[:, 0]))
        return np.full(len(X), self.level)


STOPPING = Stopping(
    "level", {}, lambda X, y: {"X_val": X, "y_val": y}, lambda model: model.n_rounds
)


@pytest.fixture
def spied(rng):
    Spy.fits, Spy.asked = [], []
    X = np.column_stack([np.arange(200.0), rng.normal(size=200)])
    return make_data(X, rng.normal(size=200), task="regression")


@pytest.mark.parametrize("stopping", [None, STOPPING])
def test_fits_see_their_own_rows_only(stopping, spied):
    family = Family("spy", "spy", Spy, Spy, ({"level": [0.0, 1.0]},), stopping=stopping)
    comparison = compare_data(spied, [family], None, Limits(seed=5))
    plan = comparison.plan
    fold = plan.folds[0]
    train, validation, test = map(set, (fold.train, fold.validation, plan.test))
    *searched, (final, _) = Spy.fits
    assert len(searched) == 2
    for seen, stopped_on in searched:
        assert seen == train and stopped_on == (set() if stopping is None else validation)
    assert final == train | validation and not final & test
    # Four questions by the search, and the test rows behind the last of them.
    assert not any(rows & test for rows in Spy.asked[:4])
    assert any(rows == test for rows in Spy.asked[4:])
    if stopping is not None:
        assert comparison.results[0].setting == {"level": 7}


@pytest.mark.parametrize("key", ["cart", "xgb", "eblr"])
def test_a_leak_in_the_validation_rows_does_not_help(key):
    """A column that tells the target of validation rows, and nothing of others, is noise."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 4))
    y = X[:, 0] + rng.normal(size=400)
    leak = rng.normal(size=400) * y.std()
    validation = split_rows(400, random_state=4).folds[0].validation
    leak[validation] = y[validation]
    scores = []
    for table in (X, np.column_stack([X, leak])):
        data = make_data(table, y)
        comparison = compare_data(data, [BY_KEY[key]], "rmse", Limits(seed=4))
        np.testing.assert_array_equal(comparison.plan.folds[0].validation, validation)
        scores.append(comparison.table[0])
    assert scores[1]["validation"] > 0.95 * scores[0]["validation"] > 0.7
    assert scores[1]["test"] > 0.95 * scores[0]["test"]


def test_categories_of_validation_rows_are_unknown_to_the_fit():
    """A label that training has not met tells nothing, though the coded table knows it."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=300)
    plan = split_rows(300, random_state=1)
    label = np.full(300, "usual", dtype=object)
    label[plan.folds[0].validation] = np.where(y[plan.folds[0].validation] > 0, "high", "low")
    data = make_data({"label": label, "x": rng.normal(size=300)}, y)
    comparison = compare_data(data, choose_families(["cart", "linear"]), None, Limits(seed=1))
    assert all(row["validation"] > 0.8 for row in comparison.table)


def run_search(data, families, **limits):
    plan = split_rows(data.shape[0], strata=data.strata, random_state=0)
    score = SCORES["rmse" if data.task == "regression" else "auc"]
    with Helpers(2) as helpers:
        search = Search(data, plan, score, Limits(**limits), Progress(), helpers)
        return search, search.run(families)


def test_halving_tries_all_on_few_rows_and_few_on_all():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 3))
    data = make_data(X, X[:, 0] + 0.1 * rng.normal(size=5000))
    family = BY_KEY["cart"]
    search, best = run_search(data, [family], search="halving")
    n = len(family.settings())
    sizes = [trial.n_rows for trial in search.trials]
    assert sizes == [1167] * n + [3500] * (n // 3)
    assert best["cart"].n_rows == 3500
    grid, best_of_all = run_search(data, [family], search="grid")
    assert [trial.n_rows for trial in grid.trials] == [3500] * n
    assert best_of_all["cart"].validation <= best["cart"].validation < 0.2


DEEP = {"max_depth": [20], "min_samples_leaf": [2]}
FLAT = {"max_depth": [1], "min_samples_leaf": [2]}


def trees(*grids):
    return Family("cart", "CART", "CARTRegressor", "CARTClassifier", grids)


@pytest.fixture
def steep():
    """Data on which a deep tree overfits, and yet is far better than a flat one on new rows."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 3))
    return make_data(X, 2 * X[:, 0] + 0.3 * rng.normal(size=300))


def test_settings_that_overfit_are_set_aside(steep):
    search, best = run_search(steep, [trees(DEEP, FLAT)])
    deep, flat = search.trials
    assert deep.validation < 0.7 * flat.validation  # by its score the deep one would be chosen
    assert deep.overfits(search.score, None) and not flat.overfits(search.score, None)
    assert best["cart"] is flat
    tolerant, best = run_search(steep, [trees(DEEP, FLAT)], overfit=1e9)
    assert best["cart"] is tolerant.trials[0]


def test_settings_that_overfit_are_chosen_if_all_do(steep):
    only = trees(DEEP)
    comparison = compare_data(steep, [only], None, Limits())
    assert comparison.table[0]["overfits"] and "* beyond the limit" in str(comparison)
    assert not compare_data(steep, [only], None, Limits(overfit=1e9)).table[0]["overfits"]


def test_settings_that_overfit_do_not_reach_the_next_rung():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(5000, 3))
    data = make_data(X, 2 * X[:, 0] + rng.normal(size=5000))
    search, _ = run_search(data, [trees(DEEP, FLAT)], overfit=0.2)
    small, large = search.trials[:2], search.trials[2:]
    assert small[0].validation < small[1].validation
    assert [trial.setting["max_depth"] for trial in large] == [1]


class ClassSpy(Spy):
    """The same for two classes."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return super().fit(X, y)

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("folds", [None, 4])
def test_rungs_keep_the_shares_of_classes(seed, folds, spied):
    """Of 5000 rows 100 are of the rare class, which few rows could easily be short of."""
    y = np.zeros(5000, dtype=int)
    y[np.random.default_rng(seed).permutation(5000)[:100]] = 1
    data = make_data(np.arange(5000.0)[:, None], y)
    family = Family("spy", "spy", Spy, ClassSpy, ({"level": [0.0, 1.0, 2.0]},))
    plan = compare_data(data, [family], None, Limits(seed=seed), folds=folds).plan
    sizes = {len(fold.train) for fold in plan.folds}
    small = [rows for rows, _ in Spy.fits if len(rows) < min(sizes)]
    assert len(small) == 3 * len(plan.folds)
    for rows in small:
        assert abs(y[list(map(int, rows))].sum() - 0.02 * len(rows)) <= 1


def test_a_budget_leaves_out_all_but_the_first_settings(spied):
    families = choose_families(["cart", "linear"])
    comparison = compare_data(spied, families, None, Limits(budget=1e-9))
    assert [trial.setting for trial in comparison.trials] == [
        family.settings()[0] for family in families
    ]
    n_left = sum(len(family.settings()) - 1 for family in families)
    assert f"the budget left {n_left} settings untried" in str(comparison)


class Fails:
    """A model that cannot be fitted."""

    def fit(self, X, y):
        raise RuntimeError("no luck")


class FailsLater(Spy):
    """A model that cannot be asked."""

    def predict(self, X):
        raise RuntimeError("no luck")


@pytest.mark.parametrize("kind", [Fails, FailsLater])
def test_a_family_that_fails_does_not_end_the_comparison(kind, spied):
    families = [Family("bad", "bad model", kind, kind), BY_KEY["cart"]]
    comparison = compare_data(spied, families, None, Limits())
    assert [row["model"] for row in comparison.table] == ["CART", "bad model"]
    assert "bad model failed: RuntimeError: no luck" in str(comparison)
    assert list(comparison.models_) == ["cart"]
    alone = compare_data(spied, families[:1], None, Limits())
    with pytest.raises(ValueError, match="every family failed: RuntimeError: no luck"):
        print(alone.best_)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.key)
def test_every_setting_of_a_family_can_be_made(family):
    if not family.exists():
        pytest.skip("the package does not have it")
    for task in ("regression", "classification"):
        settings = family.settings(task)
        assert settings and len({str(setting) for setting in settings}) == len(settings)
        for setting in settings:
            stop = {} if family.stopping is None else family.stopping.arguments
            model = family.make(task, {**stop, **setting}, random_state=3, no_such_parameter=1)
            for name, value in setting.items():
                assert getattr(model, name) == value


@pytest.mark.parametrize(("classes", "depths"), [(False, {3, 1}), (True, {2, 1})])
def test_classes_may_have_settings_of_their_own(classes, depths):
    X = np.random.default_rng(0).normal(size=(60, 2))
    data = make_data(X, X[:, 0] > 0 if classes else X[:, 0])
    comparison = compare_data(data, choose_families(["linear_forest"]), None, Limits())
    assert {trial.setting["max_depth"] for trial in comparison.trials} == depths


def test_unknown_families_are_refused():
    with pytest.raises(ValueError, match="models must be among linear, cart, .*got 'svm'"):
        choose_families(["cart", "svm"])
    with pytest.raises(ValueError, match="models must be a list of .*got 'cart'"):
        choose_families("cart")
    assert [f.key for f in choose_families(["xgb", "cart", "xgb"])] == ["xgb", "cart"]


def test_progress_tells_the_share_and_the_rest(capsys):
    import io

    stream = io.StringIO()
    progress = Progress(stream, "title")
    progress.expect({"a": 2, "b": 1})
    assert progress.share == 0 and progress.remaining == float("inf")
    progress.done("a", 1.0)
    assert progress.share == pytest.approx(1 / 3)
    progress.done("a", 1.0)
    progress.done("b", 2.0)
    assert progress.share == 1 and progress.remaining == 0
    assert stream.getvalue().startswith("\rtitle [") and "left" in stream.getvalue()
    progress.close()
    assert stream.getvalue().endswith("\r")
    assert clock(125.4) == "02:05" and clock(float("inf")) == "--:--"
    assert capsys.readouterr().err == ""
