"""
Two importances of a forest, and why they disagree
==================================================

`feature_importances_` is the impurity that the splits of a feature take off. It prefers features of
many values: they offer more thresholds, and the best of many useless splits takes more off than the
best of few, above all in small nodes. `oob_permutation_importance` shuffles a feature among the
rows that a tree has not seen and is not misled.
"""

# %%
# The target depends on one feature of two values; five others are noise, with 2, 4, 16, 64 and all
# different values. Ten such tables of 400 rows:

import matplotlib.pyplot as plt
import numpy as np

from hybridtrees import RandomForestClassifier

NAMES = (
    "informative, 2 values",
    "noise, 2 values",
    "noise, 4 values",
    "noise, 16 values",
    "noise, 64 values",
    "noise, all different",
)


def make_table(n_rows, random_state):
    """Draw features of more and more values, of which the first alone moves the target."""
    rng = np.random.default_rng(random_state)
    useful = rng.integers(0, 2, n_rows)
    noise = [rng.integers(0, n_values, n_rows) for n_values in (2, 4, 16, 64)]
    X = np.column_stack([useful, *noise, rng.normal(size=n_rows)]).astype(float)
    y = rng.random(n_rows) < np.where(useful == 1, 0.65, 0.35)
    return X, y.astype(int)


impurity, permutation = [], []
for seed in range(10):
    X, y = make_table(400, seed)
    model = RandomForestClassifier(100, random_state=seed).fit(X, y)
    impurity.append(model.feature_importances_)
    shuffled = model.oob_permutation_importance(X, y, random_state=seed)
    permutation.append(shuffled.importances_mean)
impurity, permutation = np.array(impurity), np.array(permutation)

print(f"{'feature':<24} {'impurity':>9} {'permutation':>12}")
for name, one, other in zip(NAMES, impurity.mean(axis=0), permutation.mean(axis=0), strict=True):
    print(f"{name:<24} {one:>9.3f} {other:>12.4f}")

# %%
# Impurity ranks pure noise first. Permutation sees that only one feature matters.

figure, axes = plt.subplots(1, 2, figsize=(8.5, 3), sharey=True)
panels = (("mean decrease in impurity", impurity), ("out-of-bag permutation", permutation))
colors = ["C0"] + ["C7"] * (len(NAMES) - 1)
for axis, (title, found) in zip(axes, panels, strict=True):
    spread = {"ecolor": "#3b4048", "elinewidth": 1}
    axis.barh(NAMES, found.mean(axis=0), xerr=found.std(axis=0), color=colors, error_kw=spread)
    axis.axvline(0.0, color="C7", linewidth=0.8)
    axis.set_title(title)
axes[0].invert_yaxis()
plt.show()
