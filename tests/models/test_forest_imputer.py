"""Missing values filled in by proximities."""

from __future__ import annotations

import forest_oracle as oracle
import numpy as np
import pytest

import hybridtrees
from hybridtrees.models.forest.estimators import RandomForestRegressor
from hybridtrees.models.forest.imputer import ProximityImputer


def correlated_table(n=250, share=0.15, seed=0):
    """Columns that follow from two hidden ones, some entries of them missing."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, 2))
    X = hidden @ rng.normal(size=(2, 5)) + 0.2 * rng.normal(size=(n, 5))
    y = hidden[:, 0] + 0.5 * hidden[:, 1]
    gaps = rng.random(X.shape) < share
    return X, np.where(gaps, np.nan, X), gaps, y


def error(filled, X, gaps):
    return np.sqrt(np.mean((filled - X)[gaps] ** 2))


@pytest.mark.parametrize("target", [True, False])
def test_beats_the_median_and_leaves_present_values_alone(target):
    X, holed, gaps, y = correlated_table()
    imputer = ProximityImputer(n_estimators=40, n_rounds=3, random_state=0)
    filled = imputer.fit_transform(holed, y if target else None)
    np.testing.assert_array_equal(filled[~gaps], X[~gaps])
    assert not np.isnan(filled).any()
    rough = np.where(gaps, np.nanmedian(holed, axis=0), holed)
    assert error(filled, X, gaps) < (0.6 if target else 0.9) * error(rough, X, gaps)
    np.testing.assert_allclose(imputer.statistics_, np.nanmedian(holed, axis=0))


def test_one_round_by_definition():
    _, holed, gaps, y = correlated_table(60)
    imputer = ProximityImputer(n_estimators=8, n_rounds=1, random_state=3)
    filled = imputer.fit_transform(holed, y)
    rough = np.where(gaps, np.nanmedian(holed, axis=0), holed)
    seed = np.random.SeedSequence(3).spawn(2)[0]
    forest = RandomForestRegressor(8, max_features=1 / 3, min_samples_leaf=5, random_state=seed)
    ended = oracle.leaves(forest.fit(rough, y), rough)
    near = oracle.proximity(ended, ended)
    expected = rough.copy()
    for i, j in np.argwhere(gaps):
        weight = near[i] * ~gaps[:, j]
        if weight.sum() > 0:
            expected[i, j] = np.average(rough[:, j], weights=weight)
    np.testing.assert_allclose(filled, expected, rtol=1e-10)


def test_new_rows():
    X, holed, gaps, y = correlated_table(400)
    rough = np.where(gaps, np.nanmedian(holed, axis=0), holed)
    errors = []
    for seed in range(5):  # one forest of 40 trees may be lucky
        imputer = ProximityImputer(n_estimators=40, random_state=seed).fit(holed[:300], y[:300])
        filled = imputer.transform(holed[300:])
        errors.append(error(filled, X[300:], gaps[300:]))
    assert np.mean(errors) < 0.7 * error(rough[300:], X[300:], gaps[300:])
    np.testing.assert_array_equal(filled[~gaps[300:]], X[300:][~gaps[300:]])
    np.testing.assert_array_equal(imputer.transform(X[300:]), X[300:])


def test_the_same_for_any_number_of_threads():
    _, holed, _, y = correlated_table(120)
    one, two = (
        ProximityImputer(n_estimators=10, n_rounds=2, random_state=0, n_jobs=n_jobs)
        .fit_transform(holed, y)
        for n_jobs in (1, 2)
    )  # fmt: skip
    np.testing.assert_array_equal(one, two)


def test_categories_of_frames():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c"], 300)
    x = np.select([kind == "a", kind == "b"], [0.0, 5.0], 10.0) + 0.3 * rng.normal(size=300)
    table = pandas.DataFrame(
        {"kind": kind.astype(object), "x": x, "level": pandas.Categorical(kind)}
    )
    gaps = rng.random(300) < 0.2
    holed = table.copy()
    holed.loc[gaps, "kind"] = None
    holed.loc[rng.random(300) < 0.1, "level"] = None
    imputer = ProximityImputer(n_estimators=30, random_state=0)
    filled = imputer.fit_transform(holed, (kind == "b").astype(int))
    assert isinstance(filled, pandas.DataFrame)
    assert not filled.isna().any().any()
    assert np.mean(filled["kind"][gaps] == kind[gaps]) > 0.9
    assert filled["level"].dtype == table["level"].dtype
    assert holed["kind"].isna().any()
    pandas.testing.assert_series_equal(filled["x"], table["x"])
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"x": x, "kind": np.where(gaps, None, kind).tolist()})
    done = ProximityImputer(n_estimators=10, random_state=0).fit_transform(frame)
    assert isinstance(done, polars.DataFrame) and done["kind"].null_count() == 0


def test_nothing_missing_and_nothing_known():
    X, _, _, y = correlated_table(40)
    imputer = ProximityImputer(n_estimators=3, random_state=0)
    np.testing.assert_array_equal(imputer.fit_transform(X, y), X)
    X[:, 2] = np.nan
    with pytest.warns(UserWarning, match="x2"):
        filled = imputer.fit_transform(X, y)
    assert np.all(filled[:, 2] == 0)


def test_rounds_stop_when_little_changes(capsys):
    _, holed, _, y = correlated_table(100)
    imputer = ProximityImputer(n_estimators=5, tol=100.0, verbose=1, random_state=0).fit(holed, y)
    assert imputer.n_iter_ == len(imputer.changes_) == 1
    assert capsys.readouterr().out.startswith("[1]  change:")


def test_files(tmp_path):
    _, holed, _, y = correlated_table(80)
    imputer = ProximityImputer(n_estimators=5, random_state=0).fit(holed, y)
    imputer.save(tmp_path / "imputer")
    copy = hybridtrees.load(tmp_path / "imputer")
    np.testing.assert_array_equal(copy.transform(holed), imputer.transform(holed))


@pytest.mark.parametrize(
    "params", [{"n_estimators": 0}, {"n_rounds": -1}, {"task": "both"}, {"tol": -1.0}], ids=str
)
def test_bad_parameters(params):
    X, _, _, y = correlated_table(30)
    with pytest.raises(ValueError, match=next(iter(params))):
        ProximityImputer(**params).fit(X, y)
