"""XGBoost-style boosting: Newton steps, regularised leaves, xgboost's parameter names."""

from __future__ import annotations

from hybridtrees.losses import lists_losses
from hybridtrees.models.shared.boosted_targets import BoostedClassifier, BoostedRegressor
from hybridtrees.models.xgb.base import XGBModel


@lists_losses
class XGBRegressor(XGBModel, BoostedRegressor):
    """Gradient boosting like that of XGBoost, for regression.

    Newton boosting with regularised leaves (Chen and Guestrin 2016), on binned features unless
    `tree_method` says otherwise. Takes the parameters of ``xgboost.XGBRegressor`` that the two
    share, with the same defaults.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import XGBRegressor
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = XGBRegressor(n_estimators=20).fit(X, X[:, 0] > 100)
    >>> model.predict(X[:1]).round(2)
    array([0.])
    """


@lists_losses
class XGBClassifier(XGBModel, BoostedClassifier):
    """Gradient boosting like that of XGBoost, for classification.

    Newton boosting with regularised leaves (Chen and Guestrin 2016): one tree per round for two
    classes, one per class and round for more. Takes the parameters of ``xgboost.XGBClassifier``
    that the two share, with the same defaults.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import XGBClassifier
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = XGBClassifier(n_estimators=20).fit(X, np.where(X[:, 0] > 100, "high", "low"))
    >>> model.predict(X[-1:])
    array(['high'], dtype='<U4')
    """
