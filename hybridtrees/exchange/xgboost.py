"""Models of XGBoost: a Booster, an estimator, or a JSON or UBJSON file.

The layout is that of XGBoost's own JSON schema (its page "Introduction to Model IO").
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hybridtrees._archive import ModelFileError
from hybridtrees.exchange.assembly import MOST_CODES, CategorySplits, ForeignTrees, assemble
from hybridtrees.exchange.files import (
    get,
    guarded,
    integers,
    is_file,
    numbers,
    parse_json,
    parse_ubjson,
    read_content,
    strings,
)
from hybridtrees.exchange.links import Link
from hybridtrees.exchange.models import ImportedClassifier, ImportedRegressor, imported
from hybridtrees.exchange.reader import ImportedReader
from hybridtrees.exchange.thresholds import below_single

# Link and task of every objective.
_OBJECTIVES = {
    "reg:logistic": ("logistic", "regression"),
    "binary:logistic": ("logistic", "classification"),
    "binary:logitraw": ("logistic", "classification"),
    "binary:hinge": ("side", "classification"),
    "multi:softprob": ("softmax", "classification"),
    "multi:softmax": ("softmax", "classification"),
    **dict.fromkeys(
        ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"),
        ("exp", "regression"),
    ),
    **dict.fromkeys(
        ("reg:squarederror", "reg:linear", "reg:squaredlogerror", "reg:pseudohubererror",
         "reg:absoluteerror", "reg:quantileerror", "reg:expectileerror", "rank:pairwise",
         "rank:ndcg", "rank:map"),
        ("identity", "regression"),
    ),
}  # fmt: skip
# From a base score, which is a prediction, to a raw score.
_TO_RAW: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "logistic": lambda p: -np.log(1 / p - 1),
    "exp": np.log,
}


def from_xgboost(
    model: Any, *, best_iteration: bool | None = None, max_bytes: int | None = None
) -> ImportedRegressor | ImportedClassifier:
    """Import a model of XGBoost.

    Neither xgboost nor anything in the file is executed to read a file, so that files may be opened
    that are not trusted.

    Parameters
    ----------
    model : str, path-like, bytes, xgboost.Booster or an estimator of xgboost
        A file in JSON or UBJSON, its bytes, or a fitted model in memory. Files of the binary
        format that xgboost 3.1 gave up are refused: save them again as JSON.
    best_iteration : bool, optional
        Whether to leave out the rounds after the best one. By default as xgboost predicts: True
        for an estimator that was stopped early, False for a Booster or a file.
    max_bytes : int, optional
        Maximum memory in bytes, counted as 32 times the size of the file. By default 512 MiB, or
        100 times the size of the file if that is more; use less for files that are not trusted.

    Returns
    -------
    imported : ImportedRegressor or ImportedClassifier
        A regressor where the objective is a function of the user's own.

    Raises
    ------
    ModelFileError
        A ValueError that names the file and the place: the file is damaged or needs more memory
        than allowed, or the model holds something that cannot be imported, such as gblinear.

    Examples
    --------
    >>> import hybridtrees
    >>> model = hybridtrees.from_xgboost(
    ...     b'{"learner": {"feature_names": ["age"], "feature_types": ["float"], "attributes": {},'
    ...     b'"gradient_booster": {"name": "gbtree", "model": {"gbtree_model_param": {"num_trees":'
    ...     b'"1", "num_parallel_tree": "1"}, "tree_info": [0], "trees": [{"tree_param": {'
    ...     b'"num_nodes": "3", "size_leaf_vector": "1"}, "left_children": [1, -1, -1],'
    ...     b'"right_children": [2, -1, -1], "split_indices": [0, 0, 0], "split_conditions":'
    ...     b'[30.0, -1.0, 2.0], "default_left": [1, 0, 0], "sum_hessian": [9.0, 4.0, 5.0],'
    ...     b'"loss_changes": [7.0, 0.0, 0.0]}]}}, "learner_model_param": {"base_score": "5E-1",'
    ...     b'"num_class": "0", "num_feature": "1", "num_target": "1"}, "objective": {"name":'
    ...     b'"reg:squarederror"}}, "version": [2, 1, 0]}'
    ... )
    >>> model.predict([[29.9], [30.0]])
    array([-0.5,  2.5])
    """
    opened = open_model(model, max_bytes)
    return read_model(opened, opened.to_best if best_iteration is None else bool(best_iteration))


class Opened(NamedTuple):
    """A model of XGBoost that is parsed, but not checked."""

    document: Any
    where: str  # what to call it in messages
    missing: float
    classes: Any  # labels, if an estimator told them
    to_best: bool  # whether it predicts with the rounds up to the best


def open_model(model: Any, max_bytes: int | None = None) -> Opened:
    """Parse a file, its bytes, a Booster or an estimator of XGBoost."""
    missing, classes, to_best = math.nan, None, False
    if hasattr(model, "get_booster"):
        missing = float(getattr(model, "missing", math.nan))
        classes = getattr(model, "classes_", None)
        model = model.get_booster()
        to_best = model.attributes().get("best_iteration") is not None
    if hasattr(model, "save_raw"):
        content, where = bytes(model.save_raw("ubj")), "the Booster"
    elif is_file(model):
        content, where = read_content(model, max_bytes)
    else:
        raise TypeError(
            "from_xgboost takes a file, its bytes, a Booster or an estimator of xgboost, got "
            f"{type(model).__name__}"
        )
    return Opened(_parse(content, where), where, missing, classes, to_best)


def read_model(opened: Opened, to_best: bool) -> ImportedRegressor | ImportedClassifier:
    """Return an opened model as an estimator."""
    return _read(opened.document, opened.where, to_best, opened.missing, opened.classes)


def _parse(content: bytes, where: str) -> Any:
    """Return the value of a file in either format."""
    start = content[:64].lstrip()[:2]
    if content[:4] == b"binf" or not start.startswith(b"{"):
        raise ModelFileError(
            f"{where} is not a JSON or UBJSON model of xgboost: if it is a model in the binary "
            "format of old versions, or a pickle, load it there and call save_model('model.json')"
        )
    if start[1:] in (b'"', b"}", b" ", b"\n", b"\r", b"\t", b""):
        return parse_json(content, where)
    return parse_ubjson(content, where)


@guarded
def _read(
    document: Any, where: str, to_best: bool, missing: float, classes: Any
) -> ImportedRegressor | ImportedClassifier:
    learner = get(document, "learner", dict, where)
    booster = get(learner, "gradient_booster", dict, where)
    kind = get(booster, "name", str, where)
    drop: Any = ()
    if kind == "dart":
        drop = get(booster, "weight_drop", (list, np.ndarray), where)
        booster = get(booster, "gbtree", dict, where)
    elif kind != "gbtree":
        raise ModelFileError(
            f"{where} is a model of the booster {kind!r}, which has no trees: gbtree and dart can "
            "be imported"
        )
    model = get(booster, "model", dict, where)
    trees = get(model, "trees", list, where)
    parameters = get(learner, "learner_model_param", dict, where)
    n_features = _count(parameters, "num_feature", where)
    if not trees:
        raise ModelFileError(f"{where} has no trees")
    info = integers(
        get(model, "tree_info", (list, np.ndarray), where), f"tree_info of {where}", len(trees)
    )
    n_trees, n_iter = _rounds(model, learner, info, to_best, where)
    objective = get(get(learner, "objective", dict, where), "name", str, where)
    link_name, task = _OBJECTIVES.get(objective, ("identity", "regression"))
    n_classes = _count(parameters, "num_class", where)
    n_targets = _count(parameters, "num_target", where) if "num_target" in parameters else 1
    flat = _flatten(trees[:n_trees], where)
    # Since 3.4 the weights of dropped trees are part of every model of trees.
    drop = drop if len(drop) else model.get("weight_drop", ())
    if len(drop):
        factor = numbers(drop, f"weight_drop of {where}", len(trees)).astype(np.float32)
        flat.values *= np.repeat(factor[:n_trees].astype(np.float64), flat.sizes)[:, None]
    n_outputs = max(1, n_classes, n_targets, int(info.max()) + 1, flat.values.shape[1])
    if n_outputs > max(len(trees), flat.values.shape[1], 2):
        raise ModelFileError(f"{where} has {len(trees)} trees for {n_outputs} outputs")
    flat.tree_output = info[:n_trees]
    reader = _reader(learner, model, n_features, missing, where)
    flat.categories = _category_splits(trees[:n_trees], flat, reader, where)
    # The base score of binary:logitraw is a raw score like its predictions.
    scale = "identity" if objective == "binary:logitraw" else link_name
    base = _base_raw(parameters, scale, n_outputs, where)
    if task == "classification" and link_name == "logistic" and n_outputs > 1:
        link_name, task = "logistic", "regression"  # several labels of a row
    version = [int(v) for v in list(document.get("version", []))[:3]]
    if objective == "reg:quantileerror" and n_outputs > 1 and version >= [3, 4]:
        link_name = "ascending"  # since 3.4 predictions do not cross, and levels ascend
    return imported(
        assemble(flat, n_features, n_outputs, where),
        reader,
        Link(link_name, n_outputs, task),
        base,
        n_iter=n_iter,
        source="xgboost " + ".".join(map(str, version)),
        objective=objective,
        classes=classes,
    )


def _count(box: dict[str, Any], key: str, where: str) -> int:
    """Return a number, which XGBoost writes as text."""
    value = int(get(box, key, (str, int), where))
    if not 0 <= value < 2**31:
        raise ModelFileError(f"{key!r} of {where} is {value}")
    return value


def _rounds(
    model: dict[str, Any], learner: dict[str, Any], info: np.ndarray, to_best: bool, where: str
) -> tuple[int, int]:
    """Return the number of trees to import, and of rounds."""
    n_trees = len(info)
    parameters = get(model, "gbtree_model_param", dict, where)
    bounds = model.get("iteration_indptr")
    if bounds is None or not len(bounds):
        parallel = max(1, int(parameters.get("num_parallel_tree", 1)))
        width = parallel * (int(info.max()) + 1)
        bounds = np.arange(0, n_trees + width, width)
    bounds = integers(bounds, f"iteration_indptr of {where}")
    if bounds[0] != 0 or np.any(np.diff(bounds) < 0) or bounds[-1] < n_trees:
        raise ModelFileError(f"iteration_indptr of {where} does not cover the trees")
    n_iter = len(bounds) - 1
    best = learner.get("attributes", {}).get("best_iteration")
    if to_best and best is not None:
        n_iter = min(n_iter, int(best) + 1)
    if n_iter < 1:
        raise ModelFileError(f"{where} has no rounds")
    return min(n_trees, int(bounds[n_iter])), min(n_iter, n_trees)


def _flatten(trees: list[Any], where: str) -> ForeignTrees:
    """Return the nodes of all trees."""
    parts: dict[str, list[np.ndarray]] = {
        key: [] for key in ("left", "right", "feature", "condition", "default", "cover", "gain")
    }
    names = dict(
        left="left_children", right="right_children", feature="split_indices",
        condition="split_conditions", default="default_left", cover="sum_hessian",
        gain="loss_changes",
    )  # fmt: skip
    values, sizes = [], []
    for number, tree in enumerate(trees):
        place = f"tree {number} of {where}"
        n_nodes = len(get(tree, "left_children", (list, np.ndarray), place))
        sizes.append(n_nodes)
        for key, name in names.items():
            read = numbers if key in ("condition", "cover", "gain") else integers
            given = get(tree, name, (list, np.ndarray), place)
            parts[key].append(read(given, f"{name!r} of {place}", n_nodes))
        values.append(_leaf_values(tree, parts, n_nodes, place))
    if len({part.shape[1] for part in values}) > 1:
        raise ModelFileError(f"{where} has trees with and without vectors in their leaves")
    joined = {key: np.concatenate(part) for key, part in parts.items()}
    leaf = joined["left"] < 0
    condition = np.where(leaf, 0.0, joined["condition"])
    with np.errstate(over="ignore"):
        threshold = np.where(np.isnan(condition), np.nan, below_single(condition))
    return ForeignTrees(
        sizes=np.array(sizes, dtype=np.int64),
        left=joined["left"],
        right=joined["right"],
        feature=joined["feature"],
        threshold=threshold,
        missing_left=joined["default"] != 0,
        values=np.concatenate(values),
        weight=_single(joined["cover"]),
        gain=_single(joined["gain"]),
    )


def _single(values: np.ndarray) -> np.ndarray:
    """Round numbers that JSON has with few digits to the float32 that they stand for."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


def _leaf_values(
    tree: dict[str, Any], parts: dict[str, list[np.ndarray]], n_nodes: int, place: str
) -> np.ndarray:
    """Return the values of a tree's nodes, of which those of leaves matter."""
    width = _count(get(tree, "tree_param", dict, place), "size_leaf_vector", place)
    if width <= 1:
        return _single(parts["condition"][-1])[:, None]
    if "leaf_weights" not in tree:
        raise ModelFileError(
            f"{place} has vectors in its leaves as xgboost 2 stored them: load it with xgboost 3 "
            "and save it again"
        )
    weights = _single(numbers(tree["leaf_weights"], f"'leaf_weights' of {place}"))
    leaf, row = parts["left"][-1] < 0, parts["right"][-1]
    if len(weights) % width or np.any(leaf & ((row < 0) | (row >= len(weights) // width))):
        raise ModelFileError(f"'leaf_weights' of {place} do not fit its leaves")
    values = np.zeros((n_nodes, width))
    values[leaf] = weights.reshape(-1, width)[row[leaf]]
    return values


def _reader(
    learner: dict[str, Any], model: dict[str, Any], n_features: int, missing: float, where: str
) -> ImportedReader:
    names = learner.get("feature_names") or None
    if names is not None and len(strings(names, f"feature_names of {where}")) != n_features:
        raise ModelFileError(f"{where} has {len(names)} names for {n_features} features")
    kinds = strings(learner.get("feature_types") or [], f"feature_types of {where}")
    if len(kinds) not in (0, n_features):
        raise ModelFileError(f"{where} has {len(kinds)} types for {n_features} features")
    labels = _labels(model.get("cats"), n_features, where)
    n_codes = np.zeros(n_features, dtype=np.int64)
    for j, kind in enumerate(kinds):
        if kind == "c":
            known = labels[j]
            n_codes[j] = 1 if known is None else len(known) + 1
    return ImportedReader(
        n_features,
        None if names is None else np.array(names, dtype=object),
        labels,
        missing,
        n_codes=n_codes,
        single=True,
        sparse_missing=True,
    )


def _labels(cats: Any, n_features: int, where: str) -> list[np.ndarray | None]:
    """Return the labels of categories, which xgboost keeps since 3.1."""
    labels: list[np.ndarray | None] = [None] * n_features
    encoded = cats.get("enc", []) if isinstance(cats, dict) else []
    if len(encoded) not in (0, n_features):
        raise ModelFileError(f"{where} has {len(encoded)} lists of categories")
    for j, one in enumerate(encoded):
        if "offsets" in one:
            offsets = integers(one["offsets"], f"offsets of categories of {where}")
            text = integers(one["values"], f"text of categories of {where}")
            if not len(offsets):
                continue
            # Characters are signed bytes.
            joined = (text & 0xFF).astype(np.uint8).tobytes()
            if offsets[0] != 0 or np.any(np.diff(offsets) < 0) or offsets[-1] != len(joined):
                raise ModelFileError(f"the categories of feature {j} of {where} do not fit")
            ends = offsets.tolist()
            pairs = zip(ends[:-1], ends[1:], strict=True)
            # XGBoost cuts text beyond ASCII at wrong places: such labels are lost, and a data
            # frame is read by the codes of its own categories.
            if joined.isascii():
                texts = [joined[a:b].decode("ascii") for a, b in pairs]
                labels[j] = np.array(texts, dtype=object)
        elif len(one.get("values", [])):
            labels[j] = numbers(one["values"], f"values of categories of {where}")
    return labels


def _category_splits(
    trees: list[Any], flat: ForeignTrees, reader: ImportedReader, where: str
) -> CategorySplits | None:
    """Return the splits on categories; the codes that are listed go right."""
    origin = np.cumsum(flat.sizes) - flat.sizes
    nodes, codes = [], []
    for number, tree in enumerate(trees):
        place = f"tree {number} of {where}"
        types = tree.get("split_type")
        if types is None:
            continue
        marked = integers(types, f"'split_type' of {place}", int(flat.sizes[number])) != 0
        own = integers(tree.get("categories_nodes", []), f"'categories_nodes' of {place}")
        first = integers(tree.get("categories_segments", []), f"segments of {place}", len(own))
        size = integers(tree.get("categories_sizes", []), f"sizes of {place}", len(own))
        listed = integers(tree.get("categories", []), f"'categories' of {place}")
        if np.any((own < 0) | (own >= flat.sizes[number])) or len(np.unique(own)) < len(own):
            raise ModelFileError(f"{place} has categories of a node that does not exist")
        end = first + size
        if np.any((first < 0) | (size < 0) | (end > len(listed))) or size.sum() > len(listed):
            raise ModelFileError(f"{place} has categories beyond the end of their list")
        if np.any((listed < 0) | (listed >= MOST_CODES - 1)):
            raise ModelFileError(f"{place} has a category that is not from 0 to {MOST_CODES - 2}")
        inner = flat.left[origin[number] : origin[number] + flat.sizes[number]] >= 0
        if not np.array_equal(np.sort(own), np.flatnonzero(marked & inner)):
            raise ModelFileError(f"{place} has splits on categories without categories")
        for node, a, b in zip(own.tolist(), first.tolist(), end.tolist(), strict=True):
            nodes.append(int(origin[number]) + node)
            codes.append(np.unique(listed[a:b]))
    if not nodes:
        return None
    node = np.array(nodes)
    flat.threshold[node] = 0.0
    start = np.concatenate([[0], np.cumsum([len(c) for c in codes])])
    joined = np.concatenate(codes)
    # One more code than any set holds, for all others.
    feature = np.repeat(flat.feature[node], np.diff(start))
    if np.any((flat.feature[node] < 0) | (flat.feature[node] >= reader.n_features_in)):
        raise ModelFileError(f"{where} splits on a feature that does not exist")
    np.maximum.at(reader.n_codes, feature, joined + 2)
    np.maximum.at(reader.n_codes, flat.feature[node], 1)
    numeric = np.ones(len(flat.left), dtype=bool)
    numeric[node] = False
    numeric &= flat.left >= 0
    if np.any(reader.n_codes[np.clip(flat.feature[numeric], 0, reader.n_features_in - 1)] > 0):
        raise ModelFileError(f"{where} splits a feature both as a number and by categories")
    return CategorySplits(node, start, joined, False, reader.n_codes)


def _base_raw(parameters: dict[str, Any], link_name: str, n_outputs: int, where: str) -> np.ndarray:
    """Return the raw scores before the first tree, of a base score in any version's form."""
    given: Any = get(parameters, "base_score", (str, int, float), where)
    if isinstance(given, str):
        given = json.loads(given)
    values = numbers(given if isinstance(given, list) else [given], f"base_score of {where}")
    base = values.astype(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        raw = np.asarray(_TO_RAW.get(link_name, np.positive)(base))
    if len(raw) not in (1, n_outputs) or not np.isfinite(raw).all():
        raise ModelFileError(f"base_score of {where} is {given}")
    return np.resize(raw, n_outputs)
