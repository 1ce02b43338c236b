"""Files of other libraries in tests/data/foreign predict what their owners predicted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hybridtrees
from hybridtrees import inspection
from hybridtrees.exchange import ImportedClassifier, ImportedRegressor

FOLDER = Path(__file__).parents[1] / "data" / "foreign"
FILES = sorted(path for path in FOLDER.iterdir() if path.suffix in (".json", ".ubj", ".txt"))


def take_over(path):
    """The model in a file, by the name of the file."""
    return getattr(hybridtrees, f"from_{path.name.partition('_')[0]}")(path)


def test_every_library_and_format_is_there():
    kinds = {(path.name.partition("_")[0], path.suffix) for path in FILES}
    assert kinds == {
        ("xgboost", ".json"), ("xgboost", ".ubj"), ("lightgbm", ".txt"), ("catboost", ".json")
    }  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_margins_are_those_of_the_owner(path):
    stored = np.load(path.with_suffix(".npz"))
    model = take_over(path)
    X, expected = stored["X"], stored["raw"]
    # XGBoost adds in float32, CatBoost and LightGBM in float64.
    tolerance = 2e-6 if path.name.startswith("xgboost") else 1e-14
    np.testing.assert_allclose(model.predict_raw(X), expected, rtol=tolerance, atol=tolerance)
    few = np.concatenate([model.predict_raw(row[None]) for row in X])
    np.testing.assert_array_equal(few, model.predict_raw(X))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_model_is_an_estimator(path, tmp_path):
    X = np.load(path.with_suffix(".npz"))["X"]
    model = take_over(path)
    assert isinstance(model, ImportedClassifier | ImportedRegressor)
    model.save(tmp_path / "model.htree")
    loaded = hybridtrees.load(tmp_path / "model.htree")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.apply(X), model.apply(X))
    assert loaded.summary() == model.summary()
    assert inspection.export_text(model).startswith("|---")
    assert inspection.export_dot(model).startswith("digraph")
    assert model.feature_importances_.sum() == pytest.approx(1)
    shown = inspection.partial_dependence(model, X[:30], [0])
    assert np.isfinite(shown.average).all()
    if isinstance(model, ImportedClassifier):
        proba = model.predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
    with pytest.raises(NotImplementedError, match="cannot be fitted"):
        model.fit(X, X[:, 0])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_covers_and_values_of_nodes_add_up(path):
    trees = take_over(path).trees_
    for k in range(len(trees)):
        tree = trees[k]
        inner = np.flatnonzero(tree.nodes["left"] >= 0)
        left, right = tree.nodes["left"][inner], tree.nodes["right"][inner]
        weight = tree.nodes["weight"]
        np.testing.assert_allclose(weight[left] + weight[right], weight[inner], rtol=1e-5)
        sums = tree.values * weight[:, None]
        total = np.where((weight[inner] > 0)[:, None], sums[left] + sums[right], sums[inner])
        np.testing.assert_allclose(total, sums[inner], rtol=1e-4, atol=1e-6)


def test_json_and_ubjson_are_the_same_model():
    for path in FOLDER.glob("xgboost*_ubj.ubj"):
        one, two = take_over(path), take_over(Path(str(path).replace("ubj", "json")))
        np.testing.assert_array_equal(one.trees_.nodes, two.trees_.nodes)
        np.testing.assert_array_equal(one.trees_.categories, two.trees_.categories)
