"""How good is the family that `compare` chooses? Its regret on rows that nothing has seen.

The regret of a choice is the error of the chosen family on fresh rows, divided by that of the
family which turns out best there, less 1. The error is the RMSE, or 1 less the AUC. Each rule
chooses among the same fitted models:

- one split     the validation score by which the settings were chosen
- test rows     the score on the test rows, which is then no honest score any more
- folds         what `compare` does

Simulated tables have 20,000 fresh rows. Of the tables beside the repository some rows are drawn,
and up to 20,000 of the others are fresh.

    python asv_bench/compare_regret.py                        # all tables, two draws of each
    python asv_bench/compare_regret.py --tables friedman --draws 5 --rows 300
    python asv_bench/compare_regret.py --json regret.jsonl    # adds to a file; --known prints it

Measured over 22 runs of 1000 rows (all tables): 1.5 % by folds, 2.2 % by one split and 2.4 % by the
test rows; over 19 runs of 400 rows (simulated tables and house prices): 3.3 %, 9.2 % and 4.1 %.
That was before AdaBoost and the ensemble took part. With them, over 7 runs of 1000 rows (simulated
tables, --first 7 --draws 1): 2.0 % by the folds of single models, 1.5 % if the best mean of the
folds counts for the ensemble too, 6.6 % by one split, 2.0 % by the test rows.

Since then the ensemble is first unless a model is better by more than one standard error. The rule
was chosen on ten runs of 400 rows (seeds 1000 and 1001), where it had 1.8 %, the best mean 1.1 %
with one repeat of the folds and 2.9 % with two, and the former rule 4.9 %. Over 16 other runs of
400 rows (simulated tables and house prices, --first 50 --draws 2): 0.6 %, against 13.3 % by one
split and 3.1 % by the test rows. Over 14 more (simulated tables, --first 200 --draws 2): 0.9 %,
9.9 % and 3.8 %.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hybridtrees import metrics
from hybridtrees._compare.data import make_data
from hybridtrees._compare.families import choose_families
from hybridtrees._compare.reading import read_table
from hybridtrees._compare.result import Comparison
from hybridtrees._compare.run import compare_data
from hybridtrees._compare.search import Limits
from hybridtrees.datasets import make_house_prices

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
FRESH = 20_000
RULES = ("one split", "test rows", "folds")


def _friedman(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    curve = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return curve + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=len(X))


def _linear(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X @ np.r_[3, -2, 1, 1, np.zeros(X.shape[1] - 4)] + rng.normal(size=len(X))


def _pieces(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    slope = np.where(X[:, 0] > 0.5, 6.0, -4.0)
    return slope * X[:, 1] + 2 * X[:, 2] + 0.5 * rng.normal(size=len(X))


def _steps(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.floor(4 * X[:, 0]) * np.floor(3 * X[:, 1]) + 0.7 * rng.normal(size=len(X))


def _classes(score: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    def draw(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (rng.uniform(size=len(X)) < 1 / (1 + np.exp(-score(X)))).astype(int)

    return draw


SIMULATED = {
    "friedman": _friedman,
    "linear": _linear,
    "pieces": _pieces,
    "steps": _steps,
    "logistic": _classes(lambda X: 4 * (X[:, 0] - X[:, 1]) + 2 * (X[:, 2] - 0.5)),
    "checkers": _classes(lambda X: 3 * np.sign((X[:, 0] - 0.5) * (X[:, 1] - 0.5)) + X[:, 2]),
    "rare": _classes(lambda X: 6 * X[:, 0] * X[:, 1] + 2 * X[:, 2] - 4.5),
}
# Tables in parquet files, and their targets.
STORED = {"california_housing": "medianHouseValue", "casp": "RMSD", "adult": "income"}


def draw_table(name: str, n_rows: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return features and target to compare on, and fresh ones."""
    rng = np.random.default_rng([seed, len(name)])
    if name in SIMULATED:
        X = rng.uniform(size=(n_rows + FRESH, 8))
        y = SIMULATED[name](X, rng)
    elif name == "house_prices":
        houses = make_house_prices(n_rows + FRESH, random_state=seed)
        X, y = houses.data, houses.target
    else:
        X = read_table(SHARED / f"{name}.parquet")
        y = X.pop(STORED[name])
        order = rng.permutation(len(y))[: n_rows + FRESH]
        X, y = {key: column[order] for key, column in X.items()}, y[order]
    if isinstance(X, dict):
        first, fresh = ({k: c[part] for k, c in X.items()} for part in _parts(n_rows))
    else:
        first, fresh = (X[part] for part in _parts(n_rows))
    return first, y[:n_rows], fresh, y[n_rows:]


def _parts(n_rows: int) -> tuple[slice, slice]:
    return slice(0, n_rows), slice(n_rows, None)


def fresh_errors(comparison: Comparison, X: Any, y: np.ndarray) -> dict[str, float]:
    """Error of each family on fresh rows."""
    errors = {}
    for key, model in comparison.models_.items():
        if comparison.data.task == "regression":
            errors[key] = metrics.root_mean_squared_error(y, model.predict(X))
            continue
        decide = getattr(model, "decision_function", lambda X, m=model: m.predict_proba(X)[:, 1])
        errors[key] = 1 - metrics.roc_auc_score(y == model.classes_[1], decide(X))
    return errors


def choices(comparison: Comparison) -> dict[str, str]:
    """Return the family that each rule takes."""
    score = comparison.score
    results = [r for r in comparison.results if r.model is not None]
    by = {"one split": lambda r: r.trial.validation, "test rows": lambda r: r.test[score.name]}
    found = {
        rule: min(results, key=lambda r, v=value: score.key(v(r))) for rule, value in by.items()
    }
    # The first row: the ensemble unless a model is better by more than one standard error.
    found["folds"] = results[0]
    return {rule: result.family.key for rule, result in found.items()}


def measure(name: str, n_rows: int, seed: int, threads: int) -> dict[str, Any]:
    """Run one comparison and tell the regret of each rule."""
    X, y, fresh_X, fresh_y = draw_table(name, n_rows, seed)
    families = [family for family in choose_families(None) if family.key != "baseline"]
    start = time.perf_counter()
    comparison = compare_data(
        make_data(X, y, name=name), families, None, Limits(n_jobs=threads, seed=seed)
    )
    seconds = time.perf_counter() - start
    errors = fresh_errors(comparison, fresh_X, np.asarray(fresh_y))
    taken = choices(comparison)
    least = min(errors.values())
    return {
        "table": name,
        "rows": n_rows,
        "seed": seed,
        "seconds": seconds,
        "errors": errors,
        "chosen": taken,
        "tied": [r.family.key for r in comparison.results if r.tied],
        "fold_scores": {r.family.key: r.fold_scores for r in comparison.results},
        "regret": {rule: errors[key] / least - 1 for rule, key in taken.items()},
    }


def show(found: list[dict[str, Any]]) -> None:
    """Print the mean regret of each rule, by table and over all."""
    print(f"{'table':<20}{'rows':>6}{'draws':>6}" + "".join(f"{rule:>12}" for rule in RULES))
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for one in found:
        groups.setdefault((one["table"], one["rows"]), []).append(one)
    for (table, rows), ones in sorted(groups.items()):
        print(f"{table:<20}{rows:>6}{len(ones):>6}" + "".join(map(_mean_cell(ones), RULES)))
    print(f"{'all':<20}{'':>6}{len(found):>6}" + "".join(map(_mean_cell(found), RULES)))


def _mean_cell(ones: list[dict[str, Any]]) -> Callable[[str], str]:
    return lambda rule: f"{np.mean([one['regret'][rule] for one in ones]):>12.2%}"


def main() -> None:
    """Measure and print."""
    tables = [
        *SIMULATED,
        "house_prices",
        *(t for t in STORED if (SHARED / f"{t}.parquet").exists()),
    ]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", choices=tables, default=tables)
    parser.add_argument("--rows", nargs="+", type=int, default=[500])
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="file of one line per comparison, added to")
    parser.add_argument("--known", action="store_true", help="print the file, measure nothing")
    options = parser.parse_args()
    found = []
    if options.json is not None and options.json.exists():
        found = [json.loads(line) for line in options.json.read_text().splitlines()]
    if not options.known:
        for table in options.tables:
            for rows in options.rows:
                for seed in range(options.first, options.first + options.draws):
                    found.append(measure(table, rows, seed, options.threads))
                    if options.json is not None:
                        with options.json.open("a") as stream:
                            stream.write(json.dumps(found[-1]) + "\n")
    show(found)


if __name__ == "__main__":
    main()
