"""`coef_` has one entry per input feature, whatever columns the regression has."""

from __future__ import annotations

import numpy as np
import pytest

import hybridtrees as ht

pd = pytest.importorskip("pandas")

N = 300
MODELS = {
    "linear": (ht.LinearRegressor, {}),
    "logistic": (ht.LogisticClassifier, {}),
    "eblr": (ht.EBLRRegressor, {"n_rules": 3, "early_stopping": None}),
    "eblr_classes": (ht.EBLRClassifier, {"n_rules": 3, "early_stopping": None}),
    "rerf": (ht.RERFRegressor, {"n_estimators": 3, "random_state": 0}),
    "rerf_classes": (ht.RERFClassifier, {"n_estimators": 3, "random_state": 0}),
    "rerf_means": (
        ht.RERFRegressor,
        {"n_estimators": 3, "random_state": 0, "categorical_encoding": "target_mean"},
    ),
}


@pytest.fixture(scope="module")
def table():
    """A strong category, a number, noise with gaps, a weak category, another number."""
    rng = np.random.default_rng(0)
    town = rng.choice(["a", "b", "c", "d"], N, p=[0.5, 0.2, 0.2, 0.1])
    frame = pd.DataFrame(
        {
            "town": pd.Categorical(np.where(rng.random(N) < 0.05, None, town)),
            "size": rng.standard_normal(N),
            "noise": np.where(rng.random(N) < 0.1, np.nan, rng.standard_normal(N)),
            "kind": pd.Categorical(rng.choice(["x", "y"], N)),
            "age": rng.standard_normal(N),
        }
    )
    effect = {"a": 0.0, "b": 6.0, "c": -6.0, "d": 12.0}
    y = np.array([effect[t] for t in town]) + 3 * frame["size"].to_numpy()
    return frame, y + 0.1 * rng.standard_normal(N), rng.exponential(size=N)


def fitted(name, table, n_classes, **more):
    frame, y, weight = table
    kind, own = MODELS[name]
    if name in ("logistic", "eblr_classes", "rerf_classes"):
        y = np.digitize(y, [0.0] if n_classes == 2 else [-2.0, 3.0])
    return kind(**own, **more), frame, y, weight


def contributions(model, frame, feature):
    """What the columns of a feature add to the scores, (n_rows, n_outputs), NaN if missing."""
    columns = model._design if hasattr(model, "_design") else model._columns
    values = model._read_features(frame)
    made = columns.expand(values) if hasattr(model, "_design") else columns.make(values)
    names = model.term_names_[: made.shape[1]]
    own = [
        j for j, name in enumerate(names) if name.split("=")[0] in (feature, f"mean of {feature}")
    ]
    return np.asarray(made)[:, own] @ np.atleast_2d(model.term_coef_)[:, own].T


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("indicator", [False, True])
def test_spread_of_the_levels(name, n_classes, indicator, table):
    model, frame, y, weight = fitted(name, table, n_classes, missing_indicator=indicator)
    model.fit(frame, y, weight)
    terms, coef = np.atleast_2d(model.term_coef_), np.atleast_2d(model.coef_)
    assert terms.shape[1] == len(model.term_names_) >= 5
    assert model.coef_.shape == (*np.shape(model.term_coef_)[:-1], 5)
    names = list(model.term_names_)
    for j, feature in ((1, "size"), (2, "noise"), (4, "age")):
        np.testing.assert_array_equal(coef[:, j], terms[:, names.index(feature)])
    for j, feature in ((0, "town"), (3, "kind")):
        effect = contributions(model, frame, feature)
        known = ~frame[feature].isna().to_numpy()
        w, effect = weight[known], effect[known]
        mean = np.average(effect, axis=0, weights=w)
        expected = np.sqrt(np.average((effect - mean) ** 2, axis=0, weights=w))
        np.testing.assert_allclose(coef[:, j], expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="read-only"):
        model.coef_[..., 0] = 1.0


@pytest.mark.parametrize("name", MODELS)
def test_before_fit(name):
    kind, own = MODELS[name]
    assert not hasattr(kind(**own), "coef_") and not hasattr(kind(**own), "term_coef_")


@pytest.mark.peer
@pytest.mark.parametrize("name", MODELS)
def test_feature_selection_of_scikit_learn(name, table):
    selection = pytest.importorskip("sklearn.feature_selection")
    model, frame, y, _ = fitted(name, table, 3)
    chosen = selection.SelectFromModel(model).fit(frame, y)
    assert chosen.get_feature_names_out().tolist() == ["town", "size"]
    with pytest.raises(ValueError, match=r"scikit-learn by its set_output\(transform='pandas'\)"):
        model.fit(chosen.transform(frame), y)
    kept = chosen.set_output(transform="pandas").transform(frame)
    assert model.fit(kept, y).feature_names_in_.tolist() == ["town", "size"]
    # RFE turns a frame into an array: categories are told by position, which does not move here.
    codes = frame.assign(town=frame["town"].cat.codes, kind=frame["kind"].cat.codes)
    model.set_params(categorical_features=[0], missing_indicator=True)
    found = selection.RFE(model, n_features_to_select=2, step=1).fit(codes, y)
    assert found.support_.tolist() == [True, True, False, False, False]


def test_rule_coefficients(table):
    frame, y, _ = table
    how = {"n_rules": 3, "early_stopping": None}
    for model, target in ((ht.EBLRRegressor(**how), y), (ht.EBLRClassifier(**how), y > 0)):
        model.fit(frame, target)
        assert model.rule_coef_.shape == (*model.coef_.shape[:-1], model.n_rules_)
        np.testing.assert_array_equal(model.rule_coef_, model.term_coef_[..., -model.n_rules_ :])
        assert [rule.coef for rule in model.rules_] == np.ravel(model.rule_coef_).tolist()
        assert model.term_names_[-model.n_rules_ :].tolist() == model.rule_names_


def test_linear_models_predict_by_edited_terms(table):
    frame, y, _ = table
    model = ht.LinearRegressor().fit(frame, y)
    before = model.predict(frame)
    with pytest.raises(AttributeError, match="edit term_coef_"):
        model.coef_ = np.zeros(5)
    model.term_coef_ = 2 * model.term_coef_
    np.testing.assert_allclose(
        model.predict(frame) - model.intercept_, 2 * (before - model.intercept_)
    )
    plain = ht.LinearRegressor().fit(frame[["size", "age"]], y)
    assert plain.coef_ is plain.term_coef_
