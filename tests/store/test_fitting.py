"""Fits to a store whose codes fit into memory: the models of the same table, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import Rows, make_rows, write_store

from hybridtrees import (
    CARTClassifier,
    CARTRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    LinearRegressor,
    PLGBClassifier,
    PLGBRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    XGBClassifier,
    XGBRegressor,
)
from hybridtrees.store import memory
from hybridtrees.store.fitting import decoded_bytes
from hybridtrees.store.reader import BinnedStore
from hybridtrees.store.schema import Schema
from hybridtrees.store.writer import StoreWriter

SMALL = {"n_estimators": 4}
REGRESSORS = {
    "xgb": XGBRegressor(**SMALL),
    "xgb, drawn": XGBRegressor(**SMALL, subsample=0.5, colsample_bynode=0.6, max_leaves=9),
    "xgb, lossguide": XGBRegressor(**SMALL, grow_policy="lossguide", max_leaves=12),
    "xgb, by gradients": XGBRegressor(
        **SMALL, subsample=0.3, sampling_method="gradient_based", objective="reg:pseudohubererror"
    ),
    "xgb, constraints": XGBRegressor(**SMALL, monotone_constraints={0: 1}, max_bin=256),
    "gb": GradientBoostingRegressor(**SMALL, splitter="hist", subsample=0.7),
    "gb, huber": GradientBoostingRegressor(**SMALL, splitter="hist", loss="huber"),
    "rf": RandomForestRegressor(**SMALL, max_features=0.5),
    "cart": CARTRegressor(splitter="hist", min_samples_leaf=3),
    "cart, absolute": CARTRegressor(splitter="hist", criterion="absolute_error", max_depth=4),
    "plgb": PLGBRegressor(**SMALL),
    "plgb, constant": PLGBRegressor(**SMALL, max_leaf_features=0),
}
CLASSIFIERS = {
    "xgb": XGBClassifier(**SMALL, max_depth=3),
    "gb": GradientBoostingClassifier(**SMALL, splitter="hist"),
    "rf": RandomForestClassifier(**SMALL),
    "cart": CARTClassifier(splitter="hist", max_depth=5),
    "plgb": PLGBClassifier(**SMALL),
}


def fit_both(estimator, store: BinnedStore, rows: Rows):
    """Fit to a table in memory and to its store; return both."""
    how = {"random_state": 0, "categorical_statistics": False}
    own = type(estimator)(**{**estimator.get_params(), **how})
    mine = type(estimator)(**{**estimator.get_params(), **how})
    own.set_params(categorical_features=list(rows.categorical))
    return own.fit(rows.X, rows.y, rows.weight), mine.fit(store)


def check_same(expected, found, rows: Rows) -> None:
    probe = np.vstack([rows.X, make_rows(500, rows.X.shape[1], seed=99).X])
    predict = "predict_proba" if hasattr(expected, "predict_proba") else "predict"
    np.testing.assert_array_equal(getattr(found, predict)(probe), getattr(expected, predict)(probe))


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_are_those_of_the_table(tmp_path, name):
    rows = make_rows(3000, weighted="drawn" in name or name in ("gb", "rf", "cart", "plgb"))
    with write_store(tmp_path / "s", rows, raw_features=range(6)) as store:
        check_same(*fit_both(REGRESSORS[name], store, rows), rows)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("labels", [["no", "yes"], [3, 5, 9]])
def test_classifiers_are_those_of_the_table(tmp_path, name, labels):
    rows = make_rows(3000)
    cuts = np.quantile(rows.y, np.linspace(0, 1, len(labels) + 1)[1:-1])
    rows.y = np.array(labels)[np.searchsorted(cuts, rows.y)]
    store = write_store(tmp_path / "s", rows, raw_features=range(6), classes=np.array(labels))
    expected, found = fit_both(CLASSIFIERS[name], store, rows)
    check_same(expected, found, rows)
    np.testing.assert_array_equal(found.classes_, labels)
    assert found.predict(rows.X[:3]).dtype == expected.predict(rows.X[:3]).dtype


@settings(max_examples=8)
@given(
    n=st.sampled_from([200, 65_536, 70_000]),
    pieces=st.integers(1, 5),
    compression=st.sampled_from(["auto", None, "bits"]),
    n_parts=st.integers(1, 3),
    n_jobs=st.integers(1, 2),
)
def test_files_and_codecs_do_not_matter(tmp_path_factory, n, pieces, compression, n_parts, n_jobs):
    folder = tmp_path_factory.mktemp("store")
    paths = [folder / str(k) for k in range(n_parts)]
    rows = make_rows(n, weighted=True)
    store = write_store(paths, rows, pieces=pieces, compression=compression)
    check_same(*fit_both(XGBRegressor(n_estimators=2, n_jobs=n_jobs), store, rows), rows)


def test_several_targets_and_a_validation_table(tmp_path):
    rows, held = make_rows(2000), make_rows(500, seed=5)
    rows.y, held.y = (np.column_stack([r.y, -r.X[:, 1]]) for r in (rows, held))
    store = write_store(tmp_path / "s", rows)
    one, other = (
        XGBRegressor(n_estimators=30, early_stopping_rounds=3, categorical_statistics=False)
        for _ in range(2)
    )
    one.set_params(categorical_features=[3]).fit(rows.X, rows.y, X_val=held.X, y_val=held.y)
    other.fit(store, X_val=held.X, y_val=held.y)
    check_same(one, other, rows)
    assert one.evals_result() == other.evals_result()


def test_names_of_features_are_those_of_the_store(tmp_path):
    store = write_store(tmp_path / "s", make_rows(300))
    store.schema.feature_names = list("abcdef")
    model = XGBRegressor(n_estimators=1).fit(store)
    assert model.feature_names_in_.tolist() == list("abcdef")
    assert model.n_features_in_ == 6


REFUSED = [
    (XGBRegressor(tree_method="exact"), "tree_method='exact' of XGBRegressor needs the values"),
    (XGBRegressor(tree_method="approx"), "tree_method='approx' of XGBRegressor needs"),
    (XGBRegressor(max_bin=64), "max_bin=64 of XGBRegressor, but the BinnedStore has up to 255"),
    (XGBRegressor(missing=-1.0), "missing=-1.0 of XGBRegressor"),
    (XGBRegressor(categorical_features=[0]), "categorical_features of XGBRegressor are those"),
    (XGBRegressor(categorical_statistics=True), "categorical_statistics=True of XGBRegressor"),
    (XGBRegressor(conformal="cv"), "conformal of XGBRegressor needs rows of values held out"),
    (PLGBRegressor(), "the store has no values of feature 0, but linear leaves need them"),
    (CARTRegressor(), "splitter='exact' of CARTRegressor needs the values"),
    (CARTRegressor(splitter="hist", ccp_alpha="cv"), "ccp_alpha='cv' of CARTRegressor"),
    (GradientBoostingRegressor(), "splitter='auto' of GradientBoostingRegressor"),
    (RandomForestRegressor(oob_score=True), "oob_score=True of RandomForestRegressor"),
    (RandomForestRegressor(splitter="exact"), "splitter='exact' of RandomForestRegressor"),
    (RandomForestRegressor(n_estimators="auto"), "n_estimators='auto' of RandomForestRegressor"),
    (LinearRegressor(), "LinearRegressor cannot be fitted to a BinnedStore"),
]


@pytest.mark.parametrize(("estimator", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_what_needs_values_is_refused_by_name(tmp_path, estimator, message):
    store = write_store(tmp_path / "s", make_rows(300))
    with pytest.raises((TypeError, ValueError), match=message):
        estimator.fit(store)
    assert not hasattr(estimator, "n_features_in_")


def test_target_and_weights_come_with_the_store(tmp_path):
    rows = make_rows(300)
    store = write_store(tmp_path / "s", rows)
    for more in ({"y": rows.y}, {"sample_weight": rows.y}):
        with pytest.raises(TypeError, match="from the BinnedStore: give only it"):
            XGBRegressor().fit(store, **more)
    with pytest.raises(TypeError, match="XGBRegressor.fit takes target and weights"):
        XGBRegressor().fit(store, rows.y)
    with pytest.raises(ValueError, match="y"):
        XGBRegressor().fit(rows.X)
    model = XGBRegressor(n_estimators=1).fit(X=store)
    with pytest.raises(ValueError, match="needs values, not bins"):
        XGBRegressor(n_estimators=1).fit(store, xgb_model=model)


def test_the_memory_limit_is_obeyed(tmp_path):
    path = tmp_path / "s"
    write_store(path, make_rows(3000))
    need = decoded_bytes(3000, 6)
    forest = RandomForestRegressor(n_estimators=1)
    forest.fit(BinnedStore(path, memory_limit=need))
    message = f"RandomForestRegressor needs the codes of all rows in memory, {need:,} bytes"
    with pytest.raises(MemoryError, match=message):
        forest.fit(BinnedStore(path, memory_limit=need - 1))
    for limit in (0, 1.5, True):
        with pytest.raises(ValueError, match="memory_limit must be a positive number of bytes"):
            BinnedStore(path, memory_limit=limit)


def write_group(root, limit: str, use: int, cache: int, version: int) -> None:
    folder = root / "sys/fs/cgroup" / ("memory" if version == 1 else "")
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    if version == 2:
        names = ("memory.max", "memory.current", "inactive_file")
    (folder / names[0]).write_text(limit + "\n")
    (folder / names[1]).write_text(f"{use}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {cache}\n")


@pytest.mark.parametrize("version", [1, 2])
def test_free_memory_is_that_of_the_control_group(tmp_path, version):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:    8000 kB\n")
    assert memory.free_memory(tmp_path) == 8_192_000
    write_group(tmp_path, "1000000", 700_000, 200_000, version)
    assert memory.free_memory(tmp_path) == 500_000
    write_group(tmp_path, "1000000", 2_000_000, 0, version)
    assert memory.free_memory(tmp_path) == 0
    write_group(tmp_path, "max", 700_000, 0, version)
    assert memory.free_memory(tmp_path) == 8_192_000


def test_the_default_limit_is_a_share_of_what_is_free(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 1000)
    assert memory.check_memory_limit(None) == 600
    monkeypatch.setattr(memory, "free_memory", lambda: None)
    with pytest.raises(ValueError, match="memory_limit must be given"):
        memory.check_memory_limit(None)


def test_midpoints_need_the_ends_of_bins(tmp_path):
    rows = make_rows(300)
    store = write_store(tmp_path / "s", rows)
    with StoreWriter(tmp_path / "t", store.schema) as writer:
        writer.append(store.read().T, rows.y)
    with pytest.raises(ValueError, match="write the store with values"):
        RandomForestRegressor(n_estimators=1).fit(BinnedStore(tmp_path / "t"))
    check_same(*fit_both(XGBRegressor(n_estimators=2), BinnedStore(tmp_path / "t"), rows), rows)


def test_a_store_without_target_is_refused(tmp_path):
    store = write_store(tmp_path / "s", make_rows(300))
    with StoreWriter(tmp_path / "t", Schema(store.mapper, target="none")) as writer:
        writer.append(store.read().T)
    with pytest.raises(ValueError, match="has no target, which XGBRegressor.fit needs"):
        XGBRegressor().fit(BinnedStore(tmp_path / "t"))
