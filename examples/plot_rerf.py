"""
Where a forest helps a regression
=================================

A regression-enhanced random forest (RERF) fits a penalised regression first, and a forest to its
residuals. It is better than either alone where a trend runs through the data and something bends
it.
"""

# %%
# House prices, with text columns and gaps (``tune=True`` would choose penalty and forest):

import matplotlib.pyplot as plt

from hybridtrees import LinearRegressor, RandomForestRegressor, RERFRegressor
from hybridtrees.datasets import make_house_prices
from hybridtrees.metrics import root_mean_squared_error

houses = make_house_prices(2000, random_state=0, as_frame=True)
train, test = houses.data[:1200], houses.data[1200:]
y_train, y_test = houses.target[:1200], houses.target[1200:]
models = {
    "line": LinearRegressor(),
    "forest": RandomForestRegressor(50, random_state=0),
    "line + forest": RERFRegressor(n_estimators=50, random_state=0),
}
errors = {}
for name, model in models.items():
    errors[name] = root_mean_squared_error(y_test, model.fit(train, y_train).predict(test))
    print(f"test RMSE, {name}: {errors[name]:.2f}")

# %%
# What the forest adds to the line: good houses gain more per square metre than the line knows.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), width_ratios=(2, 1))
added = models["line + forest"].partial(test).forest
points = left.scatter(test["living_area"], added, c=test["quality"], s=10, cmap="viridis")
figure.colorbar(points, ax=left, label="quality")
left.axhline(0, color="C7", linewidth=1)
left.set(xlabel="living area", title="what the forest adds to the line (thousands)")
right.bar(list(errors), list(errors.values()), color=["C1", "C1", "C0"])
right.set_title("test RMSE")
plt.show()
