"""The model families, one file each."""

from hybridtrees._persistence import register
from hybridtrees.core.tree.tree import TreeEnsemble

# What fitted models are made of, and a model file may therefore hold.
register(TreeEnsemble)
