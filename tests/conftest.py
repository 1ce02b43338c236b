"""Shared settings: at most two threads, repeatable property tests, data beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

# Before any library with a thread pool is imported: tests share their machine.
MAX_THREADS = 2
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    _asked = os.environ.get(_variable, "")
    if not _asked.isdigit() or not 1 <= int(_asked) <= MAX_THREADS:
        os.environ[_variable] = str(MAX_THREADS)
# A thread that waits gives its core to the other test process, instead of spinning on it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# A kernel test draws whole tables, which hypothesis finds slow, and debug builds are slower
# still: so no deadline and no complaint about it.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=30, **_COMMON)
settings.register_profile("ci", max_examples=30, derandomize=True, database=None, **_COMMON)
settings.register_profile("thorough", max_examples=1000, **_COMMON)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of public data sets beside the repository; the test is skipped without it."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"no folder ../shared/data beside the repository ({SHARED_DATA.parent.name})")
    return SHARED_DATA


@pytest.fixture
def rng():
    """Return a NumPy generator with a fixed seed."""
    import numpy as np

    return np.random.default_rng(20260101)


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weight(request, rng):
    """No weights, or as many as the module's N_ROWS, every seventh of them 0."""
    if not request.param:
        return None
    weight = rng.exponential(size=request.module.N_ROWS)
    weight[::7] = 0.0
    return weight
