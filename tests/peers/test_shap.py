"""Shapley values against xgboost's contributions, and against the package shap on equal trees."""

import numpy as np
import pytest

import hybridtrees as ht

pytestmark = pytest.mark.peer


def alike(found, wanted):
    """Share of entries that are equal to the precision of xgboost: a tie may be split otherwise."""
    return np.isclose(found, wanted, rtol=2e-3, atol=2e-3).mean()


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_xgboost(n_classes):
    """The same trees, so the same contributions and interactions; xgboost computes in float32."""
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.integers(0, 30, size=(1500, 6)).astype(float)
    X[100:][rng.random((1400, 6)) < 0.05] = np.nan  # nodes without them send them elsewhere
    y = np.nan_to_num(X[:, 0]) * (np.nan_to_num(X[:, 1]) > 12) + rng.normal(size=1500)
    kinds = (ht.XGBRegressor, xgboost.XGBRegressor)
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
        kinds = (ht.XGBClassifier, xgboost.XGBClassifier)
    how = {"n_estimators": 8, "max_depth": 4, "tree_method": "hist", "reg_lambda": 1.0}
    ours, theirs = (kind(**how).fit(X, y) for kind in kinds)
    booster, rows = theirs.get_booster(), xgboost.DMatrix(X[:100])
    wanted = booster.predict(rows, pred_contribs=True)
    wanted = wanted[:, None] if wanted.ndim == 2 else wanted
    found = ours.shap_values(X[:100]).values
    found = found[:, :, None] if found.ndim == 2 else found
    assert alike(found, np.moveaxis(wanted[..., :-1], 1, 2)) > 0.98
    wanted = booster.predict(rows, pred_interactions=True)
    wanted = wanted[:, None] if wanted.ndim == 3 else wanted
    both = ours.shap_values(X[:100], interactions=True).values
    both = both[..., None] if both.ndim == 3 else both
    assert alike(both, np.moveaxis(wanted[..., :-1, :-1], 1, 3)) > 0.98


MODELS = {
    "cart": ht.CARTRegressor(max_depth=5),
    "forest": ht.RandomForestRegressor(n_estimators=4, random_state=0),
    "boosting": ht.GradientBoostingRegressor(n_estimators=5),
    "xgb": ht.XGBRegressor(n_estimators=5, max_depth=4),
    "classes": ht.RandomForestClassifier(n_estimators=4, random_state=0),
    "three classes": ht.XGBClassifier(n_estimators=3, max_depth=3),
}


@pytest.mark.parametrize("name", MODELS)
def test_shap(name):
    shap = pytest.importorskip("shap")
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 5))
    y = X[:, 0] * X[:, 1] + X[:, 2]
    if name == "classes":
        y = y > 0
    elif name == "three classes":
        y = np.digitize(y, [-0.5, 0.5])
    model = MODELS[name].fit(X, y)
    # It reads other classes only, and must not take our trees for those of scikit-learn.
    with pytest.raises(Exception, match="Unknown input to SingleTree|not yet supported"):
        shap.TreeExplainer(model)
    explainer = shap.TreeExplainer(model.to_shap())
    wanted = np.asarray(explainer.shap_values(X[:40], check_additivity=False))
    found = model.shap_values(X[:40])
    np.testing.assert_allclose(found.values, wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        found.base_values[0], np.squeeze(explainer.expected_value), rtol=1e-6, atol=1e-6
    )
    wanted = np.asarray(explainer.shap_interaction_values(X[:40]))
    both = model.shap_values(X[:40], interactions=True).values
    np.testing.assert_allclose(both, wanted.reshape(both.shape), rtol=1e-5, atol=1e-5)
    explainer = shap.TreeExplainer(model.to_shap(), data=X[:20])
    wanted = np.asarray(explainer.shap_values(X[:40], check_additivity=False))
    found = model.shap_values(X[:40], background=X[:20])
    np.testing.assert_allclose(found.values, wanted, rtol=1e-5, atol=1e-5)


def test_explanation_of_shap():
    shap = pytest.importorskip("shap")
    X, y = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 3
    for target in (y > 0, y):
        result = ht.XGBClassifier(n_estimators=2).fit(X, target).shap_values(X)
        explanation = shap.Explanation(**result)
        assert explanation.shape == result.values.shape
        np.testing.assert_array_equal(explanation[0].values, result.values[0])
