"""Shapley values, partial dependence: seconds of one thread of ours and of the peers, in turns.

    python shap_peers.py                  # all cases
    python shap_peers.py --case values    # values, interactions, lines, background, dependence

Values and interactions are compared with xgboost (3.4 or later: earlier ones are slower), with
trees of the same number and depth fitted to the same table; interventional values with the package
shap on the same trees, by its share of the rows, since it takes a thousand times as long. Partial
dependence from the trees alone is compared with scikit-learn's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hybridtrees import GradientBoostingRegressor, PLGBRegressor, XGBRegressor
from hybridtrees.inspection import partial_dependence, shap_values

N_ROWS = 10_000
SIZES = ((100, 6), (200, 8))


def table(n_rows: int = N_ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of 20 features and a target with interactions."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 20))
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.3 * X[:, 3:8].sum(axis=1)
    return X, y + 0.3 * rng.normal(size=n_rows)


def seconds(run: Callable[[], Any]) -> float:
    """Return the CPU seconds of a call."""
    start = time.process_time()
    run()
    return time.process_time() - start


def in_turns(*runs: Callable[[], Any], n_times: int) -> list[float]:
    """Return the least CPU seconds of each, run in turns."""
    best = [np.inf] * len(runs)
    for _ in range(n_times):
        for k, run in enumerate(runs):
            best[k] = min(best[k], seconds(run))
    return best


def report(what: str, ours: float, peer: float, name: str) -> None:
    """Print one line."""
    print(
        f"{what:46} ours {ours:9.3f} s  {name} {peer:9.3f} s  ratio {ours / peer:.4f}", flush=True
    )


def against_xgboost(n_times: int, interactions: bool) -> None:
    """Compare with the contributions of xgboost."""
    import xgboost

    X, y = table()
    rows = X[:1000] if interactions else X
    for n_trees, depth in SIZES:
        how = {"n_estimators": n_trees, "max_depth": depth, "n_jobs": 1}
        ours = XGBRegressor(**how).fit(X, y)
        theirs = xgboost.XGBRegressor(**how, tree_method="hist").fit(X, y).get_booster()
        theirs.set_param({"nthread": 1})
        made = xgboost.DMatrix(rows, nthread=1)
        option = {"pred_interactions" if interactions else "pred_contribs": True}

        def own(model: Any = ours) -> Any:
            return shap_values(model, rows, interactions=interactions, n_jobs=1)

        def other(booster: Any = theirs, data: Any = made, given: Any = option) -> Any:
            return booster.predict(data, **given)

        kind = "interactions" if interactions else "values"
        what = f"{kind}, {len(rows)} rows, {n_trees} trees, depth {depth}"
        report(what, *in_turns(own, other, n_times=n_times), f"xgboost {xgboost.__version__}")


def lines(n_times: int) -> None:
    """Compare lines in the leaves with constants in the same trees."""
    X, y = table()
    model = PLGBRegressor(n_estimators=100, n_jobs=1).fit(X, y)
    from hybridtrees.core.tree._shap import ShapTrees, add_path_values
    from hybridtrees.core.tree.additive import with_values
    from hybridtrees.core.tree.tree import TreeEnsemble

    trees = model.trees_
    plain = TreeEnsemble([with_values(tree, tree.values) for tree in trees], X.shape[1])
    laid = [ShapTrees(own, np.arange(20), 20) for own in (trees, plain)]

    def run(which: int, pairs: bool) -> Callable[[], Any]:
        rows = X[:1000] if pairs else X
        values = np.zeros((len(rows), 1, 20))
        both = np.zeros((len(rows), 1, 20, 20)) if pairs else None
        return lambda: add_path_values(laid[which], rows, values, both, 1)

    for pairs in (False, True):
        what = f"{'interactions' if pairs else 'values'} of lines, 100 trees"
        report(what, *in_turns(run(0, pairs), run(1, pairs), n_times=n_times), "our constants")


def background(n_times: int) -> None:
    """Compare interventional values with shap, which gets a part of the rows."""
    import shap

    X, y = table()
    model = XGBRegressor(n_estimators=100, max_depth=6, n_jobs=1).fit(X, y)
    others, part = X[:1000], X[:10]
    # By default shap takes 100 rows of the background.
    masker = shap.maskers.Independent(others, max_samples=len(others))
    explainer = shap.TreeExplainer(model.to_shap(), data=masker)
    ours, theirs = in_turns(
        lambda: shap_values(model, X, background=others, n_jobs=1),
        lambda: explainer.shap_values(part, check_additivity=False),
        n_times=n_times,
    )
    factor = len(X) / len(part)
    what = f"{len(others)} background x {len(X)} rows, depth 6"
    report(what, ours, theirs * factor, f"shap {shap.__version__} x {factor:.0f}")
    codes = X.copy()
    codes[:, :4] = np.digitize(X[:, :4], np.linspace(-2, 2, 15))
    model = XGBRegressor(
        n_estimators=100, max_depth=6, n_jobs=1, categorical_features=[0, 1, 2, 3]
    ).fit(codes, y)
    own = seconds(lambda: shap_values(model, codes, background=codes[:1000], n_jobs=1))
    report("the same with 4 columns of categories", own, theirs * factor, "shap without them")


def dependence(n_times: int) -> None:
    """Compare partial dependence on one feature, by recursion, 100 values of the grid."""
    import sklearn
    from sklearn.ensemble import GradientBoostingRegressor as Peer
    from sklearn.inspection import partial_dependence as of_peer

    X, y = table(100_000)
    how = {"n_estimators": 100, "max_depth": 3}
    ours = GradientBoostingRegressor(**how, n_jobs=1).fit(X[:N_ROWS], y[:N_ROWS])
    theirs = Peer(**how).fit(X[:N_ROWS], y[:N_ROWS])
    own, other = in_turns(
        lambda: partial_dependence(ours, X, 0, method="recursion"),
        lambda: of_peer(theirs, X, [0], method="recursion"),
        n_times=5 * n_times,
    )
    what = f"partial dependence, {len(X)} rows, 100 trees"
    report(what, own, other, f"scikit-learn {sklearn.__version__}")


CASES = {
    "values": lambda n_times: against_xgboost(n_times, False),
    "interactions": lambda n_times: against_xgboost(n_times, True),
    "lines": lines,
    "background": background,
    "dependence": dependence,
}


def main() -> None:
    """Run the cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=list(CASES), nargs="+", default=list(CASES))
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    for case in given.case:
        CASES[case](given.repeats)


if __name__ == "__main__":
    main()
