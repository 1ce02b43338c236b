"""Names that other libraries have for parameters: one table, read by one function.

A class lists the libraries whose names it takes in `_dialects`, the first that knows a name wins.
Constructors and `set_params` translate such names before they store anything: attributes,
`get_params` and everything built on them (clones, grids, files) hold the class's own names only.
The table also reads values that another library writes otherwise under a name that both have.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

# From the value of a name and the names of a class's own parameters to values of these.
Reading = Callable[[Any, Collection[str]], Mapping[str, Any]]


@dataclass(frozen=True)
class Alias:
    """What a name of another library stands for.

    Attributes
    ----------
    to : str or function
        A parameter of the same meaning; a class without it gives the hint. Or a function that
        returns the parameters that a value stands for, and raises a ValueError for a value that
        has no counterpart.
    hint : str
        What to use instead, for the end of an error message.
    """

    to: str | Reading = ""
    hint: str = ""


# -- values that are read ---------------------------------------------------------------------


def _nothing(value: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Take any value, without effect."""
    return {}


def _silent(value: Any, known: Collection[str]) -> Mapping[str, Any]:
    return {"verbosity": 0} if value else {}


def _bagging_freq(value: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Read the number of rounds that use one draw of rows; 0 draws none."""
    if value not in (None, 0, 1):
        raise ValueError("rows are drawn for every round: use 1, or 0 for all rows")
    return {"subsample": 1.0} if value == 0 else {}


def _boosting(value: Any, known: Collection[str]) -> Mapping[str, Any]:
    if value in (None, "gbdt", "gbrt"):
        return {}
    instead = ""
    if value in ("rf", "random_forest"):
        instead = "; use RandomForestRegressor or RandomForestClassifier"
    elif value == "goss":
        instead = "; use sampling_method='gradient_based' and subsample"
    raise ValueError(f"only 'gbdt' is supported{instead}")


def _class_weight(value: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Read the weights of classes, which a regressor of LightGBM has too."""
    if "class_weight" in known:
        return {"class_weight": value}
    if value is not None:
        raise ValueError("there are no classes in a regressor: use sample_weight in fit")
    return {}


def _renamed(parameter: str, names: Mapping[Any, Any]) -> Reading:
    """Return a reading of values that have other names here."""

    def read(value: Any, known: Collection[str]) -> Mapping[str, Any]:
        plain = isinstance(value, str | int) and not isinstance(value, bool)
        return {parameter: names.get(value, value) if plain else value}

    return read


_LIGHTGBM_OBJECTIVES = {
    **dict.fromkeys(
        ("regression", "regression_l2", "l2", "mse", "rmse", "mean_squared_error"),
        "reg:squarederror",
    ),
    **dict.fromkeys(("regression_l1", "l1", "mae", "mean_absolute_error"), "reg:absoluteerror"),
    **dict.fromkeys(("multiclass", "softmax"), "multi:softprob"),
    "binary": "binary:logistic",
    "gamma": "reg:gamma",
    "poisson": "count:poisson",
    "quantile": "reg:quantileerror",
    "tweedie": "reg:tweedie",
}


def _linear_tree(value: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Read whether leaves are linear, which is a matter of the class here."""
    linear = "max_leaf_features" in known
    if value and not linear:
        raise ValueError("leaves are constant here; use PLGBRegressor or PLGBClassifier")
    return {"max_leaf_features": 0} if linear and not value and value is not None else {}


def _most_leaves(value: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Read a number of leaves of which None means no limit."""
    return {"max_leaves": 0 if value is None else value}


def _splitter(value: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Read the name that scikit-learn has for a search of every threshold."""
    return {"splitter": "exact" if _is(value, "best") else value}


def _boosting_criterion(value: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Read the default of scikit-learn 1.9, which retires a parameter without effect."""
    return {"criterion": "friedman_mse" if _is(value, "deprecated") else value}


def _share_of_features(value: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Read the features drawn for each node."""
    if value is None:
        return {"colsample_bynode": 1.0}
    if not isinstance(value, float):
        raise ValueError("use colsample_bynode, the share of the features drawn for each node")
    return {"colsample_bynode": value}


def _linear_criterion(value: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Read the names that linear-tree has for losses of splits."""
    if _is(value, "rmse"):
        raise ValueError("children are compared by their mean squared errors: use 'mse'")
    if _is(value, "poisson"):
        raise ValueError("for counts use XGBRegressor(objective='count:poisson')")
    return {"criterion": _LINEAR_CRITERIA.get(value, value) if isinstance(value, str) else value}


def _rule_residual(value: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Read the names that linear-tree has for the residuals of boosting."""
    return {"residual": {"square": "squared", "entropy": "deviance"}.get(value, value)}


def _base_estimator(value: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Read a linear model, which is a penalty and its strength here."""
    kind = type(value).__name__
    if value is None:
        return {}
    if kind not in _LINEAR_MODELS:
        others = "other models cannot be fitted here: use penalty, alpha and l1_ratio"
        if kind == "RidgeClassifier":
            others = "classes have logistic regressions here: use penalty='ridge' and alpha"
        if kind in ("HuberRegressor", "QuantileRegressor", "TheilSenRegressor"):
            others = "use LinearTreeRegressor(criterion='absolute_error')"
        raise ValueError(f"{others}; {', '.join(_LINEAR_MODELS)} are read")
    if kind.startswith("Logistic") and "class_weight" not in known:
        raise ValueError(f"{kind} is for classes: use a regression, or a classifier here")
    params = value.get_params(deep=False)
    if not params["fit_intercept"] and "fit_intercept" not in known:
        raise ValueError("there is always an intercept in a leaf: leave out fit_intercept=False")
    if params.get("positive"):
        raise ValueError("coefficients may have any sign: leave out positive=True")
    found = _LINEAR_MODELS[kind](params)
    if found.get("alpha_scaling") == "sum" and "alpha_scaling" not in known:
        alpha = found["alpha"]
        alpha = f"{alpha:g}" if isinstance(alpha, numbers.Real) else repr(alpha)
        raise ValueError(
            f"alpha counts per row here: use penalty={found['penalty']!r}, "
            f"alpha={alpha} / n for n rows, and standardize=False"
        )
    return {**found, "fit_intercept": params["fit_intercept"]}


def _as_it_is(params: Mapping[str, Any]) -> dict[str, Any]:
    names = ("penalty", "alpha", "l1_ratio", "standardize", "alpha_scaling")
    return {name: params[name] for name in names if name in params}


def _shrunk(penalty: str, **more: Any) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return a reader of scikit-learn's regressions under this penalty."""
    return lambda params: {
        "penalty": penalty,
        **{name: params[name] for name in ("alpha", "l1_ratio") if name in params},
        "standardize": False,
        **more,
    }


def _logistic(params: Mapping[str, Any]) -> dict[str, Any]:
    """Read a LogisticRegression; newer versions have `C` and `l1_ratio` without `penalty`."""
    given, share, strength = params.get("penalty"), params.get("l1_ratio"), params["C"]
    if given == "none" or ("penalty" in params and given is None) or strength == math.inf:
        return {"penalty": None}
    if not isinstance(strength, int | float) or not strength > 0:
        raise ValueError(f"C must be a number above 0, got {strength!r}")
    share = {"l1": 1.0, "l2": 0.0}.get(str(given), share) or 0.0
    penalty = {0.0: "ridge", 1.0: "lasso"}.get(share, "elasticnet")
    found = {"penalty": penalty, "alpha": 1.0 / strength, "standardize": False}
    if penalty == "elasticnet":
        found["l1_ratio"] = share
    if params.get("class_weight") is not None:
        found["class_weight"] = params["class_weight"]
    return {**found, "alpha_scaling": "sum"}


_LINEAR_CRITERIA = {
    "mse": "squared_error",
    "mae": "absolute_error",
    "hamming": "misclassification",
    "crossentropy": "log_loss",
}
# Linear models, from their parameters to ours.
_LINEAR_MODELS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "LinearRegression": lambda params: {"penalty": None},
    "Ridge": _shrunk("ridge", alpha_scaling="sum"),
    "Lasso": _shrunk("lasso"),
    "ElasticNet": _shrunk("elasticnet"),
    "LogisticRegression": _logistic,
    "LinearRegressor": _as_it_is,
    "LogisticClassifier": _as_it_is,
}


# -- the table --------------------------------------------------------------------------------

_NO_DART = Alias(hint="no tree is dropped here: booster='gbtree' is the only booster")
_NO_RANKING = Alias(hint="there is no ranking here; hybridtrees has regression and classification")
_NO_SURVIVAL = Alias(hint="there are no survival models here")
_NO_GPU = Alias(hint="there is no GPU here: leave it out")
_NO_LINES = Alias(
    hint="slopes are penalised by reg_lambda of PLGBRegressor and PLGBClassifier, per standard "
    "deviation of a feature"
)
_ROWS_OF_LEAF = Alias(
    "min_samples_leaf",
    "use min_child_weight, which counts rows under squared error and hessians else, or "
    "PLGBRegressor or PLGBClassifier, which have min_samples_leaf",
)

ALIASES: dict[str, dict[str, Alias]] = {
    "xgboost": {
        "alpha": Alias("reg_alpha"),
        "eta": Alias("learning_rate"),
        "lambda": Alias("reg_lambda"),
        "lambda_": Alias("reg_lambda"),
        "min_split_loss": Alias("gamma"),
        "nthread": Alias("n_jobs"),
        "num_boost_round": Alias("n_estimators"),
        "num_class": Alias(_nothing),  # classes are counted in y
        "seed": Alias("random_state"),
        "silent": Alias(_silent),
        "use_label_encoder": Alias(_nothing),
        "aft_loss_distribution": _NO_SURVIVAL,
        "aft_loss_distribution_scale": _NO_SURVIVAL,
        "gpu_id": _NO_GPU,
        "predictor": Alias(hint="there is one predictor: leave it out"),
        "lambdarank_num_pair_per_sample": _NO_RANKING,
        "lambdarank_pair_method": _NO_RANKING,
        "normalize_type": _NO_DART,
        "one_drop": _NO_DART,
        "rate_drop": _NO_DART,
        "sample_type": _NO_DART,
        "skip_drop": _NO_DART,
        "feature_selector": Alias(hint="use LinearRegressor or LogisticClassifier"),
        "process_type": Alias(hint="trees are always grown: leave it out"),
        "updater": Alias(hint="use tree_method"),
    },
    "lightgbm": {
        "application": Alias(_renamed("objective", _LIGHTGBM_OBJECTIVES)),
        "bagging_fraction": Alias("subsample"),
        "bagging_freq": Alias(_bagging_freq),
        "bagging_seed": Alias(hint="use random_state"),
        "boosting": Alias(_boosting),
        "boosting_type": Alias(_boosting),
        "class_weight": Alias(_class_weight),
        "early_stopping_round": Alias("early_stopping_rounds"),
        "feature_fraction": Alias("colsample_bytree"),
        "feature_fraction_bynode": Alias("colsample_bynode"),
        "importance_type": Alias(_renamed("importance_type", {"split": "weight"})),
        "is_unbalance": Alias(hint="use class_weight='balanced' of a classifier"),
        "lambda_l1": Alias("reg_alpha"),
        "lambda_l2": Alias("reg_lambda"),
        "linear_lambda": _NO_LINES,
        "linear_tree": Alias(_linear_tree),
        "max_depth": Alias(_renamed("max_depth", {-1: 0})),
        "metric": Alias(hint="use eval_metric, with the names of xgboost"),
        "min_child_samples": _ROWS_OF_LEAF,
        "min_data": _ROWS_OF_LEAF,
        "min_data_in_leaf": _ROWS_OF_LEAF,
        "min_gain_to_split": Alias("gamma"),
        "min_split_gain": Alias("gamma"),
        "min_sum_hessian_in_leaf": Alias("min_child_weight"),
        "n_iter": Alias("n_estimators"),
        "num_iterations": Alias("n_estimators"),
        "num_leaves": Alias("max_leaves"),
        "num_threads": Alias("n_jobs"),
        "num_trees": Alias("n_estimators"),
        "objective": Alias(_renamed("objective", _LIGHTGBM_OBJECTIVES)),
        "random_seed": Alias("random_state"),
        "sub_feature": Alias("colsample_bytree"),
        "sub_row": Alias("subsample"),
        "subsample_for_bin": Alias(_nothing),  # bins are those of a sample of 200,000 rows
        "subsample_freq": Alias(_bagging_freq),
        "verbose": Alias(_renamed("verbose", {-1: 0})),
        "verbosity": Alias(_renamed("verbosity", {-1: 0})),
        "data_sample_strategy": Alias(hint="use sampling_method='gradient_based' for 'goss'"),
        "extra_trees": Alias(hint="thresholds are not drawn here; see ExtraTreesRegressor"),
        "min_data_in_bin": Alias(hint="bins have about as many rows each: leave it out"),
        "path_smooth": Alias(hint="use reg_lambda"),
    },
    # Values that mean the same here under another name; the names themselves are taken as they are.
    "scikit-learn trees": {"splitter": Alias(_splitter)},
    "scikit-learn boosting": {"criterion": Alias(_boosting_criterion)},
    # Its LinearForest* is our RERF*, its LinearBoost* our EBLR*.
    "linear-tree": {"base_estimator": Alias(_base_estimator)},
    "trees of linear-tree": {"criterion": Alias(_linear_criterion)},
    "boosting of linear-tree": {"loss": Alias(_rule_residual), "n_estimators": Alias("n_rules")},
    "forests of linear trees": {
        "base_estimator": Alias(
            hint="this is a forest of linear trees, with penalty and alpha; LinearForestRegressor "
            "and LinearForestClassifier of linear-tree are RERFRegressor and RERFClassifier here"
        )
    },
    # The names that the other families of this library share, for boosting in xgboost's.
    "common": {
        "interaction_cst": Alias("interaction_constraints"),
        "l2_regularization": Alias("reg_lambda"),
        "max_bins": Alias("max_bin"),
        "max_features": Alias(_share_of_features),
        "max_iter": Alias("n_estimators"),
        "max_leaf_nodes": Alias(_most_leaves),
        "monotonic_cst": Alias("monotone_constraints"),
        "min_impurity_decrease": Alias(hint="use gamma, the minimum gain of a split"),
        "min_samples_split": Alias(hint="use min_samples_leaf"),
        "n_iter_no_change": Alias(hint="use early_stopping_rounds, and X_val and y_val in fit"),
        "validation_fraction": Alias(hint="use X_val and y_val in fit"),
        "splitter": Alias(hint="thresholds are the edges of bins: leave it out"),
    },
}


# -- the function -----------------------------------------------------------------------------


def own_names(cls: Any, given: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return what was given under the names that a class has itself, its `known` parameters.

    Names that nobody knows stay. A TypeError or ValueError tells what to use instead of a name or
    value that has no counterpart, and of two names of one parameter with different values.
    """
    own = {
        name: _own_value(cls, name, value, known) for name, value in given.items() if name in known
    }
    from_name = dict.fromkeys(own, "")
    for name, value in given.items():
        if name in known:
            continue
        alias = find_alias(cls, name, known)
        if alias is None:
            own[name] = value
            continue
        for parameter, meant in _meaning(cls, name, alias, value, known).items():
            # None is the default wherever it is given, so it does not contradict a value.
            if own.get(parameter) is None:
                own[parameter] = meant
                from_name[parameter] = name
            elif meant is not None and not _same(own[parameter], meant):
                first = from_name[parameter] or parameter
                raise ValueError(
                    f"{cls.__name__} got {first}={given[first]!r} and {name}={value!r}, which "
                    f"both set {parameter}: give one of them"
                )
    return own


def find_alias(cls: Any, name: str, known: Collection[str]) -> Alias | None:
    """Return what a name stands for in the first dialect of a class that has it."""
    for dialect in cls._dialects:
        alias = ALIASES[dialect].get(name)
        if alias is not None:
            return alias
    return None


def unknown_name(cls: Any, name: str, known: Collection[str]) -> str:
    """Return the end of a message about a name that nobody knows: the nearest that is known."""
    near = difflib.get_close_matches(name, known, n=1)
    return f": did you mean {near[0]!r}?" if near else ""


def _own_value(cls: Any, name: str, value: Any, known: Collection[str]) -> Any:
    """Return a value of a parameter of the class, which another library may write otherwise."""
    alias = find_alias(cls, name, known)
    return value if alias is None else _meaning(cls, name, alias, value, known)[name]


def _meaning(
    cls: Any, name: str, alias: Alias, value: Any, known: Collection[str]
) -> Mapping[str, Any]:
    """Return the parameters that a value under another library's name stands for."""
    if isinstance(alias.to, str):
        if alias.to in known:
            return {alias.to: value}
        raise TypeError(f"{cls.__name__} has no parameter {name!r}: {alias.hint}")
    try:
        meant = alias.to(value, known)
    except ValueError as error:
        raise ValueError(f"{name}={value!r} of {cls.__name__}: {error}") from None
    return {parameter: one for parameter, one in meant.items() if parameter in known}


def _is(value: Any, word: str) -> bool:
    """Whether a value, of any type, is this string."""
    return isinstance(value, str) and value == word


def _same(a: Any, b: Any) -> bool:
    """Whether two values are the same; arrays and NaN too."""
    return a is b or repr(a) == repr(b) or (type(a) in (int, float) and bool(a == b))
