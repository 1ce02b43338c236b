"""Gradient boosting with piece-wise linear trees, split by the gain of their linear leaves."""

from __future__ import annotations

from hybridtrees.losses import lists_losses
from hybridtrees.models.plgb.base import PiecewiseLinearModel
from hybridtrees.models.shared.boosted_targets import BoostedClassifier, BoostedRegressor


@lists_losses
class PLGBRegressor(PiecewiseLinearModel, BoostedRegressor):
    """Gradient boosting with piece-wise linear trees, for regression.

    Every leaf is a linear function of a few features, and the gain of a split is that of the linear
    functions of both children (Shi, Li and Li 2019). Otherwise it is Newton boosting, with the
    losses, constraints and early stopping of `XGBRegressor`; with ``max_leaf_features=0`` it is
    that model. For absolute and quantile errors, leaves are re-estimated by reweighted least
    squares.

    References
    ----------
    Shi, Y., Li, J. and Li, Z. (2019). Gradient boosting with piece-wise linear regression trees.
    IJCAI.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import PLGBRegressor
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> model = PLGBRegressor(n_estimators=1, learning_rate=1, max_leaves=2, reg_lambda=0)
    >>> model.fit(X, np.abs(X[:, 0])).predict([[-0.5], [0.25]]).round(3)
    array([0.5 , 0.25])
    """


@lists_losses
class PLGBClassifier(PiecewiseLinearModel, BoostedClassifier):
    """Gradient boosting with piece-wise linear trees, for classification.

    One tree per round for two classes, one per class and round for more; see `PLGBRegressor` for
    the method.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import PLGBClassifier
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = PLGBClassifier(n_estimators=20).fit(X, np.where(X[:, 0] > 100, "high", "low"))
    >>> model.predict(X[-1:])
    array(['high'], dtype='<U4')
    """
