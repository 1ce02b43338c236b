"""The imputer and the forms that tables and targets come in."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from hybridtrees.linear.regressor import LinearRegressor
from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor
from hybridtrees.models.forest.imputer import ProximityImputer


def quick(**parameters):
    return ProximityImputer(n_estimators=10, random_state=0, n_jobs=1, **parameters)


def holed_numbers(rng, n=120, p=4):
    X = rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=(n, p))
    return np.where(rng.random(X.shape) < 0.15, np.nan, X)


def holed_frame(pandas, rng, n=90):
    """Numbers, text and a category type, each with gaps."""
    kind = rng.choice(["a", "b", "c"], n)
    frame = pandas.DataFrame(
        {
            "x": np.select([kind == "a", kind == "b"], [0.0, 5.0], 10.0) + rng.normal(size=n),
            "word": kind.astype(object),
            "level": pandas.Categorical(kind),
        }
    )
    for name in frame:
        frame.loc[rng.random(n) < 0.2, name] = None
    return frame


@pytest.mark.parametrize(
    ("y", "model"),
    [
        (np.arange(200) * 7, RandomForestRegressor),
        (np.arange(200) * 7.0, RandomForestRegressor),
        (np.arange(200) % 30, RandomForestRegressor),
        ((np.arange(200) * 7).astype(object), RandomForestRegressor),
        (np.arange(200) / 3, RandomForestRegressor),
        (np.arange(200) % 20, RandomForestClassifier),
        (np.arange(200) % 20 * 1.0, RandomForestClassifier),
        (np.arange(200) % 2 == 0, RandomForestClassifier),
        ([f"label {k % 50}" for k in range(200)], RandomForestClassifier),
    ],
    ids=["int", "whole", "30 of 200", "object", "real", "20 of 200", "whole 20", "bool", "text"],
)
def test_whole_numbers_are_classes_only_while_they_are_few(rng, y, model):
    imputer = quick(n_rounds=1).fit(holed_numbers(rng, 200), y)
    assert type(imputer._forest) is model


def test_a_category_type_holds_classes(rng):
    pandas = pytest.importorskip("pandas")
    y = pandas.Series(np.arange(60) // 2).astype("category")
    assert type(quick(n_rounds=1).fit(holed_numbers(rng, 60), y)._forest) is RandomForestClassifier


@pytest.mark.parametrize("n_rounds", [0, 1, 3])
def test_rows_of_fit_get_the_fill_they_got_there(rng, n_rounds):
    X = holed_numbers(rng)
    y = np.nansum(X, axis=1)
    imputer = quick(n_rounds=n_rounds)
    filled = imputer.fit_transform(X, y)
    np.testing.assert_array_equal(imputer.transform(X), filled)
    np.testing.assert_array_equal(imputer.transform(X[40:70]), filled[40:70])
    np.testing.assert_array_equal(imputer.transform(np.negative(-X)), filled)


def test_new_rows_are_refilled_as_often_as_those_of_fit(rng):
    X = holed_numbers(rng)
    new = np.array([[np.nan, 2.0, 2.0, 2.0]])
    rough = quick(n_rounds=0).fit(X)
    assert rough.transform(new)[0, 0] == rough.statistics_[0]
    whole = np.where(np.isnan(X), 0.0, X)
    # Nothing was refilled in fit as nothing was missing; a new row is all the same.
    assert quick().fit(whole, whole[:, 1]).transform(new)[0, 0] > 0.5


def test_a_category_that_is_new_stays(rng):
    pandas = pytest.importorskip("pandas")
    frame = holed_frame(pandas, rng)
    imputer = quick().fit(frame)
    new = frame.copy()
    new["word"] = frame["word"].where(np.arange(len(frame)) % 3 > 0, "zz")
    new["level"] = pandas.Categorical(np.where(np.arange(len(frame)) % 3 > 0, None, "zz"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        filled = imputer.transform(new)
    assert not filled.isna().any().any()
    for name in ("word", "level"):
        present = new[name].notna()
        assert (filled[name][present].astype(object) == new[name][present].astype(object)).all()
        assert set(filled[name][~present]) <= {"a", "b", "c"}
    assert isinstance(filled["level"].dtype, pandas.CategoricalDtype)
    assert filled["level"].cat.categories[0] == "zz"
    assert list(new["level"].cat.categories) == ["zz"]


def test_a_category_that_is_new_stays_in_an_array(rng):
    pandas = pytest.importorskip("pandas")
    table = holed_frame(pandas, rng).to_numpy(dtype=object)
    imputer = quick(categorical_features=[1, 2]).fit(table)
    new = table.copy()
    new[:5, 1] = "zz"
    new[5, 1] = None
    filled = imputer.transform(new)
    assert (filled[:5, 1] == "zz").all()
    assert filled[5, 1] in ("a", "b", "c")
    assert not pandas.isna(filled).any()


def test_a_category_that_is_new_stays_in_polars(rng):
    polars = pytest.importorskip("polars")
    x = rng.normal(size=60)
    kind = np.where(x > 0, "a", "b").tolist()
    kind[3] = kind[4] = None
    train = polars.DataFrame({"x": x, "k": kind})
    for dtype in (polars.String, polars.Categorical, polars.Enum(["zz"])):
        new = polars.DataFrame(
            {"x": x[:4], "k": polars.Series(["zz", None, "zz", None], dtype=dtype)}
        )
        filled = quick().fit(train).transform(new)["k"].to_list()
        assert filled[0] == filled[2] == "zz"
        assert {filled[1], filled[3]} <= {"a", "b"}


def test_numbers_as_labels_keep_the_type_of_the_categories(rng):
    pandas = pytest.importorskip("pandas")
    codes = rng.integers(0, 3, 80)
    labels = codes.astype(object)
    labels[:10] = None
    frame = pandas.DataFrame(
        {
            "x": codes + 0.1 * rng.normal(size=80),
            "k": pandas.Categorical(labels, categories=[0, 1, 2]),
            "flag": pandas.Categorical(np.where(codes[::-1] > 0, None, codes > 1)),
        }
    )
    filled = quick().fit_transform(frame, codes)
    assert not filled.isna().any().any()
    for name in ("k", "flag"):
        assert filled[name].dtype == frame[name].dtype
    assert np.mean(filled["k"].astype(int)[:10] == codes[:10]) > 0.8


def test_columns_without_any_value(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "x": np.where(np.arange(40) == 3, np.nan, rng.normal(size=40)),
            "empty level": pandas.Categorical([None] * 40, categories=["a"]),
            "empty object": np.full(40, None),
            "empty number": np.full(40, np.nan),
        }
    )
    imputer = quick()
    with pytest.warns(UserWarning, match="'empty level', 'empty object', 'empty number'") as seen:
        filled = imputer.fit_transform(frame)
    assert seen[0].filename == __file__
    assert filled["empty level"].isna().all() and filled["empty object"].isna().all()
    assert (filled["empty number"] == 0).all()
    assert not np.isnan(filled["x"]).any()
    pandas.testing.assert_frame_equal(imputer.transform(frame), filled)
    again = frame.assign(**{"empty level": pandas.Categorical(["a"] * 40)})
    assert (imputer.transform(again)["empty level"] == "a").all()
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"x": frame["x"].to_list(), "none": [None] * 40})
    with pytest.warns(UserWarning, match="none"):
        assert quick().fit_transform(table)["none"].null_count() == 40


def test_names_that_occur_twice(rng):
    pandas = pytest.importorskip("pandas")
    X = holed_numbers(rng)
    frame = pandas.DataFrame(X, columns=["a", "b", "a", "b"])
    filled = quick().fit_transform(frame)
    assert list(filled.columns) == ["a", "b", "a", "b"]
    np.testing.assert_array_equal(filled.to_numpy(), quick().fit_transform(X))


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_output_in_the_container_asked_for(rng, container):
    package = pytest.importorskip(container)
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    X = holed_numbers(rng)
    plain = quick().fit_transform(X)
    names = ["a", "b", "c", "d"]
    for table in (X, pandas.DataFrame(X, columns=names), polars.DataFrame(X, schema=names)):
        imputer = quick().set_output(transform=container)
        for made in (imputer.fit_transform(table), imputer.transform(table)):
            assert type(made) is package.DataFrame
            np.testing.assert_array_equal(made.to_numpy(), plain)
            assert list(made.columns) == (names if table is not X else ["x0", "x1", "x2", "x3"])
    with pytest.raises(ValueError, match="transform"):
        quick().set_output(transform="excel")


def test_output_with_categories(rng):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    frame = holed_frame(pandas, rng)
    filled = quick().fit_transform(frame)
    made = quick().set_output(transform="polars").fit_transform(frame)
    assert isinstance(made, polars.DataFrame) and made.schema["x"] == polars.Float64
    assert made["word"].to_list() == filled["word"].tolist()
    columns = {name: [None if v != v else v for v in frame[name]] for name in frame}
    made = quick().set_output(transform="pandas").fit_transform(polars.DataFrame(columns))
    assert made["word"].tolist() == filled["word"].tolist()
    np.testing.assert_array_equal(made["x"].to_numpy(dtype=np.float64), filled["x"])


def test_pipelines_set_the_output(rng):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    from sklearn.pipeline import make_pipeline

    X = holed_numbers(rng)
    y = np.nansum(X, axis=1)
    pipeline = make_pipeline(quick(), LinearRegressor()).set_output(transform="pandas").fit(X, y)
    assert isinstance(pipeline[:-1].transform(X), pandas.DataFrame)
    assert pipeline.score(X, y) > 0.5
