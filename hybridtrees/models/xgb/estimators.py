"""XGBoost-style boosting: Newton steps, regularised leaves, xgboost's parameter names."""

from __future__ import annotations

from hybridtrees.core.grow.params import GrowerParams
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


class XGBRFModel(XGBModel):
    """A forest of XGBoost: one round of many trees, with the defaults of such a round.

    Parameters
    ----------
    n_estimators : int
        Number of trees of an output.
    num_parallel_tree : None
        Not used: `n_estimators` is the number of trees.
    early_stopping_rounds : None
        There is one round, so that nothing can stop early.
    """

    learning_rate: float = 1.0
    subsample: float = 0.8
    colsample_bynode: float = 0.8
    reg_lambda: float = 1e-5

    def _check_parameters(self) -> GrowerParams:
        if self.early_stopping_rounds is not None:
            raise NotImplementedError(
                f"early_stopping_rounds of {type(self).__name__} must be None: it grows one round"
            )
        return super()._check_parameters()

    def _n_rounds(self) -> int:
        return 1

    def _n_parallel(self) -> int:
        return self.n_estimators

    def get_num_boosting_rounds(self) -> int:
        """Return 1, the number of rounds."""
        return 1


@lists_losses
class XGBRFRegressor(XGBRFModel, BoostedRegressor):
    """A random forest on gradients, for regression: a preset of `XGBRegressor`.

    One round of `n_estimators` trees, each on 80 % of the rows and 80 % of the features of a node,
    as ``xgboost.XGBRFRegressor``. `RandomForestRegressor` is Breiman's forest.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import XGBRFRegressor
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = XGBRFRegressor(n_estimators=20, random_state=0).fit(X, X[:, 0] > 100)
    >>> model.predict(X[:1]).round(2)
    array([0.])
    """


@lists_losses
class XGBRFClassifier(XGBRFModel, BoostedClassifier):
    """A random forest on gradients, for classification: a preset of `XGBClassifier`.

    One round of `n_estimators` trees for two classes, as many for each class else, each on 80 % of
    the rows and 80 % of the features of a node, as ``xgboost.XGBRFClassifier``.
    `RandomForestClassifier` is Breiman's forest.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import XGBRFClassifier
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = XGBRFClassifier(n_estimators=20, random_state=0)
    >>> model.fit(X, np.where(X[:, 0] > 100, "high", "low")).predict(X[-1:])
    array(['high'], dtype='<U4')
    """
