"""
Piece-wise linear boosting against constant leaves
==================================================

Boosted trees with constant leaves build a slope from many small steps. With a line in every leaf
(PLGB), the same number of trees follows it at once, and a few trees are enough.
"""

# %%
# A wave with a slope of its own, and ten rounds of either kind:

import matplotlib.pyplot as plt
import numpy as np

from hybridtrees import PLGBRegressor, XGBRegressor

rng = np.random.default_rng(0)
x = rng.uniform(0, 6, 400)
X, y = x[:, None], np.sin(2 * x) + 0.5 * x + rng.normal(0, 0.15, 400)
grid = np.linspace(0, 6, 600)[:, None]
settings = {"n_estimators": 10, "learning_rate": 0.3, "max_leaves": 8}
constants = XGBRegressor(**settings, grow_policy="lossguide", max_depth=0).fit(X, y)
lines = PLGBRegressor(**settings).fit(X, y)

figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.2), sharey=True)
panels = (("constant leaves (XGB)", constants, "C1"), ("lines in the leaves (PLGB)", lines, "C0"))
for axis, (title, model, color) in zip(axes, panels, strict=True):
    axis.scatter(x, y, s=6, color="C7", alpha=0.5)
    axis.plot(grid, model.predict(grid), color=color)
    axis.set(title=title, xlabel="x")
plt.show()

# %%
# The error on new rows, by the number of trees, where the target is smooth in ten columns:


def draw(n_rows):
    """Draw Friedman's first function with noise: five columns matter, five do not."""
    X = rng.uniform(size=(n_rows, 10))
    wave = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, wave + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n_rows)


(X_train, y_train), (X_test, y_test) = draw(3000), draw(3000)
curves = {}
for name, model in (("XGB", XGBRegressor(max_depth=5)), ("PLGB", PLGBRegressor())):
    model.set_params(n_estimators=150, learning_rate=0.1)
    model.fit(X_train, y_train, eval_set=[(X_test, y_test)], verbose=False)
    curve = curves[name] = model.evals_result()["validation_0"]["rmse"]
    print(f"{name:<5} test RMSE after 20 trees {curve[19]:.2f}, at best {min(curve):.2f}")

figure, axis = plt.subplots()
axis.plot(curves["XGB"], color="C1", label="constant leaves (XGB)")
axis.plot(curves["PLGB"], color="C0", label="lines in the leaves (PLGB)")
axis.axhline(1, color="C7", linestyle="--", linewidth=1, label="noise")
axis.set(xlabel="trees", ylabel="test RMSE", ylim=(0.9, 3), title="Friedman's function, 3,000 rows")
axis.legend()
plt.show()
