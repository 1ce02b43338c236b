"""Outputs of the command line: which files may be written, and how."""

from __future__ import annotations

import os
import stat

import pytest

from hybridtrees import _outputs
from hybridtrees._outputs import (
    check_distinct,
    check_writable,
    report_error,
    write_text,
    writing_to,
)


def names_of_one_file(folder, kind):
    """Two names of a file that exists, or of none yet."""
    first, second = folder / "first", folder / "second"
    if not kind.startswith("new"):
        first.write_text("data")
    if kind in ("symlink", "new symlink"):
        second.symlink_to(first)
    elif kind == "hard link":
        second.hardlink_to(first)
    elif kind == "folder link":
        (folder / "link").symlink_to(folder)
        second = folder / "link" / "first"
    else:
        second = folder / "other" / ".." / "first"
        (folder / "other").mkdir()
    return str(first), str(second)


KINDS = ["path", "symlink", "hard link", "folder link", "new path", "new symlink"]


@pytest.mark.parametrize("kind", KINDS)
def test_two_names_of_one_file_are_refused(kind, tmp_path):
    for one, other in (names := names_of_one_file(tmp_path, kind), names[::-1]):
        with pytest.raises(ValueError, match=f"--a {other} would overwrite the data {one}"):
            check_distinct({"the data": one}, {"--a": other})
        with pytest.raises(ValueError, match=f"--b {other} is the same file as --a {one}"):
            check_distinct({}, {"--a": one, "--no": None, "--b": other})


def test_what_is_not_one_file_is_allowed(tmp_path):
    (tmp_path / "data").write_text("x")
    (tmp_path / "copy").write_text("x")
    # A file may be read twice; devices can be written to twice.
    data, copy, new = (str(tmp_path / name) for name in ("data", "copy", "new"))
    check_distinct(
        {"the model": data, "the data": data, "no file": None},
        {"--a": copy, "--b": new, "--c": os.devnull, "--d": os.devnull, "--e": None},
    )


def test_streams_that_are_files_are_told_apart(tmp_path, monkeypatch):
    path = tmp_path / "data"
    with open(path, "w+") as stream:
        monkeypatch.setattr(_outputs, "_STDIN", stream.fileno())
        monkeypatch.setattr(_outputs, "_STDOUT", stream.fileno())
        with pytest.raises(ValueError, match="would overwrite the data -"):
            check_distinct({"the data": "-"}, {"--a": str(path)})
        with pytest.raises(ValueError, match="--a - is the same file as --b"):
            check_distinct({}, {"--b": str(path), "--a": "-"})


def test_paths_that_cannot_be_written(tmp_path, monkeypatch):
    path = tmp_path / "out"
    check_writable(str(path))
    with pytest.raises(FileNotFoundError, match="no such folder: "):
        check_writable(str(path / "file"))
    with pytest.raises(IsADirectoryError, match="is a folder, not a file"):
        check_writable(str(tmp_path))
    check_writable(os.devnull)
    with pytest.raises(OSError, match="is not a regular file"):
        check_writable(os.devnull, regular=True)
    path.write_text("x")
    for locked, message in ((path, "no permission to write to"), (tmp_path, "in the folder")):
        # The superuser may write anywhere, so permissions are made up.
        monkeypatch.setattr(os, "access", lambda p, mode, locked=locked: str(p) != str(locked))
        with pytest.raises(PermissionError, match=message):
            check_writable(str(path))


def test_a_file_that_fails_leaves_the_old_one(tmp_path):
    path = tmp_path / "out"
    write_text(path, "old")
    with pytest.raises(RuntimeError, match="no luck"), writing_to(path) as stream:
        stream.write(b"new")
        stream.flush()
        raise RuntimeError("no luck")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["out"]
    write_text(path, "new \u00e4")
    assert path.read_text(encoding="utf-8") == "new \u00e4" and os.listdir(tmp_path) == ["out"]


def test_links_and_permissions_stay(tmp_path):
    path, link = tmp_path / "out", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o622)  # more than the usual umask leaves to others
    link.symlink_to("out")
    write_text(link, "new")
    assert link.is_symlink() and path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o622
    other = tmp_path / "other"
    (tmp_path / "dangling").symlink_to("other")
    write_text(tmp_path / "dangling", "new")
    assert other.read_text() == "new" and not other.is_symlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_devices_are_written_to(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(path, "text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_errors_in_words(capsys):
    report_error(ValueError("y is odd"))
    report_error(KeyError("a"), "--json out")
    assert capsys.readouterr().err.splitlines() == [
        "hybridtrees: y is odd",
        "hybridtrees: --json out: KeyError: 'a'",
    ]
