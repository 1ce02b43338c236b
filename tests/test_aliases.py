"""Names of other libraries: what they stand for, what is refused, what is stored."""

import inspect

import numpy as np
import pytest
from sklearn import ensemble, tree
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import hybridtrees as ht
from hybridtrees._aliases import ALIASES, Alias, own_names
from hybridtrees._parameters import clone as own_clone

X = np.random.default_rng(0).normal(size=(60, 3))
y = X[:, 0] + X[:, 1] ** 2

CLASSES = [getattr(ht, name) for name in ht.__all__ if isinstance(getattr(ht, name), type)]
TAKING = [cls for cls in CLASSES if getattr(cls, "_dialects", ())]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"eta": 0.1, "lambda": 2.0, "alpha": 1.0},
         dict(learning_rate=0.1, reg_lambda=2.0, reg_alpha=1.0)),
        ({"seed": 3, "nthread": 1, "min_split_loss": 0.5},
         dict(random_state=3, n_jobs=1, gamma=0.5)),
        ({"silent": True, "use_label_encoder": False}, dict(verbosity=0)),
        ({"silent": False}, {}),
        ({"num_leaves": 7, "lambda_l1": 1.0, "lambda_l2": 0.0},
         dict(max_leaves=7, reg_alpha=1.0, reg_lambda=0.0)),
        ({"feature_fraction": 0.5, "bagging_fraction": 0.6, "bagging_freq": 1},
         dict(colsample_bytree=0.5, subsample=0.6)),
        ({"bagging_freq": 0}, dict(subsample=1.0)),
        ({"linear_tree": False, "boosting_type": "gbdt"}, {}),
        ({"objective": "binary", "verbose": -1, "verbosity": -1, "importance_type": "split"},
         dict(objective="binary:logistic", verbose=0, verbosity=0, importance_type="weight")),
        ({"num_trees": 5, "sub_row": 0.5, "random_seed": 3, "max_depth": -1},
         dict(n_estimators=5, subsample=0.5, random_state=3, max_depth=0)),
        ({"subsample_for_bin": 1000, "class_weight": None, "application": "rmse"},
         dict(objective="reg:squarederror")),
        ({"objective": "mae", "num_class": 3, "verbose": True},
         dict(objective="reg:absoluteerror", verbose=True)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("cls", [ht.XGBRegressor, ht.XGBClassifier])
def test_names_of_xgboost_and_lightgbm(cls, given, stored):
    model = cls(**given)
    assert model.get_params() == cls(**stored).get_params()
    assert vars(model) == model.get_params()
    assert cls().set_params(**given).get_params() == model.get_params()
    assert own_clone(model).get_params() == clone(model).get_params() == model.get_params()
    assert repr(model) == repr(cls(**stored))


SKLEARN = {
    tree.DecisionTreeRegressor: ht.CARTRegressor,
    tree.DecisionTreeClassifier: ht.CARTClassifier,
    ensemble.RandomForestRegressor: ht.RandomForestRegressor,
    ensemble.RandomForestClassifier: ht.RandomForestClassifier,
    ensemble.GradientBoostingRegressor: ht.GradientBoostingRegressor,
    ensemble.GradientBoostingClassifier: ht.GradientBoostingClassifier,
}


@pytest.mark.parametrize("theirs", SKLEARN, ids=lambda cls: cls.__name__)
def test_parameters_of_scikit_learn_are_taken_as_they_are(theirs):
    ours, target = SKLEARN[theirs], y > 1 if "Classifier" in theirs.__name__ else y
    # Without ties, and with the few rows of a leaf that scikit-learn's draws do not depend on.
    params = theirs(min_samples_leaf=9, random_state=0).get_params()
    model = ours(**params)
    assert ours().set_params(**params).get_params() == model.get_params()
    assert clone(model).get_params() == model.get_params()
    assert vars(model) == model.get_params()
    # Every value is either taken as it is, or stands for a default.
    for name, value in params.items():
        assert getattr(model, name) in (value, ours._parameter_defaults()[name]), name
    gap = np.abs(
        model.fit(X, target).score(X, target) - theirs(**params).fit(X, target).score(X, target)
    )
    assert gap < (0.05 if "Forest" in theirs.__name__ else 1e-9)


def test_retired_criterion_of_boosting():
    assert ht.GradientBoostingRegressor(criterion="deprecated").criterion == "friedman_mse"
    model = ht.GradientBoostingRegressor(criterion="squared_error")
    assert model.criterion == "squared_error"
    assert model.set_params(criterion="deprecated").criterion == "friedman_mse"
    assert ht.CARTRegressor(splitter="hist").set_params(splitter="best").splitter == "exact"
    with pytest.raises(ValueError, match="splitter must be one of .* got 'first'"):
        ht.CARTRegressor(splitter="first").fit(X, y)


def test_names_of_lightgbm_and_of_the_other_families_in_plgb():
    given = dict(min_child_samples=5, linear_tree=False, num_leaves=4, lambda_l2=0.5, n_jobs=1)
    model = ht.PLGBRegressor(**given)
    stored = dict(min_samples_leaf=5, max_leaf_features=0, max_leaves=4, reg_lambda=0.5, n_jobs=1)
    assert model.get_params() == ht.PLGBRegressor(**stored).get_params()
    assert ht.PLGBRegressor(linear_tree=True).get_params() == ht.PLGBRegressor().get_params()
    both = dict(max_leaf_nodes=9, max_bins=99, monotonic_cst=[1, 0, 0], max_features=0.5)
    model = ht.PLGBClassifier(**both)
    assert (model.max_leaves, model.max_bin, model.colsample_bynode) == (9, 99, 0.5)
    assert model.monotone_constraints == [1, 0, 0]
    assert ht.PLGBClassifier(max_leaf_nodes=None).max_leaves == 0
    assert ht.PLGBClassifier(max_features=None).colsample_bynode == 1.0


def test_the_same_model_by_both_names():
    by_name = ht.XGBRegressor(n_estimators=5, learning_rate=0.1, reg_lambda=3.0).fit(X, y)
    by_alias = ht.XGBRegressor(num_iterations=5, eta=0.1, **{"lambda": 3.0}).fit(X, y)
    assert np.array_equal(by_name.predict(X), by_alias.predict(X))
    dialects = dict(n_estimators=5, max_leaf_nodes=6, max_bins=30)
    by_alias = ht.PLGBRegressor(**dialects).fit(X, y)
    by_name = ht.PLGBRegressor(n_estimators=5, max_leaves=6, max_bin=30).fit(X, y)
    assert np.array_equal(by_name.predict(X), by_alias.predict(X))


def test_grids_over_aliases():
    search = GridSearchCV(ht.XGBRegressor(n_estimators=5), {"eta": [0.01, 0.3]}, cv=2).fit(X, y)
    assert search.best_params_ == {"eta": 0.3}
    assert search.best_estimator_.learning_rate == 0.3
    assert search.get_params()["estimator__learning_rate"] == 0.3
    assert search.set_params(estimator__eta=0.2).estimator.learning_rate == 0.2


def test_two_names_of_one_parameter():
    same = ht.XGBRegressor(eta=0.1, learning_rate=0.1)
    assert same.learning_rate == 0.1
    # As xgboost's own get_params has it for an estimator that was made with eta.
    assert ht.XGBRegressor(eta=0.1, learning_rate=None).learning_rate == 0.1
    assert ht.XGBRegressor(eta=None, learning_rate=0.2).learning_rate == 0.2
    message = "XGBRegressor got learning_rate=0.3 and eta=0.1, which both set learning_rate"
    for call in (ht.XGBRegressor, ht.XGBRegressor().set_params):
        with pytest.raises(ValueError, match=message):
            call(eta=0.1, learning_rate=0.3)
    with pytest.raises(ValueError, match="got eta=0.1 and shrink=0.2, which both set learning_r"):
        own_names(_Two, {"eta": 0.1, "shrink": 0.2}, ["learning_rate"])


class _Two:
    _dialects = ("xgboost", "two")


@pytest.fixture(autouse=True)
def _two(monkeypatch):
    monkeypatch.setitem(ALIASES, "two", {"shrink": Alias("learning_rate")})


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (dict(max_dept=3), TypeError, r"XGBRegressor\.__init__\(\) got an unexpected keyword "
         "argument 'max_dept': did you mean 'max_depth'"),
        (dict(linear_tree=True), ValueError, "linear_tree=True of XGBRegressor: .* PLGBRegressor"),
        (dict(linear_lambda=1), TypeError, "XGBRegressor has no parameter 'linear_lambda': "),
        (dict(min_child_samples=3), TypeError, "'min_child_samples': use min_child_weight"),
        (dict(bagging_freq=5), ValueError, "bagging_freq=5 of XGBRegressor: .* use 1, or 0"),
        (dict(bagging_freq=0, subsample=0.5), ValueError, "both set subsample"),
        (dict(boosting_type="rf"), ValueError, "boosting_type='rf' of .*RandomForestRegressor"),
        (dict(rate_drop=0.1), TypeError, "no parameter 'rate_drop': .* booster='gbtree'"),
    ],
)  # fmt: skip
def test_refusals_name_the_class_and_what_to_use(given, error, message):
    with pytest.raises(error, match=message):
        ht.XGBRegressor(**given)


def test_a_refused_name_sets_nothing():
    model = ht.XGBRegressor()
    with pytest.raises(TypeError, match="rate_drop"):
        model.set_params(max_depth=3, rate_drop=0.1)
    assert model.get_params() == ht.XGBRegressor().get_params()


def test_the_table_is_of_use():
    used = {dialect for cls in TAKING for dialect in cls._dialects} | {"two"}
    assert used == set(ALIASES)
    for dialect, names in ALIASES.items():
        takers = [cls for cls in TAKING if dialect in cls._dialects]
        for name, alias in names.items():
            if isinstance(alias.to, str):
                known = [alias.to in cls._parameter_defaults() for cls in takers]
                assert (any(known) == bool(alias.to)) or not takers, name
                assert all(known) or alias.hint, f"{name} needs a hint"


@pytest.mark.parametrize("cls", TAKING, ids=lambda cls: cls.__name__)
def test_signatures_stay_one_list(cls):
    kinds = {p.kind for p in inspect.signature(cls).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds
    names = set(inspect.signature(cls).parameters)
    # A name that the class has itself is in the table only for values that need reading.
    entries = [entry for dialect in cls._dialects for entry in ALIASES[dialect].items()]
    assert not names & {name for name, alias in entries if isinstance(alias.to, str)}
