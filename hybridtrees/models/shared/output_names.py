"""Output of transformers: names, scikit-learn's `set_output`, data frames with filled columns."""

from __future__ import annotations

import sys
from typing import Any, Self

import numpy as np

from hybridtrees._parameters import check_option
from hybridtrees.base import Estimator

CONTAINERS = ("default", "pandas", "polars")


class OutputMixin:
    """Gives a transformer scikit-learn's `set_output`."""

    n_features_in_: int

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the container that `transform` and `fit_transform` return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            An array, or a data frame; None leaves the setting unchanged.

        Returns
        -------
        self : estimator
        """
        if transform is not None:
            check_option("transform", transform, CONTAINERS)
            self._sklearn_output_config = {"transform": transform}
        return self

    def _check_input_features(self, given: Any) -> np.ndarray:
        """Return feature names as an array; they must be those of fit, if it had names."""
        names = np.asarray(given, dtype=object)
        known = getattr(self, "feature_names_in_", None)
        if known is not None and not np.array_equal(known, names):
            raise ValueError("input_features is not equal to feature_names_in_")
        if len(names) != self.n_features_in_:
            raise ValueError(
                "input_features should have length equal to number of features "
                f"({self.n_features_in_}), got {len(names)}"
            )
        return names

    def _container(self) -> str:
        """Name of the container that was set."""
        container: str | None = getattr(self, "_sklearn_output_config", {}).get("transform")
        if container is None:
            # scikit-learn has a global default, which can be set only once it is imported.
            config: dict[str, Any] = getattr(sys.modules.get("sklearn"), "get_config", dict)()
            container = str(config.get("transform_output", "default"))
        return container

    def _wrap(self, table: Any, names: np.ndarray, X: Any) -> Any:
        """Return a table of columns with these names in the container chosen."""
        container = self._container()
        if container in ("default", frame_kind(table)):
            return table
        if isinstance(table, dict) or _package(table) == "pyarrow":
            return _as_frame(table, container)
        if hasattr(table, "toarray"):
            raise ValueError(
                f"set_output(transform={container!r}) needs a dense table, but X is sparse"
            )
        if container == "pandas":
            import pandas

            index = X.index if isinstance(X, pandas.DataFrame) else None
            if frame_kind(table) == "polars":
                table = np.stack([column.to_numpy() for column in table.get_columns()], axis=1)
            made = pandas.DataFrame(table, columns=names, index=index, copy=False)
            return made.infer_objects() if made.dtypes.eq(object).any() else made
        import polars

        labels = [str(name) for name in names]
        if isinstance(table, np.ndarray) and table.dtype != object:
            return polars.DataFrame(table, schema=labels, orient="row")
        columns = [np.asarray(table)[:, j].tolist() for j in range(len(labels))]
        return polars.DataFrame(dict(zip(labels, columns, strict=True)), strict=False)


class Transformer(OutputMixin, Estimator):
    """A transformer that needs no target, and by default leaves names of columns as they are."""

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names to use if `fit` had none; otherwise they must be those of `fit`.

        Returns
        -------
        names : ndarray of str
        """
        self._check_is_fitted()
        given = None if input_features is None else self._check_input_features(input_features)
        names = getattr(self, "feature_names_in_", given)
        if names is None:
            return np.array([f"x{j}" for j in range(self.n_features_in_)], dtype=object)
        return np.asarray(names)

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a transformer that needs no target."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "transformer"
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        tags.target_tags.required = False
        return tags


def _package(table: Any) -> str:
    return type(table).__module__.partition(".")[0]


def _as_frame(table: Any, container: str) -> Any:
    """Return a dict of columns or an Arrow table as a data frame of pandas or polars."""
    if container == "pandas":
        import pandas

        return pandas.DataFrame(table) if isinstance(table, dict) else table.to_pandas()
    import polars

    return polars.DataFrame(table)


def frame_kind(table: Any) -> str | None:
    """Return "pandas" or "polars" for a data frame, None for anything else."""
    package = _package(table)
    return package if package in ("pandas", "polars") and hasattr(table, "columns") else None


def fill_column(
    frame: Any, j: int, gaps: np.ndarray, fills: np.ndarray, numbers: np.ndarray | None
) -> Any:
    """Return a copy of a data frame with the missing entries of column `j` filled.

    `numbers` is the whole filled column of a numeric one, whose type may not hold the fills.
    """
    fill = _fill_pandas if frame_kind(frame) == "pandas" else _fill_polars
    return fill(frame, j, gaps, fills, numbers)


def _fill_pandas(
    frame: Any, j: int, gaps: np.ndarray, fills: np.ndarray, numbers: np.ndarray | None
) -> Any:
    import pandas

    series = frame.iloc[:, j]
    if numbers is not None:
        series = pandas.Series(numbers, index=frame.index, name=series.name)
    elif isinstance(series.dtype, pandas.CategoricalDtype):
        fills, new = _own_labels(fills, list(series.cat.categories))
        series = series.cat.add_categories(new) if new else series.copy()
        series.iloc[np.flatnonzero(gaps)] = fills
    else:
        entries = series.to_numpy(dtype=object, copy=True)
        entries[gaps] = fills
        filled = pandas.Series(entries, index=frame.index, name=series.name, dtype=object)
        try:
            series = filled.astype(series.dtype)
        except (TypeError, ValueError):  # the type cannot hold the labels
            series = filled
    frame = frame.copy()
    frame.isetitem(j, series)
    return frame


def _fill_polars(
    frame: Any, j: int, gaps: np.ndarray, fills: np.ndarray, numbers: np.ndarray | None
) -> Any:
    import polars

    series = frame.to_series(j)
    dtype = series.dtype
    if numbers is not None:
        made = polars.Series(series.name, numbers)
        return frame.with_columns(made.cast(dtype) if dtype.is_float() else made)
    if dtype == polars.Enum:
        fills, new = _own_labels(fills, dtype.categories.to_list())
        dtype = polars.Enum([*dtype.categories.to_list(), *new]) if new else dtype
    entries = series.to_list()
    for row, label in zip(np.flatnonzero(gaps), fills, strict=True):
        entries[row] = label if isinstance(label, str) else float(label)
    return frame.with_columns(polars.Series(series.name, entries, strict=False).cast(dtype))


def _own_labels(fills: np.ndarray, known: list[Any]) -> tuple[np.ndarray, list[Any]]:
    """Return labels as they are in the known categories, and those that are not among them."""
    spelled: dict[Any, Any] = {}
    new = []
    for label in dict.fromkeys(fills.tolist()):
        own = [entry for entry in known if entry == label or str(entry) == label]
        new += [] if own else [label]
        spelled[label] = own[0] if own else label
    made = np.empty(len(fills), dtype=object)
    made[:] = [spelled[label] for label in fills.tolist()]
    return made, new
