"""Successive halving: how many candidates and how much of a resource each rung has.

A rung gives every candidate a third of what the next one gives, and hands on the best third of them
(Jamieson and Talwalkar 2016). `tune` and `compare` search by it.
"""

from __future__ import annotations

import math

FACTOR = 3


def n_survivors(n_candidates: int) -> int:
    """Return the number of candidates that a rung hands on."""
    return math.ceil(n_candidates / FACTOR)


def rung_shrinks(most: float, fewest: float, n_candidates: int) -> list[int]:
    """Return divisors of the resource for each rung, the last of which is 1.

    The first rung has at least `fewest` of the `most` that there is, and there are no more rungs
    than it takes until few candidates are left.
    """
    n_rungs = 1
    while FACTOR**n_rungs <= most / fewest and FACTOR ** (n_rungs - 1) < n_candidates:
        n_rungs += 1
    return [FACTOR**k for k in reversed(range(n_rungs))]
