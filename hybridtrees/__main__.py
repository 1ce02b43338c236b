"""The command line as ``python -m hybridtrees``."""

import sys

from hybridtrees.cli import main

if __name__ == "__main__":
    sys.exit(main())
