"""Python threads for work that lets go of the interpreter's lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from hybridtrees.core.base._threads import startable_threads

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


def start_workers(n_threads: int) -> tuple[ThreadPoolExecutor | None, int]:
    """Start so many threads, or as many as the system allows.

    They are started here and not with their first work, which may take the memory that the next
    of them needs. Returns the pool, None where the calling thread had better do the work itself,
    and the number of its threads.
    """
    n_threads = startable_threads(n_threads)
    if n_threads <= 1:
        return None, 1
    # Here and not above: it takes milliseconds to import and is often not needed.
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="hybridtrees")
    all_started = threading.Event()
    try:
        for _ in range(n_threads):
            pool.submit(all_started.wait)
    except (RuntimeError, MemoryError):  # one could not be started after all
        all_started.set()
        pool.shutdown(wait=True, cancel_futures=True)
        return None, 1
    all_started.set()
    return pool, n_threads


def run_threads(function: Callable, items: Iterable, n_threads: int) -> list:
    """`map` over threads, for functions that let go of the interpreter's lock."""
    pool, _ = start_workers(n_threads)
    if pool is None:
        return list(map(function, items))
    with pool:
        return list(pool.map(function, items))
