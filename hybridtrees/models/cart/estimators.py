"""CART: single trees with scikit-learn's parameter names, exact splits and pruning."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees.core.base.criteria import CLASSIFICATION_CRITERIA, REGRESSION_CRITERIA
from hybridtrees.models.cart.base import CARTModel
from hybridtrees.models.shared.targets import ClassTarget, RegressionTarget
from hybridtrees.models.shared.tree_parameters import ClassificationCriterion, RegressionCriterion


class CARTRegressor(RegressionTarget, CARTModel):
    """A regression tree (Breiman, Friedman, Olshen and Stone 1984).

    Takes the parameters of scikit-learn's ``DecisionTreeRegressor``, with the same defaults, and
    grows the same tree unless splits tie.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import CARTRegressor
    >>> X = np.arange(10.0)[:, None]
    >>> model = CARTRegressor(max_depth=1).fit(X, X[:, 0] > 3)
    >>> model.predict([[2.0], [7.0]])
    array([0., 1.])
    """

    _criteria = REGRESSION_CRITERIA
    _counterpart = "DecisionTreeRegressor"

    criterion: RegressionCriterion = "squared_error"

    def _compute_partial_dependence_recursion(self, grid: Any, target_features: Any) -> np.ndarray:
        """Return average predictions, which scikit-learn's `partial_dependence` asks a tree for."""
        averages = np.zeros(len(grid))
        self.tree_.compute_partial_dependence(grid, target_features, averages)
        return averages


class CARTClassifier(ClassWeightMixin, ClassTarget, CARTModel):
    """A classification tree (Breiman, Friedman, Olshen and Stone 1984).

    Takes the parameters of scikit-learn's ``DecisionTreeClassifier``, with the same defaults, and
    grows the same tree unless splits tie.

    Parameters
    ----------
    criterion : {"gini", "entropy", "log_loss", "misclassification"}
        Impurity that splits reduce; "log_loss" is the same as "entropy", in bits.
    class_weight : dict, "balanced" or None
        Weights of the classes, 1 for those that a dict does not name; "balanced" gives every class
        the same total weight.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import CARTClassifier
    >>> X = np.arange(10.0)[:, None]
    >>> model = CARTClassifier().fit(X, np.where(X[:, 0] > 3, "high", "low"))
    >>> model.predict([[2.0], [7.0]])
    array(['low', 'high'], dtype='<U4')
    """

    _criteria = CLASSIFICATION_CRITERIA
    _counterpart = "DecisionTreeClassifier"

    criterion: ClassificationCriterion = "gini"

    def _probabilities(self, X: Any) -> np.ndarray:
        return self._predict_values(X)
