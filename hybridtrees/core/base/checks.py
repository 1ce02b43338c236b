"""Whether the arrays of a fitted object fit together: kernels and readers follow them blindly.

Each class that is stored checks itself once, when it is read from a file or unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from hybridtrees.core.base._types import Limit
from hybridtrees.core.base.dtypes import NODE_DTYPE

# Counts that are plausible; sums of so many of them do not overflow.
MOST = 2**40


class Checked:
    """Base of classes whose objects are stored as they are, and check themselves when read."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._check_state()

    def _check_state(self) -> None:
        """Refuse a state whose parts do not fit together."""
        raise AttributeError("each class brings its own")

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild an object from its state, which is checked."""
        made = cls.__new__(cls)
        made.__setstate__(state)
        return made


def check_count(holder: Any, name: str, least: int = 0, most: int = MOST) -> int:
    """Return an attribute that must be a whole number of a plausible size."""
    value = getattr(holder, name)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{_owned(holder, name)} must be an integer, got {_short(value)}")
    if not least <= value <= most:
        allowed = least if least == most else f"{least} to {most}"
        raise ValueError(f"{_owned(holder, name)} must be {allowed}, got {value}")
    return int(value)


def check_one_of(holder: Any, name: str, allowed: Any) -> None:
    """Refuse an attribute that is not one of these strings."""
    value = getattr(holder, name)
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{_owned(holder, name)} must be one of {allowed}, got {_short(value)}")


def check_type(holder: Any, name: str, kind: type) -> Any:
    """Return an attribute that must be of a type."""
    value = getattr(holder, name)
    if not isinstance(value, kind):
        raise ValueError(f"{_owned(holder, name)} must be a {kind.__name__}, got {_short(value)}")
    return value


def check_arrays(
    holder: Any, layout: Mapping[str, tuple], sizes: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Refuse attributes that are not arrays of the types and shapes that they must have.

    `layout` has for each attribute the type of its items, or several that are allowed, and then
    the length of each dimension: a number, or a name that stands for the same number wherever it
    occurs. Returns what names stand for: `sizes`, and those that were found.
    """
    known = dict(sizes or {})
    for name, (dtypes, *lengths) in layout.items():
        array = getattr(holder, name)
        check_array(array, _owned(holder, name), dtypes, [known.get(k, k) for k in lengths])
        known.update(
            {k: n for k, n in zip(lengths, array.shape, strict=True) if isinstance(k, str)}
        )
    return known


def check_array(array: Any, name: str, dtypes: Any, lengths: Any) -> None:
    """Refuse what is not an array of this type and shape; see `check_arrays`."""
    if not isinstance(array, np.ndarray):  # a memory map, as joblib makes it, is one
        raise ValueError(f"{name} must be an array, got {_short(array)}")
    allowed = [np.dtype(dtype) for dtype in (dtypes if isinstance(dtypes, tuple) else (dtypes,))]
    if array.dtype not in allowed:
        if array.dtype.newbyteorder() in allowed:
            raise ValueError(
                f"{name} has the byte order of another kind of machine: a fitted model is read "
                "only where the byte order is that of the machine that stored it"
            )
        raise ValueError(f"{name} must have items of {allowed[0]}, got {array.dtype}")
    fits = array.ndim == len(lengths) and all(
        isinstance(k, str) or n == k for k, n in zip(lengths, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(str(k) for k in lengths)
        raise ValueError(f"{name} must have the shape ({wanted}), got {array.shape}")


def _owned(holder: Any, name: str) -> str:
    return f"{name} of {type(holder).__name__}"


def _short(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.40}" if np.isscalar(value) else type(value).__name__


def check_numbers(array: np.ndarray, name: str, low: float, high: float) -> None:
    """Refuse an array with an entry, or NaN, outside of [low, high)."""
    if array.size and not (array.min() >= low and array.max() < high):
        raise ValueError(f"{name} must be from {low} to below {high}")


def check_contiguous(holder: Any, names: Any) -> None:
    """Refuse arrays that kernels cannot take the address of."""
    for name in names:
        if not getattr(holder, name).flags.c_contiguous:
            raise ValueError(f"{_owned(holder, name)} must be in C order")


def check_starts(trees: Any) -> None:
    """Refuse trees that do not follow each other and cover all nodes."""
    start, n_nodes = trees.tree_start, len(trees.nodes)
    # Within bounds first, as differences of any numbers might overflow.
    check_numbers(start, _owned(trees, "tree_start"), 0, n_nodes + 1)
    if len(start) < 2 or start[0] != 0 or start[-1] != n_nodes or np.any(np.diff(start) < 1):
        raise ValueError(f"the trees of the {type(trees).__name__} do not cover its nodes")


def check_nodes(ensemble) -> None:
    """Refuse a `TreeEnsemble` that would lead a walk astray, as a damaged file could."""
    check_count(ensemble, "n_features", 0, 2**31 - 1)
    check_count(ensemble, "n_outputs", 1, 2**31 - 1)
    sizes = check_arrays(
        ensemble,
        {
            "nodes": (NODE_DTYPE, "n_nodes"),
            "tree_start": ("i8", "n_trees + 1"),
            "values": ("f8", "n_nodes", "n_values"),
            "categories": ("u4", "n_words"),
            "coef_ptr": ("i8", len(ensemble.values) + 1),
            "coef_feature": ("i4", "n_terms"),
            "coef": ("f8", "n_terms", "n_values"),
            "coef_center": ("f8", "n_terms"),
            "coef_low": ("f8", "n_terms"),
            "coef_high": ("f8", "n_terms"),
        },
    )
    check_arrays(ensemble, {"tree_output": ("i4", sizes["n_trees + 1"] - 1)})
    if ensemble.value_range is not None:
        check_arrays(ensemble, {"value_range": ("f8", "n_nodes", 2, "n_values")}, sizes)
    nodes, start = ensemble.nodes, ensemble.tree_start
    check_contiguous(ensemble, ("nodes", "tree_start", "values", "categories", "coef"))
    check_starts(ensemble)
    if sizes["n_values"] not in (1, ensemble.n_outputs):
        raise ValueError("a leaf has one value, or one per output")
    check_numbers(ensemble.tree_output, "tree_output of the ensemble", 0, ensemble.n_outputs)
    _check_links(nodes, start)
    _check_splits(ensemble)
    _check_linear(ensemble)


def _check_links(nodes: np.ndarray, start: np.ndarray) -> None:
    """Refuse nodes that are no trees: children follow their parent, which they name."""
    sizes = np.diff(start)
    size, origin = np.repeat(sizes, sizes), np.repeat(start[:-1], sizes)
    own = np.arange(len(nodes)) - origin
    left, right, inner = nodes["left"], nodes["right"], nodes["left"] >= 0
    if np.any(
        inner
        & ((left <= own) | (left >= size) | (right <= own) | (right >= size) | (left == right))
    ):
        raise ValueError("a node of the ensemble has an impossible child")
    if np.any(~inner & (right >= 0)):
        raise ValueError("a node of the ensemble has a right child only")
    below = np.concatenate([(origin + left)[inner], (origin + right)[inner]])
    if np.any(np.bincount(below, minlength=len(nodes)) != (own > 0)):
        raise ValueError("a node of the ensemble has not exactly one parent")
    depth, parent = nodes["depth"].astype(np.int64), nodes["parent"]
    if np.any(depth[own == 0] != 0) or np.any(depth[below] != np.tile(depth[inner] + 1, 2)):
        raise ValueError("the depth of a node of the ensemble is not that of its parent plus one")
    if np.any(parent[own == 0] != -1) or np.any(parent[below] != np.tile(own[inner], 2)):
        raise ValueError("a node of the ensemble names another parent than it has")


def _check_splits(ensemble) -> None:
    """Refuse splits on features or category sets that do not exist."""
    nodes = ensemble.nodes
    inner = nodes["left"] >= 0
    if np.any(inner & (nodes["missing_left"] > Limit.MISSING_STAYS)):
        raise ValueError("missing_left of a node of the ensemble is not 0, 1 or 2")
    if np.any(inner & ((nodes["feature"] < 0) | (nodes["feature"] >= ensemble.n_features))):
        raise ValueError("a node of the ensemble splits on a feature that does not exist")
    if np.any(inner & (nodes["category_start"] < 0) & np.isnan(nodes["threshold"])):
        raise ValueError("a threshold of the ensemble is not a number")
    has_set = nodes["category_start"] >= 0
    if np.any(has_set & ~inner):
        raise ValueError("a leaf of the ensemble has a category set")
    words = nodes["category_start"].astype(np.int64) + nodes["category_words"]
    # A list of codes may be empty, but a set of bits must have some.
    least = nodes["category_limit"] == 0
    if np.any(has_set & ((nodes["category_words"] < least) | (words > len(ensemble.categories)))):
        raise ValueError("a category set of the ensemble is out of range")


def _check_linear(ensemble) -> None:
    """Refuse terms and ranges that do not fit the nodes."""
    pointers, feature = ensemble.coef_ptr, ensemble.coef_feature
    check_numbers(pointers, "coef_ptr of the linear leaves of the ensemble", 0, len(feature) + 1)
    if (
        pointers[0] != 0
        or np.any(np.diff(pointers) < 0)
        or pointers[-1] != len(feature)
        or np.any((feature < 0) | (feature >= ensemble.n_features))
    ):
        raise ValueError("the linear leaves of the ensemble do not fit together")
    if not np.all(ensemble.coef_low <= ensemble.coef_high):
        raise ValueError("a linear leaf of the ensemble clips a feature to an empty range")
    ranges = ensemble.value_range
    if ranges is not None and not np.all(ranges[:, 0] <= ranges[:, 1]):
        raise ValueError("a node of the ensemble has an empty range of values")
