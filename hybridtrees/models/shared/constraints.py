"""Monotone and interaction constraints, from the user's form to that of the engine."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from hybridtrees.core.tree.tree import Tree
from hybridtrees.input.columns import column_index

# The engine has a bit set of interaction groups per feature; the last bit allows any pair.
MAX_GROUPS = 63
ANY_TWO = np.uint64(1 << MAX_GROUPS)


def read_monotonic(
    given: Any, names: np.ndarray | None, is_categorical: np.ndarray, parameter: str
) -> np.ndarray | None:
    """Return monotone constraints as one int8 per feature, None without any.

    They are given as -1, 0 or 1 for each feature, as a dict by name or index, or as a string of
    either.
    """
    given = _evaluate(given, parameter)
    if given is None:
        return None
    n_features = len(is_categorical)
    if isinstance(given, Mapping):
        signs = np.zeros(n_features)
        for key, sign in given.items():
            signs[column_index(key, n_features, names, parameter)] = _sign(sign, parameter)
    else:
        entries = list(np.atleast_1d(np.asarray(given, dtype=object)))
        if len(entries) != n_features:
            raise ValueError(
                f"{parameter} must have one entry for each of the {n_features} features, "
                f"got {len(entries)}"
            )
        signs = np.array([_sign(entry, parameter) for entry in entries])
    bound = np.flatnonzero((signs != 0) & is_categorical)
    if len(bound):
        first = int(bound[0])
        raise ValueError(
            f"{parameter} must be 0 for categorical features, got {signs[first]:.0f} "
            f"for feature {first if names is None else names[first]!r}"
        )
    return signs.astype(np.int8) if signs.any() else None


def read_interactions(
    given: Any,
    names: np.ndarray | None,
    n_features: int,
    parameter: str,
    *,
    rest_together: bool = False,
) -> np.ndarray | None:
    """Return interaction constraints as a bit set of groups per feature, None without any.

    They are given as groups of features that may be on one path, as a string of such groups, as
    "pairwise" (any two features) or as "no_interactions". With `rest_together` the features in no
    group form one more, as in scikit-learn; otherwise each forms its own, as in xgboost.
    """
    if isinstance(given, str) and given == "no_interactions":
        return np.zeros(n_features, dtype=np.uint64)
    if isinstance(given, str) and given == "pairwise":
        return np.full(n_features, ANY_TWO)
    given = _evaluate(given, parameter)
    if given is None:
        return None
    if isinstance(given, str | Mapping) or not hasattr(given, "__iter__"):
        raise TypeError(f"{parameter} must be a list of groups of features, got {given!r}")
    groups = list(given)
    sets = np.zeros(n_features, dtype=np.uint64)
    if rest_together:
        groups = _with_rest(groups, names, n_features, parameter)
    if len(groups) > MAX_GROUPS:
        rest = ", that of the remaining features included" if rest_together else ""
        raise ValueError(
            f"{parameter} may have at most {MAX_GROUPS} groups, got {len(groups)}{rest}"
        )
    for number, group in enumerate(groups):
        for feature in _members(group, names, n_features, parameter):
            sets[feature] |= np.uint64(1 << number)
    return sets


def bounded_values(tree: Tree, values: np.ndarray, monotonic: np.ndarray) -> np.ndarray:
    """Clip the values of nodes so that they obey monotone constraints.

    A constrained split divides the range of values at the mean of its children's values, and all
    nodes below it stay on their side. The leaves are then in order, however they were estimated.
    """
    nodes = tree.nodes
    kept = values.tolist()
    lower, upper = [-math.inf] * len(kept), [math.inf] * len(kept)
    signs = np.where(nodes["category_start"] < 0, monotonic[nodes["feature"]], 0).tolist()
    pairs = zip(nodes["left"].tolist(), nodes["right"].tolist(), signs, strict=True)
    for k, (left, right, sign) in enumerate(pairs):
        if left < 0:
            continue
        for child in (left, right):
            lower[child], upper[child] = lower[k], upper[k]
            kept[child] = min(max(kept[child], lower[k]), upper[k])
        if sign == 0:
            continue
        middle = 0.5 * (kept[left] + kept[right])
        low, high = (left, right) if sign > 0 else (right, left)
        upper[low] = lower[high] = middle
        kept[low], kept[high] = min(kept[low], middle), max(kept[high], middle)
    return np.array(kept)


def _members(group: Any, names: np.ndarray | None, n_features: int, parameter: str) -> list[int]:
    if isinstance(group, str | Mapping) or not hasattr(group, "__iter__"):
        raise TypeError(f"{parameter} must hold groups of features, got {group!r}")
    return [column_index(key, n_features, names, parameter) for key in group]


def _with_rest(
    groups: list[Any], names: np.ndarray | None, n_features: int, parameter: str
) -> list[Any]:
    """Add a group of the features that are in no other."""
    named = {f for group in groups for f in _members(group, names, n_features, parameter)}
    rest = [feature for feature in range(n_features) if feature not in named]
    return [*groups, rest] if rest else groups


def _evaluate(given: Any, parameter: str) -> Any:
    """Evaluate a string as a Python literal, as xgboost does."""
    if not isinstance(given, str):
        return given
    try:
        return ast.literal_eval(given)
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"{parameter} must be a Python literal, got {given!r}") from error


def _sign(value: Any, parameter: str) -> int:
    if isinstance(value, Real) and not isinstance(value, bool) and value in (-1, 0, 1):
        return int(float(value))
    raise ValueError(f"{parameter} must hold -1, 0 or 1, got {value!r}")
