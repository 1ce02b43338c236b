"""Methods of `xgboost.XGBModel` that XGB models have too: the booster, its files, parameters."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._atomic_fit import atomic_fit
from hybridtrees._parameters import attribute

# Each method imports its module when it is called, to keep `import hybridtrees` fast.
if TYPE_CHECKING:
    from hybridtrees.exchange.booster import Booster

# Parameters of `fit` and of the estimator alone, which xgboost.train does not take.
_NOT_TRAINED = (
    "n_estimators", "importance_type", "missing", "callbacks", "early_stopping_rounds",
    "enable_categorical", "feature_types", "categorical_features", "categorical_statistics",
    "conformal", "calibrate", "class_weight", "verbose",
)  # fmt: skip


class XGBoostNames:
    """What `xgboost.XGBModel` has beside `fit` and `predict`."""

    _base_raw_: np.ndarray = attribute()

    def get_booster(self) -> Booster:
        """Return the trees as a light view with the methods of ``xgboost.Booster``.

        Returns
        -------
        booster : Booster
            With ``get_score``, ``get_dump``, ``trees_to_dataframe``, ``num_features``,
            ``num_boosted_rounds``, ``predict``, ``save_model``, ...
        """
        from hybridtrees.exchange.booster import Booster

        self._check_is_fitted()  # type: ignore[attr-defined]
        return Booster(self)

    def save_model(self, fname: str | PathLike[str]) -> None:
        """Write the model as a file of XGBoost, with all rounds; `save` keeps everything.

        Parameters
        ----------
        fname : str or path-like
            The file; replaced if it exists. It is UBJSON if its name ends in ".ubj", else JSON.
        """
        self.get_booster().save_model(fname)

    @atomic_fit
    def load_model(self, fname: Any) -> None:
        """Read a model of XGBoost, of `save_model` here or there.

        Tables are read as XGBoost reads them: numbers are rounded to float32, and entries that a
        sparse table does not store are missing.

        Parameters
        ----------
        fname : str, path-like, bytes or xgboost.Booster
            A file in JSON or UBJSON, its bytes, or a model in memory.
        """
        from hybridtrees.exchange.xgboost_models import take_over

        take_over(self, fname)

    def get_xgb_params(self) -> dict[str, Any]:
        """Return the parameters of the training, without those of `fit` and of the estimator."""
        params: dict[str, Any] = self.get_params()  # type: ignore[attr-defined]
        params = {name: value for name, value in params.items() if name not in _NOT_TRAINED}
        seed = params["random_state"]
        if isinstance(seed, np.random.RandomState):
            params["random_state"] = int(seed.randint(2**31 - 1))
        elif isinstance(seed, np.random.Generator):
            params["random_state"] = int(seed.integers(2**31 - 1))
        return params

    @property
    def intercept_(self) -> NDArray[np.float32]:
        """The base score in the units of `base_score`, one number per output."""
        from hybridtrees.exchange.xgboost_models import base_scores

        self._check_is_fitted()  # type: ignore[attr-defined]
        return base_scores(self)
