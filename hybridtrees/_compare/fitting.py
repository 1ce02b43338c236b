"""One fit of a comparison, in whatever process it takes place."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees._compare.data import Data
from hybridtrees._compare.families import FAMILIES, Family, Setting
from hybridtrees._compare.scores import SCORES, predict

# Fields of a `Trial`, by their names.
Fitted = dict[str, Any]
_BY_KEY = {family.key: family for family in FAMILIES}


def in_package(family: Family) -> bool:
    """Whether other processes know the family; those of users are fitted in this process."""
    return _BY_KEY.get(family.key) is family


@dataclass(frozen=True)
class Part:
    """Rows of one fold, as arrays that all fits share."""

    X: Any
    y: np.ndarray
    X_val: Any
    y_val: np.ndarray


@dataclass(frozen=True)
class Fit:
    """A setting to be fitted."""

    family: Family  # Travels to other processes by its key, since it may hold functions
    setting: Setting
    part: int | None = None  # The part to fit it to; None is each of them
    stop: bool = True  # Whether a family that can stop early does

    def __reduce__(self) -> Any:
        return _by_key, (self.family.key, self.setting, self.part, self.stop)


def _by_key(key: str, *rest: Any) -> Fit:
    return Fit(_BY_KEY[key], *rest)


@dataclass(frozen=True)
class FitJob:
    """All that fits to the same rows have in common."""

    parts: list[Part]
    task: str
    categorical: list[int]  # Columns that hold codes
    n_classes: int  # 0 for regression
    score: str  # Name of the score
    seed: int
    n_threads: int

    @classmethod
    def on(cls, data: Data, parts: list[Part], score: str, seed: int, n_threads: int) -> FitJob:
        """Fits to parts of a data set."""
        return cls(parts, data.task, data.categorical, data.n_classes, score, seed, n_threads)

    def run(self, item: Fit) -> Fitted:
        """Fit one setting and score it on training and validation rows, averaged over the parts.

        A fit that failed has an `error` and no scores.
        """
        scores, rounds, held_out, seconds = [], [], [], 0.0
        score = SCORES[self.score]
        stopping = item.family.stopping if item.stop else None
        parts = self.parts if item.part is None else [self.parts[item.part]]
        for part in parts:
            try:
                model, spent = self._fit(item, part)
                seconds += spent
                predicted = [predict(model, rows, self.n_classes) for rows in (part.X, part.X_val)]
                if stopping is not None:
                    rounds.append(stopping.rounds(model))
            except Exception as error:  # one family that fails must not end the comparison
                return {"error": f"{type(error).__name__}: {error}", "seconds": seconds}
            held_out.append(predicted[1])
            scores.append((score(part.y, predicted[0]), score(part.y_val, predicted[1])))
        train, validation = map(float, np.mean(scores, axis=0))
        return {
            "train": train,
            "validation": validation,
            "rounds": round(float(np.mean(rounds))) if rounds else None,
            "seconds": seconds,
            "held_out": held_out,
            "n_rows": max(len(part.y) for part in parts),
        }

    def failed(self, item: Fit) -> Fitted:
        """Return the result of a fit whose process was ended."""
        return {"error": "the system ended its process, after a crash or out of memory"}

    def _fit(self, item: Fit, part: Part) -> tuple[Any, float]:
        """Return a fitted model and the seconds that it took.

        Validation rows are given to families that stop early, and to no others.
        """
        stopping = item.family.stopping if item.stop else None
        stop = {} if stopping is None else stopping.arguments
        more = {} if stopping is None else stopping.fit_arguments(part.X_val, part.y_val)
        model = item.family.make(
            self.task,
            {**stop, **item.setting},
            random_state=self.seed,
            n_jobs=self.n_threads,
            categorical_features=self.categorical or None,
        )
        start = time.perf_counter()
        model.fit(part.X, part.y, **more)
        return model, time.perf_counter() - start
