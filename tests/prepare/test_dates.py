"""Dates and times as features."""

from __future__ import annotations

import datetime
import pickle

import numpy as np
import pytest

import hybridtrees
from hybridtrees import DateFeatures, LinearRegressor
from hybridtrees.input.texts import parse_dates
from hybridtrees.prepare.calendar import PARTS, calendar_part, date_values

rng = np.random.default_rng(0)
MOMENTS = np.datetime64("2019-12-25T20:15:05", "us") + rng.integers(
    0, 3 * 365 * 86_400, 300
) * np.timedelta64(1, "s")


def table_of(kind, columns):
    if kind == "dict":
        return columns
    module = pytest.importorskip(kind)
    return module.table(columns) if kind == "pyarrow" else module.DataFrame(columns)


def as_dict(table):
    if isinstance(table, dict):
        return {name: np.asarray(column) for name, column in table.items()}
    names = getattr(table, "column_names", None) or list(table.columns)
    return {name: np.asarray(table[name]) for name in names}


@pytest.mark.parametrize("part", PARTS)
def test_parts_are_those_of_the_calendar(part):
    told = {"weekday": lambda d: d.weekday(), "day_of_year": lambda d: d.timetuple().tm_yday}
    expected = [told.get(part, lambda d: getattr(d, part))(d) for d in MOMENTS.tolist()]
    np.testing.assert_array_equal(calendar_part(MOMENTS, part), expected)
    early = np.array(["1901-03-01T23:59:59", "NaT"], dtype="datetime64[us]")
    expected = told.get(part, lambda d: getattr(d, part))(early.tolist()[0])
    np.testing.assert_array_equal(calendar_part(early, part), [expected, np.nan])


def test_the_year_is_left_out_where_elapsed_says_it():
    days = np.arange("2022-01-01", "2024-12-30", dtype="datetime64[D]")
    assert "d_year" in DateFeatures(elapsed=False).fit_transform({"d": days})
    table = DateFeatures().fit_transform({"d": days})
    assert "d_year" not in table and "d_elapsed" in table
    # A regression on year, day of the year and elapsed time would rest on rounding errors.
    y = np.sin(np.arange(len(days)) / 50.0)
    for seed in range(20):
        rows = np.random.default_rng(seed).choice(len(days), 600, replace=False)
        model = LinearRegressor().fit({name: table[name][rows] for name in table}, y[rows])
        assert np.abs(model.coef_).max() < 1e3


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars", "pyarrow"])
def test_every_kind_of_table_gives_the_same(kind):
    days = MOMENTS.astype("datetime64[ms]")
    days[3] = "NaT"
    names = np.array(["a", "b", "c"] * 100, dtype=object)
    X = {"x": np.arange(300.0), "when": days, "name": names}
    made = DateFeatures(parts=list(PARTS)).fit_transform(table_of(kind, X))
    columns = as_dict(made)
    parts = [*PARTS, "elapsed"]
    assert list(columns) == ["x", "name", *(f"when_{part}" for part in parts)]
    for part in PARTS:
        np.testing.assert_array_equal(columns[f"when_{part}"], calendar_part(days, part))
    known = ~np.isnat(days)
    elapsed = (days[known] - days[known].min()) / np.timedelta64(1, "D")
    np.testing.assert_allclose(columns["when_elapsed"][known], elapsed, rtol=1e-14)
    assert all(np.isnan(columns[f"when_{part}"][3]) for part in parts)
    assert columns["name"].tolist() == names.tolist()
    if kind != "dict":
        assert type(made).__module__.startswith(kind)


def test_arrays_of_dates_become_arrays_of_numbers():
    days = MOMENTS.astype("datetime64[D]")[:, None]
    dates = DateFeatures(parts=["year", "month"]).fit(days)
    made = dates.transform(days)
    assert made.dtype == np.float64 and made.shape == (300, 3)
    assert dates.get_feature_names_out().tolist() == ["x0_year", "x0_month", "x0_elapsed"]
    names = dates.get_feature_names_out(["day"]).tolist()
    assert names == ["day_year", "day_month", "day_elapsed"]
    mixed = np.empty((300, 2), dtype=object)
    mixed[:, 0], mixed[:, 1] = days[:, 0].tolist(), np.arange(300)
    again = DateFeatures(parts=["year", "month"]).fit_transform(mixed)
    np.testing.assert_array_equal(again, np.column_stack([np.arange(300.0), made]))


def test_tables_without_dates_stay_as_they_are():
    X = np.arange(12.0).reshape(6, 2)
    np.testing.assert_array_equal(DateFeatures().fit_transform(X), X)
    dates = DateFeatures().fit({"a": [1.0, 2.0], "b": ["u", "v"]})
    assert dates.get_feature_names_out().tolist() == ["a", "b"] and not len(dates.date_columns_)


def test_only_what_varies_in_fit_is_made():
    days = np.arange("2024-03-01", "2024-03-20", dtype="datetime64[D]")
    X = {
        "day": days,
        "same": np.full(len(days), np.datetime64("2024-01-01")),
        "x": days.astype(float),
    }
    dates = DateFeatures().fit(X)
    assert dates.parts_ == [["day", "weekday", "day_of_year", "elapsed"], []]
    assert dates.origins_.tolist()[0] == datetime.datetime(2024, 3, 1)
    # Later dates have the same columns, and time runs on from the first date of fit.
    later = {"day": days + 31, "same": days, "x": days.astype(float)}
    made = dates.transform(later)
    assert list(made) == list(dates.get_feature_names_out())
    assert made["day_elapsed"][0] == 31 and made["day_day"][0] == 1
    with pytest.raises(ValueError, match="only dates that do not vary"):
        DateFeatures().fit({"same": X["same"]})


def test_rounds_of_the_calendar():
    days = np.array(["2024-01-15", "2024-12-15", "2024-07-15"], dtype="datetime64[D]")
    made = DateFeatures(parts=["month"], elapsed=False, cyclic=True).fit_transform({"d": days})
    assert list(made) == ["d_month", "d_month_sin", "d_month_cos"]
    place = np.column_stack([made["d_month_sin"], made["d_month_cos"]])
    near, far = np.linalg.norm(place[0] - place[1]), np.linalg.norm(place[0] - place[2])
    assert near == pytest.approx(2 * np.sin(np.pi / 12)) and far == pytest.approx(2)
    np.testing.assert_allclose(np.linalg.norm(place, axis=1), 1)


def test_text_is_read_where_it_is_named():
    X = {"a": ["2024-05-31", None, "2024/06/01 12:30"], "b": ["2024-01-01", "x", "y"]}
    X = {name: np.array(column, dtype=object) for name, column in X.items()}
    dates = DateFeatures(columns="a").fit(X)
    made = dates.transform(X)
    np.testing.assert_array_equal(made["a_hour"], [0, np.nan, 12])
    assert list(DateFeatures().fit_transform(X)) == ["a", "b"]
    with pytest.raises(ValueError, match="column 'b' of X must hold dates such as .*got 'x'"):
        DateFeatures(columns=["b"]).fit(X)
    with pytest.raises(ValueError, match="column 'c' of X must hold dates .*got 5"):
        DateFeatures(columns=["c"]).fit({"c": [5.0, 6.0]})
    # In later tables the column may be empty, hold dates, or text; nothing else.
    empty = {**X, "a": np.full(3, None)}
    assert np.isnan(dates.transform(empty)["a_month"]).all()
    real = {**X, "a": np.array(["2024-07-01"] * 3, dtype="datetime64[s]")}
    assert dates.transform(real)["a_month"].tolist() == [7, 7, 7]
    with pytest.raises(ValueError, match="column 'a' of X held dates in fit"):
        dates.transform({**X, "a": np.arange(3.0)})


def test_dates_that_are_not_named_stay():
    X = {"a": MOMENTS, "b": MOMENTS + 5, "x": np.arange(300.0)}
    dates = DateFeatures(columns=["a"], parts=["month"]).fit(X)
    made = dates.transform(X)
    assert list(made) == ["b", "x", "a_month", "a_elapsed"] and made["b"].dtype.kind == "M"
    table = DateFeatures(columns=[1], parts=["month"]).fit_transform(np.column_stack([MOMENTS] * 2))
    assert table[0, 0] == MOMENTS[0].tolist() and table[0, 1] == MOMENTS[0].tolist().month


def test_types_of_dates_of_other_libraries():
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    noon = [datetime.time(12, 0), None, datetime.time(23, 59, 30)]
    as_times = np.array(["1970-01-01T12:00", "NaT", "1970-01-01T23:59:30"], "datetime64[us]")
    days = [datetime.date(2024, 5, 31), None, datetime.date(2020, 2, 29)]
    as_days = np.array(["2024-05-31", "NaT", "2020-02-29"], "datetime64[us]")
    for make in (pa.array, pl.Series, lambda v: pd.Series(v, dtype=object)):
        np.testing.assert_array_equal(date_values(make(noon)), as_times)
        np.testing.assert_array_equal(date_values(make(days)), as_days)
    # The clock on the wall counts, summer and winter.
    zoned = pd.Series(pd.to_datetime(["2024-07-01 08:00", None, "2024-01-01 08:00"]))
    zoned = zoned.dt.tz_localize("Europe/Rome")
    wall = np.array(["2024-07-01T08:00", "NaT", "2024-01-01T08:00"], "datetime64[us]")
    for series in (zoned, pl.from_pandas(zoned), pa.array(zoned), zoned.astype(object)):
        np.testing.assert_array_equal(date_values(series), wall)
    period = pd.Series(pd.period_range("2024-01", periods=2, freq="M"))
    assert date_values(period)[1] == np.datetime64("2024-02-01")
    for other in (pd.Series([1.0]), pl.Series(["a"]), pa.array([True]), np.array([1])):
        assert date_values(other) is None


def test_what_is_no_date():
    assert parse_dates(["2024-02-30"]) is None and parse_dates(["31.12.2024"]) is None
    assert parse_dates(["2024-05-31T25:00"]) is None and parse_dates(["2024-05-31", "x"]) is None


def test_names_that_are_taken_are_not_given_twice():
    X = {"d": MOMENTS, "d_year": np.arange(300.0)}
    made = DateFeatures(parts=["year"], elapsed=False).fit_transform(X)
    assert list(made) == ["d_year", "d_year_"] and made["d_year"][5] == 5


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"parts": ["century"]}, ValueError, "parts must be 'auto' or a list of 'year', .*century"),
        ({"parts": "month"}, ValueError, "parts must be 'auto' or a list of .*got 'month'"),
        ({"elapsed": 1}, TypeError, "elapsed must be True or False, got 1"),
        ({"cyclic": "yes"}, TypeError, "cyclic must be True or False, got 'yes'"),
        ({"columns": ["when"]}, ValueError, "columns names 'when', which X does not have"),
    ],
)
def test_wrong_parameters_are_refused(more, error, message):
    with pytest.raises(error, match=message):
        DateFeatures(**more).fit({"d": MOMENTS})


def test_other_tables_are_refused():
    dates = DateFeatures().fit({"d": MOMENTS, "x": np.arange(300.0)})
    with pytest.raises(ValueError, match="[Ff]eature names"):
        dates.transform({"e": MOMENTS, "x": np.arange(300.0)})
    with pytest.raises(hybridtrees.base.NotFittedError):
        DateFeatures().transform({"d": MOMENTS})
    pd = pytest.importorskip("pandas")
    twice = pd.DataFrame(np.zeros((3, 2)), columns=["a", "a"])
    with pytest.raises(ValueError, match="several columns of the same name"):
        DateFeatures().fit(twice)


@pytest.mark.parametrize("container", ["pandas", "polars"])
@pytest.mark.parametrize("kind", ["dict", "pandas", "polars", "pyarrow", "array"])
def test_the_container_is_chosen(container, kind):
    module = pytest.importorskip(container)
    X = MOMENTS[:, None] if kind == "array" else table_of(kind, {"d": MOMENTS, "x": np.arange(300)})
    dates = DateFeatures(parts=["month"]).set_output(transform=container)
    made = dates.fit_transform(X)
    assert isinstance(made, module.DataFrame)
    assert list(made.columns) == dates.get_feature_names_out().tolist()


def test_the_index_of_a_frame_stays():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"d": MOMENTS, "x": 1.0}, index=np.arange(300) * 7)
    made = DateFeatures().fit_transform(frame)
    assert made.index.equals(frame.index) and not made.isna().any().any()


def test_files_and_pickles(tmp_path):
    X = {"d": MOMENTS, "x": np.arange(300.0)}
    dates = DateFeatures(columns=["d"], cyclic=True).fit(X)
    dates.save(tmp_path / "dates.htree")
    for again in (hybridtrees.load(tmp_path / "dates.htree"), pickle.loads(pickle.dumps(dates))):
        assert again.get_params() == dates.get_params()
        for name, values in dates.transform(X).items():
            np.testing.assert_array_equal(again.transform(X)[name], values)
    for change in ({"parts_": [["age"]]}, {"parts_": []}, {"date_columns_": np.array([7])}):
        broken = pickle.loads(pickle.dumps(dates))
        vars(broken).update(change)
        with pytest.raises(ValueError, match="DateFeatures"):
            broken._check_state()


def test_in_a_pipeline_with_a_model():
    pipeline = pytest.importorskip("sklearn.pipeline")
    y = np.sin(2 * np.pi * calendar_part(MOMENTS, "month") / 12)
    model = pipeline.make_pipeline(DateFeatures(), hybridtrees.CARTRegressor())
    assert model.fit({"d": MOMENTS}, y).score({"d": MOMENTS}, y) > 0.999
