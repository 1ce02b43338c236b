"""What the three ways to fit the lines of leaves cost, and how well they fit.

While a tree of piece-wise linear boosting grows, every split is scored by lines in both children.
"additive" leaves the line above as it is and adds to it, "half_additive" also gives it a factor,
and "full" fits all slopes anew: each has more freedom than the one before, and takes longer. Once a
tree is grown, all slopes of its leaves are fitted anew in any case, unless `refit_leaves=False`.

Needs matplotlib. Prints training errors and processor time, and saves a plot:

    python examples/plgb_leaf_fits.py                       # plgb_leaf_fits.svg
    python examples/plgb_leaf_fits.py --out plot.png
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np

from hybridtrees import PLGBRegressor

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

FITS = {"additive": "tab:green", "half_additive": "tab:blue", "full": "tab:orange"}
ROUNDS = (5, 10, 20, 40, 80)


def make_table(n_rows: int, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw a table and a target with a linear function of its own in each of eight cells."""
    rng = np.random.default_rng(random_state)
    X = rng.normal(size=(n_rows, 12))
    cell = 4 * (X[:, 0] > 0.2) + 2 * (X[:, 1] > -0.3) + (X[:, 2] > 0)
    slopes = rng.normal(size=(8, 12)) * (rng.random((8, 12)) < 0.4)
    return X, np.einsum("ij,ij->i", X, slopes[cell]) + 0.2 * rng.normal(size=n_rows)


def measure(leaf_fit: str, refit: bool, n_rows: int, n_repeats: int) -> np.ndarray:
    """Mean seconds and training errors after some numbers of rounds, (n_rounds, 2)."""
    found = np.zeros((n_repeats, len(ROUNDS), 2))
    for seed in range(n_repeats):
        X, y = make_table(n_rows, seed)
        for i, rounds in enumerate(ROUNDS):
            model = PLGBRegressor(
                n_estimators=rounds, leaf_fit=leaf_fit, refit_leaves=refit, n_jobs=1
            )
            start = time.process_time()
            model.fit(X, y)
            found[seed, i, 0] = time.process_time() - start
            found[seed, i, 1] = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    return found.mean(axis=0)


def plot(found: dict[tuple[str, bool], np.ndarray], out: Path) -> None:
    """Training error against time, without and with leaves that are fitted anew."""
    plt.rcParams["svg.fonttype"] = "none"
    plt.rcParams["svg.hashsalt"] = "hybridtrees"
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.2), sharey=True, layout="constrained")
    titles = {False: "refit_leaves=False", True: "refit_leaves=True (default)"}
    for axis, (refit, title) in zip(axes, titles.items(), strict=True):
        for name, color in FITS.items():
            seconds, errors = found[name, refit].T
            axis.plot(seconds, errors, "o-", color=color, markersize=4, label=name)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("seconds of one processor", fontsize=9)
        axis.tick_params(labelsize=8, which="both")
        axis.yaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
        axis.yaxis.set_minor_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    axes[0].set_ylabel(f"training error after {ROUNDS[0]} to {ROUNDS[-1]} rounds", fontsize=9)
    axes[0].legend(fontsize=8, frameon=False)
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)
    plt.close(figure)


def main() -> None:
    """Measure, print and plot."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path("plgb_leaf_fits.svg"))
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    found = {}
    print(f"{'leaf_fit':<15} {'refit_leaves':<13} {'seconds':>8} {'training error':>15}")
    for refit in (False, True):
        for name in FITS:
            found[name, refit] = measure(name, refit, options.rows, options.repeats)
            seconds, error = found[name, refit][-1]
            print(f"{name:<15} {refit!s:<13} {seconds:>8.2f} {error:>15.4f}")
    plot(found, options.out)
    print(f"saved {options.out}")


if __name__ == "__main__":
    main()
