"""Import and export of models.

Models of other libraries are imported (`from_*`): they predict, are read, saved and loaded like our
own. Our models are exported for other programs (`to_*`) and compiled (`compiled.py`).
"""

from hybridtrees.exchange.models import ImportedClassifier, ImportedRegressor

__all__ = ["ImportedClassifier", "ImportedRegressor"]
