"""Scores and losses, with row weights.

Functions of scikit-learn have the same names, arguments and results here. `METRICS` holds those
that can monitor training, under XGBoost's names.
"""

from hybridtrees.metrics._classification import (
    accuracy_score,
    brier_score_loss,
    error_rate,
    f1_score,
    log_loss,
)
from hybridtrees.metrics._ranking import (
    average_precision_score,
    pr_auc_score,
    roc_auc_score,
    roc_curve,
)
from hybridtrees.metrics._regression import (
    gamma_deviance,
    gamma_nloglik,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_expectile_loss,
    mean_pinball_loss,
    mean_pseudo_huber_error,
    mean_squared_error,
    poisson_nloglik,
    r2_score,
    root_mean_squared_error,
    root_mean_squared_log_error,
    tweedie_nloglik,
)
from hybridtrees.metrics._table import METRICS, Metric, callable_metric, get_metric, takes_weight

__all__ = [
    "METRICS",
    "Metric",
    "accuracy_score",
    "average_precision_score",
    "brier_score_loss",
    "callable_metric",
    "error_rate",
    "f1_score",
    "gamma_deviance",
    "gamma_nloglik",
    "get_metric",
    "log_loss",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_expectile_loss",
    "mean_pinball_loss",
    "mean_pseudo_huber_error",
    "mean_squared_error",
    "poisson_nloglik",
    "pr_auc_score",
    "r2_score",
    "roc_auc_score",
    "roc_curve",
    "root_mean_squared_error",
    "root_mean_squared_log_error",
    "takes_weight",
    "tweedie_nloglik",
]
