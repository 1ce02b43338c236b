"""Outputs of the command line: checks before the work; files, streams and errors after it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, TextIO

from hybridtrees._replacing import find_target, replacing

# Means the standard input or output in place of a file name.
STREAM = "-"
_STDIN, _STDOUT = 0, 1


def check_distinct(inputs: Mapping[str, str | None], outputs: Mapping[str, str | None]) -> None:
    """Refuse an output that is also an input or another output.

    Links are followed, and hard links to one file are one file.
    """
    seen = {}
    for what, path in inputs.items():
        if path is not None:
            seen[_identity(path, _STDIN)] = f"would overwrite {what} {path}"
    for what, path in outputs.items():
        if path is None:
            continue
        identity = _identity(path, _STDOUT)
        if identity is not None and identity in seen:
            raise ValueError(f"{what} {path} {seen[identity]}")
        seen[identity] = f"is the same file as {what} {path}: each output needs a file of its own"


def _identity(path: str, descriptor: int) -> object:
    """Return a key that all names of a file share; None for terminals and pipes.

    Those hold nothing that could be overwritten.
    """
    try:
        found = os.fstat(descriptor) if path == STREAM else os.stat(path)
    except OSError:  # not there yet, or a stream that was closed
        return None if path == STREAM else os.path.normcase(os.path.realpath(path))
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def check_writable(path: str, *, regular: bool = False) -> None:
    """Refuse a path that cannot be written to, or that is not a `regular` file."""
    file = Path(path)
    folder = file.resolve().parent
    # The folder as typed, unless a link leads to another one.
    shown = folder if file.is_symlink() else file.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"no such folder: {shown}")
    if file.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a file to write to")
    if regular and file.exists() and not file.is_file():
        raise OSError(f"{path} is not a regular file")
    # Regular and new files are replaced through their folder, which must be writable.
    if not os.access(folder, os.W_OK) and (file.is_file() or not file.exists()):
        raise PermissionError(f"no permission to write in the folder {shown}")
    if file.exists() and not os.access(file, os.W_OK):
        raise PermissionError(f"no permission to write to {path}")


@contextmanager
def writing_to(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that replaces the one at `path` once everything is written.

    On an error the old file is not changed. Links and permissions are kept. Devices and pipes are
    written to directly.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as stream:
            yield stream
        return
    with replacing(find_target(Path(path))) as stream:
        yield stream


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write text to a file as UTF-8; see `writing_to`."""
    with writing_to(path) as stream:
        stream.write(text.encode())


def discard(stream: TextIO) -> None:
    """Redirect a stream to the null device.

    Python flushes the standard output once more at exit, which must not fail again.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def report_error(error: Exception, where: str = "") -> None:
    """Print an error; its type is shown only if it is not one that users can fix."""
    expected = isinstance(error, ValueError | TypeError | OSError | ImportError)
    kind = "" if expected else f"{type(error).__name__}: "
    print(f"hybridtrees: {where and f'{where}: '}{kind}{error}", file=sys.stderr)
