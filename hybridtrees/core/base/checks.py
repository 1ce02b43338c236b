"""Checks that the arrays of a stored object are consistent: kernels index with them unchecked.

An object is checked once, when it is read from a file or unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from hybridtrees.core.base._types import Limit
from hybridtrees.core.base.dtypes import NODE_DTYPE

# Upper limit of a plausible count: sums of many such counts still fit int64.
MOST = 2**40


class Checked:
    """Base of classes that are stored by their attributes, which are checked when read."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._check_state()

    def _check_state(self) -> None:
        """Raise ValueError if the attributes are not consistent."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild an object from its state, and check it."""
        made = cls.__new__(cls)
        made.__setstate__(state)
        return made


def check_count(holder: Any, name: str, low: int = 0, high: int = MOST) -> int:
    """Return an attribute, which must be an integer from `low` to `high`."""
    value = getattr(holder, name)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{_label(holder, name)} must be an integer, got {_short(value)}")
    if not low <= value <= high:
        allowed = low if low == high else f"{low} to {high}"
        raise ValueError(f"{_label(holder, name)} must be {allowed}, got {value}")
    return int(value)


def check_one_of(holder: Any, name: str, allowed: Any) -> None:
    """Raise ValueError unless an attribute is one of the strings `allowed`."""
    value = getattr(holder, name)
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{_label(holder, name)} must be one of {allowed}, got {_short(value)}")


def check_type(holder: Any, name: str, kind: type) -> Any:
    """Return an attribute, which must be of the type `kind`."""
    value = getattr(holder, name)
    if not isinstance(value, kind):
        raise ValueError(f"{_label(holder, name)} must be a {kind.__name__}, got {_short(value)}")
    return value


def check_arrays(
    holder: Any, layout: Mapping[str, tuple], sizes: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Raise ValueError unless attributes are arrays of the given dtypes and shapes.

    `layout` maps an attribute to its dtype (or a tuple of allowed dtypes), then the length of each
    dimension: a number, or a name that stands for the same number wherever it occurs. Returns the
    number of every name: those of `sizes`, and those found.
    """
    known = dict(sizes or {})
    for name, (dtypes, *lengths) in layout.items():
        array = getattr(holder, name)
        check_array(array, _label(holder, name), dtypes, [known.get(k, k) for k in lengths])
        known.update(
            {k: n for k, n in zip(lengths, array.shape, strict=True) if isinstance(k, str)}
        )
    return known


def check_array(array: Any, name: str, dtypes: Any, lengths: Any) -> None:
    """Raise ValueError unless `array` has this dtype and shape; see `check_arrays`."""
    if not isinstance(array, np.ndarray):  # joblib's memory maps are arrays too
        raise ValueError(f"{name} must be an array, got {_short(array)}")
    allowed = [np.dtype(dtype) for dtype in (dtypes if isinstance(dtypes, tuple) else (dtypes,))]
    if array.dtype not in allowed:
        if array.dtype.newbyteorder() in allowed:
            raise ValueError(
                f"{name} has the byte order of another kind of machine: a fitted model can be "
                "read only on a machine with the byte order of the one that stored it"
            )
        raise ValueError(f"{name} must have items of {allowed[0]}, got {array.dtype}")
    fits = array.ndim == len(lengths) and all(
        isinstance(k, str) or n == k for k, n in zip(lengths, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(str(k) for k in lengths)
        raise ValueError(f"{name} must have the shape ({wanted}), got {array.shape}")


def _label(holder: Any, name: str) -> str:
    return f"{name} of {type(holder).__name__}"


def _short(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.40}" if np.isscalar(value) else type(value).__name__


def check_numbers(array: np.ndarray, name: str, low: float, high: float) -> None:
    """Raise ValueError if an entry is NaN or outside of [low, high)."""
    if array.size and not (array.min() >= low and array.max() < high):
        raise ValueError(f"{name} must be from {low} to below {high}")


def check_contiguous(holder: Any, names: Any) -> None:
    """Raise ValueError unless arrays are in C order: kernels take their address."""
    for name in names:
        if not getattr(holder, name).flags.c_contiguous:
            raise ValueError(f"{_label(holder, name)} must be in C order")


def check_starts(trees: Any) -> None:
    """Raise ValueError unless the trees are contiguous and cover all nodes."""
    start, n_nodes = trees.tree_start, len(trees.nodes)
    # The range first: differences of arbitrary numbers might overflow.
    check_numbers(start, _label(trees, "tree_start"), 0, n_nodes + 1)
    if len(start) < 2 or start[0] != 0 or start[-1] != n_nodes or np.any(np.diff(start) < 1):
        raise ValueError(f"the trees of the {type(trees).__name__} do not cover its nodes")


def check_nodes(ensemble: Any) -> None:
    """Raise ValueError if walks down a `TreeEnsemble`, of a damaged file perhaps, are unsafe."""
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
    """Raise ValueError unless the links of the nodes make trees, children behind parents."""
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
        raise ValueError("a node of the ensemble does not have exactly one parent")
    depth, parent = nodes["depth"].astype(np.int64), nodes["parent"]
    if np.any(depth[own == 0] != 0) or np.any(depth[below] != np.tile(depth[inner] + 1, 2)):
        raise ValueError("the depth of a node of the ensemble is not that of its parent plus one")
    if np.any(parent[own == 0] != -1) or np.any(parent[below] != np.tile(own[inner], 2)):
        raise ValueError("the parent of a node of the ensemble is wrong")


def _check_splits(ensemble: Any) -> None:
    """Raise ValueError on splits on features or category sets that do not exist."""
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
    # A list of codes may be empty, a bit set has at least one word.
    min_words = nodes["category_limit"] == 0
    too_short = nodes["category_words"] < min_words
    if np.any(has_set & (too_short | (words > len(ensemble.categories)))):
        raise ValueError("a category set of the ensemble is out of range")


def _check_linear(ensemble: Any) -> None:
    """Raise ValueError unless the terms of linear leaves and ranges of values are consistent."""
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
