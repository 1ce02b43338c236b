"""The scores that a training starts from: base scores, margins, and continued models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hybridtrees._parameters import check_real
from hybridtrees.losses import Loss

if TYPE_CHECKING:
    from hybridtrees.models.shared.boosted_model import BoostedModel


def check_base_score(value: Any) -> list[float]:
    """Check `base_score`: a number, or one per output; an empty list for None."""
    if value is None:
        return []
    values = list(value) if isinstance(value, list | tuple) else [value]
    if hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1:
        values = value.tolist()
    if not values:
        raise ValueError("base_score must be a number or a list of numbers, got an empty list")
    return [check_real("base_score", one) for one in values]


def check_continued(model: BoostedModel, loss: Loss, n_parallel: int) -> None:
    """Check that a training can continue a model: the same scores, and rounds of as many trees."""
    before, width = model._loss, model._trees_of_round()
    if before.n_outputs != loss.n_outputs:
        raise ValueError(
            f"xgb_model has {before.n_outputs} outputs, but this training has {loss.n_outputs}"
        )
    if before.link(0.25) != loss.link(0.25):  # links that differ do so at 0.25
        raise ValueError(
            f"xgb_model was fitted with the loss {before.kind!r}, whose link differs from that of "
            f"the loss {loss.kind!r}: continue with an objective of the same link"
        )
    if width != loss.n_outputs * n_parallel:
        raise ValueError(
            f"a round of xgb_model has {width} trees, but one of this training has "
            f"{loss.n_outputs * n_parallel}: use the num_parallel_tree of that model"
        )


def start_scores(
    before: BoostedModel | None,
    base_raw: np.ndarray,
    margin: np.ndarray | None,
    values: Any,
    n_threads: int,
) -> np.ndarray:
    """Return the initial raw scores of rows, with the trees of the continued model added."""
    raw = np.tile(base_raw, (values.shape[0], 1)) if margin is None else margin.copy()
    if before is not None:
        before.trees_.add_raw(values, raw, n_threads)
    return raw


def fitted_copy(model: Any, before: Any, loss: Loss, base_raw: np.ndarray, training: Any) -> Any:
    """Return a copy of an estimator that is fitted with the rounds so far of its training."""
    cls: Any = type(model)
    copy = cls.__new__(cls)
    vars(copy).update(vars(model))
    copy._keep(training, before, loss, base_raw)
    copy._evals_result, copy._best_iteration, copy._best_score = {}, None, None
    copy.callbacks = None  # which files have no place for
    return copy
