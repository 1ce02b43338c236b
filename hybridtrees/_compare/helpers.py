"""Processes that work beside this one.

A fit to a small table spends most of its time in Python, of which a process runs one thread at a
time: two threads take longer than one. So small fits are handed to other processes.
"""

from __future__ import annotations

import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from typing import Any, Protocol

from hybridtrees.core.base.threads import usable_cpus
from hybridtrees.core.bins.shared import sharing_bins
from hybridtrees.linear.blas import sequential_blas

# A process takes half a second to start and its own copy of the table.
_PATIENCE = 0.5
_MOST_PROCESSES = 16
# Whatever Python prints before this line while it starts is not an answer.
_READY = b"hybridtrees is ready"

# Not by `multiprocessing`, which would run the user's script again in each process.
_PROGRAM = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from hybridtrees._compare.helpers import serve; serve()"
)


class Job(Protocol):
    """Work on one table: sent to processes once, and then done for many items."""

    def run(self, item: Any) -> Any:
        """Compute one item; the result must not depend on the process."""

    def failed(self, item: Any) -> Any:
        """Return the result of an item whose process was ended by the system."""


def _has_python() -> bool:
    """Whether there is a Python to start: a program that has one inside would start itself."""
    name = os.path.basename(sys.executable or "").lower()
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


class _Lost(Exception):
    """A process cannot be reached; another one may do the work."""


class _Killed(Exception):
    """A process was ended by the system while it worked."""


class _Process:
    """One process; answers one question at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        # `Popen` has them, since both are pipes.
        self._questions: Any = self._process.stdin
        self._answers: Any = self._process.stdout
        self._job: Job | None = None
        self._is_up = False

    def ask(self, job: Job, item: Any) -> Any:
        """Return ``job.run(item)``, done there."""
        try:
            if not self._is_up:
                self._start()
            message = (None if job is self._job else job, item)
            pickle.dump(message, self._questions, protocol=pickle.HIGHEST_PROTOCOL)
            self._questions.flush()
            self._job = job
            return pickle.load(self._answers)
        except Exception as error:
            if self._was_killed():
                raise _Killed from error
            raise _Lost from error

    def _start(self) -> None:
        pickle.dump(sys.path, self._questions)
        self._questions.flush()
        while (line := self._answers.readline()).strip() != _READY:
            if not line:
                raise EOFError
        self._is_up = True

    def _was_killed(self) -> bool:
        """Whether the system ended a process that was up, after a crash or out of memory."""
        if not self._is_up:
            return False
        with suppress(subprocess.TimeoutExpired):
            # Windows has codes of its own for it.
            code = self._process.wait(timeout=1.0)
            return code < 0 or code >= 0xC0000000
        return False

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._questions, self._answers):
            with suppress(OSError):  # what is still to be written has no reader
                pipe.close()


class Helpers:
    """Up to `n_threads` processes with this one, which start when there is work for them."""

    def __init__(self, n_threads: int) -> None:
        # More processes than CPUs only slow each other down.
        n_threads = min(n_threads, usable_cpus())
        self.n_workers = min(n_threads, _MOST_PROCESSES) if _has_python() else 1
        self.threads_each = max(1, n_threads // self.n_workers)
        self.n_answers = 0
        self._processes: list[_Process | None] = [None] * (self.n_workers - 1)
        self._failed: set[int] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Helpers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes; they start again when they are needed."""
        for process in filter(None, self._processes):
            process.end()
        self._processes = [None] * len(self._processes)

    def map(
        self,
        job: Job,
        items: Sequence[Any],
        attempt: Callable[[Any, Callable[[Any], Any]], Any] = lambda item, run: run(item),
        may_leave: Callable[[Any], bool] = lambda item: True,
        alone: bool = False,
    ) -> list[Any]:
        """Return what `attempt` gives for each item, several at a time; processes share bins.

        `attempt` is called in this process, by any thread, with an item and a function that runs
        ``job.run``: in this process, or in another one if `may_leave` allows it and not `alone`.
        """
        work = _Work(len(items))

        def here() -> None:
            while (k := work.take()) is not None:
                work.results[k] = attempt(items[k], job.run)

        def elsewhere(place: int) -> None:
            try:
                process = self._started(place, work)
                while process and (k := work.take(lambda k: may_leave(items[k]))) is not None:
                    try:
                        work.results[k] = attempt(items[k], functools.partial(process.ask, job))
                    except (_Lost, _Killed) as error:
                        if work.error is not None:  # all were told to end
                            return
                        self._failed.add(place)
                        if isinstance(error, _Lost):
                            work.put_back(k)
                        else:  # what has killed one process would kill this one too
                            work.results[k] = attempt(items[k], job.failed)
                        return
                    with self._lock:
                        self.n_answers += 1
            except BaseException as error:  # is raised again by the thread that waits
                work.fail(error)

        n_others = 0 if alone else min(len(self._processes), len(items) - 1)
        threads = [
            threading.Thread(target=elsewhere, args=(k,), daemon=True)
            for k in range(n_others)
            if k not in self._failed
        ]
        # Threads start and end limits on BLAS in any order; one around them all is left intact.
        # Warnings, such as of a solver that stops early, mean little for one fit of many.
        with sharing_bins(), sequential_blas(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for thread in threads:
                thread.start()
            try:
                here()
            except BaseException as error:
                work.fail(error)
                # Ends the wait of threads for their answers.
                self.close()
            work.ended.set()
            for thread in threads:
                thread.join()
            if work.error is not None:
                raise work.error
            here()  # items of processes that were lost
        return work.results

    def _started(self, place: int, work: _Work) -> _Process | None:
        """Return a process, or None if the work ends before it is worth while to start one."""
        if self._processes[place] is None:
            if work.ended.wait(_PATIENCE) or work.n_left <= place:
                return None
            try:
                self._processes[place] = _Process()
            except OSError:  # the system allows no more
                self._failed.add(place)
        return self._processes[place]


def helping(helpers: Helpers | None, n_threads: int) -> AbstractContextManager[Helpers]:
    """Return helpers that are there, or new ones that end with the context."""
    return Helpers(n_threads) if helpers is None else nullcontext(helpers)


class _Work:
    """Numbers of the items that are still to be done, and results of the others."""

    def __init__(self, n_items: int) -> None:
        self.results: list[Any] = [None] * n_items
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self._left = deque(range(n_items))
        self._lock = threading.Lock()

    @property
    def n_left(self) -> int:
        """Number of items that no thread has taken."""
        return len(self._left)

    def take(self, wanted: Callable[[int], bool] = lambda k: True) -> int | None:
        """Return the next number that is wanted, or None."""
        with self._lock:
            k = next(filter(wanted, self._left), None)
            if k is not None:
                self._left.remove(k)
            return k

    def put_back(self, k: int) -> None:
        """Leave an item to another thread."""
        with self._lock:
            self._left.appendleft(k)

    def fail(self, error: BaseException) -> None:
        """Remember the first error and drop what is left."""
        with self._lock:
            self.error = self.error or error
            self._left.clear()


def serve() -> None:
    """Answer questions on the standard input until it ends; what a helping process runs."""
    # The process that asks decides what an interruption means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Nothing that a fit prints may come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    answers.write(b"\n" + _READY + b"\n")
    answers.flush()
    job: Any = None
    with sequential_blas(), warnings.catch_warnings(), ExitStack() as bins:
        warnings.simplefilter("ignore")
        while True:
            try:
                new, item = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            if new is not None:
                job = new
                bins.close()
                bins.enter_context(sharing_bins())
            pickle.dump(job.run(item), answers, protocol=pickle.HIGHEST_PROTOCOL)
            answers.flush()
