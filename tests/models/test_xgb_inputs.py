"""The same numbers in other containers, saved models, and models inside scikit-learn's tools."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse
from xgb_data import TASKS, integer_table, output, target

import hybridtrees
from hybridtrees import XGBClassifier, XGBRegressor


def make(task, **params):
    cls = XGBRegressor if task == "regression" else XGBClassifier
    return cls(**{"n_estimators": 5, "n_jobs": 1, "random_state": 0, **params})


def assert_same(model, X, other, Z):
    np.testing.assert_array_equal(model.trees_.nodes, other.trees_.nodes)
    np.testing.assert_array_equal(model.trees_.values, other.trees_.values)
    np.testing.assert_array_equal(output(model, X), output(other, Z))
    np.testing.assert_array_equal(model.apply(X), other.apply(Z))


# -- arrays -------------------------------------------------------------------------------------

ARRAYS = {
    "F order": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "big endian": lambda X: X.astype(">f8"),
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "list": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_of_any_layout(kind):
    X, y, _ = integer_table(400, missing=0.1)
    Z = ARRAYS[kind](X)
    assert_same(make("regression").fit(X, y), X, make("regression").fit(Z, y), Z)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint64", "int64", "bool"])
def test_integers(dtype):
    X, y, _ = integer_table(400)
    X = X.astype(int) % (2 if dtype == "bool" else 100)
    Z = X.astype(dtype)
    assert_same(make("regression").fit(X, y), X, make("regression").fit(Z, y), Z)


def test_read_only_and_mapped_arrays(tmp_path):
    X, y, weight = integer_table(400, missing=0.1)
    expected = make("regression").fit(X, y, weight)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    frozen = X.copy(), y.copy(), weight.copy()
    for array in frozen:
        array.flags.writeable = False
    assert_same(expected, X, make("regression").fit(*frozen), frozen[0])
    assert_same(expected, X, make("regression").fit(mapped, y, weight), mapped)


def test_fit_and_predict_leave_their_arguments_alone():
    X, y, weight = integer_table(300, missing=0.1)
    marked = np.nan_to_num(X, nan=-1.0)
    before = [a.copy() for a in (X, marked, y, weight)]
    make("regression").fit(X, y, weight).predict(X)
    make("regression", missing=-1.0).fit(marked, y, weight).predict(marked)
    for a, b in zip((X, marked, y, weight), before, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("form", ["csr_array", "csc_array", "csr_matrix", "coo_array"])
def test_sparse_equals_dense(form, task):
    X, y, _ = integer_table(500)
    y = target(task, y)
    X[np.random.default_rng(0).random(X.shape) < 0.7] = 0
    X[::50, 2] = np.nan
    S = getattr(scipy.sparse, form)(X)
    assert_same(make(task).fit(X, y), X, make(task).fit(S, y), S)


def test_sparse_with_many_values_and_rows():
    rng = np.random.default_rng(0)
    S = scipy.sparse.random(9000, 20, 0.1, format="csr", random_state=0)
    X, y = S.toarray(), rng.normal(size=9000)
    assert_same(make("regression").fit(X, y), X, make("regression").fit(S, y), S)


# -- tables -------------------------------------------------------------------------------------


def as_table(kind, columns):
    """Turn a dict of columns, text among them, into a data frame of some library."""
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(columns)
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(columns, nan_to_null=True)
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.table({k: pyarrow.array(v, from_pandas=True) for k, v in columns.items()})


TABLES = pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])


@TABLES
@pytest.mark.parametrize("task", TASKS)
def test_tables_equal_arrays(kind, task):
    X, y, weight = integer_table(300, missing=0.1)
    y = target(task, y)
    table = as_table(kind, {f"c{j}": X[:, j] for j in range(6)})
    labels = as_table(kind, {"y": y})["y"]
    model = make(task).fit(table, labels, weight)
    assert model.feature_names_in_.tolist() == [f"c{j}" for j in range(6)]
    plain = make(task).fit(X, y, weight)
    assert_same(plain, X, model, table)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(as_table(kind, {f"d{j}": X[:, j] for j in range(6)}))
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))


@TABLES
def test_text_columns_are_categories(kind):
    rng = np.random.default_rng(0)
    words = np.array(["red", "green", "blue", "black", "white", "pink"])
    codes, number = rng.integers(0, 6, 600), rng.integers(0, 50, 600).astype(float)
    y = np.array([5.0, -3.0, 8.0, 0.0, -9.0, 2.0])[codes] + 0.1 * number
    table = as_table(kind, {"word": words[codes].tolist(), "number": number})
    model = make("regression", n_estimators=20).fit(table, y)
    assert model.score(table, y) > 0.98
    # The labels are sorted, so these are the codes.
    X = np.column_stack([np.searchsorted(np.sort(words), words[codes]), number])
    coded = make("regression", n_estimators=20, categorical_features=[0]).fit(X, y)
    assert_same(coded, X, model, table)
    numeric = make("regression", n_estimators=20).fit(X, y)
    assert not np.array_equal(numeric.predict(X), coded.predict(X))
    unknown, missing = (
        model.predict(as_table(kind, {"word": [word, "red"], "number": [1.0, 1.0]}))[0]
        for word in ("violet", None)
    )
    assert unknown == missing


def test_pandas_category_dtype_and_order_of_labels():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 8, 500)
    y = rng.normal(size=8)[codes] + 0.01 * rng.normal(size=500)
    frames = [
        pandas.DataFrame({"c": pandas.Categorical(codes, categories=order)})
        for order in (np.arange(8), np.arange(8)[::-1], np.arange(20))
    ]
    predictions = [make("regression").fit(f, y).predict(f) for f in frames]
    # Another order of labels, or labels that no row has, are the same column.
    np.testing.assert_allclose(predictions[0], predictions[1], rtol=1e-6)
    np.testing.assert_array_equal(predictions[0], predictions[2])


def test_many_categories():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 1000, 8000)
    effect = rng.normal(size=1000)
    y = effect[codes]
    model = make("regression", n_estimators=40, categorical_features=[0]).fit(codes[:, None], y)
    assert model.score(codes[:, None], y) > 0.2  # 254 categories alone, the others in one bin
    fewer = codes < 250
    X, y = codes[fewer, None], y[fewer]
    model = make("regression", n_estimators=40, categorical_features=[0]).fit(X, y)
    assert model.score(X, y) > 0.99


# -- wrong tables -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((5, 2), np.inf), "infinity"),
        (np.ones((5, 2)) * 1j, "complex"),
        (np.array([["a", "b"]] * 5), "text"),
        (np.empty((0, 2)), "0 sample"),
        (np.empty((5, 0)), "0 feature"),
        (np.ones(5), "2D"),
        (np.ones((5, 2, 2)), "2D"),
        (None, "2D|None"),
        ("table", "2D"),
        (np.ones((4, 2)), "inconsistent"),
    ],
)
def test_wrong_tables(X, message):
    with pytest.raises((ValueError, TypeError), match=f"(?i){message}"):
        XGBRegressor().fit(X, np.arange(5.0))
    model = XGBRegressor(n_estimators=1, n_jobs=1).fit(np.ones((5, 2)), np.arange(5.0))
    if message != "inconsistent":
        with pytest.raises((ValueError, TypeError), match=f"(?i){message}|expecting 2"):
            model.predict(X)


# -- copies -------------------------------------------------------------------------------------

COPIES = {
    "pickle": lambda model, path: pickle.loads(pickle.dumps(model)),
    "pickle 2": lambda model, path: pickle.loads(pickle.dumps(model, protocol=2)),
    "deepcopy": lambda model, path: copy.deepcopy(model),
    "save": lambda model, path: (model.save(path), hybridtrees.load(path))[1],
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("task", TASKS)
def test_copies_predict_the_same(task, way, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y, weight = integer_table(500, missing=0.1)
    labels = target(task, y)
    if task == "multiclass":
        labels = np.array(["a", "b", "c", "d"])[labels]
    table = pandas.DataFrame(X[:, :3], columns=["a", "b", "c"])
    table["word"] = np.array(["x", "y", "z"])[(y > 40).astype(int) + (y > 60)]
    model = make(task).fit(table, labels, weight, eval_set=[(table, labels)], verbose=False)
    twin = COPIES[way](model, tmp_path / "model")
    assert type(twin) is type(model) and repr(twin) == repr(model)
    assert_same(model, table, twin, table)
    np.testing.assert_array_equal(twin.feature_importances_, model.feature_importances_)
    assert twin.feature_names_in_.tolist() == ["a", "b", "c", "word"]
    assert twin.evals_result() == model.evals_result() and twin.n_iter_ == model.n_iter_
    if task != "regression":
        np.testing.assert_array_equal(twin.classes_, model.classes_)
    assert_same(model, table, twin.fit(table, labels, weight), table)


def test_unfitted_copies(tmp_path):
    model = XGBClassifier(max_depth=3, missing=-1.0, eval_metric=["error", "auc"])
    for way in COPIES.values():
        assert repr(way(model, tmp_path / "model")) == repr(model)


# -- scikit-learn's tools -----------------------------------------------------------------------


def test_inside_sklearn():
    pytest.importorskip("sklearn")
    from sklearn.base import clone, is_classifier, is_regressor
    from sklearn.ensemble import StackingRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y, _ = integer_table(600)
    model = make("regression", n_estimators=20)
    assert is_regressor(model) and is_classifier(make("binary")) and not is_classifier(model)
    twin = clone(model.set_params(gamma=0.5))
    assert twin is not model and twin.get_params() == {
        **model.get_params(),
        "missing": twin.missing,
    }
    search = GridSearchCV(model, {"max_depth": [1, 4], "learning_rate": [0.01, 0.3]}, cv=3)
    search.fit(X, y)
    assert search.best_params_ == {"max_depth": 4, "learning_rate": 0.3}
    assert cross_val_score(model, X, y, cv=3).min() > 0.8
    assert cross_val_score(make("binary"), X, target("binary", y), scoring="roc_auc").min() > 0.8
    piped = make_pipeline(StandardScaler(), model).fit(X, y)
    np.testing.assert_allclose(piped.predict(X), model.fit(X, y).predict(X), rtol=1e-6)
    stack = StackingRegressor([("trees", model), ("line", LinearRegression())]).fit(X, y)
    assert stack.score(X, y) > 0.9


def test_weights_are_routed():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import cross_validate

    X, y, weight = integer_table(300)
    model = make("regression")
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        routed = cross_validate(model, X, y, params={"sample_weight": weight}, cv=3)
    plain = cross_validate(make("regression"), X, y, cv=3)
    assert not np.allclose(routed["test_score"], plain["test_score"])


# -- threads and processes ----------------------------------------------------------------------


def test_fits_side_by_side_do_not_disturb_each_other():
    tasks = [*TASKS, *TASKS]
    X, y, _ = integer_table(1500, missing=0.1)

    def work(task):
        model = make(task).fit(X, target(task, y))
        return [output(model, X) for _ in range(3)]

    expected = [work(task) for task in tasks]
    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(work, tasks), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def _fit_in_child(queue, X, y):
    queue.put(make("regression", n_jobs=2).fit(X, y).predict(X))


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_hang():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 5))
    y = X[:, 0] * X[:, 1]
    expected = make("regression", n_jobs=2).fit(X, y).predict(X)  # wakes the threads up
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_fit_in_child, args=(queue, X, y))
    child.start()
    try:
        deadline = 60
        assert queue._reader.poll(deadline), "the child hangs"
        np.testing.assert_array_equal(queue.get(), expected)
        child.join(deadline)
        assert child.exitcode == 0
    finally:
        child.kill()
