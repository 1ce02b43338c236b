"""Compare ensembles with scikit-learn's: time or size, and scores.

Cases are dicts in the lists ``CASES`` of the modules in ``ensemble_cases``, with the keys

    name   str
    goal   ratio to reach
    limit  ratio that is too little
    ours   callable: number of threads -> (figure, score); it does the work anew
    peer   the same for the other library
    unit   what is compared, such as "time ratio"

and, if they differ from the runner's, ``threads``: the numbers of threads that have a goal.

Both are run in turn in this process, and the order changes from repeat to repeat. The ratio is that
of the minima, ours / peer, so less than 1 is better. Times with one thread are CPU times, which
other programs on the machine do not disturb.

    python asv_bench/ensemble_peers.py                          # every case, 1 and 2 threads
    python asv_bench/ensemble_peers.py --case NAME --threads 1 --repeat 1
    python asv_bench/ensemble_peers.py --list
    python asv_bench/ensemble_peers.py --json result.json
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import measuring

Case = dict[str, Any]

KEYS = {"name", "goal", "limit", "ours", "peer", "unit"}
SIDES = ["ours", "peer"]


def check_case(case: Case, module: str) -> None:
    """Raise ValueError unless a case has what the runner needs."""
    if not isinstance(case, dict) or set(case) - {"threads"} != KEYS:
        raise ValueError(f"{module}: a case must be a dict with the keys {sorted(KEYS)}")
    if not isinstance(case["name"], str) or not case["name"]:
        raise ValueError(f"{module}: the name of a case must be a string, got {case['name']!r}")
    if not 0 < case["goal"] <= case["limit"]:
        raise ValueError(f"{module}: {case['name']} must have 0 < goal <= limit")
    if not all(callable(case[side]) for side in SIDES):
        raise ValueError(f"{module}: ours and peer of {case['name']} must be callable")


def discover(package: str = "ensemble_cases") -> dict[str, Case]:
    """Return the cases of all modules of a package, by name."""
    found: dict[str, Case] = {}
    folder = importlib.import_module(package)
    for module in sorted(info.name for info in pkgutil.iter_modules(folder.__path__)):
        if module.startswith("_"):
            continue
        for case in getattr(importlib.import_module(f"{package}.{module}"), "CASES", ()):
            check_case(case, module)
            if case["name"] in found:
                raise ValueError(f"{module}: there are two cases with the name {case['name']!r}")
            found[case["name"]] = case
    return found


def run_case(case: Case, threads: int, repeats: int) -> dict[str, Any]:
    """Run both sides in turn, and return their figures."""
    runs: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
    for side in measuring.rotations(SIDES, repeats):
        figure, score = case[side](threads)
        runs[side].append((float(figure), float(score)))
    best = {side: min(figure for figure, _ in found) for side, found in runs.items()}
    ratio = best["ours"] / best["peer"] if best["peer"] else float("inf")
    return {
        "name": case["name"],
        "threads": threads,
        "unit": case["unit"],
        **best,
        "ratio": ratio,
        "goal": case["goal"],
        "limit": case["limit"],
        "verdict": measuring.verdict(ratio, case["goal"], case["limit"]),
        # Seeds may differ from call to call.
        **{f"{side}_score": statistics.fmean(score for _, score in runs[side]) for side in SIDES},
        "runs": runs,
    }


def table_rows(records: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return a table of text with a line for each case and number of threads."""
    heads = ["case", "unit", "threads", "ours", "peer", "ratio", "goal", "limit", "verdict",
             "our score", "peer score"]  # fmt: skip
    rows = [heads]
    for found in records:
        figures = [f"{found[key]:.4g}" for key in ("ours", "peer")]
        ratios = [f"{found[key]:.3f}" for key in ("ratio", "goal", "limit")]
        scores = [f"{found[key]:.5f}" for key in ("ours_score", "peer_score")]
        facts = [found["name"], found["unit"], str(found["threads"])]
        rows.append([*facts, *figures, *ratios, found["verdict"], *scores])
    return rows


def make_parser(cases: dict[str, Case]) -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    count = measuring.positive(int)
    parser.add_argument("--case", nargs="+", choices=cases, default=list(cases), metavar="CASE")
    parser.add_argument("--threads", nargs="+", type=count, help="default: 1 2, or those of a case")
    parser.add_argument("--repeat", type=count, default=3)
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--json", type=Path, help="also write every figure to this file")
    return parser


def main(arguments: list[str] | None = None, package: str = "ensemble_cases") -> int:
    """Run the comparison; 1 if a case failed or there is none."""
    cases = discover(package)
    options = make_parser(cases).parse_args(arguments)
    if options.list:
        print("\n".join(cases))
        return 0
    facts = measuring.print_machine()
    records, failed = [], not options.case
    for name in options.case:
        for threads in options.threads or cases[name].get("threads", (1, 2)):
            try:
                records.append(run_case(cases[name], threads, options.repeat))
            except Exception as error:  # the other cases are still worth running
                failed = True
                print(f"  {name}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            measuring.print_rows(table_rows(records[-1:]))
            sys.stdout.flush()
    if len(records) > 1:
        measuring.print_rows(table_rows(records), "all cases")
    measuring.write_json(options.json, facts, records, repeats=options.repeat)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
