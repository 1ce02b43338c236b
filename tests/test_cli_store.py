"""The command ``hybridtrees store``: build, info and verify."""

from __future__ import annotations

import numpy as np
import pytest
from batch_tables import make_columns, write_parquet

import hybridtrees
from hybridtrees import cli


@pytest.fixture
def folder(tmp_path):
    """A folder with two Parquet files in its folder ``in``."""
    pa = pytest.importorskip("pyarrow")
    (tmp_path / "in").mkdir()
    write_parquet(pa.table(make_columns(300, 0)), tmp_path / "in", [(0, 100), (100, 300)], 70)
    return tmp_path


def build(folder, *more) -> int:
    names = ["--target", "y", "--weight", "w", "--columns", "real", "count", "word"]
    output = ["-o", str(folder / "s")]
    return cli.main(["store", "build", str(folder / "in" / "*.parquet"), *output, *names, *more])


def test_build_info_and_verify(folder, capsys):
    assert build(folder, "--categorical", "count", "--raw", "--max-bins", "31", "--progress") == 0
    out, err = capsys.readouterr()
    assert "rows      300" in out and "3, of which 2 categorical" in out
    assert err.splitlines()[-1].startswith("written 300 of 300 rows")
    assert cli.main(["store", "info", str(folder / "s")]) == 0
    assert capsys.readouterr().out == out
    assert cli.main(["store", "verify", str(folder / "s")]) == 0
    assert "300 rows in 1 blocks: no damage found" in capsys.readouterr().out
    with hybridtrees.BinnedStore(folder / "s") as store:
        schema, columns = store.schema, make_columns(300, 0)
        assert schema.mapper.max_bins == 31 and schema.weighted and schema.raw_features == [0]
        np.testing.assert_array_equal(store.y, columns["y"])
    assert build(folder) == 1
    assert "holds a store: give another path" in capsys.readouterr().err
    more = ["--overwrite", "--no-progress", "--compression", "none", "--raw", "count"]
    assert build(folder, *more) == 0
    assert capsys.readouterr().err == ""
    with hybridtrees.BinnedStore(folder / "s") as store:
        assert store.schema.raw_features == [1]


def test_several_disks_and_text_as_a_target(folder, capsys):
    paths = [str(folder / "s1"), str(folder / "s2")]
    command = ["store", "build", str(folder / "in"), "-o", *paths, "--target", "word"]
    assert cli.main(command) == 1  # some targets are missing
    assert "target contains NaN or None" in capsys.readouterr().err
    assert cli.main([*command[:-1], "count"]) == 0
    assert "target    7 different values" in capsys.readouterr().out
    assert cli.main(["store", "verify", *paths]) == 0


def test_damage_is_found(folder, capsys):
    assert build(folder) == 0
    blocks = folder / "s" / "blocks.bin"
    content = bytearray(blocks.read_bytes())
    content[len(content) // 2] ^= 1
    blocks.write_bytes(content)
    capsys.readouterr()
    assert cli.main(["store", "verify", str(folder / "s")]) == 1
    assert "is damaged in column" in capsys.readouterr().err
    assert cli.main(["store", "info", str(folder / "in")]) == 1
    assert "is not a store" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        cli.main(["store"])
    assert stop.value.code == 2
