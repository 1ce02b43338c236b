"""Exports predict what the model predicts: C, ONNX, SQL, XGBoost's JSON, compiled models."""

import ctypes
import json
import shutil
import sqlite3
import subprocess

import numpy as np
import pytest
from additive_models import CLASSIFIERS, REGRESSORS, fitted

import hybridtrees as ht
from hybridtrees.core.tree.additive import additive_form

MODELS = [pytest.param((*p.values, 0), id=p.id) for p in REGRESSORS]
MODELS += [pytest.param((*p.values, k), id=f"{p.id}-{k}") for p in CLASSIFIERS for k in (2, 3)]
COMPILER = shutil.which("cc") or shutil.which("gcc")


@pytest.fixture(params=MODELS, scope="module")
def model(request):
    name, parameters, n_classes = request.param
    return fitted(name, parameters, np.random.default_rng(5), n_classes)


def expected(estimator, X):
    return estimator.predict_proba(X) if hasattr(estimator, "classes_") else estimator.predict(X)


def hard_rows(estimator, X):
    """Rows to predict as numbers: those of X, thresholds and their neighbours, infinities."""
    form = additive_form(estimator)
    rows = form.read(X).astype(np.float64)
    numeric = [j for j, labels in enumerate(form.reader.categories) if labels is None]
    trees = next(each.trees for each in form.all_forms() if each.trees is not None)
    split = (trees.nodes["left"] >= 0) & (trees.nodes["category_start"] < 0)
    thresholds = trees.nodes["threshold"][split]
    thresholds = thresholds[np.isfinite(thresholds)][:30]
    more = [thresholds, np.nextafter(thresholds, np.inf), np.nextafter(thresholds, -np.inf)]
    values = np.concatenate([*more, [np.inf, -np.inf, np.nan, 0.0]])
    extra = np.resize(rows[:7], (len(values), rows.shape[1]))
    extra[:, numeric] = values[:, None]
    unknown = rows[:3].copy()
    unknown[:, [j for j in range(rows.shape[1]) if j not in numeric]] = np.nan
    return form, np.vstack([rows, extra, unknown])


def test_compiled(model):
    estimator, X = model
    compiled = estimator.compile()
    rows, truth = compiled.encode(X), expected(estimator, X)
    method = compiled.predict if compiled.classes_ is None else compiled.predict_proba
    np.testing.assert_allclose(method(rows), truth, rtol=1e-12, atol=1e-12)
    if compiled.classes_ is not None:
        np.testing.assert_array_equal(compiled.predict(rows), estimator.predict(X))
    out = np.full(truth.shape, np.nan)
    assert method(rows, out) is out
    np.testing.assert_array_equal(out, method(rows))
    one_by_one = np.concatenate([method(rows[k : k + 1]) for k in range(20)])
    np.testing.assert_allclose(one_by_one, truth[:20], rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_c(model, tmp_path):
    estimator, X = model
    form, rows = hard_rows(estimator, X)
    estimator.to_c(tmp_path / "m.c", name="my_model")
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]
    library = tmp_path / "m.so"
    subprocess.run([COMPILER, *flags, tmp_path / "m.c", "-o", library, "-lm"], check=True)
    found = np.zeros((len(rows), form.n_predictions))
    scores = np.zeros((len(rows), form.n_scores))
    with np.errstate(invalid="ignore"):
        loaded = ctypes.CDLL(str(library))
        pointer = ctypes.POINTER(ctypes.c_double)
        for row, out, raw in zip(rows, found, scores, strict=True):
            loaded.my_model_predict(row.ctypes.data_as(pointer), out.ctypes.data_as(pointer))
            loaded.my_model_scores(row.ctypes.data_as(pointer), raw.ctypes.data_as(pointer))
        np.testing.assert_allclose(found, form.predictions(rows), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(scores, form.scores(rows), rtol=1e-10, atol=1e-10)


@pytest.mark.peer
def test_onnx(model):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    estimator, X = model
    form, rows = hard_rows(estimator, X)
    rows = rows[~np.isinf(rows).any(axis=1)] if has_lines(form) else rows  # inf * 0 is NaN there
    for kind, dtype in (("double", np.float64), ("float", np.float32)):
        session = runtime.InferenceSession(estimator.to_onnx(input_type=kind).SerializeToString())
        given = rows.astype(dtype)
        found = session.run(None, {"X": given})
        truth = form.predictions(given.astype(np.float64))
        truth = truth[:, 0] if found[-1].ndim == 1 else truth
        np.testing.assert_allclose(found[-1], truth, rtol=1e-9, atol=1e-11)
        if form.classes is not None:
            np.testing.assert_array_equal(found[0], form.classes[truth.argmax(axis=1)])


def has_lines(form):
    return any(each.trees is not None and len(each.trees.coef) for each in form.all_forms())


@pytest.mark.parametrize("layout", ["case", "nodes"])
@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_sql(model, dialect, layout):
    estimator, X = model
    X = X.copy()
    X["few"], X["many"] = X["few"].astype(object), X["many"].astype(object)
    X.loc[X.index[:5], "few"] = "never seen"
    X = X[:60]
    sql = estimator.to_sql(dialect=dialect, layout=layout, key="c")
    assert (sql.setup == "") == (layout == "case")
    rows = run_sql(sql, X, dialect)
    assert [row[0] for row in rows] == X["c"].tolist()
    truth = expected(estimator, X)
    if hasattr(estimator, "classes_"):
        np.testing.assert_array_equal([row[1] for row in rows], estimator.predict(X))
        rows = [row[1:] for row in rows]
    found = np.array([row[1:] for row in rows], dtype=float).reshape(truth.shape)
    np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-11)


def run_sql(sql, X, dialect):
    if dialect == "sqlite":
        database = sqlite3.connect(":memory:")
        X.to_sql("data", database, index=False)
        database.executescript(sql.setup)
    else:
        database = pytest.importorskip("duckdb").connect()
        database.register("frame", X.astype({"few": "string", "many": "string"}))
        database.execute("CREATE TABLE data AS SELECT * FROM frame")
        # The optimizer of DuckDB takes a minute over a CASE of thousands of nodes.
        database.execute(sql.setup or "PRAGMA disable_optimizer")
    return database.execute(sql.query).fetchall()


@pytest.mark.peer
def test_xgboost_json(model, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    estimator, X = model
    form, rows = hard_rows(estimator, X)
    try:
        estimator.to_xgboost_json(tmp_path / "m.json")
    except TypeError as error:
        lines = has_lines(form) or form.inner or form.link.kind == "sorted"
        stops = estimator.get_params().get("missing") == "stop"
        assert lines or stops, error
        assert f"this {type(estimator).__name__} cannot be a model of XGBoost" in str(error)
        assert not list(tmp_path.iterdir())
        return
    booster = xgboost.Booster(model_file=tmp_path / "m.json")
    given = rows[~np.isinf(rows).any(axis=1)].astype(np.float32)
    how = {"feature_names": booster.feature_names, "feature_types": booster.feature_types}
    found = booster.predict(xgboost.DMatrix(given, enable_categorical=True, **how))
    truth = form.predictions(given.astype(np.float64))
    truth = truth[:, -1] if found.ndim == 1 else truth
    np.testing.assert_allclose(found, truth, rtol=2e-5, atol=1e-6)


def test_json_for_people(model):
    estimator, X = model
    form, rows = hard_rows(estimator, X)
    read = json.loads(estimator.to_json())
    assert [one["name"] for one in read["features"]] == ["a", "b", "few", "many", "c"]
    found = np.array([scores_of(read, read["features"], row) for row in rows[:40]])
    np.testing.assert_allclose(found, form.scores(rows[:40]), rtol=1e-9, atol=1e-10)


def scores_of(form, features, row):
    """The scores of a row by the text alone."""
    names = [one["name"] for one in features]

    def value(name):
        if name.startswith("number of "):
            table, x = form["columns"][name], row[names.index(name[10:].partition(" #")[0])]
            number = table["missing"] if np.isnan(x) else table["by_category"][int(x)]
            return np.nan if number is None else number
        if name.endswith(" is missing"):
            return float(np.isnan(row[names.index(name[:-11])]))
        if " = " in name:
            feature, label = name.split(" = ")
            j = names.index(feature)
            known = map(str, features[j]["categories"])
            return np.nan if np.isnan(row[j]) else float(list(known)[int(row[j])] == label)
        return row[names.index(name)]

    scores = np.array(form["base"], dtype=float)
    for tree in form["trees"]:
        node = tree
        while "left" in node:
            x = value(node["feature"])
            labels = None
            if "left_if_in" in node:
                labels = features[names.index(node["feature"])]["categories"]
            if np.isnan(x):
                side = node["missing"]
            elif labels is not None:
                side = "left" if labels[int(x)] in node["left_if_in"] else "right"
            else:
                side = "left" if x <= limit_of(node["left_if_at_most"]) else "right"
            if side == "here":
                break
            node = node[side]
        total = np.array(node["value"], dtype=float)
        for term in node.get("line", ()):
            x = value(term["feature"])
            if not np.isnan(x):
                low, high = map(limit_of, term.get("limits", [-np.inf, np.inf]))
                total = total + np.array(term["coef"]) * (np.clip(x, low, high) - term["center"])
        if "range" in node:
            low, high = ([limit_of(one) for one in limits] for limits in node["range"])
            total = np.clip(total, *np.reshape([low, high], (2, *np.shape(total))))
        scores[tree.get("output", slice(None))] += total
    for inner in form.get("models", ()):
        found = linked(inner["link"]["kind"], scores_of(inner, features, row))
        skip = 1 if len(found) == 2 and len(scores) == 1 else 0
        scores += inner["weight"] * found[skip:]
    return scores


def limit_of(value):
    return {"infinity": np.inf, "-infinity": -np.inf}.get(value, value)


def linked(kind, scores):
    if kind == "softmax":
        return np.exp(scores) / np.exp(scores).sum()
    assert kind == "logistic"
    p = 1 / (1 + np.exp(-scores[0]))
    return np.array([1 - p, p])


def test_links_of_leaves_do_not_matter():
    X = np.arange(40.0)[:, None]
    model = ht.XGBRegressor(n_estimators=2, max_depth=2).fit(X, np.sin(X[:, 0] / 7))
    truth = model.to_xgboost_json()
    nodes = model.trees_.nodes
    leaf = nodes["left"] < 0
    for name in ("right", "feature"):
        nodes[name][leaf] = -249
    assert model.to_xgboost_json() == truth
    nodes["feature"][leaf] = 249
    assert model.to_xgboost_json() == truth
