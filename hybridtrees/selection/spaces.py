"""What a search tries: the values of parameters by default, and those that users pass."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Setting = dict[str, Any]
Space = dict[str, Any]  # from a parameter to a list of values or a distribution

_RATES = [0.03, 0.05, 0.1, 0.2]
_SHARES = [0.5, 0.7, 0.85, 1.0]
_LEAF_ROWS = [1, 2, 5, 10, 20, 50]
_PENALTIES = [1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0]
_LINES = {"penalty": ["ridge", "lasso", "elasticnet"], "alpha": _PENALTIES}

# By the name of a class without "Regressor" or "Classifier". The table of the guide has the same.
DEFAULT_SPACES: dict[str, Space] = {
    "XGB": {
        "learning_rate": _RATES,
        "max_depth": [2, 3, 4, 5, 6, 8, 10],
        "min_child_weight": [0.3, 1.0, 3.0, 10.0, 30.0],
        "subsample": _SHARES,
        "colsample_bytree": _SHARES,
        "reg_lambda": [0.3, 1.0, 3.0, 10.0, 30.0],
    },
    "PLGB": {
        "learning_rate": _RATES,
        "max_leaves": [4, 8, 16, 31],
        "max_leaf_features": [0, 1, 3, 5, 10],
        "min_samples_leaf": [None, 10, 30, 100],
        "subsample": _SHARES,
        "colsample_bytree": _SHARES,
        "reg_lambda": [0.3, 1.0, 3.0, 10.0, 30.0, 100.0],
    },
    "GradientBoosting": {
        "learning_rate": _RATES,
        "max_depth": [2, 3, 4, 5, 6, 8],
        "min_samples_leaf": _LEAF_ROWS,
        "subsample": _SHARES,
        "max_features": [None, 0.7, 0.5, 0.3],
    },
    "RandomForest": {
        "max_features": ["sqrt", "third", 0.5, 0.7, 1.0],
        "min_samples_leaf": [1, 2, 3, 5, 10, 20],
        "max_samples": [None, 0.7, 0.5],
    },
    "CART": {
        "max_depth": [2, 3, 4, 5, 6, 8, 10, None],
        "min_samples_leaf": _LEAF_ROWS,
        "ccp_alpha": [0.0, "cv"],
    },
    "LinearTree": {
        "max_depth": [1, 2, 3, 4, 5, 7],
        "min_samples_leaf": ["auto", 0.01, 0.02, 0.05, 0.1],
        "alpha": _PENALTIES,
    },
    "LinearForest": {
        "max_depth": [1, 2, 3, 5],
        "max_features": [0.3, 0.5, 1.0],
        "alpha": _PENALTIES,
    },
    "RERF": {
        "alpha": _PENALTIES,
        "max_depth": [2, 4, 8, None],
        "max_features": ["sqrt", "third", 0.5, 1.0],
        "min_samples_leaf": [1, 3, 5, 10, 20],
    },
    "EBLR": {
        "n_rules": [3, 5, 10, 20, 40],
        "max_depth": [1, 2, 3, 4],
        "min_samples_leaf": _LEAF_ROWS,
        "penalty": ["ridge"],
        "alpha": _PENALTIES,
    },
    "AdaBoost": {
        "n_estimators": [25, 50, 100, 200],
        "max_depth": [1, 2, 3, 4, 6, 8],
        "learning_rate": [0.05, 0.1, 0.3, 1.0],
    },
    "Linear": _LINES,
    "Logistic": _LINES,
    "MixtureOfExperts": {"n_experts": [2, 3, 4, 6], "alpha": _PENALTIES, "gate_alpha": _PENALTIES},
}


def default_space(estimator: Any) -> Space:
    """Return the values that are tried of a family by default."""
    name = type(estimator).__name__
    family = name.removesuffix("Regressor").removesuffix("Classifier")
    if family not in DEFAULT_SPACES or not type(estimator).__module__.startswith("hybridtrees."):
        raise ValueError(f"there are no default values for {name}: say what to try by params")
    return dict(DEFAULT_SPACES[family])


def read_spaces(params: Any, estimator: Any) -> list[Space]:
    """Return the spaces of the parameter `params`, each a dict, after checks."""
    if params is None:
        return [default_space(estimator)]
    spaces = [params] if isinstance(params, Mapping) else params
    if isinstance(spaces, str) or not isinstance(spaces, Sequence):
        raise TypeError(f"params must be a dict or a list of dicts, got {params!r}")
    if not len(spaces):
        raise ValueError("params is an empty list: name at least one parameter to try")
    known = estimator.get_params()
    return [_read_space(space, known, type(estimator).__name__) for space in spaces]


def _read_space(space: Any, known: Mapping[str, Any], owner: str) -> Space:
    if not isinstance(space, Mapping):
        raise TypeError(f"params must hold dicts, got {space!r}")
    if not space:
        raise ValueError("params is an empty dict: name at least one parameter to try")
    found: Space = {}
    for name, values in space.items():
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known)}"
            raise ValueError(f"params names {name!r}, which {owner} does not have{hint}")
        if callable(getattr(values, "rvs", None)):
            found[name] = values
            continue
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
            raise TypeError(
                f"params[{name!r}] must be a list of values or a distribution with rvs, got "
                f"{values!r}"
            )
        found[name] = [_plain(value) for value in values]
        if not found[name]:
            raise ValueError(f"params[{name!r}] is empty: give at least one value")
    return found


def draw_settings(spaces: list[Space], n_drawn: int, rng: np.random.Generator) -> list[Setting]:
    """Draw different settings; all combinations in turn where these are no more than asked for."""
    sizes = [_n_combinations(space) for space in spaces]
    if sum(sizes) <= n_drawn:
        return [_combination(s, k) for s, size in zip(spaces, sizes, strict=True)
                for k in range(int(size))]  # fmt: skip
    settings: dict[str, Setting] = {}
    # Most draws are new ones; of the last few combinations many are not.
    for _ in range(20 * n_drawn):
        space = spaces[int(rng.integers(len(spaces)))]
        setting = {name: _draw(name, values, rng) for name, values in space.items()}
        settings.setdefault(repr(sorted(setting.items(), key=lambda item: item[0])), setting)
        if len(settings) == n_drawn:
            break
    return list(settings.values())


def _n_combinations(space: Space) -> float:
    return math.prod(len(v) if isinstance(v, list) else math.inf for v in space.values())


def _combination(space: Space, number: int) -> Setting:
    setting = {}
    for name, values in reversed(space.items()):
        number, place = divmod(number, len(values))
        setting[name] = values[place]
    return dict(reversed(setting.items()))


def _draw(name: str, values: Any, rng: np.random.Generator) -> Any:
    if isinstance(values, list):
        return values[int(rng.integers(len(values)))]
    try:
        return _plain(values.rvs(random_state=rng))
    except TypeError as error:
        raise TypeError(f"params[{name!r}]: rvs(random_state=...) failed: {error}") from error


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as a Python number."""
    return value.item() if isinstance(value, np.generic | np.ndarray) and value.ndim == 0 else value
