"""Test scores of hybridtrees and its peers over several seeds of the benchmark data.

The data hold products of symmetric columns, which no single split can see: the round in which a
tree first cuts one of them is chance, and one draw of the data moves the score of any library by
percents. ``peers.py`` measures one draw; this script says how much of its ratio is luck.

    python asv_bench/score_spread.py --case logistic --seeds 8 --scale 0.1
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

import numpy as np
from benchmarks.datasets import make_data, score
from peers import CASES
from peers_worker import LIBRARIES


def ratios(name: str, peer: str, seeds: int, scale: float, threads: int) -> np.ndarray:
    """Score of hybridtrees divided by that of the peer, one number per seed."""
    case = CASES[name]
    n = max(1000, int(case.n * scale))
    found = []
    for seed in range(seeds):
        data = make_data(n, case.p, case.task, zero_inflated=case.zero_inflated, seed=seed)
        scores = []
        for library in ("hybridtrees", peer):
            model = LIBRARIES[library](case.task, asdict(case.work), threads)
            model.fit(data.X, data.y)
            scores.append(score(case.task, data.y_test, model.predict(data.X_test)))
        found.append(scores[0] / scores[1])
    return np.array(found)


def main() -> None:
    """Print mean, standard error and range of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", nargs="+", default=["regression", "logistic"])
    parser.add_argument("--peer", nargs="+", default=["lightgbm"])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--scale", type=float, default=0.1, help="fraction of the rows")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    for name in options.case:
        for peer in options.peer:
            r = ratios(name, peer, options.seeds, options.scale, options.threads)
            error = r.std(ddof=1) / np.sqrt(len(r))
            print(
                f"{name:<14} hybridtrees / {peer:<20} {r.mean():.4f} +- {error:.4f}"
                f"   range {r.min():.4f} to {r.max():.4f}   {len(r)} seeds",
                flush=True,
            )


if __name__ == "__main__":
    main()
