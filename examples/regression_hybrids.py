"""Regression at the centre: what the rules of EBLR say, and where the forest of RERF helps.

Needs matplotlib. Prints the models and saves four plots:

    python examples/regression_hybrids.py            # into the folder regression_hybrids
    python examples/regression_hybrids.py --out plots
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from hybridtrees import (
    EBLRClassifier,
    EBLRRegressor,
    LinearRegressor,
    RandomForestRegressor,
    RERFRegressor,
)
from hybridtrees.datasets import load_heart_failure, make_house_prices, make_seasonal_series
from hybridtrees.metrics import roc_auc_score

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def take(table, rows):
    """Rows of a table that is an array or a dict of columns."""
    if isinstance(table, dict):
        return {name: column[rows] for name, column in table.items()}
    return table[rows]


def rmse(model, table, target) -> float:
    """Root mean squared error."""
    return float(np.sqrt(np.mean((model.predict(table) - target) ** 2)))


def rules_of_house_prices(out: Path) -> None:
    """EBLR: a line, and the corners of the table where it errs."""
    houses = make_house_prices(3000, random_state=0)
    train, test = np.arange(2000), np.arange(2000, 3000)
    X, y = houses.data, houses.target
    model = EBLRRegressor(
        n_rules=15, max_depth=2, min_samples_leaf=20, early_stopping="validation", random_state=0
    ).fit(take(X, train), y[train])
    print("House prices: linear regression with rules")
    print(model.summary(max_terms=8))
    line = LinearRegressor().fit(take(X, train), y[train])
    for name, one in (("line alone", line), ("line and rules", model)):
        print(f"  test RMSE, {name}: {rmse(one, take(X, test), y[test]):.2f}")

    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5.5), layout="constrained")
    model.plot_rules(left, width=42)
    left.set_title("what the rules add to the line (price in thousands)")
    for rows, name in ((train, "training rows"), (test, "test rows")):
        staged = [np.sqrt(np.mean((p - y[rows]) ** 2)) for p in model.staged_predict(take(X, rows))]
        right.plot(staged, marker="o", label=name)
    right.set_xlabel("rules")
    right.set_ylabel("RMSE")
    right.set_title("each rule is a column; all coefficients are fitted anew")
    right.legend()
    figure.savefig(out / "eblr_house_prices.png", dpi=120)


def forest_beside_the_line(out: Path) -> None:
    """RERF on the same houses: where the forest changes what the line says."""
    houses = make_house_prices(3000, random_state=0)
    train, test = np.arange(2000), np.arange(2000, 3000)
    X, y = houses.data, houses.target
    model = RERFRegressor(50, tune=True, random_state=0).fit(take(X, train), y[train])
    print("\nHouse prices: regression-enhanced random forest")
    print(model.summary())
    held_out = take(X, test)
    shares = model.variance_shares(held_out)
    print(f"  share of the variance: line {shares.linear:.1%}, forest {shares.forest:.1%}")
    lone = RandomForestRegressor(random_state=0).fit(take(X, train), y[train])
    line = LinearRegressor().fit(take(X, train), y[train])
    scores = {"line": line, "forest": lone, "line + forest": model}
    errors = {name: rmse(one, held_out, y[test]) for name, one in scores.items()}
    for name, error in errors.items():
        print(f"  test RMSE, {name}: {error:.2f}")

    parts = model.partial(held_out)
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    points = left.scatter(
        held_out["living_area"], parts.forest, c=held_out["quality"], s=12, cmap="viridis"
    )
    figure.colorbar(points, ax=left, label="quality")
    left.axhline(0, color="black", linewidth=0.8)
    left.set_xlabel("living area")
    left.set_ylabel("what the forest adds")
    left.set_title("the forest bends the line: good houses gain more per square metre")
    right.bar(list(errors), list(errors.values()))
    right.set_ylabel("test RMSE")
    right.set_title("line, forest, and both")
    figure.savefig(out / "rerf_house_prices.png", dpi=120)


def beyond_the_training_range(out: Path) -> None:
    """RERF on a series with a trend: a forest alone stays at the level of its last rows."""
    series = make_seasonal_series(900, random_state=0, trend=0.03)
    X, y = series.data[:, :2], series.target  # time and phase, no earlier values
    train, test = np.arange(600), np.arange(600, 900)
    trees = {"n_estimators": 100, "random_state": 0}
    hybrid = RERFRegressor(**trees, min_samples_leaf=5, linear_features=[0]).fit(X[train], y[train])
    lone = RandomForestRegressor(**trees).fit(X[train], y[train])
    print("\nA series with a trend, forecast beyond the training range")
    for name, model in (("forest alone", lone), ("line + forest", hybrid)):
        print(f"  RMSE, {name}: {rmse(model, X[test], y[test]):.2f}")
    figure, ax = plt.subplots(figsize=(10, 4.5), layout="constrained")
    shown = np.arange(450, 900)
    ax.plot(shown, y[shown], color="0.7", label="series")
    ax.plot(shown, lone.predict(X[shown]), label="forest alone")
    ax.plot(shown, hybrid.predict(X[shown]), label="line + forest (RERF)")
    ax.axvline(600, color="black", linestyle=":", label="end of the training rows")
    ax.set_xlabel("time")
    ax.legend()
    figure.savefig(out / "rerf_beyond_the_range.png", dpi=120)


def rules_of_heart_failure(out: Path) -> None:
    """EBLR for two classes: rules where the log-odds are not a line."""
    patients = load_heart_failure()
    keep = [k for k, name in enumerate(patients.feature_names) if name != "time"]
    names = [patients.feature_names[k] for k in keep]
    X = {name: patients.data[:, k] for name, k in zip(names, keep, strict=True)}
    y = patients.target
    rows = np.random.default_rng(0).permutation(len(y))
    train, test = rows[:200], rows[200:]
    model = EBLRClassifier(
        n_rules=3, residual="probability", max_depth=2, min_samples_leaf=10, alpha=0.02
    ).fit(take(X, train), y[train])
    print("\nHeart failure: logistic regression with rules")
    print(model.summary(max_terms=5))
    stages = [roc_auc_score(y[test], p[:, 1]) for p in model.staged_predict_proba(take(X, test))]
    print("  test AUC with 0, 1, 2, 3 rules:", ", ".join(f"{auc:.3f}" for auc in stages))
    ax = model.plot_rules(width=48)
    ax.set_title("what the rules add to the log-odds of death")
    ax.figure.savefig(out / "eblr_heart_failure.png", dpi=120)


def main() -> None:
    """Run the four parts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path("regression_hybrids"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    rules_of_house_prices(out)
    forest_beside_the_line(out)
    beyond_the_training_range(out)
    rules_of_heart_failure(out)
    print(f"\nplots in {out}")


if __name__ == "__main__":
    main()
