"""Compiled models: a fitted model that only predicts, frozen, quick for single rows, and small."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import Limit
from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.tree._predict import FrozenForm
from hybridtrees.core.tree.additive import AdditiveForm, additive_form
from hybridtrees.core.tree.tree import TreeEnsemble


class CompiledModel:
    """The predictions of a fitted model, without the model; made by ``estimator.compile()``.

    It never changes, so that any number of threads may use it at the same time: predictions do not
    hold the GIL while trees are walked. Rows are float32 or float64 arrays of numbers, with NaN
    where a value is missing, and codes in columns of categories (`encode` makes them); values are
    not checked.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of a row.
    feature_names_in_ : ndarray of str or None
        Their names, if the model was fitted to a table with names.
    categories_ : list
        For each column the labels of its categories, whose positions are the codes; None for
        numbers.
    classes_ : ndarray or None
        The labels of a classifier.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import XGBRegressor
    >>> X = np.arange(20.0)[:, None]
    >>> compiled = XGBRegressor(n_estimators=200).fit(X, X[:, 0] > 9).compile()
    >>> compiled.predict(np.array([[3.0], [15.0]])).round(2)
    array([0., 1.])
    """

    def __init__(self, form: AdditiveForm, n_jobs: int | None = 1) -> None:
        self._form = form
        self._single = form.classes is None and form.n_scores == 1  # predictions are a vector
        self.n_jobs = n_jobs
        self._reader = form.reader
        self.n_features_in_: int = form.reader.n_features_in
        self.feature_names_in_ = form.reader.feature_names_in
        self.categories_ = list(form.reader.categories)
        self.classes_ = form.classes
        self._n_threads = effective_threads(n_jobs)
        self._frozen = FrozenForm(form, self.n_features_in_)

    def predict(self, X: Any, out: NDArray[np.float64] | None = None) -> NDArray[Any]:
        """Predict numbers, or the labels of a classifier.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape (n_rows, n_features)
        out : ndarray of float64, optional
            Where to write the predictions of a regressor: an array of their shape.

        Returns
        -------
        predictions : ndarray
            `out` if it is given.
        """
        if self.classes_ is not None:
            if out is not None:
                raise ValueError("out is for numbers: use predict_proba, or predict without out")
            proba = self._run(X, None, True)
            if proba.shape[1] == 2:
                return np.asarray(self.classes_[(proba[:, 1] > proba[:, 0]).astype(np.intp)])
            return np.asarray(self.classes_[proba.argmax(axis=1)])
        if not self._single:
            return self._run(X, out, True)
        if out is None:
            return self._run(X, None, True)[:, 0]
        self._run(X, _as_column(out), True)
        return out

    def predict_proba(self, X: Any, out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape (n_rows, n_features)
        out : ndarray of float64, shape (n_rows, n_classes), optional
            Where to write them.

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
            `out` if it is given.
        """
        if self.classes_ is None:
            raise AttributeError("predict_proba is for classifiers, this is a compiled regressor")
        return self._run(X, out, True)

    def predict_raw(self, X: Any, out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Predict scores, before the link.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape (n_rows, n_features)
        out : ndarray of float64, shape (n_rows, n_scores), optional
            Where to write them.

        Returns
        -------
        raw : ndarray of shape (n_rows, n_scores)
            `out` if it is given.
        """
        return self._run(X, out, False)

    def _run(self, X: Any, out: Any, linked: bool) -> NDArray[np.float64]:
        """Predict rows that are as they should be at once; convert others, or say what is wrong."""
        try:
            return self._frozen.predict(X, out, linked, self._n_threads)
        except (AttributeError, TypeError, ValueError):
            if out is not None:
                _check_out(out)
            return self._frozen.predict(_rows(X), out, linked, self._n_threads)

    def encode(self, X: Any) -> NDArray[Any]:
        """Return the rows of a table as the model was fitted to: a data frame, text, any numbers.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features)
            Numbers, and codes of categories; NaN for labels that `fit` has not seen.
        """
        return self._form.read(X)

    def __repr__(self) -> str:
        kind = "regressor" if self.classes_ is None else "classifier"
        return f"<compiled {kind} of {self.n_features_in_} features>"

    def __reduce__(self) -> Any:
        return _restore, (_pack(self._form), self.n_jobs)


def compile_model(estimator: Any, n_jobs: int | None = 1) -> CompiledModel:
    """Return a fitted estimator as a `CompiledModel`: see its method ``compile``."""
    return CompiledModel(additive_form(estimator), n_jobs)


def _rows(X: Any) -> NDArray[Any]:
    """Return numbers as a matrix that can be predicted."""
    rows = np.asarray(X)
    if rows.dtype.kind not in "fiub":
        raise TypeError(
            f"X must be an array of numbers, got the dtype {rows.dtype}: encode(X) makes one"
        )
    if rows.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows, features), got the shape {rows.shape}")
    return rows.astype(np.float32 if rows.dtype == np.float32 else np.float64)


def _as_column(out: Any) -> NDArray[np.float64]:
    if not isinstance(out, np.ndarray) or out.ndim != 1:
        raise ValueError(f"out must be an array of one dimension, got {_what(out)}")
    return out[:, None]


def _check_out(out: Any) -> None:
    if not isinstance(out, np.ndarray) or out.dtype != np.float64 or out.ndim != 2:
        raise ValueError(f"out must be a float64 array of two dimensions, got {_what(out)}")
    if not out.flags.writeable:
        raise ValueError("out must be writeable, got a read-only array")


def _what(out: Any) -> str:
    if isinstance(out, np.ndarray):
        return f"{out.dtype} of the shape {out.shape}"
    return type(out).__name__


# ---- Pickles ----------------------------------------------------------------------------------


# Fields of a split that predictions need; the links are stored relative to the node.
_SPLIT = ("feature", "threshold", "missing_left")
_SET = ("category_start", "category_words", "category_limit")


def _pack(form: AdditiveForm) -> dict[str, Any]:
    """Return a form as a dict, without what predictions do not need."""
    state = dict(vars(form))
    state["inner"] = tuple((weight, _pack(inner)) for weight, inner in form.inner)
    if form.trees is not None:
        arrays = form.trees.to_state()
        nodes, start = arrays.pop("nodes"), arrays["tree_start"]
        inner = np.flatnonzero(nodes["left"] >= 0)
        own = inner - np.repeat(start[:-1], np.diff(start))[inner]
        ends = (nodes["left"] < 0) | (nodes["missing_left"] == Limit.MISSING_STAYS)
        arrays["is_inner"] = np.packbits(nodes["left"] >= 0)
        arrays["links"] = [_narrowed(nodes[side][inner] - own) for side in ("left", "right")]
        arrays["split"] = {name: _narrowed(nodes[name][inner]) for name in (*_SPLIT, *_SET)}
        arrays["ends"] = np.packbits(ends)
        arrays["values"] = arrays["values"][ends]
        arrays["coef_ptr"] = _narrowed(np.diff(arrays["coef_ptr"]))
        state["trees"] = arrays
    return state


def _narrowed(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return integers in the narrowest type that holds them; equal numbers as one."""
    if len(numbers) and (numbers == numbers[0]).all():
        return np.array(numbers[:1])
    if numbers.dtype.kind == "i" and len(numbers):
        least, most = np.min_scalar_type(numbers.min()), np.min_scalar_type(numbers.max())
        return numbers.astype(np.result_type(least, most))
    return np.array(numbers)


def _restore(state: dict[str, Any], n_jobs: int | None) -> CompiledModel:
    return CompiledModel(_unpack(state), n_jobs)


def _unpack(state: dict[str, Any]) -> AdditiveForm:
    state = dict(state)
    state["inner"] = tuple((weight, _unpack(inner)) for weight, inner in state["inner"])
    if state["trees"] is not None:
        arrays = dict(state["trees"])
        start, split, links = (arrays[name] for name in ("tree_start", "split", "links"))
        n_nodes = int(start[-1])
        nodes = np.zeros(n_nodes, dtype=NODE_DTYPE)
        for name in ("left", "right", "parent", "feature", "category_start"):
            nodes[name] = -1
        inner = np.flatnonzero(np.unpackbits(arrays["is_inner"], count=n_nodes))
        own = inner - np.repeat(start[:-1], np.diff(start))[inner]
        for side, offset in zip(("left", "right"), links, strict=True):
            nodes[side][inner] = own + offset
        for name, numbers in split.items():
            nodes[name][inner] = numbers
        _add_levels(nodes, start)
        ends = np.unpackbits(arrays["ends"], count=n_nodes).astype(bool)
        values = np.zeros((n_nodes, arrays["values"].shape[1]))
        values[ends] = arrays["values"]
        counts = np.broadcast_to(arrays["coef_ptr"], n_nodes).astype(np.int64)
        trees = TreeEnsemble.__new__(TreeEnsemble)
        for name in ("is_inner", "links", "split", "ends"):
            del arrays[name]
        arrays.update(nodes=nodes, values=values, coef_ptr=np.append(0, np.cumsum(counts)))
        trees.__dict__.update(arrays)
        trees._check_state()
        state["trees"] = trees
    return AdditiveForm(**state)


def _add_levels(nodes: NDArray[Any], start: NDArray[np.int64]) -> None:
    """Write the parents and depths of the nodes of trees, level by level."""
    origin = np.repeat(start[:-1], np.diff(start))
    level, depth = start[:-1], 0
    while len(level):
        nodes["depth"][level] = depth
        inner = level[nodes["left"][level] >= 0]
        children = [origin[inner] + nodes[side][inner] for side in ("left", "right")]
        for found in children:
            nodes["parent"][found] = inner - origin[inner]
        level, depth = np.concatenate(children), depth + 1
