"""Seeds from the parameter `random_state`."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Return a SeedSequence for None, an integer, a SeedSequence, a RandomState or a Generator."""
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, np.random.SeedSequence):
        # A copy: spawning from it must not change what the next fit gets.
        return np.random.SeedSequence(random_state.entropy, spawn_key=random_state.spawn_key)
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state must be 0 or greater, got {random_state}")
        return np.random.SeedSequence(int(random_state))
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(int(random_state.randint(0, 2**31 - 1)))
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(0, 2**63)))
    raise TypeError(
        "random_state must be None, an integer, a numpy SeedSequence, RandomState or Generator, "
        f"got {type(random_state).__name__}"
    )


def spawn_seeds(random_state: Any, n_seeds: int) -> np.ndarray:
    """`n_seeds` uint64 seeds that depend on `random_state` alone."""
    return seed_sequence(random_state).generate_state(n_seeds, np.uint64)
