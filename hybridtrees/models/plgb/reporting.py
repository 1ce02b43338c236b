"""The leaves of boosted piece-wise linear trees as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from hybridtrees._parameters import check_integer
from hybridtrees.models.shared.leaf_text import equation, node_path


@dataclass
class BoostedLeafTable:
    """Leaves of boosted trees with linear functions.

    A leaf adds ``intercept + coef @ x`` to the raw score of a row without missing values inside the
    range of the leaf; both include the learning rate.
    """

    trees: np.ndarray  # indices into `trees_`
    leaves: np.ndarray  # indices of the nodes, as from `apply`
    paths: list[str]  # conditions on the path to the leaf
    n_samples: np.ndarray  # training rows in the leaf
    weight: np.ndarray  # sum of their hessians
    columns: list[str]  # names of the features
    coef: scipy.sparse.csr_array  # (n_leaves, n_features)
    intercept: np.ndarray
    low: np.ndarray  # limits of what the leaf adds, infinite without any
    high: np.ndarray
    outputs: np.ndarray  # output, or class, that the leaf adds to

    def __len__(self) -> int:
        return len(self.leaves)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return columns of equal length, a row per leaf; features without slopes are left out."""
        rows = {
            "tree": self.trees.tolist(),
            "output": self.outputs.tolist(),
            "leaf": self.leaves.tolist(),
            "path": list(self.paths),
            "n_samples": self.n_samples.tolist(),
            "weight": self.weight.tolist(),
            "intercept": self.intercept.tolist(),
        }
        if not self.outputs.any():
            del rows["output"]
        by_column = self.coef.tocsc()
        for f in np.flatnonzero(np.diff(by_column.indptr)):
            rows[self.columns[f]] = by_column[:, [f]].toarray()[:, 0].tolist()
        return rows

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame."""
        import pandas

        return pandas.DataFrame(self.to_dict())

    def equation(self, leaf: int, digits: int = 4) -> str:
        """Return the linear function of a leaf, given by its position in the table."""
        own = slice(self.coef.indptr[leaf], self.coef.indptr[leaf + 1])
        names = [self.columns[f] for f in self.coef.indices[own]]
        return equation(names, self.coef.data[own], float(self.intercept[leaf]), digits)

    def __str__(self) -> str:
        return "\n".join(
            f"tree {self.trees[i]}, leaf {self.leaves[i]}: {self.paths[i]}\n"
            f"  rows {self.n_samples[i]}: {self.equation(i)}"
            for i in range(len(self))
        )


def boosted_leaf_table(model: Any, tree_index: int | None) -> BoostedLeafTable:
    """Return the leaves of all trees of a fitted model, or of one."""
    ensemble, reader = model.trees_, model._reader
    if tree_index is None:
        numbers = np.arange(len(ensemble))
    else:
        given = check_integer("tree_index", tree_index, -len(ensemble), len(ensemble) - 1)
        numbers = np.array([given % len(ensemble)])
    names = reader.feature_names_in
    if names is None:
        names = [f"x{f}" for f in range(model.n_features_in_)]
    names = [str(name) for name in names]
    starts = ensemble.tree_start
    nodes = np.concatenate([np.arange(*starts[k : k + 2]) for k in numbers])
    nodes = nodes[ensemble.nodes["left"][nodes] < 0]
    tree = np.searchsorted(starts, nodes, side="right") - 1
    paths = []
    for k in numbers:
        own = ensemble[int(k)]
        for leaf in nodes[tree == k] - starts[k]:
            words = node_path(own, names, reader.coded, int(leaf))
            paths.append(" and ".join(words) or "all rows")
    first, stop = ensemble.coef_ptr[nodes], ensemble.coef_ptr[nodes + 1]
    ends = np.append(0, np.cumsum(stop - first))
    terms = np.repeat(first - ends[:-1], stop - first) + np.arange(ends[-1])
    shape = (len(nodes), model.n_features_in_)
    feature, slope = ensemble.coef_feature[terms], ensemble.coef[terms, 0]
    coef = scipy.sparse.csr_array((slope, feature, ends), shape=shape)
    shift = np.bincount(
        np.repeat(np.arange(len(nodes)), stop - first),
        weights=slope * ensemble.coef_center[terms], minlength=len(nodes),
    )  # fmt: skip
    limits = np.broadcast_to([-np.inf, np.inf], (len(nodes), 2))
    if ensemble.value_range is not None:
        limits = ensemble.value_range[nodes, :, 0]
    return BoostedLeafTable(
        tree, nodes - starts[tree], paths, ensemble.nodes["n_samples"][nodes],
        ensemble.nodes["weight"][nodes], names, coef, ensemble.values[nodes, 0] - shift,
        limits[:, 0], limits[:, 1], ensemble.tree_output[tree],
    )  # fmt: skip
