"""Print a hash of the predictions of every estimator under the options that choose its code.

Builds of the same source must print the same lines, whatever their flags, and so must one build
for every width of vectors (HYBRIDTREES_VECTOR_BITS) and number of threads. Between two machines
lines may differ: a linear model depends on the kernels that its BLAS has for the processor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import hybridtrees as ht

P = 8
CATEGORIES = [5]


class Table:
    """Numbers with ties, zeros, categories and missing values, and targets of every kind.

    Parameters
    ----------
    n : int
        Number of rows.
    """

    def __init__(self, n: int):
        rng = np.random.default_rng(1)
        X = rng.standard_normal((n, P))
        X[:, 3] = np.round(X[:, 3])
        X[:, 4] = np.where(rng.random(n) < 0.9, 0, X[:, 4])
        X[:, CATEGORIES] = rng.integers(0, 11, (n, 1))
        effect = rng.standard_normal(11)[X[:, 5].astype(int)]
        mean = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] + effect
        self.full = X
        self.holed = np.where(rng.random((n, P)) < 0.04, np.nan, X)
        self.weight = rng.exponential(size=n)
        y = mean + rng.standard_normal(n)
        self.targets = {
            "real": y,
            "pair": np.column_stack([y, X[:, 0] - mean]),
            "positive": np.exp(y / 4),
            "counts": rng.poisson(np.exp(mean / 4)),
            "binary": y > 0,
            "classes": np.digitize(y, [-1.0, 1.0]),
        }


def digest(*arrays: np.ndarray) -> str:
    """Short hash of the bytes of arrays."""
    parts = [np.ascontiguousarray(array).tobytes() for array in arrays]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def outputs(model: Any, X: np.ndarray) -> list[np.ndarray]:
    """Return what a model says of rows, and of rows beyond those that it has seen."""
    for method in ("predict_proba", "predict", "transform"):
        if hasattr(model, method):
            break
    # Another order of the memory and another type of numbers: two more paths to the same values.
    tables = (X, np.asfortranarray(1.5 * X), X[:37].astype(np.float32))
    # An imputer of categories returns objects, of which only the numbers count.
    return [np.asarray(getattr(model, method)(table), dtype=np.float64) for table in tables]


def show(
    table: Table, model: Any, target: str, *, full: bool = False, weighted: bool = False,
    evaluated: bool = False,
) -> None:  # fmt: skip
    """Fit a model and print its line: the estimator, its target, what is not the default."""
    X, y = table.full if full else table.holed, table.targets[target]
    own: dict[str, Any] = {}
    if weighted:
        own["sample_weight"] = table.weight
    if evaluated:
        # The last fifth is watched, by weights as uneven as those of the training.
        cut = len(y) * 4 // 5
        own = {name: value[:cut] for name, value in own.items()}
        own["eval_set"] = [(X[cut:], y[cut:])]
        if weighted:
            own["sample_weight_eval_set"] = [table.weight[cut:]]
        model.fit(X[:cut], y[:cut], **own)
    else:
        model.fit(X, y, **own)
    marks = [word for word, on in (("weights", weighted), ("watched", evaluated)) if on]
    text = " ".join([str(len(y)), target, *marks, "".join(repr(model).split())])
    print(digest(*outputs(model, X)), text, flush=True)


Work = tuple[Any, str, dict[str, Any]]


def single_trees() -> Iterator[Work]:
    """Classification and regression trees."""
    cats: dict[str, Any] = {"categorical_features": CATEGORIES}
    for splitter in ("exact", "hist"):
        shared = {"splitter": splitter, "max_depth": 7, "n_jobs": 2, "random_state": 0}
        for criterion, target in (
            ("squared_error", "real"),
            ("friedman_mse", "real"),
            ("absolute_error", "real"),
            ("poisson", "counts"),
        ):
            model = ht.CARTRegressor(criterion=criterion, **shared, **cats)
            yield model, target, {"weighted": True}
        for criterion in ("gini", "entropy", "misclassification"):
            model = ht.CARTClassifier(criterion=criterion, **shared, **cats)
            yield model, "classes", {}
        yield ht.CARTRegressor(**shared), "pair", {}
        yield ht.CARTRegressor(**{**shared, "max_features": 3}, max_leaf_nodes=20), "real", {}
        yield ht.CARTRegressor(monotonic_cst={0: 1, 3: 1}, **shared), "real", {}
        yield ht.CARTClassifier(class_weight="balanced", ccp_alpha="cv", **shared), "binary", {}
        yield ht.CARTRegressor(missing="stop", min_samples_leaf=5, **shared), "real", {}
        for calibrate in ("temperature", "isotonic"):
            yield ht.CARTClassifier(calibrate=calibrate, **shared), "classes", {"weighted": True}


def forests() -> Iterator[Work]:
    """Random forests, and the imputer that stands on them."""
    cats: dict[str, Any] = {"categorical_features": CATEGORIES}
    for splitter in ("exact", "hist"):
        shared = {"n_estimators": 10, "splitter": splitter, "n_jobs": 2, "random_state": 0}
        yield ht.RandomForestRegressor(**shared, **cats), "real", {"weighted": True}
        yield ht.RandomForestRegressor(**shared, max_samples=0.5, bootstrap=False), "pair", {}
        yield ht.RandomForestClassifier(**shared, **cats), "classes", {"weighted": True}
        yield (
            ht.RandomForestClassifier(
                **shared, criterion="entropy", voting="hard", class_weight="balanced_subsample"
            ),
            "binary",
            {},
        )
    shared = {"n_estimators": 5, "n_jobs": 2, "random_state": 0}
    yield ht.RandomForestRegressor(**shared, criterion="absolute_error"), "real", {}
    yield ht.RandomForestRegressor(**shared, criterion="poisson", ccp_alpha=0.01), "counts", {}
    yield ht.RandomForestRegressor(**shared, monotonic_cst={0: 1}, max_depth=5), "real", {}
    yield ht.ExtraTreesRegressor(**shared, **cats), "real", {"weighted": True}
    yield ht.ExtraTreesClassifier(**shared, max_features=3), "classes", {}
    imputer = ht.ProximityImputer(n_estimators=10, n_rounds=2, random_state=0, n_jobs=2, **cats)
    yield imputer, "real", {}
    yield ht.ProximityImputer(n_estimators=10, n_rounds=2, random_state=0), "classes", {}


def bags() -> Iterator[Work]:
    """Bagging and pasting."""
    shared: dict[str, Any] = {"n_estimators": 5, "n_jobs": 2, "random_state": 0}
    yield ht.BaggingRegressor(**shared), "real", {"weighted": True}
    yield ht.BaggingClassifier(max_features=0.5, **shared), "classes", {}
    yield ht.BaggingClassifier(prune=True, voting="hard", **shared), "binary", {"weighted": True}
    boosting = ht.XGBRegressor(n_estimators=4)
    yield ht.BaggingRegressor(boosting, **shared), "real", {"weighted": True}
    yield ht.BaggingRegressor(ht.LinearRegressor(), bootstrap=False, **shared), "real", {}
    for votes in ("importance", "random"):
        pasting = {"votes": votes, "precinct_size": 200, **shared}
        yield ht.PastingClassifier(**pasting), "classes", {"weighted": True}
        yield ht.PastingRegressor(**pasting), "real", {}
    yield ht.PastingClassifier(voting="soft", **shared), "binary", {}
    yield ht.PastingRegressor(ht.LinearTreeRegressor(max_depth=1), **shared), "real", {}


def named_ensembles() -> Iterator[Work]:
    """Voting, stacking and averages of named models."""
    small = {"max_depth": 5, "random_state": 0}
    numbers = [
        ("line", ht.LinearRegressor()),
        ("tree", ht.CARTRegressor(**small)),
        ("xgb", ht.XGBRegressor(n_estimators=5)),
    ]
    classes = [
        ("line", ht.LogisticClassifier()),
        ("tree", ht.CARTClassifier(**small)),
        ("xgb", ht.XGBClassifier(n_estimators=5)),
    ]
    for own in ({}, {"weights": "validation", "average": "median"}):
        yield ht.VotingRegressor(numbers, n_jobs=2, **own), "real", {"weighted": True}
    for voting in ("hard", "soft"):
        own = {"voting": voting, "weights": "validation", "n_jobs": 2}
        yield ht.VotingClassifier(classes, **own), "classes", {}
    for passthrough in (False, True):
        own = {"passthrough": passthrough, "n_jobs": 2}
        yield ht.StackingRegressor(numbers, **own), "real", {"weighted": True}
        yield ht.StackingClassifier(classes, **own), "classes", {}
    yield ht.StackingClassifier(classes, stack_method="predict", n_jobs=2), "binary", {}
    for weights in ("likelihood", "stacking", "greedy"):
        own = {"weights": weights, "n_jobs": 2}
        yield ht.ModelAverageRegressor(numbers, **own), "real", {"weighted": True}
        yield ht.ModelAverageClassifier(classes, **own), "binary", {}
    yield ht.ModelAverageRegressor(numbers[:2], weights="bic", n_jobs=2), "real", {}
    bagged = {"weights": "greedy", "scoring": "auc", "n_bags": 3, "random_state": 0}
    yield ht.ModelAverageClassifier(classes, **bagged, n_jobs=2), "binary", {}


def automatic() -> Iterator[Work]:
    """Models that choose among others."""
    own: dict[str, Any] = {"random_state": 0, "n_jobs": 2}
    yield ht.AutoRegressor(quality=3, **own), "real", {"weighted": True}
    yield ht.AutoClassifier(quality=1, **own), "classes", {}
    yield ht.AutoClassifier(quality=2, **own), "binary", {}


def friedman_boosting() -> Iterator[Work]:
    """Gradient boosting by Friedman's steps."""
    cats: dict[str, Any] = {"categorical_features": CATEGORIES}
    shared: dict[str, Any] = {"n_estimators": 10, "n_jobs": 2, "random_state": 0}
    GBR, GBC = ht.GradientBoostingRegressor, ht.GradientBoostingClassifier
    for splitter in ("exact", "hist"):
        own = {**shared, "splitter": splitter}
        for loss, target in (
            ("squared_error", "real"),
            ("absolute_error", "real"),
            ("huber", "real"),
            ("quantile", "real"),
            ("poisson", "counts"),
            ("gamma", "positive"),
            ("tweedie", "counts"),
        ):
            yield GBR(loss=loss, **own, **cats), target, {"weighted": True}
        yield GBR(subsample=0.6, max_features=0.5, ccp_alpha=1e-3, **own), "real", {}
        yield GBR(criterion="squared_error", max_leaf_nodes=9, max_depth=None, **own), "real", {}
        yield GBR(monotonic_cst={0: 1, 3: 1}, interaction_cst=[[0, 1], [2, 3]], **own), "real", {}
        yield GBC(loss="exponential", **own, **cats), "binary", {"weighted": True}
        yield GBC(**own, **cats), "classes", {}
    yield GBR(subsample=0.7, **shared), "pair", {"weighted": True}
    yield GBC(class_weight="balanced", **shared), "classes", {}
    own = {**shared, "n_estimators": 60, "learning_rate": 0.5}
    yield GBR(n_iter_no_change=2, tol=0.01, **own), "real", {"weighted": True}
    yield GBC(n_iter_no_change=2, **own), "binary", {"weighted": True, "evaluated": True}


def adaptive_boosting() -> Iterator[Work]:
    """AdaBoost by weights and by draws, of trees and of other members."""
    cats: dict[str, Any] = {"categorical_features": CATEGORIES}
    shared: dict[str, Any] = {"n_estimators": 10, "n_jobs": 2, "random_state": 0}
    ABR, ABC = ht.AdaBoostRegressor, ht.AdaBoostClassifier
    for splitter in ("exact", "hist"):
        own = {**shared, "splitter": splitter}
        for target in ("binary", "classes"):
            yield ABC(**own, **cats), target, {"weighted": True}
            yield ABC(max_depth=3, max_features=3, resample=True, **own), target, {}
        for loss in ("linear", "square", "exponential"):
            yield ABR(loss=loss, **own, **cats), "real", {"weighted": True}
        yield ABR(resample=False, missing="stop", **own), "real", {"weighted": True}
    yield ABC(class_weight="balanced", ccp_alpha=0.01, max_depth=4, **shared), "classes", {}
    yield ABC(ht.CARTClassifier(max_depth=2), **shared), "binary", {"weighted": True}
    yield ABR(ht.CARTRegressor(max_depth=2), **shared), "real", {}


def newton_boosting() -> Iterator[Work]:
    """Gradient boosting by Newton's steps."""
    cats: dict[str, Any] = {"categorical_features": CATEGORIES}
    shared: dict[str, Any] = {"n_estimators": 10, "n_jobs": 2, "random_state": 0}
    for method in ("hist", "approx", "exact"):
        own = {**shared, "tree_method": method}
        yield ht.XGBRegressor(**own, **cats), "real", {"weighted": True}
        yield ht.XGBClassifier(**own, **cats), "classes", {}
        smooth: dict[str, Any] = {"cat_smooth": 2.0, "cat_l2": 1.0, "min_data_per_group": 5}
        yield ht.XGBRegressor(**smooth, **own, **cats), "real", {}
        means: dict[str, Any] = {"categorical_statistics": True, **own, **cats}
        yield ht.XGBRegressor(**means), "real", {"weighted": True}
        yield ht.XGBClassifier(**means), "classes", {}
        yield ht.XGBClassifier(scale_pos_weight=2.0, **own), "binary", {}
        sampled = {"subsample": 0.7, "colsample_bytree": 0.6, "colsample_bynode": 0.7}
        yield ht.XGBRegressor(**sampled, **own), "real", {}
        yield ht.XGBClassifier(num_parallel_tree=3, **sampled, **own), "classes", {}
        by_gradient = {"subsample": 0.3, "sampling_method": "gradient_based"}
        yield ht.XGBRegressor(**by_gradient, **own), "real", {"weighted": True}
        yield ht.XGBClassifier(**by_gradient, **own), "classes", {}
        strict = {"reg_alpha": 0.5, "gamma": 0.1, "min_child_weight": 5, "max_delta_step": 0.7}
        yield ht.XGBRegressor(**strict, max_bin=63, **own), "real", {"weighted": True}
        constraints = {
            "monotone_constraints": {0: 1, 3: 1},
            "interaction_constraints": [[0, 1], [2, 3]],
        }
        yield ht.XGBRegressor(**constraints, **own), "real", {}
    yield ht.XGBClassifier(class_weight={True: 3.0}, **shared), "binary", {"weighted": True}
    yield ht.XGBClassifier(objective="exponential", **shared), "binary", {"weighted": True}
    lossguide = {"max_depth": 0, "max_leaves": 31, "grow_policy": "lossguide"}
    yield ht.XGBRegressor(**lossguide, **shared), "real", {}
    yield ht.XGBRegressor(tree_method="approx", sketch="local", **shared), "real", {}
    for objective, target in (
        ("reg:absoluteerror", "real"),
        ("reg:pseudohubererror", "real"),
        ("count:poisson", "counts"),
        ("reg:gamma", "positive"),
        ("reg:tweedie", "counts"),
    ):
        yield ht.XGBRegressor(objective=objective, **shared), target, {"weighted": True}
    levels = [0.1, 0.5, 0.9]
    quantiles = ht.XGBRegressor(objective="reg:quantileerror", quantile_alpha=levels, **shared)
    yield quantiles, "real", {}
    stopping = {**shared, "n_estimators": 60, "early_stopping_rounds": 3, "eval_metric": "logloss"}
    yield ht.XGBClassifier(**stopping), "binary", {"weighted": True, "evaluated": True}


def regressions() -> Iterator[Work]:
    """Penalised linear models."""
    cats: dict[str, Any] = {"categorical_features": CATEGORIES, "n_jobs": 2}
    for penalty in (None, "ridge", "lasso", "elasticnet"):
        own = {"penalty": penalty, "alpha": 0.02, **cats}
        yield ht.LinearRegressor(**own), "pair", {"weighted": True}
        yield ht.LogisticClassifier(**own), "classes", {"weighted": True}
        yield ht.LogisticClassifier(missing_indicator=True, **own), "binary", {}
    yield ht.LogisticClassifier(class_weight="balanced", **cats), "classes", {}
    yield ht.LinearRegressor(penalty="lasso", alpha="cv", alphas=20, **cats), "real", {}
    yield ht.LinearRegressor(penalty="ridge", alpha="cv", standardize=False), "real", {}
    yield ht.LogisticClassifier(penalty="lasso", alpha="cv", alphas=8), "binary", {}


def linear_leaves() -> Iterator[Work]:
    """Trees, forests and boosting with lines in their leaves."""
    cats: dict[str, Any] = {"categorical_features": CATEGORIES, "n_jobs": 2, "random_state": 0}
    LTR, LTC = ht.LinearTreeRegressor, ht.LinearTreeClassifier
    for penalty in (None, "ridge", "lasso"):
        yield LTR(penalty=penalty, **cats), "real", {"weighted": True}
    yield LTR(criterion="absolute_error", max_depth=2, **cats), "real", {"weighted": True}
    yield LTR(search="exact", candidates="quantiles", extrapolate="clip", **cats), "pair", {}
    yield LTR(categorical_effects=True, smoothing=10.0, ccp_alpha=0.01, **cats), "real", {}
    yield LTR(validation_fraction=0.2, extrapolate="linear", max_features=4, **cats), "real", {}
    for criterion in ("log_loss", "gini"):
        yield LTC(criterion=criterion, max_depth=3, **cats), "classes", {"weighted": True}
    yield LTC(penalty="lasso", alpha=0.01, max_depth=2, smoothing=5.0, **cats), "binary", {}
    yield LTC(class_weight="balanced", max_depth=2, **cats), "classes", {}
    few = {"n_estimators": 5, **cats}
    yield ht.LinearForestRegressor(max_features=0.5, **few), "real", {"weighted": True}
    yield ht.LinearForestRegressor(pruning=None, max_depth=3, **few), "pair", {}
    yield ht.LinearForestClassifier(max_depth=2, **few), "classes", {}
    balanced = {**few, "class_weight": "balanced"}
    yield ht.LinearForestClassifier(max_depth=2, **balanced), "binary", {}
    yield ht.PLGBClassifier(**balanced), "classes", {}
    some = {**few, "n_estimators": 8}
    for leaf_fit in ("half_additive", "additive", "full"):
        yield ht.PLGBRegressor(leaf_fit=leaf_fit, **some), "real", {"weighted": True}
    yield ht.PLGBRegressor(extrapolation="bounded", grow_policy="depthwise", **some), "real", {}
    yield ht.PLGBRegressor(monotone_constraints={0: 1, 3: 1}, reg_alpha=0.1, **some), "real", {}
    sampled = {"subsample": 0.7, "colsample_bytree": 0.6, "refit_leaves": False}
    yield ht.PLGBRegressor(extrapolation="linear", **sampled, **some), "real", {}
    yield ht.PLGBRegressor(objective="count:poisson", **some), "counts", {"weighted": True}
    by_gradient = {"subsample": 0.3, "sampling_method": "gradient_based"}
    yield ht.PLGBRegressor(**by_gradient, **some), "real", {"weighted": True}
    yield ht.PLGBClassifier(**some), "classes", {}
    stopping = {**some, "n_estimators": 60, "early_stopping_rounds": 3, "learning_rate": 0.3}
    yield ht.PLGBClassifier(**stopping), "binary", {"weighted": True, "evaluated": True}


def lines_and_trees() -> Iterator[Work]:
    """Lines with a forest on their residuals, lines with rules."""
    cats: dict[str, Any] = {"categorical_features": CATEGORIES, "n_jobs": 2, "random_state": 0}
    few = {"n_estimators": 5, **cats}
    yield ht.RERFRegressor(**few), "real", {"weighted": True}
    yield ht.RERFRegressor(penalty="lasso", alpha="cv", splitter="exact", **few), "real", {}
    yield ht.RERFRegressor(categorical_encoding="target_mean", **few), "pair", {}
    yield ht.RERFRegressor(tune={"alpha": [0.001, 0.1], "max_features": [2, 4]}, **few), "real", {}
    for target in ("binary", "classes"):
        yield ht.RERFClassifier(**few), target, {"weighted": True}
    yield ht.RERFClassifier(class_weight="balanced", **few), "binary", {}
    yield ht.EBLRClassifier(class_weight="balanced", n_rules=5, **cats), "classes", {}
    yield ht.EBLRRegressor(early_stopping="validation", **cats), "pair", {"weighted": True}
    for residual, target in (
        ("linear", "real"),
        ("absolute", "real"),
        ("squared", "real"),
        ("exponential", "real"),
        ("poisson", "counts"),
    ):
        yield ht.EBLRRegressor(residual=residual, n_rules=6, **cats), target, {"weighted": True}
    yield ht.EBLRRegressor(penalty="lasso", alpha=0.01, n_rules=6, **cats), "real", {}
    yield ht.EBLRRegressor(early_stopping="validation", **cats), "real", {"weighted": True}
    yield ht.EBLRRegressor(early_stopping="bic", max_leaf_nodes=4, **cats), "real", {}
    for target in ("binary", "classes"):
        yield ht.EBLRClassifier(n_rules=5, **cats), target, {"weighted": True}


def mixtures() -> Iterator[Work]:
    """Mixtures of experts."""
    cats: dict[str, Any] = {"categorical_features": CATEGORIES, "n_jobs": 2, "random_state": 0}
    few = {"max_iter": 15, "tol": 1e-3, "n_restarts": 2, **cats}
    yield ht.MixtureOfExpertsRegressor(n_experts=3, **few), "real", {"weighted": True}
    yield ht.MixtureOfExpertsRegressor(expert="tree", **few), "real", {}
    for target in ("binary", "classes"):
        yield ht.MixtureOfExpertsClassifier(**few), target, {"weighted": True}
    yield ht.MixtureOfExpertsClassifier(expert="tree", **few), "classes", {}


def large_works() -> Iterator[Work]:
    """Tables of several blocks, for loops that a small table does not enter."""
    shared: dict[str, Any] = {"n_estimators": 4, "n_jobs": 2, "random_state": 0}
    for method in ("hist", "approx", "exact"):
        yield ht.XGBRegressor(tree_method=method, **shared), "real", {}
        sampled = ht.XGBRegressor(tree_method=method, subsample=0.7, **shared)
        yield sampled, "real", {"weighted": True}
    by_gradient = {"subsample": 0.3, "sampling_method": "gradient_based"}
    yield ht.XGBRegressor(**by_gradient, **shared), "real", {}
    yield ht.XGBClassifier(**shared), "classes", {}
    yield ht.GradientBoostingRegressor(subsample=0.7, **shared), "real", {}
    yield ht.RandomForestClassifier(**shared), "binary", {}
    yield ht.CARTRegressor(max_depth=9, n_jobs=2), "real", {"weighted": True}
    yield ht.LinearRegressor(penalty="ridge", n_jobs=2), "real", {"weighted": True}
    yield ht.LogisticClassifier(n_jobs=2), "binary", {}
    yield ht.PLGBRegressor(**shared), "real", {"weighted": True}
    yield ht.LinearTreeRegressor(max_depth=3, n_jobs=2), "real", {"full": True}
    yield ht.EBLRRegressor(n_rules=3, n_jobs=2), "real", {}
    yield ht.RERFRegressor(**shared), "real", {"weighted": True}
    yield ht.LinearForestRegressor(max_depth=2, max_bins=16, **shared), "real", {}
    yield ht.ProximityImputer(n_rounds=1, **shared), "real", {}


def main() -> None:
    """Fit and print."""
    small = Table(1501)
    for works in (
        single_trees,
        forests,
        bags,
        named_ensembles,
        automatic,
        friedman_boosting,
        adaptive_boosting,
        newton_boosting,
        regressions,
        linear_leaves,
        lines_and_trees,
        mixtures,
    ):
        for model, target, options in works():
            show(small, model, target, **options)
    # Three blocks of 4096 rows and one row more.
    middle = Table(3 * 4096 + 1)
    for model, target, options in large_works():
        show(middle, model, target, **options)
    # Large enough for the packed 16-bit histograms, for every parallel loop and for codes of more
    # than 16 bits.
    large = Table(2**17 + 1)
    show(large, ht.XGBClassifier(n_estimators=4, n_jobs=2, random_state=0), "binary")


if __name__ == "__main__":
    main()
