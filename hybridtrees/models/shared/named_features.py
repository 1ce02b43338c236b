"""Features that a user names for the linear part of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.input.columns import column_indices
from hybridtrees.input.validation import FeatureReader


def choose_features(linear_features: Any, reader: FeatureReader) -> NDArray[np.int64]:
    """Numbers of the features of the regression: all, or those given by name, number or mask."""
    n, names = reader.n_features_in, reader.feature_names_in
    chosen = column_indices(linear_features, n, names, "linear_features")
    if not len(chosen):
        raise ValueError("linear_features must name at least one feature")
    return chosen
