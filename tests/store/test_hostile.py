"""Damaged, unfinished and foreign stores: one clear exception, no crash, no wrong table."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from stores import files_of, make_rows, write_store

from hybridtrees.store import layout
from hybridtrees.store.errors import StoreError
from hybridtrees.store.layout import BLOCK_ROWS
from hybridtrees.store.reader import BinnedStore
from hybridtrees.store.writer import StoreWriter

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs signals and limits of POSIX")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "s"
    rows = make_rows(BLOCK_ROWS + 500, weighted=True)
    with write_store(folder, rows) as store:
        return folder, store.read(), store.y


def read_all(folder):
    with BinnedStore(folder) as store:
        store.verify()
        return store.read(), store.y


def copied(whole, tmp_path):
    shutil.copytree(whole[0], tmp_path / "s")
    return tmp_path / "s"


@pytest.mark.parametrize("name", ["header.json", "index-0.npz", "blocks.bin"])
def test_a_missing_file_is_an_error(whole, tmp_path, name):
    folder = copied(whole, tmp_path)
    (folder / name).unlink()
    with pytest.raises(StoreError, match="half-written" if name == "header.json" else name):
        BinnedStore(folder)


@pytest.mark.parametrize("name", ["header.json", "index-0.npz", "blocks.bin"])
def test_a_truncated_file_is_an_error(whole, tmp_path, name):
    folder = copied(whole, tmp_path)
    size = (folder / name).stat().st_size
    for keep in (0, 1, 10, 24, size // 2, size - 1):
        shutil.copy(whole[0] / name, folder / name)
        os.truncate(folder / name, keep)
        with pytest.raises(StoreError):
            BinnedStore(folder)


def test_a_file_that_is_truncated_while_open_is_an_error(whole, tmp_path):
    folder = copied(whole, tmp_path)
    with BinnedStore(folder) as store:
        os.truncate(folder / "blocks.bin", 1000)
        with pytest.raises(StoreError, match="truncated within block 1"):
            store.block(1)


@pytest.mark.parametrize("name", ["header.json", "index-0.npz", "blocks.bin"])
def test_a_flipped_bit_is_an_error(whole, tmp_path, name):
    folder = copied(whole, tmp_path)
    clean = (folder / name).read_bytes()
    rng = np.random.default_rng(0)
    for at in [0, 9, 30, len(clean) - 1, *rng.integers(0, len(clean), 60)]:
        damaged = bytearray(clean)
        damaged[at] ^= 1 << int(rng.integers(8))
        (folder / name).write_bytes(damaged)
        try:
            codes, y = read_all(folder)
        except StoreError as error:
            assert str(folder) in str(error)
        else:  # white space of the header
            assert name == "header.json"
            np.testing.assert_array_equal(codes, whole[1])
            np.testing.assert_array_equal(y, whole[2])


def rewrite_header(folder, **changes):
    state = json.loads((folder / "header.json").read_text())
    del state["crc32"]
    state.update(changes)
    state["crc32"] = layout._checksum(state)
    (folder / "header.json").write_text(json.dumps(state))


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"format": "other"},
        {"n_rows": 7},
        {"n_features": 3},
        {"block_rows": 1024},
        {"parts": []},
        {"schema": None},
        {"index": {"file": "../index-0.npz"}},
        {"id": "00" * 16},
    ],
)
def test_a_header_that_does_not_fit_is_an_error(whole, tmp_path, changes):
    folder = copied(whole, tmp_path)
    rewrite_header(folder, **changes)
    message = (
        "the version 2, this hybridtrees reads" if "version" in changes else "cannot be|damaged"
    )
    with pytest.raises(StoreError, match=message):
        BinnedStore(folder)


def test_codes_beyond_the_bins_are_an_error(tmp_path):
    """Checksums that fit do not help: such codes would lead out of a histogram."""
    store = write_store(tmp_path / "s", make_rows(1000), compression=None)
    at = int(store._layout.blocks["offset"][0]) + 1000  # column 1, which has 4 bins
    with open(tmp_path / "s" / "blocks.bin", "r+b") as file:
        file.seek(at)
        file.write(b"\xff")
    store._layout.chunks["crc"][0, 1] = layout.zlib.crc32(
        (tmp_path / "s" / "blocks.bin").read_bytes()[at : at + 1000]
    )
    layout.write_layout(store._layout)
    for read in (lambda s: s.block(0), lambda s: s.verify()):
        with pytest.raises(StoreError, match="column 1 of block 0: it holds codes beyond"):
            read(BinnedStore(tmp_path / "s"))


def test_blocks_of_another_store_are_an_error(whole, tmp_path):
    folder = copied(whole, tmp_path)
    write_store(tmp_path / "other", make_rows(BLOCK_ROWS + 500, weighted=True))
    shutil.copy(tmp_path / "other" / "blocks.bin", folder / "blocks.bin")
    with pytest.raises(StoreError, match="belongs to another store"):
        BinnedStore(folder)


def test_parts_that_were_moved_are_given_anew(tmp_path):
    rows = make_rows(3 * BLOCK_ROWS)
    codes = write_store([tmp_path / "a", tmp_path / "b"], rows).read()
    shutil.move(tmp_path / "b", tmp_path / "c")
    with pytest.raises(StoreError, match="cannot be read"):
        BinnedStore(tmp_path / "a")
    with pytest.raises(StoreError, match="2 parts, but 3 paths"):
        BinnedStore([tmp_path / "a", tmp_path / "c", tmp_path / "d"])
    np.testing.assert_array_equal(BinnedStore([tmp_path / "a", tmp_path / "c"]).read(), codes)


def test_no_store_is_an_error(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(FileNotFoundError, match="is not a store"):
            BinnedStore(path)
    with pytest.raises(TypeError, match="paths must be a path"):
        BinnedStore([])


def test_an_error_while_building_leaves_it_half_written(tmp_path):
    rows = make_rows(1000)
    schema = write_store(tmp_path / "s", rows).schema
    with pytest.raises(RuntimeError) as caught, StoreWriter(tmp_path / "t", schema) as writer:
        writer.append(np.zeros((10, 6), np.uint8), np.zeros(10))
        raise RuntimeError("stop")
    assert "is half-written" in caught.value.__notes__[0]
    with pytest.raises(StoreError, match="half-written: building it did not end"):
        BinnedStore(tmp_path / "t")
    write_store(tmp_path / "t", rows)  # built anew
    assert BinnedStore(tmp_path / "t").n_rows == 1000


def test_a_store_needs_rows(tmp_path):
    schema = write_store(tmp_path / "s", make_rows(100)).schema
    with pytest.raises(StoreError, match="at least one row"), StoreWriter(tmp_path / "t", schema):
        pass


def run_building(tmp_path, body: str) -> subprocess.CompletedProcess:
    """Run lines that write to tmp_path/t, in a process of its own."""
    code = f"""
    import os, resource, signal, sys
    import numpy as np
    from hybridtrees.store.reader import BinnedStore
    from hybridtrees.store.writer import StoreWriter
    folder = {str(tmp_path / "t")!r}
    store = BinnedStore({str(tmp_path / "s")!r})
    codes = np.random.default_rng(0).integers(0, 2, (200_000, 6)).astype(np.uint8)
    """
    lines = textwrap.dedent(code) + textwrap.dedent(body)
    return subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True)


@POSIX
def test_a_full_disk_is_one_error(tmp_path):
    write_store(tmp_path / "s", make_rows(1000))
    done = run_building(
        tmp_path,
        """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, 700_000))
        with StoreWriter(folder, store.schema) as writer:
            writer.append(codes, np.random.default_rng(0).normal(size=len(codes)))
        """,
    )
    assert done.returncode == 1
    assert "OSError" in done.stderr
    assert "is half-written" in done.stderr
    with pytest.raises(StoreError, match="half-written"):
        BinnedStore(tmp_path / "t")


@POSIX
@pytest.mark.parametrize("extends", [False, True])
def test_a_killed_writer_leaves_no_wrong_store(tmp_path, extends):
    store = write_store(tmp_path / "s", make_rows(70_000))
    if extends:
        shutil.copytree(tmp_path / "s", tmp_path / "t")
    opening = "StoreWriter.extending(folder)" if extends else "StoreWriter(folder, store.schema)"
    done = run_building(
        tmp_path,
        f"""
        with {opening} as writer:
            writer.append(codes, np.zeros(len(codes)))
            while writer._waiting:
                writer._write_waiting(0)
            os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert done.returncode == -signal.SIGKILL
    if not extends:
        assert sum(path.stat().st_size for path in files_of(tmp_path / "t")) > 100_000
        with pytest.raises(StoreError, match="half-written"):
            BinnedStore(tmp_path / "t")
        return
    before = store.read()
    np.testing.assert_array_equal(BinnedStore(tmp_path / "t").read(), before)
    with StoreWriter.extending(tmp_path / "t") as writer:  # and goes on from there
        writer.append(before[:, :1000].T, np.ones(1000))
    with BinnedStore(tmp_path / "t") as longer:
        longer.verify()
        np.testing.assert_array_equal(longer.read(), np.hstack([before, before[:, :1000]]))


def test_an_unreadable_file_is_an_error(whole, tmp_path, monkeypatch):
    folder = copied(whole, tmp_path)
    store = BinnedStore(folder)

    def broken(*given):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(BinnedStore, "_read_at", broken)
    with pytest.raises(StoreError, match="cannot be read in block 0.*Input/output error"):
        store.block(0)
