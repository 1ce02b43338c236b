"""Models of scikit-learn: trees, forests, gradient boosting with and without histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees.exchange.assembly import CategorySplits, ForeignTrees, assemble
from hybridtrees.exchange.links import Link
from hybridtrees.exchange.models import ImportedClassifier, ImportedRegressor, imported
from hybridtrees.exchange.reader import ImportedReader
from hybridtrees.exchange.thresholds import at_most_single

_FORESTS = ("DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees")
_KINDS = ("Regressor", "Classifier")
_TREES = {name + kind for name in _FORESTS for kind in _KINDS}
_BOOSTED = {f"GradientBoosting{kind}" for kind in _KINDS}
_HISTOGRAM = {f"HistGradientBoosting{kind}" for kind in _KINDS}
_EXP_LOSSES = ("poisson", "gamma")


def from_sklearn(model: Any) -> ImportedRegressor | ImportedClassifier:
    """Import a fitted model of scikit-learn.

    Parameters
    ----------
    model : fitted estimator of scikit-learn
        DecisionTree*, ExtraTree*, RandomForest*, ExtraTrees*, GradientBoosting* or
        HistGradientBoosting*, each for regression or classification. Pass the last step of a
        pipeline.

    Returns
    -------
    imported : ImportedRegressor or ImportedClassifier
        The leaves of a forest are divided by the number of its trees, so that they add up to the
        mean.

    Raises
    ------
    TypeError
        If the model is of another kind, such as an isolation forest.
    ValueError
        If the model is not fitted, or has something that cannot be imported: several targets
        of classes, or an `init` estimator.

    Examples
    --------
    >>> import hybridtrees
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree = DecisionTreeRegressor(max_depth=1).fit([[1], [2], [3], [4]], [0, 0, 1, 1])
    >>> hybridtrees.from_sklearn(tree).predict([[2.4], [2.6]])
    array([0., 1.])
    """
    name = type(model).__name__
    kinds = [cls.__name__ for cls in type(model).__mro__ if cls.__module__.startswith("sklearn.")]
    family = next((k for k in kinds if k in _TREES | _BOOSTED | _HISTOGRAM), None)
    if family is None:
        known = [f"{one}*" for one in (*_FORESTS, "GradientBoosting", "HistGradientBoosting")]
        raise TypeError(f"from_sklearn takes {', '.join(known)}, got {name}")
    if not hasattr(model, "n_features_in_"):
        raise ValueError(f"this {name} is not fitted")
    if family in _HISTOGRAM:
        return _histogram_boosting(model, name)
    if family in _BOOSTED:
        return _boosting(model, name)
    return _forest(model, name)


def _names(model: Any) -> np.ndarray | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else np.asarray(names, dtype=object)


def _source() -> str:
    import sklearn

    return f"scikit-learn {sklearn.__version__}"


def _flatten(trees: list[Any], values: list[np.ndarray]) -> ForeignTrees:
    """Return the nodes of `Tree` objects, with the given values."""

    def joined(name: str) -> np.ndarray:
        return np.concatenate([np.asarray(getattr(tree, name)) for tree in trees])

    left, weight = joined("children_left"), joined("weighted_n_node_samples")
    sizes = np.array([tree.node_count for tree in trees], dtype=np.int64)
    if hasattr(trees[0], "missing_go_to_left"):
        missing = joined("missing_go_to_left") != 0
    else:
        missing = np.zeros(len(left), dtype=bool)
    impurity = joined("impurity") * weight
    inner = left >= 0
    origin = np.repeat(np.cumsum(sizes) - sizes, sizes)[inner]
    gain = np.zeros(len(left))
    below = impurity[origin + left[inner]] + impurity[origin + joined("children_right")[inner]]
    gain[inner] = impurity[inner] - below
    return ForeignTrees(
        sizes=sizes,
        left=left.astype(np.int64),
        right=joined("children_right").astype(np.int64),
        feature=joined("feature").astype(np.int64),
        threshold=at_most_single(joined("threshold")),
        missing_left=missing,
        values=np.concatenate(values),
        weight=weight,
        gain=gain,
        n_samples=joined("n_node_samples").astype(np.int64),
        tree_output=np.zeros(len(trees), dtype=np.int32),
    )


def _forest(model: Any, name: str) -> ImportedRegressor | ImportedClassifier:
    trees = [one.tree_ for one in getattr(model, "estimators_", [model])]
    classes = getattr(model, "classes_", None)
    if classes is not None and model.n_outputs_ > 1:
        raise ValueError(f"this {name} predicts {model.n_outputs_} targets of classes: import one")
    values = []
    for tree in trees:
        own = tree.value[:, 0, :] if classes is not None else tree.value[:, :, 0]
        if classes is not None:  # before 1.3 these were weights of classes
            total = own.sum(axis=1, keepdims=True)
            own = own / np.where(total > 0, total, 1.0)
        values.append(own / len(trees))
    n_outputs = values[0].shape[1]
    if classes is not None and n_outputs == 1:
        raise ValueError(f"this {name} knows a single class")
    flat = _flatten(trees, values)
    link = Link("shares", n_outputs, "classification") if classes is not None else Link(
        "identity", n_outputs, "regression")  # fmt: skip
    reader = ImportedReader(model.n_features_in_, _names(model), single=True)
    return imported(
        assemble(flat, model.n_features_in_, n_outputs, name),
        reader,
        link,
        np.zeros(n_outputs),
        n_iter=len(trees),
        source=_source(),
        objective=f"{name}, {model.criterion}",
        classes=classes,
    )


def _boosting(model: Any, name: str) -> ImportedRegressor | ImportedClassifier:
    init = model.init_
    if not (init == "zero" or type(init).__name__.startswith("Dummy")):
        raise ValueError(
            f"this {name} starts from the predictions of a {type(init).__name__}, which "
            "cannot be imported: fit it with init=None or 'zero'"
        )
    rounds = model.estimators_
    n_iter, width = rounds.shape
    trees = [one.tree_ for one in rounds.ravel()]
    values = [tree.value[:, 0, :1] * float(model.learning_rate) for tree in trees]
    flat = _flatten(trees, values)
    flat.tree_output = np.arange(len(trees), dtype=np.int32) % width
    base = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))[0]
    classes = getattr(model, "classes_", None)
    factor = 1.0
    if classes is None:
        link_name = "identity"
    else:
        link_name = "logistic" if width == 1 else "softmax"
        factor = 2.0 if model.loss == "exponential" else 1.0
    task = "regression" if classes is None else "classification"
    return imported(
        assemble(flat, model.n_features_in_, width, name),
        ImportedReader(model.n_features_in_, _names(model), single=True),
        Link(link_name, width, task, factor),
        np.asarray(base, dtype=np.float64),
        n_iter=n_iter,
        source=_source(),
        objective=f"{name}, {model.loss}",
        classes=classes,
    )


def _histogram_boosting(model: Any, name: str) -> ImportedRegressor | ImportedClassifier:
    predictors = [one for row in model._predictors for one in row]
    width = len(model._predictors[0])
    nodes = np.concatenate([one.nodes for one in predictors])
    leaf = nodes["is_leaf"].astype(bool)
    categorical = getattr(model, "is_categorical_", None)
    n_features = model.n_features_in_
    order = np.arange(n_features)
    labels: list[np.ndarray | None] = [None] * n_features
    n_codes = np.zeros(n_features, dtype=np.int64)
    if categorical is not None and np.any(categorical):
        # The model sees the columns of categories, as codes, before the others.
        order = np.concatenate([np.flatnonzero(categorical), np.flatnonzero(~categorical)])
        encoder = model._preprocessor.named_transformers_["encoder"]
        for j, known in zip(np.flatnonzero(categorical), encoder.categories_, strict=True):
            labels[j] = _label_array(known)
            n_codes[j] = len(known) + 1
    threshold = nodes["num_threshold"].astype(np.float64)
    flat = ForeignTrees(
        sizes=np.array([len(one.nodes) for one in predictors], dtype=np.int64),
        left=np.where(leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(leaf, -1, nodes["right"].astype(np.int64)),
        feature=np.where(leaf, -1, order[np.where(leaf, 0, nodes["feature_idx"])]),
        threshold=np.where(leaf, 0.0, threshold),
        missing_left=nodes["missing_go_to_left"].astype(bool),
        values=nodes["value"][:, None].astype(np.float64),
        weight=nodes["count"].astype(np.float64),
        gain=np.where(leaf, 0.0, nodes["gain"]),
        n_samples=nodes["count"].astype(np.int64),
        tree_output=np.arange(len(predictors), dtype=np.int32) % width,
    )
    by_set = np.flatnonzero(nodes["is_categorical"].astype(bool) & ~leaf)
    if len(by_set):
        tree = np.repeat(np.arange(len(predictors)), flat.sizes)[by_set]
        index = nodes["bitset_idx"][by_set]
        codes = [
            np.flatnonzero(
                np.unpackbits(
                    np.asarray(predictors[t].raw_left_cat_bitsets[i], "<u4").view(np.uint8),
                    bitorder="little",
                )
            )
            for t, i in zip(tree.tolist(), index.tolist(), strict=True)
        ]
        start = np.concatenate([[0], np.cumsum([len(c) for c in codes])])
        flat.threshold[by_set] = 0.0
        flat.categories = CategorySplits(by_set, start, np.concatenate(codes), True, n_codes)
    reader = ImportedReader(
        n_features, _names(model), labels, n_codes=n_codes, labelled=True, unseen_missing=True
    )
    classes = getattr(model, "classes_", None)
    if classes is None:
        link = Link("exp" if model.loss in _EXP_LOSSES else "identity", width, "regression")
    else:
        link = Link("logistic" if width == 1 else "softmax", width, "classification")
    return imported(
        assemble(flat, n_features, width, name),
        reader,
        link,
        np.asarray(model._baseline_prediction, dtype=np.float64).ravel(),
        n_iter=len(model._predictors),
        source=_source(),
        objective=f"{name}, {model.loss}",
        classes=classes,
    )


def _label_array(labels: np.ndarray) -> np.ndarray:
    """Return the labels of an encoder without the one for missing values, which is the last."""
    kept = [label for label in labels.tolist() if label is not None and label == label]
    if kept and all(isinstance(label, int | float) for label in kept):
        return np.array(kept, dtype=np.float64)
    return np.array([str(label) for label in kept], dtype=object)
