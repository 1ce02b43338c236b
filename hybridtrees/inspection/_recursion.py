"""Mean scores of rows of which only some features are known, by the paths of the trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.tree._shap import ShapTrees, add_path_values
from hybridtrees.core.tree.additive import AdditiveForm
from hybridtrees.inspection.shap_values import Floats, explained_part, linear_form


def known_scores(estimator: Any, table: Any, known: list[int]) -> Floats:
    """Return the scores of rows if only the features `known` are, (n_rows, n_outputs).

    At a split on another feature a row goes both ways, in the proportions of the training rows.
    """
    form = linear_form(estimator, 'partial dependence by method="recursion"')
    n_threads = effective_threads(getattr(estimator, "n_jobs", None))
    return _scores(form, form.read(table), known, n_threads)


def _scores(form: AdditiveForm, codes: NDArray[Any], known: list[int], n_threads: int) -> Floats:
    base, trees = explained_part(form)
    scores = np.tile(base, (len(codes), 1))
    if trees is not None:
        # Of two players, the known features and all others, the main effect of the first is what
        # the known features change alone: what they change together is in the interaction.
        is_known = np.isin([column.feature for column in form.columns], known)
        laid = ShapTrees(trees, np.where(is_known, 0, 1), 2)
        columns = np.array(form.make_columns(codes), dtype=np.float64)
        columns[:, ~is_known] = np.nan
        values = np.zeros((*scores.shape, 2))
        pairs = np.zeros((*scores.shape, 2, 2))
        add_path_values(laid, columns, values, pairs, n_threads)
        scores += laid.base + pairs[:, :, 0, 0]
    for weight, inner in form.inner:
        scores += weight * _scores(inner, codes, known, n_threads)
    return scores
