"""Comparisons on a part of the rows of a file, and the winner fitted to all of them."""

from __future__ import annotations

import numpy as np
import pytest
from batch_tables import write_parquet

import hybridtrees
from hybridtrees import cli
from hybridtrees._compare import large
from hybridtrees._compare.files import load_file
from hybridtrees._compare.reading import read_table

pa = pytest.importorskip("pyarrow")
FAST = ["--budget", "0.001", "--jobs", "1"]


@pytest.fixture
def homes(tmp_path):
    """A table with dates, text, truth values and missing targets, and the pattern of its files."""
    rng = np.random.default_rng(0)
    n = 600
    area, town = rng.uniform(40, 160, n), rng.choice(["port", "hill", "mill"], n)
    price = 2 * area + 80 * (town == "hill") + rng.normal(0, 5, n)
    days = np.datetime64("2020-01-01", "us") + np.arange(n) * np.timedelta64(86_400_000_000, "us")
    price[::50] = np.nan
    columns = {"area": area, "town": town, "new": area > 100, "sold": days, "price": price}
    columns["dear"] = np.where(area > 100, "yes", "no")
    table = pa.table({**columns, "price": pa.array(price, from_pandas=True)})
    write_parquet(table, tmp_path, [(0, 250), (250, 600)], 100)
    return table, str(tmp_path / "*.parquet")


def test_several_files_are_read_as_one(homes):
    table, files = homes
    found = read_table(files)
    np.testing.assert_array_equal(found["area"], table["area"].to_numpy())
    assert found["town"].tolist() == table["town"].to_pylist()
    data = load_file(files, "price", drop=["dear"])
    assert data.shape[0] == 588 and not data.is_drawn


def test_rows_are_drawn_once_and_by_the_seed(homes, monkeypatch):
    table, files = homes
    drawn = load_file(files, "dear", rows=200, seed=3)
    assert drawn.shape[0] == 200 and drawn.is_drawn
    assert "200 of 600 rows, drawn at random, are compared on" in drawn.notes
    area = np.asarray(drawn.columns.column(0))
    assert len(np.unique(area)) == 200 and np.isin(area, table["area"].to_numpy()).all()
    again, other = (load_file(files, "dear", rows=200, seed=seed) for seed in (3, 4))
    np.testing.assert_array_equal(again.columns.column(0), area)
    assert not np.array_equal(other.columns.column(0), area)
    # By default as many as there is memory for.
    monkeypatch.setattr(large, "check_memory_limit", lambda limit: 100 * 8 * large._COPIES * 6)
    assert load_file(files, "dear").shape[0] == 100
    monkeypatch.setattr(large, "check_memory_limit", lambda limit: 1 << 40)
    assert not load_file(files, "dear").is_drawn


@pytest.mark.parametrize("target", ["price", "dear"])
def test_the_winner_is_fitted_to_all_rows(target, homes, tmp_path, capsys):
    table, files = homes
    out = tmp_path / "best.htree"
    left_out = ({"price", "dear"} - {target}).pop()
    command = ["compare", files, "--target", target, "--drop", left_out, "--rows", "300", *FAST]
    assert cli.main([*command, "--models", "xgb", "baseline", "--save", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "of 600 rows, drawn at random, are compared on" in printed
    assert ", the best model, is fitted to all rows" in printed
    best = hybridtrees.load(out)
    own = type(best.estimator)(**best.estimator_.get_params())
    known = table.filter(table[target].is_valid()).drop([left_out])
    X = {name: known[name].to_numpy() for name in known.column_names if name != target}
    X["new"] = X["new"].astype(float)
    y = known[target].to_numpy()
    dated = best.dates_.transform(X)
    np.testing.assert_array_equal(best.predict(X), own.fit(dated, y).predict(dated))


def test_a_winner_that_needs_memory_says_so(homes, tmp_path, capsys):
    _, files = homes
    out = tmp_path / "best.htree"
    command = ["compare", files, "--target", "price", "--drop", "dear", "--rows", "300", *FAST]
    assert cli.main([*command, "--models", "linear", "--save", str(out)]) == 0
    assert "needs the values of all rows in memory: it is fitted to the rows dr" in (
        capsys.readouterr().out
    )
    assert cli.main([*command, "--models", "linear", "xgb", "--save", str(out)]) == 0
    assert "is fitted to all rows" in capsys.readouterr().out
    (tmp_path / "t.csv").write_text("x,price\n1,2\n")
    assert cli.main(["compare", str(tmp_path / "t.csv"), "--target", "price", "--rows", "10"]) == 1
    assert "--rows needs Parquet files" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["compare", "--rows", "10"])
    assert "--rows needs a file" in capsys.readouterr().err
