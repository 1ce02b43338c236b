"""One thread for BLAS and LAPACK, so that results do not depend on how many there are."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any


@functools.cache
def _controller() -> Any:
    # After SciPy's own BLAS is loaded, which the controller would else not know.
    import scipy.linalg.cython_blas  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def sequential_blas() -> AbstractContextManager:
    """Context in which BLAS and LAPACK use one thread; our own threads call them block by block."""
    return _controller().limit(limits=1, user_api="blas")
