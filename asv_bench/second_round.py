"""The second round of speed: what was slower than a peer, with its goal.

Cases are like those of ``ensemble_peers.py``, in the modules of ``second_round_cases``: one for
each topic, a function for each side of a case. A case may have a key ``threads``, the numbers of
threads that it has a goal for. Where a goal is a time rather than a ratio, `peer` returns
(1.0, nan), so that the ratio is the time in seconds.

    python asv_bench/second_round.py                            # every case
    python asv_bench/second_round.py --case NAME --repeat 1
    python asv_bench/second_round.py --list
    python asv_bench/second_round.py --json result.json
"""

from __future__ import annotations

import sys

import ensemble_peers


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; 1 if a case failed or there is none."""
    return ensemble_peers.main(arguments, "second_round_cases")


if __name__ == "__main__":
    sys.exit(main())
