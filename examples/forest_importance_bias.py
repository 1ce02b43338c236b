"""Why impurity importance prefers features of many values, and out-of-bag permutation does not.

The target depends on one feature of two values; five others are noise, with 2, 4, 16, 64 and
all different values. A feature of many values offers many thresholds, and the best of many
useless splits takes more impurity off than the best of few, above all in small nodes. Shuffled
among rows that a tree has not seen, a useless feature changes nothing.

Needs matplotlib. Prints both importances and saves a plot:

    python examples/forest_importance_bias.py                       # forest_importance_bias.svg
    python examples/forest_importance_bias.py --out plot.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from hybridtrees import RandomForestClassifier

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

NAMES = ("informative, 2 values", "noise, 2 values", "noise, 4 values", "noise, 16 values",
         "noise, 64 values", "noise, all different")  # fmt: skip


def make_table(n_rows: int, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw features of more and more values, of which the first alone moves the target."""
    rng = np.random.default_rng(random_state)
    useful = rng.integers(0, 2, n_rows)
    noise = [rng.integers(0, n_values, n_rows) for n_values in (2, 4, 16, 64)]
    X = np.column_stack([useful, *noise, rng.normal(size=n_rows)]).astype(float)
    y = rng.random(n_rows) < np.where(useful == 1, 0.65, 0.35)
    return X, y.astype(int)


def measure(n_rows: int, n_repeats: int) -> tuple[np.ndarray, np.ndarray]:
    """Impurity and permutation importances, (n_repeats, n_features), of tables drawn anew."""
    impurity, permutation = [], []
    for seed in range(n_repeats):
        X, y = make_table(n_rows, seed)
        model = RandomForestClassifier(200, random_state=seed).fit(X, y)
        impurity.append(model.feature_importances_)
        found = model.oob_permutation_importance(X, y, random_state=seed)
        permutation.append(found.importances_mean)
    return np.array(impurity), np.array(permutation)


def plot(impurity: np.ndarray, permutation: np.ndarray, out: Path) -> None:
    """Means over the tables side by side, and their spread."""
    plt.rcParams["svg.fonttype"] = "none"
    plt.rcParams["svg.hashsalt"] = "hybridtrees"
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 2.8), sharey=True, layout="constrained")
    colors = ["tab:green"] + ["tab:gray"] * (len(NAMES) - 1)
    for axis, found, title in zip(
        axes,
        (impurity, permutation),
        ("mean decrease in impurity", "out-of-bag permutation"),
        strict=True,
    ):
        axis.barh(NAMES, found.mean(axis=0), xerr=found.std(axis=0), color=colors)
        axis.axvline(0.0, color="black", linewidth=0.8)
        axis.set_title(title, fontsize=10)
        axis.tick_params(labelsize=8)
    axes[0].invert_yaxis()
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)
    plt.close(figure)


def main() -> None:
    """Measure, print and plot."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path("forest_importance_bias.svg"))
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    impurity, permutation = measure(options.rows, options.repeats)
    print(f"{'feature':<24} {'impurity':>9} {'permutation':>12}")
    for name, one, other in zip(
        NAMES, impurity.mean(axis=0), permutation.mean(axis=0), strict=True
    ):
        print(f"{name:<24} {one:>9.3f} {other:>12.4f}")
    plot(impurity, permutation, options.out)
    print(f"saved {options.out}")


if __name__ == "__main__":
    main()
