"""Models of LightGBM: a Booster, an estimator, or a text file.

The layout is that of the text that ``Booster.save_model`` writes, versions v2 to v4.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from hybridtrees._archive import ModelFileError
from hybridtrees.exchange.assembly import (
    MOST_CODES,
    MOST_FEATURES,
    CategorySplits,
    ForeignTrees,
    assemble,
)
from hybridtrees.exchange.files import guarded, is_file, read_content
from hybridtrees.exchange.linear_missing import LinearLeaves, without_missing
from hybridtrees.exchange.links import Link
from hybridtrees.exchange.models import ImportedClassifier, ImportedRegressor, imported
from hybridtrees.exchange.reader import ImportedReader
from hybridtrees.input.arrays import shorten

# Bits of a decision type: the split is by categories, missing values go left; then what is missing.
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_MISSING_ZERO, _MISSING_NAN = 1, 2
# LightGBM reads numbers of at most this size as zero.
_ZERO = float(np.float32(1e-35))

_LINKS = {
    "binary": ("logistic", "classification"),
    "multiclass": ("softmax", "classification"),
    "multiclassova": ("one_against_rest", "classification"),
    "cross_entropy": ("logistic", "regression"),
    "cross_entropy_lambda": ("softplus", "regression"),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), ("exp", "regression")),
}


def from_lightgbm(
    model: Any, *, max_bytes: int | None = None
) -> ImportedRegressor | ImportedClassifier:
    """Import a model of LightGBM, linear trees included.

    Neither lightgbm nor anything in the file is executed to read a file, so that files may be
    opened that are not trusted.

    Parameters
    ----------
    model : str, path-like, bytes, lightgbm.Booster or an estimator of lightgbm
        A text file that ``Booster.save_model`` wrote, its bytes, or a fitted model in memory, of
        which the rounds up to the best are imported, as it predicts.
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
        than allowed, or the model holds something that cannot be imported.

    Examples
    --------
    >>> import hybridtrees
    >>> text = b'''tree
    ... version=v4
    ... num_class=1
    ... num_tree_per_iteration=1
    ... max_feature_idx=0
    ... objective=regression
    ... feature_names=age
    ... feature_infos=[0:99]
    ...
    ... Tree=0
    ... num_leaves=2
    ... num_cat=0
    ... split_feature=0
    ... threshold=30
    ... decision_type=2
    ... left_child=-1
    ... right_child=-2
    ... leaf_value=-1 2
    ...
    ... end of trees
    ... '''
    >>> model = hybridtrees.from_lightgbm(text)
    >>> model.predict([[30.0], [30.1]])
    array([-1.,  2.])
    """
    classes = getattr(model, "classes_", None) if hasattr(model, "booster_") else None
    booster = getattr(model, "booster_", model)
    if hasattr(booster, "model_to_string"):
        content, where = booster.model_to_string().encode(), "the Booster"
    elif is_file(booster):
        content, where = read_content(booster, max_bytes)
    else:
        raise TypeError(
            "from_lightgbm takes a file, its bytes, a Booster or an estimator of lightgbm, got "
            f"{type(model).__name__}"
        )
    return _read(content, where, classes)


@guarded
def _read(content: bytes, where: str, classes: Any) -> ImportedRegressor | ImportedClassifier:
    head, blocks, labels = _split(content, where)
    n_features = int(_entry(head, "max_feature_idx", where)) + 1
    if not 1 <= n_features <= min(MOST_FEATURES, len(content)):
        raise ModelFileError(f"{where} has {n_features} features")
    width = int(head.get("num_tree_per_iteration", head.get("num_class", "1")))
    if not 1 <= width <= len(blocks) or len(blocks) % width:
        raise ModelFileError(f"{where} has {len(blocks)} trees for {width} scores of a row")
    n_iter = len(blocks) // width
    trees = _Trees(blocks, where)
    reader = _reader(head, labels, trees, n_features, where)
    flat, linear = _flatten(trees, reader, where)
    if "average_output" in head:
        flat.values /= n_iter
        if linear is not None:
            linear.scale(1 / n_iter)
    if linear is not None:
        flat = without_missing(flat, linear, where)
    flat.tree_output = np.arange(len(blocks), dtype=np.int32) % width
    objective, link = _link(head.get("objective", ""), width, where)
    version = head.get("version", "")
    return imported(
        assemble(flat, n_features, width, where),
        reader,
        link,
        np.zeros(width),
        n_iter=n_iter,
        source=f"lightgbm, model format {version}",
        objective=objective,
        classes=classes,
    )


def _split(content: bytes, where: str) -> tuple[dict[str, str], list[dict[str, str]], str | None]:
    """Return the entries of the head and of each tree, and the categories of pandas."""
    text = content.decode("utf-8")
    if not text.startswith("tree") or "\nTree=" not in text:
        raise ModelFileError(
            f"{where} is not a text model of lightgbm with trees, as Booster.save_model writes it"
        )
    body, _, tail = text.partition("\nend of trees")
    head, *blocks = body.split("\nTree=")
    labels = None
    for line in tail.splitlines():
        if line.startswith("pandas_categorical:"):
            labels = line.partition(":")[2]
    parsed = [_entries(block) for block in blocks]
    return _entries(head), parsed, labels


def _entries(block: str) -> dict[str, str]:
    """Return the lines ``key=value`` of a block, and keys without a value."""
    return {key: value for key, _, value in (line.partition("=") for line in block.split("\n"))}


def _entry(box: dict[str, str], key: str, where: str) -> str:
    if key not in box:
        raise ModelFileError(f"{where} has no {key!r}")
    return box[key]


class _Trees:
    """The entries of all trees; lists are joined, with their lengths checked."""

    def __init__(self, blocks: list[dict[str, str]], where: str) -> None:
        self.blocks, self.where = blocks, where
        self.n_leaves = np.array([int(_entry(b, "num_leaves", where)) for b in blocks])
        # The number that a tree declares is checked before memory is taken for its nodes.
        listed = [len(_entry(b, "leaf_value", where).split()) for b in blocks]
        if np.any(self.n_leaves < 1) or np.any(self.n_leaves != listed):
            raise ModelFileError(f"{where} has a tree of unequal numbers of leaves and leaf_value")
        self.n_inner = self.n_leaves - 1

    def joined(self, key: str, lengths: np.ndarray, kind: type, default: Any = None) -> np.ndarray:
        """Return the lists of all trees under a key, with a default where a tree has none."""
        items: list[Any] = []
        for number, (block, n) in enumerate(zip(self.blocks, lengths.tolist(), strict=True)):
            text = block.get(key)
            if n and text is None:
                if default is None:
                    raise ModelFileError(f"tree {number} of {self.where} has no {key!r}")
                items += [default] * n if n <= 2**24 else []
                continue
            own = text.split() if text else []
            if len(own) < n or (n and len(own) > n):
                raise ModelFileError(
                    f"tree {number} of {self.where} has {len(own)} numbers of {key!r} for {n}"
                )
            items += map(kind, own[:n])
        return np.array(items, dtype=np.float64 if kind is float else np.int64)


def _link(objective: str, width: int, where: str) -> tuple[str, Link]:
    """Return the name of the objective and the link, from a line like "binary sigmoid:1"."""
    name, *options = objective.split() or ["custom"]
    link_name, task = _LINKS.get(name, ("identity", "regression"))
    factor = 1.0
    if link_name == "identity" and "sqrt" in options:
        link_name = "signed_square"
    if name in ("binary", "multiclassova"):
        for option in options:
            if option.startswith("sigmoid:"):
                factor = float(option.partition(":")[2])
        if not 0 < factor < np.inf:
            raise ModelFileError(f"{where} has the objective {shorten(objective)}")
    return name, Link(link_name, width, task, factor)


def _reader(
    head: dict[str, str], labels_text: str | None, trees: _Trees, n_features: int, where: str
) -> ImportedReader:
    names = head.get("feature_names", "").split()
    if len(names) not in (0, n_features):
        raise ModelFileError(f"{where} has {len(names)} names for {n_features} features")
    numbered = names == [f"Column_{j}" for j in range(len(names))]
    n_codes = np.zeros(n_features, dtype=np.int64)
    infos = head.get("feature_infos", "").split()
    if len(infos) not in (0, n_features):
        raise ModelFileError(f"{where} has {len(infos)} feature_infos for {n_features} features")
    for j, info in enumerate(infos):
        if info != "none" and not info.startswith("["):
            n_codes[j] = 1
    labels: list[np.ndarray | None] = [None] * n_features
    known = json.loads(labels_text) if labels_text and labels_text != "null" else []
    columns = np.flatnonzero(n_codes)
    if known and len(known) == len(columns):
        for j, one in zip(columns.tolist(), known, strict=True):
            labels[j] = _label_array(one, where)
            n_codes[j] = len(one) + 1
    return ImportedReader(
        n_features,
        None if numbered or not names else np.array(names, dtype=object),
        labels,
        n_codes=n_codes,
    )


def _label_array(labels: Any, where: str) -> np.ndarray:
    if not isinstance(labels, list):
        raise ModelFileError(f"pandas_categorical of {where} is not a list of lists")
    if labels and all(type(label) in (int, float) for label in labels):
        return np.array(labels, dtype=np.float64)
    return np.array([str(label) for label in labels], dtype=object)


def _flatten(
    trees: _Trees, reader: ImportedReader, where: str
) -> tuple[ForeignTrees, LinearLeaves | None]:
    """Return the nodes of all trees, those with splits before the leaves, and linear leaves."""
    n_inner, n_leaves = trees.n_inner, trees.n_leaves
    sizes = n_inner + n_leaves
    origin = np.cumsum(sizes) - sizes
    inner = _places(origin, n_inner)
    leaf = _places(origin + n_inner, n_leaves)
    n_nodes = int(sizes.sum())
    kinds = trees.joined("decision_type", n_inner, int, 0)
    feature = np.full(n_nodes, -1, dtype=np.int64)
    feature[inner] = trees.joined("split_feature", n_inner, int)
    if np.any((feature[inner] < 0) | (feature[inner] >= reader.n_features_in)):
        raise ModelFileError(f"{where} splits on a feature that does not exist")
    threshold = np.zeros(n_nodes)
    threshold[inner] = trees.joined("threshold", n_inner, float)
    children = [np.full(n_nodes, -1, dtype=np.int64) for _ in range(2)]
    for child, key in zip(children, ("left_child", "right_child"), strict=True):
        given = trees.joined(key, n_inner, int)
        shift = np.repeat(n_inner, n_inner)
        child[inner] = np.where(given >= 0, given, shift + ~given)
        wrong = np.where(given >= 0, given >= shift, ~given >= shift + 1)
        if wrong.any():
            raise ModelFileError(f"{where} has a child that does not exist")
    values, weight, gain = np.zeros(n_nodes), np.zeros(n_nodes), np.zeros(n_nodes)
    values[leaf] = trees.joined("leaf_value", n_leaves, float)
    weight[inner] = trees.joined("internal_count", n_inner, float, 0.0)
    weight[leaf] = trees.joined("leaf_count", n_leaves, float, 0.0)
    gain[inner] = np.nan_to_num(trees.joined("split_gain", n_inner, float, 0.0))
    flat = ForeignTrees(
        sizes=sizes,
        left=children[0],
        right=children[1],
        feature=feature,
        threshold=threshold,
        missing_left=np.zeros(n_nodes, dtype=bool),
        values=values[:, None],
        weight=weight,
        gain=gain,
        n_samples=np.clip(np.nan_to_num(weight), 0, 2.0**40).astype(np.int64),
    )
    by_set = (kinds & _CATEGORICAL) != 0
    flat.categories = _category_splits(trees, flat, inner[by_set], np.repeat(
        np.arange(len(sizes)), n_inner)[by_set], reader, where)  # fmt: skip
    _send_missing(flat, inner[~by_set], kinds[~by_set], reader, where)
    return flat, _linear_leaves(trees, leaf, flat, reader, where)


def _places(origin: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return origin, origin + 1, ... for each tree, one after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(origin - before, counts) + np.arange(int(counts.sum()))


def _send_missing(
    flat: ForeignTrees, node: np.ndarray, kinds: np.ndarray, reader: ImportedReader, where: str
) -> None:
    """Write where missing values go, and mark the features in which zero is missing.

    Where NaN is not missing, LightGBM takes it for zero.
    """
    feature, threshold = flat.feature[node], flat.threshold[node]
    by_default = (kinds & _DEFAULT_LEFT) != 0
    as_zero = threshold >= 0
    missing = (kinds >> 2) & 3
    # All of them go the way of zero.
    tiny = np.abs(threshold) <= _ZERO
    edge = np.where(as_zero, _ZERO, np.nextafter(-_ZERO, -np.inf))
    flat.threshold[node] = np.where(tiny, edge, threshold)
    if np.any(missing > _MISSING_NAN):
        raise ModelFileError(f"{where} has a split of an unknown decision_type")
    flat.missing_left[node] = np.where(missing == 0, as_zero, by_default)
    zero = np.zeros(reader.n_features_in, dtype=bool)
    zero[feature[missing == _MISSING_ZERO]] = True
    # Rows with a zero are read as missing, so every other split must send both the same way.
    other = zero[feature] & (missing != _MISSING_ZERO)
    if np.any(other & (flat.missing_left[node] != as_zero)):
        raise ModelFileError(
            f"{where} takes zeros of a feature for missing in some trees and not in others"
        )
    if zero.any():
        reader.zero_missing = zero


def _category_splits(
    trees: _Trees,
    flat: ForeignTrees,
    node: np.ndarray,
    tree: np.ndarray,
    reader: ImportedReader,
    where: str,
) -> CategorySplits | None:
    """Return the splits on categories; the codes whose bit is set go left."""
    if not len(node):
        return None
    sets: dict[int, tuple[list[int], list[int]]] = {}
    codes = []
    for at, number in zip(node.tolist(), tree.tolist(), strict=True):
        if number not in sets:
            block = trees.blocks[number]
            place = f"tree {number} of {where}"
            bounds = [int(v) for v in _entry(block, "cat_boundaries", place).split()]
            words = [int(v) for v in _entry(block, "cat_threshold", place).split()]
            sets[number] = bounds, words
        bounds, words = sets[number]
        index = flat.threshold[at]
        if not (0 <= index < len(bounds) - 1) or index != int(index):
            raise ModelFileError(f"tree {number} of {where} has no category set {index}")
        first, last = bounds[int(index)], bounds[int(index) + 1]
        if not 0 <= first <= last <= len(words) or 32 * (last - first) >= MOST_CODES:
            raise ModelFileError(f"tree {number} of {where} has a category set out of range")
        if not all(0 <= word < 2**32 for word in words[first:last]):
            raise ModelFileError(f"tree {number} of {where} has a category set of other numbers")
        bits = np.array(words[first:last], dtype="<u4").view(np.uint8)
        codes.append(np.flatnonzero(np.unpackbits(bits, bitorder="little")))
    start = np.concatenate([[0], np.cumsum([len(c) for c in codes])])
    joined = np.concatenate(codes)
    flat.threshold[node] = 0.0
    feature = flat.feature[node]
    np.maximum.at(reader.n_codes, feature, 1)
    np.maximum.at(reader.n_codes, np.repeat(feature, np.diff(start)), joined + 2)
    numeric = np.setdiff1d(np.flatnonzero(flat.left >= 0), node)
    if np.any(reader.n_codes[flat.feature[numeric]] > 0):
        raise ModelFileError(f"{where} splits a feature both as a number and by categories")
    return CategorySplits(node, start, joined, True, reader.n_codes)


def _linear_leaves(
    trees: _Trees, leaf: np.ndarray, flat: ForeignTrees, reader: ImportedReader, where: str
) -> LinearLeaves | None:
    """Return the lines of leaves, of trees that have them."""
    linear = np.array([int(block.get("is_linear", "0") or 0) for block in trees.blocks]) != 0
    if not linear.any():
        return None
    n_leaves = np.where(linear, trees.n_leaves, 0)
    constant = trees.joined("leaf_const", n_leaves, float)
    counts = trees.joined("num_features", n_leaves, int)
    if np.any(counts < 0) or not np.isfinite(constant).all():
        raise ModelFileError(f"{where} has linear leaves of other numbers")
    owner = np.repeat(np.arange(len(linear)), n_leaves)
    n_terms = np.bincount(owner, weights=counts, minlength=len(linear)).astype(np.int64)
    feature = trees.joined("leaf_features", n_terms, int)
    coef = trees.joined("leaf_coeff", n_terms, float)
    if np.any((feature < 0) | (feature >= reader.n_features_in)) or not np.isfinite(coef).all():
        raise ModelFileError(f"{where} has a linear leaf on a feature that does not exist")
    if np.any(reader.n_codes[feature] > 0):
        raise ModelFileError(f"{where} has a linear leaf on a feature of categories")
    if reader.zero_missing is not None and np.any(reader.zero_missing[feature]):
        raise ModelFileError(f"{where} has a linear leaf on a feature whose zeros are missing")
    node = leaf[np.repeat(linear, trees.n_leaves)]
    return LinearLeaves(node, constant, counts, feature, coef)
