"""Reports of linear trees: tables of their leaves, nodes as dicts, text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import check_integer
from hybridtrees._persistence import register
from hybridtrees.core.base.checks import Checked, check_arrays
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.linear._base import PenaltyName
from hybridtrees.models.linear_tree.columns import LinearColumns
from hybridtrees.models.shared.leaf_text import equation, node_path
from hybridtrees.models.shared.tree_models import SingleTree

Floats = NDArray[np.float64]


@register
@dataclass(eq=False)
class LeafFacts(Checked):
    """Losses and standard errors of the models in the leaves."""

    leaves: NDArray[Any]  # indices of the nodes
    loss: Floats  # mean of the criterion
    quality: Floats  # R2 of each output; one column with the deviance in classification
    std_error: Floats  # (n_leaves, n_outputs, p), NaN if not defined
    intercept_error: Floats  # (n_leaves, n_outputs)
    present: NDArray[Any]  # mask of the classes in the leaf; no columns in regression

    def _check_state(self) -> None:
        check_arrays(
            self,
            {
                "leaves": ("i8", "n_leaves"),
                "loss": ("f8", "n_leaves"),
                "quality": ("f8", "n_leaves", "n_qualities"),
                "std_error": ("f8", "n_leaves", "n_outputs", "p"),
                "intercept_error": ("f8", "n_leaves", "n_outputs"),
                "present": (bool, "n_leaves", "n_classes"),
            },
        )

    def check_tree(self, tree: TreeEnsemble, columns: LinearColumns, n_classes: int) -> None:
        """Refuse facts that do not match the leaves of a tree."""
        if not np.array_equal(self.leaves, np.flatnonzero(tree.nodes["left"] < 0)):
            raise ValueError("the facts about leaves belong to other nodes")
        if self.std_error.shape[1:] != (tree.n_outputs, len(columns.linear)):
            raise ValueError("the facts about leaves belong to other coefficients")
        if self.quality.shape[1] not in (1, tree.n_outputs) or (
            self.present.shape[1] not in (0, n_classes)
        ):
            raise ValueError("the facts about leaves belong to other outputs")


@dataclass
class LeafModel:
    """The linear function of a node."""

    coef_: Floats  # (n_columns,) or (n_outputs, n_columns), 0 for columns not in the model
    intercept_: Any  # a number, or one per output
    classes_: NDArray[Any] | None = None

    def decision_function(self, X: Any) -> Floats:
        """Return the value of the function for each row."""
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.coef_.T + self.intercept_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the value of the function, or the predicted class, for each row."""
        raw = self.decision_function(X)
        if self.classes_ is None:
            return raw
        if raw.ndim == 1:
            return self.classes_[(raw > 0).astype(np.intp)]
        return np.asarray(self.classes_[raw.argmax(axis=1)])


def node_lines(tree: Tree, n_columns: int) -> tuple[Floats, Floats]:
    """Return coefficients, (n_nodes, n_outputs, n_columns), and intercepts of all nodes."""
    n_nodes, n_outputs = tree.values.shape
    assert tree.coef_ptr is not None
    node = np.repeat(np.arange(n_nodes), np.diff(tree.coef_ptr))
    coef = np.zeros((n_nodes, n_columns, n_outputs))
    coef[node, tree.coef_feature] = tree.coef
    center = np.zeros((n_nodes, n_columns))
    center[node, tree.coef_feature] = tree.coef_center
    intercept = tree.values - np.einsum("ij,ijk->ik", center, coef)
    return coef.transpose(0, 2, 1), intercept


@dataclass
class LeafTable:
    """The leaves of a linear tree; coefficients are (n_leaves, n_outputs, n_columns)."""

    leaves: NDArray[Any]  # indices of the nodes, as from `apply`
    paths: list[str]
    n_samples: NDArray[Any]
    weight: Floats
    columns: list[str]  # names of the regressors, including effects of categories
    coef: Floats
    intercept: Floats  # (n_leaves, n_outputs)
    std_error: Floats  # NaN with a penalty, absolute error or smoothing, or if not determined
    intercept_error: Floats
    loss: Floats  # mean of the criterion
    quality: Floats  # "r2" or, in classification, "deviance"
    quality_name: str
    low: Floats  # limits of the predictions under extrapolate="bounded", else infinite
    high: Floats
    outputs: list[str]

    def __len__(self) -> int:
        return len(self.leaves)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return columns of equal length, with a row for each leaf and output."""
        n_leaves, n_outputs = self.intercept.shape
        rows = {
            "leaf": np.repeat(self.leaves, n_outputs).tolist(),
            "path": [path for path in self.paths for _ in self.outputs],
            "n_samples": np.repeat(self.n_samples, n_outputs).tolist(),
            "weight": np.repeat(self.weight, n_outputs).tolist(),
            "loss": np.repeat(self.loss, n_outputs).tolist(),
        }
        if n_outputs > 1:
            rows["output"] = list(self.outputs) * n_leaves
        columns = {
            self.quality_name: np.broadcast_to(self.quality, (n_leaves, n_outputs)),
            "intercept": self.intercept,
            "intercept_error": self.intercept_error,
        }
        for j, name in enumerate(self.columns):
            columns[name] = self.coef[:, :, j]
            columns[f"{name} (error)"] = self.std_error[:, :, j]
        return rows | {name: values.ravel().tolist() for name, values in columns.items()}

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame."""
        import pandas

        return pandas.DataFrame(self.to_dict())

    def equation(self, leaf: int, output: int = 0, digits: int = 4) -> str:
        """Return the linear function of a leaf, given by its position in the table."""
        return equation(
            self.columns, self.coef[leaf, output], float(self.intercept[leaf, output]), digits
        )

    def __str__(self) -> str:
        lines = []
        for i in range(len(self)):
            lines.append(f"leaf {self.leaves[i]}: {self.paths[i]}")
            fits = ", ".join(f"{q:.4g}" for q in self.quality[i])
            lines.append(f"  rows {self.n_samples[i]}, {self.quality_name} {fits}")
            for k, output in enumerate(self.outputs):
                lines.append(f"  {output} = {self.equation(i, k)}")
        return "\n".join(lines)


class LinearTreeState:
    """What the reports read; annotated in an `Estimator` these would be parameters."""

    criterion: Any
    penalty: PenaltyName | None
    alpha: float
    _facts: LeafFacts
    _columns: LinearColumns


class LinearTreeReports(LinearTreeState, SingleTree):
    """The tree as tables, dicts and text."""

    def leaf_table(self) -> LeafTable:
        """Return the leaves with their paths, rows, coefficients and fits.

        Returns
        -------
        table : LeafTable
            One entry per leaf; print it, or use `to_dict` or `to_frame`.
        """
        tree, facts, columns = self.tree_, self._facts, self._columns
        leaves, labels = facts.leaves, self._reader.coded
        paths = [node_path(tree, columns.names, labels, int(leaf)) for leaf in leaves]
        coef, intercept = node_lines(tree, columns.n_columns)
        n_outputs = coef.shape[1]
        classes = getattr(self, "classes_", None)
        if classes is None:
            outputs = ["y"] if n_outputs == 1 else [f"y{k}" for k in range(n_outputs)]
        else:
            outputs = [f"score {label}" for label in classes[-n_outputs:]]
        low, high = np.full((2, len(leaves), n_outputs), [[[-np.inf]], [[np.inf]]])
        if tree.value_range is not None:
            low, high = tree.value_range[leaves, 0], tree.value_range[leaves, 1]
        return LeafTable(
            leaves,
            [" and ".join(path) or "all rows" for path in paths],
            tree.nodes["n_samples"][leaves],
            tree.nodes["weight"][leaves],
            [columns.names[f] for f in columns.linear],
            coef[leaves][:, :, columns.linear],
            intercept[leaves],
            facts.std_error,
            facts.intercept_error,
            facts.loss,
            facts.quality,
            "r2" if classes is None else "deviance",
            low,
            high,
            outputs,
        )

    def summary(
        self, feature_names: Any = None, only_leaves: bool = False, max_depth: int | None = None
    ) -> dict[int, dict[str, Any]]:
        """Return the nodes as dicts, in the structure of linear-tree's `summary`.

        Programs that read that structure, such as OMLT, can read this one. Models are plain
        linear functions, without the limits that `extrapolate` sets.

        Parameters
        ----------
        feature_names : list of str, optional
            Names to use in place of feature indices.
        only_leaves : bool, default=False
        max_depth : int, optional
            Leave out deeper nodes.

        Returns
        -------
        summary : dict
            By node index: ``col``, ``th`` and ``children`` of a split (``categories`` in place of
            ``th`` if categorical), ``loss``, ``samples``, and ``models``: that of a leaf, or those
            of both children; ``classes`` in the leaves of a classifier.
        """
        tree, columns = self.tree_, self._columns
        check_integer("max_depth", max_depth, 1, allow_none=True)
        if feature_names is not None and len(feature_names) != columns.n_features:
            raise ValueError(
                f"feature_names must hold {columns.n_features} names, got {len(feature_names)}"
            )
        coef, intercept = node_lines(tree, columns.n_columns)
        classes = getattr(self, "classes_", None)

        def line(node: int) -> LeafModel:
            if coef.shape[1] == 1:
                return LeafModel(coef[node, 0], np.float64(intercept[node, 0]), classes)
            return LeafModel(coef[node], intercept[node], classes)

        nodes, facts = tree.nodes, self._facts
        cost = self._impurity * nodes["weight"]
        present = dict(zip(facts.leaves.tolist(), facts.present, strict=True))
        out: dict[int, dict[str, Any]] = {}
        for i in range(len(nodes)):
            is_leaf = nodes["left"][i] < 0
            too_deep = max_depth is not None and nodes["depth"][i] > max_depth - (not is_leaf)
            if too_deep or (only_leaves and not is_leaf):
                continue
            samples = int(nodes["n_samples"][i])
            if is_leaf:
                out[i] = {"loss": float(self._impurity[i]), "samples": samples, "models": line(i)}
                if classes is not None:
                    # Selected by index: with one class, `present` still has two entries.
                    out[i]["classes"] = classes[np.flatnonzero(present[i])]
                continue
            left, right, f = (int(nodes[name][i]) for name in ("left", "right", "feature"))
            out[i] = {
                "col": f if feature_names is None else feature_names[f],
                "th": float(nodes["threshold"][i]),
                "loss": float((cost[left] + cost[right]) / nodes["weight"][i]),
                "samples": samples,
                "children": (left, right),
                "models": (line(left), line(right)),
            }
            if nodes["category_start"][i] >= 0:
                del out[i]["th"]
                labels = self._reader.coded[f]
                assert labels is not None
                out[i]["categories"] = [labels[c] for c in tree.category_set(i) if c < len(labels)]
        return out

    def describe(self) -> str:
        """Summarise the tree in a few lines of text.

        Returns
        -------
        text : str
        """
        tree, nodes = self.tree_, self.tree_.nodes
        leaves = nodes[nodes["left"] < 0]
        assert tree.coef_ptr is not None
        n_rows, used = leaves["n_samples"], np.diff(tree.coef_ptr)[nodes["left"] < 0]
        loss = leaves["weight"] / nodes["weight"][0] @ self._facts.loss
        penalty = "no penalty" if self.penalty is None else f"{self.penalty}, alpha {self.alpha:g}"
        return "\n".join(
            [
                f"{type(self).__name__}: {self.criterion}, {penalty}",
                f"rows {nodes['n_samples'][0]}, features {self.n_features_in_}, "
                f"regressors {len(self._columns.linear)}",
                f"nodes {tree.n_nodes}, leaves {tree.n_leaves}, depth {tree.depth}",
                f"rows of a leaf: min {n_rows.min()}, max {n_rows.max()}; "
                f"regressors of a leaf: min {used.min()}, max {used.max()}",
                f"loss: one model {self._impurity[0]:.6g}, the leaves {loss:.6g}",
            ]
        )
