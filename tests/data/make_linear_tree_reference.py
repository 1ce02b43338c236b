"""Make linear_tree_reference.json: trees of linear-tree 0.3.5 on small tables.

Run it in an environment of its own: ``pip install linear-tree==0.3.5 'scikit-learn<1.6'``. The
tables are stored with the trees, so that nothing depends on a random generator.
"""

import json
import pathlib

import numpy as np
from lineartree import LinearTreeClassifier, LinearTreeRegressor
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, LogisticRegression, Ridge


def nodes_of(model):
    """Splits and leaves by number, coefficients and intercepts in the leaves."""
    out = {}
    for number, node in model.summary().items():
        own = {"loss": float(node["loss"]), "samples": int(node["samples"])}
        if "children" in node:
            own |= {
                "col": int(node["col"]),
                "th": float(node["th"]),
                "children": [int(child) for child in node["children"]],
            }
        elif hasattr(node["models"], "coef_"):
            own |= {
                "coef": np.ravel(node["models"].coef_).tolist(),
                "intercept": float(np.ravel(node["models"].intercept_)[0]),
            }
        out[str(number)] = own
    return out


def main():
    """Fit and write."""
    rng = np.random.default_rng(20260101)
    X = rng.normal(size=(240, 3)).round(3)
    pieces = np.where(X[:, 0] > 0.2, 3 * X[:, 1] + 2, -2 * X[:, 1] + X[:, 2])
    y = (100 * (pieces + np.where(X[:, 2] > 0.5, 2 * X[:, 0], 0))).round(1)
    y = (y + 20 * rng.normal(size=len(y))).round(1)
    weight = rng.integers(1, 5, size=len(y)).astype(float)
    label = (pieces + rng.logistic(size=len(y)) > 0).astype(int)
    linear = {
        "ols": (LinearRegression(), {}),
        "ridge": (Ridge(alpha=3.0), {}),
        "lasso": (Lasso(alpha=20.0, tol=1e-6, max_iter=100_000), {}),
        "elasticnet": (ElasticNet(alpha=0.5, l1_ratio=0.3, tol=1e-6, max_iter=100_000), {}),
        "shallow": (LinearRegression(), {"max_depth": 2, "min_samples_leaf": 0.2}),
        "split_features": (LinearRegression(), {"split_features": [0, 2]}),
        "linear_features": (LinearRegression(), {"linear_features": [1, 2]}),
        "weighted": (LinearRegression(), {}),
    }
    cases = {}
    for name, (base, options) in linear.items():
        model = LinearTreeRegressor(base, **options)
        model.fit(X, y, weight if name == "weighted" else None)
        cases[name] = {
            "nodes": nodes_of(model),
            "predictions": model.predict(X[:20]).tolist(),
            "options": options,
        }
    model = LinearTreeClassifier(
        LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000), criterion="crossentropy", max_depth=2
    )
    model.fit(X, label)
    cases["logistic"] = {
        "nodes": nodes_of(model),
        "predictions": model.predict_proba(X[:20])[:, 1].tolist(),
        "options": {"max_depth": 2},
    }
    out = {
        "source": "linear-tree 0.3.5 (MIT licence), made by make_linear_tree_reference.py",
        "X": X.tolist(),
        "y": y.tolist(),
        "weight": weight.tolist(),
        "label": label.tolist(),
        "cases": cases,
    }
    path = pathlib.Path(__file__).with_name("linear_tree_reference.json")
    path.write_text(json.dumps(out, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
