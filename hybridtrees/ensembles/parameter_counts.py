"""Number of free parameters of a fitted model, for the Bayesian information criterion."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees.base import Estimator
from hybridtrees.ensembles.members import ConstantClassifier
from hybridtrees.linear._base import LinearModel
from hybridtrees.models.cart.base import CARTModel


def count_parameters(member: Any, name: str) -> int:
    """Return the number of parameters of a fitted linear model or tree.

    A linear model has its coefficients that are not 0, and its intercepts. A tree has a value in
    each leaf, for classes one less than there are classes. A linear model of more than two classes
    has a score for each class, of which one is not free.
    """
    if isinstance(member, ConstantClassifier):
        return 0
    n_classes = len(getattr(member, "classes_", ()))
    if _is_linear(member):
        own = member.term_coef_ if hasattr(member, "term_coef_") else member.coef_
        coef = np.atleast_2d(np.asarray(own, dtype=np.float64))
        per_output = np.count_nonzero(coef, axis=1) + bool(getattr(member, "fit_intercept", True))
        n_free = int(per_output.sum())
        if n_classes > 2 and len(coef) == n_classes:
            n_free = round(n_free * (n_classes - 1) / n_classes)
        return n_free
    if _is_tree(member):
        return int(member.tree_.n_leaves) * max(n_classes - 1, 1)
    raise ValueError(
        "weights='bic' needs the number of parameters, which is known of linear models and single "
        f"trees only, but the member {name!r} is a {type(member).__name__}: use weights="
        "'likelihood', 'stacking' or 'greedy'"
    )


def check_countable(estimator: Any, name: str) -> None:
    """Refuse one of our estimators whose parameters cannot be counted, before it is fitted."""
    if isinstance(estimator, Estimator) and not isinstance(estimator, LinearModel | CARTModel):
        count_parameters(estimator, name)


def _is_linear(member: Any) -> bool:
    if isinstance(member, Estimator):  # hybrids have coefficients, too, and more
        return isinstance(member, LinearModel)
    return hasattr(member, "coef_") and hasattr(member, "intercept_")


def _is_tree(member: Any) -> bool:
    if isinstance(member, Estimator):  # leaves of linear trees hold more than a value
        return isinstance(member, CARTModel)
    return hasattr(getattr(member, "tree_", None), "n_leaves")
