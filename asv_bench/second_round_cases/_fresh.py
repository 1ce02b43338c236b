"""Measurements in a new process: memory, and threads that no other library has started."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

from peers_worker import reset_high_water_mark, resident_mb


def in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Result of a function of a module, called in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def fit_costs(model: Any, *data: Any, **more: Any) -> dict[str, float]:
    """Seconds of a fit, and the peak of memory above what is held before it, in MB."""
    reset_high_water_mark()
    before = resident_mb("VmRSS") or 0.0
    start = time.perf_counter()
    model.fit(*data, **more)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "memory": max((resident_mb("VmHWM") or 0.0) - before, 1e-3)}
