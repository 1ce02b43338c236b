"""Drawings of a single tree as methods, under the names that linear-tree has for them."""

from __future__ import annotations

from typing import Any


class TreeDrawings:
    """Methods of a model of one tree that draw it."""

    def plot_model(self, feature_names: Any = None, max_depth: int | None = None) -> list[Any]:
        """Draw the tree; needs matplotlib. See `hybridtrees.inspection.plot_tree` for more options.

        Parameters
        ----------
        feature_names : sequence of str, optional
            Names in place of those seen in fit.
        max_depth : int, optional
            Maximum depth that is drawn.

        Returns
        -------
        annotations : list of matplotlib annotations
        """
        from hybridtrees.inspection import plot_tree

        return plot_tree(self, feature_names=feature_names, max_depth=max_depth)

    def model_to_dot(self, feature_names: Any = None, max_depth: int | None = None) -> str:
        """Return the tree in DOT format; see `hybridtrees.inspection.export_dot`.

        Parameters
        ----------
        feature_names : sequence of str, optional
            Names in place of those seen in fit.
        max_depth : int, optional
            Maximum depth that is drawn.

        Returns
        -------
        source : str
            For Graphviz.
        """
        from hybridtrees.inspection import export_dot

        source = export_dot(self, feature_names=feature_names, max_depth=max_depth)
        assert source is not None  # there is no file
        return source
