"""Atomic replacement of files."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where a file in use cannot be removed anyway
    fcntl = None  # type: ignore[assignment]


def find_target(path: Path) -> Path:
    """Return the path with symbolic links resolved; the file need not exist."""
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "this is a directory, not a file", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "this is a device or a pipe, not a regular file", str(path))
    return target


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Open a new file that replaces `target`, keeping its mode, if the block succeeds."""
    remove_leftovers(target)
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mode = None
    part, descriptor = _open_part(target, 0o666 if mode is None else mode)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            # Some file systems report a full disk only here or at close, which would be too late.
            os.fsync(file.fileno())
            if mode is not None:
                os.chmod(part, mode)  # undo the effect of the umask
            if fcntl is not None:
                os.replace(part, target)  # while locked, so that no other save removes it
        if fcntl is None:
            os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _stem(target: Path) -> str:
    """Return the name of the target, shortened to leave room for a suffix."""
    return os.fsdecode(os.fsencode(target.name)[:240])


def _open_part(target: Path, mode: int) -> tuple[Path, int]:
    """Create a file beside the target, locked as long as it is open."""
    while True:
        part = target.with_name(f"{_stem(target)}.{secrets.token_hex(4)}.part")
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(part, flags, mode)
        except OSError as error:
            error.filename = os.fspath(target)  # the file that the user knows of
            raise
        if not _lock(descriptor, wait=True) or part.exists():
            return part, descriptor
        os.close(descriptor)  # removed as a leftover before it was locked


def _lock(descriptor: int, wait: bool) -> bool:
    """Lock an open file; False if that fails."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def remove_leftovers(target: Path) -> None:
    """Remove temporary files of killed saves to the same target.

    A running save holds a lock on its file, here or on another machine.
    """
    ours = re.compile(re.escape(_stem(target)) + r"\.[0-9a-f]{8}\.part")
    with suppress(OSError):
        for name in os.listdir(target.parent):
            if ours.fullmatch(name):
                _remove_unlocked(target.parent / name)


def _remove_unlocked(part: Path) -> None:
    with suppress(OSError):
        if part.is_symlink() or not part.is_file():
            return
        if fcntl is None:
            part.unlink()  # fails if it is open
            return
        descriptor = os.open(part, os.O_RDONLY)
        try:
            if _lock(descriptor, wait=False):
                part.unlink()
        finally:
            os.close(descriptor)
