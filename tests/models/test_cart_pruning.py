"""Pruning inside the estimators: a given alpha, and one chosen by cross-validation."""

from __future__ import annotations

import numpy as np
import pytest
from cart_data import integer_table, noisy_classes, smooth_table, whole_weights
from sklearn_trees import prune

from hybridtrees import CARTClassifier, CARTRegressor

MODELS = pytest.mark.parametrize(
    "model",
    [
        CARTRegressor(),
        CARTRegressor(criterion="absolute_error", max_depth=6),
        CARTRegressor(criterion="poisson", min_samples_leaf=5),
        CARTRegressor(max_leaf_nodes=15),
        CARTRegressor(splitter="hist", min_samples_leaf=0.02),
        CARTRegressor(missing="stop", min_samples_leaf=3),
        CARTClassifier(),
        CARTClassifier(criterion="entropy", class_weight="balanced"),
        CARTClassifier(criterion="misclassification"),
    ],
    ids=str,
)


def data_for(model, n=150):
    X, y = integer_table(n, missing=0.1)
    if isinstance(model, CARTClassifier):
        return X, np.digitize(y, [4.0, 8.0])
    return X, np.abs(y)


def fresh(model, **changes):
    return type(model)(**{**model.get_params(), **changes})


def row_losses(model, X, y):
    """Validation losses of a fitted model, from the definitions."""
    if isinstance(model, CARTClassifier):
        return (model.predict(X) != y).astype(float)
    prediction = model.predict(X)
    if model.criterion == "absolute_error":
        return np.abs(y - prediction)
    if model.criterion == "poisson":
        return np.where(y > 0, y * np.log(y / prediction), 0.0) - y + prediction
    return (y - prediction) ** 2


@MODELS
def test_a_given_alpha_prunes_the_whole_tree(model):
    X, y = data_for(model)
    path = model.cost_complexity_pruning_path(X, y)
    assert path.ccp_alphas[0] == 0.0
    assert np.all(np.diff(path.ccp_alphas) >= 0)
    whole = fresh(model).fit(X, y)
    for alpha in np.quantile(path.ccp_alphas, [0.2, 0.6, 0.95]) * 1.0001 + 1e-9:
        pruned = fresh(model, ccp_alpha=alpha).fit(X, y)
        expected = prune(whole.tree_, alpha)
        np.testing.assert_array_equal(pruned.tree_.nodes, expected.nodes)
        np.testing.assert_array_equal(pruned.tree_.values, expected.values)
        assert pruned.ccp_alpha_ == alpha
        # Where training rows ended is known of the pruned tree too.
        np.testing.assert_array_equal(pruned._train_leaves, pruned.apply(X))
    assert fresh(model, ccp_alpha=path.ccp_alphas[-1] * 1.01).fit(X, y).get_n_leaves() == 1


@MODELS
def test_the_curve_is_that_of_the_folds(model):
    X, y = data_for(model, 90)
    weight = whole_weights(len(y))
    # One part of the rows is never in a validation part, as a user's own folds may be.
    order = np.random.default_rng(1).permutation(len(y))
    parts = np.array_split(order, 4)
    folds = [(np.setdiff1d(order, part), np.sort(part)) for part in parts[:3]]
    fitted = fresh(model, ccp_alpha="cv", cv=folds).fit(X, y, weight)
    path = model.cost_complexity_pruning_path(X, y, weight)
    distinct = np.unique(path.ccp_alphas.round(12))
    assert len(fitted.cv_alphas_) == len(distinct)
    np.testing.assert_allclose(fitted.cv_alphas_, distinct, atol=1e-10)
    full_weight = fitted._train_weight
    for k in range(0, len(distinct), max(1, len(distinct) // 5)):
        if k + 1 < len(distinct):
            alpha = np.sqrt(fitted.cv_alphas_[k] * fitted.cv_alphas_[k + 1])
        else:
            alpha = 1e9
        means, totals = [], []
        for train, test in folds:
            # A price of zero leaves a tree alone, but branches that bring nothing go here. The
            # weights of classes are those of all rows.
            part = fresh(model, ccp_alpha=max(alpha, 1e-13))
            if isinstance(model, CARTClassifier):
                part.set_params(class_weight=None)
            part.fit(X[train], y[train], full_weight[train])
            losses = row_losses(part, X[test], y[test])
            means.append(np.average(losses, weights=full_weight[test]))
            totals.append(full_weight[test].sum())
        share = np.array(totals) / np.sum(totals)
        score = share @ means
        np.testing.assert_allclose(fitted.cv_scores_[k], score, rtol=1e-7, atol=1e-9)
        error = np.sqrt(share @ (np.array(means) - score) ** 2 / (len(folds) - 1))
        np.testing.assert_allclose(fitted.cv_errors_[k], error, rtol=1e-6, atol=1e-9)


@MODELS
def test_the_chosen_alpha_follows_the_rule(model):
    X, y = data_for(model)
    best = fresh(model, ccp_alpha="cv", random_state=3).fit(X, y)
    least = best.cv_scores_.min()
    where = np.flatnonzero(best.cv_scores_ == least)[-1]
    assert best.ccp_alpha_ == best.cv_alphas_[where]
    careful = fresh(best, cv_rule="1se").fit(X, y)
    np.testing.assert_array_equal(careful.cv_scores_, best.cv_scores_)
    limit = least + best.cv_errors_[where]
    assert careful.ccp_alpha_ == best.cv_alphas_[best.cv_scores_ <= limit].max()
    assert careful.get_n_leaves() <= best.get_n_leaves()
    whole = fresh(best, ccp_alpha=0.0).fit(X, y)
    kept = prune(whole.tree_, best.ccp_alpha_) if best.ccp_alpha_ > 0 else whole.tree_
    np.testing.assert_array_equal(best.tree_.nodes, kept.nodes)


def test_noise_is_pruned_away():
    rng = np.random.default_rng(0)
    X = rng.random((300, 4))
    y = np.where(X[:, 0] > 0.5, 3.0, 0.0) + rng.normal(size=300)
    model = CARTRegressor(ccp_alpha="cv", cv_rule="1se", random_state=0, cv=10).fit(X, y)
    assert model.get_n_leaves() == 2
    assert model.tree_.nodes["feature"][0] == 0


def test_folds_have_equal_shares_of_the_classes():
    from hybridtrees.input.folds import make_folds

    codes = np.repeat([0, 1, 2], [50, 30, 7]).astype(np.int32)
    folds = make_folds(5, 87, codes, rng=np.random.default_rng(0))
    tests = [np.bincount(codes[test], minlength=3) for _, test in folds]
    assert np.ptp(tests, axis=0).max() <= 1
    np.testing.assert_array_equal(np.sort(np.concatenate([t for _, t in folds])), np.arange(87))
    for train, test in folds:
        np.testing.assert_array_equal(np.union1d(train, test), np.arange(87))


def test_rows_of_weight_zero_are_in_no_fold():
    X, y = smooth_table()
    weight = np.r_[np.zeros(100), np.ones(200)]
    model = CARTRegressor(ccp_alpha="cv", random_state=0, min_samples_leaf=5).fit(X, y, weight)
    assert model.tree_.nodes["n_samples"][0] == 200
    with pytest.raises(ValueError, match="cv=5 folds need"):
        CARTRegressor(ccp_alpha="cv").fit(X, y, np.r_[np.zeros(296), np.ones(4)])


def test_folds_of_other_kinds():
    model_selection = pytest.importorskip("sklearn.model_selection")
    X, y = noisy_classes()
    splitter = model_selection.StratifiedKFold(4, shuffle=True, random_state=0)
    pairs = list(splitter.split(X, y))
    masks = [(np.isin(np.arange(len(y)), a), np.isin(np.arange(len(y)), b)) for a, b in pairs]
    curves = [
        CARTClassifier(ccp_alpha="cv", cv=cv).fit(X, y).cv_scores_
        for cv in (splitter, pairs, iter(pairs), masks)
    ]
    for curve in curves[1:]:
        np.testing.assert_array_equal(curve, curves[0])


@pytest.mark.parametrize(
    ("cv", "match"),
    [
        ([(np.arange(200), np.arange(200, 300))], "two folds"),
        ([([0, 1], [2, 300])] * 2, "outside"),
        ([([-1, 1], [2, 3])] * 2, "outside"),
        ([([0.5, 1.0], [2, 3])] * 2, "row numbers or masks"),
        ([([0, 1], [])] * 2, "row numbers or masks"),
        ([([0, 1], [[2, 3]])] * 2, "row numbers or masks"),
        ([1, 2, 3], "pairs"),
        ([([0, 1], [2, 3], [4])] * 2, "pairs"),
        (301, "cv=301 folds need"),
    ],
)
def test_folds_that_cannot_be(cv, match):
    X, y = smooth_table()
    with pytest.raises((ValueError, TypeError), match=match):
        CARTRegressor(ccp_alpha="cv", cv=cv).fit(X, y)


def test_the_curve_goes_when_it_is_no_longer_asked_for():
    X, y = smooth_table()
    model = CARTRegressor(ccp_alpha="cv", random_state=0).fit(X, y)
    assert model.cv_alphas_[0] == 0.0 and len(model.cv_alphas_) == len(model.cv_errors_)
    model.set_params(ccp_alpha=0.1).fit(X, y)
    assert not hasattr(model, "cv_alphas_")
    assert model.ccp_alpha_ == 0.1


def test_verbose_counts_the_folds(capsys):
    X, y = smooth_table(60)
    CARTRegressor(ccp_alpha="cv", cv=3, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"fold {k} of 3" for k in (1, 2, 3)]
    CARTRegressor(ccp_alpha="cv", cv=3).fit(X, y)
    assert capsys.readouterr().out == ""


def test_many_rows_take_moments():
    # One walk of the validation rows serves every alpha; one per alpha would take hours.
    rng = np.random.default_rng(0)
    X = rng.random((20_000, 3))
    model = CARTRegressor(ccp_alpha="cv", random_state=0, cv=3).fit(X, X[:, 0] + rng.random(20_000))
    assert len(model.cv_alphas_) > 5000
    assert model.get_n_leaves() < 100
