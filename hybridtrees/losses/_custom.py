"""A loss that the user gives as a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybridtrees._parameters import check_option
from hybridtrees.losses._base import Loss
from hybridtrees.losses.registry import Logistic, Softmax, SquaredError
from hybridtrees.metrics import takes_weight

_LINKS: dict[str, type[Loss]] = {"identity": SquaredError, "logistic": Logistic, "softmax": Softmax}
_FLOAT32_MAX = float(np.finfo(np.float32).max)


class CallableLoss(Loss):
    """Gradients and hessians by ``function(y_true, raw[, sample_weight]) -> grad, hess``.

    Scores and results have the shape (n_rows,) for one output, else (n_rows, n_outputs). With a
    parameter `sample_weight` the function applies the weights; without, they are applied here.
    `link` says how raw scores become predictions, and which metrics there are.
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

    def statistics(self, y, raw, weight, grad, hess, n_threads):
        """Write what the function returns, after checking it. See `Loss.statistics`."""
        if hess is None:
            raise ValueError("the hessian varies and needs an array")
        # A copy, so that a function which works in place does no harm.
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
            # The step of a leaf is grad / hess: the penalty alone would make steps of any length.
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
        return values.reshape(shape[0], self.n_outputs)

    def _no_formula(self, *_args: Any, **_kwargs: Any) -> Any:
        raise NotImplementedError("a loss given as a function has gradients and hessians only")

    first_order = residuals = mean_loss = leaf_values = _no_formula

    def init_raw(self, y, weight):
        """Return the raw score of 0.5, where XGBoost starts if it does not know the loss."""
        return np.full(self.n_outputs, self.link(0.5))

    def link(self, base_score):
        """Return the raw score of a prediction: of two classes a probability."""
        return self._like.link(base_score)

    def predict(self, raw):
        """Return the predictions that the link makes of the raw scores."""
        return self._like.predict(raw)

    def score_input(self, raw):
        """Return the predictions in the form that metrics take."""
        return self._like.score_input(raw)
