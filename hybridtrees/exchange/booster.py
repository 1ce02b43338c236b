"""The trees of an XGB model as XGBoost shows its own: dumps, tables, importances."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import check_option
from hybridtrees.exchange.writing import breadth_first, to_ubjson, write_bytes, write_text
from hybridtrees.exchange.xgboost_models import check_known, xgboost_document
from hybridtrees.models.shared.importance import IMPORTANCE_TYPES


class Booster:
    """A view of a fitted XGB model with the methods of ``xgboost.Booster``.

    Made by `get_booster` of `XGBRegressor` and `XGBClassifier`. Nodes have the numbers of the file
    that `save_model` writes, and what the methods return is what XGBoost returns for that file. It
    cannot be trained, and takes tables where XGBoost takes a DMatrix.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    @cached_property
    def _document(self) -> dict[str, Any]:
        return xgboost_document(self._model)

    @property
    def _trees(self) -> list[dict[str, Any]]:
        booster = self._document["learner"]["gradient_booster"]
        trees: list[dict[str, Any]] = booster["model"]["trees"]
        return trees

    # -- about the model ------------------------------------------------------------------------

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, None without any."""
        return self._document["learner"]["feature_names"] or None

    @property
    def feature_types(self) -> list[str]:
        """Type of each feature: "float", or "c" for categories."""
        types: list[str] = self._document["learner"]["feature_types"]
        return types

    @property
    def best_iteration(self) -> int:
        """Round with the best score, with early stopping."""
        return int(self._model.best_iteration)

    @property
    def best_score(self) -> float:
        """Score of the best round, with early stopping."""
        return float(self._model.best_score)

    def num_features(self) -> int:
        """Return the number of features."""
        return int(self._model.n_features_in_)

    def num_boosted_rounds(self) -> int:
        """Return the number of rounds."""
        return int(self._model.n_iter_)

    def attributes(self) -> dict[str, str]:
        """Return the strings that are stored with the model."""
        return dict(self._document["learner"]["attributes"])

    def attr(self, key: str) -> str | None:
        """Return the string stored under a name, or None."""
        return self.attributes().get(key)

    def save_config(self) -> str:
        """Return the parameters of the training as JSON, at the places where XGBoost has them."""
        model, learner = self._model, self._document["learner"]
        given = {key: str(value) for key, value in model.get_xgb_params().items()}
        booster = learner["gradient_booster"]
        config = {
            "generic_param": {"nthread": str(model.n_jobs or 0), "device": "cpu"},
            "gradient_booster": {
                "name": "gbtree",
                "gbtree_model_param": booster["model"]["gbtree_model_param"],
                "gbtree_train_param": {"tree_method": str(model.tree_method)},
                "tree_train_param": given,
            },
            "learner_model_param": learner["learner_model_param"],
            "objective": learner["objective"],
        }
        return json.dumps({"learner": config, "version": self._document["version"]})

    # -- predictions ----------------------------------------------------------------------------

    def predict(
        self,
        data: Any,
        output_margin: bool = False,
        pred_leaf: bool = False,
        pred_contribs: bool = False,
        pred_interactions: bool = False,
        *,
        validate_features: bool = True,
        training: bool = False,
        iteration_range: tuple[int, int] = (0, 0),
        strict_shape: bool = False,
    ) -> NDArray[Any]:
        """Predict numbers or probabilities, of all rounds unless `iteration_range` says otherwise.

        Parameters
        ----------
        data : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            As in `fit` of the estimator; or a DMatrix of numbers.
        output_margin : bool
            Return raw scores.
        pred_leaf : bool
            Return the number of each row's leaf in each tree.
        pred_contribs, pred_interactions : bool
            Not supported: see `shap_values` of the estimator.
        validate_features, training, strict_shape : bool
            Not used.
        iteration_range : pair of int
            First round to use, and one past the last; (0, 0) for all.

        Returns
        -------
        prediction : ndarray
        """
        if pred_contribs or pred_interactions:
            raise ValueError(
                "pred_contribs and pred_interactions are not supported: use shap_values of the "
                "estimator, with interactions=True for the second"
            )
        data, margin = _table_of(data)
        rounds = (0, 0) if iteration_range is None else iteration_range
        if pred_leaf:
            return self._leaves(data, rounds)
        raw = self._model.predict_raw(data, rounds, base_margin=margin)
        if output_margin:
            return np.asarray(raw[:, 0] if raw.shape[1] == 1 else raw)
        loss = self._model._loss
        if self._model.objective == "multi:softmax" and raw.shape[1] > 1:
            return np.asarray(raw.argmax(axis=1).astype(np.float64))
        is_classifier = self._model._estimator_type == "classifier"
        return np.asarray(loss.score_input(raw) if is_classifier else loss.predict(raw))

    def inplace_predict(
        self,
        data: Any,
        *,
        iteration_range: tuple[int, int] = (0, 0),
        predict_type: str = "value",
        missing: float = math.nan,
        validate_features: bool = True,
        base_margin: Any = None,
        strict_shape: bool = False,
    ) -> NDArray[Any]:
        """Predict as `predict` does, "value" or "margin"; see there for the other arguments."""
        check_option("predict_type", predict_type, ("value", "margin"))
        if base_margin is not None:
            raise ValueError("base_margin is for predict of the estimator")
        return self.predict(data, predict_type == "margin", iteration_range=iteration_range)

    def _leaves(self, data: Any, rounds: tuple[int, int]) -> NDArray[Any]:
        found = self._model.apply(data, rounds)
        first = self._model._tree_range(rounds)[0]
        for k in range(found.shape[1]):
            order = breadth_first(self._model.trees_[first + k])
            place = np.empty(len(order), dtype=found.dtype)
            place[order] = np.arange(len(order))
            found[:, k] = place[found[:, k]]
        return np.asarray(found)

    # -- trees ----------------------------------------------------------------------------------

    def get_score(self, fmap: str = "", importance_type: str = "weight") -> dict[str, float]:
        """Return the importance of the features that splits use, by name.

        Parameters
        ----------
        fmap : str
            Files of names are not supported.
        importance_type : {"weight", "gain", "cover", "total_gain", "total_cover"}

        Returns
        -------
        importance : dict
        """
        _no_file(fmap)
        check_option("importance_type", importance_type, IMPORTANCE_TYPES)
        count = self._model.get_score("weight")
        amount = self._model.get_score(importance_type)
        return {self._name(j): float(amount[j]) for j in np.flatnonzero(count).tolist()}

    def get_fscore(self, fmap: str = "") -> dict[str, float]:
        """Return the number of splits of the features that splits use, by name."""
        return self.get_score(fmap)

    def get_dump(
        self, fmap: str = "", with_stats: bool = False, dump_format: str = "text"
    ) -> list[str]:
        """Return each tree as text.

        Parameters
        ----------
        fmap : str
            Files of names are not supported.
        with_stats : bool
            Whether to write the gain of splits and the sums of hessians.
        dump_format : {"text", "json"}

        Returns
        -------
        trees : list of str
        """
        _no_file(fmap)
        check_option("dump_format", dump_format, ("text", "json"))
        write = self._text if dump_format == "text" else self._json
        return [write(tree, with_stats) for tree in self._trees]

    def dump_model(
        self, fout: Any, fmap: str = "", with_stats: bool = False, dump_format: str = "text"
    ) -> None:
        """Write what `get_dump` returns to a file."""
        dumps = self.get_dump(fmap, with_stats, dump_format)
        if dump_format == "json":
            text = "[\n" + ",\n".join(dumps) + "\n]"
        else:
            text = "".join(f"booster[{k}]:\n{one}" for k, one in enumerate(dumps))
        write_text(fout, text)

    def trees_to_dataframe(self, fmap: str = "") -> Any:
        """Return the nodes of all trees as a data frame of pandas."""
        import pandas

        _no_file(fmap)
        rows = []
        for t, tree in enumerate(self._trees):
            sets = _category_sets(tree)
            for k in range(len(tree["left_children"])):
                left = tree["left_children"][k]
                row: dict[str, Any] = {"Tree": t, "Node": k, "ID": f"{t}-{k}"}
                if left < 0:
                    row |= {"Feature": "Leaf", "Split": math.nan, "Yes": None, "No": None}
                    row |= {"Missing": None, "Gain": tree["split_conditions"][k]}
                    row["Category"] = math.nan
                else:
                    yes, no = left, tree["right_children"][k]
                    missing = yes if tree["default_left"][k] else no
                    by_set = k in sets
                    yes, no = (no, yes) if by_set else (yes, no)
                    condition = math.nan if by_set else tree["split_conditions"][k]
                    row |= {"Feature": self._name(tree["split_indices"][k]), "Split": condition}
                    row |= {"Yes": f"{t}-{yes}", "No": f"{t}-{no}", "Missing": f"{t}-{missing}"}
                    row |= {"Gain": tree["loss_changes"][k]}
                    row["Category"] = [str(one) for one in sets[k]] if by_set else None
                row["Cover"] = tree["sum_hessian"][k]
                rows.append(row)
        columns = ["Tree", "Node", "ID", "Feature", "Split", "Yes", "No", "Missing", "Gain",
                   "Cover", "Category"]  # fmt: skip
        return pandas.DataFrame(rows, columns=columns)

    def _name(self, feature: int) -> str:
        names = self.feature_names
        return f"f{feature}" if names is None else names[feature]

    def _text(self, tree: dict[str, Any], with_stats: bool) -> str:
        sets, lines = _category_sets(tree), []
        for node, depth, _ in _preorder(tree):
            left, right = tree["left_children"][node], tree["right_children"][node]
            cover = f",cover={_number(tree['sum_hessian'][node])}" if with_stats else ""
            if left < 0:
                line = f"{node}:leaf={_number(tree['split_conditions'][node])}{cover}"
            else:
                name = self._name(tree["split_indices"][node])
                missing = left if tree["default_left"][node] else right
                if node in sets:
                    what = f"{name}:{{{','.join(map(str, sets[node]))}}}"
                    left, right = right, left
                else:
                    what = f"{name}<{_number(tree['split_conditions'][node])}"
                gain = f",gain={_number(tree['loss_changes'][node])}" if with_stats else ""
                line = f"{node}:[{what}] yes={left},no={right},missing={missing}{gain}{cover}"
            lines.append("\t" * depth + line + "\n")
        return "".join(lines)

    def _json(self, tree: dict[str, Any], with_stats: bool) -> str:
        sets, text = _category_sets(tree), ""
        for node, depth, closing in _preorder(tree):
            left, right = tree["left_children"][node], tree["right_children"][node]
            indent = "  " * (depth + 1)
            cover = f' , "cover": {_number(tree["sum_hessian"][node])}' if with_stats else " "
            if left < 0:
                leaf = _number(tree["split_conditions"][node])
                text += f'{indent}{{ "nodeid": {node}, "leaf": {leaf}{cover}'
                text += " }" if with_stats else "}"
            else:
                missing = left if tree["default_left"][node] else right
                condition = _number(tree["split_conditions"][node])
                if node in sets:
                    condition = f"[{', '.join(map(str, sets[node]))}]"
                    left, right = right, left
                gain = ""
                if with_stats:
                    gain = f', "gain": {_number(tree["loss_changes"][node])}{cover[1:]}'
                text += (
                    f'{indent}{{ "nodeid": {node}, "depth": {depth}, "split": '
                    f'{json.dumps(self._name(tree["split_indices"][node]))}, "split_condition": '
                    f'{condition}, "yes": {left}, "no": {right}, "missing": {missing} {gain}, '
                    '"children": [\n'
                )
                continue
            # A right child ends its parent, and that one its own if it is a right child too.
            for level in range(closing):
                text += "\n" + "  " * (depth - level) + "]}"
            text += ", \n" if depth > closing else ""
        return text

    # -- files ----------------------------------------------------------------------------------

    def save_raw(self, raw_format: str = "json") -> bytearray:
        """Return the content of the file that `save_model` writes, as "json" or "ubj"."""
        check_option("raw_format", raw_format, ("json", "ubj"))
        check_known(self._model, self._document)
        if raw_format == "ubj":
            return bytearray(to_ubjson(self._document))
        return bytearray(json.dumps(self._document).encode())

    def save_model(self, fname: str | PathLike[str]) -> None:
        """Write a file that XGBoost reads: JSON, or UBJSON if the name ends in ".ubj"."""
        kind = "ubj" if os.fspath(fname).endswith(".ubj") else "json"
        write_bytes(fname, bytes(self.save_raw(kind)))


def _table_of(data: Any) -> tuple[Any, Any]:
    """Return the table and the initial scores of a DMatrix; another table as it is, and None."""
    if not (hasattr(data, "get_data") and hasattr(data, "get_base_margin")):
        return data, None
    stored = data.get_data().tocoo()
    table = np.full(stored.shape, np.nan, dtype=np.float32)
    table[stored.row, stored.col] = stored.data
    margin = data.get_base_margin()
    return table, margin if margin.size else None


def _no_file(fmap: Any) -> None:
    if fmap:
        raise ValueError(f"fmap={fmap!r} is not supported: fit a data frame, whose names are kept")


def _number(value: float) -> str:
    """Return a float32 with the digits that tell it from others."""
    return f"{np.float32(value):.9g}"


def _category_sets(tree: dict[str, Any]) -> dict[int, list[int]]:
    """Return the categories of splits by node."""
    segments = zip(
        tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"],
        strict=True,
    )  # fmt: skip
    return {node: tree["categories"][start : start + size] for node, start, size in segments}


def _preorder(tree: dict[str, Any]) -> Iterator[tuple[int, int, int]]:
    """Yield nodes with their depths, and how many parents a leaf is the last node of."""
    stack = [(0, 0, 0)]
    while stack:
        node, depth, closing = stack.pop()
        yield node, depth, closing
        left, right = tree["left_children"][node], tree["right_children"][node]
        if left >= 0:
            stack.append((right, depth + 1, closing + 1))
            stack.append((left, depth + 1, 0))
