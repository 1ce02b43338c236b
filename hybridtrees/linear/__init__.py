"""Linear and logistic regression, and the solvers that hybrids of trees and regression use.

The estimators are in `regressor` and `classifier`. Below are `cross_products`, sums of products of
columns, and `solvers`, with solutions from nothing but these sums. Compiled parts load
SciPy's linear algebra and are therefore imported where they are used, not here.
"""
