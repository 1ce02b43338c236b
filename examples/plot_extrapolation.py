"""
Beyond the training range: trees against hybrids
================================================

A tree predicts means of training targets, so a forest or boosted trees stay at the level of the
last rows they have seen. A model with a regression inside goes on.
"""

# %%
# A series with a trend and a season. The models see the time and the phase of the season, learn
# from the first 600 days and forecast the next 300.

import matplotlib.pyplot as plt
import numpy as np

from hybridtrees import LinearTreeRegressor, RandomForestRegressor, RERFRegressor, XGBRegressor
from hybridtrees.datasets import make_seasonal_series

series = make_seasonal_series(900, random_state=0, trend=0.03)
X, y = series.data[:, :2], series.target
train, test = slice(0, 600), slice(600, 900)

models = {
    "forest": RandomForestRegressor(100, random_state=0),
    "boosted trees": XGBRegressor(n_estimators=200, learning_rate=0.05, max_depth=4),
    "line + forest (RERF)": RERFRegressor(
        n_estimators=100, min_samples_leaf=5, linear_features=[0], random_state=0
    ),
    "linear tree": LinearTreeRegressor(extrapolate="linear"),
}
for name, model in models.items():
    model.fit(X[train], y[train])
    error = np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2))
    print(f"RMSE beyond the training range, {name + ':':<22} {error:5.2f}")

# %%
# The forest repeats the last season at the level where training ended; so do boosted trees. RERF
# fits a line to the time first and gives the forest what is left, the season.

figure, axes = plt.subplots(2, 2, figsize=(8.5, 4.8), sharex=True, sharey=True)
for axis, (name, model) in zip(axes.flat, models.items(), strict=True):
    axis.plot(y, color="C7", linewidth=1, alpha=0.7)
    hybrid = name in ("line + forest (RERF)", "linear tree")
    axis.plot(model.predict(X), color="C0" if hybrid else "C1", linewidth=1.4)
    axis.axvspan(600, 900, color="C7", alpha=0.12, linewidth=0)
    axis.set(title=name, xlim=(300, 900))
axes[1, 0].set_xlabel("day (training ends at 600)")
plt.show()
