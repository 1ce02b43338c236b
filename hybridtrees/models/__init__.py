"""The model families, one folder each, and what they share."""

from hybridtrees._persistence import register
from hybridtrees.core.tree.tree import TreeEnsemble

# Model files may hold this class.
register(TreeEnsemble)
