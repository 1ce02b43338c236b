"""Small problems for the exact search: every criterion under every layout of the targets.

Targets and weights are multiples of 1/8, so that equal gains are equal and unequal ones far apart.
"""

from __future__ import annotations

import exact_oracle as eo
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hybridtrees.core.grow.params import GrowerParams

# Criterion, what the targets are, whether they have weights.
KINDS = {
    "newton": ("newton", "newton", True),
    "squares": ("squares", "number", False),
    "squares-weighted": ("squares", "number", True),
    "squares-outputs": ("squares", "outputs", False),
    "squares-outputs-weighted": ("squares", "outputs", True),
    "gini": ("squares", "classes", False),
    "gini-weighted": ("squares", "classes", True),
    "entropy-binary": ("entropy", "binary", False),
    "entropy-binary-weighted": ("entropy", "binary", True),
    "entropy": ("entropy", "classes", False),
    "entropy-weighted": ("entropy", "classes", True),
    "misclassified-binary": ("misclassified", "binary", False),
    "misclassified-binary-weighted": ("misclassified", "binary", True),
    "misclassified": ("misclassified", "classes", False),
    "misclassified-weighted": ("misclassified", "classes", True),
    "poisson": ("poisson", "counts", False),
    "poisson-weighted": ("poisson", "counts", True),
    "poisson-outputs": ("poisson", "counts-outputs", True),
    "absolute": ("absolute", "number", False),
    "absolute-weighted": ("absolute", "number", True),
    "absolute-outputs": ("absolute", "outputs", False),
    "absolute-outputs-weighted": ("absolute", "outputs", True),
}
ONE_OUTPUT = [k for k, (_, what, _) in KINDS.items() if "outputs" not in what and what != "classes"]


def make_target(kind, steps, weight):
    """Target of a kind from integers in [-40, 40], of shape (n, 2), and weights."""
    _, what, weighted = KINDS[kind]
    weight = weight if weighted else None
    if what == "newton":
        return eo.newton_target(steps[:, 0] / 8, weight)
    if what == "classes":
        return eo.class_target(np.abs(steps[:, 0]) % 3, 3, weight)
    if what == "binary":
        y, binary = steps[:, :1] > 0, True
    elif what.startswith("counts"):
        y, binary = np.abs(steps) // 8, False
    else:
        y, binary = steps / 8, False
    y = y if "outputs" in what else y[:, :1]
    if weight is None and y.shape[1] == 1:
        return eo.unit_target(y, binary)
    return eo.weighted_target(y, np.ones(len(y)) if weight is None else weight, binary)


def random_problem(rng, kind, n, n_features=3, *, n_values=9, missing=0.15, kinds=None, **rules):
    """A problem of a kind with random values."""
    X = rng.integers(0, n_values, (n, n_features)).astype(np.float64)
    X[rng.random(X.shape) < missing] = np.nan
    target = make_target(kind, rng.integers(-40, 41, (n, 2)), rng.integers(1, 25, n) / 8)
    return eo.Problem(X, target, params_of(kind, **rules), kinds)


def params_of(kind, **rules) -> GrowerParams:
    """Rules of a kind: any split is better than none, except under penalties."""
    criterion = KINDS[kind][0]
    plain = {
        "criterion": criterion,
        "frontier": "depth-first",
        "max_depth": 0,
        "min_child_weight": 0.0,
        "min_gain": 0.0 if criterion == "newton" else -np.inf,
        "preorder": True,
    }
    return GrowerParams(**(plain | rules))


@st.composite
def rule_sets(draw, kind, **fixed):
    """Rules of all sorts; the named ones as given."""
    drawn = {
        "max_depth": draw(st.integers(1, 3)),
        "min_child_weight": draw(st.sampled_from([0.0, 0.0, 1.0, 2.5, 6.0])),
        "min_samples_leaf": draw(st.sampled_from([1, 1, 2, 4])),
        "min_samples_split": draw(st.sampled_from([2, 2, 7])),
        "missing": draw(st.sampled_from(["learn", "learn", "stop"])),
    }
    if KINDS[kind][0] == "newton":
        # Bounds that no gain meets exactly: it would be rounding that decides.
        drawn["min_gain"] = draw(st.sampled_from([0.0, 0.0, 0.31415926, 2.71828182]))
        drawn["reg_lambda"] = draw(st.sampled_from([0.0, 1.0, 1.0, 8.0]))
        drawn["reg_alpha"] = draw(st.sampled_from([0.0, 0.0, 0.5, 3.0]))
        drawn["max_delta_step"] = draw(st.sampled_from([0.0, 0.0, 0.25, 2.0]))
    else:
        drawn["min_gain"] = draw(st.sampled_from([-np.inf, -np.inf, 0.31415926]))
    return params_of(kind, **(drawn | fixed))


@st.composite
def problems(draw, kind, *, max_rows=22, max_features=3, n_values=6, categorical=False, **fixed):
    """Tables full of ties, with constant columns and columns without a value."""
    n = draw(st.integers(1, max_rows))
    p = draw(st.integers(1, max_features))
    codes = draw(hnp.arrays(np.int8, (n, p), elements=st.integers(0, n_values)))
    X = codes.astype(draw(st.sampled_from([np.float32, np.float64])))
    if draw(st.booleans()):
        X[codes == n_values] = np.nan
    kinds = np.full(p, categorical, dtype=np.uint8)
    steps = draw(hnp.arrays(np.int8, (n, 2), elements=st.integers(-40, 40)))
    weight = draw(hnp.arrays(np.int8, n, elements=st.integers(1, 24))) / 8
    params = draw(rule_sets(kind, **fixed))
    return eo.Problem(X, make_target(kind, steps, weight), params, kinds)
