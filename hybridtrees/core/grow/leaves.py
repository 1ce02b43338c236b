"""Models of the leaves of grown trees: constants. Linear ones are in `linear_leaves`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.tree.tree import Tree, TreeEnsemble

if TYPE_CHECKING:
    from hybridtrees.core.grow.grower import Grower, GrowerParams


class LeafModel:
    """What a leaf predicts: a number, unless a subclass says otherwise."""

    def fit(self, grown: Grown, statistics: Any, grower: Grower, scale: float) -> Tree:
        """Make the tree of what was grown, its outputs times `scale`."""
        raise NotImplementedError

    def add_to(
        self, grower: Grower, tree: Tree, raw: NDArray[np.float64], values: NDArray | None
    ) -> None:
        """Add the tree grown last to the scores of all rows; see `Grower.add_to`."""
        if not grower.add_values(tree.values[:, 0] if values is None else values, raw):
            table = grower.table
            ensemble = TreeEnsemble([tree], table.n_features)
            ensemble.add_raw(table.values, raw.reshape(-1, 1), grower.n_threads)


class BareLeaves(LeafModel):
    """No outputs: the leaves are fitted elsewhere."""

    def fit(self, grown: Grown, statistics: Any, grower: Grower, scale: float) -> Tree:
        """Make the tree; see `LeafModel.fit`."""
        return Tree(grown.nodes, np.zeros((len(grown.nodes), 1)), grown.categories)


class NewtonLeaves(LeafModel):
    """Minima of the penalised quadratic loss, from sums of gradients and hessians."""

    def __init__(self, params: GrowerParams):
        self.params = params

    def fit(self, grown: Grown, statistics: Any, grower: Grower, scale: float) -> Tree:
        """Make the tree; see `LeafModel.fit`."""
        values = newton_values(grown.sums, self.params, grown)
        return Tree(grown.nodes, values * scale, grown.categories)


class MeanLeaves(LeafModel):
    """Means of one target."""

    def fit(self, grown: Grown, statistics: Any, grower: Grower, scale: float) -> Tree:
        """Make the tree; see `LeafModel.fit`."""
        values = grown.sums[:, 0] / grown.sums[:, 1] + statistics.center
        return Tree(grown.nodes, values * scale, grown.categories)


def newton_values(sums: NDArray, params: GrowerParams, bounds: Grown | None) -> NDArray[np.float64]:
    """Leaf values that minimise the penalised quadratic loss, within the bounds of the nodes."""
    grad, hess = sums[:, 0], sums[:, 1] + params.reg_lambda
    shrunk = grad
    if params.reg_alpha > 0:
        shrunk = np.sign(grad) * np.maximum(np.abs(grad) - params.reg_alpha, 0.0)
    values = np.divide(-shrunk, hess, out=np.zeros(len(grad)), where=hess > 0)
    if params.max_delta_step > 0:
        values = np.clip(values, -params.max_delta_step, params.max_delta_step)
    if params.monotonic is not None and bounds is not None:
        values = np.clip(values, bounds.lower, bounds.upper)
    return values
