"""Mean scores of rows of which only some features are known, by the paths of the trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.tree._walk import add_known_scores
from hybridtrees.core.tree.additive import AdditiveForm
from hybridtrees.inspection.shap_values import Floats, explained_part, linear_form


def known_scores(estimator: Any, table: Any, known: list[int]) -> Floats:
    """Return the scores of rows if only the features `known` are, (n_rows, n_outputs).

    At a split on another feature a row goes both ways, in the proportions of the training rows.
    """
    form = linear_form(estimator, 'partial dependence by method="recursion"')
    return _scores(form, form.read(table), known)


def _scores(form: AdditiveForm, codes: NDArray[Any], known: list[int]) -> Floats:
    base, trees = explained_part(form)
    scores = np.tile(base, (len(codes), 1))
    if trees is not None:
        is_known = [column.feature in known for column in form.columns]
        table = np.asarray(form.make_columns(codes), dtype=np.float64)
        add_known_scores(trees, np.array(is_known, dtype=np.uint8), table, scores)
    for weight, inner in form.inner:
        scores += weight * _scores(inner, codes, known)
    return scores
