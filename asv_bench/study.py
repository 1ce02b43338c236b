"""Repeat the published study: nine models on six data sets, with the published parameters.

Prints test scores (AUC, the larger the better, or RMSE, the smaller the better) and fit times of
hybridtrees beside those in print, and beside those of the libraries that the study used, run on
this machine. PLGB, which the study could not run, has settings chosen on the validation rows; the
peer beside it is LightGBM with linear leaves and the same settings.

The data are parquet files ``<name>_{train,validation,test}`` in a folder beside the repository.
Models are fitted to training and validation rows; times are of that fit alone.

    python asv_bench/study.py                          # everything, two threads
    python asv_bench/study.py --no-peers               # hybridtrees alone
    python asv_bench/study.py --data house_prices --models EBLR PLGB --seeds 10
    python asv_bench/study.py --markdown               # tables for the README
    python asv_bench/study.py --json result.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from hybrid_peers import DATA, TARGETS
from hybrid_worker import quality
from peers import machine, positive, print_table
from study_models import NAMES, SCALED, Ours, make_peer

NONE, RIDGE, LASSO = ({"penalty": name} for name in (None, "ridge", "lasso"))


def net(share: float) -> dict:
    return {"penalty": "elasticnet", "l1_ratio": share}


def trees(n: int, depth: int, rate: float | None = None) -> dict:
    found = {"n_estimators": n, "max_depth": depth}
    return found if rate is None else {**found, "learning_rate": rate}


def rules(n: int, depth: int) -> dict:
    return {"n_rules": n, "max_depth": depth}


def depth(n: int, **others) -> dict:
    return {"max_depth": n, **others}


# Parameters, published score, published fit seconds.
Row = tuple[dict, float, float]
STUDY: dict[str, dict[str, Row]] = {
    "breast_cancer": {
        "LR": (RIDGE, 0.989583, 0.016),
        "DT": (depth(2), 0.936632, 0.008),
        "RF": (trees(15, 7), 0.974248, 0.057),
        "GB": (trees(150, 3, 0.2), 0.984954, 1.069),
        "XGB": (trees(50, 2, 0.2), 0.986111, 0.117),
        "LT": ({**RIDGE, **depth(3)}, 0.992477, 19.706),
        "RERF": ({**net(0.75), **trees(30, 2)}, 0.983218, 0.427),
        "EBLR": ({**RIDGE, **rules(5, 3)}, 0.989583, 0.132),
    },
    "car_insurance": {
        "LR": (RIDGE, 0.909042, 0.033),
        "DT": (depth(5), 0.918424, 0.026),
        "RF": (trees(35, 10), 0.917379, 0.222),
        "GB": (trees(200, 3, 0.1), 0.928684, 2.569),
        "XGB": (trees(50, 3, 0.2), 0.928836, 0.148),
        "LT": ({**RIDGE, **depth(1)}, 0.919935, 5.080),
        "RERF": ({**RIDGE, **trees(20, 7)}, 0.926861, 0.357),
        "EBLR": ({**LASSO, **rules(2, 3)}, 0.922546, 0.674),
    },
    "software_defect": {
        "LR": (NONE, 0.784288, 0.371),
        "DT": (depth(5), 0.785630, 0.400),
        "RF": (trees(40, 10), 0.792310, 5.303),
        "GB": (trees(200, 3, 0.1), 0.793792, 50.949),
        "XGB": (trees(150, 3, 0.1), 0.793811, 2.780),
        "LT": ({**NONE, **depth(7)}, 0.790434, 409.533),
        "RERF": ({**NONE, **trees(100, 10)}, 0.791301, 54.419),
        "EBLR": ({**NONE, **rules(2, 1)}, 0.784942, 1.218),
    },
    "electricity_transformer": {
        "LR": (NONE, 0.326412, 0.918),
        "DT": (depth(7), 0.341518, 2.901),
        "RF": (trees(15, 7), 0.335738, 30.260),
        "GB": (trees(125, 3, 0.05), 0.329036, 140.593),
        "XGB": (trees(100, 5, 0.05), 0.331699, 7.487),
        "LT": ({**RIDGE, **depth(1, max_bins=10)}, 0.326584, 198.546),
        "RERF": ({**NONE, **trees(10, 2)}, 0.326099, 0.946),
        "EBLR": ({**NONE, **rules(5, 3)}, 0.326476, 9.423),
    },
    "house_prices": {
        "LR": (net(0.25), 23.612379, 0.038),
        "DT": (depth(5), 36.711291, 0.026),
        "RF": (trees(10, 3), 37.926328, 0.121),
        "GB": (trees(250, 2, 0.1), 21.920467, 2.318),
        "XGB": (trees(400, 2, 0.01), 28.445485, 1.620),
        "LT": ({**LASSO, **depth(2)}, 25.867328, 20.901),
        "RERF": ({**net(0.25), **trees(20, 1)}, 22.976645, 0.066),
        "EBLR": ({**RIDGE, **rules(7, 1)}, 21.259820, 0.156),
    },
    "superconductivity": {
        "LR": (net(0.5), 20.058146, 1.357),
        "DT": (depth(7), 14.390164, 0.907),
        "RF": (trees(20, 7), 12.817136, 13.510),
        "GB": (trees(200, 4, 0.1), 10.728018, 118.479),
        "XGB": (trees(400, 4, 0.2), 9.734972, 19.390),
        "LT": ({**LASSO, **depth(2)}, 16.673536, 570.010),
        "RERF": ({**net(0.25), **trees(20, 25)}, 9.843302, 4.476),
        "EBLR": ({**LASSO, **rules(7, 1)}, 17.564503, 3.045),
    },
}
BINARY = ("breast_cancer", "car_insurance", "software_defect")

# What PLGB is tried with on the validation rows; the number of trees is found by stopping early.
PLGB_GRID = {"max_leaves": [4, 16], "reg_lambda": [1.0, 100.0], "learning_rate": [0.1]}
PLGB_ROUNDS, PLGB_PATIENCE = 500, 25
# The same model from other draws: what does not depend on the seed is fitted once.
SEEDLESS = ("LR", "DT", "XGB", "LT", "EBLR", "PLGB")


@dataclass(frozen=True)
class Tables:
    """Arrays of one data set; `scaled` are standardised by the rows that do not test."""

    name: str
    plain: dict[str, np.ndarray]
    scaled: dict[str, np.ndarray]
    y: np.ndarray
    y_test: np.ndarray
    n_train: int

    @property
    def task(self) -> str:
        return "binary" if self.name in BINARY else "regression"

    def of(self, model: str) -> dict[str, np.ndarray]:
        return self.scaled if model in SCALED else self.plain


def load_tables(name: str, source: Path) -> Tables:
    import pandas

    parts = [
        pandas.read_parquet(source / f"{name}_{part}.parquet")
        for part in ("train", "validation", "test")
    ]
    n_train, n_rest = len(parts[0]), len(parts[0]) + len(parts[1])
    table = pandas.concat(parts)
    y = table[TARGETS[name]].to_numpy(float) / (1000 if name == "house_prices" else 1)
    X = table.drop(columns=[TARGETS[name], "date"], errors="ignore").to_numpy(float)
    mean, scale = X[:n_rest].mean(axis=0), X[:n_rest].std(axis=0)
    Z = (X - mean) / np.where(scale > 0, scale, 1.0)
    halves = ({"X": A[:n_rest], "X_test": A[n_rest:]} for A in (X, Z))
    return Tables(name, *halves, y[:n_rest], y[n_rest:], n_train)


def run(model, tables: Tables, name: str) -> dict[str, float]:
    """Fit, and score on the test rows."""
    data = tables.of(name)
    start, worked = time.perf_counter(), time.process_time()
    model.fit(data["X"], tables.y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - worked
    return {
        "score": quality(tables.task, tables.y_test, model.score(data["X_test"])),
        "fit_s": seconds,
        "cpu_s": cpu,
    }


def warm_up(name: str, tables: Tables, params: dict, threads: int) -> None:
    """Fit to a few rows: what is imported and started on first use is no fit time."""
    rows = np.linspace(0, len(tables.y) - 1, min(300, len(tables.y))).astype(int)
    model = Ours(name, tables.task, params, len(rows), threads, 0)
    model.fit(tables.of(name)["X"][rows], tables.y[rows])


def choose_plgb(tables: Tables, threads: int) -> dict:
    """Settings of PLGB that do best on the validation rows."""
    X, n = tables.plain["X"], tables.n_train
    found = []
    for values in product(*PLGB_GRID.values()):
        setting = dict(zip(PLGB_GRID, values, strict=True))
        tried = {**setting, "n_estimators": PLGB_ROUNDS, "early_stopping_rounds": PLGB_PATIENCE}
        model = Ours("PLGB", tables.task, tried, n, threads, 0)
        model.fit(X[:n], tables.y[:n], X_val=X[n:], y_val=tables.y[n:])
        score = quality(tables.task, tables.y[n:], model.score(X[n:]))
        better = score if tables.task == "regression" else -score
        found.append((better, {**setting, "n_estimators": model.model.best_iteration + 1}))
    return min(found, key=lambda pair: pair[0])[1]


def summarise(runs: list[dict]) -> dict:
    """Mean, range and quickest fit over the seeds."""
    scores = [figures["score"] for figures in runs]
    return {
        "score": float(np.mean(scores)),
        "low": min(scores),
        "high": max(scores),
        "fit_s": min(figures["fit_s"] for figures in runs),
        "cpu_s": min(figures["cpu_s"] for figures in runs),
    }


def run_data(tables: Tables, options: argparse.Namespace) -> dict[str, dict]:
    """Figures of all models on one data set."""
    import hybridtrees

    records: dict[str, dict] = {}
    for name in options.models:
        if name in ("LT", "PLGB"):
            family = "LinearTree" if name == "LT" else "PLGB"
            if f"{family}Regressor" not in hybridtrees.__all__:
                continue
        if name == "PLGB":
            start = time.perf_counter()
            params, published, seconds = choose_plgb(tables, options.threads), None, None
            print(f"    PLGB: {params}, {time.perf_counter() - start:.1f} s", file=sys.stderr)
        else:
            params, published, seconds = STUDY[tables.name][name]
        seeds = range(1 if name in SEEDLESS else options.seeds)
        n, threads = len(tables.y), options.threads
        record = {"published": published, "published_s": seconds, "parameters": params}
        warm_up(name, tables, params, threads)
        record["ours"] = summarise(
            [run(Ours(name, tables.task, params, n, threads, s), tables, name) for s in seeds]
        )
        if options.peers:
            made = [make_peer(name, tables.task, params, threads, s) for s in seeds]
            if made[0] is not None:
                record["peer"] = summarise([run(model, tables, name) for model in made])
        records[name] = record
        print(f"    {name}: {record['ours']['score']:.6f}, {record['ours']['fit_s']:.3f} s",
              file=sys.stderr)  # fmt: skip
    return records


def score_text(figures: dict | None) -> str:
    if figures is None:
        return "-"
    digits = 6 if figures["score"] < 1 else 3
    text = f"{figures['score']:.{digits}f}"
    if figures["high"] > figures["low"]:
        text += f" [{figures['low']:.{digits}f}, {figures['high']:.{digits}f}]"
    return text


def rows_of(name: str, records: dict[str, dict]) -> list[list[str]]:
    """Table of one data set."""
    unit = "AUC" if name in BINARY else "RMSE"
    head = ["model", f"published {unit}", "hybridtrees", "peer"]
    rows = [[*head, "published s", "hybridtrees s", "peer s"]]
    for model, record in records.items():
        published, ours, peer = record["published"], record["ours"], record.get("peer")
        rows.append(
            [
                model,
                "-" if published is None else f"{published:.{6 if published < 1 else 3}f}",
                score_text(ours),
                score_text(peer),
                "-" if published is None else f"{record['published_s']:.3f}",
                f"{ours['fit_s']:.3f}",
                "-" if peer is None else f"{peer['fit_s']:.3f}",
            ]
        )
    return rows


def mean_ranks(results: dict[str, dict[str, dict]]) -> list[tuple[str, float, float]]:
    """Mean rank over the data sets and sum of the fit seconds of every model, the best first."""
    ranks: dict[str, list[int]] = {}
    seconds: dict[str, float] = {}
    for name, records in results.items():
        sign = -1 if name in BINARY else 1
        order = sorted(records, key=lambda model: sign * records[model]["ours"]["score"])
        for rank, model in enumerate(order, start=1):
            ranks.setdefault(model, []).append(rank)
            seconds[model] = seconds.get(model, 0.0) + records[model]["ours"]["fit_s"]
    found = [(model, float(np.mean(ranks[model])), seconds[model]) for model in ranks]
    return sorted(found, key=lambda row: row[1])


def show(rows: list[list[str]], markdown: bool) -> None:
    if not markdown:
        print_table(rows)
        return
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows[1:]:
        print("| " + " | ".join(row) + " |")


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", nargs="+", choices=STUDY, default=list(STUDY), metavar="NAME")
    parser.add_argument("--models", nargs="+", choices=NAMES, default=list(NAMES), metavar="MODEL")
    parser.add_argument("--threads", type=positive(int), default=2)
    parser.add_argument("--seeds", type=positive(int), default=3, help="of forests and GB")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--markdown", action="store_true", help="print tables as markdown")
    parser.add_argument("--source", type=Path, default=DATA, help="folder of the parquet files")
    parser.add_argument("--json", type=Path, help="also write every figure to this file")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if not options.source.is_dir():
        print(f"no data: {options.source} is no folder; see --source", file=sys.stderr)
        return 1
    facts = machine()
    print(f"{facts['processor']}, {options.threads} threads, Python {facts['python']}")
    print(", ".join(f"{name} {version}" for name, version in facts["versions"].items()))
    results = {}
    for name in options.data:
        print(f"  {name}", file=sys.stderr)
        results[name] = run_data(load_tables(name, options.source), options)
        print(f"\n{name}\n")
        show(rows_of(name, results[name]), options.markdown)
        sys.stdout.flush()
    ranks = mean_ranks(results)
    print(f"\nmean ranks over {len(results)} data sets\n")
    rows = [["model", "mean rank", "fit s, sum"]]
    show([*rows, *([m, f"{r:.2f}", f"{s:.2f}"] for m, r, s in ranks)], options.markdown)
    total = sum(seconds for _, _, seconds in ranks)
    cpu = sum(r["ours"]["cpu_s"] for records in results.values() for r in records.values())
    print(f"\nfits of all models on all data sets, one of each: {total:.1f} s, CPU {cpu:.1f} s")
    if options.json:
        content = {"machine": facts, "results": results, "mean_ranks": ranks}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
