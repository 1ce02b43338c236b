"""Prediction sets from held-out probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybridtrees._parameters import is_classifier
from hybridtrees._persistence import register
from hybridtrees.core.base.checks import Checked, check_arrays
from hybridtrees.uncertainty.held_out import HeldOut
from hybridtrees.uncertainty.intervals import check_models, check_rows
from hybridtrees.uncertainty.ranks import Scores

METHODS = ("auto", "lac", "aps")

# Draws of the held-out rows; those of new rows have a seed of the caller.
_STREAM = 20260102


@register
class Sets(Checked):
    """How surprising the classes of held-out rows were, by two measures."""

    lac: np.ndarray  # 1 less the probability of the class
    aps: np.ndarray  # probability of all more probable classes, and a random part of its own
    weight: np.ndarray | None
    fold: np.ndarray | None
    models: list[Any]

    @classmethod
    def learn(cls, held: HeldOut, codes: np.ndarray, weight: np.ndarray | None) -> Sets:
        """Measure the probabilities of the observed classes."""
        made = cls()
        (proba,) = held.answers
        own = np.arange(len(codes))
        made.lac = 1.0 - proba[own, codes]
        draws = np.random.default_rng(_STREAM).random(len(codes))
        made.aps = adaptive_scores(proba, draws)[own, codes]
        made.weight, made.fold, made.models = weight, held.fold, held.models
        return made

    def predict(
        self,
        ask: Callable[[Any, Any], np.ndarray],
        model: Any,
        X: Any,
        coverage: float,
        method: str,
        seed: int,
    ) -> np.ndarray:
        """Return which classes are in the set of each row; `ask` gives probabilities."""
        adaptive = method == "aps"
        scores = []
        for each in self.models or [model]:
            proba = ask(each, X)
            draws = np.random.default_rng(seed).random(len(proba)) if adaptive else None
            scores.append(1.0 - proba if draws is None else adaptive_scores(proba, draws))
        known = Scores.of(self.aps if adaptive else self.lac, self.weight, self.fold)
        return known.plausible(np.stack(scores, axis=1), coverage)

    def check_owner(self, owner: Any) -> None:
        """Refuse models about other features or classes than the owner's."""
        check_models(owner, self.models, owner.n_features_in_)
        if not is_classifier(owner):
            raise ValueError("prediction sets need a classifier")
        for model in self.models:
            if not np.isin(getattr(model, "classes_", [None]), owner.classes_).all():
                raise ValueError(f"a model of {type(owner).__name__} has other classes")

    def _check_state(self) -> None:
        sizes = check_arrays(self, {name: ("f8", "n_rows") for name in ("lac", "aps")})
        if not sizes["n_rows"] or np.isnan(self.lac).any() or np.isnan(self.aps).any():
            raise ValueError("prediction sets must have scores of held-out rows")
        check_rows(self, sizes["n_rows"])


def adaptive_scores(proba: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return for each class the probability of those before it, and a random part of its own.

    Romano, Sesia and Candes (2020); classes are ordered by falling probability.
    """
    order = np.argsort(-proba, axis=1, kind="stable")
    falling = np.take_along_axis(proba, order, axis=1)
    found = np.cumsum(falling, axis=1) - falling + draws[:, None] * falling
    scores: np.ndarray = np.empty_like(found)
    np.put_along_axis(scores, order, found, axis=1)
    return scores
