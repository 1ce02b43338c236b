"""The error of a store that cannot be read."""

from __future__ import annotations


class StoreError(ValueError):
    """A store that is damaged, unfinished, of another version, or cannot be read."""
