"""Tables that a transformer returns, in the container that the user asked for."""

from __future__ import annotations

import sys
from typing import Any, Self

import numpy as np

from hybridtrees._parameters import check_option

CONTAINERS = ("default", "pandas", "polars")


class OutputMixin:
    """Gives a transformer scikit-learn's `set_output`."""

    def set_output(self, *, transform: str | None = None) -> Self:
        """Say what `transform` and `fit_transform` return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            An array, or a data frame; None leaves the choice as it is.

        Returns
        -------
        self : estimator
        """
        if transform is not None:
            check_option("transform", transform, CONTAINERS)
            self._sklearn_output_config = {"transform": transform}
        return self

    def _wrap(self, table: Any, names: np.ndarray, X: Any) -> Any:
        """Return a table of columns with these names in the container chosen."""
        container = getattr(self, "_sklearn_output_config", {}).get("transform")
        if container is None:
            # Only where scikit-learn is loaded can somebody have set its own default.
            config = getattr(sys.modules.get("sklearn"), "get_config", dict)()
            container = config.get("transform_output", "default")
        if container == "default":
            return table
        if hasattr(table, "toarray"):
            raise ValueError(
                f"set_output(transform={container!r}) needs a dense table, but X is sparse"
            )
        if container == "pandas":
            import pandas

            index = X.index if isinstance(X, pandas.DataFrame) else None
            return pandas.DataFrame(table, columns=names, index=index, copy=False)
        import polars

        return polars.DataFrame(table, schema=[str(name) for name in names], orient="row")
