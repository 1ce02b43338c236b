"""
All models on one table
=======================

`hybridtrees.compare` fits every family with several settings by one protocol and ranks them. The
command ``hybridtrees compare data.csv --target price`` does the same and writes a report.
"""

# %%
# Three families here, to be quick; leave `models` out for all of them.

import matplotlib.pyplot as plt

import hybridtrees
from hybridtrees.datasets import load_heart_failure

patients = load_heart_failure(as_frame=True)
result = hybridtrees.compare(
    patients.data.drop(columns="time"),
    patients.target,
    models=["linear", "cart", "eblr", "baseline"],
    name="heart failure",
    n_jobs=1,
)
print(result)

# %%
# The best model, fitted and ready, and the ranking as a picture:

print(result.best_)
result.plot_ranking()
plt.show()
