"""Model files of an earlier version load and say what they said then."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
from model_files import outputs, readable

import hybridtrees

FILES = sorted((Path(__file__).parent / "data" / "models").glob("*.htree"))

# Sums of constants, the same on every machine. Lines, exponentials and means over leaves take their
# last bits from the processor's libraries.
EXACT = ("cart", "random_forest", "gradient_boosting_regressor", "xgb_regressor")


def stored(path):
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
        rows = {key[3:]: arrays[key] for key in arrays if key.startswith("in_")}
        expected = {key[4:]: arrays[key] for key in arrays if key.startswith("out_")}
    return readable(rows), expected


def same(found, expected, exact):
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if exact or expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_says_what_it_said(path, tmp_path):
    X, expected = stored(path)
    model = hybridtrees.load(path)
    found = outputs(model, X)
    assert found.keys() >= expected.keys() and expected
    for name in expected:
        if path.stem == "proximity_imputer":
            same_tables(found[name], expected[name])
        else:
            same(found[name], expected[name], path.stem.startswith(EXACT))
    # What was read can be written again, as users do who move to a new version.
    model.save(tmp_path / "again.htree")
    again = outputs(hybridtrees.load(tmp_path / "again.htree"), X)
    for name, value in found.items():
        np.testing.assert_array_equal(again[name], value)


def test_coefficients_of_old_files():
    models = [hybridtrees.load(path) for path in FILES]
    linear = [model for model in models if hasattr(model, "coef_")]
    assert len(linear) == 6
    for model in linear:
        assert model.coef_.shape[-1] == model.n_features_in_
        assert model.term_coef_.shape[-1] == len(model.term_names_) > model.n_features_in_


def same_tables(found, expected):
    """Texts of numbers and categories."""
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found[:, 3], expected[:, 3])
    np.testing.assert_allclose(found[:, :3].astype(float), expected[:, :3].astype(float), 1e-12)


def test_there_is_a_file_of_every_estimator():
    public = [getattr(hybridtrees, name) for name in hybridtrees.__all__]
    public = {one for one in public if inspect.isclass(one) and hasattr(one, "save")}
    assert public == {type(hybridtrees.load(path)) for path in FILES}


def test_the_rows_lack_values_and_name_unknown_categories():
    X, _ = stored(FILES[0])
    assert np.isnan(X["price"]).any()
    assert None in X["colour"] and "pink" in X["colour"]


@pytest.mark.parametrize("name", ["linear_tree_regressor", "plgb_regressor"])
def test_trees_with_lines_were_stored(name):
    model = hybridtrees.load(next(path for path in FILES if path.stem == name))
    tree = getattr(model, "tree_", None) or model.trees_
    assert np.count_nonzero(tree.coef) > 5
    assert (tree.nodes["category_start"] >= 0).any()
