"""The schema of a store: features with their bins, target, weights, values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.bins.columns import Settled
from hybridtrees.core.bins.mapper import MAX_BINS, BinMapper
from hybridtrees.store.errors import StoreError

Target = Literal["none", "numbers", "classes"]
TARGETS = ("none", "numbers", "classes")


@dataclass
class Schema:
    """What the columns of a store are.

    Parameters
    ----------
    mapper : BinMapper
        A fitted one, which has made the codes.
    feature_names : list of str or None
        Names of the features.
    categories : list or None
        Labels of each categorical feature in the order of their codes, as numbers or strings; None
        for a feature that is not categorical.
    target : {"numbers", "classes", "none"}
        What the target is.
    n_targets : int
        Number of targets; 1 for classes.
    classes : array-like or None
        Labels of the classes, in ascending order.
    weighted : bool
        Whether rows have weights.
    raw_features : sequence of int
        Features whose values are stored beside their codes, as float32: for linear leaves.
    """

    mapper: BinMapper
    feature_names: Sequence[str] | None = None
    categories: Sequence[Any] | None = None
    target: Target = "numbers"
    n_targets: int = 1
    classes: Any = None
    weighted: bool = False
    raw_features: Sequence[int] = ()

    def __post_init__(self) -> None:
        n_features = self.n_features
        if self.target not in TARGETS:
            allowed = ", ".join(repr(name) for name in TARGETS)
            raise ValueError(f"target must be one of {allowed}, got {self.target!r}")
        for name in ("feature_names", "categories"):
            given = getattr(self, name)
            if given is not None and len(given) != n_features:
                raise ValueError(
                    f"{name} must have one entry for each of the {n_features} features, got "
                    f"{len(given)}"
                )
        if self.categories is None:
            self.categories = [None] * n_features
        if (self.target == "classes") != (self.classes is not None):
            raise ValueError("classes must be given if target='classes', and only then")
        if self.classes is not None:
            self.classes = np.asarray(self.classes)
        if self.target == "none":
            self.n_targets = 0
        elif self.n_targets < 1 or (self.target == "classes" and self.n_targets != 1):
            raise ValueError(f"n_targets must be at least 1, and 1 for classes: {self.n_targets}")
        self.raw_features = [int(f) for f in self.raw_features]
        if any(not 0 <= f < n_features for f in self.raw_features):
            raise ValueError(f"raw_features must lie within the {n_features} features")

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.mapper.n_features_in_)

    def chunk_dtypes(self) -> list[np.dtype]:
        """Types of the chunks of a block: codes, targets, weights, values."""
        target = np.dtype("<i4" if self.target == "classes" else "<f8")
        return [
            *[np.dtype(np.uint8)] * self.n_features,
            *[target] * self.n_targets,
            *[np.dtype("<f8")] * self.weighted,
            *[np.dtype("<f4")] * len(self.raw_features),
        ]

    # -- in files -------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return what goes to the header, in plain Python types."""
        labels = [
            None if one is None else np.asarray(one).tolist() for one in self.categories or ()
        ]
        return {
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "categories": labels,
            "target": self.target,
            "n_targets": self.n_targets,
            "classes": None if self.classes is None else _labels_to_json(self.classes),
            "weighted": bool(self.weighted),
            "raw_features": list(self.raw_features),
            "max_bins": self.mapper.max_bins,
        }

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the bins as arrays."""
        mapper = self.mapper
        edges = [np.empty(0) if e is None else e for e in mapper.bin_edges_]
        bins = [np.empty(0, np.uint8) if b is None else b for b in mapper.category_to_bin_]
        return {
            "n_bins": mapper.n_bins_,
            "is_categorical": mapper.is_categorical_,
            "edges": np.concatenate(edges),
            "edge_start": _starts(edges),
            "category_bins": np.concatenate(bins),
            "category_start": _starts(bins),
        }

    @classmethod
    def from_parts(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Schema:
        """Return the schema that `to_json` and `to_arrays` described."""
        n_bins = _array(arrays, "n_bins", np.int32)
        mask = _array(arrays, "is_categorical", np.uint8)
        if len(n_bins) != len(mask) or len(mask) == 0:
            raise StoreError("the bins of the store are not consistent")
        edges = _parts(arrays, "edges", "edge_start", np.float64, len(mask))
        bins = _parts(arrays, "category_bins", "category_start", np.uint8, len(mask))
        for f, categorical in enumerate(mask):
            fits = len(edges[f]) == 0 if categorical else len(edges[f]) == n_bins[f] - 1
            fits = fits and (categorical or len(bins[f]) == 0)
            if not (fits and 1 <= n_bins[f] <= MAX_BINS and np.all(np.diff(edges[f]) > 0)):
                raise StoreError(f"the bins of feature {f} of the store are not consistent")
            if np.any(bins[f] > n_bins[f]):
                raise StoreError(f"the bins of feature {f} of the store are not consistent")
        settled = Settled(
            [None if mask[f] else edges[f] for f in range(len(mask))],
            n_bins,
            [bins[f] if mask[f] else None for f in range(len(mask))],
        )
        mapper = BinMapper.of_bins(settled, mask, int(state["max_bins"]))
        classes = state["classes"]
        return cls(
            mapper,
            state["feature_names"],
            [_labels(labels) for labels in state["categories"]],
            state["target"],
            int(state["n_targets"]),
            None if classes is None else _labels_from_json(classes),
            bool(state["weighted"]),
            state["raw_features"],
        )


def _starts(parts: list[np.ndarray]) -> NDArray[np.int64]:
    return np.append(0, np.cumsum([len(part) for part in parts])).astype(np.int64)


def _array(arrays: dict[str, np.ndarray], name: str, dtype: type) -> np.ndarray:
    found = arrays.get(name)
    if found is None or found.ndim != 1 or found.dtype != dtype:
        raise StoreError(f"the array {name!r} of the store is missing or of another type")
    return found


def _parts(
    arrays: dict[str, np.ndarray], name: str, start_name: str, dtype: type, n: int
) -> list[np.ndarray]:
    values, start = _array(arrays, name, dtype), _array(arrays, start_name, np.int64)
    ascending = len(start) == n + 1 and start[0] == 0 and np.all(np.diff(start) >= 0)
    if not ascending or start[-1] != len(values):
        raise StoreError(f"the array {name!r} of the store is not consistent")
    return np.split(values, start[1:-1])


def _labels(labels: list[Any] | None) -> np.ndarray | None:
    if labels is None:
        return None
    kind = object if any(isinstance(label, str) for label in labels) else np.float64
    return np.array(labels, dtype=kind)


def _labels_to_json(classes: np.ndarray) -> dict[str, Any]:
    kind = "object" if classes.dtype == object else classes.dtype.str
    return {"dtype": kind, "labels": classes.tolist()}


def _labels_from_json(state: dict[str, Any]) -> np.ndarray:
    return np.array(state["labels"], dtype=np.dtype(state["dtype"]))
