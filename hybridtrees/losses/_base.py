"""Base class of losses: loops over rows, leaf values, the identity link."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees.core.base.exact_sum import exact_sum
from hybridtrees.core.tree.additive import Link, LinkKind
from hybridtrees.losses import _kernels
from hybridtrees.metrics import Metric, get_metric

# What turns raw scores into predictions, by `Loss.score_scale`.
_LINKS: dict[str, LinkKind] = {
    "identity": "identity",
    "log": "exp",
    "odds": "logistic",
    "side": "side",
    "shares": "softmax",
    "portion": "shares",
}


class Loss:
    """A loss and its link function.

    Targets are float64 of shape (n_rows,), or (n_rows, n_outputs) where each output has a target
    of its own; raw scores are float64 of shape (n_rows, n_outputs).
    """

    kind: str  # its name here, which model files hold; that of a kernel is a `LossKind`
    kernel = ""  # the kind whose kernel it uses, its own by default
    task = "regression"  # or "classification"
    friedman: tuple[str, ...] = ()  # names in scikit-learn's gradient boosting
    xgboost: tuple[str, ...] = ()  # names among XGBoost's objectives
    parameters: dict[str, str] = {}  # estimator parameter -> constructor argument
    max_classes: float = 0  # 0 in regression
    counts_classes = False  # whether a regression has an output for each number in the target
    border = 0.0  # score from which on the second of two classes is predicted
    score_scale = "identity"  # what raw scores are, a key of _LINKS
    hessian_vanishes = False  # almost 0 far from the target, so that steps need a limit
    metrics: tuple[str, ...]  # that can monitor training, the default first
    constant_hessian = False  # 1 for every row, before weights
    leaf_is_mean = False  # whether `leaf_values` are the means of the residuals
    adaptive_leaves = False  # whether Newton boosting takes leaves from `leaf_values` too
    deviance_factor = 1.0  # scikit-learn's train score divided by `mean_loss`

    def __init__(self, n_outputs: int = 1):
        self.n_outputs = n_outputs

    # -- overridden by subclasses ---------------------------------------------------------------

    def _shape(self, output: int) -> tuple[float, float]:
        """Return the parameters a and b of _kernels.pxd for an output."""
        return 0.0, 0.0

    def _start(self, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
        """Return the initial raw score of one output, given its targets."""
        raise NotImplementedError(f"{type(self).__name__} has no initial score")

    def _prepare(self, y: np.ndarray, raw: np.ndarray, weight: np.ndarray | None) -> None:
        """Adapt the parameters of the loss to the current raw scores."""

    def check_target(self, y: np.ndarray, name: str = "y") -> None:
        """Raise a ValueError if a target is outside the range of the loss."""

    def check_start(self, y: np.ndarray) -> None:
        """Raise a ValueError if the best constant raw score is not finite."""

    # -- loops over rows ------------------------------------------------------------------------

    def _parameters(self) -> np.ndarray:
        return np.array([self._shape(k) for k in range(self.n_outputs)], dtype=np.float64)

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
        """Write gradients and hessians, both (n_outputs, n_rows), at the raw scores.

        They are float32, weighted and finite. `hess` may be None if all hessians are 1. Without
        `newton` the row weights take the place of the hessians.
        """
        self._prepare(y, raw, weight)
        _kernels.statistics(
            self.kernel, raw, y, weight, grad, hess, n_threads, self._parameters(), newton
        )

    def first_order(self, *given: Any) -> None:
        """Call `statistics` with the row weights in place of the hessians.

        A tree grown on them is the least-squares tree of the pseudo-residuals, as in Friedman's
        boosting. `hess` may be None without weights.
        """
        self.statistics(*given, newton=False)

    def residuals(
        self,
        y: np.ndarray,
        raw: np.ndarray,
        weight: np.ndarray | None,
        out: np.ndarray,
        n_threads: int = 1,
    ) -> None:
        """Write the pseudo-residuals: negative gradients, float64, (n_outputs, n_rows).

        They are not weighted; only losses that adapt to the raw scores use the weights.
        """
        self._prepare(y, raw, weight)
        _kernels.residuals(self.kernel, raw, y, out, n_threads, self._parameters())

    def mean_loss(
        self, y: np.ndarray, raw: np.ndarray, weight: np.ndarray | None, n_threads: int = 1
    ) -> float:
        """Return the weighted mean over rows and outputs, without terms of the targets alone."""
        total = _kernels.sum_loss(self.kernel, raw, y, weight, n_threads, self._parameters())
        total_weight = len(raw) if weight is None else exact_sum(weight)
        return total.value / total_weight / self._n_terms()

    def _n_terms(self) -> int:
        return self.n_outputs

    # -- leaves ---------------------------------------------------------------------------------

    def leaf_values(
        self,
        y: np.ndarray,
        raw: np.ndarray,
        residual: np.ndarray | None,
        weight: np.ndarray | None,
        rows: np.ndarray,
        start: np.ndarray,
        *,
        output: int = 0,
        n_threads: int = 1,
    ) -> np.ndarray:
        """Re-estimate leaf values: what to add to the raw scores of each leaf's rows.

        They are not shrunk yet, and 0 for a leaf without rows or weight. `group_rows` explains
        `rows` and `start`. `Softmax` needs the pseudo-residuals of the output; with them `Logistic`
        computes no exponentials if all targets are 0 or 1.
        """
        out = np.empty(len(start) - 1)
        a, b = self._leaf_shape(output)
        target = y.reshape(len(y), -1)
        leaves = (rows, start, self._leaf_factor(), out, n_threads)
        _kernels.leaf_sums(self.kernel, raw, target, weight, residual, output, a, b, *leaves)
        return out

    def leaves_of_residuals(self, y: np.ndarray) -> bool:
        """Whether `leaf_values` uses the pseudo-residuals instead of the raw scores."""
        return False

    def _leaf_shape(self, output: int) -> tuple[float, float]:
        return self._shape(output)

    def _leaf_factor(self) -> float:
        return 1.0

    # -- link -----------------------------------------------------------------------------------

    def init_raw(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Return the initial raw score of each output."""
        columns = y.reshape(len(y), -1)
        return np.array(
            [
                self._start(columns[:, k if columns.shape[1] > 1 else 0], weight, k)
                for k in range(self.n_outputs)
            ]
        )

    def link(self, base_score: float) -> float:
        """Return the raw score of a prediction."""
        return base_score

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Return predictions from raw scores of shape (n_rows, n_outputs)."""
        return raw[:, 0] if self.n_outputs == 1 else raw

    def output_link(self) -> Link:
        """Return how raw scores become predictions, for exports and explanations."""
        return Link(_LINKS[self.score_scale])

    def score_input(self, raw: np.ndarray) -> np.ndarray:
        """Return the predictions in the form that metrics take."""
        return self.predict(raw)

    def metric(self, name: str) -> Metric:
        """Return one of `metrics` by name, with the parameters of this loss."""
        if not isinstance(name, str) or name.partition("@")[0] not in self.metrics:
            allowed = ", ".join(repr(metric) for metric in self.metrics)
            raise ValueError(f"eval_metric must be one of {allowed}, got {name!r}")
        return get_metric(name, **self._metric_parameters())

    def _metric_parameters(self) -> dict[str, Any]:
        return {}


def reject_targets(y: np.ndarray, bad: np.ndarray, name: str, allowed: str) -> None:
    """Raise a ValueError that shows the first target marked in `bad`, if there is one."""
    if bad.any():
        place = int(np.flatnonzero(bad.ravel())[0])
        row = place // (y.size // len(y))
        raise ValueError(f"{name} must be {allowed}, got {y.ravel()[place]} in row {row}")
