"""Fits of sparse tables: the same models, bit for bit, as those of the same table made dense."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import hybridtrees as ht

MODELS = {
    "xgb": (ht.XGBRegressor, {"n_estimators": 6}),
    "xgb leaves": (
        ht.XGBRegressor,
        {"n_estimators": 6, "max_leaves": 12, "max_depth": 0, "grow_policy": "lossguide"},
    ),
    "xgb approx": (ht.XGBRegressor, {"n_estimators": 4, "tree_method": "approx"}),
    "gb": (ht.GradientBoostingRegressor, {"n_estimators": 6, "splitter": "hist"}),
    "forest": (ht.RandomForestRegressor, {"n_estimators": 4, "splitter": "hist"}),
    "few features": (
        ht.RandomForestRegressor,
        {"n_estimators": 4, "splitter": "hist", "max_features": 2},
    ),
    "cart": (ht.CARTRegressor, {"splitter": "hist"}),
    "plgb": (ht.PLGBRegressor, {"n_estimators": 3}),
    "plgb constants": (ht.PLGBRegressor, {"n_estimators": 3, "max_leaf_features": 0}),
}


def random_table(seed, n_rows=400, n_features=12, stored=0.15, digits=1):
    """A table of zeros, missing values, negative numbers, one full and one empty column."""
    rng = np.random.default_rng(seed)
    numbers = np.round(rng.normal(size=(n_rows, n_features)), digits)
    X = np.where(rng.random(numbers.shape) < stored, numbers, 0.0)
    X[rng.random(X.shape) < 0.03] = np.nan
    X[:, 0] = numbers[:, 0]
    X[:, 1] = 0.0
    y = np.nansum(X[:, :5], axis=1) + (X[:, 2] != 0) + 0.1 * rng.normal(size=n_rows)
    return X, y


def explicit_zeros(X, seed):
    """A CSR array that also stores a part of the zeros."""
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero((X != 0) | (rng.random(X.shape) < 0.1))
    return sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)


def assert_same(sparse_model, dense_model, stored, X):
    for method in ("predict_proba", "predict"):
        if hasattr(dense_model, method):
            expected = getattr(dense_model, method)(X)
            assert np.array_equal(getattr(sparse_model, method)(stored), expected)
            assert np.array_equal(getattr(sparse_model, method)(X), expected)
            return


@pytest.mark.parametrize("name", MODELS)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 3]), st.booleans())
def test_sparse_and_dense_fits_are_equal(name, seed, n_jobs, weighted):
    make, options = MODELS[name]
    X, y = random_table(seed, n_rows=60 + seed % 400, digits=seed % 4)
    stored = explicit_zeros(X, seed)
    weight = np.random.default_rng(seed).integers(0, 3, size=len(y)) if weighted else None
    if weighted:
        weight[0] = 1
    models = [
        make(random_state=3, n_jobs=jobs, **options).fit(table, y, sample_weight=weight)
        for table, jobs in ((stored, n_jobs), (X, 1))
    ]
    assert_same(*models, stored, X)


@pytest.mark.parametrize(
    "options",
    [
        {"subsample": 0.5, "colsample_bytree": 0.5},
        {"colsample_bylevel": 0.5, "colsample_bynode": 0.7},
        {"monotone_constraints": (1, 0, -1, *[0] * 9)},
        {"interaction_constraints": [[0, 2, 3], [4, 5]]},
        {"min_child_weight": 20, "reg_alpha": 0.5, "max_delta_step": 0.3},
        {"max_bin": 4},
    ],
)
@given(st.integers(0, 2**32))
def test_options_of_boosting_see_the_same_histograms(options, seed):
    X, y = random_table(seed, digits=seed % 3)
    stored = explicit_zeros(X, seed)
    models = [
        ht.XGBRegressor(n_estimators=5, random_state=1, **options).fit(table, y)
        for table in (stored, X)
    ]
    assert_same(*models, stored, X)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_form_gives_the_same_model(form, dtype):
    X, y = random_table(5)
    X = X.astype(dtype)
    stored = explicit_zeros(X, 5).asformat(form)
    y = (y > 0).astype(int)
    models = [ht.XGBClassifier(n_estimators=8).fit(table, y) for table in (stored, X)]
    assert_same(*models, stored, X)


def test_large_tables_are_summed_in_packed_words_by_threads():
    rng = np.random.default_rng(0)
    codes = rng.integers(30, size=(150_000, 3)) + 30 * np.arange(3)
    effect = rng.normal(size=90)
    y = (effect[codes].sum(axis=1) + rng.logistic(size=len(codes)) > 0).astype(int)
    X = np.zeros((len(codes), 90), dtype=np.float32)
    np.put_along_axis(X, codes, 1.0, axis=1)
    stored = sparse.csr_array(X)
    recipe = {"n_estimators": 3, "max_leaves": 31, "max_depth": 0, "grow_policy": "lossguide"}
    dense = ht.XGBClassifier(n_jobs=1, **recipe).fit(X, y)
    for n_jobs in (1, 2, 4):
        model = ht.XGBClassifier(n_jobs=n_jobs, **recipe).fit(stored, y)
        assert_same(model, dense, stored[:2000], X[:2000])


def test_wide_cells_and_categories():
    rng = np.random.default_rng(1)
    X = np.where(rng.random((3000, 300)) < 0.3, rng.normal(size=(3000, 300)), 0.0)
    X[:, 7] = rng.integers(0, 9, size=len(X))  # category 0 is what is not stored
    X[:, 8] = np.where(X[:, 8] == 0, 3, 5)  # no category 0
    y = X[:, 0] + (X[:, 7] == 3) - (X[:, 8] == 5) + 0.1 * rng.normal(size=len(X))
    types = ["c" if j in (7, 8) else "q" for j in range(300)]
    stored = sparse.csc_array(X)
    assert ht.BinMapper().fit_encode(stored).by_row[1].dtype == np.uint32
    models = [
        ht.XGBRegressor(n_estimators=5, feature_types=types).fit(table, y) for table in (stored, X)
    ]
    assert_same(*models, stored, X)


def test_eval_sets_and_early_stopping():
    X, y = random_table(2, n_rows=600)
    stored = explicit_zeros(X, 2)
    models = []
    for table in (stored, X):
        model = ht.XGBRegressor(n_estimators=60, early_stopping_rounds=3, learning_rate=0.5)
        models.append(model.fit(table[:400], y[:400], eval_set=[(table[400:], y[400:])]))
    assert models[0].best_iteration == models[1].best_iteration
    assert_same(*models, stored, X)


def test_a_table_without_entries():
    empty, y = sparse.csr_array((50, 3)), np.arange(50.0)
    for make in (ht.XGBRegressor, ht.CARTRegressor):
        options = {"splitter": "hist"} if make is ht.CARTRegressor else {}
        models = [make(**options).fit(table, y) for table in (empty, empty.toarray())]
        assert_same(*models, empty, empty.toarray())


@given(st.integers(0, 2**32))
def test_codes_are_those_of_the_dense_table(seed):
    X, _ = random_table(seed, n_rows=90, digits=seed % 5)
    stored = explicit_zeros(X, seed)
    mapper = ht.BinMapper(max_bins=2 + seed % 200)
    entries, dense = mapper.fit_encode(stored), mapper.fit(X).transform(X)
    assert np.array_equal(entries.dense().columns, dense.columns)
    assert np.array_equal(entries.dense().records[:, :12], dense.records[:, :12])
    assert np.array_equal(entries.has_missing, dense.has_missing)
    assert not (
        entries.codes == np.repeat(entries.default_code, np.diff(entries.column_start))
    ).any()
    rows, features = np.divmod(np.arange(X.size), X.shape[1])
    assert np.array_equal(entries.codes_at(rows, features), dense.codes_at(rows, features))
    start, cells = entries.by_row
    for row in range(len(X)):
        differ = np.flatnonzero(dense.columns[:, row] != entries.default_code)
        expected = entries.cell_start[differ] + dense.columns[differ, row]
        assert np.array_equal(cells[start[row] : start[row + 1]], expected)


def test_memory_follows_the_entries():
    X = sparse.random_array((20_000, 400), density=0.01, random_state=0, format="csr")
    assert ht.BinMapper().fit_encode(X).nbytes < 12 * X.nnz + 9 * X.shape[0]
