"""The parameter `class_weight` of classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees._parameters import attribute
from hybridtrees.base import Estimator
from hybridtrees.input.class_weights import check_class_weight, class_factors, weight_rows


class ClassWeightMixin(Estimator):
    """Row weights by class.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Factors on the weights of the rows of each class, 1 for those that a dict does not name;
        "balanced" gives every class the same total weight. The same as passing these factors as
        `sample_weight`; validation tables are not weighted by class.
    """

    class_weight: Any = None

    classes_: np.ndarray = attribute()

    def _weigh_classes(self, target: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        """Return the weights of the rows times those of their classes."""
        check_class_weight(self.class_weight)
        if self.class_weight is None:
            return weight
        codes = target.astype(np.intp)
        return weight_rows(class_factors(self.class_weight, codes, self.classes_), codes, weight)
