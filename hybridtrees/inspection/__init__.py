"""Inspection of fitted models: exported and plotted trees, importance and effect of features."""

from hybridtrees.inspection.export import export_dot, export_text
from hybridtrees.inspection.importance import PermutationImportance, permutation_importance
from hybridtrees.inspection.local_effects import (
    AccumulatedLocalEffects,
    accumulated_local_effects,
    plot_accumulated_local_effects,
    plot_metric,
)
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
from hybridtrees.inspection.tables import to_dataframe

__all__ = [
    "AccumulatedLocalEffects",
    "LinearPieces",
    "PartialDependence",
    "PermutationImportance",
    "ShapValues",
    "accumulated_local_effects",
    "export_dot",
    "export_text",
    "linear_pieces",
    "partial_dependence",
    "permutation_importance",
    "plot_accumulated_local_effects",
    "plot_decision_surface",
    "plot_importance",
    "plot_metric",
    "plot_partial_dependence",
    "plot_pieces",
    "plot_roc_curve",
    "plot_shap_bar",
    "plot_shap_beeswarm",
    "plot_shap_dependence",
    "plot_shap_waterfall",
    "plot_tree",
    "shap_values",
    "to_dataframe",
]
