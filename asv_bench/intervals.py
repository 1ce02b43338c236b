"""Coverage and width of 90 % intervals on the regression tables of the arena, beside peers.

    python intervals.py --arena ../../shared/arena
    python intervals.py --models xgb rf --splits 1 --rows 6000

needs the folder of the arena, which is not part of this repository, pandas, scikit-learn and
LightGBM. Tables in time order and tables of groups hold rows out by time and by group. One thread.
A line for each fit; then for each model the mean absolute deviation of coverage over the tables
(signed mean beside it), and the geometric means of width and of interval score (Winkler 1972)
relative to split-conformal LightGBM.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

COVERAGE = 0.9
SEED = 0
# Tables without time or groups are exchangeable: what conformal methods promise coverage for.
KINDS = {"random": "exchangeable", "time": "time", "group": "groups"}


class Conformal:
    """One of our models, which holds rows out by itself, or by time or group where there is one."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: np.ndarray, kind: str, order: Any) -> None:
        name = {"time": "time", "group": "groups"}.get(kind)
        if name is None:
            self.model.set_params(conformal="auto").fit(X, y)
        elif hasattr(self.model, "quality"):
            self.model.set_params(conformal="auto").fit(X, y, **{name: codes(order)})
        else:
            self.model.fit(X, y).conformalize(X, y, method="cv", **{name: codes(order)})

    def interval(self, X: Any) -> np.ndarray:
        return np.asarray(self.model.predict_interval(X, COVERAGE))


class Constant(Conformal):
    """The same, with intervals that are equally wide for all rows."""

    def interval(self, X: Any) -> np.ndarray:
        return np.asarray(self.model.predict_interval(X, COVERAGE, method="constant"))


class ForestQuantiles(Conformal):
    """Quantiles of the leaves, which hold no rows out."""

    def fit(self, X: Any, y: np.ndarray, kind: str, order: Any) -> None:
        self.model.fit(X, y)

    def interval(self, X: Any) -> np.ndarray:
        return np.asarray(self.model.predict_interval(X, COVERAGE, method="quantiles"))


class Quantiles:
    """Two boosted quantiles of scikit-learn, which promise nothing."""

    def fit(self, X: Any, y: np.ndarray, kind: str, order: Any) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor

        self.models = [
            HistGradientBoostingRegressor(
                loss="quantile", quantile=q, random_state=SEED, categorical_features="from_dtype"
            ).fit(few_levels(X), y)
            for q in ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2)
        ]

    def interval(self, X: Any) -> np.ndarray:
        return np.sort([model.predict(few_levels(X)) for model in self.models], axis=0).T


class SplitConformal:
    """LightGBM on 80 % of the rows, and absolute residuals of the others."""

    def fit(self, X: Any, y: np.ndarray, kind: str, order: Any) -> None:
        import lightgbm

        held = held_out(len(y), kind, order)
        self.model = lightgbm.LGBMRegressor(verbosity=-1, n_jobs=1, random_state=SEED)
        self.model.fit(X[~held], y[~held])
        gaps = np.sort(np.abs(y[held] - self.model.predict(X[held])))
        rank = int(np.ceil(COVERAGE * (len(gaps) + 1)))
        self.gap = gaps[min(rank, len(gaps)) - 1]

    def interval(self, X: Any) -> np.ndarray:
        level = self.model.predict(X)
        return np.column_stack([level - self.gap, level + self.gap])


def held_out(n: int, kind: str, order: Any) -> np.ndarray:
    """The last fifth of the rows in time, a fifth of the groups, or of the rows at random."""
    if kind == "time":
        return np.argsort(np.argsort(order, kind="stable")) >= int(0.8 * n)
    rng = np.random.default_rng(SEED)
    if kind == "group":
        names = rng.permutation(np.unique(order))
        return np.isin(order, names[: max(1, len(names) // 5)])
    return rng.permutation(n) < n // 5


def codes(order: np.ndarray) -> np.ndarray:
    return np.unique(order, return_inverse=True)[1]


def few_levels(X: Any) -> Any:
    """Columns of more categories than scikit-learn takes, as numbers."""
    X = X.copy()
    for name in X.columns:
        if X[name].dtype == "category" and len(X[name].cat.categories) > 255:
            X[name] = X[name].cat.codes.astype(float)
    return X


def models() -> dict[str, Callable[[], Any]]:
    import hybridtrees as ht

    plain = {"n_jobs": 1}
    quantiles = {"quantile_alpha": [0.05, 0.95], "objective": "reg:quantileerror", **plain}
    seed = {"random_state": SEED, **plain}
    return {
        "xgb": lambda: Conformal(ht.XGBRegressor(**seed)),
        "xgb_constant": lambda: Constant(ht.XGBRegressor(**seed)),
        "xgb_cqr": lambda: Conformal(ht.XGBRegressor(n_estimators=50, **quantiles)),
        "plgb": lambda: Conformal(ht.PLGBRegressor(**seed)),
        "gb": lambda: Conformal(ht.GradientBoostingRegressor(**seed)),
        "rf": lambda: Conformal(ht.RandomForestRegressor(**seed)),
        "rf_quantiles": lambda: ForestQuantiles(ht.RandomForestRegressor(**seed)),
        "rerf": lambda: Conformal(ht.RERFRegressor(**seed)),
        "linear_tree": lambda: Conformal(ht.LinearTreeRegressor(**plain)),
        "eblr": lambda: Conformal(ht.EBLRRegressor(**plain)),
        "linear": lambda: Conformal(ht.LinearRegressor(alpha=0.01, **plain)),
        "auto": lambda: Conformal(ht.AutoRegressor(quality=2, **seed)),
        "sk_quantiles": Quantiles,
        "lgbm_split": SplitConformal,
    }


def open_arena(folder: Path) -> Any:
    file = folder / "arena.py"
    if not file.exists():
        print(f"skipped: there is no arena at {folder.resolve()}; say where by --arena")
        raise SystemExit(0)
    spec = importlib.util.spec_from_file_location("arena", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["arena"] = module
    spec.loader.exec_module(module)
    return module


def interval_score(low: np.ndarray, high: np.ndarray, y: np.ndarray) -> float:
    """Width, and 2 / alpha times how far a target is outside."""
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return float(np.mean(high - low + 2 / (1 - COVERAGE) * outside))


def measure(arena: Any, table: Any, split: int, make: Callable[[], Any], n: int) -> dict[str, Any]:
    train, test = table.splits[split]
    if n < len(train):
        train = np.sort(np.random.default_rng(SEED).permutation(train)[:n])
    encoder = arena.Encoder("category", table.entry["categorical"])
    X, X_test = encoder.fit_transform(table.X.iloc[train]), encoder.transform(table.X.iloc[test])
    order = None if table.order is None else table.order[train]
    model = make()
    start = time.process_time()
    model.fit(X, table.y[train], table.entry["split"], order)
    seconds = time.process_time() - start
    low, high = model.interval(X_test).T
    y = table.y[test]
    return {
        "coverage": float(np.mean((low <= y) & (y <= high))),
        "width": float(np.mean(high - low)),
        "score": interval_score(low, high, y),
        "rows": len(test),
        "seconds": round(seconds, 2),
    }


def report(lines: list[dict[str, Any]]) -> None:
    """Print a line for each model and kind of table."""
    tables: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        tables[line["model"], line["kind"], line["table"]].append(line)
    mean = {
        key: {name: np.average([r[name] for r in runs], weights=[r["rows"] for r in runs])
              for name in ("coverage", "width", "score")}
        for key, runs in tables.items()
    }  # fmt: skip
    print(f"{'model':14} {'kind':13} tables  |deviation|  deviation  width  score")
    for model in dict.fromkeys(line["model"] for line in lines):
        for kind in (*KINDS.values(), "all"):
            own = {k: v for k, v in mean.items() if k[0] == model and kind in (k[1], "all")}
            if not own:
                continue
            off = 100 * (np.array([v["coverage"] for v in own.values()]) - COVERAGE)
            peers = [mean.get(("lgbm_split", k[1], k[2])) for k in own]
            ratios = [
                np.exp(np.mean([np.log(v[name] / p[name])
                                for v, p in zip(own.values(), peers, strict=True) if p]))
                for name in ("width", "score")
            ]  # fmt: skip
            print(
                f"{model:14} {kind:13} {len(own):6} {np.abs(off).mean():12.2f} {off.mean():10.2f}"
                f" {ratios[0]:6.3f} {ratios[1]:6.3f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    here = Path(__file__).resolve().parents[2]
    parser.add_argument("--arena", type=Path, default=here / "shared" / "arena")
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--splits", type=int, default=3, help="the first splits of each table")
    parser.add_argument("--rows", type=int, default=10**9, help="most training rows")
    parser.add_argument("--lines", type=Path, help="file of all fits, which are not repeated")
    chosen = parser.parse_args()
    arena = open_arena(chosen.arena)
    warnings.simplefilter("ignore")
    known = models()
    lines = []
    if chosen.lines is not None and chosen.lines.exists():
        lines = [json.loads(text) for text in chosen.lines.read_text().splitlines()]
    done = {(line["model"], line["table"], line["split"]) for line in lines}
    entries = [e for e in arena.read_manifest(chosen.arena) if e["task"] == "regression"]
    for entry in sorted(entries, key=lambda e: e["rows"]):
        if chosen.tables and entry["name"] not in chosen.tables:
            continue
        table = arena.read_table(chosen.arena, entry)
        for name in chosen.models or known:
            for split in range(min(chosen.splits, len(table.splits))):
                if (name, entry["name"], split) in done:
                    continue
                try:
                    found = measure(arena, table, split, known[name], chosen.rows)
                except Exception as error:
                    print(f"failed: {name} on {entry['name']}, split {split}: {error}", flush=True)
                    continue
                kind = KINDS[entry["split"]]
                line = {"model": name, "table": entry["name"], "kind": kind, "split": split}
                lines.append({**line, **found})
                print(json.dumps(lines[-1]), flush=True)
                if chosen.lines is not None:
                    with open(chosen.lines, "a") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
    report(lines)


if __name__ == "__main__":
    main()
