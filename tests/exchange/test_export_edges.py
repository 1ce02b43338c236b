"""Exports: names, files, refusals, threads and pickles."""

import json
import pickle
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import hybridtrees as ht


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    return X, X[:, 0] * (X[:, 1] > 0) + 0.1 * rng.normal(size=500)


def test_threads_share_a_compiled_model(data):
    X, y = data
    model = ht.XGBClassifier(n_estimators=30).fit(X, y > 0)
    compiled = model.compile()
    truth = model.predict_proba(X)

    def run(seed):
        rows = np.random.default_rng(seed).integers(0, len(X), 200)
        for k in rows:
            np.testing.assert_allclose(compiled.predict_proba(X[k : k + 1])[0], truth[k])
        np.testing.assert_allclose(compiled.predict_proba(X[rows]), truth[rows])
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(8)))


@pytest.mark.parametrize("name", ["RandomForestRegressor", "PLGBRegressor", "XGBRegressor"])
def test_pickles_are_small_and_predict_the_same(name, data):
    X, y = data
    model = getattr(ht, name)(n_estimators=20).fit(X, y)
    compiled = model.compile()
    text = pickle.dumps(compiled)
    again = pickle.loads(text)
    assert len(text) < len(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), compiled.predict(X))
    assert repr(again) == "<compiled regressor of 4 features>"


def test_pickles_of_categories_and_inner_models(data):
    X, y = data
    X = np.column_stack([X, np.arange(500) % 70])
    for model in (
        ht.CARTClassifier(categorical_features=[4], missing="stop", categorical_statistics=False),
        ht.RERFClassifier(n_estimators=3, categorical_features=[4]),
        ht.LinearForestClassifier(n_estimators=3),
    ):
        compiled = model.fit(X, y > 0).compile()
        rows = compiled.encode(X)
        again = pickle.loads(pickle.dumps(compiled))
        np.testing.assert_array_equal(again.predict_proba(rows), compiled.predict_proba(rows))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_types_and_layouts_of_rows(dtype, data):
    X, y = data
    X = np.round(3 * X).astype(dtype)
    model = ht.XGBRegressor(n_estimators=5).fit(X, y)
    compiled = model.compile()
    for rows in (X, np.asfortranarray(X), X[::2], X[:, ::-1][:, ::-1], X[:1]):
        np.testing.assert_allclose(compiled.predict(rows), model.predict(rows), rtol=1e-12)
    assert compiled.predict(X[:0]).shape == (0,)


def test_bad_rows_and_buffers(data):
    X, y = data
    compiled = ht.XGBRegressor(n_estimators=2).fit(X, y).compile()
    with pytest.raises(ValueError, match="X must have 4 columns, got 3"):
        compiled.predict(X[:, :3])
    with pytest.raises(ValueError, match=r"X must have two dimensions .* got the shape \(4,\)"):
        compiled.predict(X[0])
    with pytest.raises(TypeError, match="X must be an array of numbers, got the dtype <U1"):
        compiled.predict([["a", "b", "c", "d"]])
    for out in (np.zeros(3), np.zeros((500, 2)), np.zeros(500, dtype=np.float32), [0.0] * 500):
        with pytest.raises(ValueError, match="out must"):
            compiled.predict(X, out)
    read_only = np.zeros(500)
    read_only.setflags(write=False)
    with pytest.raises(ValueError, match="out must be writeable"):
        compiled.predict(X, read_only)
    with pytest.raises(AttributeError, match="predict_proba is for classifiers"):
        compiled.predict_proba(X)
    classifier = ht.XGBClassifier(n_estimators=2).fit(X, y > 0).compile()
    with pytest.raises(ValueError, match="out is for numbers"):
        classifier.predict(X, np.zeros(500))


def test_what_is_no_sum_of_trees_is_refused(data):
    X, y = data
    model = ht.AdaBoostRegressor(n_estimators=3).fit(X, y)
    for name in ("compile", "to_c", "to_onnx", "to_sql", "to_json", "to_xgboost_json"):
        with pytest.raises(TypeError, match="AdaBoostRegressor is not a sum of trees"):
            getattr(model, name)()
        with pytest.raises(ValueError, match="not fitted"):
            getattr(ht.XGBRegressor(), name)()
    voting = ht.VotingRegressor([("line", ht.LinearRegressor()), ("trees", model)]).fit(X, y)
    with pytest.raises(TypeError, match="VotingRegressor .* those in estimators_ may be sums"):
        voting.compile()
    compiled = voting.estimators_[0].compile()
    np.testing.assert_allclose(compiled.predict(X), voting.estimators_[0].predict(X))


@pytest.mark.parametrize("name", ["1a", "a b", "for", "", None, "größe"])
def test_names_in_c(name, data):
    X, y = data
    with pytest.raises(ValueError, match="name must"):
        ht.CARTRegressor(max_depth=1).fit(X, y).to_c(name=name)


def test_labels_cannot_leave_comments_or_literals(data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    nasty = ["*/ int x;", "'; DROP TABLE data; --", "a\nb\\", 'quo"te']
    frame = pandas.DataFrame({'col"; --': np.array(nasty)[np.arange(500) % 4], "*/b": X[:, 0]})
    model = ht.CARTRegressor(max_depth=4).fit(frame, y + 3 * (np.arange(500) % 4 == 1))
    assert model.to_c().count("*/") == model.to_c().replace("/*", "").count("*/")
    head = model.to_c().split("#include")[0]
    assert head.count("*/") == 1
    database = sqlite3.connect(":memory:")
    frame.to_sql("data", database, index=False)
    found = database.execute(model.to_sql().query).fetchall()
    np.testing.assert_allclose([row[0] for row in found], model.predict(frame))


def test_sql_of_many_trees_becomes_tables(data):
    X, y = data
    few = ht.XGBRegressor(n_estimators=50, max_depth=1).fit(X, y).to_sql()
    many = ht.XGBRegressor(n_estimators=51, max_depth=1).fit(X, y).to_sql(name="prices")
    assert few.setup == "" and "CREATE TABLE prices_0_nodes" in many.setup
    assert str(many) == f"{many.setup}{many.query};\n"
    for bad in ({"dialect": "oracle"}, {"layout": "join"}, {"table": ""}, {"key": [1]},
                {"name": "a;b"}):  # fmt: skip
        with pytest.raises(ValueError, match=next(iter(bad))):
            ht.CARTRegressor(max_depth=1).fit(X, y).to_sql(**bad)


def test_files_are_written_whole(data, tmp_path):
    X, y = data
    model = ht.CARTRegressor(max_depth=2).fit(X, y)
    assert model.to_c(tmp_path / "a.c") == (tmp_path / "a.c").read_text()
    assert str(model.to_sql(tmp_path / "a.sql")) == (tmp_path / "a.sql").read_text()
    text = model.to_json(tmp_path / "a.json", indent=2)
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads(text)
    with pytest.raises(OSError):
        model.to_c(tmp_path / "missing" / "a.c")
    with pytest.raises(ValueError, match="indent"):
        model.to_json(indent="  ")
