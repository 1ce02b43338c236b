"""Bundled tables and generators."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest
from fresh_python import check_python

from hybridtrees import XGBRegressor, datasets
from hybridtrees.datasets import (
    Dataset,
    load_breast_cancer,
    load_heart_failure,
    load_iris,
    make_house_prices,
    make_seasonal_series,
)

ALL = [load_breast_cancer, load_heart_failure, load_iris, make_house_prices, make_seasonal_series]


@pytest.mark.parametrize(
    ("load", "shape", "positives", "target"),
    [
        (load_breast_cancer, (569, 30), 212, "diagnosis"),
        (load_heart_failure, (299, 12), 96, "death_event"),
    ],
)
def test_bundled_tables(load, shape, positives, target):
    table = load()
    assert table.data.shape == shape == table.shape
    assert table.data.dtype == np.float64 and table.data.flags.c_contiguous
    assert np.isfinite(table.data).all()
    assert table.target.dtype == np.int64 and np.unique(table.target).tolist() == [0, 1]
    assert table.target.sum() == positives
    assert table.target_name == target and target not in table.feature_names
    assert len(set(table.feature_names)) == shape[1]
    assert "CC BY 4.0" in table.description
    assert table.categories == {} and table.categorical_features == []


def test_iris_equals_the_copy_in_scikit_learn():
    ours = load_iris()
    assert ours.shape == (150, 4) and "public domain" in ours.description
    assert np.bincount(ours.target).tolist() == [50, 50, 50]
    peer = pytest.importorskip("sklearn.datasets").load_iris()
    np.testing.assert_array_equal(ours.data, peer.data)
    np.testing.assert_array_equal(ours.target, peer.target)


def test_breast_cancer_equals_the_copy_in_scikit_learn():
    peer = pytest.importorskip("sklearn.datasets").load_breast_cancer()
    ours = load_breast_cancer()
    # scikit-learn codes malignant as 0 and keeps the original order of rows.
    table = np.column_stack([ours.data, 1 - ours.target])
    other = np.column_stack([peer.data, peer.target])
    np.testing.assert_array_equal(
        table[np.lexsort(table.T[::-1])], other[np.lexsort(other.T[::-1])]
    )


def test_tables_equal_their_source(shared_data):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    parts = [
        pd.read_parquet(shared_data / f"breast_cancer_{part}.parquet")
        for part in ("train", "validation", "test")
    ]
    source = pd.concat(parts)
    ours = load_breast_cancer()
    np.testing.assert_array_equal(ours.target, source.pop("diagnosis"))
    np.testing.assert_array_equal(ours.data, source)
    source = pd.read_parquet(shared_data / "heart_failure.parquet")
    ours = load_heart_failure()
    np.testing.assert_array_equal(ours.target, source.pop("DEATH_EVENT"))
    np.testing.assert_array_equal(ours.data, source)
    assert list(ours.feature_names) == list(source)


def test_bundle_is_small_and_says_its_licence():
    folder = resources.files("hybridtrees.datasets")
    sizes = [len(f.read_bytes()) for f in folder.iterdir() if f.name.endswith(".gz")]
    assert len(sizes) == 3 and sum(sizes) < 200_000
    note = folder.joinpath("README.md").read_text()
    assert note.count("CC BY 4.0") == 2 and note.count("public domain") == 1


@pytest.mark.parametrize(
    ("load", "make"),
    [
        (datasets.load_house_prices, make_house_prices),
        (datasets.load_seasonal_series, make_seasonal_series),
    ],
)
def test_loaded_draws_are_those_of_the_seed_0(load, make):
    np.testing.assert_array_equal(load().target, make(1500, 0).target)
    np.testing.assert_array_equal(load().to_array(), make(1500, 0).to_array())


@pytest.mark.parametrize("make", [make_house_prices, make_seasonal_series])
def test_generators_follow_their_seed(make):
    def flat(dataset):
        return np.column_stack([dataset.to_array(), dataset.target])

    np.testing.assert_array_equal(flat(make(200, 5)), flat(make(200, 5)))
    assert not np.array_equal(flat(make(200, 5)), flat(make(200, 6)), equal_nan=True)
    assert make(1, 0).shape[0] == 1
    with pytest.raises(ValueError, match="n must be an integer of at least 1, got 0"):
        make(0)
    for wrong in (2.5, True):
        with pytest.raises(TypeError, match=f"n must be an integer of at least 1, got {wrong}"):
            make(wrong)


def test_house_prices_have_categories_and_three_kinds_of_missing():
    houses = make_house_prices(4000, random_state=0)
    data = houses.data
    assert houses.shape == (4000, 15) and tuple(data) == houses.feature_names
    assert houses.target.min() > 0 and 100 < np.median(houses.target) < 400
    for name, levels in houses.categories.items():
        found = {value for value in data[name] if value is not None}
        assert found == set(levels)
    np.testing.assert_array_equal(np.isnan(data["garage_year"]), data["garage_cars"] == 0)
    assert 0.12 < np.isnan(data["lot_frontage"]).mean() < 0.18
    assert 0.01 < np.isnan(data["basement_area"]).mean() < 0.05
    assert all(not np.isnan(data[k]).any() for k in ("living_area", "quality", "year_built"))


def test_house_prices_as_array():
    houses = make_house_prices(300, random_state=1)
    matrix = houses.to_array()
    assert matrix.dtype == np.float64 and matrix.shape == houses.shape
    assert houses.categorical_features == [11, 12, 13, 14]
    for j in houses.categorical_features:
        name = houses.feature_names[j]
        levels = houses.categories[name]
        for code, value in zip(matrix[:, j], houses.data[name], strict=True):
            assert np.isnan(code) if value is None else levels[int(code)] == value


def test_seasonal_series_without_noise_is_its_formula():
    series = make_seasonal_series(100, period=12, trend=0.5, amplitude=2.0, noise=0.0, n_lags=2)
    t = np.arange(100)
    angle = 2 * np.pi * t / 12
    expected = 20 + 0.5 * t + 2.0 * (0.8 * np.sin(angle) + 0.4 * np.cos(2 * angle))
    np.testing.assert_allclose(series.target, expected, atol=1e-9)
    columns = dict(zip(series.feature_names, series.data.T, strict=True))
    np.testing.assert_array_equal(columns["time"], t)
    np.testing.assert_array_equal(columns["phase"], t % 12)
    np.testing.assert_array_equal(columns["lag_1"][1:], series.target[:-1])
    np.testing.assert_array_equal(columns["lag_2"][2:], series.target[:-2])
    np.testing.assert_array_equal(columns["lag_season"][12:], series.target[:-12])
    for wrong in ({"noise": -1.0}, {"noise": np.nan}, {"trend": np.inf}, {"amplitude": np.nan}):
        name, value = next(iter(wrong.items()))
        with pytest.raises(ValueError, match=f"{name} must be a real number.*, got {value}"):
            make_seasonal_series(10, **wrong)


@pytest.mark.parametrize("load", ALL)
def test_as_frame(load):
    pd = pytest.importorskip("pandas")
    seed = {} if load.__name__.startswith("load_") else {"random_state": 3}
    plain, framed = load(**seed), load(**seed, as_frame=True)
    assert isinstance(framed, Dataset)
    assert list(framed.data.columns) == list(plain.feature_names)
    assert framed.target.name == plain.target_name
    np.testing.assert_array_equal(framed.target, plain.target)
    np.testing.assert_array_equal(framed.to_array(), plain.to_array())
    for name in plain.categories:
        assert isinstance(framed.data[name].dtype, pd.CategoricalDtype)


@pytest.mark.parametrize("as_frame", [False, True])
@pytest.mark.parametrize("name", sorted(n for n in datasets.__all__ if n.startswith("load_")))
def test_loaders_return_pairs(name, as_frame):
    if as_frame:
        pytest.importorskip("pandas")
    load = getattr(datasets, name)
    whole, pair = load(as_frame=as_frame), load(as_frame=as_frame, return_X_y=True)
    assert type(pair) is tuple and len(pair) == 2
    assert type(pair[0]) is type(whole.data) and type(pair[1]) is type(whole.target)
    np.testing.assert_array_equal(pair[1], whole.target)
    for column in whole.data if isinstance(whole.data, dict) or as_frame else [slice(None)]:
        assert list(np.ravel(pair[0][column]).astype(str)) == list(
            np.ravel(whole.data[column]).astype(str)
        )


@pytest.mark.parametrize("load", ALL)
def test_models_take_the_data_as_it_is(load):
    dataset = load()
    model = XGBRegressor(n_estimators=10, n_jobs=1).fit(dataset.data, dataset.target)
    assert model.score(dataset.data, dataset.target) > 0.7
    categories = [j for j in range(dataset.shape[1]) if model._reader.is_categorical[j]]
    assert categories == dataset.categorical_features


def test_houses_mean_the_same_as_a_dict_and_as_a_frame():
    pytest.importorskip("pandas")
    plain, framed = make_house_prices(400, 2), make_house_prices(400, 2, as_frame=True)
    model = XGBRegressor(n_estimators=5, n_jobs=1).fit(plain.data, plain.target)
    assert tuple(model.feature_names_in_) == plain.feature_names
    np.testing.assert_array_equal(model.predict(plain.data), model.predict(framed.data))


@pytest.mark.parametrize("load", ALL)
def test_short_repr(load):
    text = repr(load())
    assert len(text) < 100 and text.startswith("Dataset(task=")


def test_pandas_is_imported_only_for_frames():
    code = (
        "import sys; from hybridtrees.datasets import *; load_breast_cancer(); "
        "make_house_prices(50, 0).to_array(); assert 'pandas' not in sys.modules; "
        "sys.modules['pandas'] = None\n"
        "try: load_heart_failure(as_frame=True)\n"
        "except ImportError as error: assert 'as_frame=True needs pandas' in str(error)\n"
        "else: raise SystemExit('no error')"
    )
    check_python(code)


def test_public_names():
    draws = [datasets.load_house_prices, datasets.load_seasonal_series]
    assert sorted(datasets.__all__) == sorted(thing.__name__ for thing in [*ALL, *draws, Dataset])
