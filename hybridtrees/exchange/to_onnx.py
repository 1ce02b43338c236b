"""Models as ONNX graphs of standard operators."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import check_option
from hybridtrees._version import __version__
from hybridtrees.core.base._types import Limit
from hybridtrees.core.tree.additive import AdditiveForm, Column, additive_form
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.exchange.writing import write_bytes

# TreeEnsemble, with sets of categories, came with version 5 of the operators of ai.onnx.ml.
_OPSETS = {"": 18, "ai.onnx.ml": 5}
_IR_VERSION = 10
_LEQ, _MEMBER = 0, 6  # modes of a node


def to_onnx(
    estimator: Any, path: Any = None, *, input_type: Literal["double", "float"] = "double"
) -> Any:
    """Write a fitted model as an ONNX graph: see the method ``to_onnx`` of estimators."""
    check_option("input_type", input_type, ("double", "float"))
    form = additive_form(estimator)
    try:
        import onnx
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx: pip install onnx") from error
    single = form.classes is None and form.n_scores == 1
    model = _Graph(onnx, form, input_type).model(single, type(estimator).__name__)
    onnx.checker.check_model(model)
    write_bytes(path, model.SerializeToString())
    return model


class _Graph:
    """The nodes of a graph while it is made; methods return names of values."""

    def __init__(self, onnx: Any, form: AdditiveForm, input_type: str) -> None:
        self.onnx = onnx
        self.form = form
        self.input_type = input_type
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.names: dict[tuple[str, tuple[int, ...], bytes], str] = {}  # of the constants

    def model(self, single: bool, kind: str) -> Any:
        """Return the whole model."""
        helper, types = self.onnx.helper, self.onnx.TensorProto
        form = self.form
        n_features = form.reader.n_features_in
        given = types.DOUBLE if self.input_type == "double" else types.FLOAT
        inputs = [helper.make_tensor_value_info("X", given, ["n", n_features])]
        x = "X" if self.input_type == "double" else self.add("Cast", "X", to=types.DOUBLE)
        found = self.linked(form, self.scores(form, x))
        if form.classes is None:
            shape: list[Any] = ["n"] if single else ["n", form.n_predictions]
            if single:
                self.add("Squeeze", found, self.integers([1]), output="prediction")
            else:
                self.add("Identity", found, output="prediction")
            outputs = [helper.make_tensor_value_info("prediction", types.DOUBLE, shape)]
        else:
            outputs = self.class_outputs(found, form.classes)
        graph = helper.make_graph(self.nodes, "hybridtrees", inputs, outputs, self.constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*pair) for pair in _OPSETS.items()],
            ir_version=_IR_VERSION,
            producer_name="hybridtrees",
            producer_version=__version__,
            doc_string=f"{kind} of hybridtrees {__version__}. {_input_text(form.reader)}",
        )
        return model

    # -- building blocks ------------------------------------------------------------------------

    def add(self, kind: str, *inputs: str, output: str = "", domain: str = "", **how: Any) -> str:
        """Add a node, and return the name of its output."""
        output = output or f"{kind}_{len(self.nodes)}"
        made = self.onnx.helper.make_node(kind, list(inputs), [output], domain=domain, **how)
        self.nodes.append(made)
        return output

    def constant(self, numbers: Any) -> str:
        """Return the name of a constant, which is added if there is none like it."""
        numbers = np.ascontiguousarray(numbers)
        key = numbers.dtype.str, numbers.shape, numbers.tobytes()
        if numbers.dtype.kind == "O" or key not in self.names:
            self.names[key] = name = f"constant_{len(self.constants)}"
            self.constants.append(self.onnx.numpy_helper.from_array(numbers, name))
        return self.names[key]

    def numbers(self, numbers: Any) -> str:
        """Add a constant of doubles."""
        return self.constant(np.asarray(numbers, dtype=np.float64))

    def zero(self) -> str:
        """Return the constant 0."""
        return self.numbers([0.0])

    def one(self) -> str:
        """Return the constant 1."""
        return self.numbers([1.0])

    def integers(self, numbers: Any) -> str:
        """Add a constant of integers."""
        return self.constant(np.asarray(numbers, dtype=np.int64))

    def total(self, x: str, axis: int) -> str:
        """Sum over an axis."""
        return self.add("ReduceSum", x, self.integers([axis]), keepdims=0)

    # -- scores and predictions -----------------------------------------------------------------

    def scores(self, form: AdditiveForm, x: str) -> str:
        """Return the scores of a form, (n, n_scores)."""
        found = self.numbers(form.base[None, :])
        if form.trees is not None:
            table = self.columns(form.columns, x)
            found = self.add("Add", self.trees(form.trees, table), found)
        else:
            # So that there is a row for each of the table.
            rows = self.total(self.add("Mul", self.column(x, 0), self.numbers([[0.0]])), 1)
            rows = self.add("Where", self.add("IsNaN", rows), self.numbers([0.0]), rows)
            rows = self.add("Unsqueeze", rows, self.integers([1]))
            found = self.add("Add", rows, found)
        for weight, inner in form.inner:
            part = self.linked(inner, self.scores(inner, x))
            if inner.n_predictions == 2 and form.n_scores == 1:
                part = self.column(part, 1)
            found = self.add("Add", found, self.add("Mul", part, self.numbers([[weight]])))
        return found

    def linked(self, form: AdditiveForm, scores: str) -> str:
        """Return the predictions of a form, (n, n_predictions)."""
        kind = form.link.kind
        if form.link.scale != 1.0:
            scores = self.add("Mul", scores, self.numbers([form.link.scale]))
        if kind == "exp":
            scores = self.add("Exp", self.add("Min", scores, self.numbers([709.0])))
        elif kind == "logistic":
            denominator = self.add("Add", self.one(), self.add("Exp", self.add("Neg", scores)))
            scores = self.add("Div", self.one(), denominator)
        elif kind == "softmax":
            scores = self.add("Softmax", scores, axis=1)
        elif kind == "side":
            above = self.add("Greater", scores, self.zero())
            scores = self.add("Where", above, self.one(), self.zero())
        elif kind == "shares":
            scores = self.add("Min", self.add("Max", scores, self.zero()), self.one())
            if form.n_scores > 1:
                total = self.add("ReduceSum", scores, self.integers([1]), keepdims=1)
                scores = self.add("Div", scores, total)
        elif kind == "sorted":
            n = form.n_scores
            names = [f"sorted_{len(self.nodes)}", f"places_{len(self.nodes)}"]
            how = {"axis": 1, "largest": 0, "sorted": 1}
            inputs = [scores, self.integers([n])]
            self.nodes.append(self.onnx.helper.make_node("TopK", inputs, names, **how))
            rank = np.argsort(np.argsort(form.link.levels, kind="stable"), kind="stable")
            scores = self.add("Gather", names[0], self.integers(rank), axis=1)
        if form.n_predictions > form.n_scores:
            scores = self.add("Concat", self.add("Sub", self.one(), scores), scores, axis=1)
        return scores

    def class_outputs(self, proba: str, classes: NDArray[Any]) -> list[Any]:
        """Add the label and the probabilities to the outputs."""
        helper, types = self.onnx.helper, self.onnx.TensorProto
        best = self.add("ArgMax", proba, axis=1, keepdims=0)
        if classes.dtype.kind in "iub":
            labels, label_type = np.asarray(classes, dtype=np.int64), types.INT64
        elif classes.dtype.kind == "f":
            labels, label_type = np.asarray(classes, dtype=np.float64), types.DOUBLE
        else:
            labels, label_type = np.array([str(one) for one in classes]), types.STRING
        self.add("Gather", self.constant(labels), best, output="label")
        self.add("Identity", proba, output="probabilities")
        return [
            helper.make_tensor_value_info("label", label_type, ["n"]),
            helper.make_tensor_value_info("probabilities", types.DOUBLE, ["n", len(classes)]),
        ]

    # -- columns --------------------------------------------------------------------------------

    def column(self, table: str, k: int) -> str:
        """Return one column of a table, (n, 1)."""
        return self.add("Gather", table, self.integers([k]), axis=1)

    def columns(self, columns: tuple[Column, ...], x: str) -> str:
        """Return what trees read, (n, n_columns)."""
        features = [column.feature for column in columns]
        if all(column.kind == "value" for column in columns):
            if features == list(range(self.form.reader.n_features_in)):
                return x
            return self.add("Gather", x, self.integers(features), axis=1)
        return self.add("Concat", *(self.made(column, x) for column in columns), axis=1)

    def made(self, column: Column, x: str) -> str:
        """Return one column that trees read, (n, 1)."""
        value = self.column(x, column.feature)
        if column.kind == "value":
            return value
        if column.kind == "missing":
            return self.add("Where", self.add("IsNaN", value), self.one(), self.zero())
        if column.kind == "indicator":
            is_code = self.add("Equal", value, self.numbers([column.code]))
            known = self.add("Where", is_code, self.one(), self.zero())
            return self.add("Where", self.add("IsNaN", value), self.numbers([np.nan]), known)
        assert column.table is not None
        size = len(column.table) - 1
        # The comparisons are false for a missing code.
        low = self.add("GreaterOrEqual", value, self.zero())
        known = self.add("And", low, self.add("Less", value, self.numbers([size])))
        place = self.add("Where", known, self.add("Add", value, self.one()), self.zero())
        place = self.add("Cast", place, to=self.onnx.TensorProto.INT64)
        return self.add("Gather", self.numbers(column.table), place)

    # -- trees ----------------------------------------------------------------------------------

    def trees(self, trees: TreeEnsemble, x: str) -> str:
        """Return the sums of the values of trees, (n, n_outputs)."""
        single = trees.values.shape[1] == 1
        linear = len(trees.coef_feature) > 0 or trees.value_range is not None
        if single and not linear:
            return self.ensemble(_Nodes(trees, self.form.reader), x, trees.n_outputs)
        # Leaves have numbers, and what belongs to a leaf is looked up.
        nodes = _Nodes(trees, self.form.reader, numbered=True)
        leaf = self.ensemble(nodes, x, trees.n_trees)
        leaf = self.add("Cast", leaf, to=self.onnx.TensorProto.INT64)
        ends = np.array(nodes.ends)
        value = self.add("Gather", self.numbers(trees.values[ends]), leaf)  # (n, trees, values)
        if len(trees.coef_feature):
            value = self.add("Add", value, self.lines(trees, ends, leaf, x))
        if trees.value_range is not None:
            low, high = (trees.value_range[ends][:, side] for side in (0, 1))
            value = self.add("Max", value, self.add("Gather", self.numbers(low), leaf))
            value = self.add("Min", value, self.add("Gather", self.numbers(high), leaf))
        if not single:
            return self.total(value, 1)
        share = np.zeros((trees.n_trees, trees.n_outputs))
        share[np.arange(trees.n_trees), trees.tree_output] = 1.0
        value = self.add("Squeeze", value, self.integers([2]))
        return self.add("MatMul", value, self.numbers(share))

    def lines(self, trees: TreeEnsemble, ends: NDArray[Any], leaf: str, x: str) -> str:
        """Return the linear parts of leaves, (n, n_trees, n_values)."""
        counts = np.diff(trees.coef_ptr)[ends]
        most = max(1, int(counts.max()))
        place = trees.coef_ptr[ends][:, None] + np.arange(most)
        used = np.arange(most) < counts[:, None]
        place = np.where(used, place, 0)
        tables = {
            "feature": np.where(used, trees.coef_feature[place], 0),
            "center": np.where(used, trees.coef_center[place], 0.0),
            "low": np.where(used, trees.coef_low[place], -np.inf),
            "high": np.where(used, trees.coef_high[place], np.inf),
        }
        coef = np.where(used[:, :, None], trees.coef[place], 0.0)
        feature = self.add("Gather", self.integers(tables["feature"]), leaf)  # (n, trees, terms)
        shape = self.add("Shape", feature)
        flat = self.add("Reshape", feature, self.integers([0, -1]))
        z = self.add("Reshape", self.add("GatherElements", x, flat, axis=1), shape)
        center = self.add("Gather", self.numbers(tables["center"]), leaf)
        gone = self.add("IsNaN", z)
        for name, kind in (("low", "Max"), ("high", "Min")):
            if np.isfinite(tables[name]).any():
                z = self.add(kind, z, self.add("Gather", self.numbers(tables[name]), leaf))
        z = self.add("Sub", self.add("Where", gone, center, z), center)
        z = self.add("Unsqueeze", z, self.integers([3]))
        slope = self.add("Gather", self.numbers(coef), leaf)  # (n, trees, terms, values)
        return self.total(self.add("Mul", z, slope), 2)

    def ensemble(self, nodes: _Nodes, x: str, n_targets: int) -> str:
        """Return the sums by target of the leaves of trees, (n, n_targets)."""
        tensor = self.onnx.numpy_helper.from_array
        how: dict[str, Any] = {
            "n_targets": n_targets,
            "aggregate_function": 1,
            "post_transform": 0,
            "tree_roots": nodes.roots,
            "nodes_featureids": nodes.feature,
            "nodes_modes": tensor(np.array(nodes.mode, dtype=np.uint8), "nodes_modes"),
            "nodes_splits": tensor(np.array(nodes.split, dtype=np.float64), "nodes_splits"),
            "nodes_truenodeids": nodes.true_id,
            "nodes_trueleafs": nodes.true_leaf,
            "nodes_falsenodeids": nodes.false_id,
            "nodes_falseleafs": nodes.false_leaf,
            "nodes_missing_value_tracks_true": nodes.missing,
            "leaf_targetids": nodes.target,
            "leaf_weights": tensor(np.array(nodes.weight, dtype=np.float64), "leaf_weights"),
        }
        if nodes.members:
            members = np.array(nodes.members, dtype=np.float64)
            how["membership_values"] = tensor(members, "membership_values")
        return self.add("TreeEnsemble", x, domain="ai.onnx.ml", **how)


class _Nodes:
    """The nodes and leaves of trees as lists, in the terms of the operator."""

    def __init__(self, trees: TreeEnsemble, reader: Any, numbered: bool = False) -> None:
        self.feature: list[int] = []
        self.mode: list[int] = []
        self.split: list[float] = []
        self.missing: list[int] = []
        self.true_id: list[int] = []
        self.false_id: list[int] = []
        self.true_leaf: list[int] = []
        self.false_leaf: list[int] = []
        self.members: list[float] = []
        self.target: list[int] = []
        self.weight: list[float] = []
        self.roots: list[int] = []
        self.ends: list[int] = []  # node of the ensemble of each leaf
        self._numbered = numbered
        n_codes = [0 if labels is None else len(labels) for labels in reader.categories]
        for k, tree in enumerate(trees):
            output = k if numbered else int(trees.tree_output[k])
            self._add_tree(tree, int(trees.tree_start[k]), output, n_codes)

    def _add_tree(self, tree: Tree, start: int, output: int, n_codes: list[int]) -> None:
        self.roots.append(len(self.feature))
        if tree.nodes["left"][0] < 0:
            # A tree needs a node: both of its branches lead to the leaf.
            node = self._add_node(0, _LEQ, 0.0, 0)
            self._link(node, True, *self._add_leaf(tree, 0, start, output))
            self._link(node, False, self.true_id[node], 1)
            return
        stack: list[tuple[int, int, bool]] = [(0, -1, False)]  # node, what leads there, and how
        while stack:
            node, parent, side = stack.pop()
            own = tree.nodes[node]
            if own["left"] < 0:
                self._link(parent, side, *self._add_leaf(tree, node, start, output))
                continue
            feature, missing = int(own["feature"]), int(own["missing_left"])
            by_set = own["category_start"] >= 0
            end = tree.first_unknown(node) if by_set else 0
            if missing == Limit.MISSING_STAYS:
                # Known values are at most the limit; others end in a leaf of their own.
                number = self._add_node(feature, _LEQ, end - 0.5 if by_set else np.inf, 0)
                self._link(number, False, *self._add_leaf(tree, node, start, output))
                if parent >= 0:
                    self._link(parent, side, number, 0)
                parent, side, missing = number, True, 0
            if by_set:
                codes = tree.category_set(node).tolist()
                if missing:  # codes beyond the set count as missing
                    codes += range(end, n_codes[feature] if feature < len(n_codes) else 0)
                number = self._add_node(feature, _MEMBER, 0.0, missing)
                self.members += [*(codes or [-1]), np.nan]
            else:
                number = self._add_node(feature, _LEQ, float(own["threshold"]), missing)
            if parent >= 0:
                self._link(parent, side, number, 0)
            stack.append((int(own["right"]), number, False))
            stack.append((int(own["left"]), number, True))

    def _add_node(self, feature: int, mode: int, split: float, missing: int) -> int:
        self.feature.append(feature)
        self.mode.append(mode)
        self.split.append(split)
        self.missing.append(missing)
        for own in (self.true_id, self.false_id, self.true_leaf, self.false_leaf):
            own.append(0)
        return len(self.feature) - 1

    def _add_leaf(self, tree: Tree, node: int, start: int, output: int) -> tuple[int, int]:
        number = len(self.ends)
        self.ends.append(start + node)
        self.target.append(output)
        self.weight.append(float(number) if self._numbered else float(tree.values[node, 0]))
        return number, 1

    def _link(self, parent: int, side: bool, number: int, is_leaf: int) -> None:
        ids, leaves = (self.true_id, self.true_leaf) if side else (self.false_id, self.false_leaf)
        ids[parent], leaves[parent] = number, is_leaf


def _input_text(reader: Any) -> str:
    """Describe the columns of X."""
    names = reader.feature_names_in
    text = "X has numbers, NaN where a value is missing, and codes in columns of categories"
    known = "" if names is None else ": " + ", ".join(map(str, names))
    coded = [
        f"column {j}: {', '.join(map(str, labels[:20]))}{', ...' if len(labels) > 20 else ''}"
        for j, labels in enumerate(reader.categories)
        if labels is not None
    ]
    return f"{text}{known}. " + "".join(f"Categories of {one}. " for one in coded)
