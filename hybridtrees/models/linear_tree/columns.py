"""Columns of a linear tree: those it splits on, and its regressors."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hybridtrees._persistence import register
from hybridtrees.core.base.checks import (
    Checked,
    check_arrays,
    check_count,
    check_numbers,
    check_type,
)
from hybridtrees.core.tree.additive import Column, feature_columns
from hybridtrees.input.columns import column_indices
from hybridtrees.input.validation import FeatureReader

Indices = NDArray[np.int64]

# With more regressors, the sums of their products in every bin would take gigabytes.
MAX_REGRESSORS = 1000

# Effects of categories that are not asked for leave 20 rows per coefficient. A leaf has two at
# least, so that ten leaves are still possible. Nor do they take the number of regressors beyond
# that up to which all splits are tried: larger regressions cost time and, when a tree is pruned by
# an information criterion, leaves.
_ROWS_PER_REGRESSOR = 20
_MAX_WITH_EFFECTS = 40


@register
class LinearColumns(Checked):
    """Columns of the table that a linear tree reads: the features, then indicators of categories.

    `split` and `linear` are indices of the columns to split on and of the regressors; `effects`
    holds the feature and the category code of each indicator.
    """

    def __init__(
        self,
        reader: FeatureReader,
        split_features: Any,
        linear_features: Any,
        effects: bool | Literal["auto"],
        n_rows: int,
    ):
        given, n_features = reader.feature_names_in, reader.n_features_in
        self.n_features = int(n_features)
        self.split = column_indices(
            split_features, n_features, given, "split_features", required=True
        )
        linear = column_indices(linear_features, n_features, given, "linear_features")
        mask = reader.is_categorical
        if linear_features is not None and mask[linear].any() and not effects:
            named = int(linear[mask[linear]][0])
            raise ValueError(
                f"linear_features holds feature {named}, which is categorical: set "
                "categorical_effects=True to regress on its categories"
            )
        names = [f"x{f}" for f in range(n_features)] if given is None else [str(n) for n in given]
        pairs = []
        with_effects = linear[mask[linear]] if effects else linear[:0]
        if effects == "auto" and linear_features is None:
            with_effects = _affordable(reader, linear, n_rows)
        for f in with_effects:
            labels = reader.coded[f]
            for code, label in enumerate(() if labels is None else labels):
                pairs.append((f, code))
                names.append(f"{names[f]}={label}")
        self.effects = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        self.names = names
        own = np.arange(n_features, n_features + len(pairs))
        self.linear = np.concatenate([linear[~mask[linear]], own]).astype(np.int64)
        if len(self.linear) > MAX_REGRESSORS:
            raise ValueError(
                f"linear_features leaves {len(self.linear)} regressors, and every candidate split "
                f"solves for all of them: choose at most {MAX_REGRESSORS}"
            )
        self.is_categorical = np.concatenate([mask, np.zeros(len(pairs), dtype=bool)])

    def _check_state(self) -> None:
        """Refuse columns that do not exist."""
        n_features = check_count(self, "n_features", 1)
        n_columns = n_features + len(self.effects)
        check_arrays(
            self,
            {
                "split": ("i8", "n_split"),
                "linear": ("i8", "n_linear"),
                "effects": ("i8", "n_effects", 2),
                "is_categorical": (bool, n_columns),
            },
        )
        check_numbers(self.split, "split of LinearColumns", 0, n_features)
        check_numbers(self.linear, "linear of LinearColumns", 0, n_columns)
        check_numbers(self.effects[:, 0], "effects of LinearColumns", 0, n_features)
        if len(check_type(self, "names", list)) != n_columns:
            raise ValueError(f"{n_columns} columns have {len(self.names)} names")
        if not all(isinstance(name, str) for name in self.names):
            raise ValueError("the names of LinearColumns must be strings")

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.names)

    def by_feature(self, gains: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers of the regressors summed by feature."""
        feature = np.append(np.arange(self.n_features), self.effects[:, 0])[self.linear]
        sums = np.bincount(feature, weights=gains, minlength=self.n_features)
        return sums.astype(np.float64, copy=False)

    def forms(self, reader: FeatureReader) -> tuple[Column, ...]:
        """Return what each column is made of."""
        indicators = [Column(int(f), "indicator", int(code)) for f, code in self.effects]
        return (*feature_columns(reader), *indicators)

    def expand(self, values: Any) -> Any:
        """Return the columns for a table of features."""
        if not len(self.effects):
            return values
        if hasattr(values, "toarray"):
            values = values.toarray()
        codes = values[:, self.effects[:, 0]]
        effects = (codes == self.effects[:, 1]).astype(values.dtype)
        effects[np.isnan(codes)] = np.nan
        return np.hstack([values, effects])


def _affordable(reader: FeatureReader, linear: Indices, n_rows: int) -> Indices:
    """Return categorical features, those of few categories first, as far as the rows suffice."""
    mask = reader.is_categorical
    most = min(n_rows // _ROWS_PER_REGRESSOR, _MAX_WITH_EFFECTS)
    sizes = {int(f): len(labels) for f in linear if (labels := reader.coded[f]) is not None}
    total, chosen = int((~mask[linear]).sum()), []
    for f in sorted(sizes, key=lambda f: (sizes[f], f)):
        total += sizes[f]
        if total > most:
            break
        chosen.append(f)
    return np.array(sorted(chosen), dtype=np.int64)
