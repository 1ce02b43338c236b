"""Losses given by the user as a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybridtrees._parameters import check_option
from hybridtrees.core.tree.additive import Link
from hybridtrees.losses._base import Loss
from hybridtrees.losses.registry import Logistic, Softmax, SquaredError
from hybridtrees.metrics import takes_weight

_LINKS: dict[str, type[Loss]] = {"identity": SquaredError, "logistic": Logistic, "softmax": Softmax}
_FLOAT32_MAX = float(np.finfo(np.float32).max)


class CallableLoss(Loss):
    """Gradients and hessians from ``function(y_true, raw[, sample_weight]) -> grad, hess``.

    Scores and results have the shape (n_rows,) for one output, else (n_rows, n_outputs). If the
    function takes no `sample_weight`, its results are multiplied by the weights. `link` chooses
    how raw scores become predictions, and the metrics.
    """

    kind = "callable"

    def __init__(
        self, function: Callable[..., Any], n_outputs: int = 1, link: str = "identity"
    ) -> None:
        super().__init__(n_outputs)
        if not callable(function):
            raise TypeError(f"objective must be a name or a callable, got {function!r}")
        self.function = function
        self._weighs = takes_weight(function)
        self._like = _LINKS[check_option("link", link, _LINKS)](n_outputs)
        self.metrics = self._like.metrics

    def statistics(
        self,
        y: np.ndarray,
        raw: np.ndarray,
        weight: np.ndarray | None,
        grad: np.ndarray,
        hess: np.ndarray | None,
        n_threads: int,
        *,
        newton: bool = True,
    ) -> None:
        """Check and write what the function returns. See `Loss.statistics`."""
        if not newton:
            self._no_formula()
        if hess is None:
            raise ValueError("the hessian varies and needs an array")
        # A copy: the function may work in place.
        prediction = raw[:, 0].copy() if self.n_outputs == 1 else raw.copy()
        given = {} if weight is None or not self._weighs else {"sample_weight": weight.copy()}
        result = self.function(y.copy(), prediction, **given)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise ValueError(
                "the objective function must return a pair (grad, hess), got "
                f"{type(result).__name__}"
            )
        for name, values, out in (("grad", result[0], grad), ("hess", result[1], hess)):
            values = self._checked(name, values, prediction.shape)
            if weight is not None and not self._weighs:
                values = values * weight[:, None]
            out[:] = np.clip(values, -_FLOAT32_MAX, _FLOAT32_MAX).T
        if hess.min() < 0:
            raise ValueError("the objective function returned a negative hessian")
        for output in range(self.n_outputs):
            # A leaf steps by grad / hess: without a hessian only the penalty would limit it.
            if grad[output].any() and not hess[output].any():
                raise ValueError(
                    "the hess that the objective function returned is 0 in every row, but grad is "
                    "not: return the second derivative, or ones where it is 0"
                )

    def _checked(self, name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
        try:
            values = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"the {name} that the objective function returned is no array of numbers"
            ) from None
        if values.shape != shape and not (values.ndim == 2 and values.shape == (shape[0], 1)):
            raise ValueError(
                f"the {name} that the objective function returned must have the shape {shape} of "
                f"the predictions, got {values.shape}"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"the {name} that the objective function returned is not finite")
        checked: np.ndarray = values.reshape(shape[0], self.n_outputs)
        return checked

    def _no_formula(self, *_args: Any, **_kwargs: Any) -> Any:
        raise NotImplementedError("a loss given as a function has gradients and hessians only")

    first_order = residuals = mean_loss = leaf_values = _no_formula

    def init_raw(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Return the raw score of 0.5, XGBoost's start for losses it does not know."""
        return np.full(self.n_outputs, self.link(0.5))

    def link(self, base_score: float) -> float:
        """Return the raw score of a prediction, which is a probability for two classes."""
        return self._like.link(base_score)

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Return predictions from raw scores."""
        return self._like.predict(raw)

    def output_link(self) -> Link:
        """Return how raw scores become predictions."""
        return self._like.output_link()

    def score_input(self, raw: np.ndarray) -> np.ndarray:
        """Return the predictions in the form that metrics take."""
        return self._like.score_input(raw)
