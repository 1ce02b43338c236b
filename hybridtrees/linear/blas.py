"""Single-threaded BLAS and LAPACK, so that results do not depend on the number of threads."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any


@functools.cache
def _controller() -> Any:
    # The controller only knows libraries that are loaded: import SciPy's BLAS first.
    import scipy.linalg.cython_blas  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def sequential_blas() -> AbstractContextManager[Any]:
    """Return a context in which BLAS uses one thread; our own threads call it for blocks."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited
