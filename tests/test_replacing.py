"""Saving over what is there already: links, modes, devices, and what killed saves left."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time

import pytest
from toy_estimators import Holder

from hybridtrees._persistence import load, save
from hybridtrees._replacing import replacing

posix = pytest.mark.skipif(os.name != "posix", reason="modes, links and pipes are POSIX's")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@posix
def test_links_are_followed(tmp_path):
    (tmp_path / "there").mkdir()
    save(Holder(1), tmp_path / "there" / "model")
    (tmp_path / "link").symlink_to(tmp_path / "there" / "model")
    (tmp_path / "second").symlink_to("link")
    save(Holder(2), tmp_path / "second")
    assert load(tmp_path / "there" / "model").value == 2
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "second").is_symlink()
    (tmp_path / "dangling").symlink_to("there/new")
    save(Holder(3), tmp_path / "dangling")
    assert (tmp_path / "dangling").is_symlink()
    assert load(tmp_path / "there" / "new").value == 3
    assert names(tmp_path / "there") == ["model", "new"]


def test_errors_name_the_file_of_the_user(tmp_path):
    target = tmp_path / "missing" / "model"
    with pytest.raises(FileNotFoundError) as caught:
        save(Holder(1), target)
    assert caught.value.filename == str(target)


@posix
def test_the_mode_is_kept(tmp_path):
    path = tmp_path / "model"
    before = os.umask(0o027)
    try:
        save(Holder(1), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        for mode in (0o600, 0o444, 0o666):
            path.chmod(mode)
            save(Holder(2), path)
            assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(before)
    assert load(path).value == 2


@posix
def test_a_file_on_its_way_is_as_private_as_the_target(tmp_path):
    save(Holder(1), tmp_path / "model")
    (tmp_path / "model").chmod(0o600)
    with replacing(tmp_path / "model"):
        modes = [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()]
    assert modes == [0o600, 0o600]


def test_directories_are_refused_before_any_work(tmp_path):
    with pytest.raises(IsADirectoryError, match="this is a directory, not a file"):
        save(Holder(lambda: None), tmp_path)
    assert names(tmp_path) == []


@posix
def test_pipes_and_devices_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to(os.devnull)
    for name in ("pipe", "null"):
        with pytest.raises(OSError, match=f"not a regular file: .*{name}"):
            save(Holder(lambda: None), tmp_path / name)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert names(tmp_path) == ["null", "pipe"]


KILLED = """
import sys, time
from pathlib import Path
from hybridtrees._replacing import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"half a model")
    file.flush()
    print("open", flush=True)
    time.sleep(60)
"""


def test_what_killed_saves_left_is_cleared_away(tmp_path):
    path = tmp_path / "model"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "open\n"
    (left,) = names(tmp_path)
    others = ["model.part", "model.0123.part", "model2.01234567.part", "amodel.01234567.part"]
    for name in others:
        (tmp_path / name).write_text("of somebody else")
    save(Holder(1), path)
    assert names(tmp_path) == sorted(["model", left, *others])  # it is in use
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 30
    while (tmp_path / left).exists() and time.monotonic() < deadline:
        save(Holder(2), path)
    assert names(tmp_path) == sorted(["model", *others])
    assert load(path).value == 2


def test_saves_of_one_name_at_a_time_do_not_disturb_each_other(tmp_path):
    with replacing(tmp_path / "model") as file:
        save(Holder(1), tmp_path / "model")
        assert load(tmp_path / "model").value == 1
        file.write(b"later")
    assert (tmp_path / "model").read_bytes() == b"later"
    assert names(tmp_path) == ["model"]


def test_nothing_is_left_when_writing_fails(tmp_path):
    (tmp_path / "model").write_text("of yesterday")
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "model") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model").read_text() == "of yesterday"


def test_a_disk_that_is_full_when_written_to_leaves_the_old_file(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(28, "No space left on device")

    save(Holder(1), tmp_path / "model")
    monkeypatch.setattr("hybridtrees._replacing.os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        save(Holder(2), tmp_path / "model")
    assert load(tmp_path / "model").value == 1
    assert names(tmp_path) == ["model"]


@posix
def test_long_names(tmp_path):
    save(Holder(1), tmp_path / ("m" * 255))
    assert load(tmp_path / ("m" * 255)).value == 1
