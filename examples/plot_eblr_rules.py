"""
Rules as text: a regression that says where it errs
===================================================

EBLR starts from a linear or logistic regression, looks for the corner of the table where it is most
wrong, and adds that corner as a rule: a column of zeros and ones. What comes out can be written
down.
"""

# %%
# House prices, with as many rules as rows set aside ask for:

import matplotlib.pyplot as plt
import numpy as np

from hybridtrees import EBLRClassifier, EBLRRegressor
from hybridtrees.datasets import load_heart_failure, make_house_prices
from hybridtrees.metrics import roc_auc_score, root_mean_squared_error

houses = make_house_prices(3000, random_state=0, as_frame=True)
train, test = houses.data[:2000], houses.data[2000:]
y_train, y_test = houses.target[:2000], houses.target[2000:]
model = EBLRRegressor(
    n_rules=15, max_depth=2, min_samples_leaf=20, early_stopping="validation", random_state=0
)
model.fit(train, y_train)
print(model.summary(max_terms=8))

# %%
# What each rule adds to the price, and the error as rules come in. Rules are columns like the
# others: all coefficients are fitted anew with every one.

stages = [root_mean_squared_error(y_test, p) for p in model.staged_predict(test)]
print(f"test RMSE, line alone: {stages[0]:.2f}")
print(f"test RMSE, line and {len(stages) - 1} rules: {stages[-1]:.2f}")
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 6), width_ratios=(1, 1))
model.plot_rules(left, width=44)
left.set_title("what a rule adds (thousands)")
right.plot(stages, marker="o")
right.set(xlabel="rules", title="test RMSE")
plt.show()

# %%
# The same for two classes: who survives heart failure, by rules on the log-odds.

patients = load_heart_failure(as_frame=True)
table = patients.data.drop(columns="time")  # the time of follow-up is not known in advance
rows = np.random.default_rng(0).permutation(len(table))
train, test = rows[:200], rows[200:]
model = EBLRClassifier(
    n_rules=3,
    residual="probability",
    max_depth=2,
    min_samples_leaf=10,
    alpha=0.02,
    early_stopping=None,  # all three rules, whether or not the BIC would keep them
)
model.fit(table.iloc[train], patients.target[train])
print(model.summary(max_terms=5))
stages = model.staged_predict_proba(table.iloc[test])
scores = [roc_auc_score(patients.target[test], p[:, 1]) for p in stages]
print("test AUC with 0, 1, 2, 3 rules:", ", ".join(f"{score:.3f}" for score in scores))
