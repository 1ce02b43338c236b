"""
Quantile intervals of a forest
==============================

A forest weighs the training rows, and not only their mean can be read off: `predict_quantiles` and
`predict_interval` give the spread of the target at a point, without another fit.
"""

# %%
# Noise that grows with x:

import matplotlib.pyplot as plt
import numpy as np

from hybridtrees import RandomForestRegressor

rng = np.random.default_rng(0)


def draw(n_rows):
    """Draw a wave whose noise grows from left to right."""
    x = rng.uniform(0, 10, n_rows)
    return x[:, None], np.sin(x) + 0.08 * x * rng.normal(size=n_rows)


X, y = draw(1500)
forest = RandomForestRegressor(200, min_samples_leaf=10, random_state=0).fit(X, y)
grid = np.linspace(0, 10, 300)[:, None]
low, high = forest.predict_interval(grid, level=0.9).T

figure, axis = plt.subplots()
axis.scatter(X, y, s=5, color="C7", alpha=0.4)
axis.fill_between(grid[:, 0], low, high, alpha=0.2, linewidth=0, label="90 % interval")
axis.plot(grid, forest.predict(grid), label="mean")
axis.set(xlabel="x", ylabel="y", title="the interval is as wide as the noise")
axis.legend()
plt.show()

# %%
# On new rows an interval of 90 % should hold about 90 % of the targets, and it should be wide only
# where it has to be:

X_new, y_new = draw(5000)
print("level   coverage   width at x < 2   at x > 8")
for level in (0.5, 0.8, 0.9):
    low, high = forest.predict_interval(X_new, level=level).T
    inside = np.mean((low <= y_new) & (y_new <= high))
    left, right = ((high - low)[rows].mean() for rows in (X_new[:, 0] < 2, X_new[:, 0] > 8))
    print(f"{level:5.0%} {inside:10.1%} {left:16.2f} {right:10.2f}")
