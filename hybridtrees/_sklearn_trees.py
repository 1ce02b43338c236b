"""Models of one tree that scikit-learn takes for its own.

Its `plot_tree` and `export_text`, and what others built on them, ask for instances of its classes.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar


class TreeOfScikitLearn:
    """A model of one tree, registered with a class of scikit-learn as soon as that is imported."""

    _counterpart: ClassVar[str]  # the name of that class in `sklearn.tree`

    # `isinstance` asks for this attribute first, so that it does not matter whether scikit-learn
    # was imported before the model was made or after.
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the model."""
        own = type(self)
        counterpart = getattr(sys.modules.get("sklearn.tree"), self._counterpart, None)
        if counterpart is not None:
            counterpart.register(own)  # does nothing the second time
        return own
