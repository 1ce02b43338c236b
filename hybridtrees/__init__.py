"""hybridtrees: fast trees, forests and boosting, and their hybrids with regression."""

try:
    from hybridtrees.core import _grow  # noqa: F401
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "the compiled kernels of hybridtrees are missing. If this is the source folder, leave it "
        "to use an installed hybridtrees, or build in place with: pip install -e ."
    ) from error

from hybridtrees._persistence import load
from hybridtrees._version import __version__
from hybridtrees.core.bins import BinMapper, BinnedMatrix
from hybridtrees.core.sketch import QuantileSketch
from hybridtrees.models.xgboosting import XGBClassifier, XGBRegressor

__all__ = [
    "BinMapper",
    "BinnedMatrix",
    "QuantileSketch",
    "XGBClassifier",
    "XGBRegressor",
    "__version__",
    "load",
]
