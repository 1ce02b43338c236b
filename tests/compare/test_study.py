"""The script that repeats the published study: its tables, and a run on small files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "asv_bench"


@pytest.fixture
def study(monkeypatch):
    """The script as a module; it belongs to the repository, not to the package."""
    if not SCRIPTS.is_dir():
        pytest.skip("the scripts are not there")
    pytest.importorskip("pandas")
    monkeypatch.syspath_prepend(SCRIPTS)
    import study

    return study


def figures(*scores, fit_s=1.0):
    return {
        "score": float(np.mean(scores)),
        "low": min(scores),
        "high": max(scores),
        "fit_s": fit_s,
        "cpu_s": fit_s,
    }


def record(ours, published=None, peer=None):
    seconds = None if published is None else 9.0
    more = {} if peer is None else {"peer": peer}
    return {"ours": ours, "published": published, "published_s": seconds, **more}


def test_worse_is_beyond_the_spread(study):
    import study_tables

    results = {
        "breast_cancer": {  # the larger the better
            "LR": record(figures(0.98), 0.98001),
            "DT": record(figures(0.90), 0.95, figures(0.90)),
            "RF": record(figures(0.96, 0.98), 0.98),
            "GB": record(figures(0.96, 0.97), 0.98, figures(0.98, 0.99)),
        },
        "house_prices": {  # the smaller the better
            "LR": record(figures(20.0), 25.0),
            "DT": record(figures(30.0), 25.0, figures(26.0)),
            "RF": record(figures(20.0, 22.0), 20.5, figures(18.0, 19.0)),
            "GB": record(figures(9.0), None, figures(8.0)),
        },
    }
    rows = study_tables.judged(results)[1:]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("breast_cancer", "DT", "print"),
        ("breast_cancer", "GB", "print and peer"),
        ("house_prices", "DT", "print and peer"),
        ("house_prices", "RF", "peer"),
        ("house_prices", "GB", "peer"),
    ]
    # A peer that does no better in one of several runs shows that chance decides.
    assert not study_tables.worse_than("house_prices", figures(9.0), 8.0, figures(8.0, 9.0))
    assert study_tables.worse_than("house_prices", figures(9.0), 8.0, figures(8.0, 8.5))
    assert study_tables.worse_than("house_prices", figures(9.0), 8.0, figures(9.0))
    ranks = study_tables.mean_ranks(results)
    assert ranks == {"LR": 1.5, "GB": 2.0, "RF": 2.5, "DT": 4.0} and list(ranks)[0] == "LR"
    seconds = study_tables.compact_seconds(results)
    assert seconds[1] == ["LR", "2.0", "18.0", "-"] and seconds[2] == ["DT", "2.0", "18.0", "2.0"]
    assert study_tables.compact_scores(results)[2][:3] == [
        "DT", "0.9000 (0.9500, 0.9000)", "30.00 (25.00, 26.00)",
    ]  # fmt: skip


def write_houses(folder):
    import pandas

    rng = np.random.default_rng(0)
    for part, n in (("train", 70), ("validation", 15), ("test", 15)):
        X = rng.normal(size=(n, 3))
        price = 1000 * (X[:, 0] + 0.1 * rng.normal(size=n))
        table = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "SalePrice": price})
        table.to_parquet(folder / f"house_prices_{part}.parquet")


def test_a_run_on_small_files_and_its_resumption(study, tmp_path, capsys):
    pytest.importorskip("sklearn")
    write_houses(tmp_path)
    result = tmp_path / "result.json"
    command = ["--source", str(tmp_path), "--data", "house_prices", "--threads", "1"]
    command += ["--seeds", "2", "--json", str(result), "--resume"]
    assert study.main([*command, "--models", "LR", "RF", "LT", "--no-peers"]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines() if line.startswith("  ")]
    assert [line[:2] for line in lines[1:4]] == [
        ["LR", "23.612"],
        ["RF", "37.926"],
        ["LT", "25.867"],
    ]
    assert "fits of all models on all data sets" in out
    kept = json.loads(result.read_text())["results"]["house_prices"]
    assert kept["RF"]["ours"]["low"] < kept["RF"]["ours"]["high"]
    # Only what is missing is measured: the peers, of which linear trees have none here.
    assert study.main([*command, "--models", "LR", "LT", "--markdown"]) == 0
    captured = capsys.readouterr()
    assert "LR:" not in captured.err and "| LR | " in captured.out
    again = json.loads(result.read_text())["results"]["house_prices"]
    assert again["LR"]["ours"] == kept["LR"]["ours"] and again["RF"] == kept["RF"]
    assert again["LR"]["peer"]["score"] == pytest.approx(again["LR"]["ours"]["score"], rel=1e-6)
    assert again["LT"]["no_peer"] == "no --peer-python" and "peer" not in again["LT"]


def test_orders_of_columns_are_permutations(study, tmp_path):
    write_houses(tmp_path)
    tables = study.load_tables("house_prices", tmp_path)
    for model in ("XGB", "LT"):
        data, other = tables.in_order(model, 0), tables.in_order(model, 3)
        assert data is tables.of(model)
        places = {column.tobytes(): place for place, column in enumerate(data["X"].T)}
        columns = [places[column.tobytes()] for column in other["X"].T]
        assert sorted(columns) == [0, 1, 2] and columns != [0, 1, 2]
        np.testing.assert_array_equal(data["X_test"][:, columns], other["X_test"])
    assert study.draws(True, 4, 2) == [(0, 0), (0, 1)]
    assert study.draws(False, 2, 3) == [(0, 0), (1, 0)]


def test_no_data_is_said(study, tmp_path, capsys):
    assert study.main(["--source", str(tmp_path / "nowhere")]) == 1
    assert "no data" in capsys.readouterr().err
