"""Lines about a training of many members: how far it is, and how long it will take at most."""

from __future__ import annotations

import sys
import threading
import time


class Progress:
    """Prints a line every so many members and at the end; several threads may call it."""

    def __init__(self, every: int, n_members: int, first: int = 0) -> None:
        """`every` is 0 for no lines; `first` members are there already."""
        self._every, self._n_members, self._first = int(every), n_members, first
        self._start, self._done = time.perf_counter(), 0
        self._lock = threading.Lock()

    def __call__(self, fact: str = "", ending: str = "") -> None:
        """Note that one more member is done; `ending` says why it is the last."""
        with self._lock:
            self._done += 1
            left = self._n_members - self._done
            if not self._every or (self._done % self._every and left and not ending):
                return
            elapsed = time.perf_counter() - self._start
            ending = ending or f"at most {elapsed / self._done * left:.1f} s to go"
            parts = [f"[{self._first + self._done}]", fact, f"{elapsed:.1f} s, {ending}"]
            print("  ".join(part for part in parts if part), file=sys.stdout, flush=True)
