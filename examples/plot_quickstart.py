"""
Quickstart: fit, score, explain, save
=====================================

A data frame with text columns and missing values goes in as it is. The model stops by itself when
rows that it has not seen no longer gain, says which columns mattered, and goes to one file.
"""

# %%
# House prices, with categories (``neighbourhood``) and gaps (``lot_frontage``):

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import hybridtrees
from hybridtrees import XGBRegressor
from hybridtrees.datasets import make_house_prices

houses = make_house_prices(3000, random_state=0, as_frame=True)
X_train, X_val, X_test = houses.data[:2000], houses.data[2000:2500], houses.data[2500:]
y_train, y_val, y_test = houses.target[:2000], houses.target[2000:2500], houses.target[2500:]
houses.data.iloc[:3, :6]

# %%
# Up to 1,000 trees, until 30 of them in a row have not helped on the validation rows:

model = XGBRegressor(n_estimators=1000, learning_rate=0.1, max_depth=4, early_stopping_rounds=30)
model.fit(X_train, y_train, eval_set=[(X_val, y_val)], verbose=False)
print(f"{model.best_iteration + 1} trees, R2 of the test rows {model.score(X_test, y_test):.3f}")

# %%
# The error by round, the predictions, and which columns mattered:

figure, (curve, points, bars) = plt.subplots(1, 3, figsize=(9.5, 3.2))
curve.plot(model.evals_result()["validation_0"]["rmse"])
curve.axvline(model.best_iteration, color="C1", linestyle="--")
curve.set(title="validation error", xlabel="round", ylabel="RMSE")
points.scatter(model.predict(X_test), y_test, s=6, alpha=0.5)
points.axline((200, 200), slope=1, color="C7", linewidth=1)
points.set(title="test rows", xlabel="predicted price", ylabel="price")
order = np.argsort(model.feature_importances_)[-6:]
bars.barh(houses.data.columns[order], model.feature_importances_[order])
bars.set(title="importance")
plt.show()

# %%
# A model file holds no code: reading one runs nothing of anybody's.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "houses.htree")
    model.save(path)
    again = hybridtrees.load(path)
print("the same predictions:", bool((again.predict(X_test) == model.predict(X_test)).all()))
