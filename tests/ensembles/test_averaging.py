"""Model averages: weights equal closed forms, slow selections and the optimum of the mixture."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from averaging_oracle import best_bag, greedy_by_hand, squared
from ensembles.named_members import classifiers, regressors
from scipy.optimize import minimize

import hybridtrees as ht
from hybridtrees import metrics
from hybridtrees._parameters import clone
from hybridtrees.ensembles.averaging import metric_losses
from hybridtrees.ensembles.greedy import (
    absolute_losses,
    greedy_weights,
    log_losses,
    mixture_weights,
    squared_losses,
)
from hybridtrees.metrics import get_metric


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(200, 4))
    return X, X[:, 0] + 0.3 * X[:, 1] + 0.2 * np.sin(3 * X[:, 2]) + 0.4 * rng.normal(size=200)


def some_folds(n, k=4):
    fold = np.random.default_rng(5).permutation(n) % k
    return [(np.flatnonzero(fold != j), np.flatnonzero(fold == j)) for j in range(k)]


def normalised(log_weights):
    shares = np.exp(log_weights - np.max(log_weights))
    return shares / shares.sum()


class Only(ht.LinearRegressor):
    """A line through some of the columns."""

    columns: tuple = (0,)

    def _kept(self, X):
        return np.asarray(X)[:, list(self.columns)]

    def fit(self, X, y, sample_weight=None):
        return super().fit(self._kept(X), y, sample_weight)

    def predict(self, X):
        return super().predict(self._kept(X))


# ---- BIC --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_bic_weights_of_lines_are_the_closed_form(rows, weighted):
    """exp(-BIC / 2) with BIC = n log(RSS / n) + k log n; weights count rows."""
    X, y = rows
    w = np.random.default_rng(1).integers(1, 3, len(y)).astype(float) if weighted else np.ones(200)
    subsets = [(0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)]
    members = [(f"m{len(s)}", Only(columns=s)) for s in subsets]
    model = ht.ModelAverageRegressor(members, weights="bic").fit(X, y, w)
    bic = []
    for subset in subsets:
        A = np.column_stack([np.ones(200), X[:, list(subset)]])
        root = np.sqrt(w)[:, None]
        beta = np.linalg.lstsq(A * root, y * root[:, 0], rcond=None)[0]
        rss, n = np.sum(w * (y - A @ beta) ** 2), w.sum()
        bic.append(n * np.log(rss / n) + A.shape[1] * np.log(n))
    np.testing.assert_allclose(model.weights_, normalised(-0.5 * np.array(bic)), rtol=1e-7)
    assert model.weights_.max() < 0.999  # so that the test says something
    constant = model.criterion_ - bic
    np.testing.assert_allclose(constant, constant[0], rtol=1e-9)
    mean = sum(
        share * m.predict(X) for share, m in zip(model.weights_, model.estimators_, strict=True)
    )
    np.testing.assert_allclose(model.predict(X), mean, rtol=1e-12)


def test_bic_counts_what_a_lasso_has_kept(rows):
    X, y = rows
    sparse = ht.LinearRegressor(penalty="lasso", alpha=0.2)
    model = ht.ModelAverageRegressor([("a", sparse), ("b", ht.CARTRegressor(max_depth=3))])
    model.set_params(weights="bic").fit(X, y)
    free = [np.count_nonzero(model.estimators_[0].coef_) + 1, model.estimators_[1].tree_.n_leaves]
    assert free[0] < 5
    for k, member in enumerate(model.estimators_):
        variance = np.mean((y - member.predict(X)) ** 2)
        expected = 200 * (np.log(2 * np.pi * variance) + 1) + free[k] * np.log(200)
        assert model.criterion_[k] == pytest.approx(expected, rel=1e-9)


def test_bic_of_classes(rows):
    X, y = rows
    labels = np.digitize(y, [-0.5, 0.5])
    model = ht.ModelAverageClassifier(classifiers(max_depth=3)[:2], weights="bic").fit(X, labels)
    # Softmax has a line for each class, of which one is not free; so have shares in a leaf.
    free = [2 * 5, 2 * model.estimators_[1].tree_.n_leaves]
    for k, member in enumerate(model.estimators_):
        right = member.predict_proba(X)[np.arange(200), labels]
        expected = -2 * np.log(np.maximum(right, 1e-300)).sum() + free[k] * np.log(200)
        if right.min() > 0:
            assert model.criterion_[k] == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(model.weights_, normalised(-0.5 * model.criterion_))


@pytest.mark.peer
def test_bic_of_scikit_learn_s_lines_and_trees(rows):
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LinearRegression
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.tree import DecisionTreeRegressor

    X, y = rows
    theirs = [("line", LinearRegression()), ("tree", DecisionTreeRegressor(max_depth=3))]
    model = ht.ModelAverageRegressor(theirs, weights="bic").fit(X, y)
    own = ht.ModelAverageRegressor([("line", ht.LinearRegressor())], weights="bic").fit(X, y)
    assert model.criterion_[0] == pytest.approx(own.criterion_[0], rel=1e-9)
    with pytest.raises(ValueError, match="'near' is a KNeighborsRegressor"):
        ht.ModelAverageRegressor([("near", KNeighborsRegressor())], weights="bic").fit(X, y)


@pytest.mark.parametrize(
    "member", [ht.XGBRegressor(), ht.RERFRegressor(), ht.EBLRRegressor(), ht.LinearTreeRegressor()]
)
def test_members_whose_parameters_nobody_can_count(rows, member):
    with pytest.raises(ValueError, match=f"the member 'odd' is a {type(member).__name__}"):
        ht.ModelAverageRegressor([("odd", member)], weights="bic").fit(*rows)


# ---- Held-out likelihood ----------------------------------------------------------------------


def held_out(members, X, y, folds, method="predict"):
    told = []
    for _, member in members:
        answers = [getattr(clone(member).fit(X[a], y[a]), method)(X[b]) for a, b in folds]
        order = np.argsort(np.concatenate([b for _, b in folds]))
        told.append(np.concatenate(answers)[order])
    return np.array(told)


def test_likelihood_weights_of_regressors(rows):
    X, y = rows[0][:60], rows[1][:60]
    folds = some_folds(60)
    model = ht.ModelAverageRegressor(regressors(), weights="likelihood", cv=folds).fit(X, y)
    told = held_out(regressors(), X, y, folds)
    variance = np.mean((told - y) ** 2, axis=1)
    np.testing.assert_allclose(model.variances_, variance, rtol=1e-9)
    elpd = -30 * (np.log(2 * np.pi * variance) + 1)
    np.testing.assert_allclose(model.criterion_, elpd, rtol=1e-9)
    np.testing.assert_allclose(model.weights_, normalised(elpd), rtol=1e-6)


def test_likelihood_weights_of_classifiers(rows):
    X, labels = rows[0], rows[1] > 0
    folds = some_folds(200)
    model = ht.ModelAverageClassifier(classifiers(max_depth=3), weights="likelihood", cv=folds)
    model.fit(X, labels)
    told = held_out(classifiers(max_depth=3), X, labels, folds, "predict_proba")
    right = np.maximum(told[:, np.arange(200), labels.astype(int)], np.finfo(float).eps)
    np.testing.assert_allclose(model.criterion_, np.log(right).sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(model.weights_, normalised(model.criterion_), atol=1e-9)


def test_stacking_is_the_best_mixture(rng):
    log_density = np.log(rng.gamma(1.5, size=(120, 3)) + 0.01)
    log_density[:, 2] -= 3  # of no use
    weight = rng.random(120)

    def loss(free):
        shares = normalised(np.append(free, 0.0))
        return -np.average(np.log(np.exp(log_density) @ shares), weights=weight)

    best = minimize(loss, np.zeros(2), tol=1e-12)
    shares = mixture_weights(log_density, weight)
    reached = -np.average(np.log(np.exp(log_density) @ shares), weights=weight)
    assert reached == pytest.approx(best.fun, abs=2e-6)
    assert shares.sum() == pytest.approx(1) and shares[2] < 0.01
    # Densities far below the range of floats are no trouble.
    np.testing.assert_allclose(mixture_weights(log_density - 5000, weight), shares)


def test_a_memory_gets_no_weight(rng):
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + rng.normal(size=200)
    members = [("line", ht.LinearRegressor()), ("memory", ht.CARTRegressor(random_state=0))]
    for weights in ("likelihood", "stacking", "greedy"):
        model = ht.ModelAverageRegressor(members, weights=weights).fit(X, y)
        assert model.estimators_[1].score(X, y) == pytest.approx(1)
        assert model.weights_[1] < 0.15, weights


# ---- Greedy selection -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_greedy_is_the_selection_of_the_paper(seed):
    rng = np.random.default_rng(seed)
    target = rng.normal(size=30)
    told = target + rng.normal(size=(4, 30)) * rng.uniform(0.3, 2, (4, 1))
    found = greedy_weights(told, squared_losses(target), 12)
    np.testing.assert_allclose(found, greedy_by_hand(told, target, 12, squared))
    by_size = greedy_by_hand(told, target, 12, lambda t, s: float(np.mean(np.abs(t - s))))
    np.testing.assert_allclose(greedy_weights(told, absolute_losses(target), 12), by_size)


@pytest.mark.parametrize("seed", range(6))
def test_greedy_against_all_bags(seed):
    """One or two models: the best bag by trying all is found, or nearly so for more."""
    rng = np.random.default_rng(seed)
    target = rng.normal(size=40)
    told = target + rng.normal(size=(3, 40))
    lowest = best_bag(told, target, 6, squared)
    reached = squared(target, greedy_weights(told, squared_losses(target), 40) @ told)
    alone = min(squared(target, one) for one in told)
    assert reached <= alone and reached <= 1.02 * lowest
    two = greedy_weights(told[:2], squared_losses(target), 60) @ told[:2]
    shares = np.linspace(0, 1, 2001)
    best = min(squared(target, s * told[0] + (1 - s) * told[1]) for s in shares)
    assert squared(target, two) <= best * (1 + 1e-3)


def test_greedy_by_other_metrics(rng):
    codes = rng.integers(0, 2, 80)
    told = np.clip(codes + rng.normal(size=(4, 80)), 0.05, 0.95)
    proba = np.stack([1 - told, told], axis=2)
    losses = metric_losses(get_metric("auc"), codes, None)
    weights = greedy_weights(proba, losses, 10)
    joined = metrics.roc_auc_score(codes, weights @ told)
    assert joined >= max(metrics.roc_auc_score(codes, one) for one in told)
    np.testing.assert_allclose(losses(proba[:1]), -metrics.roc_auc_score(codes, told[0]))
    right = proba[:, np.arange(80), codes]
    np.testing.assert_allclose(log_losses()(right)[0], metrics.log_loss(codes, told[0]))


def test_bags_choose_from_halves(rng):
    target = rng.normal(size=50)
    told = target + rng.normal(size=(6, 50)) * np.array([[0.1], [1], [1], [1], [1], [1]])
    losses = squared_losses(target)
    once = greedy_weights(told, losses, 20)
    bagged = greedy_weights(told, losses, 20, 20, np.random.default_rng(0))
    assert once[0] > 0.9 and 0.2 < bagged[0] < once[0]
    assert bagged.sum() == pytest.approx(1)


def test_losses_that_are_not_defined_are_not_chosen():
    told = np.stack([np.full(4, np.nan), np.ones(4)])
    assert greedy_weights(told, squared_losses(np.zeros(4)), 3).tolist() == [0, 1]


# ---- Estimators -------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["likelihood", "stacking", "greedy"])
def test_text_files_threads_and_summary(rng, weights, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": rng.normal(size=150), "c": rng.choice(["u", "v"], 150)})
    y = frame["x"].to_numpy() + (frame["c"] == "u") + 0.3 * rng.normal(size=150)
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [0.0, 1.0])]
    frame.loc[::11, "x"] = np.nan
    for cls, members, target in (
        (ht.ModelAverageRegressor, regressors(), y),
        (ht.ModelAverageClassifier, classifiers(max_depth=3), labels),
    ):
        given = {"weights": weights, "cv": 3, "random_state": 0, "n_bags": 2}
        one, two = (cls(members, n_jobs=n, **given).fit(frame, target) for n in (1, 2))
        assert (one.weights_ == two.weights_).all() and one.weights_.sum() == pytest.approx(1)
        assert (one.predict(frame) == two.predict(frame)).all()
        lines = one.summary().splitlines()
        assert len(lines) == 5 and f"weights by {weights}" in lines[0]
        one.save(tmp_path / "model")
        for again in (ht.load(tmp_path / "model"), pickle.loads(pickle.dumps(one))):
            assert (again.predict(frame) == one.predict(frame)).all()
            assert again.summary() == one.summary()


def test_groups_and_time(rows):
    X, y = rows
    model = ht.ModelAverageRegressor(regressors()[:2], cv=3)
    a = model.fit(X, y, groups=np.arange(200) // 10).weights_
    b = model.fit(X, y, time=np.arange(200)).weights_
    assert a.shape == b.shape == (2,) and (a != b).any()


def test_parameters_by_name(rows):
    X, y = rows
    model = ht.ModelAverageRegressor(regressors(), cv=2)
    assert model.get_params()["tree__max_depth"] == 4
    model.set_params(forest="drop", tree__max_depth=2).fit(X, y)
    assert list(model.named_estimators_) == ["line", "tree"] and len(model.weights_) == 2
    assert clone(model).get_params()["tree__max_depth"] == 2


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"weights": "aic"}, ValueError, "weights must be one of 'bic', 'likelihood'"),
        ({"weights": None}, ValueError, "weights must be one of"),
        ({"scoring": "auc"}, ValueError, "scoring='auc' is for a classifier"),
        ({"scoring": "best"}, ValueError, "scoring must be one of"),
        ({"scoring": 3}, TypeError, "scoring must be a name"),
        ({"n_rounds": 0}, ValueError, "n_rounds must be"),
        ({"n_bags": 1.5}, TypeError, "n_bags must be"),
    ],
)
def test_wrong_parameters(rows, given, error, message):
    model = ht.ModelAverageRegressor(regressors(), **given)
    with pytest.raises(error, match=message):
        model.fit(*rows)
    assert not hasattr(model, "estimators_")


def test_a_damaged_model_is_refused(rows):
    model = ht.ModelAverageRegressor(regressors(), cv=2).fit(*rows)
    for damage in ({"weights_": np.ones(2)}, {"criterion_": "x"}, {"variances_": np.ones(1)},
                   {"_kind": "aic"}, {"weights_": np.full(3, np.nan)}):  # fmt: skip
        with pytest.raises(ValueError):  # noqa: PT011 - which error does not matter
            ht.ModelAverageRegressor().__setstate__({**model.__getstate__(), **damage})
