"""Random forests: bagged trees with scikit-learn's parameter names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from hybridtrees._parameters import attribute, check_option
from hybridtrees.core.base.criteria import CLASSIFICATION_CRITERIA
from hybridtrees.input.class_weights import (
    SampleFactors,
    check_class_weight,
    class_factors,
    weight_rows,
)
from hybridtrees.input.validation import check_target_classification
from hybridtrees.models.shared.forest.base import ClassificationForest
from hybridtrees.models.shared.forest.packed import PackedForest, PackedRegressionForest
from hybridtrees.models.shared.tree_parameters import ClassificationCriterion, MaxFeatures, Splitter
from hybridtrees.models.shared.tree_views import ClassTreeView

_VOTING = ("soft", "hard")
_CLASS_WEIGHTS = ("balanced", "balanced_subsample")


class RandomForestRegressor(PackedRegressionForest):
    """A random forest for regression (Breiman 2001).

    Takes the parameters of scikit-learn's ``RandomForestRegressor``, with the same defaults.
    Breiman's share of the features for regression is ``max_features="third"``.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import RandomForestRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = RandomForestRegressor(oob_score=True, random_state=0).fit(X, X[:, 0])
    >>> bool(model.oob_score_ > 0.8)
    True
    """

    max_features: MaxFeatures = 1.0


class RandomForestClassifier(ClassificationForest, PackedForest):
    """A random forest for classification (Breiman 2001).

    Takes the parameters of scikit-learn's ``RandomForestClassifier``, with the same defaults.

    Parameters
    ----------
    criterion : {"gini", "entropy", "log_loss", "misclassification"}
        Impurity that splits reduce; "log_loss" is the same as "entropy", in bits.
    class_weight : dict, "balanced", "balanced_subsample" or None
        Weights of the classes, 1 for those that a dict does not name; "balanced" gives every class
        the same total weight, "balanced_subsample" does so in each sample.
    voting : {"soft", "hard"}
        Average the probabilities of the trees, or count their votes.
    keep_rows : bool or "auto"
        Whether to keep the training rows of each leaf, for `leaf_weights`; "auto" does not.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import RandomForestClassifier
    >>> X = np.arange(20.0)[:, None]
    >>> model = RandomForestClassifier(random_state=0).fit(X, np.where(X[:, 0] > 9, "b", "a"))
    >>> model.predict([[2.0], [17.0]])
    array(['a', 'b'], dtype='<U1')
    """

    _criteria = CLASSIFICATION_CRITERIA
    _view = ClassTreeView
    _class_factors: Any = attribute()

    criterion: ClassificationCriterion = "gini"
    max_features: MaxFeatures = "sqrt"
    class_weight: Any = None
    voting: Literal["soft", "hard"] = "soft"

    def _check_parameters(self) -> None:
        check_option("voting", self.voting, _VOTING)
        super()._check_parameters()
        check_class_weight(self.class_weight, _CLASS_WEIGHTS)

    def _more_growth(self) -> dict[str, Any]:
        factors = self._class_factors
        kept = factors.tolist() if isinstance(factors, np.ndarray) else factors
        return {"class_weight": kept, "voting": self.voting}

    def _votes(self) -> bool:
        return self.voting == "hard"

    def _class_factor(self, target: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
        factors = self.class_weight
        if factors is not None and not (isinstance(factors, str) and factors == _CLASS_WEIGHTS[1]):
            factors = class_factors(factors, target, self.classes_)
            weight_rows(factors, target)  # refuses weights that are all 0
        self._class_factors = factors
        return self._factor_of(target)

    def _factor_of(self, target: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
        if self._class_factors is None:
            return None
        return SampleFactors(self._class_factors, target, self.n_classes_)

    def _kept_factor(self) -> Callable[[np.ndarray], np.ndarray] | None:
        if self._class_factors is None:
            return None
        assert self._train_target is not None
        return self._factor_of(self._train_target)

    def _known_target(self, y: Any, n_rows: int) -> np.ndarray:
        return check_target_classification(
            y, n_rows, classes=self.classes_, estimator_name=type(self).__name__
        )[0]

    def _tree_error(
        self, target: np.ndarray, predicted: np.ndarray, weight: np.ndarray | None
    ) -> float:
        if predicted.shape[1] == 1 < self.n_classes_:
            codes = predicted[:, 0] > 0.5
        else:
            codes = predicted.argmax(axis=1)
        return float(np.average(codes != target, weights=weight))


class ExtraTreesRegressor(RandomForestRegressor):
    """Extremely randomised trees for regression (Geurts, Ernst and Wehenkel 2006).

    A random forest whose trees are grown on all rows, and whose splits take the best of one
    threshold per feature, drawn between the smallest and the largest value in the node. Takes the
    parameters of scikit-learn's ``ExtraTreesRegressor``, with the same defaults.

    Notes
    -----
    Values are in at most `max_bins` bins, so that features of more distinct values are cut between
    bins only; within a node, the rows of a bin stand in the middle of its values. A threshold of
    categories is a place in their order by mean response.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import ExtraTreesRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = ExtraTreesRegressor(random_state=0).fit(X[:100], X[:100, 0])
    >>> bool(model.score(X[100:], X[100:, 0]) > 0.8)
    True
    """

    bootstrap: bool = False
    splitter: Splitter = "random"


class ExtraTreesClassifier(RandomForestClassifier):
    """Extremely randomised trees for classification; see `ExtraTreesRegressor`.

    Takes the parameters of scikit-learn's ``ExtraTreesClassifier``, with the same defaults.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import ExtraTreesClassifier
    >>> X = np.arange(20.0)[:, None]
    >>> model = ExtraTreesClassifier(random_state=0).fit(X, np.where(X[:, 0] > 9, "b", "a"))
    >>> model.predict([[2.0], [17.0]])
    array(['a', 'b'], dtype='<U1')
    """

    bootstrap: bool = False
    splitter: Splitter = "random"
