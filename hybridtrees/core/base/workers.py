"""Python threads for work that releases the GIL."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from hybridtrees.core.base._threads import StopFlag, startable_threads
from hybridtrees.core.base.threads import effective_threads

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Item = TypeVar("Item")
Made = TypeVar("Made")


def start_workers(n_threads: int) -> tuple[ThreadPoolExecutor | None, int]:
    """Start `n_threads` threads, or as many as possible; returns the pool and their number.

    They are all started here: the work of the first ones may use up the memory that later ones
    need. The pool is None if the calling thread should do the work itself.
    """
    n_threads = startable_threads(n_threads)
    if n_threads <= 1:
        return None, 1
    # Imported late: this takes milliseconds and is often not needed.
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="hybridtrees")
    all_started = threading.Event()
    try:
        for _ in range(n_threads):
            pool.submit(all_started.wait)
    except (RuntimeError, MemoryError):  # a thread could not be started
        all_started.set()
        pool.shutdown(wait=True, cancel_futures=True)
        return None, 1
    all_started.set()
    return pool, n_threads


def run_threads(function: Callable, items: Iterable, n_threads: int) -> list:
    """`map` over threads, for functions that release the GIL."""
    pool, _ = start_workers(n_threads)
    if pool is None:
        return list(map(function, items))
    with pool:
        return list(pool.map(function, items))


def run_side_by_side(
    function: Callable[[Item, int], Made], items: Iterable[Item], n_jobs: int | None
) -> list[Made]:
    """Return ``function(item, n_threads)`` of each item, computed in parallel.

    Threads see the context of the caller, and so the bins that it shares. An error or Ctrl-C ends
    the work of all of them.
    """
    items = list(items)
    n_threads = effective_threads(n_jobs)
    pool, n_workers = start_workers(min(n_threads, len(items)))
    if pool is None:
        return [function(item, n_threads) for item in items]
    stop = StopFlag()

    def job(item: Item) -> Made:
        with stop:
            return function(item, max(1, n_threads // n_workers))

    with ExitStack() as stack:
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        stack.callback(stop.set)
        waiting = [pool.submit(contextvars.copy_context().run, job, item) for item in items]
        return [each.result() for each in waiting]
