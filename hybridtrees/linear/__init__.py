"""Linear and logistic regression, and the solvers that the hybrid models use.

The estimators are in `regressor` and `classifier`. Compiled modules load SciPy's linear algebra and
are therefore imported where they are used, not here.
"""
