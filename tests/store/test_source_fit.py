"""``est.fit(source, target="y")``: models of the table in memory, and errors before any work."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from batch_tables import make_columns, write_parquet

from hybridtrees import (
    CARTClassifier,
    EBLRRegressor,
    GradientBoostingRegressor,
    LinearRegressor,
    PLGBRegressor,
    RandomForestRegressor,
    XGBClassifier,
    XGBRegressor,
)

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
FEATURES = ["real", "count", "word"]
MODELS = [
    XGBRegressor(n_estimators=4, categorical_features=["count"]),
    XGBRegressor(n_estimators=4, max_bin=16),
    XGBClassifier(n_estimators=3),
    PLGBRegressor(n_estimators=4),
    GradientBoostingRegressor(n_estimators=4, splitter="hist"),
    RandomForestRegressor(n_estimators=3, random_state=0),
    CARTClassifier(splitter="hist", max_bins=30),
]


@pytest.fixture
def homes(tmp_path, monkeypatch):
    """A table, its columns, and the pattern of its files; temporary files go to a folder."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    columns = make_columns(1200, 5)
    columns["real"] = np.array(columns["real"], dtype=np.float32)
    columns["count"] = np.array(columns["count"], dtype=np.int8)
    columns["kind"] = ["up" if y > 0 else "down" for y in columns["y"]]
    table = pa.table(columns)
    write_parquet(table, tmp_path, [(0, 800), (800, 1200)], 300)
    return table, str(tmp_path / "*.parquet")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_models_are_those_of_the_table(model, homes, tmp_path):
    table, files = homes
    target = "kind" if hasattr(model, "predict_proba") else "y"
    dataset = pytest.importorskip("pyarrow.dataset").dataset(sorted(tmp_path.glob("*.parquet")))
    X, y, weight = table.select(FEATURES), table[target], table["w"].to_numpy()
    used = table.select([*FEATURES, target, "w"])
    own = type(model)(**model.get_params()).fit(X, y, sample_weight=weight)
    parts = [used.slice(0, 500), used.slice(500)]
    for source in (used, used.to_batches(), parts, pl.from_arrow(used).lazy()):
        mine = type(model)(**model.get_params()).fit(source, target=target, sample_weight="w")
        np.testing.assert_array_equal(mine.predict(X), own.predict(X))
    assert mine.feature_names_in_.tolist() == FEATURES
    left_out = [name for name in ("y", "kind") if name != target]
    files_with_more = model.fit(files, target=target, sample_weight="w")
    assert files_with_more.feature_names_in_.tolist() == [*FEATURES, *left_out]
    assert type(model)(**model.get_params()).fit(X=dataset, target=target).n_features_in_ == 5
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("model", "more", "kind", "message"),
    [
        (LinearRegressor(), {}, TypeError, r"LinearRegressor cannot be fitted by target=\.\.\."),
        (EBLRRegressor(), {}, TypeError, "EBLRRegressor cannot be fitted by target"),
        (XGBRegressor(tree_method="exact"), {}, ValueError, "tree_method must be 'hist'"),
        (CARTClassifier(), {}, ValueError, "splitter must be 'hist'"),
        (XGBRegressor(), {"target": None}, ValueError, "target of XGBRegressor.fit must name"),
        (XGBRegressor(), {"y": [1]}, TypeError, "takes y or target, .* not both"),
        (XGBRegressor(), {"target": "z"}, ValueError, "target names 'z', which source does not"),
        (XGBRegressor(), {"X": "no.parquet"}, FileNotFoundError, "source: no such file"),
        (XGBRegressor(), {"sample_weight": "z"}, ValueError, "weight names 'z'"),
        (XGBRegressor(conformal="cv"), {}, ValueError, "conformal of XGBRegressor"),
        (XGBRegressor(), {"target": "word"}, ValueError, "target contains NaN or None"),
        (XGBRegressor(), {"target": "kind"}, ValueError, "y must hold real numbers"),
    ],
)
def test_errors_leave_the_model_and_no_files(model, more, kind, message, homes, tmp_path):
    before = dict(vars(model))
    with pytest.raises(kind, match=message):
        model.fit(**{"X": homes[1], "target": "y", **more})
    assert vars(model) == before
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
