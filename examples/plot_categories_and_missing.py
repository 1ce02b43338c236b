"""
Categories and missing values as they are
=========================================

Text columns of a data frame are categories, NaN and None are missing. No encoder, no imputer: a
split sends some categories left and the others right, and learns on which side missing values
belong.
"""

# %%
# What the table looks like:

import matplotlib.pyplot as plt
import numpy as np

from hybridtrees import CARTRegressor, LinearRegressor, XGBRegressor
from hybridtrees.datasets import make_house_prices
from hybridtrees.inspection import export_text, plot_partial_dependence

houses = make_house_prices(3000, random_state=0, as_frame=True)
columns = ["living_area", "garage_year", "neighbourhood", "alley"]
table, price = houses.data[columns], houses.target
print(table.isna().mean().map("{:.0%} missing".format).to_string())
table.head(4)

# %%
# A small tree on the categories alone shows such a split:

tree = CARTRegressor(max_depth=2).fit(table[["neighbourhood", "alley"]], price)
print(export_text(tree))

# %%
# All models take the table as it is; also the linear ones, by a column per category and the mean
# for what is missing.

train, test = slice(0, 2000), slice(2000, 3000)
models = {
    "linear": LinearRegressor(),
    "boosted trees": XGBRegressor(n_estimators=200, learning_rate=0.05, max_depth=4),
}
for name, model in models.items():
    model.fit(houses.data[train], price[train])
    print(f"{name + ':':<15} R2 {model.score(houses.data[test], price[test]):.3f}")

# %%
# A neighbourhood that training has not met counts as missing; nothing breaks:

new = houses.data[test][:1].copy()
new["neighbourhood"] = "moon_base"
print("price on the moon:", np.round(models["boosted trees"].predict(new), 1))

# %%
# What a category is worth, all else as it is:

axes = plot_partial_dependence(
    models["boosted trees"], houses.data[:300], ["neighbourhood", "living_area"]
)
plt.gcf().set_size_inches(9, 3.6)
plt.show()
