"""Code that must run in an interpreter of its own, to see what an import brings along."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import hybridtrees


def run_python(*arguments: str) -> subprocess.CompletedProcess:
    """Run a fresh interpreter that finds the same hybridtrees, and wait for it."""
    parent = str(Path(hybridtrees.__file__).parents[1])
    paths = [parent, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


def check_python(code: str) -> None:
    """Run code in a fresh interpreter; what it raises fails the test."""
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
