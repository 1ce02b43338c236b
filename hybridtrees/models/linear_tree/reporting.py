"""Linear trees as tables and dicts: leaves with their equations, nodes as linear-tree has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import check_integer
from hybridtrees._persistence import register
from hybridtrees.core.base.checks import Checked, check_arrays
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.models.linear_tree.columns import LinearColumns
from hybridtrees.models.shared.leaf_text import equation, node_path

Floats = NDArray[np.float64]


@register
@dataclass(eq=False)
class LeafFacts(Checked):
    """What fit has learned of the models in the leaves, apart from the models themselves."""

    leaves: NDArray  # numbers of the nodes
    loss: Floats  # mean of the criterion
    quality: Floats  # R2 of each output; with classes one column, the deviance
    std_error: Floats  # (n_leaves, n_outputs, p), NaN where not defined
    intercept_error: Floats  # (n_leaves, n_outputs)
    present: NDArray  # which classes the leaf has; without columns in regression

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
        """Refuse facts that are not about the leaves of a tree."""
        if not np.array_equal(self.leaves, np.flatnonzero(tree.nodes["left"] < 0)):
            raise ValueError("the facts about leaves are about other nodes")
        if self.std_error.shape[1:] != (tree.n_outputs, len(columns.linear)):
            raise ValueError("the facts about leaves are about other coefficients")
        if self.quality.shape[1] not in (1, tree.n_outputs) or (
            self.present.shape[1] not in (0, n_classes)
        ):
            raise ValueError("the facts about leaves are about other outputs")


@dataclass
class LeafModel:
    """The linear function of a node."""

    coef_: Floats  # of all features, 0 for those not in the model; outputs in rows
    intercept_: Any  # one, or one per output
    classes_: NDArray | None = None

    def decision_function(self, X: Any) -> Floats:
        """Value of the function for each row."""
        return np.asarray(X, dtype=np.float64) @ self.coef_.T + self.intercept_

    def predict(self, X: Any) -> NDArray:
        """Value of the function for each row, or the class that it speaks for."""
        raw = self.decision_function(X)
        if self.classes_ is None:
            return raw
        if raw.ndim == 1:
            return self.classes_[(raw > 0).astype(np.intp)]
        return self.classes_[raw.argmax(axis=1)]


def node_lines(tree: Tree, n_columns: int) -> tuple[Floats, Floats]:
    """Coefficients of all columns, (n_nodes, n_outputs, n_columns), and intercepts of all nodes."""
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

    leaves: NDArray  # numbers of the nodes, as `apply` gives them
    paths: list[str]
    n_samples: NDArray
    weight: Floats
    columns: list[str]  # names of the regressors, effects of categories among them
    coef: Floats
    intercept: Floats  # (n_leaves, n_outputs)
    std_error: Floats  # NaN under a penalty, absolute error or smoothing, and if not determined
    intercept_error: Floats
    loss: Floats  # mean of the criterion
    quality: Floats  # R2, or the deviance with classes: see `quality_name`
    quality_name: str
    low: Floats  # limits of the predictions under extrapolate="bounded", else infinite
    high: Floats
    outputs: list[str]

    def __len__(self) -> int:
        return len(self.leaves)

    def to_dict(self) -> dict[str, list]:
        """Return columns of equal length, a row per leaf and output."""
        rows: dict[str, list] = {"leaf": [], "path": [], "n_samples": [], "weight": [], "loss": []}
        several = len(self.outputs) > 1
        if several:
            rows["output"] = []
        extra = [self.quality_name, "intercept", "intercept_error"]
        extra += [name for c in self.columns for name in (c, f"{c} (error)")]
        rows.update({name: [] for name in extra})
        for i in range(len(self)):
            for k, output in enumerate(self.outputs):
                rows["leaf"].append(int(self.leaves[i]))
                rows["path"].append(self.paths[i])
                rows["n_samples"].append(int(self.n_samples[i]))
                rows["weight"].append(float(self.weight[i]))
                rows["loss"].append(float(self.loss[i]))
                if several:
                    rows["output"].append(output)
                own = min(k, self.quality.shape[1] - 1)
                rows[self.quality_name].append(float(self.quality[i, own]))
                rows["intercept"].append(float(self.intercept[i, k]))
                rows["intercept_error"].append(float(self.intercept_error[i, k]))
                for j, c in enumerate(self.columns):
                    rows[c].append(float(self.coef[i, k, j]))
                    rows[f"{c} (error)"].append(float(self.std_error[i, k, j]))
        return rows

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame."""
        import pandas

        return pandas.DataFrame(self.to_dict())

    def equation(self, leaf: int, output: int = 0, digits: int = 4) -> str:
        """Return the linear function of the leaf at a position in the table."""
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


def leaf_table(model: Any) -> LeafTable:
    """Return the leaves of a fitted linear tree."""
    tree, facts, columns = model.tree_, model._facts, model._columns
    leaves = facts.leaves
    labels = model._reader.categories
    paths = [node_path(tree, columns.names, labels, int(leaf)) for leaf in leaves]
    coef, intercept = node_lines(tree, columns.n_columns)
    n_outputs = coef.shape[1]
    classes = getattr(model, "classes_", None)
    if classes is None:
        outputs = ["y"] if n_outputs == 1 else [f"y{k}" for k in range(n_outputs)]
    else:
        outputs = [f"score {label}" for label in classes[-n_outputs:]]
    bounds = tree.value_range
    if bounds is None:
        bounds = np.broadcast_to(np.array([-np.inf, np.inf])[:, None], (tree.n_nodes, 2, n_outputs))
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
        bounds[leaves, 0],
        bounds[leaves, 1],
        outputs,
    )


def summarise(
    model: Any, feature_names: Any, only_leaves: bool, max_depth: int | None
) -> dict[int, dict[str, Any]]:
    """Return the nodes as dicts in linear-tree's structure."""
    tree, columns = model.tree_, model._columns
    check_integer("max_depth", max_depth, 1, allow_none=True)
    if feature_names is not None and len(feature_names) != columns.n_features:
        raise ValueError(
            f"feature_names must hold {columns.n_features} names, got {len(feature_names)}"
        )
    coef, intercept = node_lines(tree, columns.n_columns)
    classes = getattr(model, "classes_", None)

    def line(node: int) -> LeafModel:
        if coef.shape[1] == 1:
            return LeafModel(coef[node, 0], np.float64(intercept[node, 0]), classes)
        return LeafModel(coef[node], intercept[node], classes)

    nodes, facts = tree.nodes, model._facts
    cost = model._impurity * nodes["weight"]
    present = dict(zip(facts.leaves.tolist(), facts.present, strict=True))
    out: dict[int, dict[str, Any]] = {}
    for i in range(len(nodes)):
        if max_depth is not None and nodes["depth"][i] > max_depth - (nodes["left"][i] >= 0):
            continue
        if nodes["left"][i] < 0:
            out[i] = {
                "loss": float(model._impurity[i]),
                "samples": int(nodes["n_samples"][i]),
                "models": line(i),
            }
            if classes is not None:
                # By number: the engine has two classes where there is one.
                out[i]["classes"] = classes[np.flatnonzero(present[i])]
            continue
        if only_leaves:
            continue
        left, right, f = (int(nodes[name][i]) for name in ("left", "right", "feature"))
        out[i] = {
            "col": f if feature_names is None else feature_names[f],
            "th": float(nodes["threshold"][i]),
            "loss": float((cost[left] + cost[right]) / nodes["weight"][i]),
            "samples": int(nodes["n_samples"][i]),
            "children": (left, right),
            "models": (line(left), line(right)),
        }
        if nodes["category_start"][i] >= 0:
            labels = model._reader.categories[f]
            del out[i]["th"]
            out[i]["categories"] = [labels[c] for c in tree.category_set(i) if c < len(labels)]
    return out


def describe(model: Any) -> str:
    """Return a short account in words."""
    tree, facts = model.tree_, model._facts
    nodes = tree.nodes
    leaves = nodes[nodes["left"] < 0]
    used = np.diff(tree.coef_ptr)[nodes["left"] < 0]
    share = leaves["weight"] / nodes["weight"][0]
    penalty = "no penalty" if model.penalty is None else f"{model.penalty}, alpha {model.alpha:g}"
    return "\n".join(
        [
            f"{type(model).__name__}: {model.criterion}, {penalty}",
            f"rows {nodes['n_samples'][0]}, features {model.n_features_in_}, "
            f"regressors {len(model._columns.linear)}",
            f"nodes {tree.n_nodes}, leaves {tree.n_leaves}, depth {tree.depth}",
            f"rows of a leaf: min {leaves['n_samples'].min()}, max {leaves['n_samples'].max()}; "
            f"regressors of a leaf: min {used.min()}, max {used.max()}",
            f"loss: one model {model._impurity[0]:.6g}, the leaves {share @ facts.loss:.6g}",
        ]
    )
