"""Named members whose predictions are also the output of `transform`."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees.ensembles.out_of_fold import FoldedMembers
from hybridtrees.models.shared.output_names import OutputMixin


class TransformingMembers(OutputMixin, FoldedMembers):
    """An ensemble that also transforms a table into the predictions of its members."""

    def fit_transform(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, time: Any = None
    ) -> Any:
        """Fit all models and return what `transform` returns; arguments as in `fit`."""
        model: Any = self
        return model.fit(X, y, sample_weight, groups=groups, time=time).transform(X)

    def transform(self, X: Any) -> Any:
        """Return the predictions of the members."""
        raise NotImplementedError

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of `transform`.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the features, by default those of `fit`.

        Returns
        -------
        names : ndarray of str
        """
        self._check_is_fitted()
        known = getattr(self, "feature_names_in_", None)
        if input_features is not None:
            known = self._check_input_features(input_features)
        prefix = type(self).__name__.lower()
        names = [f"{prefix}_{name}" for name in self._column_names()]
        return np.array([*names, *self._passed_names(known)], dtype=object)

    def _column_names(self) -> list[str]:
        """Names of the members' columns."""
        return list(self._names)

    def _passed_names(self, known: Any) -> list[str]:
        """Names of the features that are columns of `transform`, too."""
        return []

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a model that also transforms."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        return tags
