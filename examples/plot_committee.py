"""
A committee of models, and when it helps
========================================

A committee asks several models and averages their probabilities. Its log-loss is never above the
mean of its members', and far below it where they err on different rows. What they all get wrong,
no vote can mend.
"""

# %%
# Five members on Fisher's irises, each a plausible model of its own. Scores are those of rows that
# the models have not seen, over four repeats of five folds:

import matplotlib.pyplot as plt
import numpy as np

from hybridtrees import (
    CARTClassifier,
    CARTRegressor,
    LogisticClassifier,
    RandomForestClassifier,
    RERFClassifier,
    VotingClassifier,
    XGBClassifier,
    cv,
)
from hybridtrees.datasets import load_iris

iris = load_iris()
members = [
    ("tree", CARTClassifier(max_depth=3, random_state=0, n_jobs=1)),
    ("logistic", LogisticClassifier(n_jobs=1)),
    ("forest", RandomForestClassifier(20, random_state=0, n_jobs=1)),
    ("boosting", XGBClassifier(n_estimators=20, max_depth=2, n_jobs=1)),
    ("rerf", RERFClassifier(n_estimators=20, random_state=0, n_jobs=1)),
]
committee = VotingClassifier(members, voting="soft", n_jobs=1)
scores = {
    name: cv(model, iris.data, iris.target, repeats=4, scoring=["accuracy", "logloss"]).mean
    for name, model in [*members, ("committee", committee)]
}
for name, found in scores.items():
    print(f"accuracy and log-loss, {name}: {found['accuracy']:.3f} {found['logloss']:.3f}")
typical = {key: np.mean([scores[name][key] for name, _ in members]) for key in found}
print(f"mean of the members: {typical['accuracy']:.3f} {typical['logloss']:.3f}")

# %%
# The committee need not beat its best member, but nobody has to know beforehand which one that is:
# it has learned from no test row, and it is safer than a member drawn at random.
#
# The law of committees. If members err with the variance v, and the errors of two of them have the
# correlation r, then the mean of M members errs with the variance ``r v + (1 - r) v / M``: only the
# part that they do not share goes away. Deep trees on bootstrap samples of a noisy curve:

rng = np.random.default_rng(0)
n_members, n_worlds = 40, 15
grid = np.linspace(0, 6, 60)[:, None]
answers = np.empty((n_worlds, n_members, len(grid)))
for world in range(n_worlds):
    x = rng.uniform(0, 6, (80, 1))
    y = np.sin(x[:, 0]) + rng.normal(0, 0.5, 80)
    for member in range(n_members):
        rows = rng.integers(0, 80, 80)
        tree = CARTRegressor(random_state=0, n_jobs=1).fit(x[rows], y[rows])
        answers[world, member] = tree.predict(grid)

errors = answers - answers.mean(axis=(0, 1))  # from the mean answer: what chance has added
sizes = np.arange(1, n_members + 1)
means = np.cumsum(errors, axis=1) / sizes[:, None]
measured = (means**2).mean(axis=(0, 2))
v = (errors**2).mean()
pairs = ((errors.sum(axis=1) ** 2).mean() - n_members * v) / (n_members * (n_members - 1))
r = pairs / v
print(f"correlation of two members: {r:.2f}")
print(f"variance of 1 and of {n_members} members: {measured[0]:.3f} {measured[-1]:.3f}")

# %%
# The measured variance follows the law, and stops falling at ``r v``. Independent members would go
# on to 0: a committee gains more from different members than from many.

figure, (bars, law) = plt.subplots(1, 2, figsize=(9.5, 3.4))
losses = [found["logloss"] for found in scores.values()]
bars.barh(list(scores), losses, color=["C1"] * len(members) + ["C0"])
bars.axvline(typical["logloss"], color="C7", linestyle="--", label="mean of the members")
bars.set(title="log-loss on irises not seen")
bars.legend()
law.plot(sizes, measured, "o", color="C0", markersize=4, label="mean of M trees")
law.plot(sizes, r * v + (1 - r) * v / sizes, color="C1", label="r v + (1 - r) v / M")
law.plot(sizes, v / sizes, color="C7", linestyle="--", label="independent, v / M")
law.set(xlabel="members M", title="variance of the committee", ylim=(0, None))
law.legend()
figure.tight_layout()
plt.show()
