"""Features that users choose by name, number or mask."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.input.validation import FeatureReader, _feature_index


def choose_features(linear_features: Any, reader: FeatureReader) -> NDArray[np.int64]:
    """Numbers of the features of the regression: all, or those given by name, number or mask."""
    n = reader.n_features_in
    if linear_features is None:
        return np.arange(n, dtype=np.int64)
    given = np.asarray(linear_features)
    if isinstance(linear_features, str) or given.ndim != 1:
        raise ValueError(
            "linear_features must be None or a sequence of names, numbers or booleans, got "
            f"{linear_features!r}"
        )
    if given.dtype == bool:
        if len(given) != n:
            raise ValueError(
                f"linear_features is a mask of {len(given)} entries, but X has {n} features"
            )
        chosen = np.flatnonzero(given)
    else:
        try:
            found = {_feature_index(item, n, reader.feature_names_in) for item in linear_features}
        except (TypeError, ValueError) as error:
            message = str(error).replace("categorical_features", "linear_features")
            raise type(error)(message) from None
        chosen = np.array(sorted(found), dtype=np.int64)
    if not len(chosen):
        raise ValueError("linear_features must name at least one feature")
    return chosen.astype(np.int64)
