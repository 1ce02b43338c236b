"""From the sum of an imported model's trees to its prediction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybridtrees._persistence import register
from hybridtrees.core.base.checks import Checked, check_count, check_one_of
from hybridtrees.core.tree.additive import Link as OutputLink
from hybridtrees.core.tree.additive import LinkKind
from hybridtrees.losses import Loss


def _sigmoid(raw: np.ndarray) -> np.ndarray:
    from scipy.special import expit

    return np.asarray(expit(raw))


def _softmax(raw: np.ndarray) -> np.ndarray:
    shares = np.exp(raw - raw.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


# What each link makes of the scores, and the scale of the scores (`Loss.score_scale`).
_LINKS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    "identity": (lambda raw: raw, "identity"),
    "exp": (np.exp, "log"),
    "logistic": (_sigmoid, "odds"),
    "softmax": (_softmax, "shares"),
    "one_against_rest": (_sigmoid, "odds"),
    "softplus": (lambda raw: np.logaddexp(0, raw), "softplus"),
    "signed_square": (lambda raw: np.sign(raw) * raw * raw, "signed_square"),
    "side": (lambda raw: (raw > 0).astype(np.float64), "side"),
    "shares": (lambda raw: raw, "identity"),  # the scores are probabilities
    "ascending": (lambda raw: np.sort(raw, axis=1), "identity"),  # quantiles that do not cross
}
LINKS = tuple(_LINKS)
# Their names in `core/tree/additive.py`; "softplus" and "signed_square" have none.
_OUTPUT_LINKS: dict[str, LinkKind] = {
    "identity": "identity",
    "exp": "exp",
    "logistic": "logistic",
    "softmax": "softmax",
    "one_against_rest": "logistic",
    "side": "side",
    "shares": "shares",
    "ascending": "sorted",
}
# Links of one score that is turned into the probability of the second of two classes.
_OF_TWO = ("logistic", "side", "identity")


@register
class Link(Checked, Loss):
    """The link of an imported model, in place of the loss that it was trained with.

    Parameters
    ----------
    name : str
        One of `LINKS`. "logistic" and "softmax" are those of two and of several classes,
        "one_against_rest" gives each class a probability of its own.
    n_outputs : int
        Number of scores of a row.
    task : {"regression", "classification"}
    factor : float
        Number that scores are multiplied by before a sigmoid, as LightGBM's `sigmoid`.
    """

    kind = "imported"

    def __init__(self, name: str, n_outputs: int, task: str, factor: float = 1.0) -> None:
        super().__init__(n_outputs)
        self.name, self.task, self.factor = name, task, factor

    @property
    def score_scale(self) -> str:  # type: ignore[override]
        """What raw scores are; see `Loss`."""
        return _LINKS[self.name][1]

    @property
    def odds_scale(self) -> float:
        """Scores are the log-odds times this number."""
        return 1.0 / self.factor

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Return numbers, or the probabilities of all classes, from raw scores."""
        scaled = raw if self.factor == 1 else raw * self.factor
        with np.errstate(over="ignore"):
            made = _LINKS[self.name][0](scaled)
        if self.task == "classification" and self.n_outputs == 1:
            return np.column_stack([1 - made[:, 0], made[:, 0]])
        return made[:, 0] if self.n_outputs == 1 else made

    def output_link(self) -> OutputLink:
        """Return the link for exports; TypeError if they have none like it."""
        kind = _OUTPUT_LINKS.get(self.name)
        if kind is None:
            raise TypeError(f"the link {self.name!r} of the imported model cannot be exported")
        if self.name == "identity" and self.task == "classification":
            kind = "shares"
        levels = tuple(map(float, range(self.n_outputs))) if kind == "sorted" else ()
        of_numbers = self.task == "regression" and kind in ("logistic", "side")
        return OutputLink(kind, self.factor, levels, of_numbers)

    def to_state(self) -> dict[str, Any]:
        """Return the state as a dict of strings and numbers."""
        return {key: getattr(self, key) for key in ("name", "n_outputs", "task", "factor")}

    def _check_state(self) -> None:
        """Refuse links that do not exist."""
        check_one_of(self, "name", LINKS)
        check_one_of(self, "task", ("regression", "classification"))
        n_outputs = check_count(self, "n_outputs", 1, 2**31 - 1)
        if not isinstance(self.factor, float) or not 0 < self.factor < np.inf:
            raise ValueError(f"the factor of a link must be positive, got {self.factor!r}")
        if self.task == "classification" and n_outputs == 1 and self.name not in _OF_TWO:
            raise ValueError(f"the link {self.name!r} does not make probabilities of one score")
