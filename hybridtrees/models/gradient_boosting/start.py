"""Initial scores of gradient boosting: a constant, zero, or those of another estimator."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from hybridtrees.core.bins.binned_table import BinnedTable
from hybridtrees.losses import Loss, Softmax
from hybridtrees.metrics import takes_weight

_TINY = float(np.finfo(np.float64).eps)


def check_init(init: Any, classifier: bool) -> None:
    """Check the parameter `init`: None, "zero" or an estimator."""
    if init is None or (isinstance(init, str) and init == "zero"):
        return
    method = "predict_proba" if classifier else "predict"
    if isinstance(init, str | type) or not all(
        callable(getattr(init, name, None)) for name in ("fit", method)
    ):
        raise ValueError(
            f"init must be None, 'zero' or an estimator with fit and {method}, got {init!r}"
        )


def fit_init(init: Any, X: Any, y: np.ndarray, weight: np.ndarray | None) -> Any:
    """Fit a copy of the initial estimator to the user's table."""
    fitted = copy.deepcopy(init)
    if weight is None:
        return fitted.fit(X, y)
    if not takes_weight(fitted.fit):
        raise ValueError(
            f"the init estimator {type(init).__name__} does not support sample weights, but "
            "sample_weight was given"
        )
    return fitted.fit(X, y, sample_weight=weight)


def init_scores(fitted: Any, X: Any, loss: Loss, n_rows: int) -> np.ndarray:
    """Return initial raw scores, (n_rows, n_outputs) in C order.

    `fitted` is an array of scores, one per output, or an estimator whose predictions for the
    user's table are turned into scores.
    """
    if isinstance(fitted, np.ndarray):
        return np.tile(fitted, (n_rows, 1))
    if loss.score_scale in ("odds", "shares"):
        scores = _from_probabilities(fitted.predict_proba(X), loss)
    else:
        scores = np.asarray(fitted.predict(X), dtype=np.float64).reshape(n_rows, -1)
        if loss.score_scale == "log":
            scores = np.log(np.maximum(scores, _TINY))
    if scores.shape[1] not in (1, loss.n_outputs):
        raise ValueError(
            f"the init estimator must predict one number per row or {loss.n_outputs}, got "
            f"{scores.shape[1]}"
        )
    if not np.isfinite(scores).all():
        raise ValueError("the init estimator predicts values that are not finite")
    return np.array(np.broadcast_to(scores, (n_rows, loss.n_outputs)), order="C")


def _from_probabilities(proba: Any, loss: Loss) -> np.ndarray:
    proba = np.clip(np.asarray(proba, dtype=np.float64), _TINY, 1 - _TINY)
    n_classes = loss.n_outputs if isinstance(loss, Softmax) else 2
    if proba.ndim != 2 or proba.shape[1] != n_classes:
        raise ValueError(
            f"the init estimator must predict the probabilities of {n_classes} classes, got an "
            f"array of shape {proba.shape}"
        )
    if n_classes > 2 or isinstance(loss, Softmax):
        logs = np.log(proba)
        return np.asarray(logs - logs.mean(axis=1, keepdims=True))
    odds = np.log(proba[:, 1] / (1.0 - proba[:, 1]))
    return np.asarray(loss.odds_scale * odds[:, None])  # type: ignore[attr-defined]


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of the user's table, in its own container."""
    if isinstance(X, BinnedTable):
        return X[rows]
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows]
    if hasattr(X, "take") and type(X).__module__.startswith("pyarrow"):
        return X.take(rows)
    if isinstance(X, dict):
        return {name: take_rows(column, rows) for name, column in X.items()}
    if type(X).__module__.startswith("polars"):
        return X[rows]
    return np.asarray(X)[rows]
