"""Whether the arrays of an ensemble fit together: kernels follow them blindly."""

import numpy as np

from hybridtrees.core.dtypes import NODE_DTYPE

_DIMENSIONS = {
    "tree_start": 1,
    "tree_output": 1,
    "values": 2,
    "categories": 1,
    "coef_ptr": 1,
    "coef_feature": 1,
    "coef": 2,
    "coef_center": 1,
    "coef_low": 1,
    "coef_high": 1,
}


def check_nodes(ensemble) -> None:
    """Refuse arrays that would lead a walk astray, as a damaged file could."""
    nodes, start = ensemble.nodes, np.asarray(ensemble.tree_start)
    if nodes.dtype != NODE_DTYPE or nodes.ndim != 1:
        raise ValueError("the nodes of the ensemble are not an array of nodes")
    dimensions = [np.ndim(getattr(ensemble, name)) for name in _DIMENSIONS]
    if dimensions != list(_DIMENSIONS.values()):
        raise ValueError(f"the arrays of the ensemble have {dimensions} dimensions")
    sizes = np.diff(start)
    if len(start) == 0 or start[0] != 0 or start[-1] != len(nodes) or np.any(sizes < 1):
        raise ValueError("the trees of the ensemble do not cover its nodes")
    if len(ensemble.values) != len(nodes) or len(ensemble.coef_ptr) != len(nodes) + 1:
        raise ValueError("the ensemble needs one value and one list of coefficients per node")
    if len(ensemble.tree_output) != len(sizes):
        raise ValueError("the ensemble needs one output per tree")
    width = np.asarray(ensemble.values).shape[1]
    if width not in (1, ensemble.n_outputs):
        raise ValueError("a leaf has one value, or one per output")
    output = np.asarray(ensemble.tree_output)
    if np.any((output < 0) | (output >= ensemble.n_outputs)):
        raise ValueError("a tree adds to an output that does not exist")
    size = np.repeat(sizes, sizes)
    own = np.arange(len(nodes)) - np.repeat(start[:-1], sizes)
    left, right, inner = nodes["left"], nodes["right"], nodes["left"] >= 0
    if np.any(
        inner
        & ((left <= own) | (left >= size) | (right <= own) | (right >= size) | (left == right))
    ):
        raise ValueError("a node of the ensemble has an impossible child")
    n_children = np.bincount((np.repeat(start[:-1], sizes) + left)[inner], minlength=len(nodes))
    n_children += np.bincount((np.repeat(start[:-1], sizes) + right)[inner], minlength=len(nodes))
    if np.any(n_children != (own > 0)):
        raise ValueError("a node of the ensemble has not exactly one parent")
    depth, origin = nodes["depth"].astype(np.int64), np.repeat(start[:-1], sizes)
    below = np.concatenate([(origin + left)[inner], (origin + right)[inner]])
    if np.any(depth[own == 0] != 0) or np.any(depth[below] != np.tile(depth[inner] + 1, 2)):
        raise ValueError("the depth of a node of the ensemble is not that of its parent plus one")
    if np.any(inner & (nodes["missing_left"] > 2)):
        raise ValueError("missing_left of a node of the ensemble is not 0, 1 or 2")
    if np.any(inner & ((nodes["feature"] < 0) | (nodes["feature"] >= ensemble.n_features))):
        raise ValueError("a node of the ensemble splits on a feature that does not exist")
    if np.any(inner & (nodes["category_start"] < 0) & np.isnan(nodes["threshold"])):
        raise ValueError("a threshold of the ensemble is not a number")
    words = nodes["category_start"].astype(np.int64) + nodes["category_words"]
    has_set = inner & (nodes["category_start"] >= 0)
    # A list of codes may be empty, but a set of bits must have some.
    least = nodes["category_limit"] == 0
    if np.any(has_set & ((nodes["category_words"] < least) | (words > len(ensemble.categories)))):
        raise ValueError("a category set of the ensemble is out of range")
    _check_linear(ensemble, width)


def _check_linear(ensemble, n_values: int) -> None:
    """Refuse terms and ranges that do not fit the nodes."""
    pointers = np.asarray(ensemble.coef_ptr)
    feature = np.asarray(ensemble.coef_feature)
    if (
        pointers[0] != 0
        or np.any(np.diff(pointers) < 0)
        or pointers[-1] != len(feature)
        or ensemble.coef.shape != (len(feature), n_values)
        or len(ensemble.coef_center) != len(feature)
        or len(ensemble.coef_low) != len(feature)
        or len(ensemble.coef_high) != len(feature)
        or np.any((feature < 0) | (feature >= ensemble.n_features))
    ):
        raise ValueError("the linear leaves of the ensemble do not fit together")
    if not np.all(ensemble.coef_low <= ensemble.coef_high):
        raise ValueError("a linear leaf of the ensemble clips a feature to an empty range")
    ranges = ensemble.value_range
    if ranges is None:
        return
    if np.shape(ranges) != (len(ensemble.nodes), 2, n_values):
        raise ValueError("the ensemble needs one range per node and value, or none")
    if not np.all(ranges[:, 0] <= ranges[:, 1]):
        raise ValueError("a node of the ensemble has an empty range of values")
