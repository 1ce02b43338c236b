"""Inspection of fitted models: exported and plotted trees, importance and effect of features."""

from hybridtrees.inspection.export import export_dot, export_text
from hybridtrees.inspection.importance import PermutationImportance, permutation_importance
from hybridtrees.inspection.model_plots import (
    plot_decision_surface,
    plot_importance,
    plot_roc_curve,
)
from hybridtrees.inspection.partial_dependence import PartialDependence, partial_dependence
from hybridtrees.inspection.partial_plots import plot_partial_dependence
from hybridtrees.inspection.pieces import LinearPieces, linear_pieces, plot_pieces
from hybridtrees.inspection.plots import plot_tree
from hybridtrees.inspection.shap_plots import (
    plot_shap_bar,
    plot_shap_beeswarm,
    plot_shap_dependence,
    plot_shap_waterfall,
)
from hybridtrees.inspection.shap_values import ShapValues, shap_values

__all__ = [
    "LinearPieces",
    "PartialDependence",
    "PermutationImportance",
    "ShapValues",
    "export_dot",
    "export_text",
    "linear_pieces",
    "partial_dependence",
    "permutation_importance",
    "plot_decision_surface",
    "plot_importance",
    "plot_partial_dependence",
    "plot_pieces",
    "plot_roc_curve",
    "plot_shap_bar",
    "plot_shap_beeswarm",
    "plot_shap_dependence",
    "plot_shap_waterfall",
    "plot_tree",
    "shap_values",
]
