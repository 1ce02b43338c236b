"""The number of threads: determined once per public call, then passed down as an int."""

from __future__ import annotations

import functools
import math
import os
from numbers import Integral
from pathlib import Path

from hybridtrees.core.base._threads import openmp_max_threads

# OpenMP aborts the process if it cannot start as many threads as requested.
MOST_THREADS = 64

# With fewer entries of a table per thread, synchronisation takes longer than the work.
_ENTRIES_PER_THREAD = 16384

# To predict fewer rows takes less time than to wake a second thread.
FEW_ROWS_TREES, FEW_ROWS_LINEAR = 512, 4096

# A child made by fork() inherits an OpenMP runtime without its worker threads: a parallel region
# would wait for them for ever. Such a child computes with one thread.
_in_forked_child = False


def _note_fork() -> None:
    global _in_forked_child
    _in_forked_child = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def _cgroup_quota() -> float:
    """CPUs that the control group allows, or infinity."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            return int(quota) / int(period)
    except (OSError, ValueError):
        pass
    return math.inf


@functools.cache
def usable_cpus() -> int:
    """CPUs this process may use, by affinity mask and control-group quota."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, min(count, math.ceil(quota)) if quota < math.inf else count)


def effective_threads(n_jobs: int | None) -> int:
    """Threads for `n_jobs`: None and -1 mean every usable CPU, -2 all but one, and so on.

    A positive number is used as it is, up to `MOST_THREADS` or the number of usable CPUs if that
    is larger. None and negative numbers respect ``threadpool_limits`` and ``OMP_NUM_THREADS``.
    Results never depend on the number of threads.
    """
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool)):
        raise TypeError(f"n_jobs must be None or an integer other than 0, got {n_jobs!r}")
    if n_jobs == 0:
        raise ValueError("n_jobs must be None or an integer other than 0, got 0")
    if _in_forked_child:
        return 1
    if n_jobs is not None and n_jobs > 0:
        return int(min(n_jobs, max(MOST_THREADS, usable_cpus())))
    limit = min(usable_cpus(), openmp_max_threads())
    return max(1, limit if n_jobs is None else limit + 1 + int(n_jobs))


def table_threads(
    n_jobs: int | None, n_rows: int, n_columns: int, per_thread: int = _ENTRIES_PER_THREAD
) -> int:
    """Threads for a table of this size: as many as `n_jobs` allows, fewer for a small table."""
    return min(effective_threads(n_jobs), 1 + n_rows * n_columns // per_thread)


def predict_threads(n_jobs: int | None, n_rows: int, few_rows: int = FEW_ROWS_LINEAR) -> int:
    """Threads for predictions: one for a few rows, otherwise as many as `n_jobs` allows."""
    return 1 if n_rows < few_rows else effective_threads(n_jobs)
