"""A progress bar with the time that is left."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import TextIO

_WIDTH = 28
# Seconds between two drawings.
_EVERY = 0.1


class Progress:
    """Counts fits, and draws a bar where a person watches."""

    def __init__(self, stream: TextIO | None = None, title: str = "") -> None:
        self._stream = stream
        self.title = title
        self._lock = threading.Lock()
        self._left: dict[str, float] = {}
        self._spent: dict[str, list[float]] = {}
        self._start = time.perf_counter()
        self._drawn = 0.0
        self._shown = 0

    @classmethod
    def for_people(cls, wanted: bool | None = None, title: str = "") -> Progress:
        """Return a bar on the error stream; by default only if that is a terminal."""
        shown = sys.stderr.isatty() if wanted is None else wanted
        return cls(sys.stderr if shown else None, title)

    def expect(self, fits: dict[str, float]) -> None:
        """Add fits to come, by the keys of their families."""
        with self._lock:
            for key, count in fits.items():
                self._left[key] = self._left.get(key, 0.0) + count

    def done(self, key: str, seconds: float | None = None) -> None:
        """Note that a fit has ended, or without a time that it will not take place."""
        with self._lock:
            self._left[key] = max(0.0, self._left.get(key, 0.0) - 1)
            if seconds is not None:
                self._spent.setdefault(key, []).append(seconds)
            self._draw(key)

    @property
    def share(self) -> float:
        """Share of the work that is done, weighing fits by the time their family takes."""
        spent = sum(map(sum, self._spent.values()))
        count = sum(map(len, self._spent.values()))
        if not count:
            return 0.0
        # A family that has not been seen is taken to be like the mean of the others.
        mean = {key: sum(times) / len(times) for key, times in self._spent.items()}
        left = sum(n * mean.get(key, spent / count) for key, n in self._left.items())
        return spent / (spent + left) if spent + left > 0 else 1.0

    @property
    def remaining(self) -> float:
        """Estimate of the seconds that are left."""
        share = self.share
        elapsed = time.perf_counter() - self._start
        return elapsed * (1 - share) / share if share > 0 else float("inf")

    def close(self) -> None:
        """Erase the bar."""
        if self._stream is not None and self._shown:
            self._stream.write("\r" + " " * self._shown + "\r")
            self._stream.flush()
            self._shown = 0

    def _draw(self, key: str) -> None:
        now = time.perf_counter()
        if self._stream is None or now - self._drawn < _EVERY:
            return
        self._drawn = now
        share = self.share
        full = round(_WIDTH * share)
        bar = "#" * full + "." * (_WIDTH - full)
        line = f"{self.title} [{bar}] {share:4.0%}  {clock(self.remaining)} left  {key}"
        line = line[: shutil.get_terminal_size().columns - 1]
        self._stream.write("\r" + line.ljust(self._shown))
        self._stream.flush()
        self._shown = len(line)


def clock(seconds: float) -> str:
    """Return a time as minutes and seconds."""
    if seconds == float("inf"):
        return "--:--"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:02d}:{rest:02d}"
