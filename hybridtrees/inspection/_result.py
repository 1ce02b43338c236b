"""Results whose fields are both attributes and items, like scikit-learn's Bunch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any


class Result:
    """Base of dataclasses whose fields are also items: ``result["average"]``."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def keys(self) -> list[str]:
        """Return the names of the fields that are not None."""
        return [
            field.name
            for field in fields(self)  # type: ignore[arg-type]
            if getattr(self, field.name) is not None
        ]
