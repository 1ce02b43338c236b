"""Models of CatBoost: a fitted model, or a file in its JSON format."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from hybridtrees._archive import ModelFileError
from hybridtrees.exchange.assembly import MOST_FEATURES, CategorySplits, ForeignTrees, assemble
from hybridtrees.exchange.files import (
    get,
    guarded,
    integers,
    is_file,
    numbers,
    parse_json,
    read_content,
)
from hybridtrees.exchange.links import Link
from hybridtrees.exchange.models import ImportedClassifier, ImportedRegressor, imported
from hybridtrees.exchange.reader import ImportedReader
from hybridtrees.exchange.thresholds import up_to_single
from hybridtrees.input.arrays import shorten

# Link and task by the loss; others have the identity link. Scores of Poisson and Tweedie are the
# logarithms of what CatBoost predicts.
_LINKS = {
    "Logloss": ("logistic", "classification"),
    "CrossEntropy": ("logistic", "classification"),
    "MultiClass": ("softmax", "classification"),
    "MultiClassOneVsAll": ("one_against_rest", "classification"),
    "Poisson": ("exp", "regression"),
    "Tweedie": ("exp", "regression"),
}
_UNKNOWN_LOSS = {"RMSEWithUncertainty", "MultiLogloss", "MultiCrossEntropy"}
# Whether a missing value exceeds every border.
_NAN = {"AsIs": False, "AsFalse": False, "AsTrue": True}
_REFUSED_SPLITS = {
    "OnlineCtr": "statistics of the target in place of categories (CTR): train with a "
    "one_hot_max_size of at least the number of categories",
    "EstimatedFeature": "text or embedding features",
}


def from_catboost(
    model: Any, *, pool: Any = None, max_bytes: int | None = None
) -> ImportedRegressor | ImportedClassifier:
    """Import a model of CatBoost.

    Neither catboost nor anything in the file is executed to read a file, so that files may be
    opened that are not trusted.

    Parameters
    ----------
    model : str, path-like, bytes, or a fitted model of catboost
        A file that ``save_model(path, format="json")`` wrote, its bytes, or a model in memory.
        Trees of all growing policies are imported, and numbers and categories with one-hot
        splits. A file with categories must have been saved with ``pool=``, which stores their
        labels.
    pool : catboost.Pool, optional
        The training table, for the labels of categories of a model in memory.
    max_bytes : int, optional
        Maximum memory in bytes, counted as 32 times the size of the file. By default 512 MiB, or
        100 times the size of the file if that is more; use less for files that are not trusted.

    Returns
    -------
    imported : ImportedRegressor or ImportedClassifier

    Raises
    ------
    ModelFileError
        A ValueError that names the file and the place: the file is damaged or needs more memory
        than allowed, or the model holds something that cannot be imported, such as statistics of
        the target in place of categories (CTR).

    Examples
    --------
    >>> import hybridtrees
    >>> model = hybridtrees.from_catboost(
    ...     b'{"features_info": {"float_features": [{"flat_feature_index": 0, "feature_index": 0,'
    ...     b'"nan_value_treatment": "AsIs", "borders": [30]}]}, "scale_and_bias": [1, [0.5]],'
    ...     b'"oblivious_trees": [{"splits": [{"split_type": "FloatFeature", "border": 30,'
    ...     b'"float_feature_index": 0}], "leaf_values": [-1, 2], "leaf_weights": [4, 5]}]}'
    ... )
    >>> model.predict([[30.0], [30.1]])
    array([-0.5,  2.5])
    """
    classes = None
    if is_file(model):
        content, where = read_content(model, max_bytes)
    elif hasattr(model, "save_model") and hasattr(model, "tree_count_"):
        content, where = _exported(model, pool), "the model"
        known = getattr(model, "classes_", None)
        classes = None if known is None or not len(known) else np.asarray(known)
    else:
        raise TypeError(
            "from_catboost takes a file, its bytes or a fitted model of catboost, got "
            f"{type(model).__name__}"
        )
    return _read(parse_json(content, where), where, classes)


def _exported(model: Any, pool: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json", pool=pool)
        return path.read_bytes()


@guarded
def _read(document: Any, where: str, classes: Any) -> ImportedRegressor | ImportedClassifier:
    features = _Features(get(document, "features_info", dict, where), where)
    scale, bias = get(document, "scale_and_bias", list, where)
    bias = numbers(bias if isinstance(bias, list) else [bias], f"bias of {where}")
    if not np.isfinite([float(scale), *bias]).all():
        raise ModelFileError(f"scale_and_bias of {where} are not finite")
    nodes = _Nodes(features, len(bias), where)
    if "oblivious_trees" in document:
        for number, tree in enumerate(get(document, "oblivious_trees", list, where)):
            nodes.add_oblivious(tree, f"tree {number} of {where}")
    else:
        for number, tree in enumerate(get(document, "trees", list, where)):
            nodes.add_tree(tree, f"tree {number} of {where}")
    info = document.get("model_info", {})
    loss = _loss_name(info)
    if loss in _UNKNOWN_LOSS:
        raise ModelFileError(f"{where} was trained for {loss}, which cannot be imported")
    link_name, task = _LINKS.get(loss, ("identity", "regression"))
    width = len(bias)
    if classes is None and task == "classification":
        classes = _class_names(info, max(2, width), where)
    flat = nodes.joined(float(scale))
    return imported(
        assemble(flat, features.n_features, width, where),
        features.reader(),
        Link(link_name, width, task),
        bias,
        n_iter=len(flat.sizes),
        source="catboost",
        objective=loss or "unknown loss",
        classes=classes if task == "classification" else None,
    )


def _loss_name(info: Any) -> str:
    params = info.get("params", {}) if isinstance(info, dict) else {}
    if isinstance(params, str):
        params = json.loads(params)
    loss = params.get("loss_function", {}) if isinstance(params, dict) else {}
    name = loss.get("type", "") if isinstance(loss, dict) else str(loss)
    return str(name).partition(":")[0]


def _class_names(info: Any, n_classes: int, where: str) -> np.ndarray | None:
    names = info.get("class_params", {}).get("class_names") if isinstance(info, dict) else None
    if not isinstance(names, list):
        return None
    if len(names) != n_classes:
        raise ModelFileError(f"{where} has {len(names)} names for {n_classes} classes")
    if all(isinstance(name, str) for name in names):
        return np.array(names, dtype=object)
    if all(isinstance(name, int | float) for name in names):
        return np.array(names)
    raise ModelFileError(f"{where} has names of classes of an unknown kind")


class _Features:
    """The columns of a model: numbers and categories, by their position in the table."""

    def __init__(self, info: dict[str, Any], where: str) -> None:
        self.where = where
        for kind in ("text_features", "embedding_features"):
            if info.get(kind):
                raise ModelFileError(
                    f"{where} has {kind.replace('_', ' ')}, which cannot be imported"
                )
        floats = info.get("float_features") or []
        categories = info.get("categorical_features") or []
        every = [*floats, *categories]
        flat = integers([get(one, "flat_feature_index", int, where) for one in every], where)
        if (
            not every
            or len(np.unique(flat)) < len(flat)
            or flat.min() < 0
            or (flat.max() >= min(MOST_FEATURES, 1000 + 100 * len(every)))
        ):
            raise ModelFileError(f"{where} has impossible positions of features")
        self.n_features = int(flat.max()) + 1
        self.floats = {
            get(one, "feature_index", int, where): (
                int(one["flat_feature_index"]),
                _NAN[get(one, "nan_value_treatment", str, where)],
            )
            for one in floats
        }
        self.categories = {
            get(one, "feature_index", int, where): int(one["flat_feature_index"])
            for one in categories
        }
        names = {int(one["flat_feature_index"]): one.get("feature_name", "") for one in every}
        self.names = [str(names.get(j) or j) for j in range(self.n_features)]
        # Texts by the hash that splits refer to, an int32.
        self.texts: dict[int, str] = {}
        for pair in info.get("cat_features_hash") or []:
            code = get(pair, "hash", int, where) & 0xFFFFFFFF
            self.texts[code - 2**32 if code >= 2**31 else code] = get(pair, "value", str, where)
        self.codes: dict[int, dict[int, int]] = {j: {} for j in self.categories.values()}

    def code_of(self, column: int, value: int, place: str) -> int:
        """Return the code of a category, given its hash; codes are numbered as they occur."""
        known = self.codes[column]
        if value not in known:
            if value not in self.texts:
                raise ModelFileError(
                    f"{place} splits on a category whose label is not in the model: save it by "
                    "save_model(path, format='json', pool=pool), or pass pool="
                )
            known[value] = len(known)
        return known[value]

    def reader(self) -> ImportedReader:
        """Return the reader of tables."""
        n_codes = np.zeros(self.n_features, dtype=np.int64)
        labels: list[np.ndarray | None] = [None] * self.n_features
        for j, known in self.codes.items():
            n_codes[j] = len(known) + 1
            labels[j] = np.array([self.texts[value] for value in known], dtype=object)
        numbered = self.names == [str(j) for j in range(self.n_features)]
        names = None if numbered else np.array(self.names, dtype=object)
        return ImportedReader(
            self.n_features, names, labels, n_codes=n_codes, single=True, labelled=True
        )


class _Nodes:
    """Nodes of all trees, as they are read."""

    def __init__(self, features: _Features, width: int, where: str) -> None:
        self.features, self.width, self.where = features, width, where
        self.sizes: list[int] = []
        self.left: list[np.ndarray] = []
        self.right: list[np.ndarray] = []
        self.splits: list[np.ndarray] = []  # by node: position in `kinds`, -1 in a leaf
        self.values: list[np.ndarray] = []
        self.weight: list[np.ndarray] = []
        self.kinds: dict[tuple[int, float, bool], int] = {}  # of splits

    def split(self, given: Any, place: str) -> int:
        """Return the number of a split, by feature, border or code, and where NaN goes."""
        kind = get(given, "split_type", str, place)
        if kind == "FloatFeature":
            index = get(given, "float_feature_index", int, place)
            if index not in self.features.floats:
                raise ModelFileError(f"{place} splits on a feature that does not exist")
            column, above = self.features.floats[index]
            key = (column, float(get(given, "border", (int, float), place)), above)
        elif kind == "OneHotFeature":
            index = get(given, "cat_feature_index", int, place)
            if index not in self.features.categories:
                raise ModelFileError(f"{place} splits on a feature that does not exist")
            column = self.features.categories[index]
            value = get(given, "value", int, place)
            key = (column, float(self.features.code_of(column, value, place)), False)
        else:
            reason = _REFUSED_SPLITS.get(kind, f"splits of the type {shorten(kind)}")
            raise ModelFileError(f"{place} has {reason}")
        return self.kinds.setdefault(key, len(self.kinds))

    def add_oblivious(self, tree: Any, place: str) -> None:
        """Add a tree whose levels have one split each; the last split is that of the root."""
        splits = [self.split(one, place) for one in tree.get("splits") or []]
        depth = len(splits)
        values = numbers(get(tree, "leaf_values", list, place), f"'leaf_values' of {place}")
        if depth > 30 or len(values) != self.width << depth:
            raise ModelFileError(f"{place} has {len(values)} leaf values for {depth} splits")
        n_leaves = 1 << depth
        weight = tree.get("leaf_weights")
        weight = np.zeros(n_leaves) if not weight else numbers(weight, place, n_leaves)
        n_inner = n_leaves - 1
        node = np.arange(n_inner)
        leaf = np.full(n_leaves, -1)
        levels = np.repeat(np.array(splits[::-1], dtype=np.int64), 1 << np.arange(depth))
        self._add(
            np.concatenate([2 * node + 1, leaf]),
            np.concatenate([2 * node + 2, leaf]),
            np.concatenate([levels, leaf]),
            np.concatenate([np.zeros((n_inner, self.width)), values.reshape(n_leaves, -1)]),
            np.concatenate([np.zeros(n_inner), weight]),
        )

    def add_tree(self, tree: Any, place: str) -> None:
        """Add a tree of any shape, given as objects within each other."""
        left, right, splits, values, weight = [], [], [], [], []
        queue = [tree]
        for node in queue:  # grows on the way
            if "split" in node:
                left.append(len(queue))
                right.append(len(queue) + 1)
                splits.append(self.split(node["split"], place))
                queue += [get(node, "left", dict, place), get(node, "right", dict, place)]
                values.append(np.zeros(self.width))
                weight.append(0.0)
                continue
            value = get(node, "value", (list, int, float), place)
            value = value if isinstance(value, list) else [value]
            left.append(-1)
            right.append(-1)
            splits.append(-1)
            values.append(numbers(value, f"'value' of {place}", self.width))
            weight.append(float(node.get("weight", 0.0)))
        self._add(*(np.array(part) for part in (left, right, splits, values, weight)))

    def _add(self, *parts: np.ndarray) -> None:
        lists = (self.left, self.right, self.splits, self.values, self.weight)
        for known, part in zip(lists, parts, strict=True):
            known.append(part)
        self.sizes.append(len(parts[0]))

    def joined(self, scale: float) -> ForeignTrees:
        """Return all trees. Borders are float32: numbers above go right, and one category."""
        if not self.sizes:
            raise ModelFileError(f"{self.where} has no trees")
        left, splits = np.concatenate(self.left), np.concatenate(self.splits)
        kinds = np.array(list(self.kinds) or np.zeros((0, 3)), dtype=np.float64)
        feature = np.full(len(left), -1, dtype=np.int64)
        inner = left >= 0
        feature[inner] = kinds[splits[inner], 0]
        threshold, missing = np.zeros(len(left)), np.zeros(len(left), dtype=bool)
        with np.errstate(over="ignore"):
            border = up_to_single(kinds[:, 1])
        threshold[inner] = np.where(np.isnan(kinds[:, 1]), np.nan, border)[splits[inner]]
        missing[inner] = kinds[splits[inner], 2] == 0
        reader = self.features.reader()
        by_set = np.flatnonzero(inner & reader.is_categorical[feature])
        sets = None
        if len(by_set):
            codes = kinds[splits[by_set], 1].astype(np.int64)
            threshold[by_set] = 0.0
            start = np.arange(len(by_set) + 1)
            sets = CategorySplits(by_set, start, codes, False, reader.n_codes)
        weight = np.concatenate(self.weight)
        weight = _sum_upwards(self.sizes, left, np.concatenate(self.right), weight)
        return ForeignTrees(
            sizes=np.array(self.sizes, dtype=np.int64),
            left=left,
            right=np.concatenate(self.right),
            feature=feature,
            threshold=threshold,
            missing_left=missing,
            values=np.concatenate(self.values) * scale,
            weight=weight,
            categories=sets,
            tree_output=np.zeros(len(self.sizes), dtype=np.int32),
        )


def _sum_upwards(
    sizes: list[int], left: np.ndarray, right: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return the covers of all nodes: sums of those of the leaves, whose parents come before."""
    total = weight.tolist()
    first, second = left.tolist(), right.tolist()
    end = len(total)
    for size in reversed(sizes):
        start = end - size
        for node in range(end - 1, start - 1, -1):
            if first[node] >= 0:
                total[node] = total[start + first[node]] + total[start + second[node]]
        end = start
    return np.array(total)
