"""Memory that a fit may use for the codes of a store."""

from __future__ import annotations

import os
from pathlib import Path

# Share of the free memory that is used by default.
SHARE = 0.6

_GROUPS = (
    # limit, use, cache that can be given back: of version 2 and 1 of control groups
    ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current", "inactive_file"),
    (
        "sys/fs/cgroup/memory/memory.limit_in_bytes",
        "sys/fs/cgroup/memory/memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes that are free on the machine and within the control group; None if not known."""
    known = [_free_of_machine(root)]
    for limit, use, cache in _GROUPS:
        known.append(_free_of_group(root / limit, root / use, cache))
    found = [free for free in known if free is not None]
    return min(found) if found else None


def check_memory_limit(memory_limit: int | None) -> int:
    """Check the parameter `memory_limit`; returns the limit in bytes."""
    if memory_limit is None:
        free = free_memory()
        if free is None:
            raise ValueError("memory_limit must be given: the system does not say what is free")
        return int(SHARE * free)
    if isinstance(memory_limit, bool) or not isinstance(memory_limit, int) or memory_limit < 1:
        raise ValueError(
            f"memory_limit must be a positive number of bytes or None, got {memory_limit!r}"
        )
    return memory_limit


def _free_of_machine(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    if hasattr(os, "sysconf"):
        try:
            return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (OSError, ValueError):
            pass
    return None


def _free_of_group(limit: Path, use: Path, cache: str) -> int | None:
    try:
        most, used = int(limit.read_text()), int(use.read_text())
        for line in (limit.parent / "memory.stat").read_text().splitlines():
            if line.split()[:1] == [cache]:
                used -= int(line.split()[1])
    except (OSError, ValueError, IndexError):  # no such group, or no limit
        return None
    return max(0, most - used)
