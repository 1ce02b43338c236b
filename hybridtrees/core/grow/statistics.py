"""What a search reads of the rows: gradients and hessians, or targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Layouts of targets: see `TargetLayout` in core/base/_types.pxd.
UNIT, PAIR, VECTOR, CLASS, CLASS_WEIGHTED = range(5)


@dataclass(frozen=True)
class RowTarget:
    """Targets of the exact search.

    Attributes
    ----------
    data : float64 array of shape (n_rows, width), C order
        What a row holds; see `TargetLayout`.
    layout : int
    n_sums : int
        Outputs or classes.
    binary : bool
        Whether the one output is 0 or 1, one of two classes.
    """

    data: NDArray[np.float64]
    layout: int
    n_sums: int
    binary: bool = False


class Statistics:
    """What every search begins a tree with, in the form that it asks for.

    Parameters
    ----------
    grad : float32 array of shape (n_rows,), optional
    hess : float32 array of shape (n_rows,), or one number for all rows
    target : RowTarget, optional
        Made of the gradients and hessians where it is not given, and they of it.
    center : float
        What was taken off the targets, to be added to their means.

    Attributes
    ----------
    gain_unit, weight_unit : float
        A gain and a weight of 1 in the search, in units of the user.
    """

    gain_unit = 1.0
    weight_unit = 1.0

    def __init__(
        self,
        grad: NDArray[np.float32] | None = None,
        hess: NDArray[np.float32] | float = 1.0,
        target: RowTarget | None = None,
        center: float = 0.0,
    ):
        self.grad = grad
        self.hess = hess
        self.target = target
        self.center = center

    @property
    def shape(self) -> tuple[int, int]:
        """Sums per node, and numbers per row."""
        if self.target is None:
            return 1, 2
        return self.target.n_sums, self.target.data.shape[1]

    def gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32] | float]:
        """Gradients and hessians; of targets those whose Newton gain is the squared error."""
        if self.grad is not None:
            return self.grad, self.hess
        assert self.target is not None
        data = self.target.data
        grad = np.negative(data[:, 0]).astype(np.float32)
        return grad, 1.0 if data.shape[1] == 1 else data[:, 1].astype(np.float32)

    def targets(self) -> RowTarget:
        """Targets; of gradients and hessians their pairs."""
        if self.target is not None:
            return self.target
        assert self.grad is not None
        data = np.empty((len(self.grad), 2))
        data[:, 0], data[:, 1] = self.grad, self.hess
        if not np.all(np.isfinite(data)):
            raise ValueError(
                "the gradients overflow 32-bit floats: the target or the sample weights are "
                "too large, scale them down"
            )
        return RowTarget(data, PAIR, 1)
