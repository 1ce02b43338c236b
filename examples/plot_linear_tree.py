"""
Reading a linear tree
=====================

A linear tree needs few leaves, and every leaf is an equation.
"""

# %%
# The price of a job rises with its hours up to four, and falls after. One split finds it:

import matplotlib.pyplot as plt
import numpy as np

from hybridtrees import CARTRegressor, LinearTreeRegressor
from hybridtrees.datasets import make_house_prices
from hybridtrees.inspection import plot_tree

rng = np.random.default_rng(0)
hours = rng.uniform(0, 10, 300)
price = np.where(hours < 4, 2 * hours, 14 - 1.5 * hours) + rng.normal(0, 0.5, 300)
X = hours[:, None]
linear_tree = LinearTreeRegressor(max_depth=1).fit(X, price)
print(linear_tree.leaf_table())

# %%
# A tree of constants needs sixteen leaves to come near, and tells less:

grid = np.linspace(0, 12, 400)[:, None]
cart = CARTRegressor(max_depth=4).fit(X, price)
figure, axis = plt.subplots()
axis.scatter(hours, price, s=8, color="C7", alpha=0.6)
axis.plot(grid, cart.predict(grid), color="C1", label=f"CART, {cart.get_n_leaves()} leaves")
axis.plot(grid, linear_tree.predict(grid), label="linear tree, 2 leaves")
axis.axvspan(10, 12, color="C7", alpha=0.12, linewidth=0)
axis.set(xlabel="hours", ylabel="price", title="no data beyond 10 hours: the line goes on")
axis.legend()
plt.show()

# %%
# The same on house prices: a split on the quality, and what a square metre is worth on either side.

houses = make_house_prices(2000, random_state=0)
columns = ("living_area", "quality", "year_built")
table = {name: houses.data[name] for name in columns}
model = LinearTreeRegressor(max_depth=2, min_samples_leaf=100).fit(table, houses.target)
print(model.leaf_table())

# %%

figure, axis = plt.subplots(figsize=(10, 4.5))
plot_tree(model, ax=axis, impurity=False, precision=2, fontsize=8)
plt.show()
