"""scikit-learn's own checks of estimators."""

from __future__ import annotations

import pytest

import hybridtrees as ht

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

# Checks that are expected to fail, by name, and why. The estimators as they come have none.
DRAWN = "rows are drawn: weight two and a row twice agree in distribution only"
UNDONE = "calibrated probabilities are those of the rows as they are"
FOLDS = "weights leave four rows, and five folds need more: that is refused first"
OTHERS = "the check sets a parameter of trees, which an ensemble of other members refuses"
EXPECTED_WITH_DRAWS = {
    "check_sample_weight_equivalence_on_dense_data": DRAWN,
    "check_sample_weight_equivalence_on_sparse_data": DRAWN,
}


def expected_failures(estimator):
    draws = getattr(estimator, "bootstrap", False) or getattr(estimator, "subsample", 1) < 1
    draws = draws or getattr(estimator, "resample", False)
    draws = draws or hasattr(estimator, "precinct_size")
    draws = draws or hasattr(estimator, "quality")  # rows are held out at random
    if isinstance(estimator, ht.GradientBoostingRegressor | ht.GradientBoostingClassifier):
        draws = draws or estimator.n_iter_no_change is not None
    calibrated = getattr(estimator, "calibrate", None) is not None  # by rows held out at random
    expected = EXPECTED_WITH_DRAWS if draws or calibrated else {}
    if calibrated and estimator.calibrate == "isotonic":
        expected = {**expected, "check_class_weight_classifiers": UNDONE}
    if getattr(estimator, "conformal", None) == "cv":
        expected = {**expected, "check_classifiers_one_label_sample_weights": FOLDS}
    if isinstance(estimator, ht.AdaBoostClassifier) and estimator.estimator is not None:
        expected = {**expected, "check_class_weight_classifiers": OTHERS}
    return expected


LINE, TREE = ht.LinearRegressor(n_jobs=1), ht.CARTRegressor(max_depth=3, n_jobs=1)
TWO = [("line", LINE), ("tree", TREE)]
CLASS_TREE = ht.CARTClassifier(max_depth=3, n_jobs=1)
TWO_FOR_CLASSES = [("line", ht.LogisticClassifier(n_jobs=1)), ("tree", CLASS_TREE)]


# One thread: the tables have a few dozen rows, and the checks are many. EM need not converge far.
@parametrize_with_checks(
    [
        ht.XGBRegressor(n_estimators=10, n_jobs=1),
        ht.XGBClassifier(n_estimators=10, n_jobs=1),
        ht.XGBRFRegressor(n_estimators=10, n_jobs=1),
        ht.XGBRFClassifier(n_estimators=10, n_jobs=1),
        ht.XGBRegressor(
            n_estimators=3, n_jobs=1, grow_policy="lossguide", max_depth=0, max_leaves=7,
            subsample=0.8, colsample_bytree=0.9,
        ),
        ht.CARTRegressor(n_jobs=1),
        ht.CARTRegressor(conformal="cv", n_jobs=1),
        ht.LinearRegressor(conformal="cv+", n_jobs=1),
        ht.LogisticClassifier(conformal="cv", calibrate="temperature", n_jobs=1),
        ht.CARTClassifier(max_depth=3, calibrate="isotonic", n_jobs=1),
        ht.CARTRegressor(criterion="absolute_error", max_leaf_nodes=8, missing="stop", n_jobs=1),
        ht.CARTRegressor(splitter="hist", ccp_alpha=0.01, n_jobs=1),
        ht.CARTClassifier(n_jobs=1),
        ht.CARTClassifier(
            criterion="entropy", splitter="hist", max_leaf_nodes=8, random_state=0, n_jobs=1
        ),
        ht.CARTClassifier(ccp_alpha="cv", cv=2, random_state=0, n_jobs=1),
        ht.GradientBoostingRegressor(n_estimators=10, n_jobs=1),
        ht.GradientBoostingClassifier(n_estimators=10, n_jobs=1),
        ht.GradientBoostingRegressor(
            n_estimators=25, n_jobs=1, loss="huber", splitter="hist", max_leaf_nodes=5,
            learning_rate=0.5, ccp_alpha=1e-6,
        ),
        ht.GradientBoostingClassifier(
            n_estimators=10, n_jobs=1, splitter="hist", n_iter_no_change=3, random_state=0
        ),
        ht.GradientBoostingRegressor(
            n_estimators=20, n_jobs=1, subsample=0.7, max_features=0.8, init="zero", random_state=0
        ),
        ht.RandomForestRegressor(n_estimators=5, n_jobs=1),
        ht.RandomForestRegressor(
            n_estimators=3, criterion="absolute_error", splitter="exact", missing="stop", n_jobs=1
        ),
        ht.RandomForestRegressor(
            n_estimators=2, bootstrap=False, max_features=None, min_samples_leaf=1, n_jobs=1
        ),
        ht.RandomForestClassifier(n_estimators=10, n_jobs=1),
        ht.RandomForestClassifier(
            n_estimators=5, criterion="entropy", voting="hard", class_weight="balanced_subsample",
            max_samples=0.8, n_jobs=1,
        ),
        ht.AdaBoostClassifier(n_estimators=5, n_jobs=1),
        ht.AdaBoostClassifier(
            n_estimators=4, max_depth=2, splitter="exact", resample=True, random_state=0, n_jobs=1
        ),
        ht.AdaBoostClassifier(ht.CARTClassifier(max_depth=2), n_estimators=3, n_jobs=1),
        ht.AdaBoostRegressor(n_estimators=5, n_jobs=1),
        ht.AdaBoostRegressor(n_estimators=5, resample=False, loss="square", n_jobs=1),
        ht.AdaBoostRegressor(
            ht.CARTRegressor(max_depth=2), n_estimators=3, resample=False, n_jobs=1
        ),
        ht.BaggingRegressor(n_estimators=5, n_jobs=1),
        ht.BaggingRegressor(ht.LinearRegressor(), n_estimators=3, bootstrap=False, n_jobs=1),
        ht.BaggingRegressor(
            ht.XGBRegressor(n_estimators=5), 5, max_features=0.9, n_jobs=1, random_state=0
        ),
        ht.BaggingClassifier(n_estimators=10, n_jobs=1),
        ht.BaggingClassifier(n_estimators=5, max_features=0.9, prune=True, n_jobs=1),
        ht.BaggingClassifier(
            ht.LogisticClassifier(), 5, voting="hard", n_jobs=1, random_state=0
        ),
        ht.PastingRegressor(n_estimators=5, n_jobs=1),
        ht.PastingRegressor(
            ht.LinearRegressor(), 5, votes="importance", precinct_size=20, n_jobs=1, random_state=0
        ),
        ht.PastingClassifier(n_estimators=20, n_jobs=1),
        ht.PastingClassifier(
            ht.LogisticClassifier(), 5, voting="soft", votes="random", n_jobs=1, random_state=0
        ),
        ht.ProximityImputer(n_estimators=3, n_rounds=1, n_jobs=1),
        ht.DateFeatures(),
        ht.RERFRegressor(n_estimators=5, n_jobs=1),
        ht.RERFRegressor(n_estimators=2, bootstrap=False, max_features=None, n_jobs=1),
        ht.RERFRegressor(n_estimators=2, bootstrap=False, splitter="exact", n_jobs=1),
        ht.RERFRegressor(
            n_estimators=4, penalty="lasso", tune={"alpha": [0.1, 1e-3]}, tune_by=2, n_jobs=1
        ),
        ht.RERFClassifier(n_estimators=5, n_jobs=1),
        ht.RERFClassifier(
            n_estimators=2, bootstrap=False, max_features=None, min_samples_leaf=1, n_jobs=1
        ),
        ht.RERFClassifier(n_estimators=3, penalty="elasticnet", splitter="exact", n_jobs=1),
        ht.PLGBRegressor(n_estimators=5, n_jobs=1),
        ht.PLGBClassifier(n_estimators=5, n_jobs=1),
        ht.PLGBRegressor(n_estimators=5, n_jobs=1, leaf_fit="full", extrapolation="bounded"),
        ht.EBLRRegressor(n_rules=3, n_jobs=1),
        ht.EBLRRegressor(penalty="elasticnet", residual="absolute", early_stopping="bic", n_jobs=1),
        ht.EBLRRegressor(n_rules=3, early_stopping="validation", random_state=0, n_jobs=1),
        ht.EBLRClassifier(n_rules=3, n_jobs=1),
        ht.EBLRClassifier(n_rules=2, penalty="lasso", residual="probability", n_jobs=1),
        ht.LinearTreeRegressor(random_state=0, n_jobs=1),
        ht.LinearTreeRegressor(random_state=0, n_jobs=1, criterion="absolute_error", max_depth=1),
        ht.LinearTreeClassifier(random_state=0, n_jobs=1, max_depth=1),
        ht.LinearForestRegressor(2, random_state=0, n_jobs=1, max_depth=1, max_features=None),
        ht.LinearForestClassifier(2, random_state=0, n_jobs=1, max_depth=1, max_features=None),
        ht.LinearRegressor(n_jobs=1),
        ht.LinearRegressor(penalty="elasticnet", alpha=0.1, n_jobs=1),
        ht.LogisticClassifier(n_jobs=1),
        ht.LogisticClassifier(penalty="lasso", alpha=0.01, n_jobs=1),
        ht.VotingRegressor(TWO, n_jobs=1),
        ht.VotingRegressor(TWO, weights="validation", cv=2, average="median", n_jobs=1),
        ht.VotingClassifier(TWO_FOR_CLASSES, n_jobs=1),
        ht.VotingClassifier(TWO_FOR_CLASSES, voting="soft", weights="validation", cv=2, n_jobs=1),
        ht.StackingRegressor(TWO, LINE, cv=2, n_jobs=1),
        ht.StackingRegressor(TWO, TREE, cv=2, passthrough=True, n_jobs=1),
        ht.StackingClassifier(TWO_FOR_CLASSES, CLASS_TREE, cv=2, n_jobs=1),
        ht.ModelAverageRegressor(TWO, cv=2, n_jobs=1),
        ht.ModelAverageRegressor(TWO, weights="bic", n_jobs=1),
        ht.ModelAverageClassifier(TWO_FOR_CLASSES, weights="greedy", cv=2, n_jobs=1),
        ht.AutoRegressor(quality=1, n_jobs=1),
        ht.AutoClassifier(quality=1, n_jobs=1),
        ht.MixtureOfExpertsRegressor(n_restarts=2, tol=1e-3, random_state=0, n_jobs=1),
        ht.MixtureOfExpertsRegressor(
            expert="tree", n_restarts=1, tol=1e-3, random_state=0, n_jobs=1
        ),
        ht.MixtureOfExpertsClassifier(n_restarts=2, tol=1e-3, random_state=0, n_jobs=1),
        ht.MixtureOfExpertsClassifier(
            expert="tree", n_restarts=1, tol=1e-3, random_state=0, n_jobs=1
        ),
    ],
    expected_failed_checks=expected_failures,
)  # fmt: skip
def test_check_estimator(estimator, check):
    check(estimator)
