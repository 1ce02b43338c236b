"""What xgboost changed between the versions that the tests meet, each fact stated once.

pip takes xgboost 3.2 on Python 3.11 and a newer one from Python 3.12 on.
"""

from __future__ import annotations

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

VERSION = tuple(int(part) for part in xgboost.__version__.split(".")[:2])

# 3.4 rounds the kink of the absolute and of the quantile error and takes Newton steps; before,
# gradients were signs and leaves were replaced by quantiles of the residuals (its pull requests
# 12373 and 12386). hybridtrees follows 3.4.
SMOOTH_ROBUST_LOSSES = VERSION >= (3, 4)

# 3.4 no longer takes the value and the gain of a category lighter than min_child_weight for 0
# (12322), and keeps reg_alpha in the gain where max_delta_step is set (12325). So does hybridtrees.
PLAIN_GAINS = VERSION >= (3, 4)


def smooth_derivatives(objective, residual, weight=None, alpha=0.5):
    """Gradients and hessians of 3.4 at residuals prediction - y, in NumPy."""
    weight = np.ones(len(residual)) if weight is None else weight
    scale = np.average(np.sqrt(np.abs(residual)), weights=weight) ** 2
    if objective == "reg:absoluteerror":
        curvature = scale / np.hypot(scale, residual)
        return weight * residual * curvature, weight * curvature
    x = residual / (0.04 * scale)
    ratio = np.divide(np.tanh(x), x, out=np.ones_like(x), where=x != 0)
    grad = scale / 2 * (np.tanh(x) + 1 - 2 * alpha)
    return weight * grad, weight / 0.08 * np.maximum(ratio, 3e-4)


def robust_parameters(objective, alpha=0.5):
    """Parameters with which any version of xgboost's estimators has the losses of 3.4.

    An older one gets them as an objective of its own, so that its trees can be compared.
    """
    params = {"eval_metric": "mae"}
    if objective == "reg:quantileerror":
        params = {"quantile_alpha": alpha, "eval_metric": "quantile"}

    def own(y_true, y_pred, sample_weight=None):
        return smooth_derivatives(objective, y_pred - y_true, sample_weight, alpha)

    return params | {"objective": objective if SMOOTH_ROBUST_LOSSES else own}
