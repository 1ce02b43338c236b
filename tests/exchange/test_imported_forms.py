"""Imported models are explained and exported like our own."""

from pathlib import Path

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees.core.tree.additive import additive_form

TESTS = Path(__file__).parents[1]


def data(rng, n_classes=0):
    X = rng.normal(size=(400, 4)).astype(np.float32).astype(np.float64)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) * 2 + (np.nan_to_num(X[:, 1]) > 0)
    return X, np.digitize(
        y, np.quantile(y, np.arange(1, n_classes) / n_classes)
    ) if n_classes else y


def imported(library, n_classes, rng):
    X, y = data(rng, n_classes)
    if library == "xgboost":
        module = pytest.importorskip("xgboost")
        kind = module.XGBClassifier if n_classes else module.XGBRegressor
        return ht.from_xgboost(kind(n_estimators=8, max_depth=3).fit(X, y)), X
    if library == "lightgbm":
        module = pytest.importorskip("lightgbm")
        kind = module.LGBMClassifier if n_classes else module.LGBMRegressor
        how = {"n_estimators": 8, "verbose": -1, "linear_tree": not n_classes}
        return ht.from_lightgbm(kind(**how).fit(X, y)), X
    module = pytest.importorskip("sklearn.ensemble")
    kind = module.RandomForestClassifier if n_classes else module.HistGradientBoostingRegressor
    how = {"n_estimators": 8} if n_classes else {"max_iter": 8}
    return ht.from_sklearn(kind(random_state=0, **how).fit(X, y)), X


@pytest.mark.peer
@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "sklearn"])
def test_forms_of_imported_models(library, n_classes, rng):
    model, X = imported(library, n_classes, rng)
    form = additive_form(model)
    truth = model.predict_proba(X) if n_classes else model.predict(X)
    np.testing.assert_allclose(
        form.predictions(form.read(X)).reshape(truth.shape), truth, rtol=1e-9
    )
    compiled = model.compile()
    method = compiled.predict_proba if n_classes else compiled.predict
    np.testing.assert_allclose(method(X), truth, rtol=1e-9)
    found = model.shap_values(X[:50])
    sums = (np.asarray(found.values).sum(axis=1) + found.base_values).reshape(50, -1)
    # Of two shares the second is explained.
    scores = form.scores(form.read(X[:50]))[:, -sums.shape[1] :]
    np.testing.assert_allclose(sums, scores, rtol=1e-9, atol=1e-12)
    assert "double" in model.to_c() and model.to_json() and model.to_sql().query


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("stem", ["catboost_classes", "catboost_oblivious"])
def test_shap_of_categories_that_an_imported_model_does_not_know(stem):
    model = ht.from_catboost(TESTS / "data" / "foreign" / f"{stem}.json")
    labels = model._reader.categories[2]
    X = np.array([[0.5, -0.5, labels[0], "of no split"], [0.5, -0.5, "unheard of", None]], object)
    found = model.shap_values(X)
    scores = additive_form(model).scores(additive_form(model).read(X))
    sums = np.asarray(found.values).sum(axis=1) + found.base_values
    np.testing.assert_allclose(sums.reshape(2, -1), scores, rtol=1e-9, atol=1e-12)
    assert found.display_data[:, 2].tolist() == [labels[0], None]


@pytest.mark.peer
def test_links_without_a_name_are_refused(rng):
    lightgbm = pytest.importorskip("lightgbm")
    X, y = data(rng)
    owner = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1, reg_sqrt=True).fit(X, y)
    with pytest.raises(TypeError, match="link 'signed_square' of the imported model"):
        ht.from_lightgbm(owner).to_c()
